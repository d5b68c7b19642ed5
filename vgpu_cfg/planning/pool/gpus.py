"""Every GPU of an estate with its mode, its VMs, its remaining room and its stranded capacity.

Stranded parts are lost or locked. Lost parts fit no profile any longer: between placements, beyond the last
slice. Locked parts fit only one profile size until a VM goes. Sources of the rules: see
planning/capacity/gpu_state.py. A member of an NVLink group that is used alone, or for a fraction, has its
NVLink turned off (field report by Frank Denneman).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from itertools import pairwise

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.model.observed.gpu_use import GpuUse, UseReading
from vgpu_cfg.model.observed.inventory import Connection, Gpu, Host, Inventory
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.model.wording import counted, listed, whole_gib
from vgpu_cfg.planning.capacity.gpu_state import GpuState, VgpuNeed
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader, HostCapacity
from vgpu_cfg.planning.findings.codes import Code

LEAST_MIB = 512
"""Less than this is rounding: profiles of one GPU add up to some MiB less than its framebuffer."""


class StrandedKind(StrEnum):
    """In which way something of a GPU is stranded."""

    FRAMEBUFFER = "framebuffer"
    """Free framebuffer that is too little for any profile that may join."""
    PLACEMENT = "placement"
    """Mixed sizes: free GB where no profile may start."""
    MEMORY_SLICES = "memory_slices"
    """MIG: free memory slices that no instance can have."""
    COMPUTE_SLICES = "compute_slices"
    """MIG: compute slices without memory for them."""
    SIZE_LOCK = "size_lock"
    """Same size: framebuffer that only the size which runs there can have."""
    SHARED_INSTANCE = "shared_instance"
    """MIG: room in an instance that only its own profile can have."""
    NVLINK = "nvlink"
    """A GPU whose NVLink peer is used alone."""


@dataclass(frozen=True, slots=True)
class Stranding:
    """One thing that is stranded on a GPU, and the VMs that it would be free without.

    `size_gb` is the one size that bound framebuffer is for, None for a lost part.
    """

    kind: StrandedKind
    text: str
    framebuffer_mib: int = 0
    compute_slices: int = 0
    size_gb: int | None = None
    vms: tuple[str, ...] = ()

    @property
    def is_bound(self) -> bool:
        """Whether vGPUs of one size can still have it."""
        return self.kind in _BOUND

    @property
    def lost_mib(self) -> int:
        """The framebuffer that cannot be used."""
        return 0 if self.is_bound else self.framebuffer_mib

    @property
    def bound_mib(self) -> int:
        """The framebuffer that only one size can have."""
        return self.framebuffer_mib if self.is_bound else 0


PAIR = 2


class PoolMode(StrEnum):
    """The use of a GPU; UNKNOWN if it is idle and its mode is unknown."""

    SAME_SIZE = "same size"
    MIXED_SIZE = "mixed size"
    MIG = "MIG"
    PASSTHROUGH = "passthrough"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class GpuUser:
    """A VM on a GPU. `profile` is empty for one that has all of it or could not be read.

    `start` is the presumed place of its vGPU: memory slices (MIG) or GB (mixed sizes), None if it needs no
    place.
    """

    vm: str
    profile: str
    start: int | None = None


@dataclass(frozen=True, slots=True)
class PooledGpu:
    """A GPU of the pool.

    `room` counts, per profile, how many more it takes if it takes only these. `obstacle` says why it
    takes no vGPU at all, or why nothing can start on its host; empty where something can. `use` is None where
    it is not measured.
    """

    host: str
    host_moid: str
    cluster: str
    pci_id: str
    board: str
    board_key: str
    numa_node: int | None
    mode: PoolMode
    runs: tuple[GpuUser, ...]
    room: Mapping[str, int]
    free_framebuffer_mib: int
    stranded: tuple[Stranding, ...] = ()
    obstacle: str = ""
    label: str = ""
    use: GpuUse | None = None

    @property
    def is_idle(self) -> bool:
        """Whether nothing runs on it and something could."""
        return not self.runs and not self.obstacle

    @property
    def used(self) -> Counter[str]:
        """How many vGPUs of each profile run on it."""
        return Counter(run.profile for run in self.runs if run.profile)

    @property
    def lost_mib(self) -> int:
        """Free framebuffer that no profile can have."""
        return sum(one.lost_mib for one in self.stranded)

    @property
    def bound_mib(self) -> int:
        """Free framebuffer that only one size can have."""
        return sum(one.bound_mib for one in self.stranded)


@dataclass(slots=True)
class PoolReader:
    """Looks at hosts one by one; what alike GPUs have in common is worked out once."""

    observed: Inventory
    catalog: Catalog
    _capacity: CapacityReader = field(init=False)
    _use: UseReading = field(init=False)
    _others: tuple[str, ...] = field(init=False)
    _known: dict[tuple[object, ...], tuple[dict[str, int], tuple[Stranding, ...]]] = field(
        default_factory=dict
    )
    _needs: dict[tuple[str, frozenset[str] | None], tuple[VgpuNeed, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._use = self.observed.gpu_use or UseReading()
        self._capacity = CapacityReader(self.observed, self.catalog)
        details = (vm.detail for vm in self.observed.vms if vm.is_on and vm.detail)
        self._others = tuple(sorted({vgpu.profile for detail in details for vgpu in detail.vgpus}))

    def capacity(self, host: Host) -> HostCapacity:
        """Read a host's free capacity."""
        return self._capacity.read(host)

    def gpus(self, found: HostCapacity) -> Iterator[PooledGpu]:
        """Yield the GPUs of a host, in its order."""
        host = found.host
        gpus = {gpu.pci_id: gpu for gpu in host.gpus}
        holders = {slot.pci.pci_id: slot.holder for slot in found.slots if slot.holder}
        links = find_lost_links(found)
        cluster = self.observed.cluster_by_moid.get(host.cluster_moid or "")
        drawn = self._drawn_to_cordoned(found)
        for state in found.gpus:
            gpu = gpus[state.pci_id]
            room, stranded = self._measure(state, found)
            runs = tuple(GpuUser(one.vm, one.need.name if one.need else "", one.start) for one in state.held)
            if not runs and state.pci_id in holders:
                runs = (GpuUser(holders[state.pci_id] or "", ""),)
            is_unknown = state.obstacle is None and state.board is None
            words = "board not in the catalog" if is_unknown else obstacle_text(state, gpu)
            obstacle = words or out_of_use(host, state.pci_id)
            room = {name: count for name, count in room.items() if name not in drawn}
            yield PooledGpu(
                host=host.name,
                host_moid=host.moid,
                cluster=cluster.name if cluster else "",
                pci_id=state.pci_id,
                board=state.board.name if state.board else gpu.name,
                board_key=state.board_key or "",
                numa_node=state.node,
                mode=mode_of(state, gpu),
                runs=runs,
                room={} if obstacle else room,
                free_framebuffer_mib=0 if obstacle or gpu.is_passthrough else state.free_framebuffer_mib,
                stranded=() if obstacle else (*stranded, *links.get(state.pci_id, ())),
                obstacle=obstacle,
                label=gpu.pci.hardware_label or "",
                use=self._use.of(host.moid, state.pci_id),
            )

    def _drawn_to_cordoned(self, found: HostCapacity) -> frozenset[str]:
        """Return the profiles of which ESXi could put the next vGPU on a GPU that is cordoned."""
        closed = [gpu for gpu in found.gpus if gpu.is_cordoned]
        needs = (need for gpu in closed if gpu.board for need in self._needs_of(gpu.board, None))
        return frozenset(
            need.name for need in needs if any(gpu.refuse(need) is Code.GPU_CORDONED for gpu in closed)
        )

    def _measure(self, state: GpuState, found: HostCapacity) -> tuple[dict[str, int], tuple[Stranding, ...]]:
        if state.board is None or state.obstacle is not None:
            return {}, ()
        offered = found.offered if found.host.profiles is not None else None
        holders = tuple(held.vm for held in state.held)
        key = (*state.signature(), offered, holders)
        if key not in self._known:
            needs = self._needs_of(state.board, offered)
            every = (*needs, *self._others_of(state.board, offered))
            room = {need.name: count for need in every if (count := state.room(need))}
            self._known[key] = (room, find_stranded(state, needs))
        return self._known[key]

    def _needs_of(self, board: Board, offered: frozenset[str] | None) -> tuple[VgpuNeed, ...]:
        """Return the C profiles of a board that its host's driver has, all of them if it reports none."""
        if (board.key, offered) not in self._needs:
            needs = (self._capacity.needs(entry.name)[board.key] for entry in board.profiles)
            self._needs[board.key, offered] = tuple(
                need for need in needs if offered is None or need.name in offered
            )
        return self._needs[board.key, offered]

    def _others_of(self, board: Board, offered: frozenset[str] | None) -> Iterator[VgpuNeed]:
        """Yield the needs of a board by the profiles of other series that run anywhere, by name.

        Anywhere, and not on one GPU only: else the sum over GPUs would leave out those where none runs yet.
        """
        for name in self._others:
            need = self._capacity.needs(name).get(board.key)
            if need is not None and need.series != "C" and (offered is None or name in offered):
                yield need


