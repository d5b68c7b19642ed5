"""`doctor --save` writes verdicts next to the plans, and every user's plans there follow them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.documents import dump, parse_text
from vgpu_cfg.model.verdicts import Verdict, VerdictFile

ESTATE = "lab:two-a100"
PAIR = Path("plans/pair.yaml")
BUILD = "24022515"
PLANS = Path("plans")


def saved(vgpu_cfg: CommandLine) -> Path:
    """Save the verdicts on the lab next to the plan, and return the file."""
    vgpu_cfg.done("doctor", "--server", ESTATE, "--save", PLANS)
    (file,) = (vgpu_cfg.folder / PLANS).glob("vcenter-*.yaml")
    return file


def content(file: Path) -> VerdictFile:
    return VerdictFile.model_validate(parse_text(file.read_text(encoding="utf-8"), file.name).data)


def contradict(file: Path, belief: str) -> None:
    """Write down that a belief does not hold, as a trial does."""
    data = content(file).model_dump(mode="json")
    data["beliefs"][belief] = {"verdict": Verdict.FAILS.value, "by": "object", "seen": "two alarms"}
    file.write_text(dump(data), encoding="utf-8")


def test_the_file_is_named_by_the_vcenter_and_has_a_row_for_each_belief(vgpu_cfg: CommandLine) -> None:
    file = saved(vgpu_cfg)
    found = content(file)
    assert file.name == found.file_name
    assert found.vcenter.build == BUILD
    assert {(kind.esxi, kind.boards) for kind in found.hosts} == {("8.0.3", ("A100 PCIe 40GB",))}
    told = json.loads(vgpu_cfg.done("doctor", "--server", ESTATE, "--output", "json").out)["beliefs"]
    assert {key: row.verdict.value for key, row in found.beliefs.items()} == {
        one["id"]: one["verdict"] for one in told
    }


def test_saving_again_writes_nothing_and_keeps_what_a_trial_found(vgpu_cfg: CommandLine) -> None:
    file = saved(vgpu_cfg)
    before = file.read_bytes()
    saved(vgpu_cfg)
    assert file.read_bytes() == before
    contradict(file, "alarm-time-moves")
    saved(vgpu_cfg)
    assert content(file).beliefs["alarm-time-moves"].verdict is Verdict.FAILS


def test_a_plan_mentions_it_before_the_first_apply_and_then_if_asked(vgpu_cfg: CommandLine) -> None:
    saved(vgpu_cfg)
    assert "BELIEFS" in vgpu_cfg.done("plan", PAIR).out
    vgpu_cfg.done("apply", "--yes", PAIR)
    assert "BELIEFS" not in vgpu_cfg.done("plan", PAIR).out
    assert "tested in this vCenter: " in vgpu_cfg.done("plan", "-v", PAIR).told


def test_only_what_cannot_be_undone_is_stopped(vgpu_cfg: CommandLine) -> None:
    contradict(saved(vgpu_cfg), "alarm-time-moves")
    assert "1 false (alarm-time-moves)" in vgpu_cfg.done("plan", PAIR).told
    vgpu_cfg.done("apply", "--yes", PAIR)
    refused = vgpu_cfg("destroy", "--yes", PAIR)
    assert refused.code == 4
    assert "VG018 delete hvd-01, delete hvd-02: this cannot be undone" in " ".join(refused.err.split())
    assert "two alarms" in refused.told
    text = (vgpu_cfg.folder / PAIR).read_text(encoding="utf-8")
    vgpu_cfg.write(str(PAIR), f"{text}checks: {{VG018: warning}}\n")
    vgpu_cfg.done("destroy", "--yes", PAIR)


def test_a_belief_that_no_change_relies_on_stops_nothing(vgpu_cfg: CommandLine) -> None:
    contradict(saved(vgpu_cfg), "generated-mac-ranges")
    vgpu_cfg.done("apply", "--yes", PAIR)
    vgpu_cfg.done("destroy", "--yes", PAIR)


def test_two_admins_plan_alike(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    contradict(saved(vgpu_cfg), "disk-uuid-keeps-its-value")
    plans = []
    vgpu_cfg.keep_id(PAIR)
    elsewhere = vgpu_cfg.folder.parent / "elsewhere"
    shutil.copytree(vgpu_cfg.folder, elsewhere)
    for folder in (vgpu_cfg.folder, elsewhere):
        monkeypatch.chdir(folder)
        made = json.loads(vgpu_cfg.done("plan", "--output", "json", PAIR).out)["plan"]
        plans.append({key: value for key, value in made.items() if key != "read_at"})
    assert plans[0] == plans[1]
    assert "1 false (disk-uuid-keeps-its-value)" in plans[0]["beliefs"]["says"]


def test_without_a_file_the_json_has_no_word_of_it(vgpu_cfg: CommandLine) -> None:
    made = json.loads(vgpu_cfg.done("plan", "--output", "json", PAIR).out)["plan"]
    assert "beliefs" not in made
    assert "verdicts" not in made["desired"]


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        (
            "build",
            "24022514",
            f"24022514.yaml not used (saved for another build; this vCenter is now at build {BUILD})",
        ),
        (
            "instance_uuid",
            "00000000-0000-4000-8000-000000000001",
            f"{BUILD}.yaml not used (saved for another vCenter)",
        ),
    ],
)
def test_a_file_of_another_build_or_vcenter_does_not_count(
    key: str, value: str, told: str, vgpu_cfg: CommandLine
) -> None:
    file = saved(vgpu_cfg)
    contradict(file, "disk-uuid-keeps-its-value")
    data = content(file).model_dump(mode="json")
    data["vcenter"][key] = value
    file.unlink()
    other = VerdictFile.model_validate(data)
    (file.parent / other.file_name).write_text(dump(data), encoding="utf-8")
    shown = vgpu_cfg.done("plan", PAIR).told
    assert told in shown
    vgpu_cfg.done("apply", "--yes", PAIR)
    vgpu_cfg.done("destroy", "--yes", PAIR)


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("verdict: holds", "verdict: perhaps", "perhaps"),
        ("program:", "programme:", "programme"),
        (f"build: '{BUILD}'", "build: '1'", "this content belongs in vcenter-"),
        ("beliefs:", "  beliefs:", ":"),
    ],
)
def test_a_bad_file_is_an_error_with_its_place(old: str, new: str, told: str, vgpu_cfg: CommandLine) -> None:
    file = saved(vgpu_cfg)
    file.write_text(file.read_text(encoding="utf-8").replace(old, new, 1), encoding="utf-8")
    vgpu_cfg.write("plan.json", "{}")
    ran = vgpu_cfg("plan", PAIR)
    assert ran.code == 3
    assert f"{file.name}:" in ran.err
    assert told in ran.told


def test_another_name_is_saved_and_what_that_means_is_said(vgpu_cfg: CommandLine) -> None:
    ran = vgpu_cfg.done("doctor", "--server", ESTATE, "--save", "verdicts.yaml")
    assert "rename it to vcenter-" in ran.told
    assert content(vgpu_cfg.folder / "verdicts.yaml").vcenter.build == BUILD


def test_a_reviewed_plan_heeds_the_file_of_its_folder(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", PAIR)
    text = (vgpu_cfg.folder / PAIR).read_text(encoding="utf-8")
    vgpu_cfg.write(str(PAIR), text.replace("hvd-{01..02}", "hvd-{01..01}"))
    options = ("--delete", "hvd-02", "--allow-destroy", "1")
    vgpu_cfg.done("plan", PAIR, *options, "-o", "plans/plan.json")
    contradict(saved(vgpu_cfg), "alarm-time-moves")
    ran = vgpu_cfg("apply", "--yes", "plans/plan.json", *options)
    assert ran.code == 4
    assert "VG018" in ran.err
