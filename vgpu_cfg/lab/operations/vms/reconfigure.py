"""ReconfigVM_Task and UpgradeVM_Task: a VM's settings and devices changed, all of a spec or nothing."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.operations.vms.drafts import (
    apply_spec,
    check_name,
    check_reachable,
    commit,
    device_name,
    draft_of,
)
from vgpu_cfg.lab.operations.vms.privileges import check_spec
from vgpu_cfg.lab.operations.vms.settings import hardware_version
from vgpu_cfg.lab.rules import admission, hardware, refusals
from vgpu_cfg.lab.rules.from_the_field import refuse
from vgpu_cfg.lab.simulation.operations import task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import copy_with, disk_uuid, disks_of, is_set
from vgpu_cfg.lab.state.inventory import Folder, Host, VirtualMachine

OF_A_TEMPLATE = frozenset({"name", "annotation", "changeVersion", "extraConfig"})
"""Fields of a template that can be changed; that extraConfig is one of them is assumed."""


def _check_privileges(lab: Simulation, vm: VirtualMachine, *, spec: Any) -> None:
    check_spec(lab, vim.VirtualMachine(vm.moid), spec)


@task(
    "VirtualMachine",
    "ReconfigVM_Task",
    description_id="VirtualMachine.reconfigure",
    seconds=2.0,
    check=_check_privileges,
)
def reconfigure(lab: Simulation, vm: VirtualMachine, *, spec: Any) -> None:
    """Apply a ConfigSpec. A spec's `version` is not taken here: UpgradeVM_Task is the way."""
    denies = lab.state.denies
    is_old = spec.changeVersion and spec.changeVersion != vm.current_change_version()
    if is_old and not denies("old-change-version-is-rejected"):
        raise refusals.changed_meanwhile()
    changed = {info.name for info in spec._GetPropertyList() if is_set(getattr(spec, info.name))}
    if vm.is_template and not changed <= OF_A_TEMPLATE:
        raise refuse("template-is-not-changed")
    check_reachable(lab.state, vm)
    host = lab.state.get(vm.host, Host)
    draft = draft_of(vm)
    if spec.name:
        check_name(lab.state, lab.state.get(vm.parent, Folder), spec.name, vm.moid)
        draft.name = spec.name
    apply_spec(lab, draft, host, spec)
    if draft.is_on and draft.cpu_reservation_mhz > vm.cpu_reservation_mhz:
        admission.check_cpu(lab.state, draft, host)
    deleted = [
        device_name(vm.devices[change.device.key])
        for change in spec.deviceChange or ()
        if change.operation == "remove" and change.fileOperation == "destroy"
    ]
    if denies("disk-uuid-keeps-its-value"):
        for disk in disks_of(draft.devices):
            uuid = disk_uuid(vm.moid, str(disk.key), str(lab.state.revision))
            draft.devices[disk.key] = copy_with(disk, backing=copy_with(disk.backing, uuid=uuid))
    commit(lab, vm, draft)
    for name in deleted:
        lab.note(vm, "disk delete", name)


@task("VirtualMachine", "UpgradeVM_Task", description_id="VirtualMachine.upgradeVirtualHardware", seconds=1.0)
def upgrade(lab: Simulation, vm: VirtualMachine, *, version: str | None = None) -> None:
    """Raise the hardware version, to the host's newest where none is named."""
    if vm.is_on:
        raise refusals.wrong_power_state(vm, "poweredOff")
    if vm.is_template:
        raise vim.fault.InvalidState(msg="The operation is not allowed in the current state.")
    check_reachable(lab.state, vm)
    host = lab.state.get(vm.host, Host)
    wanted = hardware_version(version, host) if version else hardware.max_hardware_version(host)
    if wanted <= vm.hardware_version:
        raise vim.fault.AlreadyUpgraded(msg="The virtual machine is already up-to-date.")
    commit(lab, vm, draft_of(vm, hardware_version=wanted))
