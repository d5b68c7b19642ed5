"""What a host has and what VMs take of it: GPUs, whole devices, memory, NUMA nodes, NIC functions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Self

from vgpu_cfg.model.inventory import Host
from vgpu_cfg.model.plan_file import DeviceEntry
from vgpu_cfg.model.plan_words import NumaPolicy, Spread
from vgpu_cfg.planning.capacity import HostCapacity, PassthroughSlot
from vgpu_cfg.planning.checks import Code
from vgpu_cfg.planning.demand import Demand, Shape, Variant
from vgpu_cfg.planning.gpu_state import GpuState
from vgpu_cfg.planning.hardware import highest_version, vgpu_limit
from vgpu_cfg.planning.nic_functions import FunctionPool
from vgpu_cfg.planning.nic_needs import NicKind, NicStock, refuse_nics
from vgpu_cfg.planning.numa import NodeState, promise_nodes
from vgpu_cfg.planning.peer_groups import group_of, has_group_api
from vgpu_cfg.planning.vgpu_need import VgpuNeed
from vgpu_cfg.planning.words import is_at_least, version_tuple

HOST_MEMORY_SHARE = 0.95
"""The part of a host's memory that VMs can reserve; what ESXi itself needs is recalled, not looked up."""
_FULL_SERIES = ("C", "Q")


@dataclass(frozen=True, slots=True)
class Fit:
    """A way to put a VM on a host. `gpus` are indexes, one per vGPU, `slots` PCI addresses.

    `groups` names the device group for each number of NVLink peers, where the host has such groups.
    `nics` are the PCI addresses of the functions that the VM's NICs get, `far_nics` counts those of
    another NUMA node than the GPUs'.
    `numa_level` is 0 where the nodes have room, 1 where they are promised to others,
    2 where they are too small. `opened` counts GPUs that were idle before, `lost_starts` those that
    could start a 4g instance before, `lost_sets` the sets of NVLink peers that were all idle before.
    """

    host: int
    variant: Variant = ()
    gpus: tuple[int, ...] = ()
    slots: tuple[str, ...] = ()
    groups: tuple[tuple[int, str], ...] = ()
    nics: tuple[str, ...] = ()
    nodes: tuple[int, ...] = ()
    numa_level: int = 0
    far_nics: int = 0
    opened: int = 0
    lost_starts: int = 0
    lost_sets: int = 0


