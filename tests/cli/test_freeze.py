"""A freeze: until its end every command that writes is refused on every machine, before it has written."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, Ran
from tests.cli.host_watch import ESTATE, Watch, is_reading, watch_labs
from tests.cli.locks import ANNA, take_for_others
from tests.cli.test_two_machines import ONE, Other
from vgpu_cfg.cli.app import LISTED
from vgpu_cfg.lab.state.inventory import Alarm
from vgpu_cfg.model.locks import FREEZE_NAME, LockName

LAB = ("--server", "lab:two-a100")
PAIR, FULL = "plans/pair.yaml", "examples/full-vgpu.yaml"
HOST = "esx-a100-01.lab"
YEAR_END = ("--until", "2099-01-07", "--reason", "year-end closing")

WRITE: dict[str, list[tuple[str, ...]]] = {
    "apply": [("--yes", FULL), ("--yes", "--rollback-on-failure", FULL)],
    "destroy": [("--yes", PAIR)],
    "import": [("--yes", FULL)],
    "forget": [("--yes", PAIR)],
    "cordon": [(f"host:{HOST}", "--reason", "x", *LAB)],
    "drain": [(HOST, "--yes", *LAB)],
    "uncordon": [(f"host:{HOST}", "--yes", *LAB)],
    "unlock": [(ANNA.run, "--force", "--yes", *LAB)],
    "trial": [("--yes", *LAB)],
    "freeze": [(*YEAR_END, *LAB)],
}
"""The commands that change a vCenter, with words for which they have something to do."""
READ = {
    "validate", "plan", "status", "verify", "doctor", "explain", "inventory", "profiles",
    "history", "metrics", "fit", "size", "runbook", "export", "hand-over", "privileges",
    "lab", "upgrade",
}  # fmt: skip


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return watch_labs(monkeypatch)


@pytest.fixture
def other(vgpu_cfg: CommandLine, tmp_path: Path) -> Other:
    folder = tmp_path / "other"
    folder.mkdir()
    return Other(vgpu_cfg, folder)


def is_refused(ran: Ran, server: str = "lab:two-a100") -> bool:
    author = "frozen until 2099-01-07 00:00 utc by jane on desk-02 (administrator@vsphere.local)"
    return (
        ran.code == 6
        and author in ran.told.lower()
        and f"vgpu-cfg freeze --thaw --server {server}`" in ran.told
    )


def test_every_command_that_writes_is_refused_before_it_writes(
    vgpu_cfg: CommandLine, other: Other, watch: Watch
) -> None:
    assert {*WRITE} | READ == {row.name for row in LISTED}
    vgpu_cfg.done("apply", "--yes", PAIR)
    take_for_others(vgpu_cfg.lab("two-a100"), LockName(kind="plan", key="demo"))
    told = other("freeze", *YEAR_END, *LAB).told
    assert f"run {ANNA.run} of anna on ci-7" in told
    before = vgpu_cfg.look("two-a100")
    for command, lines in WRITE.items():
        for words in lines:
            watch.calls.clear()
            ran = vgpu_cfg(command, *words)
            assert is_refused(ran), (command, ran.told)
            assert [name for name in watch.calls if not is_reading(name)] == [], command
            assert vgpu_cfg.look("two-a100") == before, command
    for words in (("plan", PAIR), ("status", PAIR), ("doctor", *LAB), ("unlock", *LAB)):
        ran = vgpu_cfg(*words)
        assert "until 2099-01-07 00:00 UTC by jane on desk-02" in ran.told, words
        assert ran.code == 0, words
    vgpu_cfg.done("apply", "--yes", PAIR)  # there is nothing to do
    told = " ".join(vgpu_cfg.done("history", *LAB, COLUMNS="200").out.split())
    assert "freeze jane" in told
    assert "done, 1 change" in told


def test_a_run_that_was_begun_is_not_resumed_until_the_thaw(
    vgpu_cfg: CommandLine, other: Other, watch: Watch
) -> None:
    at = ("--server", f"lab:{ESTATE}")
    vgpu_cfg.script(ESTATE, {"method": "RebootHost_Task", "kind": "call", "fault": "HostConfigFault"})
    assert vgpu_cfg("apply", "--yes", ONE).code == 6
    vgpu_cfg.script(ESTATE)
    assert other("freeze", *YEAR_END, *at).code == 0
    for words in (("apply", "--yes", ONE), ("apply", ONE), ("plan", "--open-shell", ONE)):
        watch.calls.clear()
        assert is_refused(vgpu_cfg(*words), f"lab:{ESTATE}"), words
        assert [name for name in watch.calls if not is_reading(name)] == []
    asked = vgpu_cfg("freeze", "--thaw", *at)
    assert asked.code == 2
    assert "FROZEN until 2099-01-07 00:00 UTC by jane on desk-02" in asked.told
    told = vgpu_cfg.done("freeze", "--thaw", "--yes", *at).told
    assert "THAWED it was frozen until 2099-01-07" in told
    vgpu_cfg.done("apply", "--yes", ONE)
    assert "Nothing to do" in other("freeze", "--thaw", "--yes", *at).told


def test_a_freeze_ends_by_itself_and_another_one_takes_its_place(vgpu_cfg: CommandLine, other: Other) -> None:
    now = datetime.fromisoformat(json.loads(vgpu_cfg.done("unlock", *LAB, "--output", "json").out)["now"])
    soon = (now + timedelta(hours=1)).isoformat()
    past = vgpu_cfg("freeze", "--until", now.isoformat(), "--reason", "x", *LAB)
    assert (past.code, "is in the past" in past.err) == (2, True)
    vgpu_cfg.done("freeze", "--until", soon, "--reason", "audit", *LAB)
    second = other("freeze", *YEAR_END, *LAB)
    assert (second.code, "are frozen until" in second.told) == (6, True)
    lab = vgpu_cfg.lab("two-a100")
    with lab.changed:
        lab.clock.wait(lab.clock.now() + 3601, lab.changed)
    with lab.transaction():
        lab.state.touch()
    assert "frozen" not in vgpu_cfg.done("plan", PAIR).told
    vgpu_cfg.done("apply", "--yes", PAIR)
    assert other("freeze", *YEAR_END, *LAB).code == 0
    assert is_refused(vgpu_cfg("destroy", "--yes", PAIR))
    assert [one.name for one in vgpu_cfg.lab("two-a100").state.all(Alarm)].count(FREEZE_NAME) == 1


def test_a_freeze_that_somebody_edited_still_holds(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("freeze", *YEAR_END, *LAB)
    lab = vgpu_cfg.lab("two-a100")
    with lab.transaction():
        (alarm,) = lab.state.all(Alarm)
        alarm.spec.description = "no {"
        lab.state.touch()
    refused = vgpu_cfg("apply", "--yes", PAIR)
    assert (refused.code, "does not show when the freeze ends or why" in refused.told) == (6, True)
    vgpu_cfg.done("freeze", "--thaw", "--yes", *LAB)
    vgpu_cfg.done("apply", "--yes", PAIR)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("--thaw", "--until", "2099-01-01"),
        ("--until", "soon", "--reason", "x"),
        ("--until", "2099-01-01"),
        ("--until", "2099-01-01", "--reason", "x" * 240),
    ],
)
def test_mistyped(words: tuple[str, ...], vgpu_cfg: CommandLine) -> None:
    assert vgpu_cfg("freeze", *words, *LAB).code == 2
    assert list(vgpu_cfg.lab("two-a100").state.all(Alarm)) == []
