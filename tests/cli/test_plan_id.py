"""The id of a plan as a user meets it: made by the first apply, kept in a file, asked for ever after."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine, plan_id
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.model.observed.vm import OwnerMark

ESTATE = "two-a100"
PLAN = """\
version: 1
name: depts
vcenter: lab:two-a100
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB}
vms:
- {name: "vm-{01..02}", gpus: grid_a100-10c, place: {spread: hosts, must: false}}
"""


@pytest.fixture
def depts(vgpu_cfg: CommandLine) -> Path:
    return vgpu_cfg.write("depts.yaml", PLAN)


def mark_of(vgpu_cfg: CommandLine, name: str) -> OwnerMark:
    vms = vgpu_cfg.lab(ESTATE).state.all(VirtualMachine)
    extra = next(vm for vm in vms if vm.name == name).extra_config
    return OwnerMark.parse(extra["vgpu_cfg.plan"], extra["vgpu_cfg.vm"])


def test_the_first_apply_makes_the_id_and_nothing_else_does(vgpu_cfg: CommandLine, depts: Path) -> None:
    for words in (["validate"], ["plan"], ["status"], ["runbook"], ["destroy", "--dry-run"]):
        vgpu_cfg.done(*words, depts)
    vgpu_cfg("apply", depts)  # nobody to ask: nothing is changed
    assert not Path("depts.yaml.id").exists()
    ran = vgpu_cfg.done("apply", "--yes", depts)
    assert "depts.yaml.id: the plan's new ID" in ran.told
    text = Path("depts.yaml.id").read_text(encoding="utf-8")
    assert text.endswith(f"\n{plan_id(2)}\n")
    assert "commit both" in text
    vm = next(vm for vm in vgpu_cfg.lab(ESTATE).state.all(VirtualMachine) if vm.name == "vm-01")
    mark = mark_of(vgpu_cfg, "vm-01")
    assert (mark.plan, mark.vm, mark.id) == ("depts", "vm-01", plan_id(2))
    assert mark.instance_uuid == vm.instance_uuid
    assert mark.made_by == "administrator@vsphere.local"
    assert mark.made_at is not None
    again = vgpu_cfg.done("apply", "--yes", depts)
    assert "new ID" not in again.told
    assert Path("depts.yaml.id").read_text(encoding="utf-8") == text
    assert [path.name for path in Path().glob("*.id")] == ["depts.yaml.id"]


def test_the_id_in_the_plan_file_goes_without_a_file(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("depts.yaml", PLAN.replace("name: depts", f"name: depts\nid: {plan_id(7).upper()}"))
    vgpu_cfg.done("apply", "--yes", plan)
    assert mark_of(vgpu_cfg, "vm-01").id == plan_id(7)
    assert not Path("depts.yaml.id").exists()


def test_where_the_id_cannot_be_kept_nothing_is_changed(vgpu_cfg: CommandLine, depts: Path) -> None:
    Path("depts.yaml.id").symlink_to("nowhere/at/all")
    before = vgpu_cfg.look(ESTATE)
    ran = vgpu_cfg("apply", "--yes", depts)
    assert ran.code == 3
    assert "cannot save the plan's ID" in ran.told
    assert f"rerun the command: id: {plan_id(1)}" in ran.told
    assert vgpu_cfg.look(ESTATE) == before


MALFORMED = {
    "empty": ("# nothing\n", "depts.yaml.id:1:1: the ID file contains no ID"),
    "no id": ("# about\nhello\n", "depts.yaml.id:2:1: this is not a valid plan ID"),
    "two": (f"{plan_id(1)}\n{plan_id(2)}\n", "depts.yaml.id:2:1: the ID file contains more than one ID"),
}


@pytest.mark.parametrize("case", MALFORMED)
@pytest.mark.parametrize("command", ["validate", "plan", "apply"])
def test_a_malformed_id_file_is_told_with_its_line(
    vgpu_cfg: CommandLine, depts: Path, case: str, command: str
) -> None:
    text, words = MALFORMED[case]
    vgpu_cfg.write("depts.yaml.id", text)
    ran = vgpu_cfg(command, depts)
    assert ran.code == 3
    assert words in ran.told


def test_an_id_in_the_file_and_another_beside_it_are_a_fault(vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("depts.yaml", PLAN.replace("name: depts", f"name: depts\nid: {plan_id(7)}"))
    vgpu_cfg.keep_id(plan)
    ran = vgpu_cfg("validate", plan)
    assert ran.code == 3
    assert f"depts.yaml:3:5: the plan file has the ID {plan_id(7)}, but depts.yaml.id contains" in ran.told


def test_a_plan_file_that_lost_its_id_is_refused_until_it_has_it_again(
    vgpu_cfg: CommandLine, depts: Path
) -> None:
    vgpu_cfg.done("apply", "--yes", depts)
    Path("depts.yaml.id").unlink()
    before = vgpu_cfg.look(ESTATE)
    for words in (["plan"], ["apply", "--yes"], ["destroy", "--yes"]):
        ran = vgpu_cfg(*words, depts)
        assert ran.code == 4
        assert f"VG220 vm-01, vm-02 have this plan's name and the ID {plan_id(1)}" in ran.told
        assert "by administrator@vsphere.local" in ran.told
        assert f"add `id: {plan_id(1)}` to the plan file" in ran.told
    told = json.loads(vgpu_cfg("status", depts, "--output", "json").out)
    assert {row["state"] for row in told["vms"]} == {"not owned"}
    assert vgpu_cfg.look(ESTATE) == before
    assert not Path("depts.yaml.id").exists()
    vgpu_cfg.write("depts.yaml", PLAN.replace("name: depts", f"name: depts\nid: {plan_id(1)}"))
    assert vgpu_cfg("plan", depts, "--exit-code").code == 0
    vgpu_cfg.done("destroy", "--yes", depts)
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


def test_another_plan_of_the_name_is_refused_and_goes_under_another_name(
    vgpu_cfg: CommandLine, depts: Path
) -> None:
    vgpu_cfg.done("apply", "--yes", depts)
    other = PLAN.replace("vm-{01..02}", "bob")
    assert vgpu_cfg("apply", "--yes", vgpu_cfg.write("other.yaml", other)).code == 4
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("other.yaml", other.replace("name: depts", "name: bobs")))
    vgpu_cfg.done("destroy", "--yes", "other.yaml")
    assert vgpu_cfg.look(ESTATE).vms == {"vm-01", "vm-02"}


def test_a_renamed_plan_keeps_its_vms(vgpu_cfg: CommandLine, depts: Path) -> None:
    vgpu_cfg.done("apply", "--yes", depts)
    vgpu_cfg.write("depts.yaml", PLAN.replace("name: depts", "name: teams"))
    ran = vgpu_cfg.done("apply", "--yes", depts)
    assert re.search(r"owner_mark +depts -> teams", ran.told)
    assert vgpu_cfg("plan", depts, "--exit-code").code == 0
    assert mark_of(vgpu_cfg, "vm-01").plan == "teams"
    assert vgpu_cfg.look(ESTATE).rules == {"vgpu-cfg:teams:vm-{01..02}"}
    vgpu_cfg.done("destroy", "--yes", depts)
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


def test_marks_of_the_first_version_are_completed_before_they_prove_anything(
    vgpu_cfg: CommandLine, depts: Path
) -> None:
    vgpu_cfg.done("apply", "--yes", depts)
    Path("depts.yaml.id").unlink()
    lab = vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        for vm in lab.state.all(VirtualMachine):
            if vm.name.startswith("vm-"):
                vm.extra_config["vgpu_cfg.plan"] = "depts"
                lab.state.touch(vm)
    refused = vgpu_cfg("destroy", "--yes", depts)
    assert refused.code == 4
    assert "VG221" in refused.told
    vgpu_cfg.done("apply", "--yes", depts)
    assert mark_of(vgpu_cfg, "vm-01").id == plan_id(2)
    vgpu_cfg.done("destroy", "--yes", depts)


def test_a_saved_plan_brings_its_id_and_leaves_it_beside_the_plan_file(
    vgpu_cfg: CommandLine, depts: Path
) -> None:
    Path("out").mkdir()
    vgpu_cfg.done("plan", depts, "-o", "out/plan.json")
    assert not Path("depts.yaml.id").exists()
    proposed = json.loads(Path("out/plan.json").read_text(encoding="utf-8"))["desired"]["id"]
    vgpu_cfg.done("apply", "--yes", "out/plan.json")
    assert mark_of(vgpu_cfg, "vm-01").id == proposed
    assert proposed in Path("depts.yaml.id").read_text(encoding="utf-8")
    assert vgpu_cfg("plan", depts, "--exit-code").code == 0


def test_a_saved_plan_that_went_on_alone_leaves_it_beside_itself(vgpu_cfg: CommandLine, depts: Path) -> None:
    vgpu_cfg.done("plan", depts, "-o", "plan.json")
    job = Path("job")
    job.mkdir()
    Path("plan.json").rename(job / "plan.json")
    depts.rename("elsewhere.yaml")
    ran = vgpu_cfg.done("apply", "--yes", "job/plan.json")
    assert "job/depts.yaml.id: the plan's new ID; keep it next to depts.yaml" in ran.told
    assert Path("job/depts.yaml.id").exists()


def test_a_saved_plan_is_refused_where_the_plan_has_another_id_by_now(
    vgpu_cfg: CommandLine, depts: Path
) -> None:
    vgpu_cfg.done("plan", depts, "-o", "plan.json")
    vgpu_cfg.write("depts.yaml.id", f"{plan_id(9)}\n")
    before = vgpu_cfg.look(ESTATE)
    ran = vgpu_cfg("apply", "--yes", "plan.json")
    assert ran.code == 4
    assert "the plan was saved before its plan file was first applied" in ran.told
    assert "save it again with `vgpu-cfg plan depts.yaml -o plan.json`" in ran.told
    assert vgpu_cfg.look(ESTATE) == before


# --------------------------------------------------------------- protection by a context

CONTEXT = """\
contexts:
  admins: {{server: "lab:two-a100", protect: {protect}}}
