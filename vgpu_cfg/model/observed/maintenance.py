"""How a host came into maintenance mode, as far as vCenter's events tell: where no mark says it."""

from __future__ import annotations

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.moments import Moment


class MaintenanceEntry(Frozen):
    """Who took a host into maintenance mode and when, by vCenter's own clock.

    `plan`, `plan_id` and `run` are those of the run during which the same account did it, "" where there was
    none.
    """

    at: Moment
    by: str = ""
    plan: str = ""
    plan_id: str = ""
    run: str = ""
