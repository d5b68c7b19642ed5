"""The sets of a host's GPUs that NVLink joins: the offered device groups, and the free sets.

A set is what Fabric Manager calls a partition on an NVSwitch board, and a bridged pair (or half or whole of a
bridged four) elsewhere. Module ids, not addresses, distinguish the halves of an NVSwitch board. The sets of
four and eight are documented for vSphere; the two-GPU sets are those of NVIDIA's Fabric Manager user guide
for HGX H100 as recalled, and agree with VMware's example that {2,4} and {5,7} leave no four.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.lab.api.versions import is_at_least, version_name
from vgpu_cfg.lab.state.host import Gpu, Host

GpuSet = tuple[Gpu, ...]

SWITCH_SETS: tuple[tuple[int, ...], ...] = (
    (1, 3),
    (2, 4),
    (5, 7),
    (6, 8),
    (1, 2, 3, 4),
    (5, 6, 7, 8),
    (1, 2, 3, 4, 5, 6, 7, 8),
)
"""The sets of an NVSwitch board by module id; sets of one GPU are no groups."""

BRIDGED_SIZES = (2, 4)
"""How many GPUs bridges join: pairs everywhere, fours on H200 NVL."""

MODULE_IDS = (2, 4, 1, 3, 6, 8, 5, 7)
"""Module ids by the GPUs' order of address, as read on one HGX H100; an estate's `module` says others."""

FIRST_GROUP_VERSION = "vim.version.v8_0_0_1"


@dataclass(frozen=True, slots=True)
class GroupOffer:
    """A device group that a host offers: `size` vGPUs of one profile, then `nics`, sequence ids from 0 on.

    `nics` are the (vendor id, device id) of NICs, one for each. The component type of a group's NIC is not
    published; here it is a device of Dynamic DirectPath I/O.
    """

    name: str
    profile: str
    size: int
    nics: tuple[tuple[int, int], ...] = ()
    description: str = ""


def offered_groups(host: Host) -> dict[str, GroupOffer]:
    """Return the groups that a host lists by name, small ones first, whether one is free or not.

    They exist from 8.0 on, with the GPU management daemon; those of a GPU with NICs are the estate's. A
    GPU in MIG mode or handed through whole is in no group of NVLink, and a board without a profile for peer
    to peer has none.
    """
    version = version_name(host.api_version) or ""
    if host.driver is None or not host.driver.gpu_daemon or not is_at_least(version, FIRST_GROUP_VERSION):
        return {}
    found: dict[str, GroupOffer] = {}
    able = (gpu for gpu in host.gpus if not gpu.mig_enabled and not host.is_passed_through(gpu.pci_id))
    for gpus in joined_sets(able):
        profile = load_catalog().board(gpus[0].board).nvlink_p2p_profile
        if profile is not None:
            name = f"Nvidia:{len(gpus)}@{profile.name}%NVLink"
            words = f"{len(gpus)} GPUs joined by NVLink"
            found.setdefault(name, GroupOffer(name, profile.name, len(gpus), description=words))
    for own in host.nic_groups:
        found.setdefault(own.name, GroupOffer(own.name, own.profile, 1, own.nics, own.description))
    return found


def joined_sets(gpus: Iterable[Gpu]) -> list[GpuSet]:
    """Return every possible set of GPUs of one board for a group, small sets first.

    Within a size they are in the order of their lowest module ids or addresses, and so are their GPUs.
    """
    by_board: dict[str, list[Gpu]] = {}
    for gpu in sorted(gpus, key=lambda gpu: gpu.pci_id):
        by_board.setdefault(gpu.board, []).append(gpu)
    found = [one for alike in by_board.values() for one in (*_switched(alike), *_bridged(alike))]
    return sorted(found, key=len)


def free_sets(sets: Iterable[GpuSet]) -> list[GpuSet]:
    """Return those of which no GPU has any vGPU."""
    return [gpus for gpus in sets if not any(gpu.uses for gpu in gpus)]


def _switched(gpus: Sequence[Gpu]) -> Iterator[GpuSet]:
    by_module = {gpu.module_id: gpu for gpu in gpus if gpu.nvswitch}
    for modules in SWITCH_SETS:
        if all(module in by_module for module in modules):
            yield tuple(by_module[module] for module in modules)


def _bridged(gpus: Sequence[Gpu]) -> Iterator[GpuSet]:
    bridged = [gpu for gpu in gpus if gpu.nvlink_peers and not gpu.nvswitch]
    for size in BRIDGED_SIZES:
        for some in combinations(bridged, size):
            if all(other.pci_id in gpu.nvlink_peers for gpu, other in combinations(some, 2)):
                yield some