"""


@pytest.mark.sampled(3)
@pytest.mark.parametrize("server", ["admins", "lab:two-a100"])
@pytest.mark.parametrize(
    "protect", ['{names: ["vm-*"]}', "{folders: [/dc1/vm/training]}", "{clusters: [gpu]}"]
)
def test_what_a_context_protects_no_plan_writes(vgpu_cfg: CommandLine, server: str, protect: str) -> None:
    vgpu_cfg.write("config.yaml", CONTEXT.format(protect=protect))
    text = PLAN.replace("vcenter: lab:two-a100", f"vcenter: {server}\nprotect: {{names: [other]}}")
    plan = vgpu_cfg.write("depts.yaml", text)
    before = vgpu_cfg.look(ESTATE)
    for words in (["plan"], ["apply", "--yes"], ["apply", "--yes", "--server", "lab:two-a100"]):
        ran = vgpu_cfg(*words, plan)
        assert ran.code == 4
        assert "VG004" in ran.told
        assert "is protected by the context admins in config.yaml" in ran.told
    assert vgpu_cfg.look(ESTATE) == before


def test_a_saved_plan_takes_no_protection_back(vgpu_cfg: CommandLine, depts: Path) -> None:
    vgpu_cfg.done("plan", depts, "-o", "plan.json")
    vgpu_cfg.write("config.yaml", CONTEXT.format(protect='{names: ["vm-01"]}'))
    ran = vgpu_cfg("apply", "--yes", "plan.json")
    assert ran.code == 4
    assert "VG004" in ran.told
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


def test_destroy_leaves_what_a_context_protects(vgpu_cfg: CommandLine, depts: Path) -> None:
    vgpu_cfg.done("apply", "--yes", depts)
    vgpu_cfg.write("config.yaml", CONTEXT.format(protect='{names: ["vm-01"]}'))
    ran = vgpu_cfg("destroy", "--yes", depts)
    assert ran.code == 4
    assert "its name is protected by the context admins in config.yaml" in ran.told
    assert vgpu_cfg.look(ESTATE).vms == {"vm-01", "vm-02"}


def test_destroy_of_more_than_a_context_allows_takes_their_number(vgpu_cfg: CommandLine, depts: Path) -> None:
    vgpu_cfg.done("apply", "--yes", depts)
    vgpu_cfg.write("config.yaml", 'contexts: {admins: {server: "lab:two-a100", most_deletions: 1}}\n')
    for words in (["--dry-run"], ["--yes"], ["--yes", "--allow-destroy", "1"]):
        ran = vgpu_cfg("destroy", *words, depts)
        assert ran.code == 4
        assert "to delete all of them, add --allow-destroy 2" in ran.told
    assert vgpu_cfg.look(ESTATE).vms == {"vm-01", "vm-02"}
    vgpu_cfg.done("destroy", "--yes", depts, "--allow-destroy", "2")
    assert vgpu_cfg.look(ESTATE).vms == frozenset()
