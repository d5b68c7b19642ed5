"""Which needs the changes of a plan come to, and on which objects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

from vgpu_cfg.changes.change import (
    AwaitCustomization,
    Change,
    ChangeHost,
    ChangeNetwork,
    ColdBootHost,
    CreateVm,
    DestroyVm,
    EnterMaintenance,
    ExitMaintenance,
    ManualStep,
    MarkVm,
    MoveVmToFolder,
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
    SetReservation,
    SetRule,
    SetTags,
    SetVCenterOption,
    ShutDownHost,
    StageGuest,
    UpgradeVm,
)
from vgpu_cfg.changes.change_host import (
    EsxcliWrite,
    GraphicsWrite,
    LicenceWrite,
    ModuleWrite,
    OptionWrite,
    PassthroughWrite,
    RulesetWrite,
    ShellWrite,
    SwitchWrite,
    VmknicWrite,
)
from vgpu_cfg.changes.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.changes.vm_spec import (
    EditNic,
    GrowDisk,
    NewDisk,
    NewNic,
    NewPvrdmaNic,
    NewSriovNic,
    NewTpm,
    RemoveDevice,
    SetDiskPolicy,
    VmSpec,
)
from vgpu_cfg.model.observed.host_facts import HostAttribute
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.privileges import table
from vgpu_cfg.planning.privileges.need import Need, Needed
from vgpu_cfg.planning.vms.settings.table import rows_of

_HOST, _VM = "HostSystem", "VirtualMachine"


def needs_of_changes(plan: Plan, observed: Inventory) -> tuple[Needed, ...]:
    """Return what the plan's changes need, each need once per object.

    What is done to a VM that is yet to be made is asked of the folder it will be in, what is done to a switch
    that is yet to be made of its datacenter.
    """
    surroundings = _Surroundings(plan, observed)
    return tuple(dict.fromkeys(found for change in plan.changes for found in _needed(change, surroundings)))


class _Surroundings:
    """What the objects are in which there is something yet to be made, and what is what."""

    def __init__(self, plan: Plan, observed: Inventory) -> None:
        self.root = observed.vcenter.root_folder_moid
        self._observed = observed
        self._folders = {
            change.vm.name: change.location.folder_moid
            for change in plan.changes
            if isinstance(change, CreateVm)
        }
        self._datacenters = {
            change.network.name: change.network.datacenter_moid
            for change in plan.changes
            if isinstance(change, ChangeNetwork) and isinstance(change.network, MakeSwitch)
        }

    def vm(self, ref: VmRef) -> str:
        """Return the VM, or the folder of one that is yet to be made."""
        return ref.moid or self._folders[ref.name]

    def switch(self, moid: str | None, name: str) -> str | None:
        """Return the switch, or the datacenter of one that the plan makes."""
        return moid or self._datacenters.get(name)

    def is_template(self, moid: str) -> bool:
        """Whether a VM is a template."""
        vm = self._observed.vm_by_moid.get(moid)
        return vm is not None and vm.is_template

    def is_nic(self, host_moid: str, pci_id: str) -> bool:
        """Whether a function of a host is a NIC's."""
        host = self._observed.host_by_moid.get(host_moid)
        return host is not None and any(nic.pci_id == pci_id for nic in host.nics)

    def attributes(self, moid: str, need: Need, kind: str, names: Iterable[str]) -> Iterator[Needed]:
        """Yield what it takes to set custom attributes on an object, and to define them."""
        yield Needed(need, moid)
        if self.root:
            wanted = frozenset((kind, name) for name in names)
            yield Needed(table.DEFINE_ATTRIBUTES, self.root, wanted)


