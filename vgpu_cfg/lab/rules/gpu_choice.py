"""Which of the GPUs with room ESXi takes at a power-on. What a real one does is unproven: three ways."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from vgpu_cfg.lab.rules.nvlink import GpuSet
from vgpu_cfg.lab.state.host import AssignmentPolicy, Gpu

GpuChoice = Literal["least_loaded", "lowest", "random"]


@dataclass(frozen=True, slots=True)
class Pick:
    """One way of choosing.

    `gpu` takes GPUs with room, in the order of their addresses, never none. `joined` takes the free sets
    of the size wanted, in the order of module ids or addresses, never none, and all free sets.
    """

    gpu: Callable[[Sequence[Gpu], AssignmentPolicy], Gpu]
    joined: Callable[[Sequence[GpuSet], Sequence[GpuSet]], GpuSet]


def _least_loaded(gpus: Sequence[Gpu], policy: AssignmentPolicy) -> Gpu:
    """Follow the host's policy: the emptiest GPU under performance, the fullest under consolidation.

    A GPU in MIG mode ignores the policy: one is filled before the next (seen on vSphere).
    """
    fill = policy == "consolidation" or gpus[0].mig_enabled
    return min(gpus, key=lambda gpu: -len(gpu.uses) if fill else len(gpu.uses))


def _packed(sets: Sequence[GpuSet], free: Sequence[GpuSet]) -> GpuSet:
    """Take the set that breaks the fewest larger ones: a pair of a half that is broken already.

    That the platform packs pairs into one half to keep a four is VMware's word.
    """
    return min(sets, key=lambda gpus: sum(len(other) > len(gpus) and _meet(gpus, other) for other in free))


def _meet(one: GpuSet, other: GpuSet) -> bool:
    return any(gpu is each for gpu in one for each in other)


PICK_LEAST_LOADED = Pick(_least_loaded, _packed)


def picker(choice: GpuChoice, source: random.Random) -> Pick:
    """Return the way of choosing that a lab is set to."""
    match choice:
        case "least_loaded":
            return PICK_LEAST_LOADED
        case "lowest":
            return Pick(lambda gpus, _policy: gpus[0], lambda sets, _free: sets[0])
        case "random":
            return Pick(
                lambda gpus, _policy: source.choice(list(gpus)), lambda sets, _free: source.choice(list(sets))
            )
