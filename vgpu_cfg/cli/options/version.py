"""What a report of a bug must say about an installation: versions of vgpu-cfg, Python and its libraries."""

from __future__ import annotations

import typer

LIBRARIES = ("pyvmomi", "pydantic", "highspy", "paramiko")
"""They decide what vCenter is asked, how a plan file is read, where VMs go and how shells answer."""


def version_lines() -> list[str]:
    """Return the version alone, where a script reads it, and a line of what it runs on."""
    import platform
    from importlib.metadata import version

    from vgpu_cfg import __version__

    system = f"Python {platform.python_version()} on {platform.system()} {platform.machine()}"
    libraries = (f"{name} {version(name)}" for name in LIBRARIES)
    return [f"vgpu-cfg {__version__}", ", ".join((system, *libraries))]


def print_version(wanted: bool) -> None:
    """Print the versions and end the program, where the option is given."""
    if wanted:
        typer.echo("\n".join(version_lines()))
        raise typer.Exit
