"""What would let a plan with errors be carried out: edits of its file, flags, and acts outside of it.

What becomes of a plan file that takes in what was found: its new text, and what could not be written.

One difference between a plan file and what is there: what, wanted, found, and since whose hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import assert_never

from pydantic import Field

from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.frozen import Frozen


class FixKind(StrEnum):
    """Who decides about a part of a fix, and where it is done.

    FILE edits the plan file within what its author asks for. LEAVE edits it too, and gives up something
    that the author stated, a check or a limit. FLAG is an option of the command that needs the same leave.
    OUTSIDE is done in vCenter, on a host or by somebody else.
    """

    FILE = "file"
    LEAVE = "leave"
    FLAG = "flag"
    OUTSIDE = "outside"


class FixPart(Frozen):
    """One part of a fix, in words.

    `command` is what to type for it outside, or the flag; `then` are the lines that follow, each on its own,
    since a name may hold a line break.
    """

    kind: FixKind
    says: str
    command: str = ""
    then: tuple[str, ...] = ()

    @property
    def lines(self) -> tuple[str, ...]:
        """All lines to type, in their order."""
        return (self.command, *self.then) if self.command else ()


class Fate(StrEnum):
    """What a fix does to a VM that is not the plan's.

    MOVED by hand, as it runs or off meanwhile. STOPPED by its owner. AWAY while work on its host is done.
    EVACUATED by DRS, with no host that takes it. OFF before, when it could start, and shut out now.
    """

    MOVED = "moved"
    STOPPED = "stopped"
    AWAY = "away"
    EVACUATED = "evacuated"
    OFF = "off"


class OtherVm(Frozen):
    """What becomes of a VM that is not the plan's.

    `host` is where it runs in the end (moved), or could start again. It is empty where no host takes the VM:
    `why` says so. `loses` is what it loses on the way.
    """

    vm: str
    moid: str
    fate: Fate
    host: str = ""
    why: str = ""
    loses: tuple[str, ...] = ()

    @property
    def is_stranded(self) -> bool:
        """Whether the fix promises that it runs, and no host takes it."""
        return self.fate in (Fate.MOVED, Fate.AWAY, Fate.EVACUATED) and not self.host

    @property
    def weight(self) -> int:
        """How much it loses: 3 a device, 2 where it does not run again, 1 where it is off for a time."""
        if self.fate is Fate.STOPPED:
            return 3 if self.loses else 1 if self.host else 2
        return int(bool(self.loses)) if self.host else 2

    @property
    def says(self) -> str:
        """Say it in one sentence."""
        match self.fate:
            case Fate.MOVED if self.host:
                return "; ".join((f"{self.vm} runs on {self.host}", *self.loses))
            case Fate.AWAY if self.host:
                return "; ".join((f"{self.vm} leaves its host for the work, for {self.host}", *self.loses))
            case Fate.MOVED | Fate.AWAY | Fate.EVACUATED:
                return f"{self.vm} has no place: {self.why}"
            case Fate.STOPPED if self.host:
                return "; ".join((f"{self.vm} is off, and can start again on {self.host}", *self.loses))
            case Fate.STOPPED:
                return f"{self.vm} is off, and cannot start again beside the plan's VMs: {self.why}"
            case Fate.OFF:
                return f"{self.vm}, which is off now, can no longer start: {self.why}"
        assert_never(self.fate)


class Fix(Frozen):
    """Parts that together leave a plan without an error: that was tried by planning again.

    `lines` are the edits of the plan file, each line with "+ " or "- " before it, or with two blanks where
    it only says what the others belong to. `text` is the whole file with them. `disturbs` says what the
    plan would then disturb, `others` what becomes of VMs that are not the plan's.
    """

    parts: tuple[FixPart, ...]
    lines: tuple[str, ...] = ()
    text: str = ""
    disturbs: tuple[str, ...] = ()
    others: tuple[OtherVm, ...] = ()

    @property
    def needs_leave(self) -> bool:
        """Whether it gives up what the plan file's author stated, or needs a flag."""
        return any(part.kind in (FixKind.LEAVE, FixKind.FLAG) for part in self.parts)

    @property
    def is_outside(self) -> bool:
        """Whether a part of it is done outside of the plan file."""
        return any(part.kind is FixKind.OUTSIDE for part in self.parts)


class Suggestion(Frozen):
    """The fixes that were found, the one that asks least first; `tried` counts the plans that were made.

    Without `fixes` none was found within the limit, or, where `is_complete`, among all that is known.
    """

    fixes: tuple[Fix, ...] = ()
    tried: int = 0
    is_complete: bool = True


class Left(Frozen):
    """A difference of a VM that was not written into the file, and why."""

    vm: str
    what: str
    why: str


class AsFound(Frozen):
    """The text of the file with what was found of `vms`; `lines` are what a diff shows of it."""

    text: str
    lines: tuple[str, ...] = ()
    vms: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()


class Difference(Frozen):
    """What differs of a VM or a host.

    `wanted` and `found` are as a reader sees them, None where there is nothing. `sets` is what would go over
    the wire to bring it about, as `Edit.sets` has it. `by` and `at` are empty where nothing tells them, and
    `why_unknown` says why.
    """

    subject: Subject
    what: str
    wanted: str | None = None
    found: str | None = None
    sets: Mapping[str, str] = Field(default_factory=dict)
    by: str = ""
    at: datetime | None = None
    why_unknown: str = ""
