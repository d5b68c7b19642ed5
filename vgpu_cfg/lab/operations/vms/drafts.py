"""A VM being changed or made: a draft that becomes the VM only if all of a ConfigSpec can be, and its place.

The place of a new VM is a pool, a host and a datastore; the lab chooses a host if none is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import fields, replace
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.operations.vms.device_groups import change_devices
from vgpu_cfg.lab.operations.vms.settings import apply_policies, apply_settings
from vgpu_cfg.lab.rules import hardware, refusals
from vgpu_cfg.lab.rules.gpu_load import find_slot, knows, load_of, serves_vgpus
from vgpu_cfg.lab.rules.refusals import refuse
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.operations import moid_of
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import is_passthrough, network_of, nics_of, vgpus_of
from vgpu_cfg.lab.state.inventory import (
    Cluster,
    Datastore,
    Folder,
    Host,
    LabState,
    Network,
    ResourcePool,
    VirtualMachine,
)

_FIELDS = tuple(field.name for field in fields(VirtualMachine))
LONGEST_NAME = 80
_ESCAPED = re.compile(r"%(?!25|2f|5c)|[/\\]", re.IGNORECASE)
"""Characters that vCenter stores as three."""


def draft_of(vm: VirtualMachine, **changes: Any) -> VirtualMachine:
    """Return a copy of a VM whose every container is its own."""
    copied = replace(
        vm,
        extra_config=dict(vm.extra_config),
        extra=dict(vm.extra),
        device_groups=dict(vm.device_groups),
        disk_policies=dict(vm.disk_policies),
        log=list(vm.log),
        snapshots=list(vm.snapshots),
        made_devices=dict(vm.devices),
        seed=None,
    )
    for name, value in changes.items():
        setattr(copied, name, value)
    return copied


def apply_spec(lab: Simulation, draft: VirtualMachine, host: Host | None, spec: Any) -> None:
    """Apply everything of a ConfigSpec but name and version to a draft."""
    apply_settings(draft, spec)
    _apply_instance_uuid(lab.state, draft, spec.instanceUuid)
    before = set(draft.devices)
    change_devices(lab.state, draft, host, spec.deviceChange or [], spec.deviceGroups)
    apply_policies(lab.state, draft, spec, before)
    is_exposed = draft.extra.get("nestedHVEnabled")
    if is_exposed and any(is_passthrough(device) for device in draft.devices.values()):
        raise refuse("nested-with-passthrough")


def _apply_instance_uuid(state: LabState, draft: VirtualMachine, asked: str | None) -> None:
    """Give a VM the instance UUID that a client asks for; a running one takes it, too.

    An empty one asks for a new one, and vCenter assigns another where two VMs would have the same
    (`instanceUuid` of VirtualMachineConfigSpec in the vSphere API reference).
    """
    if asked is None:
        return
    others = {vm.instance_uuid for vm in state.all(VirtualMachine) if vm.moid != draft.moid}
    if asked and asked.lower() not in others:
        draft.instance_uuid = asked.lower()
    elif not asked or draft.instance_uuid in others:
        draft.instance_uuid = str(
            uuid5(NAMESPACE_URL, f"{draft.moid}.{state.revision}.{draft.instance_uuid}")
        )


def commit(lab: Simulation, vm: VirtualMachine, draft: VirtualMachine) -> None:
    """Make the VM from a draft, with a new change version."""
    before = _networks_of(vm)
    _note(lab, vm, draft)
    for name in _FIELDS:
        if name not in ("moid", "revision"):
            setattr(vm, name, getattr(draft, name))
    relink_networks(lab.state, vm, before)
    lab.state.touch(vm)
    stamp_change(lab, vm)


def _note(lab: Simulation, vm: VirtualMachine, draft: VirtualMachine) -> None:
    """Write into the diary the events of a VM that becomes its draft."""
    lab.note(vm, "reconfigure")
    if draft.name != vm.name:
        lab.note(vm, "rename", draft.name)
    for key, device in vm.devices.items():
        after = draft.devices.get(key)
        if after is None:
            lab.note(vm, "device detach", device_name(device))
        elif getattr(after, "capacityInKB", None) != getattr(device, "capacityInKB", None):
            lab.note(vm, "disk grow", device_name(device))
        elif isinstance(device, vim.vm.device.VirtualEthernetCard) and _wiring(after) != _wiring(device):
            lab.note(vm, "network", device_name(device))
    for key in draft.devices.keys() - vm.devices.keys():
        lab.note(vm, "device attach", device_name(draft.devices[key]))


def _wiring(nic: Any) -> tuple[str, str]:
    return network_of(nic), str(nic.macAddress).casefold()


def device_name(device: Any) -> str:
    """Return the identity of a device: a disk's file, else its label."""
    return str(getattr(device.backing, "fileName", None) or getattr(device.deviceInfo, "label", ""))


def stamp_change(lab: Simulation, vm: VirtualMachine, belief: str = "edits-move-change-version") -> None:
    """Give a VM a change version that it never had, unless the belief that it gets one is false."""
    if lab.state.denies(belief):
        return
    moment = as_datetime(lab.clock.now())
    vm.change_version = f"{moment:%Y-%m-%dT%H:%M:%S}.{lab.state.revision % 1_000_000:06}Z"


