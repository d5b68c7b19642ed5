"""A host while VMs are put on it: its capacity, their use, its refusals, the fit of one more."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.plan_file import DeviceEntry
from vgpu_cfg.model.plan_values import NumaPolicy, Spread
from vgpu_cfg.model.wording import is_at_least, version_tuple
from vgpu_cfg.planning.capacity.gpu_state import GpuState, VgpuNeed
from vgpu_cfg.planning.capacity.hardware import (
    NodeState,
    choose_nodes,
    highest_version,
    numa_level,
    promise_nodes,
    vgpu_limit,
)
from vgpu_cfg.planning.capacity.host_capacity import (
    HostCapacity,
    PassthroughSlot,
    alike,
    is_match,
    match_slots,
    unlike,
)
from vgpu_cfg.planning.capacity.nic_needs import NicKind, NicStock, choose_nics, far_nics, refuse_nics
from vgpu_cfg.planning.capacity.topology import group_of, has_group_api
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.placement.demand import Demand, Shape, Variant

# Belief: memory-to-reserve.
HOST_MEMORY_SHARE = 0.95
"""The part of a host's memory that VMs can reserve; what ESXi itself needs is recalled, not looked up."""
_FULL_SERIES = ("C", "Q")
_MOST_CHOICES = 64


@dataclass(frozen=True, slots=True)
class Fit:
    """A way to put a VM on a host. `gpus` are indexes, one per vGPU, `slots` PCI addresses.

    `groups` names the device group for each number of NVLink peers, if the host has such groups. `nics` are
    the PCI addresses of the functions that the VM's NICs get, `far_nics` counts those of another NUMA node
    than the GPUs'. `numa_level` is 0 if the nodes have room, 1 if they are promised to others, 2 if they are
    too small. `unlike` counts the kinds of boards beyond one for each request. `opened` counts GPUs that were
    idle before, `lost_starts` those that could start a 4g instance before, `lost_sets` the sets of NVLink
    peers that were all idle before.
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
    unlike: int = 0
    opened: int = 0
    lost_starts: int = 0
    lost_sets: int = 0


@dataclass(slots=True)
class HostState:
    """A host with the VMs that are put on it, and why it refuses others. Mutable, and cheap to copy.

    capacity: the original reading, unchanged.
    gpus, nodes: those of the host, with their present load.
    free_mib: the memory that VMs can still reserve.
    creatable: the profiles that vCenter lets be created now; None if it does not report them, or if the plan
        frees GPUs first.
    holders: the VM that has a whole function, by address.
    given: the number of virtual functions that the plan gives out, by physical function.
    residents: the number of VMs of each line that are here.
    node_lines: the lines that have a VM there, by NUMA node.
    planned: the sizes of vGPUs that the plan adds.
    coming: the number of VMs that the plan puts here.
    cost: the price of preparing the host like this, 0 if already prepared.
    """

    index: int
    capacity: HostCapacity
    gpus: list[GpuState]
    nodes: list[NodeState]
    free_mib: int
    creatable: frozenset[str] | None = None
    holders: dict[str, str] = field(default_factory=dict)
    given: dict[str, int] = field(default_factory=dict)
    residents: dict[str, int] = field(default_factory=dict)
    node_lines: dict[int, frozenset[str]] = field(default_factory=dict)
    planned: set[tuple[str, int, int]] = field(default_factory=set)
    coming: int = 0
    cost: int = 0

    @classmethod
    def of(
        cls,
        index: int,
        capacity: HostCapacity,
        *,
        frees_gpus: bool = False,
        memory_share: float = HOST_MEMORY_SHARE,
        uses_creatable: bool = True,
    ) -> Self:
        """Start from a host's present state; memory and nodes as if nothing ran there."""
        host = capacity.host
        is_stated = host.profiles is not None
        return cls(
            index,
            capacity,
            capacity.gpus,
            [NodeState.of(node) for node in host.numa_nodes],
            int(host.memory_mib * memory_share),
            frozenset(host.creatable_profiles) if uses_creatable and is_stated and not frees_gpus else None,
            {slot.pci.pci_id: slot.holder for slot in capacity.slots if slot.holder},
        )

    @property
    def host(self) -> Host:
        """The host as it was read."""
        return self.capacity.host

    @property
    def slots(self) -> list[PassthroughSlot]:
        """The functions of the host that could be passed through."""
        return self.capacity.slots

    def copy(self) -> Self:
        """Return a twin that can be changed by itself."""
        return type(self)(
            self.index,
            self.capacity,
            [gpu.copy() for gpu in self.gpus],
            [node.copy() for node in self.nodes],
            self.free_mib,
            self.creatable,
            dict(self.holders),
            dict(self.given),
            dict(self.residents),
            dict(self.node_lines),
            set(self.planned),
            self.coming,
            self.cost,
        )

    def uncordoned(self) -> Self:
        """Return a twin as if neither the host nor a GPU of it were cordoned."""
        twin = self.copy()
        slots = [replace(slot, is_cordoned=False) for slot in self.slots]
        host = self.host.model_copy(update={"cordons": ()})
        twin.capacity = replace(self.capacity, host=host, slots=slots)
        for gpu in twin.gpus:
            gpu.is_cordoned = False
        return twin

    def signature(self) -> tuple[object, ...]:
        """Return the host's properties that decide on room for VMs without NICs or devices.

        Addresses and names are none of it, but those of the lines that are here.
        """
        host = self.host
        return (
            (host.version, self.threads, vgpu_limit(host, highest_version(host)), host.profiles is None),
            host.device_groups,
            tuple(gpu.exact_signature() for gpu in self.gpus),
            tuple(
                (node.node_id, node.cores, node.usable_mib, node.free_cores, node.free_mib)
                for node in self.nodes
            ),
            self.free_mib,
            self.capacity.offered,
            self.creatable,
            self.capacity.peer_sets,
            frozenset(self.residents.items()),
            frozenset(self.node_lines.items()),
            self.host.cordon is None,
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
        """Note a VM's use of the host in addition to its vGPUs, which are on their GPUs already."""
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
        """Return the cost of one more VM: the first bears all, the others more than on an unprepared host."""
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
        if self.host.cordon is not None:
            return Code.HOST_CORDONED
        if shape.cpus > self.threads:
            return Code.HOST_CPUS
        if shape.memory_mib > self.free_mib:
            return Code.HOST_MEMORY
        known = {node.node_id for node in self.nodes}
        if shape.numa is NumaPolicy.NODE and not known.issuperset(shape.numa_nodes):
            return Code.NUMA_NODE_ABSENT
        if 0 < shape.most_per_host <= self.residents.get(shape.line, 0):
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
        """The NICs that the host can still give."""
        return NicStock(self.capacity, self.holders, self.given)

    def gpu_nodes(self, gpus: Iterable[int], slots: Collection[str]) -> list[int | None]:
        """Return the NUMA nodes of GPUs by index, and of passed-through ones by address."""
        nodes = {slot.pci.pci_id: slot.pci.numa_node for slot in self.slots} if slots else {}
        return [*(self.gpus[index].node for index in gpus), *(nodes.get(pci_id) for pci_id in slots)]

    def refuse_nics(self, shape: Shape) -> Code | None:
        """Say why the host cannot give the functions that a VM's NICs need."""
        return refuse_nics(shape.nics, self.stock) if shape.nics else None

    def refuse_variant(self, variant: Variant) -> Code | None:
        """Say why a host of this release or driver cannot give these vGPUs, whatever is free."""
        for need in variant:
            if self.host.profiles is not None and need.name not in self.capacity.offered:
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
        # ESXi alone chooses the GPU of a vGPU, and could choose one that is cordoned.
        closed = [gpu for gpu in self.gpus if gpu.is_cordoned]
        is_drawn = any(gpu.refuse(need) is Code.GPU_CORDONED for gpu in closed for need in variant)
        return Code.GPU_CORDONED if is_drawn else None

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

    def is_grouped(self, need: VgpuNeed) -> bool:
        """Whether a vGPU comes with its NVLink peers, in a device group of the host."""
        return need.peers is not None and has_group_api(self.host)

    def free_sets(self, need: VgpuNeed, size: int, gpus: Sequence[GpuState]) -> list[frozenset[int]]:
        """List the idle sets of so many NVLink peers, first those that break the fewest other sets."""
        idle = {index for index, gpu in enumerate(gpus) if gpu.is_idle and gpu.refuse(need) is None}
        whole = [one for one in self.capacity.peer_sets if one <= idle]
        free = [one for one in whole if len(one) == size]
        return sorted(free, key=lambda one: (sum(not one.isdisjoint(other) for other in whole), sorted(one)))

    def is_creatable(self, need: VgpuNeed) -> bool:
        """Whether vCenter does not report that such a vGPU cannot be created now."""
        return self.creatable is None or need.name not in self.capacity.offered or need.name in self.creatable

    def free_slots(self) -> list[PassthroughSlot]:
        """List the functions that could be passed through now."""
        return [slot for slot in self.slots if self._refuse_slot(slot) is None]

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
            if any(self._refuse_slot(slot) is Code.GPU_CORDONED for slot in left):
                return Code.GPU_CORDONED
        left = [slot for slot in self.free_slots() if slot.pci.pci_id not in shape.fixed]
        return Code.PASSTHROUGH_TAKEN if match_slots(left, shape.dynamic) is None else None

    def _refuse_slot(self, slot: PassthroughSlot) -> Code | None:
        if not slot.pci.passthrough_active:
            return Code.PASSTHROUGH_SERVES_VGPUS if slot.has_vgpus else Code.PASSTHROUGH_NOT_ACTIVE
        if slot.pci.pci_id in self.holders:
            return Code.PASSTHROUGH_TAKEN
        return Code.GPU_CORDONED if slot.is_cordoned else None

    def slot_choices(self, shape: Shape) -> list[tuple[str, ...]]:
        """List choices of the GPUs to pass through, of one NUMA node if possible; empty where none do.

        Those of one request are alike if possible. The first begins with the first GPU that suits, the others
        with each NUMA node.
        """
        if not (shape.fixed or shape.dynamic):
            return [()]
        if self.refuse_slots(shape) is not None:
            return []
        nodes = {slot.pci.numa_node for slot in self.slots} if shape.dynamic and shape.nics else ()
        starts = [None, *sorted(node for node in nodes if node is not None)]
        left = [slot for slot in self.free_slots() if slot.pci.pci_id not in shape.fixed]
        ways = alike(left, shape.dynamic)
        found = (self._choose_slots(shape.fixed, way, left, start) for way in ways for start in starts)
        return list(dict.fromkeys(found))

    def _choose_slots(
        self,
        fixed: tuple[str, ...],
        needs: tuple[DeviceEntry, ...],
        left: list[PassthroughSlot],
        start: int | None,
    ) -> tuple[str, ...]:
        chosen = list(fixed)
        for place, need in enumerate(needs):
            nodes = {slot.pci.numa_node for slot in self.slots if slot.pci.pci_id in chosen} or {start}
            for slot in sorted(left, key=lambda one: one.pci.numa_node not in nodes):
                others = [one for one in left if one is not slot]
                if is_match(slot, need) and match_slots(others, needs[place + 1 :]) is not None:
                    chosen.append(slot.pci.pci_id)
                    left = others
                    break
        return tuple(chosen)

    def refuse_gpu(self, gpu: GpuState, need: VgpuNeed, shape: Shape) -> Code | None:
        """Say why one GPU does not take a vGPU of such a VM."""
        code = gpu.refuse(need)
        if code is not None:
            return code
        if not self.is_creatable(need):
            return Code.NOT_CREATABLE_NOW
        if shape.line_apart and any(held.line == shape.line_apart for held in gpu.held):
            return Code.SPREAD_IMPOSSIBLE
        return None

    def fit(self, shape: Shape) -> Fit | None:
        """Return the best way to put such a VM here, None where there is none."""
        return next(self.fits(shape), None)

    def fits(self, shape: Shape) -> Iterator[Fit]:
        """Yield the ways to put such a VM here that differ in the remaining room, the best first."""
        if self.refuse_host(shape) is not None or self.refuse_nics(shape) is not None:
            return
        slot_choices = self.slot_choices(shape)
        if not slot_choices:
            return
        for variant in shape.variants or ((),):
            if self.refuse_variant(variant) is not None:
                continue
            rated = (
                self.rated(shape, variant, chosen, slots)
                for chosen in self._choices(shape, variant)
                for slots in slot_choices
            )
            choices = sorted(
                (fit for fit in rated if fit is not None and self.keeps_apart(fit, shape)),
                key=lambda fit: (
                    fit.unlike,
                    fit.numa_level == 2,
                    self._off_node(fit, shape),
                    len(fit.nodes),
                    fit.numa_level,
                    fit.far_nics,
                    fit.opened,
                    fit.lost_starts,
                    fit.lost_sets,
                    fit.gpus,
                ),
            )
            yield from choices

    def _choices(self, shape: Shape, variant: Variant) -> list[tuple[int, ...]]:
        """List the choices of GPUs for the vGPUs of a VM, of like ones only the first."""
        found: dict[tuple[object, ...], tuple[int, ...]] = {}
        self._choose(shape, variant, self.gpus, (), (), found)
        return list(found.values())

    def _choose(
        self,
        shape: Shape,
        variant: Variant,
        gpus: list[GpuState],
        chosen: tuple[int, ...],
        kinds: tuple[object, ...],
        found: dict[tuple[object, ...], tuple[int, ...]],
    ) -> None:
        place = len(chosen)
        if place == len(variant):
            found.setdefault(kinds, chosen)
            return
        need = variant[place]
        if self.is_grouped(need):
            self._choose_peers(shape, variant, gpus, chosen, kinds, found)
            return
        lowest = chosen[-1] if place and variant[place - 1] == need else 0
        seen: set[tuple[object, ...]] = set()
        for index in range(lowest, len(gpus)):
            gpu = gpus[index]
            signature = (gpu.signature(), self._whole_sets(index, gpus))
            if signature in seen or self.refuse_gpu(gpu, need, shape) is not None:
                continue
            seen.add(signature)
            trial = gpus
            if place + 1 < len(variant):
                trial = list(gpus)
                trial[index] = gpu.copy()
                trial[index].take(need, "")
            self._choose(shape, variant, trial, (*chosen, index), (*kinds, signature), found)
            if len(found) >= _MOST_CHOICES:
                return

    def _whole_sets(self, index: int, gpus: Sequence[GpuState]) -> tuple[int, ...]:
        """Return the sizes of the sets of NVLink peers that a GPU is in and that are all idle."""
        return tuple(
            len(one)
            for one in self.capacity.peer_sets
            if index in one and all(gpus[member].is_idle for member in one)
        )

    def _choose_peers(
        self,
        shape: Shape,
        variant: Variant,
        gpus: list[GpuState],
        chosen: tuple[int, ...],
        kinds: tuple[object, ...],
        found: dict[tuple[object, ...], tuple[int, ...]],
    ) -> None:
        """Go on with all members of the next device group; they are together in a variant."""
        need = variant[len(chosen)]
        size = sum(one.peers == need.peers for one in variant)
        for members in self.free_sets(need, size, gpus):
            trial = list(gpus)
            for index in members:
                trial[index] = gpus[index].copy()
                trial[index].take(need, "")
            ordered = tuple(sorted(members))
            kind = tuple(gpus[index].node for index in ordered)
            lost = sum(not members.isdisjoint(other) for other in self.capacity.peer_sets)
            self._choose(shape, variant, trial, (*chosen, *ordered), (*kinds, size, lost, kind), found)
            if len(found) >= _MOST_CHOICES:
                return

    def _off_node(self, fit: Fit, shape: Shape) -> int:
        """Count the GPUs of another NUMA node than those that the plan file names."""
        return sum(self.gpus[index].node not in fit.nodes for index in fit.gpus) if shape.numa_nodes else 0

    def keeps_apart(self, fit: Fit, shape: Shape) -> bool:
        """Whether a VM that must have a NUMA node without others of its line gets one."""
        if shape.spread is not Spread.NUMA or not shape.must:
            return True
        return not any(self.is_on_node(shape.line, node) for node in fit.nodes)

    def rated(
        self, shape: Shape, variant: Variant, chosen: tuple[int, ...], slots: tuple[str, ...]
    ) -> Fit | None:
        """Return the fit with these GPUs and devices, its NUMA nodes worked out.

        None where its NICs must be near the GPUs and none is free there.
        """
        near = self.gpu_nodes(chosen, slots)
        size = (shape.cpus, shape.memory_mib)
        nodes = choose_nodes(shape.numa, shape.numa_nodes, near, self.nodes, size)
        level = numa_level(self.nodes, nodes, *size)
        nics = choose_nics(shape.nics, self.stock, near) if shape.nics else ()
        if nics is None:
            return None
        opened = {index for index in chosen if not self.gpus[index].held}
        return Fit(
            host=self.index,
            variant=variant,
            gpus=chosen,
            slots=slots,
            groups=self.groups_of(variant) or (),
            nics=nics,
            nodes=nodes,
            numa_level=level,
            far_nics=len(far_nics(shape.nics, nics, self.stock, near)) if nics else 0,
            unlike=unlike(self.slots, shape.dynamic, slots),
            opened=len(opened),
            lost_starts=self._lost_starts(variant, chosen),
            lost_sets=self._lost_sets(opened),
        )

    def _lost_starts(self, variant: Variant, chosen: tuple[int, ...]) -> int:
        if not any(need.is_mig for need in variant):
            return 0
        lost = 0
        for index in set(chosen):
            if self.gpus[index].has_4g_start:
                trial = self.gpus[index].copy()
                for need, at in zip(variant, chosen, strict=True):
                    if at == index:
                        trial.take(need, "")
                lost += not trial.has_4g_start
        return lost

    def _lost_sets(self, opened: set[int]) -> int:
        if not opened:
            return 0
        whole = (one for one in self.capacity.peer_sets if all(self.gpus[index].is_idle for index in one))
        return sum(not one.isdisjoint(opened) for one in whole)


def _size(need: VgpuNeed) -> tuple[str, int, int]:
    return (need.board_key, need.framebuffer_mib, need.mig_size)
