"""In which order the VMs of a host are powered on, and whether ESXi's way of choosing GPUs lets all start.

Large vGPUs start first: small ones that are spread over all GPUs first would lock them
to their size. Policy `performance` takes the GPU with the fewest vGPUs, `consolidation`
the fullest; on MIG GPUs one is filled before the next (field report by Frank
Denneman). That ESXi chooses like this on every release is not proven.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.model.observed.gpu_use import AssignmentPolicy
from vgpu_cfg.planning.capacity.gpu_state import GpuState
from vgpu_cfg.planning.capacity.vgpu_need import VgpuNeed
from vgpu_cfg.planning.placement.demand import Variant, counted_names
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.start_search import start_size


@dataclass(frozen=True, slots=True)
class Start:
    """A VM with vGPUs that the plan powers on."""

    vm: str
    variant: Variant

    @property
    def size(self) -> tuple[int, int, int]:
        """What starts are sorted by: NVLink peers, then the memory and MIG slices of the largest vGPU."""
        return start_size(self.variant)

    @property
    def text(self) -> str:
        """Its vGPUs, for a reader."""
        return counted_names(self.variant)


def power_on_tiers(starts: Sequence[Start]) -> list[list[str]]:
    """Group the VMs of one host by the size of their vGPUs, the largest first.

    Boards apart: a size says nothing about another board's GPUs. Device groups come before others. One
    tier means no order.
    """
    boards = {start.variant[0].board_key for start in starts}
    tiers: list[list[str]] = []
    for board in sorted(boards):
        alike = [start for start in starts if start.variant[0].board_key == board]
        sizes = sorted({start.size for start in alike}, reverse=True)
        for place, size in enumerate(sizes):
            while len(tiers) <= place:
                tiers.append([])
            tiers[place] += sorted(start.vm for start in alike if start.size == size)
    return tiers


def simulate_starts(
    host: HostState, starts: Sequence[Start]
) -> tuple[dict[str, tuple[int, ...]], str | None]:
    """Start the VMs in their tiers as ESXi would.

    Returns the GPUs that each gets, by index, and the first VM that gets none (None where all do).
    """
    gpus = [gpu.copy() for gpu in host.gpus]
    policy = host.host.assignment_policy or AssignmentPolicy.PERFORMANCE
    by_name = {start.vm: start for start in starts}
    given: dict[str, tuple[int, ...]] = {}
    for tier in power_on_tiers(starts):
        for name in tier:
            chosen: list[int] = []
            for need in by_name[name].variant:
                index = _choose(gpus, need, policy)
                if index is None:
                    return given, name
                gpus[index].take(need, name)
                chosen.append(index)
            given[name] = tuple(chosen)
    return given, None


def _choose(gpus: Sequence[GpuState], need: VgpuNeed, policy: AssignmentPolicy) -> int | None:
    fitting = [index for index, gpu in enumerate(gpus) if gpu.refuse(need) is None]
    if need.is_mig or policy is AssignmentPolicy.CONSOLIDATION:
        return max(fitting, key=lambda index: (len(gpus[index].held), -index), default=None)
    return min(fitting, key=lambda index: len(gpus[index].held), default=None)
