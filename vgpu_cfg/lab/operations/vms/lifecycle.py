"""Objects renamed, turned into templates and back, and removed.

An object is removed only if nothing is left in it or on it; which fault says so for a cluster and a
datacenter is assumed.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.operations import pools
from vgpu_cfg.lab.operations.vms.create import new_uuids
from vgpu_cfg.lab.operations.vms.disk_files import delete_files_of_snapshots
from vgpu_cfg.lab.operations.vms.drafts import check_name, check_reachable, device_name, stamp_change
from vgpu_cfg.lab.operations.vms.privileges import NEEDED_FOR_DESTROY, NEEDED_FOR_RENAME
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import operation, required, resolve_or_none, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.simulation.tasks import cancel
from vgpu_cfg.lab.state.devices import disks_of, network_of, nics_of
from vgpu_cfg.lab.state.inventory import (
    Cluster,
    Datacenter,
    Datastore,
    DistributedSwitch,
    Folder,
    Host,
    Managed,
    Network,
    ResourcePool,
    Task,
    VirtualMachine,
)
from vgpu_cfg.lab.state.libraries import forget_item_of
from vgpu_cfg.lab.state.tags import forget_tags_of

_MOUNTED = (Datastore, Network, DistributedSwitch)
"""The objects that name the hosts that have it."""


def check_host(lab: Simulation, host: Host) -> None:
    """Raise InvalidState for a host that is neither disconnected nor in maintenance mode."""
    on = [moid for moid in host.vms if lab.state.get(moid, VirtualMachine).is_on]
    if host.connection == "connected" and (on or not host.in_maintenance):
        raise refusals.wrong_state(" of the host")


def remove_host(lab: Simulation, host: Host) -> None:
    """Take a host without VMs out of the inventory."""
    state = lab.state
    cluster = state.cluster_of(host)
    cluster.hosts.remove(host.moid)
    for thing in (one for one in state.objects.values() if isinstance(one, _MOUNTED)):
        if host.moid in thing.hosts:
            thing.hosts.remove(host.moid)
            state.touch(thing)
    for switch in state.all(DistributedSwitch):
        switch.uplinks.pop(host.moid, None)
    for waiting in (state.leaving, state.booting):
        waiting.pop(host.moid, None)
    state.touch(cluster)
    state.remove(host)


def remove_cluster(lab: Simulation, cluster: Cluster) -> None:
    """Remove a cluster without hosts. Raises ResourceInUse."""
    if cluster.hosts:
        raise in_use(cluster)
    lab.state.remove(lab.state.objects[cluster.resource_pool])
    take_out(lab, cluster)


def remove_datacenter(lab: Simulation, datacenter: Datacenter) -> None:
    """Remove a datacenter with nothing in its folders. Raises ResourceInUse."""
    folders = [
        lab.state.get(moid, Folder)
        for moid in (
            datacenter.vm_folder,
            datacenter.host_folder,
            datacenter.datastore_folder,
            datacenter.network_folder,
        )
    ]
    if any(folder.children for folder in folders):
        raise in_use(datacenter)
    for folder in folders:
        lab.state.remove(folder)
    take_out(lab, datacenter)


def remove_portgroup(lab: Simulation, portgroup: Network) -> None:
    """Remove a distributed portgroup on which nothing is. Raises ResourceInUse."""
    if is_used(lab, portgroup) or portgroup.is_uplink:
        raise in_use(portgroup)
    switch = lab.state.get(portgroup.switch, DistributedSwitch)
    switch.portgroups.remove(portgroup.moid)
    lab.state.touch(switch)
    _forget(lab, portgroup)


def remove_switch(lab: Simulation, switch: DistributedSwitch) -> None:
    """Remove a distributed switch without members, with its portgroups. Raises ResourceInUse."""
    portgroups = [network for network in lab.state.all(Network) if network.switch == switch.moid]
    if switch.hosts or any(is_used(lab, portgroup) for portgroup in portgroups):
        raise in_use(switch)
    for portgroup in portgroups:
        _forget(lab, portgroup)
    take_out(lab, switch)


def _forget(lab: Simulation, portgroup: Network) -> None:
    for host in lab.state.all(Host):
        if portgroup.moid in host.networks:
            host.networks.remove(portgroup.moid)
            lab.state.touch(host)
    for cluster in lab.state.all(Cluster):
        if portgroup.moid in cluster.networks:
            cluster.networks.remove(portgroup.moid)
            lab.state.touch(cluster)
    take_out(lab, portgroup)


def is_used(lab: Simulation, portgroup: Network) -> bool:
    """Whether a VM or a VMkernel NIC is on a portgroup."""
    vmknics = (vmknic for host in lab.state.all(Host) for vmknic in host.vmknics.values())
    return bool(portgroup.vms) or any(vmknic.distributed == portgroup.moid for vmknic in vmknics)


def in_use(thing: Managed) -> Any:
    """Return the refusal for an object that is not empty."""
    return vim.fault.ResourceInUse(name=thing.name, msg=f"The resource '{thing.name}' is in use.")


def take_out(lab: Simulation, thing: Managed) -> None:
    """Take a thing out of its folder and of the inventory."""
    above = lab.state.get(thing.parent, Folder)
    above.children.pop(thing.moid, None)
    lab.state.touch(above)
    lab.state.remove(thing)


def _may_rename(lab: Simulation, thing: Managed, *, newName: str) -> None:
    del newName
    if isinstance(thing, VirtualMachine):
        lab.check_privileges(vim.VirtualMachine(thing.moid), NEEDED_FOR_RENAME)


@task(
    "ManagedEntity",
    "Rename_Task",
    description_id="ManagedEntity.rename",
    seconds=1.0,
    check=_may_rename,
)
def rename(lab: Simulation, thing: Managed, *, newName: str) -> None:
    """Rename any object of a folder."""
    folder = lab.state.find(thing.parent, Folder)
    if folder is not None:
        check_name(lab.state, folder, newName, thing.moid)
    lab.note(thing, "rename", newName)
    thing.name = newName
    if isinstance(thing, VirtualMachine) and lab.state.denies("identity-survives-rename-and-move"):
        _, thing.instance_uuid = new_uuids(lab, f"{thing.moid}.{lab.state.revision}")
    lab.state.touch(thing)
    if isinstance(thing, VirtualMachine):
        stamp_change(lab, thing)


def _may_destroy(lab: Simulation, thing: Managed) -> None:
    if isinstance(thing, VirtualMachine):
        lab.check_privileges(vim.VirtualMachine(thing.moid), NEEDED_FOR_DESTROY)


@task(
    "ManagedEntity",
    "Destroy_Task",
    description_id="ManagedEntity.destroy",
    seconds=2.0,
    check=_may_destroy,
)
def destroy(lab: Simulation, thing: Managed) -> None:
    """Destroy a VM that does not run with all its disks, a folder with nothing but such VMs in it, or a pool.

    Other objects are destroyed if nothing is left in them (`removal`). The content of a resource pool goes to
    the pool above it; a cluster's own pool cannot be destroyed.
    """
    match thing:
        case VirtualMachine():
            refusals.check_off(thing)
            check_reachable(lab.state, thing)
            for disk in disks_of(thing.devices):
                lab.note(thing, "disk delete", device_name(disk))
            lab.note(thing, "delete")
            delete_files_of_snapshots(lab.state, thing)
            for belief in ("destroy-keeps-detached-files", "destroy-keeps-files-of-other-vms"):
                if lab.state.denies(belief):
                    _delete_folder(lab, thing)
            forget_vm(lab, thing)
        case Folder():
            children = [lab.state.objects[moid] for moid in thing.children]
            for vm in children:
                if isinstance(vm, VirtualMachine) and vm.is_on:
                    raise refusals.wrong_power_state(vm, "poweredOff")
            for child in children:
                destroy(lab, child)
            take_out(lab, thing)
        case Host():
            check_host(lab, thing)
            for moid in list(thing.vms):
                forget_vm(lab, lab.state.get(moid, VirtualMachine))
            remove_host(lab, thing)
        case Cluster() if not thing.is_standalone:
            remove_cluster(lab, thing)
        case Datacenter():
            remove_datacenter(lab, thing)
        case DistributedSwitch():
            remove_switch(lab, thing)
        case Network() if thing.is_distributed:
            remove_portgroup(lab, thing)
        case ResourcePool() if lab.state.find(thing.parent, ResourcePool) is not None:
            pools.destroy_pool(lab, thing)
        case _:
            raise refusals.not_supported()


def _delete_folder(lab: Simulation, vm: VirtualMachine) -> None:
    store = lab.state.get(vm.datastore, Datastore)
    for path in [path for path in store.files if path.startswith(f"{vm.home or vm.name}/")]:
        del store.files[path]
        lab.note(vm, "disk delete", f"[{store.name}] {path}")
    lab.state.touch(store)


def forget_vm(lab: Simulation, vm: VirtualMachine) -> None:
    """Take a VM out of everything that names it."""
    state = lab.state
    places: list[Managed | None] = [
        state.find(vm.parent, Folder),
        state.find(vm.host, Host),
        state.find(vm.resource_pool, ResourcePool),
        state.find(vm.datastore, Datastore),
        *(state.find(network_of(nic), Network) for nic in nics_of(vm.devices)),
    ]
    for place in places:
        match place:
            case Folder():
                place.children.pop(vm.moid, None)
            case Host() | ResourcePool() | Datastore() | Network():
                place.vms.pop(vm.moid, None)
            case _:
                continue
        state.touch(place)
    for cluster in state.all(Cluster):
        forget_in_cluster(lab, cluster, vm.moid)
    state.waking.pop(vm.moid, None)
    state.custom_values.get("values", {}).pop(vm.moid, None)
    if not state.denies("deleted-vm-drops-its-tags"):
        forget_tags_of(state, vm.moid)
    forget_item_of(state, vm.moid)
    for moid in vm.snapshots:
        state.remove(state.objects[moid])
    state.remove(vm)


def forget_in_cluster(lab: Simulation, cluster: Cluster, moid: str) -> None:
    """Drop a VM from rules, groups and overrides.

    A rule with one VM stays, and does nothing. One without any goes: the API cannot express it.
    """
    touched = cluster.overrides.pop(moid, None) is not None
    for rule in cluster.rules:
        if moid in rule.vms:
            rule.vms = tuple(other for other in rule.vms if other != moid)
            touched = True
    least = 2 if lab.state.denies("rule-goes-with-its-last-vm") else 1
    cluster.rules = [rule for rule in cluster.rules if len(rule.vms) >= least or rule.kind == "vm_host"]
    for group in cluster.groups:
        if moid in group.members and not lab.state.denies("deleted-vm-leaves-its-group"):
            group.members = tuple(other for other in group.members if other != moid)
            touched = True
    if touched:
        lab.state.touch(cluster)


@operation("VirtualMachine", "MarkAsTemplate")
def mark_as_template(lab: Simulation, vm: VirtualMachine) -> None:
    """Make a template of a VM that is off."""
    refusals.check_off(vm)
    _leave_pool(lab, vm)
    vm.is_template = True
    lab.state.touch(vm)


@operation("VirtualMachine", "MarkAsVirtualMachine")
def mark_as_vm(lab: Simulation, vm: VirtualMachine, *, pool: Any, host: Any = None) -> None:
    """Make a VM of a template again."""
    if not vm.is_template:
        raise refusals.wrong_state()
    into = required(lab.state, pool, ResourcePool, "pool")
    wanted = resolve_or_none(lab.state, host, Host)
    before = lab.state.get(vm.host, Host)
    if wanted is not None and wanted is not before:
        before.vms.pop(vm.moid, None)
        wanted.vms[vm.moid] = None
        vm.host = wanted.moid
        lab.state.touch(before, wanted)
    vm.is_template = False
    vm.resource_pool = into.moid
    into.vms[vm.moid] = None
    lab.state.touch(vm, into)


def _leave_pool(lab: Simulation, vm: VirtualMachine) -> None:
    pool = lab.state.find(vm.resource_pool, ResourcePool)
    if pool is not None:
        pool.vms.pop(vm.moid, None)
        lab.state.touch(pool)
    vm.resource_pool = None


@operation("Task", "CancelTask")
def cancel_task(lab: Simulation, task_: Task) -> None:
    """Cancel a task that can be."""
    cancel(lab, task_)
