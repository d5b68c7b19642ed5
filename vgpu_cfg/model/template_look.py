"""What a template has of what a plan asks of it, seen in a clone that was booted for that."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum

from vgpu_cfg.model.frozen import Frozen


class TemplateState(StrEnum):
    """Whether a template has something. NOT_ASKED: the plan does not need it, and what was found is told."""

    HAS = "has"
    LACKS = "lacks"
    UNKNOWN = "unknown"
    NOT_ASKED = "not_asked"


class TemplateRow(Frozen):
    """One thing that a template may have: what was `found` of it, and what follows."""

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
    """Why nobody could look inside the clone, empty where somebody did."""

    @property
    def lacks(self) -> tuple[str, ...]:
        """What the plan asks for and the template lacks."""
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
