"""Whether those that went first are as planned, by a reading made since and what would still be changed."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import ChangeHost, ExitMaintenance
from vgpu_cfg.changes.plan import Canary, Plan
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.estate.own import own_vms


def problems_of(canary: Canary, plan: Plan, after: Inventory, left: Plan) -> tuple[str, ...]:
    """Say what of a canary is not as planned; `left` is the plan made for `after`."""
    return tuple(dict.fromkeys(_problems(canary, plan, after, left)))


def upgraded_hosts(canary: Canary, plan: Plan) -> dict[str, str]:
    """Return by moid the names of a canary's hosts whose NVIDIA driver was changed."""
    return {
        change.host.moid: change.host.name
        for change in of_kind(plan.changes, ChangeHost)
        if change.id in canary.first and any(target.setting == "driver" for target in change.settings)
    }


def _problems(canary: Canary, plan: Plan, after: Inventory, left: Plan) -> Iterator[str]:
    done = [change for change in plan.changes if change.id in canary.first]
    held = {one.host.moid for one in of_kind(done, ExitMaintenance) if one.is_held}
    for moid, name in {
        one.host_moid: one.subject.name for one in done if one.subject.kind == "host" and one.host_moid
    }.items():
        yield from _of_host(name, after.host_by_moid.get(moid), is_held=moid in held)
    own = own_vms(plan.desired, after)
    places = {placement.vm: placement.host_moid for placement in plan.placements}
    for vm in (change.starts for change in done):
        if vm is not None:
            found = after.vm_by_moid.get(vm.moid or "") or own.get(vm.name)
            yield from _of_vm(vm.name, found, places.get(vm.name), after)
    for change in left.changes:
        if change.subject.kind in ("host", "vm") and change.subject.name in canary.names:
            yield f"{change.subject.name}: {change.id} would have to be done again"
    for error in left.errors:
        if error.subject.name in canary.names:
            yield f"{error.subject.name}: {error.code} {error.message}"


def _of_host(name: str, host: Host | None, *, is_held: bool) -> Iterator[str]:
    if host is None:
        yield f"{name}: it has gone from vCenter"
    elif host.connection is not Connection.CONNECTED:
        yield f"{name}: it {host.connection.words}"
    elif host.is_in_maintenance_mode and not is_held:
        yield f"{name}: it is in maintenance mode"


def _of_vm(name: str, vm: Vm | None, planned: str | None, after: Inventory) -> Iterator[str]:
    if vm is None:
        yield f"{name}: it has gone from vCenter"
    elif not vm.is_on:
        yield f"{name}: it does not run"
    elif planned is not None and vm.host_moid != planned:
        names = [
            after.host_by_moid[one].name for one in (vm.host_moid or "", planned) if one in after.host_by_moid
        ]
        yield f"{name}: it runs on {' and was planned for '.join(names)}"
