"""The number of further VMs that fit: of a profile, or by a plan file, within quotas and reservations.

They are placed as planning would place so many of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from fractions import Fraction
from functools import partial

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.model.desired import DesiredPlan, DesiredPower, DesiredVm
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.reservations import Quotas, Reservation
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import matches_any
from vgpu_cfg.planning.placement.demand import Demand, Shape
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.pool.fit import HostFit, how_many
from vgpu_cfg.planning.pool.quotas import Held, HoldingReader, HoldingVm, ShareRoom, most_that, share_rooms
from vgpu_cfg.planning.pool.reservations import (
    Booking,
    EstateGpus,
    Moment,
    Shortage,
    is_waiting,
    named_moids,
    reservation_wanted,
)
from vgpu_cfg.planning.pool.spare import ClusterSpare, spare_states
from vgpu_cfg.planning.vms.checks.gpu_checks import OfferedBy, check_gpus
from vgpu_cfg.planning.vms.lookup.baseline import Baseline, hosts_in_order, make_baseline, place_demands
from vgpu_cfg.planning.vms.lookup.gpu_choice import with_profiles
from vgpu_cfg.planning.vms.lookup.vm_resolver import VmResolver


@dataclass(frozen=True, slots=True)
class LaterRoom:
    """A moment from which on fewer are allowed, because of a board's free GPUs in a cluster then.

    `text` describes that; `accounts` are the last authors of the moment's reservations, in their order.
    """

    count: int
    cluster: str
    board: str
    text: str
    moment: Moment
    accounts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Rooms:
    """The limits of how many are allowed: shares, and moments in their order, each with fewer than before.

    `allowed` is how many a plan may have, None without a limit; of a profile, without an end and for any
    owner; `lasts` is whether it has no end. With `is_waiting` the plan's time is still to come: its GPUs are
    reserved then, and the present free capacity does not matter. `spares` are those of clusters now.
    """

    shares: tuple[ShareRoom, ...] = ()
    later: tuple[LaterRoom, ...] = ()
    allowed: int | None = None
    is_waiting: bool = False
    lasts: bool = True
    spares: tuple[ClusterSpare, ...] = ()


@dataclass(frozen=True, slots=True)
class Fits:
    """The answer: a row per host in question, with the request in numbers.

    `errors` are findings that keep the VM off every host, regardless of free capacity; then there are no
    rows. `rooms` is how many of them a plan may have, by shares and reservations.
    """

    hosts: tuple[HostFit, ...]
    profiles: tuple[str, ...]
    cpus: int = 0
    memory_mib: int = 0
    errors: tuple[Diagnostic, ...] = ()
    rooms: Rooms = field(default_factory=Rooms)

    @property
    def total(self) -> int:
        """How many fit in all."""
        return _total(self.hosts)

    @property
    def allowed(self) -> int:
        """How many a plan may take."""
        return self.total if self.rooms.allowed is None else self.rooms.allowed


@dataclass(slots=True)
class CurrentHosts:
    """The hosts as they are, read once for any number of questions."""

    observed: Inventory
    catalog: Catalog
    reader: CapacityReader = field(init=False)
    hosts: list[Host] = field(init=False)
    states: list[HostState] = field(init=False)

    def __post_init__(self) -> None:
        self.reader = CapacityReader(self.observed, self.catalog)
        self.hosts = hosts_in_order(self.observed)
        baseline: Baseline = make_baseline(self.hosts, self.observed, (), (), self.reader, Findings())
        self.states = baseline.states

    def fit_gpu(
        self, gpu: GpuEntry, wants_host: Callable[[str], bool], quotas: Sequence[Quotas] = ()
    ) -> Fits:
        """Count one more vGPU of a profile, or of the smallest that has the requested memory.

        Only GPUs decide: it says nothing of CPUs and memory of VMs.
        """
        requested = (with_profiles(gpu, self.observed, self.catalog),)
        usable = tuple(
            (index, 0) for index, host in enumerate(self.hosts) if host.is_usable and wants_host(host.name)
        )
        shape = Shape(hosts=usable, variants=self.reader.variants(requested))
        found = how_many(self.states, shape)
        rooms = rooms_of_profile(self._copies(shape, self.states, found), quotas, _total(found))
        return Fits(found, tuple(one.name for one in requested[0].profile[:1]), rooms=rooms)

    def fit_vm(self, desired: DesiredPlan, vm: DesiredVm, wants_host: Callable[[str], bool]) -> Fits:
        """Count one more VM like one of a plan file, as if none of them existed by that name.

        Its clusters, hosts, networks, datastore and template decide as they do in planning. The plan's
        changes to hosts, and its other VMs, do not count before they exist.
        """
        findings = Findings.for_plan(desired)
        resolver = VmResolver(desired, self.observed, self.catalog, findings)
        vm = next(one for one in resolver.desired.vms if one.name == vm.name)
        folder = resolver.site.folder_of(vm)
        is_protected = resolver.is_protected(vm, folder)
        resolved = resolver.resolve(vm, folder, None) if not is_protected else None
        profiles = tuple(gpu.profile[0].name for gpu in vm.gpus if gpu.profile)
        if resolved is None:
            return Fits((), profiles, errors=_errors(findings))
        check_gpus(resolved, self.catalog, self.reader, OfferedBy(self.hosts), findings)
        pools = [resolver.site.pool_of(vm, one) for one in resolved.clusters] if vm.resource_pool else [""]
        if resolved.cannot_be_placed or all(pool is None for pool in pools):
            return Fits((), profiles, resolved.cpus, resolved.memory_mib, _errors(findings))
        resolver.shape(resolved)
        shape = self._narrowed(resolved.shape, wants_host)
        states: Sequence[HostState] = make_baseline(
            self.hosts, self.observed, (), (), self.reader, findings
        ).states
        if shape is None:
            return Fits((), profiles, resolved.cpus, resolved.memory_mib, _errors(findings))
        found = how_many(states, shape)
        copies = self._copies(shape, states, found, starts=vm.power is DesiredPower.ON)
        holding = copies.reader.found_by(resolved)
        against = Findings.for_plan(desired)
        rooms = rooms_of_vm(copies, desired, vm, holding, _total(found), against)
        return Fits(found, profiles, resolved.cpus, resolved.memory_mib, _errors(against), rooms)

    def _copies(
        self, shape: Shape, states: Sequence[HostState], found: Sequence[HostFit], *, starts: bool = True
    ) -> Copies:
        taking = [index for (index, _), fit in zip(shape.hosts, found, strict=True) if fit.count]
        reader = HoldingReader(self.observed, self.catalog, self.reader)
        return Copies(self.observed, self.hosts, states, shape, taking, reader, starts)

    def _narrowed(self, shape: Shape | None, wants_host: Callable[[str], bool]) -> Shape | None:
        if shape is None:
            return None
        return replace(shape, hosts=tuple(one for one in shape.hosts if wants_host(self.hosts[one[0]].name)))


def _total(found: Sequence[HostFit]) -> int:
    return sum(fit.count for fit in found)


def _errors(findings: Findings) -> tuple[Diagnostic, ...]:
    return tuple(found for found in findings.diagnostics() if found.severity == "error")


@dataclass(slots=True)
class Copies:
    """VMs of one shape next to running ones; `hosts` and their `states` are in the same order.

    `taking` are the indexes of the hosts that accept any of them, `starts` whether they are to run.
    """

    observed: Inventory
    hosts: Sequence[Host]
    states: Sequence[HostState]
    shape: Shape
    taking: Sequence[int]
    reader: HoldingReader
    starts: bool = True
    _placed: dict[int, Mapping[str, Fit]] = field(default_factory=dict)
    _alike: dict[tuple[str, ...], HoldingVm | None] = field(default_factory=dict)

    def placed(self, count: int) -> Mapping[str, Fit]:
        """Return where so many of them go, by their names."""
        if count not in self._placed:
            width = len(str(count))
            names = [f"copy-{number:0{width}}" for number in range(count)]
            demands = [Demand(name, self.shape.line, self.shape) for name in names]
            self._placed[count] = place_demands(self.states, demands, names if self.starts else ()).fits
        return self._placed[count]

    def taken(self, count: int) -> set[tuple[str, str]]:
        """Return the GPUs that so many of them can be expected to get, by host and address."""
        return {
            (self.hosts[fit.host].moid, pci_id)
            for fit in self.placed(count).values()
            for pci_id in (*(self.states[fit.host].gpus[index].pci_id for index in fit.gpus), *fit.slots)
        }

    @property
    def possible(self) -> set[tuple[str, str]]:
        """Return the GPUs of all hosts that take any."""
        found = [(self.hosts[index], self.states[index]) for index in self.taking]
        return {
            (host.moid, pci_id)
            for host, state in found
            for pci_id in (*(gpu.pci_id for gpu in state.gpus), *(slot.pci.pci_id for slot in state.slots))
        }

    def held(self, count: int, clusters: tuple[str, ...]) -> list[HoldingVm]:
        """Return the holdings of so many of them, added up if equal; `clusters` are globs that matter.

        If they are the same at any place, nothing is placed.
        """
        if clusters not in self._alike:
            self._alike[clusters] = self._held_anywhere(clusters)
        if (alike := self._alike[clusters]) is not None:
            return [_times(alike, count)]
        found = Counter(
            self.reader.placed(Fit(0, fit.variant, slots=fit.slots), self.hosts[fit.host])
            for fit in self.placed(count).values()
        )
        return [_times(one, number) for one, number in found.items()]

    def _held_anywhere(self, clusters: tuple[str, ...]) -> HoldingVm | None:
        """Return what each of them holds, None where that differs between places."""
        if self.shape.fixed or self.shape.dynamic:
            return None
        found: dict[tuple[tuple[Held, ...], bool], HoldingVm] = {}
        for index in self.taking:
            boards = {gpu.board_key for gpu in self.states[index].gpus}
            for variant in self.shape.variants:
                if {need.board_key for need in variant} <= boards:
                    one = self.reader.placed(Fit(0, variant), self.hosts[index])
                    is_within = not clusters or matches_any(one.cluster, clusters)
                    found.setdefault((one.devices, is_within), one)
        return next(iter(found.values())) if len(found) == 1 else None


def _times(one: HoldingVm, count: int) -> HoldingVm:
    devices = (
        replace(device, gpus=device.gpus * count, framebuffer_mib=device.framebuffer_mib * count)
        for device in one.devices
    )
    return replace(one, devices=tuple(devices))


_NOBODY = PlanIdentity(name="")


def rooms_of_profile(copies: Copies, quotas: Sequence[Quotas], most: int) -> Rooms:
    """Return the limits of VMs of a profile, for any owner, that stay permanently."""
    shares = tuple(_shares(copies, quotas, None, most))
    spares = spare_states(quotas, copies.observed, copies.reader.catalog)
    kept = copies.observed.reservations
    if kept is None:
        return Rooms(shares, spares=spares)
    booking = Booking(_NOBODY, EstateGpus(copies.observed, copies.reader.catalog), kept)
    later = tuple(_later(_Asked(booking, copies), most))
    return Rooms(shares, later, later[-1].count if later else None, spares=spares)


def rooms_of_vm(
    copies: Copies,
    desired: DesiredPlan,
    vm: DesiredVm,
    holding: HoldingVm | None,
    most: int,
    findings: Findings,
) -> Rooms:
    """Return the limits of more VMs like one of a plan, next to the plan's existing ones.

    `holding` is the key of its share, None if it will not run. Obstacles to the plan's reservation are errors
    among the findings.
    """
    observed = copies.observed
    waits = is_waiting(desired, observed)
    shares = () if waits or holding is None else tuple(_shares(copies, desired.quotas, holding, most))
    later: tuple[LaterRoom, ...] = ()
    if observed.reservations is not None:
        gpus = EstateGpus(observed, copies.reader.catalog)
        own = named_moids(desired, observed)
        booking = Booking(desired.identity, gpus, observed.reservations, own)
        names = {one.name for one in observed.vms if one.moid in own}
        there = tuple(one for one in desired.vms if one.name in names)
        asked = _Asked(booking, copies, desired, vm, there, waits)
        asked.reserved(1, findings)
        later = tuple(_later(asked, _most_ever(copies, gpus) if waits else most))
    counts = [*(one.more for one in shares), *(one.count for one in later[-1:])]
    spares = spare_states(desired.quotas, observed, copies.reader.catalog)
    lasts = desired.ends is None
    return Rooms(shares, later, min(counts, default=None), waits, lasts=lasts, spares=spares)


def _most_ever(copies: Copies, gpus: EstateGpus) -> int:
    """Return a number that no estate takes of them, however little runs."""
    parts = (need.max_per_gpu for variant in copies.shape.variants for need in variant)
    return sum(gpus.totals.values()) * max(parts, default=1) + 1


def _shares(
    copies: Copies, quotas: Sequence[Quotas], holding: HoldingVm | None, most: int
) -> Iterator[ShareRoom]:
    if not quotas or not most:
        return
    running = copies.reader.all_held().values()
    for one in quotas:
        yield from share_rooms(one, running, holding, partial(copies.held, clusters=one.clusters), most)


@dataclass(slots=True)
class _Asked:
    """A plan's use and reservation with so many copies, next to its VMs that are `there`.

    Without a plan nothing is reserved, and the copies stay permanently.
    """

    booking: Booking
    copies: Copies
    desired: DesiredPlan | None = None
    vm: DesiredVm | None = None
    there: tuple[DesiredVm, ...] = ()
    waits: bool = False
    _standing: frozenset[tuple[str, str]] = field(init=False)

    def __post_init__(self) -> None:
        names = {vm.name for vm in self.there}
        self._standing = frozenset(
            one.key for one in self.booking.own_standing if {vm.name for vm in one.vms if vm} & names
        )

    def reserved(self, count: int, findings: Findings) -> Reservation | None:
        """Return the plan's reservation."""
        if self.desired is None or self.vm is None:
            return None
        vms = (*self.there, *(self.vm,) * count)
        meant = self.desired.model_copy(update={"vms": vms})
        return reservation_wanted(meant, self.booking.gpus, self.booking.kept, findings)

    def shortages(self, count: int) -> list[Shortage]:
        """Return where it takes too much."""
        taken = frozenset() if self.waits else self.copies.taken(count)
        return self._shortages(count, taken)

    def guess(self, free: int) -> int:
        """Return about how many so many free GPUs are enough for."""
        variant = self.copies.shape.variants[:1]
        gpus = sum((Fraction(1, need.max_per_gpu) for need in variant[0]), Fraction()) if variant else 1
        return int(max(0, free) / gpus)

    def at_worst(self, most: int) -> list[Shortage]:
        """Return where it would take too much with every GPU that so many copies could get."""
        return self._shortages(most, frozenset() if self.waits else self.copies.possible)

    def _shortages(self, count: int, taken: Collection[tuple[str, str]]) -> list[Shortage]:
        standing = frozenset() if self.waits else self._standing
        return list(self.booking.shortages(self.reserved(count, Findings()), standing.union(taken)))


def _later(asked: _Asked, most: int) -> Iterator[LaterRoom]:
    """Yield the moments from which on fewer may be taken than before, `most` at first."""
    booking, left = asked.booking, most

    def short_at(at: datetime, count: int) -> list[Shortage]:
        return [short for short in asked.shortages(count) if short.moment.at == at]

    def passes(at: datetime, count: int) -> bool:
        return not short_at(at, count)

    free: dict[datetime, int] = {}
    for worst in asked.at_worst(most):
        free[worst.moment.at] = min(worst.moment.free, free.get(worst.moment.at, worst.moment.free))
    for at in sorted(free):
        count = most_that(partial(passes, at), left, asked.guess(free[at]))
        if count < left:
            short = short_at(at, count + 1)[0]
            text = f"for {booking.where(short.pool)}, {booking.words(short.moment)}"
            accounts = tuple(booking.account_of(one) for one, _ in short.moment.reserved)
            cluster = booking.cluster_of(short.pool)
            yield LaterRoom(count, cluster, short.pool[1], text, short.moment, accounts)
            left = count
