"""The data that comes with the program: boards, NICs, servers, drivers, versions, and thresholds."""

from __future__ import annotations

from pathlib import Path


def data_path(*parts: str) -> Path:
    """Return a file or folder of the data. Raises FileNotFoundError."""
    package = Path(__file__).parents[1]
    for folder in (package / "_profiles", package.parent / "profiles"):  # installed; a source checkout
        path = folder.joinpath(*parts)
        if path.exists():
            return path
    raise FileNotFoundError(f"{'/'.join(('profiles', *parts))} is missing from {package}: reinstall vgpu-cfg")
