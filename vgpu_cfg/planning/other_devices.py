"""Which edits give a VM the desired vmxnet3 and paravirtual RDMA NICs, and disks.

NICs are matched by network first, then in their order, never by slot. A disk is
never shrunk and never removed: what is in it is not ours to lose.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vgpu_cfg.model.change import Edit
from vgpu_cfg.model.desired import DesiredDisk, DesiredDiskGrowth, DesiredFunction, DesiredNewDisk
from vgpu_cfg.model.vm import VirtualNic, VmDetail
from vgpu_cfg.model.vm_spec import (
    DeviceEdit,
    EditNic,
    GrowDisk,
    NewDisk,
    NewNic,
    NewPvrdmaNic,
    NicBacking,
    RemoveDevice,
)
from vgpu_cfg.planning.nic_functions import SRIOV
from vgpu_cfg.planning.words import gib

VMXNET3 = "vmxnet3"
PVRDMA = "pvrdma"
"""The `VirtualNic.kind` of a paravirtual RDMA NIC."""
MOST_NICS = 10


@dataclass(frozen=True, slots=True)
class WantedNic:
    """A NIC of the kind "vmxnet3" or "pvrdma" on a network that was found.

    `new_mac` is the MAC that the NIC is given where it is made, and that one which is there keeps its own
    in place of.
    """

    backing: NicBacking
    mac: str | None = None
    kind: str = VMXNET3
    new_mac: str | None = None

    @property
    def network(self) -> str:
        """What a VM's NIC on this network says: the portgroup key where distributed, else the moid."""
        return self.backing.portgroup_key or self.backing.network_moid


@dataclass(frozen=True, slots=True)
class WantedFunction:
    """A NIC that is a function of a physical one.

    `backing` is that of a virtual function; `called` what the plan file calls the network, if anything.
    `new_mac` as of `WantedNic`.
    """

    function: DesiredFunction
    backing: NicBacking | None = None
    mac: str | None = None
    called: str = ""
    new_mac: str | None = None

    @property
    def network(self) -> str:
        """What a VM's NIC on this network says, empty where vSphere knows of none."""
        return (self.backing.portgroup_key or self.backing.network_moid) if self.backing is not None else ""


@dataclass(slots=True)
class DeviceEdits:
    """The difference. `shrinking` names disks that are larger than what is asked."""

    removals: list[DeviceEdit] = field(default_factory=list)
    additions: list[DeviceEdit] = field(default_factory=list)
    edits: list[Edit] = field(default_factory=list)
    shrinking: list[tuple[int, int]] = field(default_factory=list)
    grows: bool = False


def compare_nics(wanted: Sequence[WantedNic], detail: VmDetail, names: dict[str, str]) -> DeviceEdits:
    """List the edits that give a VM exactly these NICs; `names` spells the networks of those it has.

    Of `wanted` only vmxnet3 ones count. Virtual functions and paravirtual RDMA NICs are not looked at: see
    `compare_functions` and `compare_pvrdma`.
    """
    result = DeviceEdits()
    for nic in detail.nics:
        if nic.kind.casefold() not in (VMXNET3, PVRDMA, SRIOV):
            _remove_nic(nic, names, result)
    _compare_kind(VMXNET3, wanted, detail, names, result)
    return result


def compare_pvrdma(wanted: Sequence[WantedNic], detail: VmDetail, names: dict[str, str]) -> DeviceEdits:
    """List the edits that give a VM exactly the paravirtual RDMA NICs among `wanted`."""
    result = DeviceEdits()
    _compare_kind(PVRDMA, wanted, detail, names, result)
    return result


def _compare_kind(
    kind: str, wanted: Sequence[WantedNic], detail: VmDetail, names: dict[str, str], result: DeviceEdits
) -> None:
    usable = [nic for nic in detail.nics if nic.kind.casefold() == kind]
    missing: list[WantedNic] = []
    for want in wanted:
        if want.kind != kind:
            continue
        same = [nic for nic in usable if nic.network == want.network]
        found = min(same, key=lambda nic: not _has_mac(nic, want.mac), default=None)
        if found is None:
            missing.append(want)
            continue
        usable.remove(found)
        if not _has_mac(found, want.mac):
            result.additions.append(EditNic(key=found.key, backing=want.backing, mac=want.mac))
            name = want.backing.network_name
            is_default = want.mac == want.new_mac
            result.edits.append(
                Edit(key="nic mac", before=found.mac, after=want.mac, is_default=is_default, note=name)
            )
    for want in missing:
        name = want.backing.network_name
        if usable:
            found = usable.pop(0)
            result.additions.append(EditNic(key=found.key, backing=want.backing, mac=want.mac))
            result.edits.append(Edit(key="nic", before=names.get(found.network, found.network), after=name))
            continue
        mac = want.mac or want.new_mac
        new = NewNic if kind == VMXNET3 else NewPvrdmaNic
        result.additions.append(new(backing=want.backing, mac=mac))
        result.edits.append(Edit(key="nic", after=name, note=kind))
        if mac is not None and mac == want.new_mac:
            result.edits.append(Edit(key="nic mac", after=mac, is_default=True, note=name))
    for nic in usable:
        _remove_nic(nic, names, result)


def compare_disks(wanted: Sequence[DesiredDisk], detail: VmDetail, inherited: frozenset[int]) -> DeviceEdits:
    """List the edits that grow the template's first disk and add the plan's own.

    `inherited` are the keys of the disks that came with the template, which a clone keeps. The
    others are the plan's: matched by the kind of their controller, then in their order.
    """
    result = DeviceEdits()
    kinds = {controller.key: controller.kind for controller in detail.controllers}
    disks = sorted(detail.disks, key=lambda disk: disk.key)
    own = [disk for disk in disks if disk.key not in inherited]
    for want in wanted:
        if isinstance(want, DesiredDiskGrowth):
            first = next((disk for disk in disks if disk.key in inherited), None)
            if first is not None and first.capacity_mib < want.size_mib:
                _grow(first.key, first.capacity_mib, want.size_mib, result)
            continue
        alike = [disk for disk in own if kinds.get(disk.controller_key, want.controller) == want.controller]
        if not alike:
            _add(want, result)
            continue
        own.remove(alike[0])
        if alike[0].capacity_mib < want.size_mib:
            _grow(alike[0].key, alike[0].capacity_mib, want.size_mib, result)
        elif alike[0].capacity_mib > want.size_mib:
            result.shrinking.append((alike[0].capacity_mib, want.size_mib))
    return result


def _grow(key: int, before: int, after: int, result: DeviceEdits) -> None:
    result.grows = True
    result.additions.append(GrowDisk(key=key, size_mib=after))
    result.edits.append(Edit(key="disk", before=gib(before), after=gib(after), note="grown"))


def _add(want: DesiredNewDisk, result: DeviceEdits) -> None:
    result.additions.append(NewDisk(size_mib=want.size_mib, controller=want.controller))
    result.edits.append(Edit(key="disk", after=gib(want.size_mib), note=f"thin, {want.controller}"))


def _remove_nic(nic: VirtualNic, names: dict[str, str], result: DeviceEdits) -> None:
    was = f"{nic.kind} NIC on {names.get(nic.network, nic.network or 'no network')}"
    result.removals.append(RemoveDevice(key=nic.key, was=was))
    result.edits.append(Edit(key="nic", before=was))


def _has_mac(nic: VirtualNic, mac: str | None) -> bool:
    return mac is None or nic.mac.casefold() == mac.casefold()
