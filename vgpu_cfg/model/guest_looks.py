"""The contents of guests as a plan requires them: of its templates, and of stacks with a driver branch."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from vgpu_cfg.model.frozen import Frozen


class TemplateState(StrEnum):
    """Whether a template has a component. NOT_ASKED: the plan does not need it; the finding is reported."""

    HAS = "has"
    LACKS = "lacks"
    UNKNOWN = "unknown"
    NOT_ASKED = "not_asked"


class TemplateRow(Frozen):
    """A component of a template: the value `found`, and its consequence."""

    name: str
    state: TemplateState
    found: str = ""
    why: str = ""


class TemplateLook(Frozen):
    """One template. `vms` are those of the plan that are made from it, `clone` the VM that was booted."""

    template: str
    vms: str
    clone: str
    rows: tuple[TemplateRow, ...]
    silent: str = ""
    """Why the clone could not be inspected; empty if it was."""

    @property
    def lacks(self) -> tuple[str, ...]:
        """The components that the plan requires and the template lacks."""
        return tuple(row.name for row in self.rows if row.state is TemplateState.LACKS)


class TemplateLooks(Frozen):
    """All templates that were looked at."""

    plan: str
    server: str
    begun: datetime
    looks: tuple[TemplateLook, ...]
    left_over: tuple[str, ...] = ()
    """Clones that could not be deleted again."""

    @property
    def lacks(self) -> bool:
        """Whether a template lacks something that the plan asks for."""
        return any(look.lacks for look in self.looks)


class FitsBranch(StrEnum):
    """The documents' statement on two parts of the stack together. Unknown is neither of the others."""

    YES = "yes"
    NO = "no"
    UNKNOWN = "unknown"


class BranchVerdict(Frozen):
    """A part with one branch of the host's driver: `why` in words, its `source`, the question to `ask`."""

    fits: FitsBranch
    why: str = ""
    source: str = ""
    ask: str = ""


class StackPart(Frozen):
    """One part of the stack: its finding ("" if unknown), today and at the target."""

    name: str
    found: str = ""
    today: BranchVerdict
    target: BranchVerdict


class VmStack(Frozen):
    """The stack of one VM, from its host's driver up. `order` says what to bring where first."""

    vm: str
    host: str
    parts: tuple[StackPart, ...]
    order: tuple[str, ...] = ()
    unread: str = ""
    """Why its guest could not be asked, empty where it was."""


class BranchPlan(Frozen):
    """The stacks of a plan's VMs with a branch; `about` are the known facts of the branch, line by line."""

    plan: str
    server: str
    begun: datetime
    branch: str
    about: tuple[str, ...]
    stacks: tuple[VmStack, ...]

    @property
    def is_known(self) -> bool:
        """Whether documents say of any part that it fits the target: of a run that found nothing, no."""
        return any(part.target.fits is FitsBranch.YES for stack in self.stacks for part in stack.parts)

    @property
    def lacks(self) -> tuple[str, ...]:
        """Return the parts that documents exclude today or at the target, as "VM: part"."""
        return tuple(
            f"{stack.vm}: {part.name}"
            for stack in self.stacks
            for part in stack.parts
            if FitsBranch.NO in (part.today.fits, part.target.fits)
        )
