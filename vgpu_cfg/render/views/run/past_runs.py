"""A run of the past as a row: who ran what, when, and how it ended."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.model.runs import RunEntry, RunResult
from vgpu_cfg.model.wording import counted

NO_END = "end unknown"
"""The result of a run that goes on, or was interrupted."""


@dataclass(frozen=True, slots=True)
class RunRow:
    """One run. `result` is "" if no end of it is recorded; times and `changes` are None if unknown."""

    run: str
    command: str
    plan: str
    plan_id: str
    digest: str
    occasion: Occasion
    user: str
    machine: str
    account: str
    began_at: datetime | None
    ended_at: datetime | None
    result: str
    changes: int | None
    done: int
    failed: int
    tasks: int
    known_from: tuple[str, ...]

    @property
    def short_id(self) -> str:
        """The beginning of the id, which is enough to name the run; the whole of a journal's name."""
        return self.run[:8] if re.fullmatch("[0-9a-f]{12}", self.run) else self.run

    @property
    def who(self) -> str:
        """The account and the machine of its start; that at vCenter if there is no other."""
        return " on ".join(part for part in (self.user, self.machine) if part) or self.account

    @property
    def result_text(self) -> str:
        """How it ended, with counts."""
        if not self.result:
            return NO_END
        if self.result == RunResult.DONE and self.changes in (None, self.done):
            return f"done, {counted(self.done, 'change')}"
        failed = f", {self.failed} failed" if self.failed else ""
        return f"{self.result}, {self.done} of {self.changes}{failed}"

    @property
    def seconds(self) -> float | None:
        """Its duration, if both ends are known."""
        if self.began_at is None or self.ended_at is None:
            return None
        return (self.ended_at - self.began_at).total_seconds()


def view_run(
    entry: RunEntry, began_at: datetime | None, ended_at: datetime | None, known_from: Sequence[str]
) -> RunRow:
    """Return the row of a run."""
    return RunRow(
        run=entry.run,
        command=entry.command,
        plan=entry.plan,
        plan_id=entry.plan_id,
        digest=entry.digest,
        occasion=entry.occasion,
        user=entry.user,
        machine=entry.machine,
        account=entry.account,
        began_at=began_at,
        ended_at=ended_at,
        result=entry.result or "",
        changes=entry.changes if entry.digest else None,
        done=entry.done,
        failed=entry.failed,
        tasks=entry.tasks,
        known_from=tuple(known_from),
    )
