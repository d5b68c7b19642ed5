"""The GPUs, NICs and disks of a VM in the words of a plan file, and which of them it has no words for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from vgpu_cfg.model.observed.vm import PassthroughDevice, VirtualNic, VmDetail
from vgpu_cfg.model.plan_file import size_text
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.planning.capacity.nic_functions import SRIOV
from vgpu_cfg.planning.estate.disks import OwnedDisks, disk_text
from vgpu_cfg.planning.vms.devices.gpu_devices import has_uvm
from vgpu_cfg.planning.vms.lookup.gpu_match import DeviceNames
from vgpu_cfg.planning.vms.lookup.wanted import PVRDMA, VMXNET3

Item = dict[str, Any]

_MADE_BY_VCENTER = re.compile(r"00:50:56:[89ab][0-9a-f]:|00:0c:29:")
"""MACs that vCenter (00:50:56:80 to bf) and hosts (00:0c:29) make: a new VM gets one of its own.

Source: vSphere Networking 8.0, "MAC Address Assignment from vCenter Server" and "MAC Address Generation on
ESXi Hosts".
"""


@dataclass(slots=True)
class Said:
    """What a plan file says at one key; None where it says nothing. `left_out` tells what has no words.

    `is_bound` tells that it holds on the VM's own host only: it names a function by its address.
    """

    value: Any = None
    left_out: list[str] = field(default_factory=list)
    is_bound: bool = False


def gpus_of(detail: VmDetail, names: DeviceNames) -> Said:
    """Say the GPUs of a VM; nothing at all where one of them has no words: the rest would be too few."""
    said = Said()
    items: list[Item | str] = []
    for vgpu in detail.vgpus:
        if not _is_profile(vgpu.profile):
            said.left_out.append(f"gpus: {vgpu.profile or 'a vGPU without a profile'} is no profile")
    plain = [gpu for gpu in detail.vgpus if gpu.group_key not in detail.device_groups]
    for (profile, uvm), same in groupby(plain, lambda gpu: (gpu.profile, has_uvm(gpu, detail))):
        items.append(_counted({"profile": profile, **({"uvm": True} if uvm else {})}, len(list(same))))
    for key in sorted(detail.device_groups):
        members = [gpu for gpu in detail.vgpus if gpu.group_key == key]
        if is_gpu_with_nics(detail, key):
            items.append({"profile": members[0].profile, "group": detail.device_groups[key]})
            continue
        items += _group([*members, *detail.other_members(key)], detail.device_groups[key], said)
    said.left_out += [f"gpus: no key asks for the DVX device {one.device_class}" for one in detail.dvx]
    for device in (one for one in detail.passthrough_gpus if one.group_key is None):
        found = _whole(device, names)
        if found is None:
            said.left_out.append("gpus: no key says which functions a Dynamic DirectPath device may be")
        else:
            said.is_bound |= device.is_fixed
            items.append(found)
    if items and not said.left_out:
        said.value = items[0] if len(items) == 1 and isinstance(items[0], str) else _folded(items)
    return said


def _is_profile(name: str) -> bool:
    try:
        VgpuProfile.parse(name)
    except ValueError:
        return False
    return True


def is_gpu_with_nics(detail: VmDetail, key: int) -> bool:
    """Whether a device group is one vGPU with NICs that are passed through: a plan file can ask for it."""
    others = detail.other_members(key)
    are_nics = all(isinstance(one, PassthroughDevice) and one.is_nic for one in others)
    return bool(others) and are_nics and sum(gpu.group_key == key for gpu in detail.vgpus) == 1


def _group(members: Sequence[Any], name: str, said: Said) -> Iterator[Item]:
    """Yield the item of one device group: as a plan file has it, peers with all of a GPU each."""
    profiles = {getattr(gpu, "profile", None) for gpu in members}
    if len(profiles) != 1 or None in profiles or len(members) < 2:
        if members:
            said.left_out.append(f"gpus: no key asks for the device group {name}")
        return
    yield {"profile": members[0].profile, "count": len(members), "nvlink": True}


def _whole(device: PassthroughDevice, names: DeviceNames) -> Item | None:
    """Say a GPU that is passed through: by its address, or by what it may be."""
    if device.pci_id is not None:
        return {"pin": device.pci_id}
    wanted: Item = {"label": device.label} if device.label else {}
    if len(device.allowed) == 1:
        wanted["device_id"] = "{:04x}:{:04x}".format(*device.allowed[0])
    elif not device.label:
        known = [set(names.get(ids, ())) for ids in device.allowed]
        shared = sorted(set.intersection(*known), key=len) if known else []
        if not shared:
            return None
        wanted["model"] = shared[0]
    return {"device": wanted}


def _counted(item: Item, count: int) -> Item | str:
    if count > 1:
        return {**item, "count": count}
    return str(item["profile"]) if set(item) == {"profile"} else item


def _folded(items: Iterable[Item | str]) -> list[Item | str]:
    """Count equal neighbours that are passed through by what they are; vGPUs are counted already."""
    made: list[Item | str] = []
    for item, same in groupby(items):
        count = len(list(same))
        is_many = count > 1 and isinstance(item, dict) and "device" in item
        made += [{**item, "count": count}] if is_many and isinstance(item, dict) else [item] * count
    return made


def nics_of(detail: VmDetail, networks: Mapping[str, str], shared: Collection[str] = ()) -> Said:
    """Say the NICs of a VM, by the names of networks; nothing where one of them has no words.

    `shared` are the MACs that several NICs have: nobody meant them.
    """
    said = Said()
    items: list[Item | str] = []
    for nic in detail.nics:
        item = _virtual(nic, networks, shared, said)
        if item is not None:
            items.append(item)
    for device in detail.passthrough_nics:
        if device.group_key is not None:
            if is_gpu_with_nics(detail, device.group_key):
                items.append({"type": "passthrough", "near": "gpu"})
            continue
        if device.pci_id is not None:
            said.is_bound = True
            items.append({"type": "passthrough", "pin": device.pci_id})
        elif device.label:
            items.append({"type": "passthrough", "device": {"label": device.label}})
        else:
            said.left_out.append("nics: one is passed through, and has neither an address nor a label")
    if not said.left_out:
        said.value = items[0] if len(items) == 1 and isinstance(items[0], str) else _joined(items)
    return said


def _virtual(
    nic: VirtualNic, networks: Mapping[str, str], shared: Collection[str], said: Said
) -> Item | str | None:
    kind, network = nic.kind.casefold(), networks.get(nic.network)
    if kind not in (VMXNET3, PVRDMA, SRIOV):
        said.left_out.append(f"nics: one is of the type {nic.kind}")
        return None
    if network is None:
        said.left_out.append("nics: one is on a network that was not read")
        return None
    mac = nic.mac.casefold()
    item: Item = {"network": network}
    if kind != VMXNET3:
        item["type"] = kind
    if nic.function is not None:
        item["pin"] = nic.function
        said.is_bound = True
    if mac and mac not in shared and not _MADE_BY_VCENTER.match(mac):
        item["mac"] = mac
    return network if set(item) == {"network"} else item


def _joined(items: Sequence[Item | str]) -> list[Item | str]:
    """Count equal neighbours, but for those with an address of their own."""
    made: list[Item | str] = []
    for item, same in groupby(items):
        count = len(list(same))
        is_one = isinstance(item, dict) and ("mac" in item or item.get("type") == "passthrough")
        if count == 1 or is_one:
            made += [item] * count
        else:
            made.append({**({"network": item} if isinstance(item, str) else item), "count": count})
    return made


def disks_of(detail: VmDetail, template: VmDetail | None, owned: OwnedDisks | None = None) -> Said:
    """Say the disks of a VM: how large the template's first one is at least, and those beside it.

    Disks of others, by `owned`, are left out and named: no plan file asks for them.
    """
    said = Said()
    disks = sorted(detail.disks if owned is None else owned.own, key=lambda disk: disk.key)
    said.left_out += (
        [f"disks: {disk_text(disk)} does not become the plan's" for disk in owned.others] if owned else []
    )
    kinds = {controller.key: controller.kind for controller in detail.controllers}
    given = {disk.key: disk for disk in template.disks} if template is not None else {}
    inherited = [disk for disk in disks if disk.key in given] if template is not None else disks[:1]
    items: list[Item] = []
    for disk in inherited:
        was = given[disk.key].capacity_mib if disk.key in given else 0
        if disk is inherited[0]:
            items += [{"grow": size_text(disk.capacity_mib)}] if disk.capacity_mib > was else []
        elif disk.capacity_mib != was:
            said.left_out.append("disks: another disk of the template's than its first has grown")
    for disk in disks:
        if disk in inherited:
            continue
        kind = kinds.get(disk.controller_key, "scsi")
        if kind not in ("scsi", "nvme"):
            said.left_out.append(f"disks: one is on a controller of the kind {kind}")
            continue
        items.append(
            {"size": size_text(disk.capacity_mib), **({"controller": kind} if kind == "nvme" else {})}
        )
    said.value = items or None
    return said