def pooled_gpus(
    observed: Inventory, catalog: Catalog, *, wants_host: Callable[[str], bool] = lambda _: True
) -> tuple[PooledGpu, ...]:
    """List every GPU of the hosts that are wanted by name, hosts in the inventory's order."""
    reader = PoolReader(observed, catalog)
    hosts: Iterable[Host] = (host for host in observed.hosts if host.gpus and wants_host(host.name))
    return tuple(gpu for host in hosts for gpu in reader.gpus(reader.capacity(host)))


def mode_of(state: GpuState, gpu: Gpu) -> PoolMode:
    """Say how a GPU is used."""
    if gpu.is_passthrough:
        return PoolMode.PASSTHROUGH
    is_mixed = state.mode is VgpuMode.MIXED_SIZE
    match state.shared_as:
        case Sharing.MIG:
            return PoolMode.MIG
        case Sharing.TIME_SLICED:
            return PoolMode.MIXED_SIZE if is_mixed else PoolMode.SAME_SIZE
        case None:
            return PoolMode.MIXED_SIZE if is_mixed else PoolMode.UNKNOWN


def obstacle_text(state: GpuState, gpu: Gpu) -> str:
    """Return the finding's text for one GPU; nothing if it is passed through as a whole."""
    match state.obstacle:
        case Code.GPU_IN_PASSTHROUGH if gpu.is_passthrough:
            return ""
        case Code.NO_HOST_DRIVER:
            return f"not supported by a host driver{gpu.pci.mode_note}"
        case Code.NOT_SHARED_DIRECT:
            return f"graphics type is not sharedDirect{gpu.pci.mode_note}"
        case None:
            return ""
        case _:
            return state.obstacle.summary


