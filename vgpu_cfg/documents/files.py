"""Read files within limits, and write them whole or not at all, never through a link, with safe permissions.

Some kinds of file are never read: a pipe would block, a device never ends. Each limit has a variable of the
environment that names another. Files about an estate or a plan are private to their user: see `PRIVATE`.
"""

from __future__ import annotations

import errno
import gzip
import io
import os
import stat
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO

from vgpu_cfg.errors import DocumentError, DocumentFault

_OPENED_TO_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Limit:
    """The most of something; `variable` is "" where nothing changes it."""

    variable: str
    default: int

    @property
    def value(self) -> int:
        """The value in effect. Raises DocumentError if the variable holds no number."""
        text = os.environ.get(self.variable, "").strip()
        if not text:
            return self.default
        if not (text.isascii() and text.isdigit() and len(text) <= 18 and int(text)):
            fault = DocumentFault(self.variable, 1, 1, f"{text!r} is not a positive whole number")
            raise DocumentError([fault], remedy="correct it, or unset it")
        return int(text)

    @property
    def remedy(self) -> str:
        """How to have more."""
        return f"; to change the limit, set {self.variable}" if self.variable else ""


MOST_FILE_BYTES = Limit("VGPU_CFG_MOST_FILE_BYTES", 512 << 10)
"""The limit of a file that people write: a plan file, its includes, variables, the config file, an estate."""
MOST_DATA_BYTES = Limit("VGPU_CFG_MOST_DATA_BYTES", 128 << 20)
"""Of a file that this program writes: a recording (packed and unpacked), a saved plan, a journal."""
MOST_NAMES = Limit("VGPU_CFG_MOST_NAMES", 20_000)
"""Of the names that a plan file writes out: VMs, hosts, networks."""


class OpenToOthersError(OSError):
    """A file that other users may access, though its content is secret."""


def read_bytes(path: str | Path, limit: Limit, *, private: bool = False) -> bytes:
    """Return a file's content. Raises OSError with its reason, also if it is not a file or too long.

    Raises OpenToOthersError if the file must be `private` and is not.
    """
    descriptor = os.open(path, _OPENED_TO_READ)
    mode = os.fstat(descriptor).st_mode
    if stat.S_ISDIR(mode):  # `fdopen` would name its number
        os.close(descriptor)
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    with os.fdopen(descriptor, "rb") as file:
        if not stat.S_ISREG(mode):
            reason = "it is a pipe, socket or device; use a regular file"
            raise OSError(errno.EINVAL, reason, str(path))
        if private and os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            reason = f"other users can access it (mode {stat.S_IMODE(mode):04o})"
            raise OpenToOthersError(errno.EACCES, reason, str(path))
        return read_within(file, limit, str(path))


def unpacked(content: bytes, limit: Limit) -> bytes:
    """Return what gzip packed. Raises OSError where that is too much, and what `gzip` raises."""
    with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
        return read_within(file, limit, "")


def read_within(file: BinaryIO | io.BufferedIOBase, limit: Limit, name: str) -> bytes:
    """Return the rest of an open file, of `name`. Raises OSError if that is too much."""
    most = limit.value
    content = file.read(most + 1)
    if len(content) > most:
        raise OSError(errno.EFBIG, f"it exceeds {most:,} bytes{limit.remedy}", name)
    return content


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
