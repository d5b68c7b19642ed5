"""Which storage policies a request gives a VM's home and its disks.

vCenter keeps them outside of the VM's configuration (vim `VirtualMachineDefinedProfileSpec`). A policy that
there is not is refused; whether a datastore that does not fit is refused, too, is not played.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.state.devices import disks_of
from vgpu_cfg.lab.state.inventory import LabState, VirtualMachine


def apply_policies(state: LabState, draft: VirtualMachine, spec: Any, before: set[int]) -> None:
    """Take the policies of a ConfigSpec; `before` are the keys of the devices that stood there."""
    _set_home(state, draft, spec.vmProfile, "spec.vmProfile")
    new = [disk.key for disk in disks_of(draft.devices) if disk.key not in before]
    for change in spec.deviceChange or ():
        if not isinstance(change.device, vim.vm.device.VirtualDisk):
            continue
        key = new.pop(0) if change.operation == "add" and new else change.device.key
        policy = _named(state, change.profile, "spec.deviceChange.profile")
        if policy:
            draft.disk_policies[key] = policy
    draft.disk_policies = {key: one for key, one in draft.disk_policies.items() if key in draft.devices}


def apply_location(state: LabState, vm: VirtualMachine, location: Any) -> None:
    """Take the policies of a clone's RelocateSpec; what it does not name has none, as its source may."""
    vm.home_policy, vm.disk_policies = "", {}
    _set_home(state, vm, location.profile, "spec.location.profile")
    for disk in location.disk or ():
        if disk.diskId not in vm.devices:
            raise refusals.bad_argument("spec.location.disk.diskId")
        policy = _named(state, disk.profile, "spec.location.disk.profile")
        if policy:
            vm.disk_policies[disk.diskId] = policy


def _set_home(state: LabState, vm: VirtualMachine, profiles: Iterable[Any] | None, where: str) -> None:
    policy = _named(state, profiles, where)
    if policy:
        vm.home_policy = policy


def _named(state: LabState, profiles: Iterable[Any] | None, where: str) -> str:
    """Return the policy that a request names, "" for none."""
    for profile in profiles or ():
        if isinstance(profile, vim.vm.DefinedProfileSpec):
            if all(policy.id != profile.profileId for policy in state.storage_policies):
                raise refusals.bad_argument(where)
            return str(profile.profileId)
    return ""
