"""The entries that a run leaves wherever it leaves word: that it began, and how it ended."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Final

from pydantic import ConfigDict, ValidationError

from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.model.frozen import Frozen, Moment
from vgpu_cfg.model.locks import Lock
from vgpu_cfg.model.wording import shown

HEAD: Final = "vgpu-cfg: "
"""The prefix of an entry's text, which distinguishes it from other events."""


class OnFailure(StrEnum):
    """The treatment of changes that have not started and do not require a change that failed.

    STOP starts no more of them, and finishes hosts that are out of service; ROLL_BACK leaves that to
    the rollback.
    """

    GO_ON = "go on"
    STOP = "stop"
    ROLL_BACK = "roll back"


class RunResult(StrEnum):
    """How a run came to its end."""

    DONE = "done"
    FAILED = "failed"
    WAITING = "waiting"
    STOPPED = "stopped"


class RunEntry(Frozen):
    """That a run began, or that it has ended: then with its `result`. Both say who ran what.

    `run` is the run's own id, `user` the account on the machine where it was started, `account` that at
    vCenter. `changes` is the plan's number of changes, `done` and `failed` their results. An end also has the
    beginning, too, `began_at`, since a short run leaves no other entry at vCenter; those of older versions do
    not. A beginning that was written later than `at` says by how much. One without a `digest` comes from the
    run's lock, which knows no changes. `reviewed` is the digest of a saved plan of which only the rest was
    carried out. Fields of later versions are ignored.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: str
    at: Moment
    command: str = ""
    plan: str = ""
    plan_id: str = ""
    digest: str = ""
    reviewed: str = ""
    occasion: Occasion = Occasion()
    user: str = ""
    machine: str = ""
    account: str = ""
    changes: int = 0
    result: RunResult | None = None
    done: int = 0
    failed: int = 0
    tasks: int = 0
    began_at: Moment | None = None
    late_seconds: float = 0.0

    @property
    def text(self) -> str:
        """The entry on one line: a sentence for people, then all of it as JSON.

        The lock may have been edited, so only visible characters are kept.
        """
        ended = "began" if self.result is None else f"ended: {self.result}"
        told = self.model_dump(mode="json", exclude_defaults=True)
        content = json.dumps(told, separators=(",", ":"))
        purpose = f" for {self.occasion.change}" if self.occasion.change else ""
        of_plan = f" of {self.plan}" if self.plan else ""
        return f"{HEAD}{shown(self.command + of_plan + purpose)} {ended} {content}"


def parse_entry(text: str) -> RunEntry | None:
    """Parse the text of an entry; None for other texts.

    Raises ValueError for one that was truncated or not written by `RunEntry.text`.
    """
    if not text.startswith(HEAD):
        return None
    # A quote within the JSON has a backslash before it: this stands only where it begins.
    _, start, content = text.rpartition(' {"run":')
    try:
        return RunEntry.model_validate_json(start + content)
    except ValidationError as error:
        raise ValueError("the entry is not readable") from error


def entry_of_lock(lock: Lock) -> RunEntry | None:
    """Return the start entry that a lock represents; None if the lock has no run."""
    holder = lock.holder
    if holder is None:
        return None
    return RunEntry(
        run=holder.run,
        at=holder.since,
        command=holder.command,
        plan=holder.plan,
        plan_id=holder.plan_id,
        occasion=holder.occasion,
        user=holder.user,
        machine=holder.machine,
        account=lock.account,
    )
