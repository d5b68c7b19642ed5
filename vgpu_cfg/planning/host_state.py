"""A host while VMs are put on it: GPUs, passed-through devices, reservable memory, NUMA nodes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from vgpu_cfg.model.desired import NumaPolicy, Spread
from vgpu_cfg.model.inventory import Host
from vgpu_cfg.planning.capacity import HostCapacity, PassthroughSlot
from vgpu_cfg.planning.checks import Code
from vgpu_cfg.planning.demand import Demand, DynamicNeed, Shape, Variant
from vgpu_cfg.planning.gpu_state import GpuState
from vgpu_cfg.planning.hardware import highest_version, vgpu_limit
from vgpu_cfg.planning.numa import NodeState, choose_nodes, numa_level, promise_nodes
from vgpu_cfg.planning.peer_groups import group_of, has_group_api
from vgpu_cfg.planning.vgpu_need import VgpuNeed
from vgpu_cfg.planning.words import is_at_least, version_tuple

HOST_MEMORY_SHARE = 0.95
"""The part of a host's memory that VMs can reserve; what ESXi itself needs is recalled, not looked up."""
_FULL_SERIES = ("C", "Q")
_MOST_CHOICES = 64


@dataclass(frozen=True, slots=True)
class Fit:
    """A way to put a VM on a host. `gpus` are indexes, one per vGPU, `slots` PCI addresses.

    `groups` names the device group for each number of NVLink peers, where the host has such groups.
    `numa_level` is 0 where the nodes have room, 1 where they are promised to others,
    2 where they are too small. `opened` counts GPUs that were idle before, `lost_starts` those that
    could start a 4g instance before, `lost_sets` the sets of NVLink peers that were all idle before.
    """

    host: int
    variant: Variant = ()
    gpus: tuple[int, ...] = ()
    slots: tuple[str, ...] = ()
    groups: tuple[tuple[int, str], ...] = ()
    nodes: tuple[int, ...] = ()
    numa_level: int = 0
    opened: int = 0
    lost_starts: int = 0
    lost_sets: int = 0


