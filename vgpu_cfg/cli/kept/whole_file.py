"""How a command writes a file that it was given the name of: as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

from vgpu_cfg.documents import pass_on, probe_written, put_whole, take_name
from vgpu_cfg.errors import DocumentError, DocumentFault


def write_whole(path: Path, text: str, *, force: bool = True, mode: int | None = None) -> None:
    """Write a file, with the rights that the umask leaves unless a `mode` is given.

    A link to a file is replaced, not followed; a terminal or a pipe is written to. Without `force` a file
    that is there stays. Raises DocumentError where that cannot be.
    """

    def put(draft: Path) -> None:
        if force:
            draft.replace(path)
        else:
            take_name(draft, path)

    try:
        if path.exists() and not path.is_file():
            pass_on(path, text)
        else:
            put_whole(path, text, put, mode=mode)
    except OSError as error:
        fault = DocumentFault(str(path), 1, 1, f"the file cannot be written: {error.strerror or error}")
        raise DocumentError([fault], remedy="name a file in a folder that you may write to") from error


def refuse_unwritable(path: Path, option: str) -> None:
    """Find out before any work whether a file can be written; nothing is left behind.

    Raises typer.BadParameter, which names the option.
    """
    import typer

    try:
        probe_written(path)
    except OSError as error:
        raise typer.BadParameter(f"{path} cannot be written: {error.strerror}", param_hint=option) from error
