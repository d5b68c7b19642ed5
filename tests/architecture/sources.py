"""Which files belong to the project: what git tracks, and what it would if it were told to."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "vgpu_cfg"


@cache
def project_files() -> tuple[Path, ...]:
    """List the project's files; those that git ignores are not the project's."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    paths = (ROOT / name for name in listed.split("\0") if name)
    return tuple(sorted(path for path in paths if path.is_file()))


def modules(folder: Path = PACKAGE) -> tuple[Path, ...]:
    """List the Python files under a folder."""
    return tuple(path for path in project_files() if path.suffix == ".py" and path.is_relative_to(folder))


def named(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()
