"""Boot one throw-away clone of a template for `verify --template`, look inside, and delete it again.

The clone is a plan of its own, with its own id and name: `apply` makes it and `destroy` deletes it, so that
the shown plan is the one that runs, under the same locks and marks. Both follow from the plan and the
template: a killed run leaves its clone to the next one, which deletes it first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING
from uuid import NAMESPACE_URL, uuid5

import typer

from vgpu_cfg.cli import compose
from vgpu_cfg.cli.flows import flow, verify_flow
from vgpu_cfg.cli.flows.running import apply_flow
from vgpu_cfg.cli.output import show
from vgpu_cfg.errors import GuestError, NotFound, VgpuCfgError
from vgpu_cfg.model.desired import DesiredGuest, DesiredPlan, DesiredVm, TemplateSource
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.findings.options import PlanOptions, matches_any

if TYPE_CHECKING:
    from vgpu_cfg.cli.flows.preparing.request import PlanRequest
    from vgpu_cfg.cli.flows.running.run_flow import ApplyOptions
    from vgpu_cfg.model.guest_looks import TemplateLook, TemplateLooks, TemplateRow
    from vgpu_cfg.settings.flags import ConnectionFlags
    from vgpu_cfg.verification.checks.template_checks import TemplateNeeds

_WAIT_SECONDS = 600
"""For how long a clone may take to boot and to report: it is given nothing but a name and a login."""

EXIT_INTERRUPTED = 130
"""No error: see docs/reference/exit-codes.md."""

_KEPT = frozenset({"folder", "resource_pool", "datastore", "cluster", "clusters", "cpus", "memory", "guest"})


def look_at_templates(
    request: PlanRequest, flags: ConnectionFlags, globs: Sequence[str], how: ApplyOptions
) -> TemplateLooks:
    """Look into one clone of each of the plan's templates that a glob means.

    Raises NotFound where there is none. Each clone is deleted again, whatever happened meanwhile.
    """
    from vgpu_cfg.model.guest_looks import TemplateLooks

    connection, desired = flow.locate(request, flags)
    by_template = _vms_by_template(desired, globs)
    with compose.connect_writer(connection) as estate:
        begun = estate.clock.now()
    looks: list[TemplateLook] = []
    left: list[str] = []
    for template, vms in by_template.items():
        throw_away = _request_of_clone(request, desired, vms)
        if clones := _deleted(throw_away, flags, how, is_over=False):
            left += clones
            continue
        try:
            looks.append(_look(throw_away, flags, template, vms, how))
        finally:  # a fault, or Ctrl-C, leaves no clone behind
            left += _deleted(throw_away, flags, how, is_over=True)
    return TemplateLooks(
        plan=desired.name, server=connection.server, begun=begun, looks=tuple(looks), left_over=tuple(left)
    )


def show_clones(
    request: PlanRequest, flags: ConnectionFlags, globs: Sequence[str], how: ApplyOptions
) -> None:
    """Show the plan of each clone; create none. Raises NotFound where no template is meant."""
    _, desired = flow.locate(request, flags)
    for vms in _vms_by_template(desired, globs).values():
        plan = flow.plan_once(_request_of_clone(request, desired, vms), flags, PlanOptions()).plan
        command = how.command("verify", *(f"--template={glob}" for glob in globs))
        show.plan(plan, how.output, command=command, verbose=False)
        flow.refuse_errors(plan)


def _request_of_clone(request: PlanRequest, desired: DesiredPlan, vms: Sequence[DesiredVm]) -> PlanRequest:
    return replace(request, desired=_plan_of_clone(desired, vms[0]), reviewed=None)


def _template(vm: DesiredVm) -> str:
    return str(vm.source) if isinstance(vm.source, TemplateSource) else ""


def _vms_by_template(desired: DesiredPlan, globs: Sequence[str]) -> dict[str, list[DesiredVm]]:
    found: dict[str, list[DesiredVm]] = {}
    for vm in desired.vms:
        name = _template(vm)
        if name and (matches_any(name, globs) or matches_any(name.rpartition("/")[2], globs)):
            found.setdefault(name, []).append(vm)
    if not found:
        known = sorted({_template(vm) for vm in desired.vms} - {""})
        raise NotFound(
            f"no VM in the plan uses {' or '.join(globs)} as its template",
            subject=desired.name,
            remedy=f"its templates are {', '.join(known)}" if known else "specify a template in `vms`",
        )
    return found


def _plan_of_clone(desired: DesiredPlan, vm: DesiredVm) -> DesiredPlan:
    """Return a plan of one VM: where `vm` goes, without its GPUs, disks and addresses."""
    known_by = uuid5(NAMESPACE_URL, f"{desired.vcenter} {desired.name} {desired.id} {_template(vm)}")
    name = f"template-check-{known_by.hex[:8]}"
    guest = vm.guest or DesiredGuest(host_name=name)
    bare = DesiredGuest(by=guest.by, host_name=name, login=guest.login, wait_seconds=_WAIT_SECONDS)
    nics = [nic for nic in vm.nics if nic.function is None and not nic.is_pvrdma][:1]
    clone = DesiredVm(
        name=name,
        line=name,
        source=vm.source,
        clusters=vm.clusters,
        folder=vm.folder,
        resource_pool=vm.resource_pool,
        datastore=vm.datastore,
        nics=tuple(nic.model_copy(update={"ip": None, "mac": None, "rdma": None}) for nic in nics),
        guest=bare,
        managed=(vm.managed & _KEPT) | {"guest"} | ({"nics"} if nics else set()),
        origin=vm.origin,
    )
    return desired.model_copy(
        update={
            "name": name,
            "id": str(known_by),
            "id_file": "",
            "hosts": (),
            "vms": (clone,),
            "moved": {},
            "training": None,
            "verify": None,
            "checks": {},
        }
    )


def _look(
    request: PlanRequest, flags: ConnectionFlags, template: str, vms: Sequence[DesiredVm], how: ApplyOptions
) -> TemplateLook:
    """Boot the clone and look; if that is impossible, report vCenter's facts."""
    from vgpu_cfg.model.guest_looks import TemplateLook

    (clone,) = request.desired.vms
    needs, why = _needs(vms), ""
    code = apply_flow.apply(request, flags, PlanOptions(), how)
    if code == EXIT_INTERRUPTED:
        raise typer.Exit(code)
    rows: tuple[TemplateRow, ...]
    try:
        rows = _rows(request, flags, needs)
    except GuestError as error:
        why = error.message
        rows = _from_outside(request, flags, needs, reported=code == 0)
    return TemplateLook(
        template=template, vms=fold_names(vm.name for vm in vms), clone=clone.name, rows=rows, silent=why
    )


