"""The tools of a trial at one vCenter, and waiting for its tasks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Self

from vgpu_cfg.errors import TaskFailed
from vgpu_cfg.ports import ChangeWriter, InventoryReader, LockKeeper, RunClock, RunLog, TaskState, TaskUpdate
from vgpu_cfg.vsphere.writing.throw_away import VCenterThrowAway

_WAIT_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Tools:
    """Readers and writers on one session; `until` is the time by which tasks must end."""

    reader: InventoryReader
    writer: ChangeWriter
    locks: LockKeeper
    run_log: RunLog
    things: VCenterThrowAway
    clock: RunClock
    until: datetime

    @property
    def is_late(self) -> bool:
        """Whether no further task may begin."""
        return self.clock.now() >= self.until

    def longer(self, span: timedelta) -> Self:
        """Return the tools with another limit, from now on."""
        return replace(self, until=self.clock.now() + span)

    def finished(self, task: str, what: str, subject: str) -> TaskUpdate:
        """Wait for the success of a task. Raises TaskFailed if it fails or goes on for too long."""
        update = self.ended(task, what, subject)
        if update.state is TaskState.ERROR:
            raise TaskFailed(f"{what}: {update.error}", subject=subject, remedy=_REMEDY)
        return update

    def ended(self, task: str, what: str, subject: str) -> TaskUpdate:
        """Wait for the end of a task. Raises TaskFailed if it goes on for too long."""
        while not self.is_late:
            for update in self.writer.wait_for_tasks([task], _WAIT_SECONDS):
                if update.state.is_over:
                    return update
        raise TaskFailed(f"{what}: still running at the time limit", subject=subject, remedy=_REMEDY)


_REMEDY = "check the task in vCenter; `vgpu-cfg trial --clean` removes the objects that remain"
