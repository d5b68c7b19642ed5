"""What each kind of change disturbs besides what it is about: one closed table, read by every output.

A change is about a VM of the plan, a host that it prepares, a network that it names. What shares a switch, a
host or a cluster with that is disturbed with it: the functions below say who and how, from the change and
from what was read of the vCenter. What could not be read counts as disturbed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
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
from vgpu_cfg.changes.change_host import GraphicsWrite, HostWrite, PassthroughWrite, SwitchWrite
from vgpu_cfg.changes.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.disturbed import Disturbed, Experience
from vgpu_cfg.changes.guest_work import ended_in, ended_text
from vgpu_cfg.changes.values import SettingTarget, Subject
from vgpu_cfg.changes.vm_spec import RemoveDevice
from vgpu_cfg.model.approvals import Approval
from vgpu_cfg.model.observed.host_facts import DistributedSwitch, FactGroup, HostSwitch
from vgpu_cfg.model.observed.inventory import Host, Inventory, Network, NetworkKind
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile

VTPM = "virtual TPM"
"""What a removed virtual TPM is called in a request."""
EFI_LAYOUT_FROM = 20
_LOST_MODES = frozenset({"mig", "ecc"})
"""Settings that a GPU in use by another VM is not given without approval: the VM may not start again."""
_GPU_MODES = frozenset({"mig", "ecc", "vgpu_mode", "gpu_passthrough", "graphics_type", "gpu_graphics_type"})
"""Host settings after which a VM that is powered off may no longer get the GPU that it had."""


def disturbed_by(change: Change, observed: Inventory, own: Collection[str]) -> tuple[Disturbed, ...]:
    """List what a change disturbs; `own` are the moids of the plan's VMs."""
    return tuple(_disturbed(_Reach(change, observed, own), change))


class _Reach:
    """Names what one change reaches in an inventory."""

    def __init__(self, change: Change, observed: Inventory, own: Collection[str]) -> None:
        self.change, self.observed, self.own = change, observed, own

    def vm(
        self,
        vm: Vm,
        experience: Experience,
        *,
        through: str = "",
        note: str = "",
        needs: Approval | None = None,
    ) -> Disturbed:
        found = self.thing("vm", vm.name, vm.moid, experience, through=through, note=note)
        return found if needs is None else found.model_copy(update={"needs": needs})

    def thing(
        self,
        kind: str,
        name: str,
        moid: str | None,
        experience: Experience,
        *,
        through: str = "",
        note: str = "",
        is_harmless: bool = False,
    ) -> Disturbed:
        """Make one row; a link that goes down needs approval unless it is the plan's own, or harmless."""
        is_own = moid is not None and moid in self.own
        is_cut = experience is Experience.LINK_DOWN and not (is_own or is_harmless)
        return Disturbed(
            change=self.change.id,
            subject=Subject(kind=kind, name=name, moid=moid),
            experience=experience,
            through=through,
            is_own=is_own,
            needs=Approval.NETWORK if is_cut else None,
            note=note,
        )


