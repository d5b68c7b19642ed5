"""The limits on reading a file, and the kinds of file never read: a pipe would block, a device never ends.

Each limit has a variable of the environment that names another.

The suggestion of the word that was probably meant.
"""

from __future__ import annotations

import difflib
import errno
import gzip
import io
import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from vgpu_cfg.errors import DocumentError, DocumentFault

_OPENED_TO_READ = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)

_LONGEST_LIST = 12


_CLOSE = 0.6


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


def close_to(word: str, known: Iterable[str], most: int = 3) -> list[str]:
    """Return the known words closest to `word`, whatever the case, the closest first.

    A typing error rarely hits the first letter, and a glob is not a mistyped name.
    """
    if set(word) & set("*?["):
        return []
    typed = word.casefold()
    folded = {choice.casefold(): choice for choice in sorted(set(known))}
    close = difflib.get_close_matches(typed, folded, most, _CLOSE)
    return [folded[one] for one in close if one[:1] == typed[:1] or one in typed or typed in one[1:]]


def by_word(meanings: Mapping[str, str]) -> dict[str, str]:
    """Return the meaning of each word: {"cpus": "vcpu cores"} gives "cpus" for both words."""
    return {word: meant for meant, words in meanings.items() for word in words.split()}


def did_you_mean(word: str, known: Iterable[str], *, noun: str = "") -> str:
    """Suggest the known word closest to `word`.

    If nothing is close, the known words are listed if they are few and `noun` (such as "keys") is given;
    otherwise the answer is empty.
    """
    choices = sorted(set(known))
    close = close_to(word, choices, 1)
    if close:
        return f"did you mean {close[0]!r}?"
    if noun and 0 < len(choices) <= _LONGEST_LIST:
        return f"available {noun}: {', '.join(choices)}"
    return ""
