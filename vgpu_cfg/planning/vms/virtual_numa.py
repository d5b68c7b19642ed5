"""What the guest is shown of NUMA: how its CPUs are split into virtual nodes, and on which each device is.

From hardware version 20 and API 8.0.0.1 on both can be stated (vSphere API, VirtualNuma and
VirtualDevice.numaNode). They tell the guest; what places the VM is `numa.nodeAffinity`. That ESXi puts the
first virtual node on the first node of the affinity is not proven.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from vgpu_cfg.model.observed.vm import PassthroughDevice, VgpuDevice
from vgpu_cfg.model.plan_values import NumaPolicy
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.lookup.wanted import PlannedFunction, WantedGpu

LEFT_TO_ESXI = 0
"""As cores per node: ESXi shapes the virtual nodes itself."""


def cores_per_node(resolved: ResolvedVm, affinity: Sequence[int] | None) -> int | None:
    """Return how many CPUs each virtual node shall have, None where that stays as it is.

    A VM that is tied to one node is one node, one over several is split evenly or not at all. One that
    exists and whose nodes nobody tells is left alone.
    """
    if resolved.existing is not None and resolved.base.cores_per_numa_node is None:
        return None
    if resolved.desired.numa.policy is NumaPolicy.OFF:
        return LEFT_TO_ESXI
    if not affinity or not resolved.cpus or resolved.cpus % len(affinity):
        return None
    return resolved.cpus // len(affinity)


def with_virtual_nodes(
    resolved: ResolvedVm, gpus: Sequence[WantedGpu], affinity: Sequence[int] | None, initial: HostState | None
) -> tuple[WantedGpu, ...]:
    """Say of each GPU on which virtual node it is, where it can be only one and there are several.

    The virtual nodes stand for those of the affinity, in their order.
    """
    made: list[WantedGpu] = []
    for gpu in gpus:
        at = _virtual_node(gpu.made(0), resolved, affinity, initial)
        made.append(gpu if at is None else gpu.model_copy(update={"numa_node": at}))
    return tuple(made)


def functions_with_virtual_nodes(
    resolved: ResolvedVm,
    plans: Sequence[PlannedFunction],
    affinity: Sequence[int] | None,
    initial: HostState | None,
) -> tuple[PlannedFunction, ...]:
    """Say the same of new NICs that are passed through; nothing of virtual functions, as of vmxnet3."""
    made: list[PlannedFunction] = []
    for plan in plans:
        device = plan.device
        function = device.made(0) if device is not None else None
        at = _virtual_node(function, resolved, affinity, initial) if function is not None else None
        if device is not None and at is not None:
            device = device.model_copy(update={"numa_node": at})
        made.append(replace(plan, device=device))
    return tuple(made)


def _virtual_node(
    device: VgpuDevice | PassthroughDevice,
    resolved: ResolvedVm,
    affinity: Sequence[int] | None,
    initial: HostState | None,
) -> int | None:
    nodes = sorted(affinity or ())
    if len(nodes) < 2 or resolved.cpus % len(nodes) or initial is None or resolved.fit is None:
        return None
    possible = _nodes_of(device, resolved, initial)
    only = next(iter(possible)) if len(possible) == 1 else None
    return nodes.index(only) if only in nodes else None


def _nodes_of(
    device: VgpuDevice | PassthroughDevice, resolved: ResolvedVm, initial: HostState
) -> set[int | None]:
    """Return the NUMA nodes on which a device can turn out to be."""
    if isinstance(device, VgpuDevice):
        return {one.node for one in initial.gpus if one.pci_id in resolved.choosable}
    if device.is_fixed:
        return {slot.pci.numa_node for slot in initial.slots if slot.pci.pci_id == device.pci_id}
    return {
        slot.pci.numa_node
        for slot in initial.slots
        if slot.pci.passthrough_active
        and (slot.pci.vendor_id, slot.pci.device_id) in device.allowed
        and (not device.label or slot.pci.hardware_label == device.label)
    }
