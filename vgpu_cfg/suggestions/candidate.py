"""One idea of what could help: part of a fix that is still to be tried."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.suggestion import FixKind, FixPart
from vgpu_cfg.documents import Edit
from vgpu_cfg.model.observed.inventory import Inventory

Effect = Callable[[Inventory], Inventory]
"""What an act outside does, on a copy of the estate."""


class Cost(IntEnum):
    """What an idea is expected to disturb, the least first: it is tried in this order."""

    NOTHING = 0
    GPU_MODE = 1
    HOST_RESTART = 2
    MOVE = 3
    POWER_CYCLE = 4
    WORK = 5
    HARDWARE = 6


@dataclass(frozen=True, slots=True)
class Candidate:
    """One idea.

    `flag` is what the command is to be given ("allow_power_cycle", "only=GLOB") or not to be
    given ("keep=NAME", a VM that --delete names), `effect` that of an act outside.

    `touches` are the moids of VMs that it moves or stops, `empties` those of hosts that must be emptied for
    it. `command` is one line to type, `then` those that follow.

    `narrowed` leaves out of it what the plan that it made does not need, None where it needs all.
    """

    kind: FixKind
    says: str
    cost: Cost = Cost.NOTHING
    edits: tuple[Edit, ...] = ()
    flag: str = ""
    command: str = ""
    then: tuple[str, ...] = ()
    effect: Effect | None = None
    touches: tuple[str, ...] = ()
    empties: tuple[str, ...] = ()
    narrowed: Callable[[Plan], Candidate | None] | None = None

    @property
    def key(self) -> str:
        """What tells it from others: ideas are drawn anew from every plan that is made."""
        return f"{self.kind} {self.says} {self.edits} {self.flag}"

    @property
    def part(self) -> FixPart:
        """What is told of it."""
        return FixPart(kind=self.kind, says=self.says, command=self.command, then=self.then)

    @property
    def order(self) -> tuple[int, int]:
        """What is tried first: what needs nobody's leave, then what disturbs least."""
        return _KINDS.index(self.kind), int(self.cost)


_KINDS = (FixKind.FILE, FixKind.FLAG, FixKind.LEAVE, FixKind.OUTSIDE)
