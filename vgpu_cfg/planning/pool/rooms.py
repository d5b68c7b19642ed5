"""The number of fitting VMs that a plan may have: within shares of the GPUs, and other reservations.

It is asked as planning would judge so many of them, on the places that planning would give them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from fractions import Fraction
from functools import partial

from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.reservations import Quotas, Reservation
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.pool.copies import Copies
from vgpu_cfg.planning.pool.quotas import HoldingVm, ShareRoom, share_rooms
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
from vgpu_cfg.planning.pool.stranding import most_that

_NOBODY = PlanIdentity(name="")


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
            text = f"of {booking.where(short.pool)}, {booking.words(short.moment)}"
            accounts = tuple(booking.account_of(one) for one, _ in short.moment.reserved)
            cluster = booking.cluster_of(short.pool)
            yield LaterRoom(count, cluster, short.pool[1], text, short.moment, accounts)
            left = count