@dataclass(slots=True)
class HostState:
    """One host. Mutable; `copy` is cheap enough for a search.

    `creatable` is vCenter's own word on which profiles can be created now, None where it does
    not say or the plan frees GPUs first. `peer_sets` are the sets of GPUs that can be NVLink peers.
    `residents` counts the VMs of a line that are here, `planned` the sizes of vGPUs that the plan adds.
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

    @classmethod
    def of(
        cls,
        index: int,
        capacity: HostCapacity,
        *,
        frees_gpus: bool = False,
        memory_share: float = HOST_MEMORY_SHARE,
        heeds_creatable: bool = True,
    ) -> HostState:
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
        )

    def copy(self) -> HostState:
        """Return a twin that can be changed by itself."""
        return HostState(
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
        )

    @property
    def is_in_use(self) -> bool:
        """Whether a VM with a GPU of any kind is here."""
        return any(gpu.held for gpu in self.gpus) or bool(self.holders)

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
        self.promise(demand.shape.cpus, demand.shape.memory_mib, fit.nodes)
        self.residents[demand.line] = self.residents.get(demand.line, 0) + 1

    def mixes(self, variant: Variant) -> bool:
        """Whether the plan puts vGPUs of another size on this board here already.

        ESXi may spread what starts first over all GPUs, and leave none for the other size.
        """
        sizes = {_size(need) for need in variant}
        boards = {board_key for board_key, *_ in sizes}
        return any(size not in sizes and size[0] in boards for size in self.planned)

    def fit(self, shape: Shape) -> Fit | None:
        """Return the best way to put such a VM here, None where there is none."""
        return next(self.fits(shape), None)

    def fits(self, shape: Shape) -> Iterator[Fit]:
        """Yield the ways to put such a VM here that differ in what they leave, the best first."""
        if self.refuse_host(shape) is not None:
            return
        slots = self._choose_slots(shape)
        if slots is None:
            return
        for variant in shape.variants or ((),):
            if self.refuse_variant(variant) is not None:
                continue
            choices = sorted(
                (self.rated(shape, variant, chosen, slots) for chosen in self._choices(shape, variant)),
                key=lambda fit: (
                    fit.numa_level == 2,
                    len(fit.nodes),
                    fit.numa_level,
                    fit.opened,
                    fit.lost_starts,
                    fit.lost_sets,
                    fit.gpus,
                ),
            )
            yield from choices

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
        return None

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

    def suits(self, slot: PassthroughSlot, need: DynamicNeed) -> bool:
        """Whether a function is what a request means."""
        return is_match(slot, need)

    def refuse_need(self, need: VgpuNeed, shape: Shape) -> Iterator[tuple[GpuState, Code | None]]:
        """Say of each GPU why it does not take a vGPU, None where it does."""
        for gpu in self.gpus:
            yield gpu, self._refuse(gpu, need, shape)

    def refuse_slots(self, shape: Shape) -> Code | None:
        """Say why the devices to pass through cannot be had here."""
        by_address = {slot.pci.pci_id: slot for slot in self.slots}
        for pci_id in shape.fixed:
            slot = by_address.get(pci_id)
            if (code := Code.PASSTHROUGH_ABSENT if slot is None else self._refuse_slot(slot)) is not None:
                return code
        taken = set(shape.fixed)
        for need in shape.dynamic:
            known = [slot for slot in self.slots if is_match(slot, need)]
            if not known:
                return Code.LABEL_UNKNOWN
            left = [slot for slot in known if slot.pci.pci_id not in taken]
            free = [slot for slot in left if self._refuse_slot(slot) is None]
            if not free:
                codes = [self._refuse_slot(slot) or Code.PASSTHROUGH_TAKEN for slot in known]
                return Code.PASSTHROUGH_TAKEN if Code.PASSTHROUGH_TAKEN in codes else codes[0]
            taken.add(free[0].pci.pci_id)
        return None

    def _refuse_slot(self, slot: PassthroughSlot) -> Code | None:
        if not slot.pci.passthrough_active:
            return Code.PASSTHROUGH_SERVES_VGPUS if slot.has_vgpus else Code.PASSTHROUGH_NOT_ACTIVE
        return Code.PASSTHROUGH_TAKEN if slot.pci.pci_id in self.holders else None

    def _choose_slots(self, shape: Shape) -> tuple[str, ...] | None:
        if self.refuse_slots(shape) is not None:
            return None
        chosen = list(shape.fixed)
        for need in shape.dynamic:
            free = [
                slot
                for slot in self.slots
                if is_match(slot, need) and self._refuse_slot(slot) is None and slot.pci.pci_id not in chosen
            ]
            nodes = {slot.pci.numa_node for slot in self.slots if slot.pci.pci_id in chosen}
            chosen.append(min(free, key=lambda slot: slot.pci.numa_node not in nodes).pci.pci_id)
        return tuple(chosen)

    def _refuse(self, gpu: GpuState, need: VgpuNeed, shape: Shape) -> Code | None:
        code = gpu.refuse(need)
        if code is not None:
            return code
        if not self._is_creatable(need):
            return Code.NOT_CREATABLE_NOW
        if shape.spread is Spread.GPUS and shape.must and any(held.line == shape.line for held in gpu.held):
            return Code.SPREAD_IMPOSSIBLE
        return None

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
        if need.peers is not None and has_group_api(self.host):
            self._choose_peers(shape, variant, gpus, chosen, kinds, found)
            return
        lowest = chosen[-1] if place and variant[place - 1] == need else 0
        seen: set[tuple[object, ...]] = set()
        for index in range(lowest, len(gpus)):
            gpu = gpus[index]
            signature = gpu.signature()
            if signature in seen or self._refuse(gpu, need, shape) is not None:
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

    def _choose_peers(
        self,
        shape: Shape,
        variant: Variant,
        gpus: list[GpuState],
        chosen: tuple[int, ...],
        kinds: tuple[object, ...],
        found: dict[tuple[object, ...], tuple[int, ...]],
    ) -> None:
        """Go on with all members of the device group that is next; they stand together in a variant."""
        need = variant[len(chosen)]
        size = sum(one.peers == need.peers for one in variant)
        for members in self.free_sets(need, size, gpus):
            trial = list(gpus)
            for index in members:
                trial[index] = gpus[index].copy()
                trial[index].take(need, "")
            ordered = tuple(sorted(members))
            kind = tuple(gpus[index].node for index in ordered)
            lost = sum(not members.isdisjoint(other) for other in self.peer_sets)
            self._choose(shape, variant, trial, (*chosen, *ordered), (*kinds, size, lost, kind), found)
            if len(found) >= _MOST_CHOICES:
                return

    def rated(self, shape: Shape, variant: Variant, chosen: tuple[int, ...], slots: tuple[str, ...]) -> Fit:
        """Return the fit with these GPUs and devices, its NUMA nodes worked out."""
        near = [self.gpus[index].node for index in chosen]
        near += [slot.pci.numa_node for slot in self.slots if slot.pci.pci_id in slots]
        size = (shape.cpus, shape.memory_mib)
        nodes = choose_nodes(shape.numa, shape.numa_nodes, near, self.nodes, size)
        level = numa_level(self.nodes, nodes, *size)
        opened = {index for index in chosen if not self.gpus[index].held}
        return Fit(
            host=self.index,
            variant=variant,
            gpus=chosen,
            slots=slots,
            groups=self.groups_of(variant) or (),
            nodes=nodes,
            numa_level=level,
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
        whole = (one for one in self.peer_sets if all(self.gpus[index].is_idle for index in one))
        return sum(not one.isdisjoint(opened) for one in whole)


def _size(need: VgpuNeed) -> tuple[str, int, int]:
    return (need.board_key, need.framebuffer_mib, need.mig_size)


def is_match(slot: PassthroughSlot, need: DynamicNeed) -> bool:
    """Whether a device is what a Dynamic DirectPath request means."""
    pci = slot.pci
    if need.label is not None and pci.hardware_label != need.label:
        return False
    if need.vendor_id is not None and pci.vendor_id != need.vendor_id:
        return False
    if need.device_id is not None and pci.device_id != need.device_id:
        return False
    if need.model is not None:
        names = (pci.device_name, *(slot.board.names if slot.board else ()))
        return any(need.model.casefold() in name.casefold() for name in names)
    return True