def relink_networks(state: LabState, vm: VirtualMachine, before: set[str]) -> None:
    """Let networks know which VMs are on them."""
    after = _networks_of(vm)
    for moid in before ^ after:
        network = state.find(moid, Network)
        if network is None:
            continue
        if moid in after:
            network.vms[vm.moid] = None
        else:
            network.vms.pop(vm.moid, None)
        state.touch(network)


def check_name(state: LabState, folder: Folder, name: str, me: str = "") -> None:
    """Raise InvalidName for an empty name or a long one, DuplicateName where the folder has it already."""
    if not name:
        raise vim.fault.InvalidName(name=name, msg=f"The name '{name}' is invalid.")
    if len(_ESCAPED.sub("%25", name)) > LONGEST_NAME:
        raise refuse("name-too-long", name=name)
    for moid in folder.children:
        thing = state.objects[moid]
        if moid != me and thing.name == name:
            raise refusals.duplicate_name(name, reference(thing))


def _networks_of(vm: VirtualMachine) -> set[str]:
    return {network_of(nic) for nic in nics_of(vm.devices)}


def choose_host(
    lab: Simulation, pool: ResourcePool, store: Datastore | None, profiles: Iterable[str], version: int
) -> Host:
    """Return the host of a pool's cluster that has room for vGPUs now, or knows them at least.

    Raises NoCompatibleHost where no usable host reaches the datastore.
    """
    cluster = lab.state.get(pool.owner, Cluster)
    hosts = [lab.state.get(moid, Host) for moid in cluster.hosts]
    wanted = list(profiles)
    usable = [
        host
        for host in hosts
        if host.is_usable
        and (store is None or store.moid in host.datastores)
        and version <= hardware.max_hardware_version(host)
    ]
    if not usable:
        raise vim.fault.NoCompatibleHost(
            host=[vim.HostSystem(host.moid) for host in hosts],
            error=[refusals.host_unusable(host) or refusals.too_new(host) for host in hosts],
            msg="No host is compatible with the virtual machine.",
        )
    knowing = [host for host in usable if all(knows(host, profile) for profile in wanted)] or usable
    having_room = [host for host in knowing if _has_room(host, wanted)] or knowing
    return min(having_room, key=lambda host: len(host.vms))


def profiles_in(vm: VirtualMachine, *specs: Any) -> list[str]:
    """Return the profiles that a VM would have after a ConfigSpec."""
    wanted = dict(vgpus_of(vm.devices))
    added: list[str] = []
    for change in (change for spec in specs if spec is not None for change in spec.deviceChange or ()):
        if change.operation == "remove":
            wanted.pop(change.device.key, None)
        elif change.operation == "add":
            profile = getattr(getattr(change.device, "backing", None), "vgpu", None)
            added += [profile] if profile else []
    return [*wanted.values(), *added]


def datastore_of(lab: Simulation, path: str, host: Host | None) -> Datastore:
    """Return the datastore that a path like `[vsan] name` names. Raises InvalidDatastore."""
    name = path.partition("[")[2].partition("]")[0]
    for store in lab.state.all(Datastore):
        if store.name == name and (host is None or store.moid in host.datastores):
            return store
    raise vim.fault.InvalidDatastore(name=name, msg=f"Invalid datastore path '{path}'.")


def check_reaches(store: Datastore, host: Host, reference: Any) -> None:
    """Raise InvalidDatastore where a host does not mount a datastore, and where it is in maintenance mode."""
    check_normal(store)
    if store.moid not in host.datastores or not store.accessible:
        raise vim.fault.InvalidDatastore(
            datastore=vim.Datastore(moid_of(reference)) if reference is not None else None,
            name=store.name,
            msg=f"The datastore '{store.name}' is not accessible from the host '{host.name}'.",
        )


def check_normal(store: Datastore) -> None:
    """Raise InvalidDatastoreState for a datastore in maintenance mode."""
    if store.in_maintenance:
        raise refuse("datastore-in-maintenance", datastoreName=store.name)


def check_reachable(state: LabState, vm: VirtualMachine) -> None:
    """Raise where vCenter has no connection to a VM's host."""
    host = state.get(vm.host, Host)
    if host.connection != "connected" and not state.denies("lost-host-rejects-calls"):
        check_usable(host)


def check_usable(host: Host) -> None:
    """Raise where a host takes no VM: not connected, or in maintenance mode."""
    if (unusable := refusals.host_unusable(host)) is not None:
        raise unusable


def check_in_pool(host: Host, pool: ResourcePool) -> None:
    """Raise InvalidArgument where a host is not of a pool's cluster."""
    if host.parent != pool.owner:
        raise refusals.bad_argument("spec.location.host")


def _has_room(host: Host, profiles: list[str]) -> bool:
    loads = [load_of(host, gpu) for gpu in host.gpus if serves_vgpus(host, gpu)]
    return all(any(find_slot(load, profile) is not None for load in loads) for profile in profiles)