def out_of_use(host: Host, pci_id: str = "") -> str:
    """Return why nothing can or must start on a host or one of its GPUs; empty if something can."""
    if host.connection is not Connection.CONNECTED:
        return f"host {host.connection.words}"
    if host.is_in_maintenance_mode:
        return "host is in maintenance mode"
    if host.cordon is not None:
        return f"host is cordoned: {host.cordon.reason}"
    closed = host.cordon_of_gpu(pci_id) if pci_id else None
    return f"cordoned: {closed.reason}" if closed is not None else ""


def counted_room(gpus: Sequence[PooledGpu]) -> Counter[str]:
    """Sum up, per profile, how many more all of these take if they take only that one."""
    total: Counter[str] = Counter()
    for gpu in gpus:
        total.update(gpu.room)
    return total


_BOUND = (StrandedKind.SIZE_LOCK, StrandedKind.SHARED_INSTANCE)


def find_stranded(gpu: GpuState, needs: Sequence[VgpuNeed]) -> tuple[Stranding, ...]:
    """List the stranded parts of a GPU with vGPUs; `needs` are the profiles that it could be given.

    Nothing is stranded on an idle GPU, and nothing is reported for one with unknown holders.
    """
    if gpu.board is None or gpu.obstacle is not None or not gpu.held:
        return ()
    if any(held.need is None for held in gpu.held):
        return ()
    if gpu.shared_as is Sharing.MIG:
        return tuple(_of_mig(gpu, needs))
    if gpu.mode is VgpuMode.MIXED_SIZE:
        return tuple(_of_mixed_sizes(gpu, needs))
    return tuple(_of_same_size(gpu))


