"""Which idle GPUs can be in no NVLink group of some size now, since a member is used by others.

Which GPUs can be peers is told by `capacity.peer_groups`, as far as anybody knows. A member that is used
alone, or for a fraction, has its NVLink turned off (field report by Frank Denneman).
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.capacity.host_capacity import HostCapacity
from vgpu_cfg.planning.pool.stranding import StrandedKind, Stranding

PAIR = 2


def find_lost_links(found: HostCapacity) -> dict[str, tuple[Stranding, ...]]:
    """Say of each idle GPU, by its address, which sizes of group it can no longer be in."""
    holders = [tuple(dict.fromkeys(held.vm for held in gpu.held)) for gpu in found.gpus]
    taken = {index for index in range(len(holders)) if holders[index]}
    lost: dict[str, tuple[Stranding, ...]] = {}
    for index, gpu in enumerate(found.gpus):
        own = [one for one in found.peer_sets if index in one]
        broken = [one for one in own if one & taken]
        sizes = {len(one) for one in own} - {len(one) for one in own if one not in broken}
        if holders[index] or not sizes:
            continue
        culprits = sorted({other for one in broken if len(one) in sizes for other in one & taken})
        vms = tuple(dict.fromkeys(vm for other in culprits for vm in holders[other]))
        addresses = {found.gpus[other].pci_id: None for other in culprits}
        is_alone = all(_is_alone(other, holders, found) for other in culprits)
        words = _words(sorted(sizes), tuple(addresses), vms, is_alone=is_alone)
        lost[gpu.pci_id] = (Stranding(StrandedKind.NVLINK, words, vms=vms),)
    return lost


def _is_alone(index: int, holders: Sequence[Sequence[str]], found: HostCapacity) -> bool:
    """Whether none of a GPU's VMs has another GPU that could be its peer."""
    domain = frozenset[int]().union(*(one for one in found.peer_sets if index in one))
    others = {vm for other in domain - {index} for vm in holders[other]}
    return bool(domain) and others.isdisjoint(holders[index])


def _words(sizes: Sequence[int], addresses: Sequence[str], vms: Sequence[str], *, is_alone: bool) -> str:
    if sizes == [PAIR] and len(addresses) == 1 and is_alone:
        return f"NVLink peer {addresses[0]} is used alone by {listed(vms)}"
    groups = " or ".join(str(size) for size in sizes)
    return (
        f"in no NVLink group of {groups} now: {listed(vms)} {'has' if len(vms) == 1 else 'have'} GPUs of it"
    )
