"""The inventory changed: VMs taken out and registered again from their files, folders made, objects moved.

vCenter's own data on a VM, which the files lack, are gone after it was taken out: its moid, tags, custom
attributes and rules. That snapshots are gone, too, is the lab's own. Refusals and their faults are as in
govmomi's vcsim; that a VM without a disk of its own is not registered is assumed, of the faults that vim
declares.

Folders, datacenters and clusters are made, and VMs and folders are moved from folder to folder.
"""

from __future__ import annotations

import json
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.operations.cluster import change_services
from vgpu_cfg.lab.operations.files import config_file, disk_files, not_found, put, split
from vgpu_cfg.lab.operations.vms.create import register
from vgpu_cfg.lab.operations.vms.drafts import (
    check_in_pool,
    check_name,
    check_reaches,
    check_usable,
    choose_host,
    profiles_in,
)
from vgpu_cfg.lab.operations.vms.lifecycle import forget_vm
from vgpu_cfg.lab.operations.vms.privileges import NEEDED_FOR_FOLDER
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation import past_events
from vgpu_cfg.lab.simulation.operations import operation, required, resolve_or_none, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import copy_with
from vgpu_cfg.lab.state.inventory import (
    CHILD_TYPES,
    Cluster,
    Datacenter,
    Datastore,
    Folder,
    Host,
    ManagedT,
    ResourcePool,
    VirtualMachine,
)
from vgpu_cfg.lab.state.store import decode_object, encode_object


@operation("VirtualMachine", "UnregisterVM")
def unregister(lab: Simulation, vm: VirtualMachine) -> None:
    """Take a VM out of the inventory; its files stay."""
    refusals.check_off(vm)
    past_events.record(lab, vm, "VmRemovedEvent")
    forget_vm(lab, vm)
    store = lab.state.find(vm.datastore, Datastore)
    if store is not None:
        vm.snapshots, vm.current_snapshot = [], None
        store.left[config_file(vm)] = json.dumps(encode_object(vm))
        lab.state.touch(store)
        for name in disk_files(vm).values():
            put(lab, *split(lab, name), "")


def _check(
    lab: Simulation,
    folder: Folder,
    *,
    path: str,
    asTemplate: bool,
    name: str | None = None,
    pool: Any = None,
    host: Any = None,
) -> None:
    del name
    if "VirtualMachine" not in folder.child_types:
        raise refusals.bad_argument("folder")
    if asTemplate and host is None:
        raise refusals.bad_argument("host")
    if asTemplate is (pool is not None):
        raise refusals.bad_argument("pool")
    if not path:
        raise refusals.bad_argument("path")


@task("Folder", "RegisterVM_Task", description_id="Folder.registerVm", seconds=2.0, check=_check)
def register_vm(
    lab: Simulation,
    folder: Folder,
    *,
    path: str,
    asTemplate: bool,
    name: str | None = None,
    pool: Any = None,
    host: Any = None,
) -> VirtualMachine:
    """Register the VM of a file like `[vsan] web/web.vmx`. Raises NotFound, AlreadyExists."""
    state = lab.state
    store, file = split(lab, path)
    if file not in store.left:
        there = (state.get(moid, VirtualMachine) for moid in store.vms)
        known = next((vm for vm in there if config_file(vm) == file), None)
        raise refusals.already_exists(known.name) if known is not None else refusals.not_found()
    vm = decode_object(json.loads(store.left[file]))
    if not isinstance(vm, VirtualMachine):
        raise TypeError(f"{file} is not a VM")
    vm.name = name or vm.name
    check_name(state, folder, vm.name)
    _follow_files(lab, vm, store, file)
    asked = resolve_or_none(state, host, Host)
    into = None if asTemplate else required(state, pool, ResourcePool, "pool")
    if asked is not None:
        chosen = asked
    elif into is not None:
        chosen = choose_host(lab, into, store, profiles_in(vm), vm.hardware_version)
    else:
        raise refusals.bad_argument("host")
    check_usable(chosen)
    check_reaches(store, chosen, vim.Datastore(store.moid))
    if into is not None:
        check_in_pool(chosen, into)
    vm.moid, vm.is_template, vm.host_is_chosen = state.new_moid("vm"), asTemplate, asked is None
    vm.resource_pool = None
    del store.left[file]
    for name_of_disk in disk_files(vm).values():
        on, disk = split(lab, name_of_disk)
        del on.files[disk]
    return register(lab, vm, folder=folder, pool=into, host=chosen, store=store)


def _follow_files(lab: Simulation, vm: VirtualMachine, store: Datastore, file: str) -> None:
    """Place a VM in the folder of its file, with the disks in that folder. Raises FileNotFound."""
    before = lab.state.find(vm.datastore, Datastore)
    beside = f"[{before.name if before is not None else ''}] {vm.home or vm.name}/"
    vm.home, vm.datastore = file.rpartition("/")[0], store.moid
    for key, written in disk_files(vm).items():
        path = written
        if path.startswith(beside):
            path = f"[{store.name}] {vm.home}/{path.removeprefix(beside)}"
            disk = vm.devices[key]
            backing = copy_with(disk.backing, fileName=path, datastore=vim.Datastore(store.moid))
            vm.devices[key] = copy_with(disk, backing=backing)
        on, name = split(lab, path)
        if name not in on.files:
            raise not_found(path)


