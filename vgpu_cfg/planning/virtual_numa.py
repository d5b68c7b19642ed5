"""What the guest is shown of NUMA: how its CPUs are split into virtual nodes, and on which each device is.

From hardware version 20 and API 8.0.0.1 on both can be stated (vSphere API, VirtualNuma and
VirtualDevice.numaNode). They tell the guest; what places the VM is `numa.nodeAffinity`. That ESXi puts the
first virtual node on the first node of the affinity is not proven.
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.model.desired import NumaPolicy
from vgpu_cfg.model.vm_spec import NewDynamicPassthrough, NewPassthrough
from vgpu_cfg.planning.affinity import choosable_gpus
from vgpu_cfg.planning.case import Case
from vgpu_cfg.planning.gpu_devices import WantedGpu
from vgpu_cfg.planning.host_state import HostState

LEFT_TO_ESXI = 0
"""As cores per node: ESXi shapes the virtual nodes itself."""


def cores_per_node(case: Case, affinity: Sequence[int] | None) -> int | None:
    """Return how many CPUs each virtual node shall have, None where that stays as it is.

    A VM that is tied to one node is one node, one over several is split evenly or not at all. One that
    exists and whose nodes nobody tells is left alone.
    """
    if case.existing is not None and case.base.cores_per_numa_node is None:
        return None
    if case.desired.numa.policy is NumaPolicy.OFF:
        return LEFT_TO_ESXI
    if not affinity or not case.cpus or case.cpus % len(affinity):
        return None
    return case.cpus // len(affinity)


def with_virtual_nodes(
    case: Case, gpus: Sequence[WantedGpu], affinity: Sequence[int] | None, initial: HostState | None
) -> tuple[WantedGpu, ...]:
    """Say of each device on which virtual node it is, where it can be only one and there are several.

    The virtual nodes stand for those of the affinity, in their order.
    """
    nodes = sorted(affinity or ())
    if len(nodes) < 2 or case.cpus % len(nodes) or initial is None or case.fit is None:
        return tuple(gpus)
    virtual = {node: index for index, node in enumerate(nodes)}
    made: list[WantedGpu] = []
    for gpu in gpus:
        possible = _nodes_of(gpu, case, initial)
        only = next(iter(possible)) if len(possible) == 1 else None
        at = virtual.get(only) if only is not None else None
        made.append(gpu if at is None else gpu.model_copy(update={"numa_node": at}))
    return tuple(made)


def _nodes_of(gpu: WantedGpu, case: Case, initial: HostState) -> set[int | None]:
    """Return the NUMA nodes on which a device can turn out to be."""
    match gpu:
        case NewPassthrough():
            return {slot.pci.numa_node for slot in initial.slots if slot.pci.pci_id == gpu.pci_id}
        case NewDynamicPassthrough():
            return {
                slot.pci.numa_node
                for slot in initial.slots
                if slot.pci.passthrough_active
                and (slot.pci.vendor_id, slot.pci.device_id) in gpu.allowed
                and (not gpu.label or slot.pci.hardware_label == gpu.label)
            }
        case _:
            choosable = choosable_gpus(initial, case.fit) if case.fit is not None else ()
            return {one.node for one in initial.gpus if one.pci_id in choosable}
