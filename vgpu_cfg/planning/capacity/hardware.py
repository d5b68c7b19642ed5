"""The virtual hardware that a VM may have on a host: hardware versions with their limits, and NUMA nodes.

A VM on several NUMA nodes is split evenly (NVIDIA AI Enterprise 5.0 User Guide, chapter 4). Sizing: no more
vCPUs than physical cores, and some memory left for ESXi itself.

Sources on hardware versions: Broadcom API documentation (versions by release); vSphere Virtual Machine
Administration and KB 309986 (features and limits); recorded answers of QueryConfigOptionEx (vGPUs by
version).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from math import ceil

from vgpu_cfg.model.observed.inventory import Host, NumaNode
from vgpu_cfg.model.plan_values import NumaPolicy
from vgpu_cfg.model.wording import is_at_least, version_tuple

_VERSIONS = (
    ((9, 0), 22),
    ((8, 0, 2), 21),
    ((8, 0), 20),
    ((7, 0, 2), 19),
    ((7, 0, 1), 18),
    ((7, 0), 17),
    ((6, 7), 15),
)
VGPU_FROM = 11
SEVERAL_VGPUS_FROM = 15
DYNAMIC_PASSTHROUGH_FROM = 17
VIRTUAL_NUMA_FROM = 20
_VIRTUAL_NUMA_API = (8, 0, 0, 1)
"""Of `ConfigSpec.virtualNuma` and `VirtualDevice.numaNode`. Source: vSphere API reference."""
DEVICE_GROUPS_FROM = 20
PVRDMA_FROM = 13
"""Of paravirtual RDMA NICs. Source: vSphere Networking, PVRDMA Support."""
NVME_FROM = 13
"""Of NVMe controllers. Source: vCenter's error message, terraform-provider-vsphere issue 2394."""

NODE_MEMORY_SHARE = 0.9
"""The part of a NUMA node's memory that VMs can have; recalled, not looked up."""


def highest_version(host: Host) -> int | None:
    """Return the newest hardware version that a host runs, None if unknown."""
    if host.max_hardware_version is not None:
        return host.max_hardware_version
    found = version_tuple(host.version)
    return next((number for release, number in _VERSIONS if found and found >= release), None)


def vgpu_limit(host: Host, version: int | None) -> int:
    """Return how many vGPUs a VM of this version may have: vCenter's word, else the table."""
    reported = host.max_vgpus_by_hardware_version.get(version) if version is not None else None
    if reported is not None:
        return reported
    if version is None or version > 20:
        return 16
    if version == 20:
        return 8
    if version >= SEVERAL_VGPUS_FROM:
        return 4
    return 1 if version >= VGPU_FROM else 0


def least_known(host: Host, least: int, vgpus: int, most: int) -> int:
    """Return the oldest version of vSphere's that serves: so new at least, and with so many vGPUs there.

    `most` is the version that the host and its neighbors run; it is returned if no version serves.
    """
    serving = (one for one in _ALL if least <= one <= most and vgpus <= vgpu_limit(host, one))
    return next(serving, most)


_ALL = (11, 13, 14, 15, 17, 18, 19, 20, 21, 22)
"""The versions that ESXi has; 12 and 16 are those of desktop products (KB 1003746)."""


def passthrough_limit(version: int | None) -> int:
    """Return how many PCI devices may be passed through to a VM of this version."""
    return 128 if version is None or version >= 20 else 16


def least_version(
    vgpus: int,
    dynamic: int,
    passthrough: int,
    *,
    groups: bool = False,
    pvrdma: bool = False,
    nvme: bool = False,
) -> int:
    """Return the lowest version that can have so many vGPUs, dynamic and all passed-through devices.

    `groups` is whether vGPUs come as a device group, `pvrdma` whether a NIC is a paravirtual RDMA one.
    `nvme` is whether a disk is on an NVMe controller.
    """
    least = max(PVRDMA_FROM if pvrdma else 0, NVME_FROM if nvme else 0)
    if vgpus:
        least = max(least, VGPU_FROM)
    if vgpus > 1:
        least = max(least, SEVERAL_VGPUS_FROM)
    if vgpus > 4:
        least = 20
    if vgpus > 8:
        least = 21
    if dynamic:
        least = max(least, DYNAMIC_PASSTHROUGH_FROM)
    if passthrough > 16:
        least = max(least, 20)
    if groups:
        least = max(least, DEVICE_GROUPS_FROM)
    return least


def can_shape_nodes(api_version: str, version: int | None) -> bool:
    """Whether the virtual NUMA nodes of a VM of this hardware version can be stated over this API."""
    has_api = bool(api_version) and is_at_least(api_version, _VIRTUAL_NUMA_API)
    return has_api and version is not None and version >= VIRTUAL_NUMA_FROM


@dataclass(slots=True)
class NodeState:
    """A NUMA node with the room that VMs tied to it leave free."""

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


def misses_nodes(nodes: Collection[int], gpu_nodes: Collection[int], host: Host) -> bool:
    """Whether an affinity to these nodes, to none if empty, leaves out a node of the VM's GPUs."""
    return not set(gpu_nodes) <= set(nodes) and (bool(nodes) or len(host.numa_nodes) != 1)
