"""The files of a verification: a baseline, a history of one line for each run, and the memory of a watch.

Baseline and history are files of the user's choice: they may be in a repository or on a share, so that every
machine that verifies reads the same ones. A watch's memory is in the state folder, a file for each plan and
vCenter; it also keeps two watches of a plan on one machine apart. Without it, the next watch begins anew.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar

from filelock import FileLock, Timeout

from vgpu_cfg.cli.kept.whole_file import write_whole
from vgpu_cfg.cli.output import show
from vgpu_cfg.documents import MOST_DATA_BYTES, PRIVATE, append_whole, make_private_folder, read_bytes
from vgpu_cfg.errors import DocumentError, DocumentFault, Locked
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.verification import Baseline, PastRun, Verification, WatchMemory
from vgpu_cfg.settings.environment import state_folder

KIND, RUN_KIND, FORMAT = "verify-baseline", "verify-run", 1
MOST_RUNS = 50
"""The number of earlier runs in a report; older ones stay in the file."""
_ONLY_OWNER_WRITES = 0o644
T = TypeVar("T", bound=Frozen)


class BaselineFile(Baseline):
    """A whole file: the figures, and what kind of file it is."""

    kind: Literal["verify-baseline"]
    format: Literal[1]


class RunLine(PastRun):
    """A whole line: the run, and what kind of line it is."""

    kind: Literal["verify-run"]
    format: Literal[1]


def read_baseline(path: Path, plan: str) -> Baseline:
    """Read the figures of an earlier run. Raises DocumentError, also for those of another plan."""
    found = _read_as(BaselineFile, _bytes_of(path), path, "not a file written by `verify --save`")
    if found.plan != plan:
        message = f"these measurements are from the plan {found.plan!r}, not {plan!r}"
        fault = DocumentFault(str(path), 1, 1, message)
        raise DocumentError([fault], remedy="specify the file that `verify --save` wrote for this plan")
    return Baseline(**found.model_dump(include=set(Baseline.model_fields)))


def write_baseline(path: Path, found: Verification) -> bool:
    """Write the figures of a run; False where it has none. Raises DocumentError."""
    from vgpu_cfg.cli.kept.whole_file import write_whole
    from vgpu_cfg.verification import baseline_of

    made = baseline_of(found)
    if not made.figures:
        return False
    data = {"kind": KIND, "format": FORMAT, **made.model_dump(mode="json")}
    write_whole(path, f"{json.dumps(data, indent=2)}\n")
    return True


def read_history(path: Path, plan: str) -> tuple[PastRun, ...]:
    """Read the last runs of a plan, the oldest first; none where there is no file. Raises DocumentError."""
    if not (path.exists() or path.is_symlink()):
        return ()
    what = "not a line written by `verify --history`"
    runs = (
        _read_as(RunLine, line, path, what, number)
        for number, line in enumerate(_bytes_of(path).splitlines(), 1)
        if line.strip()
    )
    last = deque((run for run in runs if run.plan == plan), maxlen=MOST_RUNS)
    return tuple(PastRun(**run.model_dump(include=set(PastRun.model_fields))) for run in last)


def _bytes_of(path: Path) -> bytes:
    try:
        return read_bytes(path, MOST_DATA_BYTES)
    except OSError as error:
        fault = DocumentFault(str(path), 1, 1, f"cannot read the file: {error.strerror or error}")
        raise DocumentError([fault], remedy="check the path and your permissions") from error


def _read_as(model: type[T], raw: bytes, path: Path, what: str, line: int = 1) -> T:
    """Make a model of JSON that this program wrote. Raises DocumentError, which says `what` it is not."""
    from pydantic import ValidationError

    try:
        return model.model_validate_json(raw)
    except ValidationError as error:
        # That a file is of another kind goes before what such a file lacks.
        wrong = min(error.errors(), key=lambda one: one["loc"][:1] != ("kind",))
        where = ".".join(map(str, wrong["loc"]))
        message = f"{what}: {where}{': ' if where else ''}{wrong['msg']}"
        fault = DocumentFault(str(path), line, 1, message)
        raise DocumentError([fault], remedy="specify another file, or delete the invalid line") from error


def add_to_history(path: Path, found: Verification) -> None:
    """Add a line to a file, in one write so that two machines' lines do not mix. Raises DocumentError."""
    from vgpu_cfg.verification import past_run

    data = {"kind": RUN_KIND, "format": FORMAT, **past_run(found).model_dump(mode="json")}
    try:
        append_whole(path, f"{json.dumps(data, separators=(',', ':'))}\n", mode=_ONLY_OWNER_WRITES)
    except OSError as error:
        fault = DocumentFault(str(path), 1, 1, f"cannot write the file: {error.strerror or error}")
        raise DocumentError([fault], remedy="specify a file in a writable folder") from error


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
            "another `verify --watch` of this plan is running on this machine",
            subject=str(path),
            remedy="wait until it ends, or increase the timer interval",
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
            f"{path}: the results of the last watch cannot be read, so this watch starts over: "
            f"{type(error).__name__}"
        )
        return None
