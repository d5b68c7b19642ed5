"""How a command writes a file that it was given the name of: as a whole or not at all."""

from __future__ import annotations

from pathlib import Path

from vgpu_cfg.documents import put_whole, take_name
from vgpu_cfg.errors import DocumentError, DocumentFault


def write_whole(path: Path, text: str, *, force: bool) -> None:
    """Write a new file; with `force` in the place of one.

    A link is replaced, not followed. Raises DocumentError where that cannot be, and where a file is.
    """

    def put(draft: Path) -> None:
        if force:
            draft.replace(path)
        else:
            take_name(draft, path)

    try:
        put_whole(path, text, put)
    except OSError as error:
        fault = DocumentFault(str(path), 1, 1, f"the file cannot be written: {error.strerror or error}")
        raise DocumentError([fault], remedy="name a file in a folder that you may write to") from error
