"""A plan's reservation: written, seen again, and what others did to it meanwhile."""

from __future__ import annotations

from datetime import timedelta

import pytest

from tests.fakes.fake_vcenter import START
from tests.unit.execution.makers import estate, run
from vgpu_cfg.changes.change import SetReservation
from vgpu_cfg.changes.report import OutcomeStatus
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.reservations import Reservation, ReservedGpus

OWN = Reservation(
    plan="demo",
    begins=START,
    ends=START + timedelta(days=1),
    holds=(ReservedGpus(cluster="domain-1", board="A100", gpus=2),),
)
LONGER = OWN.model_copy(update={"ends": START + timedelta(days=2)})
OTHERS = OWN.model_copy(update={"plan": "other"})


def reserve(reservation: Reservation | None, alarm: str = "") -> SetReservation:
    subject = Subject(kind="cluster", name="gpu", moid="domain-1")
    return SetReservation(id="reserve GPUs", subject=subject, reservation=reservation, alarm=alarm)


@pytest.mark.parametrize(
    ("before", "change", "after"),
    [
        ({}, reserve(OWN), {"alarm-new": OWN}),
        ({"alarm-9": OTHERS}, reserve(OWN), {"alarm-9": OTHERS, "alarm-new": OWN}),
        (
            {"alarm-1": OWN, "alarm-9": OTHERS},
            reserve(LONGER, "alarm-1"),
            {"alarm-1": LONGER, "alarm-9": OTHERS},
        ),
        ({"alarm-1": OWN, "alarm-9": OTHERS}, reserve(None, "alarm-1"), {"alarm-9": OTHERS}),
    ],
    ids=["the first", "beside that of others", "longer", "given back"],
)
def test_a_reservation_is_written_once(
    before: dict[str, Reservation], change: SetReservation, after: dict[str, Reservation]
) -> None:
    server = estate(reserved=dict(before))
    report, _ = run(server, change)
    (outcome,) = report.outcomes
    assert (outcome.status, outcome.message, outcome.tasks) == (OutcomeStatus.DONE, "", ())
    assert server.reserved == after
    assert server.calls == [("set_reservation", change.alarm)]


@pytest.mark.parametrize(
    ("before", "change"),
    [
        ({"alarm-1": OWN}, reserve(OWN, "alarm-1")),
        ({"alarm-2": OWN}, reserve(OWN, "alarm-1")),
        ({"alarm-9": OTHERS}, reserve(None, "alarm-1")),
    ],
    ids=["it is there", "under another alarm", "it is gone"],
)
def test_what_is_so_already_is_not_written(before: dict[str, Reservation], change: SetReservation) -> None:
    server = estate(reserved=dict(before))
    report, _ = run(server, change)
    (outcome,) = report.outcomes
    assert outcome.status is OutcomeStatus.NOT_NEEDED
    assert outcome.message
    assert (server.calls, server.reserved) == ([], before)


@pytest.mark.parametrize(
    ("fields", "change"),
    [
        ({"reserved": {"alarm-2": LONGER}}, reserve(OWN)),
        ({"reserved": {}, "drops": frozenset({"reservation"})}, reserve(OWN)),
        ({"reserved": {"alarm-1": OWN}, "drops": frozenset({"reservation"})}, reserve(None, "alarm-1")),
        ({}, reserve(OWN)),
    ],
    ids=["another has written it", "it does not show", "it stays", "none can be read"],
)
def test_what_does_not_show_afterwards_is_an_error(fields: dict[str, object], change: SetReservation) -> None:
    server = estate(**fields)
    before = dict(server.reserved or {})
    report, _ = run(server, change)
    (outcome,) = report.outcomes
    assert (outcome.status, outcome.subject) == (OutcomeStatus.FAILED, change.subject)
    assert outcome.message
    assert outcome.remedy
    assert (server.reserved or {}) == before
    assert server.started("set_reservation") == [change.alarm]