def _disturbed(reach: _Reach, change: Change) -> Iterator[Disturbed]:
    match change:
        case ChangeNetwork(network=EditSwitch(mtu=int()) as edit):
            yield from _whole_switch(reach, edit)
        case ChangeNetwork(network=SetPortgroup(portgroup_moid=str(moid))):
            yield from _portgroup(reach, moid)
        case ChangeNetwork(network=EditSwitch() | MakeSwitch() | SetPortgroup()):
            return
        case EnterMaintenance(is_held=False):
            yield from _evacuated(reach, change)
        case ChangeHost():
            yield from _host_write(reach, change.host.moid, change.write)
            if any(target.setting in _GPU_MODES for target in change.settings):
                yield from _gpu_modes(reach, change)
        case PowerOffVm() if change.vm.moid not in reach.own and change.vm.moid is not None:
            yield reach.thing("vm", change.vm.name, change.vm.moid, Experience.POWERED_OFF)
        case RelocateVm() if change.vm.moid not in reach.own and change.vm.moid is not None:
            how = Experience.VMOTION if change.is_running else Experience.MOVED_OFF
            through = change.destination.host_name
            yield reach.thing("vm", change.vm.name, change.vm.moid, how, through=through)
        case StageGuest():
            yield from _guest_work(reach, change)
        case ReconfigureVm():
            yield from _detached(reach, change)
            yield from _for_good(reach, change)
        case DestroyVm():
            for file in change.others:
                yield reach.thing("disk", file, None, Experience.DISK_DELETED, through=change.vm.name)
        case UpgradeVm():
            yield from _for_good(reach, change)
        case SetClusterOption():
            yield from _cluster_option(reach, change)
        case SetVCenterOption():
            yield from _vcenter_option(reach)
        case (
            PowerOffVm()
            | RelocateVm()
            | EnterMaintenance()
            | CreateVm()
            | MarkVm()
            | SetAttributes()
            | SetTags()
            | SetOverrides()
            | PowerOnVm()
            | RenameVm()
            | MoveVmToFolder()
            | SetRule()
            | SetHostRule()
            | RemoveRule()
            | RemoveVmGroup()
            | RestartService()
            | RebootHost()
            | ColdBootHost()
            | ShutDownHost()
            | ExitMaintenance()
            | SetCordon()
            | AwaitCustomization()
            | SetReservation()
            | ManualStep()
        ):
            return
        case _:
            assert_never(change)


def _guest_work(reach: _Reach, change: StageGuest) -> Iterator[Disturbed]:
    """Work that runs in a guest belongs to its users: it is asked for before the guest is touched."""
    vm = reach.observed.vm_by_moid.get(change.vm.moid or "")
    ended = ended_in(change, vm)
    if vm is not None and ended:
        note = f"{ended_text(ended)}; a guest at work is held back unless approved"
        yield reach.vm(vm, Experience.TRAINING_ENDED, note=note, needs=Approval.TRAINING)


def _for_good(reach: _Reach, change: UpgradeVm | ReconfigureVm) -> Iterator[Disturbed]:
    """Say what of a VM that is there cannot be taken back: its hardware version, a virtual TPM that goes."""
    if change.vm.moid is None:
        return
    vm = reach.observed.vm_by_moid.get(change.vm.moid)
    match change:
        case UpgradeVm():
            note = raised_text(vm.detail if vm is not None else None, change.hardware_version)
        case ReconfigureVm():
            if not any(isinstance(one, RemoveDevice) and one.was == VTPM for one in change.spec.devices):
                return
            note = "a virtual TPM takes its keys along"
    found = reach.thing("vm", change.vm.name, change.vm.moid, Experience.NOT_REVERSIBLE, note=note)
    yield found.model_copy(update={"is_own": True, "needs": Approval.IRREVERSIBLE})


def raised_text(detail: VmDetail | None, version: int) -> str:
    """Say what another hardware version comes to.

    From 20 on an EFI guest has another PCI layout, so that its devices are on other slots (KB 407595).
    """
    before = detail.hardware_version if detail is not None else None
    text = f"hardware version {before if before is not None else 'unknown'} to {version}"
    is_bios = detail is not None and detail.firmware.casefold() == "bios"
    if version < EFI_LAYOUT_FROM or (before is not None and before >= EFI_LAYOUT_FROM) or is_bios:
        return text
    return f"{text}; its NICs may get other names (KB 407595)"


# ---------------------------------------------------------------- networks


def _whole_switch(reach: _Reach, edit: EditSwitch) -> Iterator[Disturbed]:
    """Another MTU takes the uplinks of all members of a distributed switch down and up (KB 419088).

    A member without an uplink there has no link to lose, nor have the VMs on it.
    """
    found = next((one for one in reach.observed.facts.switches if one.moid == edit.switch_moid), None)
    if found is None:
        return
    networks = {one.moid for one in reach.observed.networks if found.uuid and one.switch_uuid == found.uuid}
    members = [moid for moid, uplinks in found.members.items() if uplinks]
    for moid in members:
        host = reach.observed.host_by_moid.get(moid)
        name = host.name if host is not None else moid
        is_free = _is_free_of_vmknics(moid, networks, reach.observed)
        yield reach.thing("host", name, moid, Experience.LINK_DOWN, through=found.name, is_harmless=is_free)
    for vm in users_of_switch(found, reach.observed):
        if vm.host_moid is None or vm.host_moid in members:
            yield reach.vm(vm, Experience.LINK_DOWN, through=found.name)


