"""The contents of a template that a plan requires, as found in a temporary clone."""

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
