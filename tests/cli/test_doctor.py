"""The health of an estate from the command line: exit codes, a read-only account, recordings, round trips."""

from __future__ import annotations

import json

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import Watch, watch_labs
from tests.cli.roles import ACCOUNT, as_account
from vgpu_cfg.lab.state.roles import Permission, Role

SERVER = ("--server", "lab:mixed-fleet")
MOST_ROUND_TRIPS = 150


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return watch_labs(monkeypatch)


def test_findings_are_told_by_the_exit_code_only_if_asked(vgpu_cfg: CommandLine) -> None:
    assert vgpu_cfg("doctor", *SERVER).code == 0
    assert vgpu_cfg("doctor", *SERVER, "--exit-code").code == 10


def test_all_faces_say_the_same(vgpu_cfg: CommandLine) -> None:
    document = json.loads(vgpu_cfg.done("doctor", *SERVER, "--output", "json").out)
    shown = vgpu_cfg.done("doctor", *SERVER, "-v", COLUMNS="120").told
    for one in document["ailments"]:
        assert one["summary"] in shown
        assert one["subject"].partition(":")[2].partition("/")[0] in shown
    counts = document["counts"]
    assert f"{counts['broken']} broken, {counts['risk']} risk, {counts['waste']} waste" in shown


def test_a_recording_gives_the_same_as_the_vcenter(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("inventory", "--record", "site.json", *SERVER)
    of_vcenter = json.loads(vgpu_cfg.done("doctor", *SERVER, "--output", "json").out)
    of_recording = json.loads(vgpu_cfg.done("doctor", "--from", "site.json", "--output", "json").out)
    kinds = {one["kind"] for one in of_vcenter["ailments"]}
    assert {one["kind"] for one in of_recording["ailments"]} == kinds


def test_it_asks_little_and_writes_nothing(vgpu_cfg: CommandLine, watch: Watch) -> None:
    vgpu_cfg.done("doctor", "--server", "lab:fleet-100x5-400vms")
    assert sum(watch.calls.values()) <= MOST_ROUND_TRIPS
    assert not watch.writes


def only_reads(vgpu_cfg: CommandLine, estate: str) -> None:
    """Give the account the role Read-only at the root, and nothing else."""
    lab = vgpu_cfg.lab(estate)
    with lab.transaction():
        lab.state.roles[1] = Role("Read-only", ("System.Anonymous", "System.Read", "System.View"))
        lab.state.permissions.append(Permission(lab.state.root, ACCOUNT, 1))
        lab.state.touch()


def test_a_read_only_account_sees_the_health_and_what_is_hidden(vgpu_cfg: CommandLine) -> None:
    only_reads(vgpu_cfg, "mixed-fleet")
    done = vgpu_cfg.done(*as_account(["doctor", *SERVER, "--output", "json"]))
    document = json.loads(done.out)
    kinds = {one["kind"] for one in document["ailments"]}
    assert {"host-lost", "maintenance", "no-restart"} <= kinds
    assert "mixed-drivers" in kinds or any(one.startswith("software of") for one in document["unread"])


def test_plan_works_with_a_read_only_account(vgpu_cfg: CommandLine, watch: Watch) -> None:
    only_reads(vgpu_cfg, "two-a100")
    vgpu_cfg.done(*as_account(["plan", "plans/pair.yaml"]))
    assert watch.calls
    assert not watch.writes