@dataclass(slots=True)
class HostLoad:
    """What one host has and holds, and why it refuses. Mutable, and cheap to copy.

    `creatable` is vCenter's own word on which profiles can be created now, None where it does
    not say or the plan frees GPUs first. `peer_sets` are the sets of GPUs that can be NVLink peers.
    `residents` counts the VMs of a line that are here, `planned` the sizes of vGPUs that the plan adds.
    `functions` are NICs with virtual functions, of which the plan gives out as many as `given` says,
    `uplinks` the NICs that switches use, with the switches.
    `node_lines` names the lines that have a VM on a NUMA node. `cost` is what it takes to prepare the host
    like this (0: it is so), `coming` counts the VMs that the plan puts here.
    """

    index: int
    host: Host
    gpus: list[GpuState]
    slots: list[PassthroughSlot]
    nodes: list[NodeState]
    free_mib: int
    offered: frozenset[str] = frozenset()
    creatable: frozenset[str] | None = None
    peer_sets: tuple[frozenset[int], ...] = ()
    holders: dict[str, str] = field(default_factory=dict)
    residents: dict[str, int] = field(default_factory=dict)
    planned: set[tuple[str, int, int]] = field(default_factory=set)
    functions: list[FunctionPool] = field(default_factory=list)
    given: dict[str, int] = field(default_factory=dict)
    uplinks: dict[str, str] = field(default_factory=dict)
    node_lines: dict[int, frozenset[str]] = field(default_factory=dict)
    cost: int = 0
    coming: int = 0

    @classmethod
    def of(
        cls,
        index: int,
        capacity: HostCapacity,
        *,
        frees_gpus: bool = False,
        memory_share: float = HOST_MEMORY_SHARE,
        heeds_creatable: bool = True,
    ) -> Self:
        """Start from what a host has now; memory and nodes as if nothing ran there."""
        host = capacity.host
        is_told = host.profiles is not None
        return cls(
            index=index,
            host=host,
            gpus=capacity.gpus,
            slots=capacity.slots,
            nodes=[NodeState.of(node) for node in host.numa_nodes],
            free_mib=int(host.memory_mib * memory_share),
            offered=capacity.offered,
            creatable=frozenset(host.creatable_profiles)
            if heeds_creatable and is_told and not frees_gpus
            else None,
            peer_sets=capacity.peer_sets,
            holders={slot.pci.pci_id: slot.holder for slot in capacity.slots if slot.holder},
            functions=capacity.functions,
            uplinks=capacity.uplinks,
        )

    def copy(self) -> Self:
        """Return a twin that can be changed by itself."""
        return type(self)(
            self.index,
            self.host,
            [gpu.copy() for gpu in self.gpus],
            self.slots,
            [node.copy() for node in self.nodes],
            self.free_mib,
            self.offered,
            self.creatable,
            self.peer_sets,
            dict(self.holders),
            dict(self.residents),
            set(self.planned),
            self.functions,
            dict(self.given),
            self.uplinks,
            dict(self.node_lines),
            self.cost,
            self.coming,
        )

    def release(self, demand: Demand, fit: Fit) -> None:
        """Take a VM away again that `commit` put here; the sizes in `planned` stay."""
        for index in set(fit.gpus):
            gpu = self.gpus[index]
            gpu.held = [held for held in gpu.held if held.vm != demand.vm]
        self.holders = {pci_id: vm for pci_id, vm in self.holders.items() if vm != demand.vm}
        for need, pci_id in zip(demand.shape.nics, fit.nics, strict=True):
            if need.kind is not NicKind.PASSTHROUGH:
                self.given[pci_id] -= 1
        self.promise(-demand.shape.cpus, -demand.shape.memory_mib, fit.nodes)
        self.residents[demand.line] -= 1
        self.coming -= 1
        for node in fit.nodes if demand.line and not self.residents[demand.line] else ():
            self.node_lines[node] = self.node_lines.get(node, frozenset()) - {demand.line}

    @property
    def is_in_use(self) -> bool:
        """Whether a VM with a GPU of any kind is here."""
        passed = (slot for slot in self.slots if not slot.is_nic)
        return any(gpu.held for gpu in self.gpus) or any(slot.pci.pci_id in self.holders for slot in passed)

    @property
    def threads(self) -> int:
        """The host's logical CPUs; without a known number, as many as anybody asks for."""
        cores = self.host.cores
        return cores * (2 if self.host.hyperthreading else 1) if cores else 1_000_000

    def promise(self, cpus: int, memory_mib: int, nodes: Iterable[int]) -> None:
        """Take memory, and cores and memory of the nodes evenly."""
        self.free_mib -= memory_mib
        promise_nodes(self.nodes, nodes, cpus, memory_mib)

    def commit(self, demand: Demand, fit: Fit) -> None:
        """Put a VM here."""
        for need, index in zip(fit.variant, fit.gpus, strict=True):
            self.gpus[index].take(need, demand.vm, line=demand.line)
        self.settle(demand, fit)

    def settle(self, demand: Demand, fit: Fit) -> None:
        """Note what a VM takes of the host beside its vGPUs, which stand on their GPUs already."""
        self.planned |= {_size(need) for need in fit.variant}
        for pci_id in fit.slots:
            self.holders[pci_id] = demand.vm
        for need, pci_id in zip(demand.shape.nics, fit.nics, strict=True):
            if need.kind is NicKind.PASSTHROUGH:
                self.holders[pci_id] = demand.vm
            else:
                self.given[pci_id] = self.given.get(pci_id, 0) + 1
        for node in fit.nodes if demand.line else ():
            self.node_lines[node] = self.node_lines.get(node, frozenset()) | {demand.line}
        self.promise(demand.shape.cpus, demand.shape.memory_mib, fit.nodes)
        self.residents[demand.line] = self.residents.get(demand.line, 0) + 1
        self.coming += 1

    @property
    def cost_of_next(self) -> int:
        """What one more VM here costs: the first all of it, the others still more than on a host as it is."""
        return min(1, self.cost) if self.coming else self.cost

    def mixes(self, variant: Variant) -> bool:
        """Whether the plan puts vGPUs of another size on this board here already.

        ESXi may spread what starts first over all GPUs, and leave none for the other size.
        """
        sizes = {_size(need) for need in variant}
        boards = {board_key for board_key, *_ in sizes}
        return any(size not in sizes and size[0] in boards for size in self.planned)

    def refuse_host(self, shape: Shape) -> Code | None:
        """Say why the host itself cannot take such a VM, GPUs aside."""
        if shape.cpus > self.threads:
            return Code.HOST_CPUS
        if shape.memory_mib > self.free_mib:
            return Code.HOST_MEMORY
        known = {node.node_id for node in self.nodes}
        if shape.numa is NumaPolicy.NODE and not known.issuperset(shape.numa_nodes):
            return Code.NUMA_NODE_ABSENT
        if shape.spread is Spread.HOSTS and shape.must and self.residents.get(shape.line):
            return Code.SPREAD_IMPOSSIBLE
        is_apart = shape.spread is Spread.NUMA and shape.must and bool(self.nodes)
        if is_apart and all(self.is_on_node(shape.line, node.node_id) for node in self.nodes):
            return Code.SPREAD_IMPOSSIBLE
        return None

    def is_on_node(self, line: str, node: int) -> bool:
        """Whether a VM of a line is tied to a NUMA node here."""
        return line in self.node_lines.get(node, ())

    @property
    def stock(self) -> NicStock:
        """What the host's NICs can still give."""
        return NicStock(self.host, self.slots, self.functions, self.holders, self.given, self.uplinks)

    def gpu_nodes(self, gpus: Iterable[int], slots: Iterable[str]) -> list[int | None]:
        """Return the NUMA nodes of GPUs by index, and of passed-through ones by address."""
        nodes = {slot.pci.pci_id: slot.pci.numa_node for slot in self.slots}
        return [*(self.gpus[index].node for index in gpus), *(nodes.get(pci_id) for pci_id in slots)]

    def refuse_nics(self, shape: Shape) -> Code | None:
        """Say why the host cannot give the functions that a VM's NICs need."""
        return refuse_nics(shape.nics, self.stock) if shape.nics else None

    def refuse_variant(self, variant: Variant) -> Code | None:
        """Say why a host of this release or driver cannot give these vGPUs, whatever is free."""
        for need in variant:
            if self.host.profiles is not None and need.name not in self.offered:
                if need.min_esxi and not is_at_least(self.host.version, version_tuple(need.min_esxi)):
                    return Code.PROFILE_NEEDS_NEWER_ESXI
                return Code.PROFILE_NOT_OFFERED
        is_limited = len(variant) > 1 and not is_at_least(self.host.version, (8,))
        if is_limited and not all(need.is_full and need.series in _FULL_SERIES for need in variant):
            return Code.MULTI_VGPU_NEEDS_FULL
        if len(variant) > vgpu_limit(self.host, highest_version(self.host)):
            return Code.TOO_MANY_VGPUS
        if self.groups_of(variant) is None:
            return Code.NVLINK_GROUP_ABSENT
        return None

    def groups_of(self, variant: Variant) -> tuple[tuple[int, str], ...] | None:
        """Name the device groups for the NVLink peers of a VM, None where the host lacks one.

        Empty where there are no peers, or no device groups before vSphere 8.
        """
        found: dict[int, str] = {}
        for number in dict.fromkeys(need.peers for need in variant if need.peers is not None):
            if not has_group_api(self.host):
                return ()
            members = [need for need in variant if need.peers == number]
            group = group_of(self.host, members[0].name, len(members))
            if group is None or len(set(members)) > 1:
                return None
            found[number] = group.name
        return tuple(found.items())

    def free_sets(self, need: VgpuNeed, size: int, gpus: Sequence[GpuState]) -> list[frozenset[int]]:
        """List the idle sets of so many NVLink peers, first those that break the fewest other sets."""
        idle = {index for index, gpu in enumerate(gpus) if gpu.is_idle and gpu.refuse(need) is None}
        whole = [one for one in self.peer_sets if one <= idle]
        free = [one for one in whole if len(one) == size]
        return sorted(free, key=lambda one: (sum(not one.isdisjoint(other) for other in whole), sorted(one)))

    def may_create(self, variant: Variant) -> bool:
        """Whether vCenter does not say that one of these vGPUs cannot be created now."""
        return all(self._is_creatable(need) for need in variant)

    def _is_creatable(self, need: VgpuNeed) -> bool:
        return self.creatable is None or need.name not in self.offered or need.name in self.creatable

    def free_slots(self) -> list[PassthroughSlot]:
        """List the functions that could be passed through now."""
        return [slot for slot in self.slots if self._refuse_slot(slot) is None]

    def suits(self, slot: PassthroughSlot, need: DeviceEntry) -> bool:
        """Whether a function is what a request means."""
        return is_match(slot, need)

    def refuse_need(self, need: VgpuNeed, shape: Shape) -> Iterator[tuple[GpuState, Code | None]]:
        """Say of each GPU why it does not take a vGPU, None where it does."""
        for gpu in self.gpus:
            yield gpu, self.refuse_gpu(gpu, need, shape)

    def refuse_slots(self, shape: Shape) -> Code | None:
        """Say why the devices to pass through cannot be had here."""
        by_address = {slot.pci.pci_id: slot for slot in self.slots}
        for pci_id in shape.fixed:
            slot = by_address.get(pci_id)
            if slot is None or slot.is_nic:
                return Code.PASSTHROUGH_ABSENT
            if (code := self._refuse_slot(slot)) is not None:
                return code
        for need in shape.dynamic:
            known = [slot for slot in self.slots if is_match(slot, need)]
            if not known:
                return Code.LABEL_UNKNOWN
            left = [slot for slot in known if slot.pci.pci_id not in shape.fixed]
            if not any(self._refuse_slot(slot) is None for slot in left):
                codes = [self._refuse_slot(slot) or Code.PASSTHROUGH_TAKEN for slot in known]
                return Code.PASSTHROUGH_TAKEN if Code.PASSTHROUGH_TAKEN in codes else codes[0]
        left = [slot for slot in self.free_slots() if slot.pci.pci_id not in shape.fixed]
        return Code.PASSTHROUGH_TAKEN if match_slots(left, shape.dynamic) is None else None

    def _refuse_slot(self, slot: PassthroughSlot) -> Code | None:
        if not slot.pci.passthrough_active:
            return Code.PASSTHROUGH_SERVES_VGPUS if slot.has_vgpus else Code.PASSTHROUGH_NOT_ACTIVE
        return Code.PASSTHROUGH_TAKEN if slot.pci.pci_id in self.holders else None

    def slot_choices(self, shape: Shape) -> list[tuple[str, ...]]:
        """List choices of the GPUs to pass through, of one NUMA node if possible; empty where none do.

        The first begins with the first GPU that suits, the others with each NUMA node.
        """
        if self.refuse_slots(shape) is not None:
            return []
        nodes = {slot.pci.numa_node for slot in self.slots} if shape.dynamic and shape.nics else ()
        starts = [None, *sorted(node for node in nodes if node is not None)]
        return list(dict.fromkeys(self._choose_slots(shape, start) for start in starts))

    def _choose_slots(self, shape: Shape, start: int | None) -> tuple[str, ...]:
        chosen = list(shape.fixed)
        left = [slot for slot in self.free_slots() if slot.pci.pci_id not in chosen]
        for place, need in enumerate(shape.dynamic):
            nodes = {slot.pci.numa_node for slot in self.slots if slot.pci.pci_id in chosen} or {start}
            for slot in sorted(left, key=lambda one: one.pci.numa_node not in nodes):
                others = [one for one in left if one is not slot]
                if is_match(slot, need) and match_slots(others, shape.dynamic[place + 1 :]) is not None:
                    chosen.append(slot.pci.pci_id)
                    left = others
                    break
        return tuple(chosen)

    def refuse_gpu(self, gpu: GpuState, need: VgpuNeed, shape: Shape) -> Code | None:
        """Say why one GPU does not take a vGPU of such a VM."""
        code = gpu.refuse(need)
        if code is not None:
            return code
        if not self._is_creatable(need):
            return Code.NOT_CREATABLE_NOW
        if shape.spread is Spread.GPUS and shape.must and any(held.line == shape.line for held in gpu.held):
            return Code.SPREAD_IMPOSSIBLE
        return None


