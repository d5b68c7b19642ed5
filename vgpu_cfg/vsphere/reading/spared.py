"""The questions to kinds of hosts that can be skipped if only the content and free room of GPUs are shown.

A profile that no host of a kind lists as startable has room on none of them, and what runs is known. Doubtful
cases are asked: boards without any such profile, GPUs whose board or whose sharing is not known. Device
groups are asked if a GPU of a baseboard with NVSwitches may have lost its peers; for others they show that
there may be a bridge, and not between which GPUs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vgpu_cfg.model.observed.inventory import Host, PciDevice, ProfileInfo
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.vsphere.reading.sharing import board_of, infer_sharing, prefixes_of


@dataclass(frozen=True, slots=True)
class Spared:
    """The questions that a kind can skip: its `profiles`, unless they are None, and its device groups."""

    profiles: tuple[ProfileInfo, ...] | None = None
    device_groups: bool = False


def spared_of(alike: Sequence[Host], vms: Mapping[str, Sequence[Vm]]) -> Spared:
    """Say what need not be asked of hosts of one kind; `vms` are those that run, by their host's moid."""
    if any(board_of(gpu.pci) is None for host in alike for gpu in host.gpus):
        return Spared()
    return Spared(
        _listed(alike, vms),
        device_groups=not any(_may_lack_peers(host, vms.get(host.moid, ())) for host in alike),
    )


def _listed(alike: Sequence[Host], vms: Mapping[str, Sequence[Vm]]) -> tuple[ProfileInfo, ...] | None:
    """Return the profiles that hosts list as startable, and those that run; None where that leaves doubts."""
    names: dict[str, None] = {}
    shared: list[PciDevice] = []
    for host in alike:
        here = {vm.moid: vm for vm in vms.get(host.moid, ())}
        details = [vm.detail for vm in here.values() if vm.detail is not None]
        names.update(dict.fromkeys(host.creatable_profiles))
        names.update((device.profile, None) for detail in details for device in detail.vgpus)
        gpus = [gpu for gpu in infer_sharing(host, here).gpus if not gpu.is_passthrough]
        if any(gpu.sharing is None for gpu in gpus):
            return None
        shared += (gpu.pci for gpu in gpus)
    told = {prefix for name in names if (prefix := _prefix(name))}
    if any(told.isdisjoint(prefixes_of(pci)) for pci in shared):
        return None
    return tuple(ProfileInfo(name=name) for name in names)


def _prefix(profile: str) -> str:
    try:
        return VgpuProfile.parse(profile).prefix
    except ValueError:
        return ""


def _may_lack_peers(host: Host, vms: Sequence[Vm]) -> bool:
    """Whether a GPU that NVSwitches join to others is idle, and others of its host may not be."""
    boards = [board for gpu in host.gpus if not gpu.vm_moids and (board := board_of(gpu.pci)) is not None]
    return (
        len(host.gpus) > 1
        and any(board.is_nvswitch for board in boards)
        and (any(gpu.vm_moids for gpu in host.gpus) or any(vm.detail and vm.detail.vgpus for vm in vms))
    )
