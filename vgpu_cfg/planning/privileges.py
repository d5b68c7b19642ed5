"""Which privileges each kind of change needs, and on which object: asked before the first change.

Sources: privilege ids of pyvmomi's method descriptions; the API reference of ReconfigVM_Task,
CloneVM_Task, Rename_Task, MoveIntoFolder_Task, RelocateVM_Task, UpdateOptions, ReconfigureDvs_Task,
ReconfigureDVPortgroup_Task and SetField; vSphere Security 8.0, "Required Privileges for Common Tasks" and
its tables of defined privileges.
Network.Assign and the details of a clone are recalled. What vCenter checks on its root folder
(Global.ManageCustomFields, Global.Licenses, Global.Settings) is not asked about, since no reading
brings that folder's id, nor what the alarm needs, without which work goes on: docs/reference/permissions.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import assert_never

from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan.change import (
    Change,
    ChangeHost,
    ChangeNetwork,
    CreateVm,
    DestroyVm,
    EnterMaintenance,
    ExitMaintenance,
    ManualStep,
    MarkVm,
    MoveVmToFolder,
    Plan,
    PowerOffVm,
    PowerOnVm,
    RebootHost,
    ReconfigureVm,
    RelocateVm,
    RemoveRule,
    RemoveVmGroup,
    RenameVm,
    RestartService,
    SetAttributes,
    SetClusterOption,
    SetCordon,
    SetHostRule,
    SetOverrides,
    SetRule,
    SetVCenterOption,
    ShutDownHost,
    StageGuest,
    UpgradeVm,
)
from vgpu_cfg.model.plan.host_change import (
    EditSwitch,
    EsxcliWrite,
    GraphicsWrite,
    HostWrite,
    LicenceWrite,
    MakeSwitch,
    ModuleWrite,
    OptionWrite,
    PassthroughWrite,
    RulesetWrite,
    SetPortgroup,
    ShellWrite,
    SwitchWrite,
    VmknicWrite,
)
from vgpu_cfg.model.plan.vm_spec import (
    EditNic,
    GrowDisk,
    NewDisk,
    NewNic,
    NewPvrdmaNic,
    NewSriovNic,
    NewTpm,
    VmSpec,
)
from vgpu_cfg.planning.vms.settings.table import rows_of

CLONE_TEMPLATE = "VirtualMachine.Provisioning.DeployTemplate"
CLONE_VM = "VirtualMachine.Provisioning.Clone"
CREATE_FROM_EXISTING = "VirtualMachine.Inventory.CreateFromExisting"
CREATE = "VirtualMachine.Inventory.Create"
DELETE = "VirtualMachine.Inventory.Delete"
ASSIGN_TO_POOL = "Resource.AssignVMToPool"
ALLOCATE_SPACE = "Datastore.AllocateSpace"
ASSIGN_NETWORK = "Network.Assign"
RENAME = "VirtualMachine.Config.Rename"
MOVE = "VirtualMachine.Inventory.Move"
HOT_MIGRATE = "Resource.HotMigrate"
COLD_MIGRATE = "Resource.ColdMigrate"
POWER_ON = "VirtualMachine.Interact.PowerOn"
POWER_OFF = "VirtualMachine.Interact.PowerOff"
UPGRADE = "VirtualMachine.Config.UpgradeVirtualHardware"
EDIT_CLUSTER = "Host.Inventory.EditCluster"
ADVANCED = "VirtualMachine.Config.AdvancedConfig"
BASIC_SETTINGS = "VirtualMachine.Config.Settings"
"""Of the instance UUID that a new VM is given."""
ADD_REMOVE_DEVICE = "VirtualMachine.Config.AddRemoveDevice"
EDIT_DEVICE = "VirtualMachine.Config.EditDevice"
ADD_DISK = "VirtualMachine.Config.AddNewDisk"
EXTEND_DISK = "VirtualMachine.Config.DiskExtend"
ENCRYPT = "Cryptographer.Encrypt"
"""Of a virtual TPM, which encrypts the VM's home (recalled)."""
GUEST_EXECUTE = "VirtualMachine.GuestOperations.Execute"
GUEST_MODIFY = "VirtualMachine.GuestOperations.Modify"
GUEST_QUERY = "VirtualMachine.GuestOperations.Query"

