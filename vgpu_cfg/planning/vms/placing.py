"""Turn a resolved VM and its place into the wanted VM: its devices one by one, and its guest's view of NUMA.

The view of NUMA is the split of the guest's CPUs into virtual nodes, and the node of each device. From
hardware version 20 and API 8.0.0.1 on both can be stated (vSphere API, VirtualNuma and
VirtualDevice.numaNode). They inform the guest; the VM's placement follows `numa.nodeAffinity`. That ESXi puts
the first virtual node on the first node of the affinity is not proven.

Belief: virtual-nodes-follow-affinity.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from vgpu_cfg.catalog import Board
from vgpu_cfg.changes.kinds.vm_spec import NewDynamicPassthrough, NewPassthrough, NewVgpu
from vgpu_cfg.model.desired import ScratchSource
from vgpu_cfg.model.observed.inventory import Cluster, VCenter
from vgpu_cfg.model.observed.own_items import TagCategory
from vgpu_cfg.model.observed.vm import PassthroughDevice, VgpuDevice
from vgpu_cfg.model.plan_file import DeviceEntry, GpuEntry
from vgpu_cfg.model.plan_values import NumaPolicy
from vgpu_cfg.model.wording import counted, whole_gib
from vgpu_cfg.planning.capacity.hardware import NodeState, can_shape_nodes
from vgpu_cfg.planning.capacity.host_capacity import allowed_ids
from vgpu_cfg.planning.capacity.pci_tree import mmio_size_gb
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.vms.devices import fixed_device, plan_functions
from vgpu_cfg.planning.vms.lookup.affinity import follows_held_gpus, wanted_affinity
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.lookup.wanted import (
    DeviceNames,
    PlannedFunction,
    WantedGpu,
    WantedNic,
    functions_of,
    group_key,
    held_groups,
    is_wanted_device,
    vgpu_part,
    with_groups,
)

LEFT_TO_ESXI = 0
"""As cores per node: ESXi shapes the virtual nodes itself."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """The surroundings of a VM: its cluster, and its host before and after all VMs were placed."""

    plan: str
    vcenter: VCenter
    names: DeviceNames
    cluster: Cluster | None = None
    initial: HostState | None = None
    final: HostState | None = None
    tag_categories: tuple[TagCategory, ...] | None = None


def place_vm(
    resolved: ResolvedVm,
    surroundings: Surroundings,
    hardware_version: int | None,
    functions: tuple[PlannedFunction, ...],
    addresses: str | None,
) -> PlacedVm:
    """Fill in the wanted settings of a VM.

    `hardware_version` is its future one, `functions` are those of its NICs, `addresses` is the record of its
    NICs on it.
    """
    initial, final, names = surroundings.initial, surroundings.final, surroundings.names
    vm = resolved.desired
    peers = dict(resolved.fit.groups) if resolved.fit else held_groups(resolved.asked_gpus, resolved.own)
    groups = peers | resolved.new_groups
    affinity = wanted_affinity(resolved, resolved.fit, initial)
    gpus = tuple(_gpus(resolved, final, names, groups))
    shapes_nodes = can_shape_nodes(surroundings.vcenter.api_version, hardware_version)
    if shapes_nodes:
        gpus = with_virtual_nodes(resolved, gpus, affinity, initial)
        functions = functions_with_virtual_nodes(resolved, functions, affinity, initial)
    is_sized_anew = resolved.existing is None or vm.cpus not in (None, resolved.base.cpus)
    return PlacedVm(
        resolved=resolved,
        plan=surroundings.plan,
        cluster=surroundings.cluster,
        hardware_version=hardware_version,
        gpus=gpus,
        gpu_notes=tuple(
            _gpu_note(gpu, resolved, in_group=group_key(place) in groups or gpu.nvlink in groups)
            for place, gpu in enumerate(resolved.asked_gpus)
        ),
        device_groups=groups,
        mmio_gb=mmio_size_gb(_boards(resolved, final)),
        nics=_vmxnet3(resolved),
        functions=functions,
        inherited_disks=_inherited_disks(resolved),
        disks=resolved.disks,
        affinity=affinity,
        affinity_note=_node_note(affinity, final),
        nodes=max(1, len(affinity or ())) if is_sized_anew else 1,
        cores_per_numa_node=cores_per_node(resolved, affinity) if shapes_nodes else None,
        addresses=addresses,
        key_providers=surroundings.vcenter.key_providers,
        tag_categories=surroundings.tag_categories,
        held_mmio_gb=mmio_size_gb(resolved.held_boards) if resolved.sheds_gpus else None,
        follows_held_gpus=follows_held_gpus(resolved),
    )


def _gpus(
    resolved: ResolvedVm, host: HostState | None, names: DeviceNames, groups: Mapping[int, str]
) -> Iterator[WantedGpu]:
    """Yield the GPU devices in the plan file's order; present ones that may stay are unchanged.

    Peers are members of a device group if there is one for them.
    """
    left = list(resolved.own.passthrough_gpus) if resolved.existing is not None else []
    chosen = iter(resolved.fit.variant if resolved.fit else ())
    members: Counter[int] = Counter()
    for place, gpu in enumerate(resolved.asked_gpus):
        match gpu.kind:
            case "vgpu":
                need = next(chosen, None)
                if need is None and not gpu.profile:
                    continue
                name = need.name if need else gpu.profile[0].name
                if (key := group_key(place)) in groups:
                    part = vgpu_part(groups[key], host.host if host is not None else resolved.host)
                    yield NewVgpu(profile=name, uvm=gpu.uvm, group=key, sequence=part)
                    continue
                if gpu.nvlink is None or gpu.nvlink not in groups:
                    yield _plain_vgpu(name, uvm=gpu.uvm)
                    continue
                yield NewVgpu(profile=name, uvm=gpu.uvm, group=gpu.nvlink, sequence=members[gpu.nvlink])
                members[gpu.nvlink] += 1
            case "passthrough":
                yield _fixed(gpu.pin or "", host)
            case "dynamic_passthrough":
                own = next((device for device in left if is_wanted_device(gpu, device, names)), None)
                if own is not None:
                    left.remove(own)
                yield _dynamic(gpu.device, own, host, resolved.fit)


@lru_cache(maxsize=256)
def _plain_vgpu(profile: str, *, uvm: bool) -> NewVgpu:
    return NewVgpu(profile=profile, uvm=uvm)


def _fixed(pci_id: str, host: HostState | None) -> NewPassthrough:
    slot = next((one for one in host.slots if one.pci.pci_id == pci_id), None) if host else None
    return fixed_device(pci_id, slot.pci if slot else None, host.host if host else None)


def _vmxnet3(resolved: ResolvedVm) -> tuple[WantedNic, ...] | None:
    return (
        None if resolved.nics is None else tuple(nic for nic in resolved.nics if isinstance(nic, WantedNic))
    )


def wanted_functions(resolved: ResolvedVm, host: HostState | None) -> tuple[PlannedFunction, ...]:
    """Return the functions of a VM's NICs, in the plan file's order; `host` is its host after placement."""
    chosen: tuple[str, ...] = (
        resolved.fit.nics if resolved.fit is not None and resolved.nics is not None else ()
    )
    there = host.host if host is not None else resolved.host
    wanted = functions_of(resolved.nics or ())
    planned = plan_functions(wanted, resolved.kept_devices, there, chosen)
    return with_groups(planned, wanted, resolved.new_groups, there)


def _dynamic(
    need: DeviceEntry, own: PassthroughDevice | None, host: HostState | None, fit: Fit | None
) -> NewDynamicPassthrough:
    """Request the VM's present device, else any function with the ids of those that it is to get."""
    if own is not None:
        return NewDynamicPassthrough(allowed=own.allowed, sub_ids=own.sub_ids, label=own.label)
    if need.device_id is not None:
        return NewDynamicPassthrough(allowed=(need.device_id,), label=need.label)
    ids = allowed_ids(host.slots if host else (), need, fit.slots if fit else ())
    return NewDynamicPassthrough(allowed=tuple(sorted(ids)), label=need.label)


