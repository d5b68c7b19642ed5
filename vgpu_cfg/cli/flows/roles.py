"""Roles for `privileges` from a plan file: for a vCenter's present state, or for any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.flow import locate, plan_with
from vgpu_cfg.cli.flows.preparing.host_facts import closed_shells
from vgpu_cfg.cli.flows.preparing.privileges import refuse_lacking
from vgpu_cfg.cli.flows.preparing.request import PlanRequest
from vgpu_cfg.cli.output import show

if TYPE_CHECKING:
    from vgpu_cfg.changes.privileges import Need
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.planning.doctor.trials import Step
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.planning.privileges import Command, Role
    from vgpu_cfg.settings.flags import ConnectionFlags


@dataclass(frozen=True, slots=True)
class WhatFor:
    """The commands that roles are for; whether optional privileges are omitted, and the account checked."""

    commands: tuple[Command, ...]
    is_bare: bool
    is_checked: bool

    def takes(self, need: Need) -> bool:
        """Whether a need counts."""
        return not (self.is_bare and need.is_optional)

    def name(self, plan: str) -> str:
        """Return what names of roles begin with."""
        return "-".join(("vgpu-cfg", plan, *(self.commands if len(self.commands) == 1 else ())))


_ERRORS = (
    "the plan has errors, so `apply` rejects it; the corrected plan may require more privileges. `vgpu-cfg "
    "plan` shows the errors"
)


def roles_of_file(desired: DesiredPlan, what_for: WhatFor) -> tuple[Role, ...]:
    """Return the roles for whatever state a vCenter may be in."""
    from vgpu_cfg.planning.privileges import could_need, make_roles_of_kinds

    uses = {
        command: [need for need in could_need(command, desired) if what_for.takes(need)]
        for command in what_for.commands
    }
    return make_roles_of_kinds(what_for.name(desired.name), uses)


def roles_of_trial(steps: Sequence[Step]) -> tuple[Role, ...]:
    """Return the roles for steps of a trial, on whatever vCenter."""
    from vgpu_cfg.planning.doctor.trials import experiments_of, needs_of
    from vgpu_cfg.planning.privileges import make_roles_of_kinds

    uses = {step: needs_of(experiments_of([step])) for step in steps}
    return make_roles_of_kinds("vgpu-cfg-trial", uses)


def roles_for(
    request: PlanRequest, flags: ConnectionFlags, options: PlanOptions, what_for: WhatFor
) -> tuple[tuple[Role, ...], str, bool]:
    """Return the roles for a plan's present changes, the server's address, and whether that is all.

    It is not all if errors prevent changes of `apply`. Nothing is changed. Raises NotPermitted if the account
    is to be checked and lacks any of it.
    """
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.hosts.needed import shell_access
    from vgpu_cfg.planning.privileges import Asked, Command, make_roles, needs_of
    from vgpu_cfg.planning.vms.destroy import make_destroy_plan
    from vgpu_cfg.planning.vms.ownership import make_forget_plan, make_import_plan

    connection, desired = locate(request, flags)
    with compose.connect_reader(connection) as reader:
        planned = plan_with(reader, desired, connection, options, request.secrets())
        is_whole = not planned.plan.errors or Command.APPLY not in what_for.commands
        if planned.plan.errors:
            show.say(f"NOTE   {_ERRORS}")
        observed = planned.observed
        asked = Asked(
            planned.plan,
            {
                Command.DESTROY: make_destroy_plan(desired, observed, options),
                Command.IMPORT: make_import_plan(desired, observed, options),
                Command.FORGET: make_forget_plan(desired, observed, options),
            },
            observed,
            tuple(shell_access(desired, observed, load_catalog(), options)),
            closed_shells(desired, observed, options),
        )
        uses = {
            command: [one for one in needs_of(command, asked) if what_for.takes(one.need)]
            for command in what_for.commands
        }
        if what_for.is_checked:
            refuse_lacking((one for needed in uses.values() for one in needed), observed, reader)
    roles = make_roles(what_for.name(desired.name), uses, observed, desired.identity)
    return roles, observed.vcenter.address, is_whole
