"""Trials: nothing goes beyond what was shown, and nothing remains, wherever one ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import pytest

from tests.cli.command_line import CommandLine, Ran
from tests.cli.conftest import Serve
from tests.cli.host_watch import Watch, settings_of, watch_labs
from tests.cli.roles import ACCOUNT, as_account
from tests.cli.test_https import pinned
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.state.inventory import Alarm, LabState
from vgpu_cfg.lab.state.roles import Permission, Role

ESTATE = "two-a100"
SERVER = f"--server=lab:{ESTATE}"
TRIAL = ("trial", SERVER, "--yes")
CLEAN = ("trial", "--clean", "--all", "--yes", SERVER)


class Killed(BaseException):
    """The end of a process at a request: nothing that it would have done since is done."""


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return watch_labs(monkeypatch)


def as_json(ran: Ran) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(ran.out)
    return found


def verdicts(document: dict[str, Any]) -> dict[str, str]:
    return {one["id"]: one["verdict"] for one in document["beliefs"]}


def kept(vgpu_cfg: CommandLine) -> dict[str, Any]:
    """Return all of the estate that a trial must leave as it was: not events and tasks."""
    return settings_of(vgpu_cfg.lab(ESTATE).state)


def alarms(state: LabState) -> list[str]:
    return [alarm.name for alarm in state.all(Alarm)]


def killed_at(watch: Watch, number: int, *, is_answered: bool) -> Callable[[], bool]:
    """Let the process be killed at a request, before or after vCenter sees it; return whether it was."""
    seen = 0

    def count(_name: str) -> None:
        nonlocal seen
        seen += 1
        if seen > number or (seen == number and not is_answered):
            raise Killed

    def after(_name: str) -> None:
        if seen >= number:
            raise Killed

    watch.before_call, watch.after_call = count, after
    return lambda: seen >= number


def let_live(watch: Watch) -> None:
    watch.before_call = watch.after_call = lambda _name: None


def test_every_belief_about_alarms_and_events_holds_on_the_lab(vgpu_cfg: CommandLine) -> None:
    before = kept(vgpu_cfg)
    document = as_json(vgpu_cfg.done(*TRIAL, "--output", "json"))
    found = list(verdicts(document).values())
    assert (found.count("holds"), found.count("does not hold")) == (11, 0)
    assert verdicts(document)["alarm-names-are-unique-at-once"] == "not tried"
    assert document["left"] == []
    assert kept(vgpu_cfg) == before
    assert not alarms(vgpu_cfg.lab(ESTATE).state)


def test_both_faces_say_the_same(vgpu_cfg: CommandLine) -> None:
    document = as_json(vgpu_cfg.done(*TRIAL, "--output", "json"))
    told = vgpu_cfg.done(*TRIAL).told
    assert "holds: 11" in told
    assert all(one["statement"] in told for one in document["beliefs"] if one["verdict"] == "holds")
    assert all(f"{method} " in told for method in document["calls"])
    assert f"about {document['remains']['events']} events" in told


@pytest.mark.enable_socket
def test_two_requests_at_once_are_tried_over_a_wire(vgpu_cfg: CommandLine, serve: Serve) -> None:
    words = ("trial", "--yes", *pinned(serve(ESTATE)), "--output", "json")
    document = as_json(vgpu_cfg.done(*words, VGPU_CFG_PASSWORD="lab"))
    assert verdicts(document)["alarm-names-are-unique-at-once"] == "holds"


def test_no_call_was_not_shown(vgpu_cfg: CommandLine, watch: Watch) -> None:
    shown = as_json(vgpu_cfg.done(*TRIAL, "--output", "json"))["calls"]
    assert watch.writes
    assert all(count <= shown[name] for name, count in watch.writes.items())


def test_a_dry_run_and_a_question_without_a_terminal_change_nothing(
    vgpu_cfg: CommandLine, watch: Watch
) -> None:
    assert "CreateAlarm 2" in vgpu_cfg.done("trial", SERVER, "--dry-run").told
    asked = vgpu_cfg("trial", SERVER)
    assert asked.code == 2
    assert "add --yes" in asked.told
    assert not watch.writes


def test_without_the_right_to_delete_it_makes_nothing(vgpu_cfg: CommandLine, watch: Watch) -> None:
    vgpu_cfg.script(ESTATE, lacking=["Alarm.Delete", "Global.LogEvent"])
    refused = vgpu_cfg(*TRIAL)
    assert refused.code == 5
    assert "nothing was made: the account lacks Alarm.Delete, required to remove its objects" in refused.told
    assert not watch.writes


def test_the_role_that_privileges_lists_is_enough(vgpu_cfg: CommandLine) -> None:
    (role,) = as_json(vgpu_cfg.done("privileges", "--trial", "objects", "--output=json"))["roles"]
    lab = vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        held = ("System.Anonymous", "System.Read", "System.View", *(one["id"] for one in role["privileges"]))
        lab.state.roles[1] = Role("trial", held)
        lab.state.permissions.append(Permission(lab.state.root, ACCOUNT, 1))
        lab.state.touch()
    document = as_json(vgpu_cfg.done(*as_account([*TRIAL, "--output", "json"])))
    assert list(verdicts(document).values()).count("holds") == 11


def test_a_belief_that_does_not_hold_is_found(vgpu_cfg: CommandLine, watch: Watch) -> None:
    vgpu_cfg.script(ESTATE, {"method": "ReconfigureAlarm", "kind": "call", "fault": "InvalidState"})
    document = as_json(vgpu_cfg.done(*TRIAL, "--output", "json"))
    assert verdicts(document)["alarm-time-moves"] == "not tried"
    assert verdicts(document)["alarm-names-are-unique"] == "holds"
    assert not alarms(vgpu_cfg.lab(ESTATE).state)


def test_ctrl_c_removes_everything_and_shows_what_was_tried(vgpu_cfg: CommandLine, watch: Watch) -> None:
    before = kept(vgpu_cfg)

    def interrupt(name: str) -> None:
        if name == "ReconfigureAlarm":
            raise KeyboardInterrupt

    watch.before_call = interrupt
    ran = vgpu_cfg(*TRIAL)
    assert ran.code == 130
    assert "holds: 5" in ran.told
    assert "the objects of this trial are removed" in ran.told
    assert kept(vgpu_cfg) == before


@pytest.mark.parametrize("is_answered", [False, True])
def test_killed_at_any_request_nothing_is_left_that_clean_does_not_remove(
    vgpu_cfg: CommandLine, watch: Watch, *, is_answered: bool
) -> None:
    before, number, is_killed = kept(vgpu_cfg), 0, True
    while is_killed:
        number += 1
        was_killed = killed_at(watch, number, is_answered=is_answered)
        with suppress(Killed):
            vgpu_cfg(*TRIAL)
        is_killed = was_killed()
        let_live(watch)
        vgpu_cfg.done(*CLEAN)
        assert kept(vgpu_cfg) == before, number
    assert number > 20


def test_clean_keeps_what_has_not_expired(vgpu_cfg: CommandLine, watch: Watch) -> None:
    killed_at(watch, number_of(vgpu_cfg, watch, "ReconfigureAlarm"), is_answered=False)
    with pytest.raises(Killed):
        vgpu_cfg(*TRIAL)
    let_live(watch)
    (name,) = alarms(vgpu_cfg.lab(ESTATE).state)
    told = vgpu_cfg.done("trial", "--clean", SERVER).told
    assert name in told
    assert "keeps it: not expired" in told
    clock = VirtualClock()
    lab = vgpu_cfg.lab(ESTATE, clock)
    with lab.transaction():
        clock.advance(timedelta(minutes=26).total_seconds())
        lab.state.touch()
    document = as_json(vgpu_cfg.done("trial", "--clean", "--yes", SERVER, "--output", "json"))
    assert [(one["name"], one["is_removed"]) for one in document["objects"]] == [(name, True)]
    assert "No object of a trial is left." in vgpu_cfg.done("trial", "--clean", SERVER).told


def number_of(vgpu_cfg: CommandLine, watch: Watch, method: str) -> int:
    """Return at which request of a trial a method is called first."""
    names: list[str] = []
    watch.before_call = names.append
    vgpu_cfg.done(*TRIAL)
    let_live(watch)
    return names.index(method) + 1


def test_a_wrong_step_is_refused(vgpu_cfg: CommandLine) -> None:
    assert "'disk' is not one of objects" in vgpu_cfg("trial", "--steps", "objects,disk", SERVER).told
    assert "requires --clean" in vgpu_cfg("trial", "--all", SERVER).told
