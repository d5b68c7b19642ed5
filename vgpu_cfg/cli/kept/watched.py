"""The memory of a watch until the next one, in the state folder: one file for each plan and vCenter.

It also keeps two watches of a plan on one machine apart. Without it, the next watch begins anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from vgpu_cfg.cli.kept.whole_file import write_whole
from vgpu_cfg.cli.output import show
from vgpu_cfg.documents import MOST_DATA_BYTES, PRIVATE, make_private_folder, read_bytes
from vgpu_cfg.errors import Locked
from vgpu_cfg.model.verification import WatchMemory
from vgpu_cfg.settings.folders import state_folder


@dataclass(slots=True)
class KeptWatch:
    """The memory of a plan's watches: `memory` is that of the last one, None for the first."""

    path: Path
    memory: WatchMemory | None = field(default=None)

    def keep(self, memory: WatchMemory) -> None:
        """Write the memory down. Raises DocumentError if the folder cannot be written."""
        write_whole(self.path, memory.model_dump_json(), mode=PRIVATE)
        self.memory = memory


@contextmanager
def kept_watch(name: str) -> Iterator[KeptWatch]:
    """Keep other watches of a plan on this machine away for the length of a block.

    Raises Locked if one is running.
    """
    folder = state_folder() / "watches"
    make_private_folder(folder)
    path = folder / f"{name}.json"
    lock = FileLock(path.with_suffix(".lock"), mode=PRIVATE, is_singleton=False)
    try:
        lock.acquire(blocking=False)
    except Timeout as error:
        raise Locked(
            "another watch of this plan is running on this machine",
            subject=str(path),
            remedy="wait until it ends, or increase the interval of the timer",
        ) from error
    try:
        yield KeptWatch(path, _read(path))
    finally:
        lock.release()


def _read(path: Path) -> WatchMemory | None:
    try:
        return WatchMemory.model_validate_json(read_bytes(path, MOST_DATA_BYTES))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        show.say(
            f"{path}: the results of the last watch cannot be read, so this one starts over: "
            f"{type(error).__name__}"
        )
        return None
