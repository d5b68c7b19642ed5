"""How much room file systems have: `df -Pk`, in POSIX' form; and whether the root is read-only.

Sources: POSIX, df; GNU coreutils, `df -Pi`, whose columns are of inodes; proc(5), /proc/mounts.
"""

from __future__ import annotations

import re

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.text import lines_with_content

DF = "df -Pk"
_OPTIONS = 3
"""The place of a mount's options in its line."""

_ROW = re.compile(
    r"\S.*?\s+(?P<size>\d{1,18})\s+\d{1,18}\s+(?P<free>-?\d{1,18})\s+(?:\d{1,4}%|-)\s+(?P<path>/.*)"
)
KIB_A_GIB = 1024 * 1024


class Room(Frozen):
    """A file system: where it is mounted, its size and what is free, in KiB."""

    path: str
    size_kib: int
    free_kib: int

    @property
    def free_share(self) -> float:
        """The share that is free."""
        return max(0, self.free_kib) / self.size_kib if self.size_kib else 1.0

    @property
    def words(self) -> str:
        """Say how much is free of how much."""
        return (
            f"{self.path} {max(0, self.free_kib) / KIB_A_GIB:.1f} of {self.size_kib / KIB_A_GIB:.1f} GiB free"
        )


def parse_room(text: str) -> tuple[Room, ...]:
    """Read `df -Pk`; lines of paths that are not there are left out. Raises UnreadableOutput for no row."""
    rows = [found for line in lines_with_content(text) if (found := _ROW.fullmatch(line.text)) is not None]
    if not rows:
        raise UnreadableOutput(DF, "no file system", line=text.strip()[:200])
    made = (Room(path=row["path"], size_kib=int(row["size"]), free_kib=int(row["free"])) for row in rows)
    return tuple(dict.fromkeys(made))


def is_read_only(text: str) -> bool:
    """Tell whether the last mount at the root, as /proc/mounts has it, is read-only."""
    mounts = [line.text.split() for line in lines_with_content(text)]
    options = [words[_OPTIONS].split(",") for words in mounts if len(words) > _OPTIONS and words[1] == "/"]
    return bool(options) and "ro" in options[-1]