def _is_free_of_vmknics(host_moid: str, networks: Collection[str], observed: Inventory) -> bool:
    """Whether no VMkernel NIC of a host is on the networks; a host that was not read may have one."""
    facts = observed.facts.hosts.get(host_moid)
    if facts is None or FactGroup.BASE in facts.unread:
        return False
    return not any(
        one.network_moid in networks or not (one.network_moid or one.network) for one in facts.vmknics
    )


def users_of_switch(switch: DistributedSwitch, observed: Inventory) -> list[Vm]:
    """Return the running VMs on a distributed switch, and those of its members of which it is not known."""
    networks = [one for one in observed.networks if switch.uuid and one.switch_uuid == switch.uuid]
    return users_of(networks, observed, hosts=switch.members)


def users_of(
    networks: Collection[Network],
    observed: Inventory,
    *,
    hosts: Collection[str] | None = None,
    among: Iterable[Vm] | None = None,
) -> list[Vm]:
    """Return the running VMs on networks, of `among` or all; of `hosts` those, too, that were not read."""
    moids = {network.moid for network in networks}
    listed = observed.facts.network_vms
    found = {vm for moid in moids for vm in (listed or {}).get(moid, ())}
    return [
        vm
        for vm in (observed.vms if among is None else among)
        if vm.is_on
        and not vm.is_template
        and (
            vm.moid in found
            or (
                not moids.isdisjoint(observed.networks_of(vm.detail))
                if vm.detail is not None
                else listed is None and (hosts is None or vm.host_moid in hosts)
            )
        )
    ]


def _portgroup(reach: _Reach, moid: str) -> Iterator[Disturbed]:
    network = next((one for one in reach.observed.networks if one.moid == moid), None)
    if network is not None:
        for vm in users_of([network], reach.observed):
            yield reach.vm(vm, Experience.LINK_DOWN, through=network.name)


def _host_write(reach: _Reach, host_moid: str, write: HostWrite) -> Iterator[Disturbed]:
    """Another MTU of a standard switch, or an uplink that it loses, disturbs who is on it on this host."""
    host = reach.observed.host_by_moid.get(host_moid)
    match write:
        case SwitchWrite() if host is not None:
            loses = write.uplinks is not None and set(write.before) - set(write.uplinks)
            if write.mtu is None and not loses:
                return
            switch = _standard(host, write.switch, reach.observed)
            if switch is not None and not switch.uplinks:
                return
            yield reach.thing("host", host.name, host.moid, Experience.LINK_DOWN, through=write.switch)
            for vm in _on_standard(host, reach.observed):
                yield reach.vm(vm, Experience.LINK_DOWN, through=write.switch)
        case _:
            return


def _standard(host: Host, name: str, observed: Inventory) -> HostSwitch | None:
    facts = observed.facts.hosts.get(host.moid)
    if facts is None or FactGroup.BASE in facts.unread:
        return None
    return next((one for one in facts.switches if one.name == name and one.switch_uuid is None), None)


def _on_standard(host: Host, observed: Inventory) -> Iterable[Vm]:
    """Return the running VMs that may be on a standard switch: which portgroup is on which is not read."""
    own = [
        one
        for one in observed.networks
        if one.moid in host.network_moids and one.kind is NetworkKind.STANDARD
    ]
    return users_of(own, observed, hosts=[host.moid], among=observed.vms_by_host.get(host.moid, ()))


# ------------------------------------------------------------------- disks


def _detached(reach: _Reach, change: ReconfigureVm) -> Iterator[Disturbed]:
    """List the disks that a VM gives up: the plan's own are never detached."""
    removed = {
        device.key for device in change.spec.devices if isinstance(device, RemoveDevice) and device.is_disk
    }
    vm = next((vm for vm in reach.observed.vms if vm.moid == change.vm.moid), None) if removed else None
    for disk in vm.detail.disks if vm is not None and vm.detail is not None else ():
        if disk.key in removed:
            yield reach.thing("disk", disk.file, None, Experience.DISK_DETACHED, through=change.vm.name)


