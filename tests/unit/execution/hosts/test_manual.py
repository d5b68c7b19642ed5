from __future__ import annotations

import json

from tests.fakes.fake_hosts import FakeHosts
from tests.unit.execution.host_makers import (
    BIOS,
    LIVE,
    MIG,
    by_hand,
    change,
    enter,
    estate,
    in_order,
    leave,
    run,
)
from tests.unit.execution.makers import statuses
from vgpu_cfg.changes.change import ManualStep
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.errors import NotPermitted
from vgpu_cfg.execution import exit_code_of, step_digest
from vgpu_cfg.model.observed.host_facts import HostAttribute

DONE = {"done_by_hand": frozenset({"by hand esx-01"})}


def kept(server: FakeHosts) -> dict[str, str]:
    found: dict[str, str] = json.loads(server.host("esx-01").attributes.get(HostAttribute.DONE, "{}"))
    return found


def test_the_digest_covers_what_the_step_says_and_not_what_surrounds_it() -> None:
    step = by_hand(text="switch SR-IOV on", commands=("a", "b"))
    assert len(step_digest(step)) == 16
    assert step_digest(step) == step_digest(step.model_copy(update={"id": "other", "needs": ("x",)}))
    for update in ({"text": "switch it off"}, {"proof": "see it"}, {"commands": ("a b",)}):
        assert step_digest(step) != step_digest(step.model_copy(update=update))


def test_an_acknowledged_step_is_kept_on_the_host_and_counts_in_the_next_run() -> None:
    server = estate()
    step = by_hand(text="switch SR-IOV on")
    after = change(LIVE, "esx-01", step.id)
    report, _ = run(server, step, after)
    assert (statuses(report)[step.id], exit_code_of(report)) == ("skipped", 7)
    assert kept(server) == {}
    report, _ = run(server, step, after, options=DONE)
    assert (statuses(report)[step.id], report.outcomes[0].message) == ("not_needed", "done manually")
    assert kept(server) == {step.id: step_digest(step)}
    report, _ = run(server, step, after)
    assert report.outcomes[0].message == "completed manually, as confirmed on the host"
    assert exit_code_of(report) == 0


def test_an_acknowledgement_stops_counting_when_the_step_says_something_else() -> None:
    server = estate()
    server.host("esx-01").attributes[HostAttribute.DONE] = json.dumps({"other": "1", "by hand esx-01": "2"})
    report, _ = run(server, by_hand())
    assert report.waiting_for == ("by hand esx-01",)
    run(server, by_hand(), options=DONE)
    assert kept(server) == {"other": "1", "by hand esx-01": step_digest(by_hand())}


def test_what_a_reading_proves_needs_no_word_and_no_word_of_it_is_kept() -> None:
    server = estate()
    step = by_hand(proves=(LIVE,))
    report, _ = run(server, step)
    assert report.waiting_for == (step.id,)
    report, _ = run(server, step, options=DONE)
    assert statuses(report) == {step.id: "not_needed"}
    assert kept(server) == {}
    server.host("esx-01").configure("live", "on")
    report, _ = run(server, step)
    assert report.outcomes[0].message == "detected as complete"


def test_a_word_that_was_kept_does_not_stand_against_a_reading() -> None:
    server = estate()
    step = by_hand(proves=(LIVE,))
    server.host("esx-01").attributes[HostAttribute.DONE] = json.dumps({"live": "on"})
    report, _ = run(server, step)
    assert report.waiting_for == (step.id,)


def test_what_was_acknowledged_and_nothing_shows_does_not_keep_the_host_down() -> None:
    server = estate()
    step = by_hand(proves=(BIOS,))
    changes = in_order(enter(), step, leave(settles=(BIOS, LIVE)))
    server.host("esx-01").configure("live", "on")
    report, _ = run(server, *changes, options=DONE)
    assert statuses(report)["leave esx-01"] == "done"
    assert kept(server) == {"bios": "enabled"}
    report, _ = run(server, *changes)
    assert statuses(report)["leave esx-01"] == "done"


def test_what_is_done_by_hand_since_the_shell_is_closed_is_believed() -> None:
    server = estate()
    step = by_hand(proves=(MIG,))
    changes = in_order(enter(), step, leave(settles=(MIG,)))
    report, _ = run(server, *changes, access=None, options=DONE)
    assert statuses(report)["leave esx-01"] == "done"
    assert kept(server) == {"mig": "on"}


def test_a_host_that_is_switched_off_keeps_no_word() -> None:
    server = estate()
    server.host("esx-01").connected = False
    report, _ = run(server, by_hand(), options=DONE)
    assert statuses(report) == {"by hand esx-01": "not_needed"}
    assert kept(server) == {}


def test_a_word_that_cannot_be_kept_counts_for_this_run() -> None:
    server = estate(refused={("set_host_attribute", 1): NotPermitted("no right to set attributes")})
    report, events = run(server, by_hand(), options=DONE)
    assert statuses(report) == {"by hand esx-01": "not_needed"}
    assert "no right to set attributes" in [event.message for event in events]


def test_a_step_at_no_host_is_done_when_somebody_says_so() -> None:
    server = estate()
    step = ManualStep(id="switch", subject=Subject(kind="network", name="roce-111"), text="set MTU 9216")
    report, _ = run(server, step)
    assert report.waiting_for == ("switch",)
    report, _ = run(server, step, options={"done_by_hand": frozenset({"switch"})})
    assert statuses(report) == {"switch": "not_needed"}
    assert server.asked() == []
