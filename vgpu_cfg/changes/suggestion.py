"""Remedies for a plan: edits of its file, flags, acts outside of it, and differences adopted into the file.

A difference between a plan file and the estate has a subject, the wanted and the found value, its author and
time. The result of adopting findings into a plan file is its new text, and the parts that could not be
written.
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
    """The authority that a part of a fix needs, and its place.

    FILE edits the plan file within its author's requests. LEAVE edits it too, and gives up a statement of the
    author, a check or a limit. FLAG is an option of the command that needs the same approval. OUTSIDE is done
    in vCenter, on a host or by another person.
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
    """A fix's effect on another VM.

    MOVED manually, running or powered off meanwhile. STOPPED by its owner. AWAY during work on its host.
    EVACUATED by DRS, without a host for it. OFF before, when it could start, and shut out now.
    """

    MOVED = "moved"
    STOPPED = "stopped"
    AWAY = "away"
    EVACUATED = "evacuated"
    OFF = "off"


class OtherVm(Frozen):
    """The effect on another VM.

    `host` is where it finally runs (moved), or could start again. It is empty if no host accepts the VM:
    `why` is the reason. `loses` is its loss on the way.
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
                return "; ".join(
                    (f"{self.vm} runs on {self.host} while the change is in progress", *self.loses)
                )
            case Fate.MOVED | Fate.AWAY | Fate.EVACUATED:
                return f"{self.vm} cannot be placed: {self.why}"
            case Fate.STOPPED if self.host:
                return "; ".join(
                    (f"{self.vm} is powered off and can be restarted on {self.host}", *self.loses)
                )
            case Fate.STOPPED:
                return (
                    f"{self.vm} is powered off and cannot be restarted alongside the plan's VMs: {self.why}"
                )
            case Fate.OFF:
                return f"{self.vm}, which is currently powered off, can no longer be started: {self.why}"
        assert_never(self.fate)


class Fix(Frozen):
    """Parts that together leave a plan without an error: that was tried by planning again.

    `lines` are the edits of the plan file, each line with "+ " or "- " before it, or with two blanks if it is
    only context. `text` is the whole file with them. `disturbs` are the effects of the resulting plan,
    `others` those on other VMs.
    """

    parts: tuple[FixPart, ...]
    lines: tuple[str, ...] = ()
    text: str = ""
    disturbs: tuple[str, ...] = ()
    others: tuple[OtherVm, ...] = ()

    @property
    def needs_leave(self) -> bool:
        """Whether it gives up a statement of the plan file's author, or needs a flag."""
        return any(part.kind in (FixKind.LEAVE, FixKind.FLAG) for part in self.parts)

    @property
    def is_outside(self) -> bool:
        """Whether a part of it is done outside of the plan file."""
        return any(part.kind is FixKind.OUTSIDE for part in self.parts)


class Suggestion(Frozen):
    """The fixes that were found, the one that asks least first; `tried` counts the plans that were made.

    Without `fixes` none was found within the limit, or, if `is_complete`, among all that are known.
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
    """The file's text with the findings on `vms`; `lines` are its diff."""

    text: str
    lines: tuple[str, ...] = ()
    vms: tuple[str, ...] = ()
    left: tuple[Left, ...] = ()


class Difference(Frozen):
    """A difference of a VM or a host.

    `wanted` and `found` are the values for a reader, None if absent. `sets` are the values sent to correct
    it, as in `Edit.sets`. `by` and `at` are empty if unknown, and `why_unknown` is the reason.
    """

    subject: Subject
    what: str
    wanted: str | None = None
    found: str | None = None
    sets: Mapping[str, str] = Field(default_factory=dict)
    by: str = ""
    at: datetime | None = None
    why_unknown: str = ""