def _needed(change: Change, at: _Surroundings) -> Iterator[Needed]:
    match change:
        case CreateVm():
            yield from _of_creation(change, at)
        case UpgradeVm():
            yield Needed(table.UPGRADE, at.vm(change.vm))
        case ReconfigureVm() | MarkVm():
            yield from _of_spec(change.spec, at.vm(change.vm))
        case PowerOnVm():
            yield Needed(table.POWER_ON, at.vm(change.vm))
            if change.pin is not None:
                yield Needed(table.POWER_OFF, at.vm(change.vm))
                yield Needed(table.ADVANCED, at.vm(change.vm))
        case PowerOffVm():
            yield Needed(table.POWER_OFF, at.vm(change.vm))
        case DestroyVm():
            yield Needed(table.DELETE, at.vm(change.vm))
        case RenameVm():
            yield Needed(table.RENAME, at.vm(change.vm))
        case MoveVmToFolder():
            for moid in (at.vm(change.vm), change.folder_moid, change.source_moid):
                yield Needed(table.MOVE, moid)
        case RelocateVm():
            yield from _of_relocation(change)
        case SetAttributes():
            yield from at.attributes(at.vm(change.vm), table.SET_ATTRIBUTES, _VM, change.values)
        case SetTags():
            yield Needed(table.SET_TAGS, at.vm(change.vm))
        case SetRule() | SetHostRule() | RemoveRule() | RemoveVmGroup() | SetOverrides() | SetClusterOption():
            yield Needed(table.EDIT_CLUSTER, change.cluster_moid)
        case EnterMaintenance():
            yield Needed(table.ALARM, change.host.moid)
            yield Needed(table.MAINTENANCE, change.host.moid)
            yield from _of_mark(change.host.moid, at)
        case ExitMaintenance() | RebootHost() | ColdBootHost() | ShutDownHost():
            yield Needed(table.MAINTENANCE, change.host.moid)
            yield from _of_mark(change.host.moid, at)
        case ChangeHost():
            yield from _of_write(change, at)
            yield from _of_mark(change.host.moid, at)
        case SetCordon():
            yield from at.attributes(change.host.moid, table.CORDON, _HOST, change.values)
        case RestartService():
            yield Needed(table.HOST_SERVICES, change.host.moid)
        case ChangeNetwork():
            yield from _of_network(change, at)
        case StageGuest():
            yield Needed(table.ADVANCED, at.vm(change.vm))
            if change.spec.login.password:
                yield Needed(table.GUEST_OPERATIONS, at.vm(change.vm))
        case SetReservation():
            yield from _at_root(table.LOCK, at)
        case SetVCenterOption():
            yield from _at_root(table.VCENTER_OPTION, at)
        case ManualStep() | AwaitCustomization():
            return
        case _:
            assert_never(change)


def _at_root(need: Need, at: _Surroundings) -> Iterator[Needed]:
    if at.root:
        yield Needed(need, at.root)


def _of_mark(host_moid: str, at: _Surroundings) -> Iterator[Needed]:
    return at.attributes(host_moid, table.CORDON, _HOST, (HostAttribute.MARK,))


def _of_write(change: ChangeHost, at: _Surroundings) -> Iterator[Needed]:
    """Yield what a write to a host needs.

    The other way of a change is not asked about: it is taken only where the host lacks the first.
    What esxcli through vCenter needs is documented nowhere. A write to the shell starts SSH where it is off.
    """
    host, write = change.host.moid, change.write
    match write:
        case GraphicsWrite() | ModuleWrite():
            yield Needed(table.HOST_SETTINGS, host)
        case PassthroughWrite():
            yield Needed(table.HOST_PASSTHROUGH, host)
            if any(at.is_nic(host, device.pci_id) for device in write.devices):
                yield from at.attributes(host, table.CORDON, _HOST, (HostAttribute.VMNICS,))
        case OptionWrite():
            yield Needed(table.HOST_OPTIONS, host)
        case RulesetWrite() | ShellWrite():
            yield Needed(table.HOST_SERVICES, host)
        case VmknicWrite():
            yield Needed(table.HOST_NETWORK, host)
            if write.network_moid:
                yield Needed(table.ASSIGN_NETWORK, write.network_moid)
        case SwitchWrite():
            yield Needed(table.HOST_NETWORK, host)
        case LicenceWrite():
            yield from _at_root(table.LICENCE, at)
        case EsxcliWrite():
            return
        case _:
            assert_never(write)