def _of_same_size(gpu: GpuState) -> Iterable[Stranding]:
    need = next(held.need for held in gpu.held if held.need is not None)
    room = gpu.room(need)
    bound = room * need.framebuffer_mib
    lost = gpu.free_framebuffer_mib - bound
    vms = _vms(gpu)
    if bound:
        words = f"locked to {need.size_gb} GB by {listed(vms)}"
        yield Stranding(StrandedKind.SIZE_LOCK, words, bound, size_gb=need.size_gb, vms=vms)
    if lost >= LEAST_MIB:
        words = f"{whole_gib(lost)} is not enough for another {need.size_gb} GB"
        if not room and lost >= need.framebuffer_mib:
            words = f"{whole_gib(lost)} more than {need.size_gb} GB vGPUs can use"
        yield Stranding(StrandedKind.FRAMEBUFFER, words, lost, vms=vms)


def _of_mixed_sizes(gpu: GpuState, needs: Sequence[VgpuNeed]) -> Iterable[Stranding]:
    known = [need for need in needs if need.mixed_starts is not None and not need.is_mig]
    if gpu.board is None or not known or any(held.start is None for held in gpu.held):
        yield from _of_unpublished_placements(gpu, needs)
        return
    region = gpu.board.framebuffer_gb
    taken = _taken((held.start, held.need.size_gb) for held in gpu.held if held.need)
    places = {(start, need.size_gb, 0) for need in known for start in need.mixed_starts or ()}
    free = [place for place in range(region) if place not in taken]
    lost = len(free) - _most(frozenset(places), taken, region, 0, counts_memory=True)
    if lost:
        words = f"{lost} GB at invalid positions (free: GB {_runs(free)})"
        yield Stranding(
            StrandedKind.PLACEMENT, words, lost * gpu.board.framebuffer_mib // region, vms=_vms(gpu)
        )


def _of_unpublished_placements(gpu: GpuState, needs: Sequence[VgpuNeed]) -> Iterable[Stranding]:
    """Without published placements, only parts that are too small for any size are known to be lost."""
    lost = gpu.free_framebuffer_mib
    if lost >= LEAST_MIB and all(gpu.refuse(need) is not None for need in needs):
        yield Stranding(
            StrandedKind.FRAMEBUFFER, f"{whole_gib(lost)} is not enough for any size", lost, vms=_vms(gpu)
        )


def _of_mig(gpu: GpuState, needs: Sequence[VgpuNeed]) -> Iterable[Stranding]:
    geometry = gpu.board.mig if gpu.board else None
    if gpu.board is None or geometry is None or any(held.start is None for held in gpu.held):
        return
    region = geometry.memory_slices
    instances = {held.start: held.need for held in gpu.held if held.need is not None}
    taken = _taken((start, need.mig_size) for start, need in instances.items())
    compute = geometry.compute_slices - sum(need.mig_compute for need in instances.values())
    places = frozenset(
        (start, need.mig_size, need.mig_compute) for need in needs if need.is_mig for start in need.mig_starts
    )
    free = [place for place in range(region) if place not in taken]
    lost = len(free) - _most(places, taken, region, compute, counts_memory=True)
    idle = compute - _most(places, taken, region, compute, counts_memory=False)
    vms = _vms(gpu)
    if lost:
        why = "no compute slices left" if not compute else "not a valid position for any profile"
        where = f"slice {_runs(free)}" if len(free) == 1 else f"slices {_runs(free)}"
        words = f"{counted(lost, 'memory slice')} unusable: {why} (free: {where})"
        size = lost * gpu.board.framebuffer_mib // region
        yield Stranding(StrandedKind.MEMORY_SLICES, words, size, vms=vms)
    if idle:
        why = "no memory left" if not free else "not a valid position for any profile"
        words = f"{counted(idle, 'compute slice')} unused: {why}"
        yield Stranding(StrandedKind.COMPUTE_SLICES, words, compute_slices=idle, vms=vms)
    yield from _of_shared_instances(gpu)


