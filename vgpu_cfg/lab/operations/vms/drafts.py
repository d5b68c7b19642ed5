"""A VM being changed: a draft that takes a whole ConfigSpec, and becomes the VM only if all of it can be."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.operations.vms.device_groups import change_devices
from vgpu_cfg.lab.operations.vms.policies import apply_policies
from vgpu_cfg.lab.operations.vms.settings import apply_settings
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import network_of, nics_of
from vgpu_cfg.lab.state.inventory import Folder, Host, LabState, Network, VirtualMachine

_FIELDS = tuple(field.name for field in fields(VirtualMachine))


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
    """Make a draft what the VM is, with a new change version."""
    before = _networks_of(vm)
    _note(lab, vm, draft)
    for name in _FIELDS:
        if name not in ("moid", "revision"):
            setattr(vm, name, getattr(draft, name))
    relink_networks(lab.state, vm, before)
    lab.state.touch(vm)
    stamp_change(lab, vm)


def _note(lab: Simulation, vm: VirtualMachine, draft: VirtualMachine) -> None:
    """Write into the diary what a VM experiences that becomes its draft."""
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
    """Return what tells a device from others: a disk's file, else its label."""
    return str(getattr(device.backing, "fileName", None) or getattr(device.deviceInfo, "label", ""))


def stamp_change(lab: Simulation, vm: VirtualMachine) -> None:
    """Give a VM a change version that it never had."""
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
    """Raise InvalidName for an empty name, DuplicateName where the folder has another of that name."""
    if not name:
        raise vim.fault.InvalidName(name=name, msg=f"The name '{name}' is invalid.")
    for moid in folder.children:
        thing = state.objects[moid]
        if moid != me and thing.name == name:
            raise refusals.duplicate_name(name, reference(thing))


def _networks_of(vm: VirtualMachine) -> set[str]:
    return {network_of(nic) for nic in nics_of(vm.devices)}
