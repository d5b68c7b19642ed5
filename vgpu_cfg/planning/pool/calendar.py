"""All reservations of a vCenter, and how many GPUs would be free whenever one begins or ends."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.reservations import Reservations
from vgpu_cfg.planning.pool.reservations import Calendar, EstateGpus, Moment


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
