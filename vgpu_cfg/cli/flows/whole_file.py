"""How a file that a command writes is there as a whole or not at all, and never where a link leads."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile

from vgpu_cfg.errors import DocumentError, DocumentFault


def write_whole(path: Path, text: str, *, force: bool) -> None:
    """Write a new file, with the rights that the umask leaves; with `force` in the place of one.

    A link is replaced, not followed. Raises DocumentError where that cannot be, and where a file is.
    """
    try:
        with NamedTemporaryFile(
            "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
        ) as file:
            draft = Path(file.name)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        try:
            draft.chmod(0o666 & ~_umask())
            if force:
                draft.replace(path)
            else:
                path.hardlink_to(draft)
        finally:
            with suppress(FileNotFoundError):
                draft.unlink()
    except OSError as error:
        fault = DocumentFault(str(path), 1, 1, f"the file cannot be written: {error.strerror or error}")
        raise DocumentError([fault], remedy="name a file in a folder that you may write to") from error


def _umask() -> int:
    kept = os.umask(0o077)
    os.umask(kept)
    return kept
