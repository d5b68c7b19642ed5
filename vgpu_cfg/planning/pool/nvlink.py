"""Which GPUs of a host reach each other over NVLink, as far as vCenter tells, and which of them lost it.

vCenter names device groups and their profiles, never their members. Known are therefore the GPUs of
one NVSwitch, and all GPUs of a board where a group takes just so many. A member that is used alone, or
for a fraction, has its NVLink turned off (field report by Frank Denneman).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from vgpu_cfg.planning.capacity import HostCapacity
from vgpu_cfg.planning.pool.stranding import Kind, Stranding
from vgpu_cfg.planning.vgpu_need import VgpuNeed
from vgpu_cfg.planning.words import listed

LEAST_PEERS = 2


def peers_of(
    found: HostCapacity, needs: Callable[[str], Mapping[str, VgpuNeed]]
) -> tuple[frozenset[str], ...]:
    """Return the sets of GPUs, by PCI address, that are known to be joined."""
    by_board: dict[str, list[str]] = {}
    switched: set[str] = set()
    for gpu in found.gpus:
        if gpu.board is not None:
            by_board.setdefault(gpu.board.key, []).append(gpu.pci_id)
            if gpu.board.is_nvswitch:
                switched.add(gpu.board.key)
    joined = dict.fromkeys(board_key for board_key in by_board if board_key in switched)
    for group in found.host.device_groups:
        profiles = [profile for _, profile in group.components if profile]
        for board_key, members in by_board.items():
            is_all = len(profiles) == len(members)
            if is_all and all(board_key in needs(profile) for profile in profiles):
                joined[board_key] = None
    return tuple(frozenset(by_board[key]) for key in joined if len(by_board[key]) >= LEAST_PEERS)


def find_lost_links(found: HostCapacity, peers: Iterable[frozenset[str]]) -> dict[str, tuple[Stranding, ...]]:
    """Say of each GPU whose peers are used alone that a group with them cannot start."""
    lost: dict[str, tuple[Stranding, ...]] = {}
    for joined in peers:
        members = [gpu for gpu in found.gpus if gpu.pci_id in joined]
        holders = {gpu.pci_id: tuple(dict.fromkeys(held.vm for held in gpu.held)) for gpu in members}
        alone = {pci_id: vms for pci_id, vms in holders.items() if vms and _is_alone(pci_id, holders)}
        if not alone or len(alone) == len(members):
            continue
        for gpu in members:
            if not holders[gpu.pci_id]:
                words, vms = _words(gpu.pci_id, alone, len(members))
                lost[gpu.pci_id] = (Stranding(Kind.NVLINK, words, vms=vms),)
    return lost


def _is_alone(pci_id: str, holders: Mapping[str, Sequence[str]]) -> bool:
    """Whether none of a GPU's VMs has another GPU of the set."""
    others = {vm for other, vms in holders.items() if other != pci_id for vm in vms}
    return others.isdisjoint(holders[pci_id])


def _words(pci_id: str, alone: Mapping[str, Sequence[str]], count: int) -> tuple[str, tuple[str, ...]]:
    vms = tuple(dict.fromkeys(vm for names in alone.values() for vm in names))
    if count == LEAST_PEERS:
        peer = next(other for other in alone if other != pci_id)
        return f"NVLink peer {peer} is used alone by {listed(vms)}", vms
    return f"no NVLink group of all {count}: {listed(vms)} uses one alone", vms
