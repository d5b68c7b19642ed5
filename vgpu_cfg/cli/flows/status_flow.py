"""How `status` looks: it plans, and where something differs it asks vCenter's events who did it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.flow import Planned, locate, plan_with
from vgpu_cfg.cli.flows.preparing.request import PlanRequest
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.changes.suggestion import Difference
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.settings.connection import Connection
    from vgpu_cfg.settings.secrets import SecretStore


def look(
    request: PlanRequest, flags: ConnectionFlags, options: PlanOptions
) -> tuple[Planned, tuple[Difference, ...]]:
    """Look at the objects of a plan file at its server; see `look_at`."""
    connection, desired = locate(request, flags)
    return look_at(connection, desired, options, request.secrets())


def look_at(
    connection: Connection, desired: DesiredPlan, options: PlanOptions, secrets: SecretStore
) -> tuple[Planned, tuple[Difference, ...]]:
    """Read the estate and plan for it; return the plan, and what differs with who brought it about.

    Nothing is changed, and nothing more is asked where nothing differs.
    """
    from vgpu_cfg.planning.drift.authors import past_scope, with_authors
    from vgpu_cfg.planning.drift.differences import differences_of

    with compose.connect_reader(connection) as reader:
        planned = plan_with(reader, desired, connection, options, secrets, only_plan=True)
        differences = differences_of(planned.plan)
        scope = past_scope(differences, planned.observed)
        if not scope.is_empty:
            differences = with_authors(differences, reader.read_past(scope))
    return planned, differences
