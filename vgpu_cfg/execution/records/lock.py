"""That one plan is run once at a time on this machine, and who runs it now.

The lock is the operating system's: a process that dies lets go of it. The file
beside it only tells who holds it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from filelock import FileLock, Timeout
from pydantic import ValidationError

from vgpu_cfg.errors import DocumentError, DocumentFault, Locked
from vgpu_cfg.execution.records.who import this_machine, this_user
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan.change import PlanTarget


class LockHolder(Frozen):
    """Who holds a lock, and since when."""

    plan: str
    server: str
    pid: int
    host: str
    user: str
    since: datetime

    def __str__(self) -> str:
        since = f"{self.since:%Y-%m-%d %H:%M:%S %Z}".rstrip()
        return f"{self.user} on {self.host}, process {self.pid}, since {since}"


@contextmanager
def hold_lock(folder: Path, plan: str, target: PlanTarget, *, now: datetime) -> Iterator[LockHolder]:
    """Hold the lock of a plan on a vCenter for the length of a run.

    It is per vCenter (its instance uuid, else its address) and plan name. Raises Locked,
    saying who holds it, where another run does, and DocumentError where the folder cannot be used.
    """
    path = _lock_path(folder, plan, target)
    holder = LockHolder(
        plan=plan,
        server=target.address,
        pid=os.getpid(),
        host=this_machine(),
        user=this_user(),
        since=now,
    )
    lock = FileLock(path, is_singleton=False)
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock.acquire(blocking=False)
    except Timeout as error:
        other = read_lock_holder(folder, plan, target)
        raise Locked(
            f"another run of {plan} is in progress: {other or 'it does not say whose'}",
            subject=f"{plan} on {target.address}",
            remedy="wait for it to end, or stop it there; the lock goes with its process",
        ) from error
    except (OSError, RuntimeError) as error:  # the latter from a file system without locks
        raise _unusable(folder, error) from error
    reported = path.with_suffix(".json")
    try:
        with contextlib.suppress(OSError):  # it only tells: the lock itself is held
            reported.write_text(holder.model_dump_json(), encoding="utf-8")
        yield holder
    finally:
        with contextlib.suppress(OSError):
            reported.unlink(missing_ok=True)
        lock.release()


def read_lock_holder(folder: Path, plan: str, target: PlanTarget) -> LockHolder | None:
    """Return who says to hold the lock; None where nobody says so."""
    try:
        text = _lock_path(folder, plan, target).with_suffix(".json").read_text(encoding="utf-8")
        return LockHolder.model_validate_json(text)
    except (OSError, ValidationError):
        return None


def _lock_path(folder: Path, plan: str, target: PlanTarget) -> Path:
    server = target.instance_uuid or target.address
    return folder / f"{hashlib.sha256(f'{server}/{plan}'.encode()).hexdigest()[:16]}.lock"


def _unusable(folder: Path, error: Exception) -> DocumentError:
    reason = (error.strerror if isinstance(error, OSError) else "") or str(error)
    fault = DocumentFault(str(folder), 1, 1, f"no lock can be held here: {reason}")
    return DocumentError(
        [fault],
        remedy="nothing was changed; let VGPU_CFG_STATE_FOLDER name a folder that you may write to",
    )
