"""Which NUMA nodes a VM is tied to, and whether they have room for it.

Sizing: no more vCPUs than physical cores, and some memory left for ESXi itself. A VM
on several nodes is split evenly (NVIDIA AI Enterprise 5.0 User Guide, chapter 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from vgpu_cfg.model.observed.inventory import NumaNode
from vgpu_cfg.model.plan_values import NumaPolicy

NODE_MEMORY_SHARE = 0.9
"""The part of a NUMA node's memory that VMs can have; recalled, not looked up."""


@dataclass(slots=True)
class NodeState:
    """A NUMA node with what VMs that are tied to it leave free."""

    node_id: int
    cores: int
    usable_mib: int
    free_cores: int
    free_mib: int

    @classmethod
    def of(cls, node: NumaNode) -> NodeState:
        """Start from an empty node."""
        usable_mib = int(node.memory_mib * NODE_MEMORY_SHARE)
        return cls(node.node_id, node.cores, usable_mib, node.cores, usable_mib)

    def copy(self) -> NodeState:
        """Return a twin that can be changed by itself."""
        return NodeState(self.node_id, self.cores, self.usable_mib, self.free_cores, self.free_mib)

    def level(self, cpus: int, memory_mib: int) -> int:
        """Return 0 where so much is free, 1 where it is promised to others, 2 where it is too much."""
        if cpus > self.cores or memory_mib > self.usable_mib:
            return 2
        return 1 if cpus > self.free_cores or memory_mib > self.free_mib else 0


def choose_nodes(
    policy: NumaPolicy,
    named: tuple[int, ...],
    gpu_nodes: Iterable[int | None],
    states: Sequence[NodeState],
    size: tuple[int, int],
) -> tuple[int, ...]:
    """Return the nodes for a VM of so many CPUs and MiB; empty where it is not tied.

    `gpu_nodes` are those of its GPUs, None for one whose node the host does not report: then
    nothing can follow it.
    """
    if policy is NumaPolicy.OFF or not states:
        return ()
    if named:
        return named
    near = set(gpu_nodes)
    if policy is NumaPolicy.FOLLOW_GPU:
        return () if None in near else tuple(sorted(node for node in near if node is not None))

    def preference(state: NodeState) -> tuple[int, bool, int, int]:
        return (state.level(*size), state.node_id not in near, -state.free_cores, state.node_id)

    return (min(states, key=preference).node_id,)


def numa_level(states: Iterable[NodeState], nodes: Sequence[int], cpus: int, memory_mib: int) -> int:
    """Return the worst level of the nodes that a VM is split over, 0 where it is not tied."""
    tied = [state for state in states if state.node_id in nodes]
    return max((state.level(ceil(cpus / len(tied)), memory_mib // len(tied)) for state in tied), default=0)


def promise_nodes(states: Iterable[NodeState], nodes: Iterable[int], cpus: int, memory_mib: int) -> None:
    """Take a VM's CPUs and memory from the nodes it is split over."""
    wanted = set(nodes)
    tied = [state for state in states if state.node_id in wanted]
    for state in tied:
        state.free_cores -= ceil(cpus / len(tied))
        state.free_mib -= memory_mib // len(tied)


def nodes_of_affinity(text: str) -> tuple[int, ...]:
    """Read `numa.nodeAffinity`: a comma list of node ids, empty where there is none."""
    return tuple(sorted({int(part) for part in text.split(",") if part.strip().isdigit()}))