def _boards(resolved: ResolvedVm, host: HostState | None) -> Iterator[Board | None]:
    """Yield the board of each GPU device, as far as the placement shows."""
    if resolved.sheds_gpus:
        return
    if resolved.fit is None or host is None:
        yield from resolved.held_boards
        return
    for index in resolved.fit.gpus:
        yield host.gpus[index].board
    by_address = {slot.pci.pci_id: slot for slot in host.slots}
    for pci_id in resolved.fit.slots:
        yield by_address[pci_id].board


def _inherited_disks(resolved: ResolvedVm) -> frozenset[int]:
    """Return the keys of the disks that came with the template, the first one where that has gone."""
    if resolved.template is not None and resolved.template.detail is not None:
        return frozenset(disk.key for disk in resolved.template.detail.disks)
    if isinstance(resolved.desired.source, ScratchSource):
        return frozenset()
    return frozenset(sorted(disk.key for disk in resolved.base.disks)[:1])


def _gpu_note(gpu: GpuEntry, resolved: ResolvedVm, *, in_group: bool) -> str:
    fit, choosable = resolved.fit, resolved.choosable
    if gpu.kind != "vgpu" or fit is None:
        return ""
    if len(choosable) == len(set(fit.gpus)):
        return f"on {', '.join(choosable)}"
    if in_group:
        return f"{counted(len(choosable), 'GPU')} available; ESXi selects the group"
    return f"on one of {counted(len(choosable), 'GPU')}, selected by ESXi"


def _node_note(nodes: tuple[int, ...] | None, host: HostState | None) -> str:
    if not nodes or host is None:
        return ""
    states: list[NodeState] = [state for state in host.nodes if state.node_id in nodes]
    cores = sum(max(0, state.free_cores) for state in states)
    left = whole_gib(sum(state.free_mib for state in states))
    return f"remaining: {counted(cores, 'core')}, {left}"


def cores_per_node(resolved: ResolvedVm, affinity: Sequence[int] | None) -> int | None:
    """Return the number of CPUs for each virtual node, None to leave it unchanged.

    A VM that is tied to one node is one node, one over several is split evenly or not at all. An existing one
    with unknown nodes is left alone.
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
    """Set each GPU's virtual node, if it can be only one and there are several.

    The virtual nodes correspond to those of the affinity, in their order.
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
