"""Which of the GPUs with room ESXi takes at a power-on. What a real one does is unproven: three ways."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Literal

from vgpu_cfg.lab.host_state import AssignmentPolicy, Gpu

GpuChoice = Literal["least_loaded", "lowest", "random"]

Pick = Callable[[Sequence[Gpu], AssignmentPolicy], Gpu]
"""Takes GPUs with room, in the order of their addresses, never none."""


def pick_least_loaded(gpus: Sequence[Gpu], policy: AssignmentPolicy) -> Gpu:
    """Follow the host's policy: the emptiest GPU under performance, the fullest under consolidation.

    A GPU in MIG mode ignores the policy: one is filled before the next (seen on vSphere).
    """
    fill = policy == "consolidation" or gpus[0].mig_enabled
    return min(gpus, key=lambda gpu: -len(gpu.uses) if fill else len(gpu.uses))


def pick_lowest(gpus: Sequence[Gpu], policy: AssignmentPolicy) -> Gpu:
    """Take the lowest address."""
    del policy
    return gpus[0]


def picker(choice: GpuChoice, source: random.Random) -> Pick:
    """Return the way of choosing that a lab is set to."""
    match choice:
        case "least_loaded":
            return pick_least_loaded
        case "lowest":
            return pick_lowest
        case "random":
            return lambda gpus, _policy: source.choice(list(gpus))
