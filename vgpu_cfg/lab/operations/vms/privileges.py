"""The privileges that a request requires beyond the one that pyvmomi names for its method."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import network_of
from vgpu_cfg.lab.state.inventory import Folder, Network

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
    "instanceUuid": "VirtualMachine.Config.Settings",
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
"""The additional privileges of a virtual TPM (VMware's examples for Packer, "Least Privilege")."""
_OF_CREATION = ("VirtualMachine.Config.AddNewDisk", "VirtualMachine.Config.AdvancedConfig")


def needed_for_spec(spec: Any) -> list[str]:
    """Return the required privileges of a ConfigSpec on its VM."""
    needed = dict.fromkeys(
        privilege for name, privilege in _BY_FIELD.items() if getattr(spec, name, None) not in (None, [], "")
    )
    for change in spec.deviceChange or ():
        is_disk = type(change.device).__name__.endswith("VirtualDisk")
        if change.operation == "edit":
            needed[_EDIT if change.profile or not is_disk else _GROW] = None
        elif is_disk and change.operation == "remove":
            needed["VirtualMachine.Config.RemoveDisk"] = None
        else:
            needed[_DISKS if is_disk else _DEVICES] = None
        if change.operation == "add" and isinstance(change.device, vim.vm.device.VirtualTPM):
            needed[_ENCRYPT] = None
    return list(needed)


def check_spec(lab: Simulation, entity: Any, spec: Any) -> None:
    """Refuse a ConfigSpec on a VM, or on a new one's folder, and the networks that its NICs are tied to."""
    lab.check_privileges(entity, needed_for_spec(spec))
    _check_networks(lab, spec)


def check_creation(lab: Simulation, folder: Folder, spec: Any) -> None:
    """Refuse the ConfigSpec of CreateVM_Task: few things in it need more (vSphere API reference)."""
    asked = needed_for_spec(spec)
    lab.check_privileges(reference(folder), [one for one in asked if one in _OF_CREATION])
    if _ENCRYPT in asked:
        lab.check_privileges(reference(folder), ["Cryptographer.EncryptNew"])
    _check_networks(lab, spec)


def _check_networks(lab: Simulation, spec: Any) -> None:
    for change in spec.deviceChange or ():
        moid = network_of(change.device) if change.operation in ("add", "edit") else ""
        network = lab.state.find(moid, Network)
        if network is not None:
            lab.check_privileges(reference(network), NEEDED_ON_NETWORK)


NEEDED_FOR_DESTROY = ("VirtualMachine.Inventory.Delete",)

NEEDED_ON_FOLDER = ("VirtualMachine.Inventory.CreateFromExisting",)
NEEDED_FOR_RENAME = ("VirtualMachine.Config.Rename",)
NEEDED_FOR_FOLDER = ("VirtualMachine.Inventory.Move",)
"""The privileges of MoveIntoFolder_Task on a VM, on its folder and on the other (vSphere API reference)."""
NEEDED_ON_POOL = ("Resource.AssignVMToPool",)
NEEDED_ON_DATASTORE = ("Datastore.AllocateSpace",)
"""Additional privileges of a clone beyond its source (CloneVM_Task in the vSphere API reference)."""
NEEDED_ON_NETWORK = ("Network.Assign",)
"""The privileges of CreateVM_Task on a new VM's network; assumed to hold for a changed NIC, too."""


def needed_for_clone(*, is_template: bool, is_customized: bool) -> tuple[str, ...]:
    """Return what CloneVM_Task needs on its source."""
    copied = "DeployTemplate" if is_template else "Clone"
    needed = (copied, "Customize") if is_customized else (copied,)
    return tuple(f"VirtualMachine.Provisioning.{one}" for one in needed)


def needed_for_move(*, is_on: bool) -> tuple[str, ...]:
    """Return what MigrateVM_Task needs on its VM; RelocateVM_Task always needs Resource.ColdMigrate, too."""
    return ("Resource." + ("HotMigrate" if is_on else "ColdMigrate"),)
