"""Take existing VMs into a plan, and stop managing them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows.flow import locate, read_to_plan, refuse_errors
from vgpu_cfg.cli.flows.preparing.guest_access import with_fingerprints
from vgpu_cfg.cli.flows.preparing.host_facts import tools_to_give_back
from vgpu_cfg.cli.flows.preparing.locked import locked, read_alone
from vgpu_cfg.cli.flows.preparing.request import PlanRequest, keep_id, with_id
from vgpu_cfg.cli.flows.running.run_flow import (
    ApplyOptions,
    Work,
    decide_and_run,
    has_nothing_to_do,
    nothing_to_do,
    show_plan,
    these,
)
from vgpu_cfg.cli.options.running import refuse_unstated
from vgpu_cfg.cli.output import show
from vgpu_cfg.settings.flags import ConnectionFlags

if TYPE_CHECKING:
    from vgpu_cfg.changes.plan import Plan
    from vgpu_cfg.model.desired import DesiredPlan
    from vgpu_cfg.model.observed.inventory import Inventory
    from vgpu_cfg.planning.findings.options import PlanOptions
    from vgpu_cfg.ports import InventoryReader
    from vgpu_cfg.settings.connection import Connection
    from vgpu_cfg.settings.secrets import SecretStore


@dataclass(frozen=True, slots=True)
class _Marking:
    """One way to change the ownership of VMs: its planning, its confirmation, and its command.

    `then` makes the plan that `apply` would come to after it, None if that is not needed. `check` is the
    command that shows the result. Reservations of plans count if it `gives_back`.
    """

    make: Callable[[DesiredPlan, Inventory, PlanOptions], Plan]
    question: str
    verb: str
    then: Callable[[Plan, Inventory, Connection, PlanOptions, SecretStore], Plan] | None = None
    check: str = "plan"
    gives_back: bool = False


def take_in(
    request: PlanRequest, flags: ConnectionFlags, options: PlanOptions, how: ApplyOptions, *, dry_run: bool
) -> int:
    """Show which VMs are taken in, and what `apply` would change then; ask, and mark them."""
    from vgpu_cfg.planning.vms.ownership import make_import_plan

    marking = _Marking(make_import_plan, "Import the VMs shown above", "import", then=_plan_after)
    return _run(request, flags, options, how, marking, dry_run=dry_run)


def give_up(
    request: PlanRequest, flags: ConnectionFlags, options: PlanOptions, how: ApplyOptions, *, dry_run: bool
) -> int:
    """Show which VMs the plan gives up; ask, and take its marks away."""
    from vgpu_cfg.planning.vms.ownership import make_forget_plan

    marking = _Marking(
        make_forget_plan, "Stop managing the VMs shown above", "forget", check="", gives_back=True
    )
    code = _run(request, flags, options, how, marking, dry_run=dry_run)
    if not code and not dry_run:
        show.say(
            f"NEXT   remove these VMs from {how.path}; until then, plans with this file are rejected (VG001)"
        )
    return code


def _run(
    request: PlanRequest,
    flags: ConnectionFlags,
    options: PlanOptions,
    how: ApplyOptions,
    marking: _Marking,
    *,
    dry_run: bool,
) -> int:
    connection, desired = locate(request, flags)
    if not dry_run:
        refuse_unstated(connection, how.occasion)
    secrets = request.secrets()

    def read(reader: InventoryReader, *, roles: bool = False) -> Inventory:
        asks = marking.gives_back or not dry_run
        observed = read_to_plan(desired, reader, connection, options, secrets, locks=asks, roles=roles)
        return observed if marking.gives_back else observed.model_copy(update={"reservations": None})

    if dry_run:
        desired = with_id(desired)
        with compose.connect_reader(connection) as reader:
            observed = read(reader).model_copy(update={"locks": None})
        plan = marking.make(desired, observed, options)
        _show_dry(plan, _then(marking, plan, observed, connection, options, secrets), how, marking)
        refuse_errors(plan)
        return 0

    with compose.connect_writer(connection) as estate, ExitStack() as closing:
        is_new = not desired.id
        locks = closing.enter_context(
            locked(desired.identity, estate, marking.verb, how.occasion, at_once=is_new)
        )
        desired = with_id(desired)
        observed = read_alone(
            locks,
            lambda: read(estate.reader, roles=True),
            lambda seen: has_nothing_to_do(marking.make(desired, seen, options)),
        )
        plan = marking.make(desired, observed, options)
        show_plan(plan, how)
        refuse_errors(plan)
        if not plan.changes:
            return nothing_to_do(plan, how)
        then = None if how.is_json else _then(marking, plan, observed, connection, options, secrets)
        if then is not None:
            show.plan_after(then)
        work = Work(
            plan,
            observed,
            lambda after: marking.make(desired, after, options),
            lambda: read_alone(locks, lambda: read(estate.reader)),
            f"{marking.question}, with {these(plan)}?",
            marking.verb,
            locks,
            tools_to_give_back(plan, observed, estate, locks),
            keep=lambda: keep_id(desired, request.folder),
            check=marking.check,
        )
        return decide_and_run(work, estate, how)


def _show_dry(plan: Plan, then: Plan | None, how: ApplyOptions, marking: _Marking) -> None:
    command = how.command(marking.verb)
    if how.is_json:
        show.marking(marking.verb, plan, then)
        return
    show.plan(plan, how.output, command=command, verbose=False)
    if then is not None and plan.changes:
        show.plan_after(then)


def _then(
    marking: _Marking,
    plan: Plan,
    observed: Inventory,
    connection: Connection,
    options: PlanOptions,
    secrets: SecretStore,
) -> Plan | None:
    return None if marking.then is None else marking.then(plan, observed, connection, options, secrets)


def _plan_after(
    plan: Plan, observed: Inventory, connection: Connection, options: PlanOptions, secrets: SecretStore
) -> Plan:
    """Plan on the estate as it will be once a plan's marks are written: what `plan` says then."""
    from vgpu_cfg.catalog import load_catalog
    from vgpu_cfg.planning.planner import make_plan
    from vgpu_cfg.planning.vms.ownership import with_marks

    options = with_fingerprints(plan.desired, observed, options, connection, secrets)
    return make_plan(plan.desired, with_marks(plan, observed), load_catalog(), options)
