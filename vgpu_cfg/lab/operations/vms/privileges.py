"""Which privileges a request needs beyond the one that pyvmomi tells of its method."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

_BY_FIELD = {
    # "Reconfigure privilege" of each, in VirtualMachineConfigSpec of the vSphere API reference
    "numCPUs": "VirtualMachine.Config.CPUCount",
    "numCoresPerSocket": "VirtualMachine.Config.CPUCount",
    "memoryMB": "VirtualMachine.Config.Memory",
    "memoryReservationLockedToMax": "VirtualMachine.Config.Resource",
    "memoryAllocation": "VirtualMachine.Config.Resource",
    "cpuAllocation": "VirtualMachine.Config.Resource",
    "cpuAffinity": "VirtualMachine.Config.Resource",
    "cpuHotAddEnabled": "VirtualMachine.Config.CPUCount",
    "memoryHotAddEnabled": "VirtualMachine.Config.Memory",
    "latencySensitivity": "VirtualMachine.Config.Resource",
    "firmware": "VirtualMachine.Config.Settings",
    "flags": "VirtualMachine.Config.Settings",
    "bootOptions": "VirtualMachine.Config.Settings",
    "guestId": "VirtualMachine.Config.Settings",
    "extraConfig": "VirtualMachine.Config.AdvancedConfig",
    "name": "VirtualMachine.Config.Rename",
    "annotation": "VirtualMachine.Config.Annotation",
}
_DEVICES = "VirtualMachine.Config.AddRemoveDevice"
_DISKS = "VirtualMachine.Config.AddNewDisk"
_EDIT = "VirtualMachine.Config.EditDevice"
_GROW = "VirtualMachine.Config.DiskExtend"
_ENCRYPT = "Cryptographer.Encrypt"
"""What a virtual TPM needs besides (VMware's examples for Packer, "Least Privilege")."""


def needed_for_spec(spec: Any) -> list[str]:
    """Return what a ConfigSpec needs on its VM."""
    needed = dict.fromkeys(
        privilege for name, privilege in _BY_FIELD.items() if getattr(spec, name, None) not in (None, [], "")
    )
    for change in spec.deviceChange or ():
        is_disk = type(change.device).__name__.endswith("VirtualDisk")
        if change.operation == "edit":
            needed[_GROW if is_disk else _EDIT] = None
        else:
            needed[_DISKS if is_disk else _DEVICES] = None
        if change.operation == "add" and isinstance(change.device, vim.vm.device.VirtualTPM):
            needed[_ENCRYPT] = None
    return list(needed)


NEEDED_FOR_DESTROY = ("VirtualMachine.Inventory.Delete",)

NEEDED_ON_FOLDER = ("VirtualMachine.Inventory.CreateFromExisting",)
NEEDED_FOR_RENAME = ("VirtualMachine.Config.Rename",)
NEEDED_FOR_FOLDER = ("VirtualMachine.Inventory.Move",)
"""What MoveIntoFolder_Task needs on a VM, on its folder and on the other (vSphere API reference)."""
NEEDED_ON_POOL = ("Resource.AssignVMToPool",)
NEEDED_ON_DATASTORE = ("Datastore.AllocateSpace",)
"""What a clone needs besides its source; recalled, but for their names."""


def needed_for_clone(*, is_template: bool) -> tuple[str, ...]:
    """Return what CloneVM_Task needs on its source."""
    return ("VirtualMachine.Provisioning." + ("DeployTemplate" if is_template else "Clone"),)


def needed_for_move(*, is_on: bool) -> tuple[str, ...]:
    """Return what MigrateVM_Task and RelocateVM_Task need on their VM."""
    return ("Resource." + ("HotMigrate" if is_on else "ColdMigrate"),)