def _size(need: VgpuNeed) -> tuple[str, int, int]:
    return (need.board_key, need.framebuffer_mib, need.mig_size)


def match_slots(free: Sequence[PassthroughSlot], needs: Sequence[DeviceEntry]) -> tuple[str, ...] | None:
    """Give every Dynamic DirectPath request a function of its own (augmenting paths), None where none can."""
    taken: dict[str, int] = {}

    def settle(number: int, tried: set[str]) -> bool:
        for slot in free:
            address = slot.pci.pci_id
            if address not in tried and is_match(slot, needs[number]):
                tried.add(address)
                if address not in taken or settle(taken[address], tried):
                    taken[address] = number
                    return True
        return False

    if not all(settle(number, set()) for number in range(len(needs))):
        return None
    by_number = {number: address for address, number in taken.items()}
    return tuple(by_number[number] for number in range(len(needs)))


def is_match(slot: PassthroughSlot, need: DeviceEntry) -> bool:
    """Whether a device is what a Dynamic DirectPath request for a GPU means."""
    pci = slot.pci
    if slot.is_nic:
        return False
    if need.label is not None and pci.hardware_label != need.label:
        return False
    if need.device_id is not None and (pci.vendor_id, pci.device_id) != need.device_id:
        return False
    if need.model is not None:
        names = (pci.device_name, *(slot.board.names if slot.board else ()))
        return any(need.model.casefold() in name.casefold() for name in names)
    return True