def _of_shared_instances(gpu: GpuState) -> Iterable[Stranding]:
    """Instances that several vGPUs of one profile share by turns, if some of these are still free."""
    by_start: dict[int, list[str]] = {}
    needs: dict[int, VgpuNeed] = {}
    for held in gpu.held:
        if held.need is not None and held.start is not None:
            by_start.setdefault(held.start, []).append(held.vm)
            needs[held.start] = held.need
    for start, vms in sorted(by_start.items()):
        need = needs[start]
        left = need.mig_per_instance - len(vms)
        if left > 0:
            holders = tuple(dict.fromkeys(vms))
            words = f"instance at slice {start} locked to {need.name} by {listed(holders)}"
            size = left * need.framebuffer_mib
            yield Stranding(StrandedKind.SHARED_INSTANCE, words, size, size_gb=need.size_gb, vms=holders)


Place = tuple[int, int, int]
"""A possible place: start, length, and its compute slices."""


def _most(
    places: frozenset[Place], taken: frozenset[int], region: int, compute: int, *, counts_memory: bool
) -> int:
    """Return the most memory, in slices or GB, or the most compute that could still be given away."""
    by_start: dict[int, list[Place]] = {}
    for place in places:
        start, length, _ = place
        if start + length <= region and taken.isdisjoint(range(start, start + length)):
            by_start.setdefault(start, []).append(place)

    @cache
    def best(position: int, left: int) -> int:
        if position >= region:
            return 0
        found = best(position + 1, left)
        for _, length, cost in by_start.get(position, ()):
            if cost <= left:
                gain = length if counts_memory else cost
                found = max(found, gain + best(position + length, left - cost))
        return found

    return best(0, compute)


def _taken(spans: Iterable[tuple[int | None, int]]) -> frozenset[int]:
    return frozenset(
        place for start, length in spans if start is not None for place in range(start, start + length)
    )


def _runs(places: Sequence[int]) -> str:
    """Write sorted places in short: 0, 1, 2, 7 become "0-2, 7"."""
    cuts = [0, *(at for at, (one, two) in enumerate(pairwise(places), 1) if two != one + 1), len(places)]
    runs = [places[first:end] for first, end in pairwise(cuts)]
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else f"{run[0]}" for run in runs if run)


def _vms(gpu: GpuState) -> tuple[str, ...]:
    return tuple(dict.fromkeys(held.vm for held in gpu.held))


def find_lost_links(found: HostCapacity) -> dict[str, tuple[Stranding, ...]]:
    """Say of each idle GPU, by its address, which sizes of group it can no longer be in."""
    holders = [tuple(dict.fromkeys(held.vm for held in gpu.held)) for gpu in found.gpus]
    taken = {index for index in range(len(holders)) if holders[index]}
    lost: dict[str, tuple[Stranding, ...]] = {}
    for index, gpu in enumerate(found.gpus):
        own = [one for one in found.peer_sets if index in one]
        broken = [one for one in own if one & taken]
        sizes = {len(one) for one in own} - {len(one) for one in own if one not in broken}
        if holders[index] or not sizes:
            continue
        culprits = sorted({other for one in broken if len(one) in sizes for other in one & taken})
        vms = tuple(dict.fromkeys(vm for other in culprits for vm in holders[other]))
        addresses = {found.gpus[other].pci_id: None for other in culprits}
        is_alone = all(_is_alone(other, holders, found) for other in culprits)
        words = _words(sorted(sizes), tuple(addresses), vms, is_alone=is_alone)
        lost[gpu.pci_id] = (Stranding(StrandedKind.NVLINK, words, vms=vms),)
    return lost


def _is_alone(index: int, holders: Sequence[Sequence[str]], found: HostCapacity) -> bool:
    """Whether none of a GPU's VMs has another GPU that could be its peer."""
    domain = frozenset[int]().union(*(one for one in found.peer_sets if index in one))
    others = {vm for other in domain - {index} for vm in holders[other]}
    return bool(domain) and others.isdisjoint(holders[index])


def _words(sizes: Sequence[int], addresses: Sequence[str], vms: Sequence[str], *, is_alone: bool) -> str:
    if sizes == [PAIR] and len(addresses) == 1 and is_alone:
        return f"NVLink peer {addresses[0]} is used individually by {listed(vms)}"
    groups = " or ".join(str(size) for size in sizes)
    return (
        f"no NVLink group of {groups} is free: {listed(vms)} {('has' if len(vms) == 1 else 'have')} "
        "GPUs in it"
    )
