"""The NUMA affinity of a VM: its wanted value, and how it follows the GPU that ESXi will choose.

ESXi alone chooses the GPU of a vGPU, and does so at power-on (not proven on real hardware). If every GPU it
could choose is on one node, the affinity is set at the clone; otherwise the run checks after power-on, and
pins it anew.

Belief: numa-affinity-format, drs-keeps-numa-affinity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from vgpu_cfg.changes.kinds.power import NumaPin
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, VmDetail
from vgpu_cfg.model.plan_values import NumaPolicy
from vgpu_cfg.planning.capacity.hardware import nodes_of_affinity
from vgpu_cfg.planning.capacity.host_capacity import allowed_ids, ids_of, is_match
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm


def choosable_gpus(initial: HostState, fit: Fit) -> tuple[str, ...]:
    """List the GPUs that ESXi could choose for the VM's vGPUs, whatever else of the plan starts first.

    For a device group those are the sets of NVLink peers that are all idle.
    """
    found = {initial.gpus[index].pci_id for index in fit.gpus}
    grouped = {number for number, _ in fit.groups}
    for need, count in Counter(fit.variant).items():
        if need.peers in grouped:
            sets = initial.free_sets(need, count, initial.gpus)
            found |= {initial.gpus[index].pci_id for members in sets for index in members}
        else:
            found |= {gpu.pci_id for gpu in initial.gpus if gpu.refuse(need) is None}
    return tuple(gpu.pci_id for gpu in initial.gpus if gpu.pci_id in found)


def is_choice_certain(resolved: ResolvedVm, initial: HostState, fit: Fit) -> bool:
    """Whether the VM can only get the GPUs that were planned.

    If its vGPUs could also be together on one GPU, or more devices than requested could be assigned by
    Dynamic DirectPath I/O, it can get others.
    """
    choosable = resolved.choosable
    is_whole = all(need.max_per_gpu == 1 for need in fit.variant) and len(choosable) == len(fit.gpus)
    return (len(choosable) <= 1 or is_whole) and len(assignable_nodes(resolved, initial)) <= 1


def assignable_nodes(resolved: ResolvedVm, initial: HostState) -> set[int | None]:
    """Name the NUMA nodes of the devices that Dynamic DirectPath I/O could assign to the VM.

    Empty where it asks for none, or for all of them.
    """
    needs = resolved.shape.dynamic if resolved.shape else ()
    chosen = resolved.fit.slots if resolved.fit else ()
    ids = {need: allowed_ids(initial.slots, need, chosen) for need in needs}
    fitting = [
        slot
        for slot in initial.slots
        if slot.pci.passthrough_active
        and slot.pci.pci_id not in initial.holders
        and any(is_match(slot, need) and ids_of(slot) in ids[need] for need in needs)
    ]
    return {slot.pci.numa_node for slot in fitting} if len(fitting) > len(needs) else set()


def numa_pin(resolved: ResolvedVm, initial: HostState, fit: Fit, nodes: Sequence[int]) -> NumaPin | None:
    """Return the pin for a power-on, None where no choice of GPU could call for another affinity."""
    if resolved.desired.numa.policy is not NumaPolicy.FOLLOW_GPU or not fit.variant or not fit.nodes:
        return None
    node_by_gpu = {gpu.pci_id: gpu.node for gpu in initial.gpus}
    possible = {node_by_gpu[pci_id] for pci_id in resolved.choosable}
    is_certain = len(possible) == 1 or is_choice_certain(resolved, initial, fit)
    if (is_certain and possible == set(nodes)) or is_covering(nodes, possible):
        return None
    boards = {need.board_key for need in fit.variant}
    known = {gpu.pci_id: gpu.node for gpu in initial.gpus if gpu.node is not None and gpu.board_key in boards}
    return NumaPin(node_by_pci_id=known, nodes=tuple(nodes))


def is_covering(nodes: Sequence[int], possible: set[int | None]) -> bool:
    """Whether an affinity to several nodes holds, whichever GPUs of these nodes a VM is given.

    An affinity is made narrower only where it names a single node: a VM that has GPUs on both nodes of
    its host, or is wider than one, is right from the first start.
    """
    return len(nodes) > 1 and possible <= set(nodes)


def wanted_affinity(
    resolved: ResolvedVm, fit: Fit | None, initial: HostState | None
) -> tuple[int, ...] | None:
    """Return the nodes of the VM's wanted affinity, () for none, None to leave it unchanged.

    A running VM follows the GPUs that it holds. One that is off keeps an affinity that may yet come true: its
    GPU is chosen at the next power-on.
    """
    if resolved.desired.numa.policy is NumaPolicy.OFF:
        return ()
    current = nodes_of_affinity(resolved.base.extra_config.get(AFFINITY_KEY, ""))
    if fit is None:
        return held_nodes(resolved) if resolved.existing is not None else None
    if resolved.existing is None or initial is None or not current:
        return fit.nodes
    follows = resolved.desired.numa.policy is NumaPolicy.FOLLOW_GPU
    node_by_gpu = {gpu.pci_id: gpu.node for gpu in initial.gpus}
    possible = {node_by_gpu[pci_id] for pci_id in resolved.choosable}
    is_single = len(fit.nodes) == len(current) == 1
    if is_single and (current[0] in possible if follows else not resolved.desired.numa.nodes):
        return current
    return fit.nodes


def held_nodes(resolved: ResolvedVm) -> tuple[int, ...] | None:
    """Return the nodes of the GPUs that a running VM holds, None if unknown."""
    if resolved.existing is None or resolved.host is None:
        return None
    if resolved.desired.numa.policy is NumaPolicy.NODE:
        return resolved.desired.numa.nodes or None
    held = held_gpus(resolved.existing.moid, resolved)
    nodes = {gpu_node for _, gpu_node in held}
    if not held or None in nodes:
        return None
    return tuple(sorted(node for node in nodes if node is not None))


def follows_held_gpus(resolved: ResolvedVm) -> bool:
    """Whether the affinity of a VM is one that this tool gives for the GPUs that it has.

    The GPUs of one that is off are unknown: any nodes with GPUs will do then. A VM that is wider than a node
    may be on more of them.
    """
    found = set(nodes_of_affinity(resolved.base.extra_config.get(AFFINITY_KEY, "")))
    vm, host = resolved.existing, resolved.host
    if not found or vm is None or host is None:
        return False
    held = {node for _, node in held_gpus(vm.moid, resolved)}
    if any(resolved.base.cpus > node.cores for node in host.numa_nodes):
        return found >= held - {None}
    devices = (device.numa_node for device in host.pci_devices if device.is_gpu)
    return found <= (held or {*(gpu.numa_node for gpu in host.gpus), *devices})


def held_gpus(moid: str, resolved: ResolvedVm) -> list[tuple[str, int | None]]:
    """List the GPUs that a running VM holds with their nodes, from its host."""
    return [] if resolved.host is None else gpus_on(resolved.host, moid, resolved.base)


def gpus_on(host: Host, moid: str, detail: VmDetail) -> list[tuple[str, int | None]]:
    """List the GPUs of a host that a VM holds, or that are its own by their address, with their nodes."""
    held = [(gpu.pci_id, gpu.numa_node) for gpu in host.gpus if moid in gpu.vm_moids]
    given = {device.pci_id or device.assigned_id for device in detail.passthrough_gpus}
    held += [(device.pci_id, device.numa_node) for device in host.pci_devices if device.pci_id in given]
    return list(dict.fromkeys(held))
