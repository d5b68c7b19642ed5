"""Doctor names locks, reservations, cordons and marks that were left behind, and none that are in use."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import cache

import pytest

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.cli.flows.doctor_flow import read_to_examine
from vgpu_cfg.model.locks import SILENT_AFTER, Lock, LockHolder, LockName, Locks
from vgpu_cfg.model.observed.cordon import Cordon
from vgpu_cfg.model.observed.host_facts import HostMark
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.reservations import KeptReservation, Reservation, Reservations, ReservedGpus
from vgpu_cfg.planning.doctor.ailments import Kind
from vgpu_cfg.planning.doctor.examine import examine
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
HOST = "esx-a100-01.lab"
LEFT = (Kind.LOCK, Kind.RESERVATION, Kind.CORDON, Kind.UNFINISHED)


@cache
def estate() -> Inventory:
    return read_to_examine(resolve_connection(ConnectionFlags(server="lab:two-a100")))


def left_behind(observed: Inventory) -> list[tuple[str, str, str]]:
    """List what is left behind: kinds with their subjects and owners."""
    found = examine(observed, load_catalog()).ailments
    return [(one.kind.value, one.subject, one.owner) for one in found if one.kind in LEFT]


def with_lock(observed: Inventory, ago: timedelta, *, told: bool = True) -> Inventory:
    """Lock the plan `train` by a run that was last heard of so long ago."""
    holder = LockHolder(run="r1", plan="train", user="jo", machine="m", since=NOW) if told else None
    name = LockName(kind="plan", key="train")
    lock = Lock(moid="alarm-1", name=name, holder=holder, beat_at=NOW - ago, account="LAB\\jo")
    return observed.model_copy(update={"locks": Locks(now=NOW, held=(lock,))})


def with_reservation(observed: Inventory, ends: datetime, *, told: bool = True) -> Inventory:
    holds = (ReservedGpus(cluster="c", board="A100", gpus=1),)
    own = Reservation(plan="course", begins=NOW - timedelta(days=9), ends=ends, holds=holds)
    kept = KeptReservation(
        moid="alarm-2", name="course", reservation=own if told else None, account="LAB\\ed"
    )
    return observed.model_copy(update={"reservations": Reservations(now=NOW, kept=(kept,))})


def with_host(observed: Inventory, **values: object) -> Inventory:
    return observed.model_copy(
        update={"hosts": tuple(host.model_copy(update=values) for host in observed.hosts)}
    )


MARK = HostMark(plan="train", since=NOW, reason="installs the driver")


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda seen: with_lock(seen, SILENT_AFTER), [("lock", "plan:train", "jo")]),
        (lambda seen: with_lock(seen, timedelta(minutes=1)), []),
        (lambda seen: with_lock(seen, timedelta(), told=False), [("lock", "plan:train", "LAB\\jo")]),
        (lambda seen: with_reservation(seen, NOW), [("reservation", "plan:course", "LAB\\ed")]),
        (lambda seen: with_reservation(seen, NOW + timedelta(seconds=1)), []),
        (
            lambda seen: with_reservation(seen, NOW + timedelta(days=1), told=False),
            [("reservation", "plan:course", "LAB\\ed")],
        ),
        (
            lambda seen: with_host(seen, cordons=(Cordon(attribute="a", reason="fans", by="jo"),)),
            [("cordon", f"host:{HOST}", "jo")],
        ),
        (
            lambda seen: with_host(seen, cordons=(Cordon(attribute="a", reason="x", pci_id="0000:21:00.0"),)),
            [("cordon", f"gpu:{HOST}/0000:21:00.0", "")],
        ),
        (lambda seen: with_host(seen, mark=MARK), [("unfinished", f"host:{HOST}", "plan train")]),
        (lambda seen: with_lock(with_host(seen, mark=MARK), timedelta(minutes=1)), []),
        (lambda seen: seen, []),
    ],
)
def test_what_is_left_behind_is_named_with_its_owner(
    change: Callable[[Inventory], Inventory], expected: list[tuple[str, str, str]]
) -> None:
    assert left_behind(change(estate())) == expected


def test_the_command_of_a_silent_lock_removes_it() -> None:
    found = examine(with_lock(estate(), SILENT_AFTER), load_catalog()).ailments
    assert [one.command for one in found if one.kind is Kind.LOCK] == ["vgpu-cfg unlock r1"]
