"""MigrateVM_Task and RelocateVM_Task: a VM registered elsewhere while it is off, or moved as it runs.

Nothing is copied: a datastore that changes is remembered. CPU compatibility and vMotion networks are not
judged. A VM that is off may go where it can never start; that shows at its power-on.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.operations.vms.drafts import (
    check_in_pool,
    check_reachable,
    check_reaches,
    check_usable,
    stamp_change,
)
from vgpu_cfg.lab.operations.vms.lifecycle import forget_in_cluster
from vgpu_cfg.lab.operations.vms.power import move_to
from vgpu_cfg.lab.operations.vms.privileges import NEEDED_ON_DATASTORE, NEEDED_ON_POOL, needed_for_move
from vgpu_cfg.lab.rules import admission, drs, hardware, refusals
from vgpu_cfg.lab.simulation.operations import resolve, resolve_or_none, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import copy_with, disks_of, network_of, nics_of
from vgpu_cfg.lab.state.inventory import Cluster, Datastore, Host, ResourcePool, VirtualMachine

SECONDS = 6.0


def _may_migrate(
    lab: Simulation,
    vm: VirtualMachine,
    *,
    host: Any = None,
    pool: Any = None,
    state: Any = None,
    priority: Any = None,
) -> None:
    del priority
    _check_privileges(lab, vm, host, pool, None)
    if host is None and pool is None:
        raise refusals.bad_argument("host")
    if vm.is_template:
        raise refusals.not_supported()
    if state is not None and state != vm.power_state:
        raise refusals.wrong_power_state(vm, str(state))


def _may_relocate(lab: Simulation, vm: VirtualMachine, *, spec: Any, **_priority: Any) -> None:
    _check_privileges(lab, vm, spec.host, spec.pool, spec.datastore)


def _check_privileges(lab: Simulation, vm: VirtualMachine, host: Any, pool: Any, store: Any) -> None:
    """Refuse at once missing privileges, and objects that have gone."""
    lab.check_privileges(vim.VirtualMachine(vm.moid), needed_for_move(is_on=vm.is_on))
    resolve_or_none(lab.state, host, Host)
    if resolve_or_none(lab.state, pool, ResourcePool) is not None:
        lab.check_privileges(pool, NEEDED_ON_POOL)
    if resolve_or_none(lab.state, store, Datastore) is not None:
        lab.check_privileges(store, NEEDED_ON_DATASTORE)


@task(
    "VirtualMachine",
    "MigrateVM_Task",
    description_id="VirtualMachine.migrate",
    seconds=SECONDS,
    check=_may_migrate,
    cancelable=True,
)
def migrate(
    lab: Simulation,
    vm: VirtualMachine,
    *,
    host: Any = None,
    pool: Any = None,
    state: Any = None,
    priority: Any = None,
) -> None:
    """Move a VM to a host, a pool, or both."""
    del state, priority
    _move(lab, vm, host, pool, None, path="")


@task(
    "VirtualMachine",
    "RelocateVM_Task",
    description_id="VirtualMachine.relocate",
    seconds=SECONDS,
    check=_may_relocate,
    cancelable=True,
)
def relocate(lab: Simulation, vm: VirtualMachine, *, spec: Any, **_priority: Any) -> None:
    """Move a VM or a template to a host, a pool, a datastore; disks that `disk` names go where it says.

    Nothing else of a RelocateSpec is taken.
    """
    if spec.deviceChange or spec.service is not None or spec.folder is not None:
        raise refusals.not_supported()
    located = {one.diskId: resolve(lab.state, one.datastore, Datastore) for one in spec.disk or ()}
    if not located.keys() <= {disk.key for disk in disks_of(vm.devices)}:
        raise refusals.bad_argument("spec.disk.diskId")
    _move(lab, vm, spec.host, spec.pool, spec.datastore, path="spec.", located=located)


def _move(
    lab: Simulation,
    vm: VirtualMachine,
    host_ref: Any,
    pool_ref: Any,
    store_ref: Any,
    *,
    path: str,
    located: Mapping[int, Datastore] | None = None,
) -> None:
    state = lab.state
    check_reachable(state, vm)
    before = state.get(vm.host, Host)
    host = resolve_or_none(state, host_ref, Host) or before
    pool = resolve_or_none(state, pool_ref, ResourcePool) or state.find(vm.resource_pool, ResourcePool)
    store = resolve_or_none(state, store_ref, Datastore) or state.get(vm.datastore, Datastore)
    if pool is not None:
        if host_ref is None and pool.owner != before.parent:
            host = _only_host(lab, pool, path)
        check_in_pool(host, pool)
    if host is not before or store.moid != vm.datastore:
        check_usable(host)
        check_reaches(store, host, store_ref)
        _check_space(vm, store, located or {})
        for other in (located or {}).values():
            check_reaches(other, host, vim.Datastore(other.moid))
        if vm.is_on:
            _check_running(lab, vm, before, host)
    if vm.hardware_version > hardware.max_hardware_version(host):
        raise refusals.too_new(host)
    if vm.is_on and host is not before:
        move_running(lab, vm, [host])
    else:
        move_to(lab, vm, before, host)
    if host.parent != before.parent:
        forget_in_cluster(lab, state.get(before.parent, Cluster), vm.moid)
    if host_ref is not None:
        vm.host_is_chosen = False
    if store.moid != vm.datastore:
        _move_files(lab, vm, store, located or {})
    _into_pool(lab, vm, pool)
    state.touch(vm)


def _only_host(lab: Simulation, pool: ResourcePool, path: str) -> Host:
    """Return the host of a pool elsewhere where it has only one; a cluster's must be named."""
    hosts = lab.state.get(pool.owner, Cluster).hosts
    if len(hosts) != 1:
        raise refusals.bad_argument(f"{path}host")
    return lab.state.get(hosts[0], Host)


