"""A plan's reservation, the calendar of all of them, and whether each is available at every moment.

Counted are whole GPUs by cluster and board, and never too few: vGPUs of one profile need as many GPUs as they
fill, rounded up, and share none with another profile. Every GPU with a running VM counts. A VM without a
reservation is assumed to stay; one of a reserved plan goes when the reservation ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.change import SetReservation
from vgpu_cfg.changes.values import Placement, Subject
from vgpu_cfg.model.desired import DesiredPlan, DesiredPower
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_file import DeviceEntry, GpuEntry
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.reservations import KeptReservation, Reservation, Reservations, ReservedGpus
from vgpu_cfg.model.wording import counted, gib, listed
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader, PassthroughSlot, is_match
from vgpu_cfg.planning.estate.ownership import change_of_reservation
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.lookup.gpu_choice import with_choices

Pool = tuple[str, str]
"""The GPUs of one board (its key) in one cluster (its moid)."""

_MOMENT = "%Y-%m-%d %H:%M"
_ANOTHER_TIME = (
    "reserve fewer GPUs or change the period (`from`, `until`); `vgpu-cfg inventory --reservations` lists "
    "all reservations"
)


def now_of(observed: Inventory) -> datetime:
    """Return what time it is: by vCenter's clock where it was asked."""
    asked = observed.locks or observed.reservations
    return asked.now if asked is not None else observed.read_at


def is_waiting(desired: DesiredPlan, observed: Inventory) -> bool:
    """Whether the time of a plan is still to come: then its GPUs are reserved, and nothing else is done."""
    return desired.begins is not None and now_of(observed) < desired.begins


def report_waiting(desired: DesiredPlan, findings: Findings) -> None:
    """Say when a plan begins, and what becomes of it until then."""
    begins = f"the plan starts at {desired.begins:{_MOMENT}} UTC"
    message = f"{begins}; until then, `apply` only reserves its GPUs and creates no VMs"
    findings.add(Code.RESERVED_FIRST, Subject(kind="plan", name=desired.name), message)


def plan_reservation(
    desired: DesiredPlan,
    observed: Inventory,
    catalog: Catalog,
    placements: Sequence[Placement],
    deleted: Sequence[Vm],
    findings: Findings,
) -> Iterator[SetReservation]:
    """Yield the changes of the plan's reservation; refuse capacity that others have reserved.

    `placements` are the places of the plan's VMs, `deleted` those of it that go; none before its time.
    """
    kept = observed.reservations
    if kept is None:
        return
    reserved = kept.of_plan(desired.identity)
    if not kept.kept and desired.ends is None:
        return
    if desired.ends is not None and desired.ends <= kept.now:
        _report_end(desired, observed, findings)
    gpus = EstateGpus(observed, catalog)
    wanted = reservation_wanted(desired, gpus, kept, findings)
    if wanted is not None and reserved is None and kept.named(wanted.alarm_name) is not None:
        return
    own = named_moids(desired, observed) | {vm.moid for vm in deleted}
    _refuse_overbooking(desired, Booking(desired.identity, gpus, kept, own), wanted, placements, findings)
    if (reserved.reservation if reserved is not None else None) != wanted:
        yield change_of_reservation(desired, reserved, wanted)


def named_moids(desired: DesiredPlan, observed: Inventory) -> set[str]:
    """Return the VMs that are a plan's own and that its file names."""
    names = {vm.name for vm in desired.vms}
    return {vm.moid for vm in observed.vms if vm.name in names and vm.is_of(desired.identity)}


def reservation_wanted(
    desired: DesiredPlan, gpus: EstateGpus, kept: Reservations, findings: Findings
) -> Reservation | None:
    """Return a plan's reservation, None before and after all; an obstacle to it is an error.

    Its name may belong to another plan: that is an error, too.
    """
    if desired.begins is None or desired.ends is None or desired.ends <= kept.now:
        return None
    wanted = _wanted(desired, gpus, findings)
    if wanted is None or kept.of_plan(desired.identity) is not None:
        return wanted
    if (other := kept.named(wanted.alarm_name)) is not None:
        message = f"another plan with this name has reserved GPUs: {_words(other)}"
        remedy = "rename this plan, or use the other plan's ID"
        findings.add(Code.GPUS_RESERVED, Subject(kind="plan", name=desired.name), message, remedy)
    return wanted