HOST_SETTINGS = "Host.Config.Settings"
HOST_PASSTHROUGH = "Host.Config.PciPassthru"
HOST_OPTIONS = "Host.Config.AdvancedConfig"
HOST_MAINTENANCE = "Host.Config.Maintenance"
HOST_SERVICES = "Host.Config.NetService"
HOST_NETWORK = "Host.Config.Network"
SET_ATTRIBUTE = "Global.SetCustomField"
CREATE_SWITCH = "DVSwitch.Create"
MODIFY_SWITCH = "DVSwitch.Modify"
SWITCH_MEMBERS = "DVSwitch.HostOp"
CREATE_PORTGROUP = "DVPortgroup.Create"
MODIFY_PORTGROUP = "DVPortgroup.Modify"

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
        case ReconfigureVm() | MarkVm():
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
        case RenameVm():
            yield _where(change, folders), RENAME
        case MoveVmToFolder():
            yield _where(change, folders), MOVE
            yield change.folder_moid, MOVE
            yield change.source_moid, MOVE
        case RelocateVm():
            yield from _of_relocation(change)
        case SetAttributes():
            yield _where(change, folders), SET_ATTRIBUTE
        case SetRule() | SetHostRule() | RemoveRule() | RemoveVmGroup() | SetOverrides():
            yield change.cluster_moid, EDIT_CLUSTER
        case EnterMaintenance() | ExitMaintenance() | RebootHost() | ShutDownHost():
            yield change.host.moid, HOST_MAINTENANCE
            yield change.host.moid, SET_ATTRIBUTE
        case ChangeHost():
            yield from ((change.host.moid, privilege) for privilege in _of_write(change.write))
            if isinstance(change.write, VmknicWrite) and change.write.network_moid:
                yield change.write.network_moid, ASSIGN_NETWORK
            yield change.host.moid, SET_ATTRIBUTE
        case SetCordon():
            yield change.host.moid, SET_ATTRIBUTE
        case RestartService():
            yield change.host.moid, HOST_SERVICES
        case SetClusterOption():
            yield change.cluster_moid, EDIT_CLUSTER
        case ChangeNetwork():
            yield from _of_network(change)
        case StageGuest():
            yield _where(change, folders), ADVANCED
            if change.spec.login.password:
                for privilege in (GUEST_EXECUTE, GUEST_MODIFY, GUEST_QUERY):
                    yield _where(change, folders), privilege
        case SetVCenterOption() | ManualStep():
            return
        case _:
            assert_never(change)


def _of_write(write: HostWrite) -> tuple[str, ...]:
    """List what a write to a host needs there.

    The other way of a change is not asked about: it is taken only where the host lacks the first.
    What esxcli through vCenter needs is documented nowhere, and a licence is the root folder's
    matter. A write to the shell starts SSH where it is off.
    """
    match write:
        case GraphicsWrite() | ModuleWrite():
            return (HOST_SETTINGS,)
        case PassthroughWrite():
            return (HOST_PASSTHROUGH,)
        case OptionWrite():
            return (HOST_OPTIONS,)
        case RulesetWrite() | ShellWrite():
            return (HOST_SERVICES,)
        case VmknicWrite() | SwitchWrite():
            return (HOST_NETWORK,)
        case LicenceWrite() | EsxcliWrite():
            return ()
        case _:
            assert_never(write)


def _of_network(change: ChangeNetwork) -> Iterator[Needed]:
    """List what a distributed switch needs; one that the plan makes is asked about in no way yet."""
    network = change.network
    match network:
        case MakeSwitch():
            yield network.datacenter_moid, CREATE_SWITCH
        case EditSwitch():
            if network.switch_moid is not None:
                yield network.switch_moid, MODIFY_SWITCH
                if network.members:
                    yield network.switch_moid, SWITCH_MEMBERS
            yield from ((host_moid, HOST_NETWORK) for host_moid in network.members)
        case SetPortgroup():
            if network.portgroup_moid is not None:
                yield network.portgroup_moid, MODIFY_PORTGROUP
            elif network.switch_moid is not None:
                yield network.switch_moid, CREATE_PORTGROUP
        case _:
            assert_never(network)


def _where(
    change: UpgradeVm
    | ReconfigureVm
    | MarkVm
    | SetAttributes
    | PowerOnVm
    | PowerOffVm
    | DestroyVm
    | RenameVm
    | MoveVmToFolder
    | StageGuest,
    folders: Mapping[str, str],
) -> str:
    """Return the VM, or the folder of one that is yet to be made."""
    return change.vm.moid or folders[change.vm.name]


def _of_relocation(change: RelocateVm) -> Iterator[Needed]:
    if change.vm.moid is not None:
        yield change.vm.moid, HOT_MIGRATE if change.is_running else COLD_MIGRATE
    if change.destination.resource_pool_moid is not None:
        yield change.destination.resource_pool_moid, ASSIGN_TO_POOL
    if change.destination.datastore_moid is not None:
        yield change.destination.datastore_moid, ALLOCATE_SPACE


def _of_creation(change: CreateVm, templates: set[str]) -> Iterator[Needed]:
    location, source = change.location, change.source
    if source.kind == "clone" and source.template.moid is not None:
        is_template = source.template.moid in templates
        yield source.template.moid, CLONE_TEMPLATE if is_template else CLONE_VM
        yield location.folder_moid, CREATE_FROM_EXISTING
        yield location.folder_moid, ADD_DISK
    else:
        yield location.folder_moid, CREATE
    yield location.folder_moid, BASIC_SETTINGS
    yield location.resource_pool_moid, ASSIGN_TO_POOL
    yield location.datastore_moid, ALLOCATE_SPACE
    yield from _of_spec(change.spec, location.folder_moid)


def _of_spec(spec: VmSpec, moid: str) -> Iterator[Needed]:
    for setting, _ in rows_of(spec.settings):
        if setting.privilege:
            yield moid, setting.privilege
    if spec.extra_config:
        yield moid, ADVANCED
    for edit in spec.devices:
        if isinstance(edit, NewDisk):
            yield moid, ADD_DISK
        elif isinstance(edit, GrowDisk):
            yield moid, EXTEND_DISK
        elif isinstance(edit, EditNic):
            yield moid, EDIT_DEVICE
        elif isinstance(edit, NewTpm):
            yield moid, ADD_REMOVE_DEVICE
            yield moid, ENCRYPT
        else:
            yield moid, ADD_REMOVE_DEVICE
        if isinstance(edit, NewNic | NewSriovNic | NewPvrdmaNic | EditNic):
            yield edit.backing.network_moid, ASSIGN_NETWORK
