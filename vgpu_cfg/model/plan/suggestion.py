"""What would let a plan with errors be carried out: edits of its file, flags, and acts outside of it."""

from __future__ import annotations

from enum import StrEnum

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
    """One part of a fix, in words. `command` is what to type for it outside, or the flag."""

    kind: FixKind
    says: str
    command: str = ""


class Fix(Frozen):
    """Parts that together leave a plan without an error: that was tried by planning again.

    `lines` are the edits of the plan file, each line with "+ " or "- " before it, or with two blanks where
    it only says what the others belong to. `text` is the whole file with them. `disturbs` says what the
    plan would then disturb.
    """

    parts: tuple[FixPart, ...]
    lines: tuple[str, ...] = ()
    text: str = ""
    disturbs: tuple[str, ...] = ()

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