def _check_running(lab: Simulation, vm: VirtualMachine, before: Host, host: Host) -> None:
    """Raise where a VM cannot move as it runs; that files alone ask the same of it is assumed."""
    vm.log.clear()
    drs.check_may_leave(lab.state, vm, before)
    for nic in nics_of(vm.devices):
        if (network := network_of(nic)) and network not in host.networks:
            raise refusals.no_network(nic, vim.Network(network))


def move_running(lab: Simulation, vm: VirtualMachine, candidates: list[Host]) -> None:
    """Move a running VM to the first host that takes it; raise why none does."""
    before = lab.state.get(vm.host, Host)
    chosen, admitted = drs.place_running(lab.state, vm, candidates, lab.pick)
    since = vm.boot_time
    admission.stop(lab.state, vm)
    move_to(lab, vm, before, chosen, by="move")
    admission.start(lab.state, vm, chosen, admitted, now=lab.clock.now() if since is None else since)


def _check_space(vm: VirtualMachine, store: Datastore, located: Mapping[int, Datastore]) -> None:
    size_mib = sum(disk.capacityInKB // 1024 for disk in disks_of(vm.devices) if disk.key not in located)
    if store.moid != vm.datastore and size_mib > store.free_mib:
        raise vim.fault.NoDiskSpace(
            datastore=store.name, msg=f"Insufficient disk space on datastore '{store.name}'."
        )


def _move_files(
    lab: Simulation, vm: VirtualMachine, store: Datastore, located: Mapping[int, Datastore]
) -> None:
    """Remember other datastores for the VM's home and disks; nothing is copied.

    A disk from elsewhere comes into the VM's folder, unless the request keeps it.
    """
    for disk in disks_of(vm.devices):
        before = str(disk.backing.fileName or "")
        to = located.get(disk.key, store)
        if before.startswith(f"[{to.name}] "):
            continue
        name = f"[{to.name}] {vm.home or vm.name}/{before.rpartition('/')[2]}"
        lab.note(vm, "disk move", before)
        moved = copy_with(disk.backing, fileName=name, datastore=vim.Datastore(to.moid))
        vm.devices[disk.key] = copy_with(disk, backing=moved)
    old = lab.state.get(vm.datastore, Datastore)
    old.vms.pop(vm.moid, None)
    store.vms[vm.moid] = None
    vm.datastore = store.moid
    lab.state.touch(old, store, vm)
    stamp_change(lab, vm)


def _into_pool(lab: Simulation, vm: VirtualMachine, pool: ResourcePool | None) -> None:
    old = lab.state.find(vm.resource_pool, ResourcePool)
    if pool is None or vm.is_template or pool is old:
        return
    if old is not None:
        old.vms.pop(vm.moid, None)
        lab.state.touch(old)
    pool.vms[vm.moid] = None
    vm.resource_pool = pool.moid
    lab.state.touch(pool, vm)
