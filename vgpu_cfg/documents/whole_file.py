"""Write files whole or not at all, never through a link, and with the right permissions.

Files about an estate or a plan are private to their user: see `PRIVATE`.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import ExitStack, suppress
from itertools import takewhile
from pathlib import Path
from tempfile import NamedTemporaryFile

PRIVATE = 0o600
"""The mode of a file that its user alone may read."""
_WRITTEN = os.O_WRONLY | os.O_APPEND | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOCTTY", 0)
_pipes = ExitStack()
"""Keeps the pipes open that were probed: the first program that closes one ends its reader."""


def put_whole(
    path: Path, content: str | bytes, put: Callable[[Path], object], *, mode: int | None = None
) -> None:
    """Write a text or bytes into a draft next to a file, and let `put` give the draft the file's name.

    Without a `mode` the file has the rights that the umask leaves. Raises OSError if that is not possible,
    and if a folder, a terminal or a pipe has the name.
    """
    if path.exists() and not path.is_file():
        raise OSError("it is not a regular file")
    file = NamedTemporaryFile(  # noqa: SIM115 - its draft goes whatever fails, the writing too
        "wb", dir=path.parent, prefix=f".{path.name}.", delete=False
    )
    draft = Path(file.name)
    try:
        with file:
            file.write(_encoded(content))
            file.flush()
            os.fsync(file.fileno())
        draft.chmod(0o666 & ~_umask() if mode is None else mode)
        put(draft)
    finally:
        with suppress(FileNotFoundError):
            draft.unlink()


def append_whole(path: Path, content: str | bytes, *, mode: int) -> None:
    """Add to a file in one write, so that two machines' lines do not mix; make it where it is missing.

    Raises OSError, also if the name is a link that leads nowhere, or not a file.
    """
    try:
        handle = _open_written(path)
    except FileNotFoundError:
        if path.is_symlink():
            raise FileNotFoundError(errno.ENOENT, "it is a broken link", str(path)) from None
        handle = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), mode)
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is a pipe, socket or device", str(path))
        os.write(handle, _encoded(content))
    finally:
        os.close(handle)


def pass_on(path: Path, content: str) -> None:
    """Write to a terminal or a pipe. Raises OSError, also if no program reads the pipe."""
    handle = _open_written(path)
    os.set_blocking(handle, True)
    with os.fdopen(handle, "wb") as file:
        file.write(_encoded(content))


def probe_written(path: Path) -> None:
    """Raise OSError if a file cannot be written; create nothing, follow no link that leads nowhere."""
    try:
        handle = _open_written(path)
    except FileNotFoundError:
        NamedTemporaryFile(dir=path.parent, prefix=f".{path.name}.").close()
        return
    if stat.S_ISFIFO(os.fstat(handle).st_mode):
        _pipes.callback(os.close, handle)
    else:
        os.close(handle)


def _open_written(path: Path) -> int:
    """Open an existing file for writing. Raises OSError; never waits for a pipe's reader."""
    try:
        return os.open(path, _WRITTEN)
    except OSError as error:
        if error.errno == errno.ENXIO:
            raise OSError(errno.ENXIO, "it is a pipe that no process is reading", str(path)) from error
        raise


def _encoded(content: str | bytes) -> bytes:
    """Return the bytes of a text; parts of a file's name that are not UTF-8 are escaped."""
    return content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content


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
