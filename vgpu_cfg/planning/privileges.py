"""Which privileges each kind of change needs, and on which object: asked before the first change.

Sources: privilege ids of pyvmomi's method descriptions; the API reference of ReconfigVM_Task
and CloneVM_Task; vSphere Security 8.0, "Required Privileges for Common Tasks".
Network.Assign and the details of a clone are recalled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import assert_never

from vgpu_cfg.model.change import (
    Change,
    CreateVm,
    DestroyVm,
    ManualStep,
    Plan,
    PowerOffVm,
    PowerOnVm,
    ReconfigureVm,
    RemoveRule,
    SetRule,
    UpgradeVm,
)
from vgpu_cfg.model.inventory import Inventory
from vgpu_cfg.model.vm_spec import EditNic, GrowDisk, NewDisk, NewNic, VmSpec

CLONE_TEMPLATE = "VirtualMachine.Provisioning.DeployTemplate"
CLONE_VM = "VirtualMachine.Provisioning.Clone"
CREATE_FROM_EXISTING = "VirtualMachine.Inventory.CreateFromExisting"
CREATE = "VirtualMachine.Inventory.Create"
DELETE = "VirtualMachine.Inventory.Delete"
ASSIGN_TO_POOL = "Resource.AssignVMToPool"
ALLOCATE_SPACE = "Datastore.AllocateSpace"
ASSIGN_NETWORK = "Network.Assign"
POWER_ON = "VirtualMachine.Interact.PowerOn"
POWER_OFF = "VirtualMachine.Interact.PowerOff"
UPGRADE = "VirtualMachine.Config.UpgradeVirtualHardware"
EDIT_CLUSTER = "Host.Inventory.EditCluster"
SETTINGS = "VirtualMachine.Config.Settings"
CPU_COUNT = "VirtualMachine.Config.CPUCount"
MEMORY = "VirtualMachine.Config.Memory"
RESOURCE = "VirtualMachine.Config.Resource"
ADVANCED = "VirtualMachine.Config.AdvancedConfig"
ADD_REMOVE_DEVICE = "VirtualMachine.Config.AddRemoveDevice"
EDIT_DEVICE = "VirtualMachine.Config.EditDevice"
ADD_DISK = "VirtualMachine.Config.AddNewDisk"
EXTEND_DISK = "VirtualMachine.Config.DiskExtend"

Needed = tuple[str, str]
"""An object's moid and a privilege on it."""


def needed_privileges(plan: Plan, observed: Inventory) -> Mapping[str, tuple[str, ...]]:
    """Return, per object's moid, the privileges that the plan's changes need there, sorted.

    What is done to a VM that is yet to be made is asked of the folder it will be in. Powering
    on is asked of the host as well, since DRS places there.
    """
    folders = {
        change.vm.name: change.location.folder_moid for change in plan.changes if isinstance(change, CreateVm)
    }
    templates = {vm.moid for vm in observed.vms if vm.is_template}
    found: dict[str, set[str]] = {}
    for change in plan.changes:
        for moid, privilege in _needed(change, folders, templates):
            found.setdefault(moid, set()).add(privilege)
    return {moid: tuple(sorted(found[moid])) for moid in sorted(found)}


def _needed(change: Change, folders: Mapping[str, str], templates: set[str]) -> Iterator[Needed]:
    match change:
        case CreateVm():
            yield from _of_creation(change, templates)
        case UpgradeVm():
            yield _where(change, folders), UPGRADE
        case ReconfigureVm():
            yield from _of_spec(change.spec, _where(change, folders))
        case PowerOnVm():
            yield _where(change, folders), POWER_ON
            if change.pin is not None:
                yield _where(change, folders), POWER_OFF
                yield _where(change, folders), ADVANCED
        case PowerOffVm():
            yield _where(change, folders), POWER_OFF
        case DestroyVm():
            yield _where(change, folders), DELETE
        case SetRule() | RemoveRule():
            yield change.cluster_moid, EDIT_CLUSTER
        case ManualStep():
            return
        case _:
            assert_never(change)


def _where(
    change: UpgradeVm | ReconfigureVm | PowerOnVm | PowerOffVm | DestroyVm, folders: Mapping[str, str]
) -> str:
    """Return the VM, or the folder of one that is yet to be made."""
    return change.vm.moid or folders[change.vm.name]


def _of_creation(change: CreateVm, templates: set[str]) -> Iterator[Needed]:
    location, source = change.location, change.source
    if source.kind == "clone" and source.template.moid is not None:
        is_template = source.template.moid in templates
        yield source.template.moid, CLONE_TEMPLATE if is_template else CLONE_VM
        yield location.folder_moid, CREATE_FROM_EXISTING
        yield location.folder_moid, ADD_DISK
    else:
        yield location.folder_moid, CREATE
    yield location.resource_pool_moid, ASSIGN_TO_POOL
    yield location.datastore_moid, ALLOCATE_SPACE
    # The version of a new VM is no upgrade: it is made with it.
    yield from _of_spec(change.spec.model_copy(update={"hardware_version": None}), location.folder_moid)


def _of_spec(spec: VmSpec, moid: str) -> Iterator[Needed]:
    fields: Iterable[tuple[object, str]] = (
        (spec.firmware, SETTINGS),
        (spec.guest_id, SETTINGS),
        (spec.secure_boot, SETTINGS),
        (spec.hardware_version, UPGRADE),
        (spec.cpus, CPU_COUNT),
        (spec.cores_per_socket, CPU_COUNT),
        (spec.memory_mib, MEMORY),
        (spec.reserve_all_memory, RESOURCE),
        (spec.extra_config or None, ADVANCED),
    )
    for value, privilege in fields:
        if value is not None:
            yield moid, privilege
    for edit in spec.devices:
        if isinstance(edit, NewDisk):
            yield moid, ADD_DISK
        elif isinstance(edit, GrowDisk):
            yield moid, EXTEND_DISK
        elif isinstance(edit, EditNic):
            yield moid, EDIT_DEVICE
        else:
            yield moid, ADD_REMOVE_DEVICE
        if isinstance(edit, NewNic | EditNic):
            yield edit.backing.network_moid, ASSIGN_NETWORK
