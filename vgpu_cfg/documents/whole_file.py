"""How a file that is written is there as a whole or not at all, and never where a link leads."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import NamedTemporaryFile


def put_whole(path: Path, text: str, put: Callable[[Path], object], *, mode: int | None = None) -> None:
    """Write a text into a draft beside a file, and let `put` give the draft the file's name.

    Without a `mode` the file has the rights that the umask leaves. Raises OSError where that cannot be.
    """
    with NamedTemporaryFile(
        "w", encoding="utf-8", dir=path.parent, prefix=f".{path.name}.", delete=False
    ) as file:
        draft = Path(file.name)
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    try:
        draft.chmod(0o666 & ~_umask() if mode is None else mode)
        put(draft)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def take_name(draft: Path, path: Path) -> None:
    """Give a draft the name of a file that is not there; raises FileExistsError where the name is taken."""
    try:
        path.hardlink_to(draft)
    except FileExistsError:
        raise
    except OSError:  # a file system without hard links
        if path.exists():
            raise FileExistsError(str(path)) from None
        draft.rename(path)


def _umask() -> int:
    kept = os.umask(0o077)
    os.umask(kept)
    return kept
