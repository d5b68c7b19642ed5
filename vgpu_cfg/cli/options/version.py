"""Details of an installation for a bug report: versions of vgpu-cfg, Python and its libraries."""

from __future__ import annotations

import typer

LIBRARIES = ("pyvmomi", "pydantic", "highspy", "paramiko")
"""The libraries for vCenter's requests, plan files, placement and shells."""


def version_lines() -> list[str]:
    """Return the version alone on a line for scripts, and a line with its platform."""
    import platform
    from importlib.metadata import version

    from vgpu_cfg import __version__

    system = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    libraries = (f"{name} {version(name)}" for name in LIBRARIES)
    return [f"vgpu-cfg {__version__}", ", ".join((system, *libraries))]


def print_version(wanted: bool) -> None:
    """Print the versions and end the program if the option is given."""
    if wanted:
        typer.echo("\n".join(version_lines()))
        raise typer.Exit
