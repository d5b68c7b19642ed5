"""Who brought a difference about: the author of this value, not of the last touch; else why nobody knows."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from vgpu_cfg.changes.kinds.create_vm import THE_VM
from vgpu_cfg.changes.kinds.guest import GUEST
from vgpu_cfg.changes.suggestion import Difference
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.observed.past import Past, PastEvent
from vgpu_cfg.planning.drift import IN_GUEST, NO_EVENT, NOT_MADE, POWER, with_authors
from vgpu_cfg.planning.findings.codes import Code

NOTHING = Past()
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
VM = Subject(kind="vm", name="hvd-01", moid="vm-1")
CPUS = Difference(subject=VM, what="cpus", wanted="6", found="2", sets={"numCPUs": "6"})
GPU = Difference(
    subject=VM, what="gpu", wanted="grid_a100-4c", sets={"deviceChange[1].backing.vgpu": "grid_a100-4c"}
)
EXTRA = Difference(subject=VM, what="gpu", found="grid_a100-4c", sets={"deviceChange[1].operation": "remove"})
DRS = Difference(subject=VM, what="drs", wanted="off", sets={"drsVmConfig.enabled": "false"})
OFF = Difference(subject=VM, what=POWER, wanted="on", found="off")
GONE = Difference(subject=Subject(kind="vm", name="hvd-01"), what=THE_VM, wanted="there")
STAGE = Difference(subject=VM, what=GUEST, wanted="driver")
MOVED = Difference(subject=VM, what=Code.ELSEWHERE, found="it is on esx-02")


def event(kind: str, minutes: int, by: str, words: str = "", moid: str = "vm-1", **sets: str) -> PastEvent:
    at = NOON + timedelta(minutes=minutes)
    return PastEvent(kind=kind, moid=moid, name="hvd-01", at=at, by=by, sets=sets, words=words)


def reconfigured(minutes: int, by: str, **sets: str) -> PastEvent:
    return event("VmReconfiguredEvent", minutes, by, **sets)


def devices(minutes: int, by: str, done: str) -> PastEvent:
    return reconfigured(minutes, by).model_copy(update={"sets": {"device[vgpu]": done}})


def author(one: Difference, *events: PastEvent, past: Past = NOTHING) -> tuple[str, str]:
    (told,) = with_authors([one], past.model_copy(update={"events": events}))
    assert (told.at is None) == (not told.by)
    return told.by, told.why_unknown


@pytest.mark.parametrize(
    ("one", "events", "by"),
    [
        (CPUS, (reconfigured(1, "tool", numCPUs="6"), reconfigured(2, "eve", numCPUs="2")), "eve"),
        (CPUS, (reconfigured(2, "eve", numCPUs="2"), reconfigured(3, "bob", memoryMB="8")), "eve"),
        (CPUS, (reconfigured(1, "", numCPUs="2"),), "vCenter itself"),
        (GPU, (devices(1, "tool", "add grid_a100-4c"), devices(2, "eve", "remove grid_a100-4c")), "eve"),
        (EXTRA, (devices(2, "eve", "add grid_a100-4c"),), "eve"),
        (OFF, (event("VmPoweredOnEvent", 1, "tool"), event("VmGuestShutdownEvent", 2, "eve")), "eve"),
        (GONE, (event("VmRemovedEvent", 1, "eve", moid="vm-9"),), "eve"),
        (MOVED, (event("DrsVmMigratedEvent", 1, ""),), "vCenter itself"),
        (DRS, (event("ClusterReconfiguredEvent", 1, "eve", "drsVmConfig[vm-1]", moid="domain-1"),), "eve"),
    ],
)
def test_the_newest_event_that_wrote_the_value_tells(
    one: Difference, events: tuple[PastEvent, ...], by: str
) -> None:
    assert author(one, *events) == (by, "")
    assert author(one, *reversed(events)) == (by, "")


@pytest.mark.parametrize(
    ("one", "events", "why"),
    [
        (CPUS, (), NO_EVENT),
        (CPUS, (reconfigured(1, "tool", memoryMB="6"),), NO_EVENT),
        (CPUS, (reconfigured(1, "eve", numCPUs="2"), reconfigured(2, "tool", numCPUs="6")), NO_EVENT),
        (CPUS, (reconfigured(1, "eve", numCPUs="2").model_copy(update={"moid": "vm-2"}),), NO_EVENT),
        (GPU, (devices(1, "tool", "add grid_a100-4c"),), NO_EVENT),
        (OFF, (event("VmPoweredOffEvent", 1, "eve"), event("VmPoweredOnEvent", 2, "tool")), NO_EVENT),
        (GONE, (), NOT_MADE),
        (GONE, (event("VmRemovedEvent", 1, "eve"), event("VmClonedEvent", 2, "tool")), NO_EVENT),
        (DRS, (event("ClusterReconfiguredEvent", 1, "eve", "drsVmConfig[vm-2]", moid="domain-1"),), NO_EVENT),
        (STAGE, (), IN_GUEST),
    ],
)
def test_what_no_event_tells_is_unknown(one: Difference, events: tuple[PastEvent, ...], why: str) -> None:
    assert author(one, *events) == ("", why)


def test_what_may_be_older_than_the_events_is_told_so() -> None:
    since = NOON - timedelta(days=30)
    older, younger = since - timedelta(days=1), since + timedelta(days=1)
    reach = "older than the oldest vCenter event (2026-10-21 12:00)"
    assert author(CPUS, past=Past(since=since, made_at={"vm-1": older})) == ("", reach)
    assert author(CPUS, past=Past(since=since)) == ("", reach)
    assert author(CPUS, past=Past(since=since, made_at={"vm-1": younger})) == ("", NO_EVENT)


def test_where_events_cannot_be_read_each_says_why() -> None:
    assert author(CPUS, past=Past(unread="the account may not read events")) == (
        "",
        "the account may not read events",
    )
