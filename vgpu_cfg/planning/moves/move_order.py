"""In which order moves are made, and whether each VM starts on its target whichever GPU ESXi chooses.

Those that must be off are switched off first and started last. A vMotion waits for those that leave its
target; VMs that change places in a circle cannot all run meanwhile, so one of them is switched off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.moves.movables import Movable
from vgpu_cfg.planning.placement.demand import Variant
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.power_order import Start
from vgpu_cfg.planning.placement.start_queues import board_gpus
from vgpu_cfg.planning.placement.start_search import Position, SearchTooLarge, StartSearch, start_size


@dataclass(frozen=True, slots=True)
class MoveStep:
    """One move: hosts are indexes. `why_cold` is empty where vMotion makes it."""

    vm: str
    source: int
    target: int
    variant: Variant
    why_cold: str


def in_order(steps: Iterable[MoveStep]) -> list[MoveStep]:
    """Sort the moves so that each can be made when those before it are; circles are cut by a cold one."""
    left = sorted(steps, key=lambda step: (step.target, *_largest_first(step)))
    cold = [step for step in left if step.why_cold]
    left = [step for step in left if not step.why_cold]
    ordered: list[MoveStep] = []
    while left:
        sources = {step.source for step in left}
        free = [step for step in left if step.target not in sources]
        if free:
            ordered += free
            left = [step for step in left if step not in free]
            continue
        smallest = min(left, key=lambda step: (sum(need.framebuffer_mib for need in step.variant), step.vm))
        left.remove(smallest)
        why = "it changes places with others, and one of them must be off meanwhile"
        cold.append(MoveStep(smallest.vm, smallest.source, smallest.target, smallest.variant, why))
    return [*ordered, *sorted(cold, key=_largest_first)]


def _largest_first(step: MoveStep) -> tuple[tuple[int, ...], str]:
    size = start_size(step.variant) if step.variant else (0, 0, 0)
    return tuple(-part for part in size), step.vm


def find_uncertain_starts(
    ordered: Sequence[MoveStep],
    now: Sequence[HostState],
    later: Sequence[HostState],
    starts: Mapping[int, Sequence[Start]],
) -> Iterator[str]:
    """Say of every host where what arrives and what the plan starts then could strand a VM.

    `now` are the hosts without the VMs that move, `later` also without those that the plan switches off;
    `starts` are the plan's, by host index.
    """
    arrivals: dict[int, list[MoveStep]] = {}
    for step in ordered:
        arrivals.setdefault(step.target, []).append(step)
    for index in sorted({*arrivals, *starts}):
        came = [step for step in arrivals.get(index, ()) if step.variant]
        planned = [start.variant for start in starts.get(index, ())]
        variants = [step.variant for step in came] + planned
        for board in sorted({variant[0].board_key for variant in variants}):
            coming = [step.variant for step in came if step.variant[0].board_key == board]
            following = [variant for variant in planned if variant[0].board_key == board]
            if not _is_certain((now if came else later)[index], board, coming, following):
                what = "a VM that moves there" if came else "a VM of the plan"
                yield (
                    f"on {now[index].host.name} all fit, and ESXi could choose GPUs such that {what} "
                    "finds none any more"
                )
                break


def find_unknown_placements(moved: Iterable[Movable], hosts: Iterable[HostState]) -> Iterator[str]:
    """Say of GPUs that a VM leaves, with placements, that vCenter does not report where the others are."""
    left = {one.vm.moid for one in moved}
    for state in hosts:
        reported = {gpu.pci_id: left & set(gpu.vm_moids) for gpu in state.host.gpus}
        for gpu in state.gpus:
            has_places = gpu.sharing is Sharing.MIG or gpu.mode is VgpuMode.MIXED_SIZE
            if has_places and gpu.held and reported.get(gpu.pci_id):
                names = listed(dict.fromkeys(held.vm for held in gpu.held))
                yield (
                    f"on {state.host.name}: the place of {names} on GPU {gpu.pci_id} is not known, and it "
                    "may keep others away"
                )


def _is_certain(
    host: HostState, board_key: str, coming: Sequence[Variant], following: Sequence[Variant]
) -> bool:
    """Whether all that comes, in this order, gets GPUs, and all that starts then can after any of it."""
    gpus, peer_sets = board_gpus(host, board_key)
    search = StartSearch.of([*coming, *following], gpus, peer_sets)
    reached: set[Position] = {search.position(gpus)}
    try:
        for variant in coming:
            step: set[Position] = set()
            for position in reached:
                outcomes = search.outcomes(position, variant)
                if outcomes is None:
                    return False
                step |= outcomes
            reached = step
        left = search.counted(following)
        return all(search.can_all_start(position, left) for position in reached)
    except SearchTooLarge:
        return False