# ------------------------------------------------------- hosts and clusters


def _evacuated(reach: _Reach, change: EnterMaintenance) -> Iterator[Disturbed]:
    here = {vm.name: vm for vm in reach.observed.vms_by_host.get(change.host.moid, ()) if vm.is_on}
    for name in change.evacuates:
        vm = here.get(name)
        moid = vm.moid if vm is not None else None
        yield reach.thing("vm", name, moid, Experience.VMOTION, through=change.host.name)


def _gpu_modes(reach: _Reach, change: ChangeHost) -> Iterator[Disturbed]:
    """List the VMs that are powered off here with GPUs in their settings: they start in another mode."""
    match change.write:
        case PassthroughWrite(devices=devices) if not any(one.is_passthrough is not None for one in devices):
            return
        case GraphicsWrite() as write if not _changes_a_type(write, reach.observed, change.host.moid):
            return
        case _:
            pass
    for vm in reach.observed.vms_by_host.get(change.host.moid, ()):
        detail = vm.detail
        if vm.is_on or vm.is_template or vm.moid in reach.own or detail is None:
            continue
        if detail.vgpus or detail.passthrough_gpus:
            is_lost = any(_may_strand(target, detail) for target in change.settings)
            needs = Approval.IRREVERSIBLE if is_lost else None
            note = "it may not start again" if is_lost else "when it starts again"
            yield reach.vm(vm, Experience.GPU_MODE, through=change.host.name, note=note, needs=needs)


def _may_strand(target: SettingTarget, detail: VmDetail) -> bool:
    """Whether a VM that is powered off may not start again with another MIG or ECC mode of a GPU.

    It has the GPU itself, or vGPUs that this mode does not give; which GPU gives them is ESXi's choice.
    """
    if target.setting not in _LOST_MODES:
        return False
    if any(target.device == (one.pci_id or one.assigned_id) for one in detail.passthrough_gpus):
        return True
    if target.setting == "ecc":
        return bool(detail.vgpus)
    given = Sharing.MIG if target.value == "enabled" else Sharing.TIME_SLICED
    return any(_sharing(one.profile) is not given for one in detail.vgpus)


def _sharing(profile: str) -> Sharing | None:
    try:
        return VgpuProfile.parse(profile).sharing
    except ValueError:
        return None


def _changes_a_type(write: GraphicsWrite, observed: Inventory, host_moid: str) -> bool:
    """Whether a GPU of a host gets another type or mode: each may keep its own under another default."""
    host = observed.host_by_moid.get(host_moid)
    if host is None:
        return True
    for gpu in host.gpus:
        follows = gpu.configured_graphics_type or write.default_type or gpu.graphics_type
        after = write.graphics_types.get(gpu.pci_id) or follows
        if after != gpu.graphics_type or write.vgpu_modes.get(gpu.pci_id) not in (None, gpu.vgpu_mode):
            return True
    return False


def _cluster_option(reach: _Reach, change: SetClusterOption) -> Iterator[Disturbed]:
    cluster = reach.observed.cluster_by_moid.get(change.cluster_moid)
    hosts = [host for host in reach.observed.hosts if host.cluster_moid == change.cluster_moid]
    vms = [vm for host in hosts for vm in reach.observed.vms_by_host.get(host.moid, ())]
    if cluster is not None:
        yield from _option(reach, "cluster", cluster.name, cluster.moid, vms)


def _vcenter_option(reach: _Reach) -> Iterator[Disturbed]:
    yield from _option(reach, "vcenter", reach.observed.vcenter.address, None, reach.observed.vms)


def _option(reach: _Reach, kind: str, name: str, moid: str | None, vms: Iterable[Vm]) -> Iterator[Disturbed]:
    """Say to how many other VMs an option applies; nothing if there is none."""
    others = sum(not vm.is_template and vm.moid not in reach.own for vm in vms)
    if others:
        note = f"applies to {others} other {'VM' if others == 1 else 'VMs'}"
        yield reach.thing(kind, name, moid, Experience.OPTION, note=note)
