"""How a file that is written is there as a whole or not at all, never where a link leads, and for whom.

What tells of an estate or of a plan is for its user's eyes: see `PRIVATE`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from itertools import takewhile
from pathlib import Path
from tempfile import NamedTemporaryFile

PRIVATE = 0o600
"""The mode of a file that its user alone may read."""


def put_whole(
    path: Path, content: str | bytes, put: Callable[[Path], object], *, mode: int | None = None
) -> None:
    """Write a text or bytes into a draft beside a file, and let `put` give the draft the file's name.

    Without a `mode` the file has the rights that the umask leaves. Raises OSError where that cannot be, and
    where a folder, a terminal or a pipe has the name.
    """
    if path.exists() and not path.is_file():
        raise OSError("it is no file")
    with NamedTemporaryFile("wb", dir=path.parent, prefix=f".{path.name}.", delete=False) as file:
        draft = Path(file.name)
        file.write(content.encode() if isinstance(content, str) else content)
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


def make_private_folder(folder: Path) -> None:
    """Make a folder that its user alone may enter, with those above it that are missing. Raises OSError."""
    missing = list(takewhile(lambda one: not one.exists(), (folder, *folder.parents)))
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)


def _umask() -> int:
    kept = os.umask(0o077)
    os.umask(kept)
    return kept
