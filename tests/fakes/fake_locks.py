"""Locks at the port: a vCenter's, in memory, and those of a run that nobody disputes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path

from tests.fakes.fake_vcenter import START
from vgpu_cfg.errors import NotPermitted, VCenterError
from vgpu_cfg.execution import RunLocks
from vgpu_cfg.model.locks import BEAT_SECONDS, Freeze, Lock, LockHolder, LockName, Locks


@dataclass
class FakeRunLog:
    """What runs left among a vCenter's events: `texts`; a `failure` is raised in place of taking more."""

    texts: list[str] = field(default_factory=list)
    failure: VCenterError | None = None

    def name_calls(self, name: str) -> None:
        pass

    def write(self, text: str, datacenter_moid: str | None = None) -> None:
        if self.failure is not None:
            raise self.failure
        self.texts.append(text)

    def has_run(self, start: str) -> bool:
        return any(start in text for text in self.texts)


@dataclass
class FakeLocks:
    """A vCenter's locks and its clock. `calls` tells what was asked, `lacking` what it may not do."""

    server = "vc01.lab"
    place = "vCenter's root folder"
    beat_seconds = BEAT_SECONDS
    calls: list[str] = field(default_factory=list)
    lacking: tuple[str, ...] = ()
    now: datetime = START
    running: list[tuple[str, ...]] = field(default_factory=list)
    held: dict[str, Lock] = field(default_factory=dict)
    _numbers: count[int] = field(default_factory=lambda: count(1))

    def pass_time(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    def read(self) -> Locks:
        self.calls.append("read")
        return Locks(now=self.now, held=tuple(self.held.values()), server=self.server)

    def missing_privileges(self, *, to_remove: bool = False) -> tuple[str, ...]:
        self.calls.append("privileges")
        return tuple(name for name in self.lacking if not to_remove or name == "Alarm.Delete")

    def _require(self, privilege: str) -> None:
        if privilege in self.lacking:
            raise NotPermitted(f"lacks {privilege}")

    def make(self, name: LockName, holder: LockHolder) -> str | None:
        self.calls.append(f"make {name.text}")
        self._require("Alarm.Create")
        if any(lock.name.text == name.text for lock in self.held.values()):
            return None
        moid = f"alarm-{next(self._numbers)}"
        self.held[moid] = Lock(moid=moid, name=name, holder=holder, beat_at=self.now)
        return moid

    def freeze(self, freeze: Freeze) -> bool:
        raise AssertionError(f"no run freezes: {freeze.text}")

    def beat(self, moid: str, name: LockName, holder: LockHolder, beats: int) -> bool:
        self.calls.append(f"beat {beats} of {name.text}")
        self._require("Alarm.Edit")
        if moid not in self.held:
            return False
        self.held[moid] = Lock(moid=moid, name=name, holder=holder, beat_at=self.now)
        return True

    def running_tasks(self, account: str) -> tuple[str, ...]:
        self.calls.append(f"tasks of {account}")
        return self.running.pop(0) if self.running else ()

    def remove(self, moid: str) -> None:
        self.calls.append(f"remove {moid}")
        self._require("Alarm.Delete")
        self.held.pop(moid, None)


class FixedClock:
    """A machine's clock that stands still, unless somebody sets it or waits."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    def pause(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


class UndisputedLocks(RunLocks):
    """The locks of a run that has whatever it asks for."""

    def check(self, *names: LockName) -> None:
        self.beat()


def undisputed(run: str = "0123456789ab") -> RunLocks:
    """Return the locks of a run beside which there is no other."""
    holder = LockHolder(run=run, since=START)
    return UndisputedLocks(FakeLocks(), FakeRunLog(), FixedClock(), Path(), holder)
