"""Moves of running VMs: those that may go to another host, how, their needs there, and the order of moves.

A VM moves by vMotion if every vGPU of it allows it (vim `VirtualPCIPassthrough.backing.migrateSupported`, API
7.0.2) and it has no other device of its host; else with the VM off. A VM that names one function of one host
is bound to it. Mandatory rules of the cluster and protection are kept.

VMs that must be off are switched off first and started last, and each must start on its target for any GPU
that ESXi chooses. A vMotion waits for those that leave its target; VMs that change places in a circle cannot
all run meanwhile, so one of them is switched off.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Self

from vgpu_cfg.model.observed.inventory import Cluster, Host, Inventory
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, Vm, VmDetail
from vgpu_cfg.model.plan_file import DeviceEntry, GpuEntry
from vgpu_cfg.model.plan_values import NumaPolicy
from vgpu_cfg.model.vgpu import Sharing, VgpuMode, VgpuProfile
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.capacity.hardware import highest_version, nodes_of_affinity
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.placement.demand import Demand, Shape, Variant
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.start_queues import Start, board_gpus
from vgpu_cfg.planning.placement.start_search import Position, SearchTooLarge, StartSearch, start_size
from vgpu_cfg.planning.vms.lookup.moving import holds_devices, running_vms, stun_ms, why_cold, why_tied
from vgpu_cfg.planning.vms.lookup.wanted import nic_needs


@dataclass(frozen=True, slots=True)
class Stay:
    """A VM that could not be taken into account, and why."""

    vm: str
    host: str
    why: str
    moid: str = ""


class OwnHost(Enum):
    """The role of a VM's present host: it goes, or the VM may start there again, or rather there.

    With MAY one that vMotion moves rather goes elsewhere, and one that must be off rather stays.
    """

    NEVER = "never"
    MAY = "may"
    FIRST = "first"


@dataclass(frozen=True, slots=True)
class Movable:
    """A running VM that may go to another host, and its needs there.

    `stun_ms` is how long vMotion would stop it at the slowest bandwidth that its host names.
    """

    vm: Vm
    host: Host
    shape: Shape
    why_cold: str
    stun_ms: int | None

    @property
    def demand(self) -> Demand:
        """The request for placement."""
        return Demand(self.vm.moid, "", self.shape)

    @property
    def preference(self) -> tuple[bool, int, int, str]:
        """A key that sorts those that vMotion moves first, of these the shortest stun, the smallest VM."""
        variant = self.shape.variants[0] if self.shape.variants else ()
        size = sum(need.framebuffer_mib for need in variant)
        return (bool(self.why_cold), self.stun_ms or 0, size, self.vm.name)


@dataclass(frozen=True, slots=True)
class HostRules:
    """The hosts, by moid, that rules between groups name for a VM: all of `only`, none of `never`."""

    only: tuple[Collection[str], ...] = ()
    never: tuple[Collection[str], ...] = ()

    @classmethod
    def of(cls, vm: Vm, cluster: Cluster | None) -> Self:
        """Collect the rules of a VM; without DRS none is kept by anybody."""
        if cluster is None or not cluster.drs_enabled:
            return cls()
        members = {group.name: group.vm_moids for group in cluster.vm_groups}
        hosts = {group.name: group.host_moids for group in cluster.host_groups}
        own = [
            rule
            for rule in cluster.host_rules
            if rule.is_enabled and rule.is_mandatory and vm.moid in members.get(rule.vm_group, ())
        ]
        return cls(
            tuple(hosts.get(rule.host_group, ()) for rule in own if rule.host_group),
            tuple(hosts.get(rule.avoided_group, ()) for rule in own if rule.avoided_group),
        )

    def allow(self, host_moid: str) -> bool:
        """Whether the VM may run there."""
        return all(host_moid in one for one in self.only) and not any(host_moid in one for one in self.never)


@dataclass(slots=True)
class Movables:
    """Finds the VMs that may move; `changing` are the moids of those that the plan restarts itself.

    `allowed` are the hosts, by moid, that a VM may go to if not those of its cluster.
    """

    observed: Inventory
    hosts: Sequence[Host]
    reader: CapacityReader
    protection: Protection
    changing: Collection[str]
    home: OwnHost = OwnHost.NEVER
    allowed: Mapping[str, Collection[str]] = field(default_factory=dict)
    stays: list[Stay] = field(default_factory=list)

    def surroundings(self, wanted: Collection[int], tight: Collection[int]) -> list[Movable]:
        """List those on the wanted hosts, and on the hosts where these could go, the easiest first.

        VMs without devices only matter where memory does, on the `tight` hosts.
        """
        found: dict[str, Movable] = {}
        waiting, seen = sorted(wanted), set(wanted)
        while waiting:
            for one in self._on(waiting.pop(0), tight):
                found[one.vm.moid] = one
                for index, _ in one.shape.hosts:
                    if index not in seen:
                        seen.add(index)
                        waiting.append(index)
        return sorted(found.values(), key=lambda one: one.preference)

    def leaving(self, index: int, vms: Collection[str]) -> list[Movable]:
        """List those of a host's VMs, by moid, that may go to another place; the others are among `stays`."""
        return list(self._on(index, (index,), only=vms))

    def _on(
        self, index: int, tight: Collection[int], *, only: Collection[str] | None = None
    ) -> Iterator[Movable]:
        host = self.hosts[index]
        for vm in running_vms(host, self.observed):
            if only is not None and vm.moid not in only:
                continue
            detail = vm.detail
            if detail is None or not (holds_devices(detail) or index in tight):
                continue
            why, shape = self._why_bound(vm, detail, host), None
            if not why:
                shape = self._shape(vm, detail, index)
                why = "" if shape and shape.hosts else self._nowhere(detail)
            if shape is None or why:
                why = why or "its vGPUs are not in the catalog"
                self.stays.append(Stay(vm.name, host.name, why, vm.moid))
                continue
            yield Movable(vm, host, shape, why_cold(detail, self.observed), stun_ms(detail, host))

    def _why_bound(self, vm: Vm, detail: VmDetail, host: Host) -> str:
        """Say what keeps a VM on its host whatever is done, empty where nothing does."""
        cluster = self.observed.cluster_of(host)
        folder = self.observed.folder_by_moid.get(vm.folder_moid or "")
        if covering := self.protection.of_vm(vm.name, folder, vm.manager):
            return covering.message
        if covering := self.protection.of_cluster(cluster):
            return covering.message
        if vm.moid in self.changing:
            return "the plan changes it"
        if (tied := why_tied(detail)) and (detail.mixed_groups or self.home is OwnHost.NEVER):
            return tied
        if any(len(device.allowed) > 1 for device in detail.passthrough_gpus):
            return "it accepts several kinds of devices, and their availability on other hosts is unknown"
        return ""

    def _nowhere(self, detail: VmDetail) -> str:
        tied = why_tied(detail) if self.home is not OwnHost.NEVER else ""
        return tied or "no other host in its cluster can run it"

    def _shape(self, vm: Vm, detail: VmDetail, source: int) -> Shape | None:
        """Return a VM's needs of another host of its cluster: boards, devices, networks, datastores."""
        variants = self._variants(detail, self.hosts[source])
        if detail.vgpus and not variants:
            return None
        dynamic = tuple(
            DeviceEntry(label=device.label, device_id=device.allowed[0] if device.allowed else None)
            for device in detail.passthrough_gpus
            if not device.is_fixed
        )
        return Shape(
            hosts=tuple(self._targets(vm, detail, source)),
            variants=variants,
            fixed=tuple(device.pci_id for device in detail.passthrough_gpus if device.pci_id),
            dynamic=dynamic,
            cpus=detail.cpus,
            memory_mib=detail.reserved_mib,
            numa=NumaPolicy.OFF,
            nics=nic_needs(None, detail, None),
        )

    def _variants(self, detail: VmDetail, here: Host) -> tuple[Variant, ...]:
        try:
            requested = [
                GpuEntry(profile=(VgpuProfile.parse(one.profile),), nvlink=one.group_key)
                for one in detail.vgpus
            ]
        except ValueError:
            return ()
        boards = {board.key for gpu in here.gpus if (board := self.reader.board_of(gpu.pci)) is not None}
        variants = self.reader.variants(requested)
        return tuple(one for one in variants if all(need.board_key in boards for need in one))

    def _targets(self, vm: Vm, detail: VmDetail, source: int) -> Iterator[tuple[int, int]]:
        """Yield the hosts by index, each with its rank."""
        networks = self.observed.networks_of(detail)
        nodes = set(nodes_of_affinity(detail.extra_config.get(AFFINITY_KEY, "")))
        here = self.hosts[source]
        cluster = self.observed.cluster_by_moid.get(here.cluster_moid or "")
        rules = HostRules.of(vm, cluster)
        allowed = self.allowed.get(vm.moid)
        is_cold, is_tied = bool(why_cold(detail, self.observed)), bool(why_tied(detail))
        for index, host in enumerate(self.hosts):
            is_home = index == source
            if (self.home is OwnHost.NEVER if is_home else is_tied) or not host.is_usable:
                continue
            is_near = host.compute_moid == here.compute_moid
            is_allowed = is_near if allowed is None else host.moid in allowed
            reaches = networks <= host.network_moids and set(detail.datastore_moids) <= host.datastore_moids
            if is_allowed and reaches and rules.allow(host.moid) and _runs(host, detail, nodes):
                is_second = is_home is (self.home is not OwnHost.FIRST and not is_cold)
                yield index, int(not is_near or (self.home is not OwnHost.NEVER and is_second))


