"""Ideas of what could help, each part of a fix still to be tried, and the plan made again with them.

Ideas are carried out on copies: of the plan file's text, and of the estate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from pathlib import Path

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.suggestion import FixKind, FixPart
from vgpu_cfg.documents import MOST_FILE_BYTES, Edit, edited, read_bytes
from vgpu_cfg.errors import DocumentError
from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.guests.base import PLAN_KEYS
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.plan_loading import LoadedPlan, load_plan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan

Effect = Callable[[Inventory], Inventory]
"""The effect of an outside act on a copy of the estate."""


MOST_PARTS = 8
"""How many ideas one fix may combine."""


class Cost(IntEnum):
    """The expected disturbance of an idea, the least first: it is tried in this order."""

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

    `flag` is to be given to the command ("allow_power_cycle", "only=GLOB") or not to be given ("keep=NAME", a
    VM that --delete names), `effect` that of an act outside.

    `touches` are the moids of VMs that it moves or stops, `empties` those of hosts that must be emptied for
    it. `command` is one line to type, `then` those that follow.

    `narrowed` leaves out parts that its plan does not need, None if it needs all.
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
    hosts: tuple[int, str] = (0, "")
    """How many hosts it adds, and the name of the one that they are like."""
    of: str = ""
    """The line of the plan file that it is about, and in `alike` its words without that line."""
    alike: str = ""

    @property
    def key(self) -> str:
        """Return the key of the idea: ideas are drawn anew from every plan that is made."""
        return f"{self.kind} {self.says} {self.edits} {self.flag}"

    @property
    def part(self) -> FixPart:
        """Return its displayed part."""
        return FixPart(kind=self.kind, says=self.says, command=self.command, then=self.then)

    @property
    def order(self) -> tuple[int, int, int]:
        """Return its place in the order: first what needs no approval, then by disturbance and edits."""
        return _KINDS.index(self.kind), int(self.cost), len(self.edits)


def act(
    says: str,
    effect: Effect,
    command: str = "",
    cost: Cost = Cost.WORK,
    *,
    then: Sequence[str] = (),
    touches: Iterable[str] = (),
    empties: Iterable[str] = (),
) -> Candidate:
    """Return the idea of an act outside of the plan file."""
    return Candidate(
        FixKind.OUTSIDE,
        says,
        cost,
        command=command,
        then=tuple(then),
        effect=effect,
        touches=tuple(touches),
        empties=tuple(empties),
    )


_KINDS = (FixKind.FILE, FixKind.FLAG, FixKind.LEAVE, FixKind.OUTSIDE)


@dataclass(frozen=True, slots=True)
class PlanSource:
    """The origin of a plan, so that it can be made again.

    `observe` reads a plan's part of the estate, `mean` completes a loaded plan by the command line and the
    context. `refused` is the plan from there, if it was made already. `progress` is called before each plan.
    """

    path: Path
    catalog: Catalog
    options: PlanOptions
    observe: Callable[[DesiredPlan], Inventory]
    mean: Callable[[DesiredPlan], DesiredPlan] = lambda desired: desired
    refused: Plan | None = None
    variables: Mapping[str, str] = field(default_factory=dict)
    variable_files: Sequence[Path] = ()
    progress: Callable[[str], None] = lambda _: None
    _edited: dict[tuple[str, str], str] = field(default_factory=dict)

    def edit(self, text: str, candidate: Candidate) -> str:
        """Return a text with the edits of an idea, made once. Raises DocumentError."""
        key = (text, candidate.key)
        if key not in self._edited:
            self._edited[key] = edited(text, candidate.edits)
        return self._edited[key]

    @property
    def text(self) -> str:
        """The plan file's present text."""
        return read_bytes(self.path, MOST_FILE_BYTES).decode("utf-8-sig").replace("\r\n", "\n")

    def load(self, text: str) -> LoadedPlan:
        """Read a text as the plan file. Raises DocumentError."""
        return load_plan(self.path, variables=self.variables, variable_files=self.variable_files, text=text)


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of ideas: the plan, the file's text, and the estate after the acts outside."""

    text: str
    loaded: LoadedPlan
    observed: Inventory
    plan: Plan


def attempt(source: PlanSource, text: str, candidates: Sequence[Candidate]) -> Trial | None:
    """Plan again with the ideas carried out; None where the file can then not be read, or edited so.

    They go in their order: each was drawn from what those before it made of the file and of the estate.
    """
    changed = text
    try:
        for one in candidates:
            changed = source.edit(changed, one) if one.edits else changed
        loaded = source.load(changed)
    except DocumentError:
        return None
    desired = source.mean(loaded.desired)
    if not candidates and source.refused is not None:
        return Trial(changed, loaded, source.observe(desired), source.refused)
    observed = source.observe(desired)
    for one in candidates:
        if one.effect is not None:
            observed = one.effect(observed)
    options = with_flags(source.options, [one.flag for one in candidates if one.flag])
    plan = make_plan(desired, observed, source.catalog, options)
    return Trial(changed, loaded, observed, plan)


def with_flags(options: PlanOptions, flags: Sequence[str]) -> PlanOptions:
    """Return the options as they are with what candidates take on the command line."""
    for flag in flags:
        name, _, value = flag.partition("=")
        match name:
            case "allow_power_cycle":
                options = replace(options, allow_power_cycle=True)
            case "allow_move":
                options = replace(options, allow_move=True)
            case "allow":
                options = replace(options, allow=(*options.allow, Approval(value)))
            case "allow_destroy":
                options = replace(options, allow_destroy=int(value))
            case "rotate":
                options = replace(options, rotate=(*options.rotate, value))
            case "rotate_no":
                options = replace(options, rotate=tuple(one for one in options.rotate if one != value))
            case "keys":
                options = replace(options, fingerprints={**options.fingerprints, PLAN_KEYS: value})
            case "former":
                options = replace(options, former_keys=(*options.former_keys, value))
            case "only":
                options = replace(options, only=(value,))
            case _:
                options = replace(options, delete=tuple(one for one in options.delete if one != value))
    return options
