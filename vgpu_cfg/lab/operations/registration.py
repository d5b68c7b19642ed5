"""VMs taken out of the inventory with their files left, and registered again from them.

What vCenter keeps of a VM, and the files do not, is gone: its moid, tags, custom attributes and rules. That
snapshots are gone, too, is the lab's own. What is refused, and with which fault, is as in govmomi's vcsim;
that a VM without a disk of its own is not registered is assumed, of the faults that vim declares.
"""

from __future__ import annotations

import json
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.operations.files import config_file, disk_files, not_found, put, split
from vgpu_cfg.lab.operations.refs import required, resolve_or_none
from vgpu_cfg.lab.operations.vms.create import register
from vgpu_cfg.lab.operations.vms.drafts import check_name
from vgpu_cfg.lab.operations.vms.lifecycle import forget_vm
from vgpu_cfg.lab.operations.vms.place import (
    check_in_pool,
    check_reaches,
    check_usable,
    choose_host,
    profiles_in,
)
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation import past_events
from vgpu_cfg.lab.simulation.operations import operation, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.as_json import decode_object, encode_object
from vgpu_cfg.lab.state.devices import copy_with
from vgpu_cfg.lab.state.inventory import Datastore, Folder, Host, ResourcePool, VirtualMachine


@operation("VirtualMachine", "UnregisterVM")
def unregister(lab: Simulation, vm: VirtualMachine) -> None:
    """Take a VM out of the inventory; its files stay."""
    if vm.is_on:
        raise refusals.wrong_power_state(vm, "poweredOff")
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
    """Register what a file like `[vsan] web/web.vmx` describes. Raises NotFound, AlreadyExists."""
    state = lab.state
    store, file = split(lab, path)
    if file not in store.left:
        there = (state.get(moid, VirtualMachine) for moid in store.vms)
        known = next((vm for vm in there if config_file(vm) == file), None)
        raise refusals.already_exists(known.name) if known is not None else refusals.not_found()
    vm = decode_object(json.loads(store.left[file]))
    if not isinstance(vm, VirtualMachine):
        raise TypeError(f"{file} is no VM")
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
    """Let a VM be where its file is, with the disks that lay beside it. Raises FileNotFound."""
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