def _of_network(change: ChangeNetwork, at: _Surroundings) -> Iterator[Needed]:
    network = change.network
    match network:
        case MakeSwitch():
            yield Needed(table.MAKE_SWITCH, network.datacenter_moid)
        case EditSwitch():
            switch = at.switch(network.switch_moid, network.switch_name)
            if switch is not None:
                yield Needed(table.SWITCH_MEMBERS if network.members else table.EDIT_SWITCH, switch)
            yield from (Needed(table.HOST_NETWORK, host_moid) for host_moid in network.members)
        case SetPortgroup():
            switch = at.switch(network.switch_moid, network.switch_name)
            if network.portgroup_moid is not None:
                yield Needed(table.EDIT_PORTGROUP, network.portgroup_moid)
            elif switch is not None:
                yield Needed(table.MAKE_PORTGROUP, switch)
        case _:
            assert_never(network)


def _of_relocation(change: RelocateVm) -> Iterator[Needed]:
    if change.vm.moid is not None:
        yield Needed(table.MIGRATE, change.vm.moid)
        if change.is_running:
            yield Needed(table.MIGRATE_RUNNING, change.vm.moid)
    if change.destination.resource_pool_moid is not None:
        yield Needed(table.ASSIGN_TO_POOL, change.destination.resource_pool_moid)
    if change.destination.datastore_moid is not None:
        yield Needed(table.ALLOCATE_SPACE, change.destination.datastore_moid)


def _of_creation(change: CreateVm, at: _Surroundings) -> Iterator[Needed]:
    location, source = change.location, change.source
    is_clone = source.kind == "clone" and source.template.moid is not None
    if source.kind == "clone" and source.template.moid is not None:
        moid = source.template.moid
        yield Needed(table.CLONE_TEMPLATE if at.is_template(moid) else table.CLONE_VM, moid)
        if change.customization is not None:
            yield Needed(table.CUSTOMIZE, moid)
        yield Needed(table.CREATE_FROM_EXISTING, location.folder_moid)
        yield Needed(table.ADD_DISK, location.folder_moid)
    else:
        yield Needed(table.CREATE, location.folder_moid)
    yield Needed(table.BASIC_SETTINGS, location.folder_moid)
    yield Needed(table.ASSIGN_TO_POOL, location.resource_pool_moid)
    yield Needed(table.ALLOCATE_SPACE, location.datastore_moid)
    yield from _of_spec(change.spec, location.folder_moid, is_first=not is_clone, is_copy=is_clone)


def _of_spec(spec: VmSpec, moid: str, *, is_first: bool = False, is_copy: bool = False) -> Iterator[Needed]:
    for setting, _ in rows_of(spec.settings):
        if setting.privilege:
            yield Needed(table.OF_SETTINGS[setting.privilege], moid)
    if spec.extra_config:
        yield Needed(table.ADVANCED, moid)
    for edit in spec.devices:
        if isinstance(edit, NewDisk):
            yield Needed(table.ADD_DISK, moid)
        elif isinstance(edit, GrowDisk):
            yield Needed(table.GROW_DISK, moid)
        elif isinstance(edit, SetDiskPolicy):
            if not is_copy:
                yield Needed(table.DISK_POLICY, moid)
        elif isinstance(edit, RemoveDevice) and edit.is_disk:
            yield Needed(table.DETACH_DISK, moid)
        elif isinstance(edit, EditNic):
            yield Needed(table.EDIT_NIC, moid)
        elif isinstance(edit, NewTpm):
            yield Needed(table.FIRST_TPM if is_first else table.NEW_TPM, moid)
        else:
            yield Needed(table.CHANGE_DEVICES, moid)
        if isinstance(edit, NewNic | NewSriovNic | NewPvrdmaNic | EditNic):
            yield Needed(table.ASSIGN_NETWORK, edit.backing.network_moid)