def _runs(host: Host, detail: VmDetail, nodes: Collection[int]) -> bool:
    """Whether a host runs a VM's hardware version, and has the NUMA nodes to which the VM is tied."""
    newest, known = highest_version(host), {node.node_id for node in host.numa_nodes}
    is_old = detail.hardware_version is None or newest is None or detail.hardware_version <= newest
    return is_old and (not known or set(nodes) <= known)


@dataclass(frozen=True, slots=True)
class MoveStep:
    """One move: hosts are indexes. `why_cold` is empty where vMotion makes it."""

    vm: str
    source: int
    target: int
    variant: Variant
    why_cold: str


def in_order(steps: Iterable[MoveStep]) -> list[MoveStep]:
    """Sort the moves so that each can be made when those before it are; circles are cut by a cold one."""
    left = sorted(steps, key=lambda step: (step.target, *_largest_first(step)))
    cold = [step for step in left if step.why_cold]
    left = [step for step in left if not step.why_cold]
    ordered: list[MoveStep] = []
    while left:
        sources = {step.source for step in left}
        free = [step for step in left if step.target not in sources]
        if free:
            ordered += free
            left = [step for step in left if step not in free]
            continue
        smallest = min(left, key=lambda step: (sum(need.framebuffer_mib for need in step.variant), step.vm))
        left.remove(smallest)
        why = "VMs swap places, so one of them must be powered off during the move"
        cold.append(MoveStep(smallest.vm, smallest.source, smallest.target, smallest.variant, why))
    return [*ordered, *sorted(cold, key=_largest_first)]


