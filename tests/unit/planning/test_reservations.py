"""Reservations over time: what is free when, what counts to whom, and what an edited alarm comes to."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.plans.estate import READ_AT, make_inventory
from tests.unit.planning.desired_plans import codes, plan_for, planned, vm
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import SetReservation
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.model.reservations import Reservation, parse_reservation
from vgpu_cfg.planning.pool.reservations import Calendar, EstateGpus, read_calendar
from vgpu_cfg.render.layout.lines import plain
from vgpu_cfg.render.text.pool.use import render_reservations

POOL = ("cluster-gpu", "A100")
FULL = "grid_a100-40c"


def day(number: int) -> datetime:
    return READ_AT + timedelta(days=number)


def reserved(plan: str, begins: int, ends: int, gpus: int) -> Reservation:
    held = {"cluster": POOL[0], "label": "gpu", "board": POOL[1], "gpus": gpus}
    return Reservation.model_validate(
        {"plan": plan, "begins": day(begins), "ends": day(ends), "holds": [held]}
    )


def estate(vms: Mapping[str, Any], *reservations: Reservation) -> Inventory:
    """Observe two hosts with two A100 each."""
    gpus = [{"board": "A100", "pci": f"0000:{bus}:00.0", "node": 0} for bus in ("21", "e2")]
    hosts = {f"esx-0{number}": {"gpus": gpus} for number in (1, 2)}
    rows = {
        one.plan: {"board": "A100", "gpus": one.holds[0].gpus, "from": one.begins, "until": one.ends}
        for one in reservations
    }
    return make_inventory({"hosts": hosts, "vms": vms, "reservations": rows})


def running(plan: str = "", host: str = "esx-01", bus: str = "21") -> dict[str, Any]:
    row = {"host": host, "gpus": [FULL], "on": [f"0000:{bus}:00.0"], "memory_gib": 8}
    return row | ({"mark": plan} if plan else {})


def free(
    observed: Inventory, *reservations: Reservation, begins: int = 0, ends: int | None = None
) -> list[Any]:
    calendar = Calendar(EstateGpus(observed, load_catalog()), reservations, READ_AT)
    until = None if ends is None else day(ends)
    return [((one.at - READ_AT).days, one.free) for one in calendar.moments(POOL, day(begins), until)]


A, B = reserved("a", 2, 5, 3), reserved("b", 4, 9, 1)


@pytest.mark.parametrize(
    ("begins", "ends", "found"),
    [
        (0, None, [(0, 4), (2, 1), (4, 0)]),
        (0, 2, [(0, 4)]),
        (2, 4, [(2, 1)]),
        (3, 5, [(3, 1), (4, 0)]),
        (5, 9, [(5, 3)]),
        (9, None, [(9, 4)]),
    ],
)
def test_what_is_free_is_looked_at_whenever_a_reservation_begins(
    begins: int, ends: int | None, found: list[tuple[int, int]]
) -> None:
    assert free(estate({}), A, B, begins=begins, ends=ends) == found


def test_vms_of_no_reservation_stay_and_those_of_one_count_to_it_while_it_holds() -> None:
    now = reserved("a", -1, 3, 1)
    observed = estate({"x": running(), "y": running("a", bus="e2")})
    assert free(observed, now) == [(0, 2)]
    assert free(observed, now, begins=3) == [(3, 3)]
    assert free(observed) == [(0, 2)]


def test_a_reserved_plan_that_runs_on_more_than_it_reserved_holds_that() -> None:
    now = reserved("a", -1, 3, 1)
    observed = estate({"x": running("a"), "y": running("a", bus="e2"), "z": running("a", "esx-02")})
    assert free(observed, now) == [(0, 1)]


def test_gpus_of_hosts_that_do_not_respond_are_not_there() -> None:
    observed = estate({})
    first, second = observed.hosts
    lost = second.model_copy(update={"connection": Connection.NOT_RESPONDING})
    half = observed.model_copy(update={"hosts": (first, lost)})
    assert [EstateGpus(one, load_catalog()).totals[POOL] for one in (observed, half)] == [4, 2]


@pytest.mark.parametrize(
    ("wanted", "gpus"),
    [
        ([FULL], 1),
        (["grid_a100-20c"], 1),
        (["grid_a100-20c"] * 3, 2),
        (["grid_a100-10c"] * 4, 1),
        (["grid_a100-10c", "grid_a100-20c"], 2),
    ],
)
def test_a_plan_reserves_whole_gpus_for_each_profile(wanted: list[str], gpus: int) -> None:
    vms = [vm(f"v{number}", profile) for number, profile in enumerate(wanted)]
    plan = planned(plan_for(*vms, begins=day(2), ends=day(3)), estate({}))
    (change,) = plan.changes
    assert isinstance(change, SetReservation)
    assert change.reservation is not None
    assert [(one.board, one.gpus) for one in change.reservation.holds] == [("A100", gpus)]


def test_a_vm_that_shall_be_off_reserves_nothing() -> None:
    off = vm("v", FULL, power="off")
    assert planned(plan_for(off, begins=day(2), ends=day(3)), estate({})).changes == ()


@pytest.mark.parametrize("row", [{"clusters": ("gpu", "other")}, {"gpus": ({"pin": "0000:21:00.0"},)}])
def test_what_is_not_of_one_cluster_and_board_is_not_reserved(row: dict[str, Any]) -> None:
    plan = planned(plan_for(vm("v", FULL, **row), begins=day(2), ends=day(3)), estate({}))
    assert codes(plan) == ["VG268", "VG266"]
    assert plan.changes == ()


def test_the_only_cluster_with_gpus_need_not_be_named() -> None:
    plan = planned(plan_for(vm("v", FULL, clusters=()), begins=day(2), ends=day(3)), estate({}))
    (change,) = plan.changes
    assert isinstance(change, SetReservation)
    assert change.reservation is not None
    assert [(one.label, one.gpus) for one in change.reservation.holds] == [("gpu", 1)]


def test_a_running_plan_stays_in_sync_when_others_reserve_and_may_not_grow() -> None:
    others = reserved("other", 2, 5, 3)
    there = {"v": running() | {"mark": True, "memory_gib": 64, "cpus": 16}}

    def made(*names: str) -> Plan:
        return planned(plan_for(*(vm(name, FULL) for name in names)), estate(there, others))

    assert (codes(made("v")), made("v").changes) == ([], ())
    assert codes(made("v", "w")) == ["VG265"]


def test_an_alarm_that_somebody_edited_is_told_and_reserves_nothing() -> None:
    one = reserved("a", 2, 5, 3)
    assert parse_reservation(one.alarm_name, one.text) == one
    for name, text in (
        (one.alarm_name, "held for the course"),
        (one.alarm_name, one.text[:-3]),
        (f"{one.alarm_name}x", one.text),
        (one.alarm_name, one.text.replace('"gpus":3', '"gpus":-3')),
        (one.alarm_name, reserved("a", 5, 2, 3).text),
    ):
        assert parse_reservation(name, text) is None
    observed = estate({}, one)
    assert observed.reservations is not None
    edited = observed.reservations.kept[0].model_copy(update={"reservation": None})
    kept = observed.reservations.model_copy(update={"kept": (edited,)})
    found = read_calendar(observed, load_catalog(), kept)
    assert (found.rows, found.unread) == ((), (one.alarm_name,))
    text = plain(render_reservations(found, "vc", 120))
    assert "was edited and no longer contains a valid reservation." in text


def test_the_table_tells_who_holds_what_till_when_and_what_is_free_then() -> None:
    observed = estate({"x": running()}, A, B)
    assert observed.reservations is not None
    found = read_calendar(observed, load_catalog(), observed.reservations)
    text = plain(render_reservations(found, "vc", 120))
    for line in (
        "a     gpu      A100      3  2026-11-22 21:04  2026-11-25 21:04  later  anna",
        "gpu      A100   now                  4       1         0     3",
        "gpu      A100   2026-11-24 21:04     4       1         4    -1",
    ):
        assert line in text
    assert read_calendar(observed, load_catalog(), observed.reservations, lambda _: False).rows == ()


def test_a_moment_is_told_in_utc() -> None:
    one = reserved("a", 2, 5, 3).model_copy(update={"begins": datetime(2026, 1, 1, tzinfo=UTC)})
    assert one.period == "2026-01-01 00:00 to 2026-11-25 21:04 UTC"
