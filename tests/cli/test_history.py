"""Who ran what, as `history` tells it: on the machine that ran it, on others, and of runs without an end."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.execution import Journal
from vgpu_cfg.lab.state.inventory import PastEvent
from vgpu_cfg.model.runs import HEAD
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.run_log import VCenterRunLog

ESTATE = "two-a100"
SERVER = ("--server", f"lab:{ESTATE}")
PLAN = """\
version: 1
name: depts
vcenter: lab:two-a100
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB}
vms: [{name: vm-01, gpus: grid_a100-10c}]
"""
CONFIG = """\
contexts:
  try: {server: "lab:two-a100", require_change: true, change_pattern: 'CHG[0-9]+'}
"""


@pytest.fixture
def depts(vgpu_cfg: CommandLine) -> Path:
    return vgpu_cfg.write("depts.yaml", PLAN)


def runs_of(vgpu_cfg: CommandLine, *words: str | Path, **environment: str) -> list[dict[str, object]]:
    found = json.loads(vgpu_cfg.done("history", *words, "--output", "json", **environment).out)
    assert found["kind"] == "history"
    return list(found["runs"])


def on_another_machine(vgpu_cfg: CommandLine) -> None:
    """Go on with a state folder that knows nothing but the lab."""
    journals = vgpu_cfg.state_folder / "journals"
    journals.rename(vgpu_cfg.folder / f"journals-of-{vgpu_cfg.machine}")
    vgpu_cfg.machine = "desk-02"


def words_at_vcenter(vgpu_cfg: CommandLine) -> list[str]:
    state = vgpu_cfg.lab(ESTATE).state
    return [
        str(event.values["message"]) for event in state.all(PastEvent) if event.kind == "GeneralUserEvent"
    ]


def test_every_machine_knows_of_every_run_and_each_stands_once(vgpu_cfg: CommandLine, depts: Path) -> None:
    Path("share").mkdir()
    share = {"VGPU_CFG_JOURNAL_FOLDER": "share"}
    said = ("--change", "CHG0042", "--reason", "the new course")
    ran = vgpu_cfg.done("apply", "--yes", depts, *said, **share)
    assert ran.out.count("CHANGE CHG0042: the new course") == 2  # before the question, and at the end
    (here,) = runs_of(vgpu_cfg, *SERVER)
    assert here["known_from"] == ["vCenter", "here"]
    on_another_machine(vgpu_cfg)
    vgpu_cfg.done("destroy", "--yes", depts)

    last, first = runs_of(vgpu_cfg, *SERVER, **share)
    assert (first["run"], first["known_from"]) == (here["run"], ["vCenter", "folder"])
    assert first["occasion"] == {"change": "CHG0042", "reason": "the new course"}
    assert [first[key] for key in ("command", "plan", "user", "machine", "result", "changes", "done")] == [
        "apply", "depts", "jane", "desk-01", "done", 2, 2,
    ]  # fmt: skip
    assert (last["command"], last["machine"], last["known_from"]) == (
        "destroy",
        "desk-02",
        ["vCenter", "here"],
    )
    assert [run["run"] for run in runs_of(vgpu_cfg, depts)] == [last["run"], first["run"]]
    assert [run["run"] for run in runs_of(vgpu_cfg, "--limit", "1", *SERVER)] == [last["run"]]
    assert runs_of(vgpu_cfg, "someone-elses", *SERVER) == []

    # The steps are where a journal is, and the events alone have none.
    told = vgpu_cfg.done("history", *SERVER, "--run", str(first["run"])[:8], **share).told
    assert "1 create vm-01 done" in told
    assert "change CHG0042: the new course" in told
    without = json.loads(
        vgpu_cfg.done("history", *SERVER, "--run", str(first["run"]), "--output", "json").out
    )
    assert without["steps"] is None
    assert without["run"]["known_from"] == ["vCenter"]


def test_what_it_is_for_stands_in_the_report_and_the_runbook(vgpu_cfg: CommandLine, depts: Path) -> None:
    said = ("--change", "CHG0042", "--reason", "the new course")
    assert "Change: CHG0042: the new course." in vgpu_cfg.done("runbook", depts, *said).out
    report = json.loads(vgpu_cfg.done("apply", "--yes", depts, *said, "--output", "json").out)
    assert report["occasion"] == {"change": "CHG0042", "reason": "the new course"}
    assert "Change: CHG0042: the new course." in vgpu_cfg.done("runbook", depts, "--as-run").out
    (as_run,) = json.loads(vgpu_cfg.done("runbook", depts, "--as-run", "--output", "json").out)["runs"]
    assert (as_run["run"], as_run["occasion"]) == (report["run"], report["occasion"])


def test_a_context_can_want_a_change_however_its_server_is_named(vgpu_cfg: CommandLine, depts: Path) -> None:
    vgpu_cfg.write("config.yaml", CONFIG)
    before = vgpu_cfg.look(ESTATE)
    for command in ("apply", "destroy", "import", "forget"):
        refused = vgpu_cfg(command, "--yes", depts, COLUMNS="200")
        assert refused.code == 2
        assert "the context try in config.yaml requires a change ID" in refused.told
    assert vgpu_cfg("apply", "--yes", depts, "--change", "42").code == 2
    assert vgpu_cfg.look(ESTATE) == before
    assert not (vgpu_cfg.state_folder / "journals").exists()
    assert "NEXT   vgpu-cfg apply depts.yaml --change=ID" in vgpu_cfg.done("plan", depts).out
    vgpu_cfg.done("apply", "--yes", depts, "--change", "CHG7")
    vgpu_cfg.done("forget", "--yes", depts, "--change", "CHG8")
    assert [run["command"] for run in runs_of(vgpu_cfg, depts)] == ["forget", "apply"]


@pytest.mark.parametrize("text", ["", "two\nlines", "x" * 65])
def test_a_change_that_no_log_could_keep_is_refused(text: str, vgpu_cfg: CommandLine, depts: Path) -> None:
    assert vgpu_cfg("apply", "--yes", depts, f"--change={text}").code == 2


def test_a_syslog_server_that_is_none_is_told_before_anything_is_changed(
    vgpu_cfg: CommandLine, depts: Path
) -> None:
    before = vgpu_cfg.look(ESTATE)
    refused = vgpu_cfg("apply", "--yes", depts, VGPU_CFG_SYSLOG="loghost")
    assert refused.code == 3
    assert "VGPU_CFG_SYSLOG:1:1: 'loghost' is not a valid syslog address" in refused.told
    assert vgpu_cfg.look(ESTATE) == before


def test_an_account_that_may_log_no_events_is_told_so_once_and_goes_on(
    vgpu_cfg: CommandLine, depts: Path
) -> None:
    vgpu_cfg.script(ESTATE, lacking=["Global.LogEvent"])
    ran = vgpu_cfg.done("apply", "--yes", depts)
    assert ran.told.count("vCenter has no event showing that this run") == 1
    assert "Global.LogEvent" in ran.told
    assert words_at_vcenter(vgpu_cfg) == []
    (run,) = runs_of(vgpu_cfg, *SERVER)
    assert (run["known_from"], run["result"]) == (["here"], "done")


def test_a_run_that_broke_off_began_and_has_no_end(
    vgpu_cfg: CommandLine, depts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(journal: Journal, report: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(Journal, "record_report", broken)
        assert vgpu_cfg("apply", "--yes", depts).code != 0
    (run,) = runs_of(vgpu_cfg, *SERVER)
    assert (run["result"], run["ended_at"], run["known_from"]) == (None, None, ["vCenter", "here"])
    assert "end unknown" in vgpu_cfg.done("history", *SERVER).told


def test_a_failed_step_and_a_manual_step_are_results(vgpu_cfg: CommandLine, depts: Path) -> None:
    vgpu_cfg.script(ESTATE, {"method": "PowerOnVM_Task", "fault": "GenericVmConfigFault", "message": "no"})
    assert vgpu_cfg("apply", "--yes", depts).code == 6
    (run,) = runs_of(vgpu_cfg, *SERVER)
    assert (run["result"], run["done"], run["failed"]) == ("failed", 1, 1)


def test_times_ago_and_days_are_taken_and_nonsense_is_not(vgpu_cfg: CommandLine, depts: Path) -> None:
    vgpu_cfg.done("apply", "--yes", depts)
    for since in ("2w", "7d", "12h", "2026-01-01"):
        assert len(runs_of(vgpu_cfg, *SERVER, "--since", since)) == 1
    for since in ("tomorrow", "2x", "9999-01-01"):
        assert vgpu_cfg("history", *SERVER, "--since", since).code == 2
    assert vgpu_cfg("history", *SERVER, "--run", "zz").code == 2


def test_entries_that_nobody_can_read_are_counted(vgpu_cfg: CommandLine) -> None:
    with Session(vgpu_cfg.lab(ESTATE), ESTATE, "administrator@vsphere.local", "lab") as session:
        log = VCenterRunLog(session)
        log.write("backup of vm-01 done")
        log.write(f'{HEAD}apply of depts began {{"run":"cut o')
    ran = vgpu_cfg.done("history", *SERVER)
    assert "no known runs on" in ran.told
    assert "1 run entry in vCenter's events cannot be read" in ran.told


def test_without_a_vcenter_the_journals_tell_and_a_note_says_so(vgpu_cfg: CommandLine, depts: Path) -> None:
    vgpu_cfg.done("apply", "--yes", depts)
    ran = vgpu_cfg.done("history", "depts", VGPU_CFG_JOURNAL_FOLDER="nowhere")
    assert "desk-01" in ran.told
    assert "no vCenter specified" in ran.told
    assert "the shared folder nowhere does not exist" in ran.told


def test_files_that_are_no_journals_are_one_note(vgpu_cfg: CommandLine) -> None:
    Path("share").mkdir()
    for number in range(3):
        Path("share", f"demo-00000000-20260302T21041{number}Z.jsonl").write_text("nothing\n")
    ran = vgpu_cfg.done("history", VGPU_CFG_JOURNAL_FOLDER="share", COLUMNS="200")
    assert "Z.jsonl cannot be read as a journal (and 2 more in the same folder)" in ran.told


def test_a_vcenter_that_cannot_be_asked_hides_no_journal(vgpu_cfg: CommandLine, depts: Path) -> None:
    vgpu_cfg.done("apply", "--yes", depts)
    vgpu_cfg.script(ESTATE, {"method": "CreateCollectorForEvents", "kind": "drop_before"})
    ran = vgpu_cfg("history", *SERVER)
    assert ran.code == 5
    assert "jane on desk-01" in ran.told