def _rows(request: PlanRequest, flags: ConnectionFlags, needs: TemplateNeeds) -> tuple[TemplateRow, ...]:
    from vgpu_cfg.verification.checks.template_checks import look_inside

    connection, desired = flow.locate(request, flags)
    secrets = request.secrets()
    secrets.allow_commands()
    with compose.connect_writer(connection) as estate:
        observed = verify_flow.read_plan(desired, estate)
        ways = verify_flow.Ways(
            desired, observed, estate, verify_flow.specs_of(desired, observed), {}, secrets
        )
        return look_inside(ways.guest(desired.vms[0].name).run, needs)


def _from_outside(
    request: PlanRequest, flags: ConnectionFlags, needs: TemplateNeeds, *, reported: bool
) -> tuple[TemplateRow, ...]:
    from vgpu_cfg.planning.estate.ownership import own_vms
    from vgpu_cfg.verification.checks.template_checks import seen_from_outside

    connection, desired = flow.locate(request, flags)
    with compose.connect_writer(connection) as estate:
        own = own_vms(desired, flow.read_for(desired, estate.reader)).get(desired.vms[0].name)
    detail = own.detail if own is not None else None
    guest = detail.guest if detail is not None else None
    return seen_from_outside(
        needs,
        firmware=detail.firmware if detail is not None else "",
        has_tools=guest is not None and guest.tools_running,
        reported=reported,
    )


def _deleted(
    request: PlanRequest, flags: ConnectionFlags, how: ApplyOptions, *, is_over: bool
) -> tuple[str, ...]:
    """Delete the clone again, without asking: that was approved with the clone. Return the remainder."""
    from vgpu_cfg.planning.estate.ownership import own_vms
    from vgpu_cfg.settings.environment import state_folder
    from vgpu_cfg.settings.plan_keys import seed_file

    name = request.desired.vms[0].name
    try:
        connection, desired = flow.locate(request, flags)
        with compose.connect_writer(connection) as estate:
            observed = flow.read_for(desired, estate.reader)
        code = 0
        if own_vms(desired, observed):
            code = apply_flow.destroy(request, flags, PlanOptions(), replace(how, yes=True))
    except VgpuCfgError as error:
        show.say(f"{name} was not deleted: {error.message}")
        return (name,)
    if code != 0:
        return (name,)
    if is_over:  # the keys were the clone's: no other plan uses them
        seed_file(state_folder(), desired.name, observed.vcenter.instance_uuid).unlink(missing_ok=True)
    return ()


def _needs(vms: Sequence[DesiredVm]) -> TemplateNeeds:
    """Return what all VMs of a template ask of it together."""
    from vgpu_cfg.planning.guests.guest_checks import DRIVER_GIB
    from vgpu_cfg.verification.checks.template_checks import TemplateNeeds

    guests = [vm.guest for vm in vms if vm.guest is not None]
    packages = {bool(guest.driver.package) for guest in guests if guest.driver is not None}
    driver = "template" if False in packages else "package" if packages else ""
    return TemplateNeeds(
        efi=any(vm.gpus for vm in vms),
        cloud_init=not guests or any(guest.by == "cloud-init" for guest in guests),
        ssh=not guests or any(not guest.login.password for guest in guests),
        driver=driver,
        builds=True in packages,
        disk_gib=DRIVER_GIB // 2 if True in packages else 0,
    )