def _report_end(desired: DesiredPlan, observed: Inventory, findings: Findings) -> None:
    running = [vm.name for vm in observed.vms if vm.is_on and vm.is_of(desired.identity)]
    if running:
        ended = f"its reservation ended at {desired.ends:{_MOMENT}} UTC"
        message = f"{ended}, but its VMs are still running: {fold_names(running)}"
        remedy = (
            "set a later `until`, or release the GPUs with `vgpu-cfg destroy`; VMs are not stopped "
            "automatically"
        )
        findings.add(Code.RESERVATION_ENDED, Subject(kind="plan", name=desired.name), message, remedy)


def _wanted(desired: DesiredPlan, gpus: EstateGpus, findings: Findings) -> Reservation | None:
    """Return a plan's reservation; an unknown need is an error of its VM."""
    observed = gpus.observed
    desired = with_choices(desired, observed, gpus.catalog)
    site = Site(desired, observed, Findings())
    needs: Counter[tuple[Pool, str]] = Counter()
    shares: dict[str, int] = {}
    is_told = True
    for vm in desired.vms:
        if vm.power is DesiredPower.OFF or not vm.gpus:
            continue
        clusters = site.clusters_of(vm) if len(vm.clusters) < 2 else ()
        if not vm.clusters:
            owners = {host.owner_moid for host in observed.hosts if host.gpus}
            clusters = tuple(one for one in clusters if one.moid in owners)
        if len(clusters) != 1:
            message = (
                "GPUs can be reserved in only one cluster, but the plan does not specify a single cluster"
            )
            findings.refuse_vm(Code.CANNOT_RESERVE, vm, message, "specify a single `cluster`")
            is_told = False
            continue
        for gpu in vm.gpus:
            found = _need(gpu, gpus, clusters[0].moid)
            if isinstance(found, str):
                one = "one board in `any_of`" if gpu.memory else "a single profile or model"
                findings.refuse_vm(Code.CANNOT_RESERVE, vm, found, f"specify {one}")
                is_told = False
                continue
            board, profile, shares[profile] = found
            needs[(clusters[0].moid, board), profile] += 1
    if not is_told or not needs or desired.begins is None or desired.ends is None:
        return None
    counts: Counter[Pool] = Counter()
    for (pool, profile), count in needs.items():
        counts[pool] += -(-count // shares[profile])
    labels = {cluster.moid: cluster.name for cluster in observed.clusters}
    holds = tuple(
        ReservedGpus(cluster=cluster, label=labels.get(cluster, ""), board=board, gpus=count)
        for (cluster, board), count in sorted(counts.items())
    )
    return Reservation(
        plan=desired.name, id=desired.id, begins=desired.begins, ends=desired.ends, holds=holds
    )


def _need(gpu: GpuEntry, gpus: EstateGpus, cluster: str) -> tuple[str, str, int] | str:
    """Return the board, the profile and how many of it fit on a GPU, or why that is unknown."""
    if gpu.pin:
        return "a GPU cannot be reserved by its PCI address: reservations are for a number of GPUs"
    if gpu.memory is not None:
        return _smallest(gpu, gpu.memory, gpus, cluster)
    if gpu.kind == "vgpu":
        if len(gpu.profile) != 1:
            return "cannot determine the profile to reserve from a list of profiles"
        needs = gpus.reader.needs(gpu.profile[0].name)
        boards = [key for key in needs if (cluster, key) in gpus.totals]
        if len(boards) != 1:
            return (
                f"{gpu.profile[0].name} must match exactly one board model in the cluster, but "
                "matches none or several"
            )
        return boards[0], gpu.profile[0].name, needs[boards[0]].max_per_gpu
    boards = sorted(gpus.boards_for(gpu.device, cluster))
    if len(boards) != 1:
        return (
            f"a GPU with {gpu.device} must match exactly one board model in the cluster, but matches "
            "none or several"
        )
    return boards[0], "", 1


def _smallest(gpu: GpuEntry, memory_mib: int, gpus: EstateGpus, cluster: str) -> tuple[str, str, int] | str:
    """Return the same of the smallest profile that serves, if only one of a cluster's boards has any."""
    needs = [need for one in gpu.profile for need in gpus.reader.needs(one.name).values()]
    serving = [need for need in needs if (cluster, need.board_key) in gpus.totals]
    boards = dict.fromkeys(need.board_key for need in serving)
    if len(boards) != 1:
        names = listed((gpus.catalog.boards[key].name for key in boards), shown=6) or "none"
        return (
            f"a reservation is for one board model, but several provide {gib(memory_mib)} of GPU "
            f"memory: {names}"
        )
    smallest = min(serving, key=lambda need: (need.size_gb, need.share))
    return smallest.board_key, smallest.name, smallest.max_per_gpu


@dataclass(frozen=True, slots=True)
class StandingGpu:
    """A GPU in use, and its VMs: None for a user that is no VM of the host."""

    pool: Pool
    key: tuple[str, str]
    vms: tuple[Vm | None, ...]


class EstateGpus:
    """The GPUs of an estate by pool, on hosts of clusters that respond, and their users."""

    def __init__(self, observed: Inventory, catalog: Catalog) -> None:
        self.observed, self.catalog = observed, catalog
        self.reader = CapacityReader(observed, catalog)
        self.totals: Counter[Pool] = Counter()
        self.pools: dict[tuple[str, str], Pool] = {}
        self.standing: list[StandingGpu] = []
        self._slots: dict[str, list[PassthroughSlot]] = {}
        for host in observed.hosts:
            if host.cluster_moid and host.connection is Connection.CONNECTED:
                self._take(host, host.cluster_moid)

    def _take(self, host: Host, cluster: str) -> None:
        capacity = self.reader.read(host)
        self._slots.setdefault(cluster, []).extend(capacity.slots)
        holders = {gpu.pci_id: {one.vm for one in gpu.held} for gpu in capacity.gpus}
        for slot in capacity.slots:
            if slot.holder and slot.pci.pci_id in holders:
                holders[slot.pci.pci_id].add(slot.holder)
        vms = {vm.name: vm for vm in self.observed.vms_by_host.get(host.moid, ())}
        for gpu in host.gpus:
            board = self.reader.board_of(gpu.pci)
            if board is None:
                continue
            pool = (cluster, board.key)
            self.totals[pool] += 1
            self.pools[host.moid, gpu.pci_id] = pool
            if names := holders[gpu.pci_id]:
                found = tuple(vms.get(name) for name in sorted(names))
                self.standing.append(StandingGpu(pool, (host.moid, gpu.pci_id), found))

    def boards_for(self, device: DeviceEntry, cluster: str) -> set[str]:
        """Return the boards of a cluster that a request for a whole GPU could mean."""
        slots = (slot for slot in self._slots.get(cluster, ()) if is_match(slot, device))
        return {slot.board.key for slot in slots if slot.board is not None}


@dataclass(frozen=True, slots=True)
class Moment:
    """The holders of a pool's GPUs at a moment: VMs that stay, and reservations with the holding of each."""

    at: datetime
    total: int
    staying: int
    reserved: tuple[tuple[Reservation, int], ...]

    @property
    def free(self) -> int:
        """How many are left; less than none where they are overbooked."""
        return self.total - self.staying - sum(gpus for _, gpus in self.reserved)


class Calendar:
    """The number of free GPUs of each pool over time, by their present users and by reservations.

    VMs of the moids `without` are left out.
    """

    def __init__(
        self,
        gpus: EstateGpus,
        reservations: Sequence[Reservation],
        now: datetime,
        without: Collection[str] = (),
    ) -> None:
        self.now, self.reservations = now, reservations
        self._totals = gpus.totals
        self.staying: set[tuple[str, str]] = set()
        self._staying: Counter[Pool] = Counter()
        self._running: Counter[tuple[Pool, str]] = Counter()
        for one in gpus.standing:
            owners = {self._owner(vm) for vm in one.vms if vm is None or vm.moid not in without}
            if "" in owners:
                self._staying[one.pool] += 1
                self.staying.add(one.key)
            elif owners:
                self._running[one.pool, min(owners)] += 1

    def _owner(self, vm: Vm | None) -> str:
        """Name the reservation that a VM belongs to and that holds now, by its alarm; "" for none."""
        if vm is None or vm.mark is None:
            return ""
        mark = PlanIdentity(name=vm.mark.plan, id=vm.mark.id)
        found = (one for one in self.reservations if one.is_of(mark) and one.is_on(self.now))
        return next((one.alarm_name for one in found), "")

    def running(self, pool: Pool, reservation: Reservation) -> int:
        """Count the GPUs of a pool with VMs of a present reservation, and no others."""
        return self._running[pool, reservation.alarm_name]

    def moments(self, pool: Pool, begins: datetime, ends: datetime | None) -> tuple[Moment, ...]:
        """Look at a pool at the beginning of a time, and whenever a reservation begins in it.

        In between GPUs are only given back. A reserved plan that runs on more than it reserved holds those.
        """
        met = [one for one in self.reservations if one.ends > begins and (ends is None or one.begins < ends)]
        starts = sorted({begins, *(one.begins for one in met if one.begins > begins)})
        return tuple(self.at(pool, moment) for moment in starts)

    def at(self, pool: Pool, moment: datetime) -> Moment:
        """Look at a pool at one moment."""
        held = tuple(
            (one, count)
            for one in self.reservations
            if one.is_on(moment) and (count := max(one.gpus_of(*pool), self._running[pool, one.alarm_name]))
        )
        return Moment(moment, self._totals[pool], self._staying[pool], held)


@dataclass(frozen=True, slots=True)
class Shortage:
    """A moment at which a plan would hold more GPUs of a pool than others leave."""

    pool: Pool
    take: int
    moment: Moment


class Booking:
    """A plan's possible share of the GPUs next to VMs that stay and other reservations.

    VMs of the moids `own`, which the plan names or deletes, count by their request, not as they run.
    """

    def __init__(
        self, plan: PlanIdentity, gpus: EstateGpus, kept: Reservations, own: Collection[str] = ()
    ) -> None:
        held = [one for one in kept.kept if one.reservation is not None and one.reservation.ends > kept.now]
        found = [one.reservation for one in held if one.reservation is not None]
        self.gpus, self.kept = gpus, kept
        self.others = [one for one in found if not one.is_of(plan)]
        self._was = next((one for one in found if one.is_of(plan)), None)
        self._accounts = {one.name: one.account for one in held}
        self.calendar = Calendar(gpus, self.others, kept.now, own)
        self.own_standing = [one for one in gpus.standing if {vm.moid for vm in one.vms if vm} & {*own}]
        self._before = Counter(one.pool for one in self.own_standing)

    def shortages(self, wanted: Reservation | None, taken: Collection[tuple[str, str]]) -> Iterator[Shortage]:
        """Yield the excesses of a plan that reserves the `wanted` GPUs, and whose VMs use these GPUs.

        A GPU is a host's moid and its address. Each pool's moments are in order.
        """
        if not self.others and wanted is None:
            return
        staying, pools = self.calendar.staying, self.gpus.pools
        placed = Counter(pools[key] for key in taken if key in pools and key not in staying)
        held = Counter({(one.cluster, one.board): one.gpus for one in wanted.holds} if wanted else {})
        begins = max(self.calendar.now, wanted.begins) if wanted is not None else self.calendar.now
        ends = wanted.ends if wanted is not None else None
        for pool in sorted({*placed, *held}):
            take = max(placed[pool], held[pool])
            if self._holds(pool, take, wanted) or take <= self._before[pool]:
                continue
            for moment in self.calendar.moments(pool, begins, ends):
                if moment.free < take and (moment.reserved or wanted is not None):
                    yield Shortage(pool, take, moment)

    def _holds(self, pool: Pool, take: int, wanted: Reservation | None) -> bool:
        """Whether the plan has reserved so much for all of that time already, however little others left."""
        was = self._was
        if was is None or wanted is None or take > was.gpus_of(*pool):
            return False
        return was.begins <= wanted.begins and wanted.ends <= was.ends

    def where(self, pool: Pool) -> str:
        """Name a pool: its board and its cluster."""
        return f"{pool[1]} in {self.cluster_of(pool)}"

    def cluster_of(self, pool: Pool) -> str:
        """Name a pool's cluster."""
        cluster = self.gpus.observed.cluster_by_moid.get(pool[0])
        return cluster.name if cluster else pool[0]

    def account_of(self, reservation: Reservation) -> str:
        """Return the last author of a reservation, "" if unknown."""
        return self._accounts.get(reservation.alarm_name, "")

    def words(self, moment: Moment) -> str:
        """Say who holds what of a pool at a moment, and till when."""
        held = [f"VMs without a reservation use {moment.staying}"] if moment.staying else []
        for one, count in moment.reserved:
            by = self.account_of(one)
            held.append(f"plan {one.plan}{f' ({by})' if by else ''} has reserved {count}, {one.period}")
        free = max(0, moment.free)
        of = f"{free} of {moment.total} {'is' if free == 1 else 'are'} free at {moment.at:{_MOMENT}} UTC"
        return f"{of}: {'; '.join(held)}" if held else of


def _refuse_overbooking(
    desired: DesiredPlan,
    booking: Booking,
    wanted: Reservation | None,
    placements: Sequence[Placement],
    findings: Findings,
) -> None:
    """Refuse a plan that uses capacity that others have reserved, now or at any moment of its time."""
    taken = {(one.host_moid, pci_id) for one in placements for pci_id in one.gpu_pci_ids}
    told = set[Pool]()
    for short in booking.shortages(wanted, taken):
        if short.pool not in told:
            told.add(short.pool)
            where = booking.where(short.pool)
            message = (
                f"the plan would use {counted(short.take, 'GPU')} ({where}), but "
                f"{booking.words(short.moment)}"
            )
            subject = Subject(kind="plan", name=desired.name)
            findings.add(Code.GPUS_RESERVED, subject, message, _ANOTHER_TIME)


def _words(kept: KeptReservation) -> str:
    return kept.reservation.words if kept.reservation is not None else "its description cannot be read"


@dataclass(frozen=True, slots=True)
class ReservedRow:
    """A plan's reservation of one board in one cluster. `state` is "now", "later" or "over".

    `running` counts its GPUs with VMs of the plan now, `account` wrote it last.
    """

    plan: str
    cluster: str
    board: str
    gpus: int
    running: int
    begins: datetime
    ends: datetime
    state: str
    account: str


@dataclass(frozen=True, slots=True)
class PoolCalendar:
    """The GPUs of one board in one cluster at every moment at which that changes."""

    cluster: str
    board: str
    moments: tuple[Moment, ...]


@dataclass(frozen=True, slots=True)
class ReservationCalendar:
    """All reservations; `unread` names the alarms with unreadable text."""

    now: datetime
    rows: tuple[ReservedRow, ...]
    pools: tuple[PoolCalendar, ...]
    unread: tuple[str, ...] = ()


def read_calendar(
    observed: Inventory,
    catalog: Catalog,
    kept: Reservations,
    wants_cluster: Callable[[str], bool] = lambda _: True,
) -> ReservationCalendar:
    """Put the reservations of the wanted clusters in order of time, with the free capacity over time."""
    gpus = EstateGpus(observed, catalog)
    all_of_them = [one.reservation for one in kept.kept if one.reservation is not None]
    calendar = Calendar(gpus, all_of_them, kept.now)
    rows = []
    for one in kept.kept:
        if one.reservation is None:
            continue
        begins, ends = one.reservation.begins, one.reservation.ends
        state = "later" if kept.now < begins else "now" if kept.now < ends else "over"
        rows += [
            ReservedRow(
                plan=one.reservation.plan,
                cluster=held.label or held.cluster,
                board=held.board,
                gpus=held.gpus,
                running=calendar.running((held.cluster, held.board), one.reservation),
                begins=begins,
                ends=ends,
                state=state,
                account=one.account,
            )
            for held in one.reservation.holds
            if wants_cluster(held.label or held.cluster)
        ]
    pools = []
    for pool in sorted({(held.cluster, held.board) for one in all_of_them for held in one.holds}):
        cluster = observed.cluster_by_moid.get(pool[0])
        name = cluster.name if cluster is not None else pool[0]
        times = {at for one in all_of_them if one.gpus_of(*pool) for at in (one.begins, one.ends)}
        later = sorted({kept.now, *(at for at in times if at > kept.now)})
        if wants_cluster(name):
            pools.append(PoolCalendar(name, pool[1], tuple(calendar.at(pool, at) for at in later)))
    return ReservationCalendar(
        kept.now,
        tuple(sorted(rows, key=lambda row: (row.begins, row.plan, row.cluster, row.board))),
        tuple(pools),
        tuple(one.name for one in kept.kept if one.reservation is None),
    )