@operation("Folder", "CreateFolder")
def create_folder(lab: Simulation, folder: Folder, *, name: str) -> Folder:
    """Make a folder for the same kinds of objects."""
    check_name(lab.state, folder, name)
    kind = "v" if "VirtualMachine" in folder.child_types else "d"
    made = Folder(
        moid=lab.state.new_moid(f"group-{kind}"),
        name=name,
        parent=folder.moid,
        child_types=folder.child_types,
    )
    folder.children[made.moid] = None
    lab.state.touch(folder)
    return lab.state.add(made)


def _may_move(lab: Simulation, folder: Folder, **arguments: Any) -> None:
    lab.check_privileges(vim.Folder(folder.moid), NEEDED_FOR_FOLDER)
    for reference in arguments["list"]:
        thing = _movable(lab, reference)
        lab.check_privileges(reference, NEEDED_FOR_FOLDER)
        lab.check_privileges(vim.Folder(thing.parent), NEEDED_FOR_FOLDER)


@task("Folder", "MoveIntoFolder_Task", description_id="Folder.moveInto", seconds=1.0, check=_may_move)
def move_into(lab: Simulation, folder: Folder, **arguments: Any) -> None:
    """Move VMs and folders to a folder of their datacenter; other objects stay where they are in the lab."""
    for reference in arguments["list"]:
        thing = _movable(lab, reference)
        before = lab.state.get(thing.parent, Folder)
        same_kinds = before.child_types == folder.child_types
        if not same_kinds or lab.state.datacenter_of(folder) is not lab.state.datacenter_of(before):
            raise vim.fault.InvalidFolder(target=vim.Folder(folder.moid), msg="The folder is invalid.")
        check_name(lab.state, folder, thing.name, thing.moid)
        before.children.pop(thing.moid, None)
        folder.children[thing.moid] = None
        thing.parent = folder.moid
        lab.state.touch(before, folder, thing)


def _movable(lab: Simulation, reference: Any) -> VirtualMachine | Folder:
    if isinstance(reference, vim.Folder):
        return required(lab.state, reference, Folder, "list")
    return required(lab.state, reference, VirtualMachine, "list")


@operation("Folder", "CreateDatacenter")
def create_datacenter(lab: Simulation, folder: Folder, *, name: str) -> Datacenter:
    """Make a datacenter with its four folders. Raises NotSupported below one, DuplicateName."""
    _check_kind(folder, "Datacenter")
    check_name(lab.state, folder, name)
    made = Datacenter(moid=lab.state.new_moid("datacenter"), name=name, parent=folder.moid)
    for kind in ("vm", "host", "datastore", "network"):
        top = Folder(
            moid=lab.state.new_moid(f"group-{kind[0] if kind != 'datastore' else 's'}"),
            name=kind,
            parent=made.moid,
            child_types=CHILD_TYPES[kind],
        )
        setattr(made, f"{kind}_folder", lab.state.add(top).moid)
    return _into(lab, folder, made)


@operation("Folder", "CreateCluster")
def create_cluster(lab: Simulation, folder: Folder, *, name: str, spec: Any) -> Cluster:
    """Make a cluster without hosts, as `CreateClusterEx` does."""
    del spec
    made: Cluster = create_cluster_ex(lab, folder, name=name, spec=vim.cluster.ConfigSpecEx())
    return made


@operation("Folder", "CreateClusterEx")
def create_cluster_ex(lab: Simulation, folder: Folder, *, name: str, spec: Any) -> Cluster:
    """Make a cluster without hosts; DRS and HA are off unless a spec turns them on. Raises DuplicateName."""
    _check_kind(folder, "ComputeResource")
    check_name(lab.state, folder, name)
    made = Cluster(
        moid=lab.state.new_moid("domain-c"),
        name=name,
        parent=folder.moid,
        drs_enabled=False,
        drs_behavior="fullyAutomated",
        ha_enabled=False,
    )
    pool = ResourcePool(
        moid=lab.state.new_moid("resgroup"), name="Resources", parent=made.moid, owner=made.moid
    )
    made.resource_pool = lab.state.add(pool).moid
    change_services(lab.state, made, spec)
    return _into(lab, folder, made)


def _check_kind(folder: Folder, kind: str) -> None:
    if kind not in folder.child_types:
        raise refusals.not_supported()


def _into(lab: Simulation, folder: Folder, made: ManagedT) -> ManagedT:
    folder.children[made.moid] = None
    lab.state.touch(folder)
    return lab.state.add(made)