def _largest_first(step: MoveStep) -> tuple[tuple[int, ...], str]:
    size = start_size(step.variant) if step.variant else (0, 0, 0)
    return tuple(-part for part in size), step.vm


def find_uncertain_starts(
    ordered: Sequence[MoveStep],
    now: Sequence[HostState],
    later: Sequence[HostState],
    starts: Mapping[int, Sequence[Start]],
) -> Iterator[str]:
    """Return for every host whether arrivals and the plan's starts there could strand a VM.

    `now` are the hosts without the VMs that move, `later` also without those that the plan switches off;
    `starts` are the plan's, by host index.
    """
    arrivals: dict[int, list[MoveStep]] = {}
    for step in ordered:
        arrivals.setdefault(step.target, []).append(step)
    for index in sorted({*arrivals, *starts}):
        came = [step for step in arrivals.get(index, ()) if step.variant]
        planned = [start.variant for start in starts.get(index, ())]
        variants = [step.variant for step in came] + planned
        for board in sorted({variant[0].board_key for variant in variants}):
            coming = [step.variant for step in came if step.variant[0].board_key == board]
            following = [variant for variant in planned if variant[0].board_key == board]
            if not _is_certain((now if came else later)[index], board, coming, following):
                what = "an incoming VM" if came else "a VM of the plan"
                yield (
                    f"all VMs fit on {now[index].host.name}, but after ESXi chooses the GPUs, "
                    "none may be left "
                    f"for {what}"
                )
                break


def find_unknown_placements(moved: Iterable[Movable], hosts: Iterable[HostState]) -> Iterator[str]:
    """Say of GPUs that a VM leaves, with placements, that vCenter does not report where the others are."""
    left = {one.vm.moid for one in moved}
    for state in hosts:
        reported = {gpu.pci_id: left & set(gpu.vm_moids) for gpu in state.host.gpus}
        for gpu in state.gpus:
            has_places = gpu.sharing is Sharing.MIG or gpu.mode is VgpuMode.MIXED_SIZE
            if has_places and gpu.held and reported.get(gpu.pci_id):
                names = listed(dict.fromkeys(held.vm for held in gpu.held))
                yield (
                    f"on {state.host.name}, the placement of {names} on GPU {gpu.pci_id} is unknown and "
                    f"may block other VMs"
                )


def _is_certain(
    host: HostState, board_key: str, coming: Sequence[Variant], following: Sequence[Variant]
) -> bool:
    """Whether all that comes, in this order, gets GPUs, and all that starts then can after any of it."""
    gpus, peer_sets = board_gpus(host, board_key)
    search = StartSearch.of([*coming, *following], gpus, peer_sets)
    reached: set[Position] = {search.position(gpus)}
    try:
        for variant in coming:
            step: set[Position] = set()
            for position in reached:
                outcomes = search.outcomes(position, variant)
                if outcomes is None:
                    return False
                step |= outcomes
            reached = step
        left = search.counted(following)
        return all(search.can_all_start(position, left) for position in reached)
    except SearchTooLarge:
        return False
