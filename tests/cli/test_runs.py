"""Runs that do not go through: refused before the first change, or failed on the way and told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.locks import locked_by_others
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.model.locks import LockName

PLAN = "plans/pair.yaml"
ESTATE = "two-a100"


# ---------------------------------------------------------------- privileges


@pytest.mark.parametrize(
    "privilege",
    [
        "VirtualMachine.Interact.PowerOn",
        "VirtualMachine.Provisioning.DeployTemplate",
        "Resource.AssignVMToPool",
    ],
)
def test_a_missing_privilege_is_told_before_the_first_change(privilege: str, vgpu_cfg: CommandLine) -> None:
    before = vgpu_cfg.look(ESTATE)
    vgpu_cfg.script(ESTATE, lacking=[privilege])
    ran = vgpu_cfg("apply", "--yes", PLAN)
    assert ran.code == 5
    assert f"lacks {privilege}" in ran.told
    assert "WHERE  /dc1" in ran.err
    assert vgpu_cfg.look(ESTATE) == before


def test_a_privilege_that_nothing_needs_is_not_missed(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(ESTATE, lacking=["Datacenter.Create"])
    vgpu_cfg.done("apply", "--yes", PLAN)


def test_what_only_reads_needs_no_privilege_to_write(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(ESTATE, lacking=["VirtualMachine.Interact.PowerOn", "VirtualMachine.Inventory.Delete"])
    vgpu_cfg.done("plan", PLAN)
    vgpu_cfg.done("status", PLAN)


def test_destroy_asks_for_what_destroying_needs(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", PLAN)
    before = vgpu_cfg.look(ESTATE)
    vgpu_cfg.script(ESTATE, lacking=["VirtualMachine.Inventory.Delete"])
    ran = vgpu_cfg("destroy", "--yes", PLAN)
    assert ran.code == 5
    assert "lacks VirtualMachine.Inventory.Delete" in ran.told
    assert vgpu_cfg.look(ESTATE) == before


# ---------------------------------------------------------------- tasks that fail


def test_a_task_that_fails_is_told_in_vcenters_words_and_the_rest_goes_on(vgpu_cfg: CommandLine) -> None:
    words = "Module 'DevicePowerOn' power on failed."
    vgpu_cfg.script(ESTATE, {"method": "PowerOnVM_Task", "nth": 1, "message": words})
    ran = vgpu_cfg("apply", "--yes", PLAN)
    assert ran.code == 6
    assert words in ran.told
    assert "FAILED step" in ran.told
    assert "LEFT hvd-01" in ran.told
    assert f"NEXT vgpu-cfg apply {PLAN}" in ran.told
    vms = {vm.name: vm.is_on for vm in vgpu_cfg.lab(ESTATE).state.all(VirtualMachine) if not vm.is_template}
    assert vms == {"hvd-01": False, "hvd-02": True}

    vgpu_cfg.script(ESTATE)
    vgpu_cfg.done("apply", "--yes", PLAN)
    assert vgpu_cfg("status", "--exit-code", PLAN).code == 0


def test_what_needs_it_is_skipped(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(
        ESTATE, {"method": "CloneVM_Task", "nth": 2, "fault": "NoDiskSpace", "message": "No space left."}
    )
    ran = vgpu_cfg("apply", "--yes", "--output", "json", PLAN)
    assert ran.code == 6
    report = json.loads(ran.out)
    status = {outcome["change_id"]: outcome["status"] for outcome in report["outcomes"]}
    assert status["create hvd-01"] == status["power on hvd-01"] == "done"
    assert status["create hvd-02"] == "failed"
    assert status["power on hvd-02"] == "skipped"
    failed = next(outcome for outcome in report["outcomes"] if outcome["status"] == "failed")
    assert "No space left." in failed["message"]
    assert vgpu_cfg.look(ESTATE).vms == {"hvd-01"}


def test_a_call_that_is_refused_is_a_failed_change(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(
        ESTATE,
        {
            "method": "PowerOnVM_Task",
            "nth": 0,
            "kind": "call",
            "fault": "InvalidState",
            "message": "Not now.",
        },
    )
    ran = vgpu_cfg("apply", "--yes", PLAN)
    assert ran.code == 6
    assert "Not now." in ran.told


@pytest.mark.parametrize("kind", ["drop_before", "drop_after"])
@pytest.mark.parametrize("method", ["CloneVM_Task", "PowerOnVM_Task"])
def test_a_connection_that_drops_costs_nothing(kind: str, method: str, vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(ESTATE, {"method": method, "kind": kind})
    ran = vgpu_cfg.done("apply", "--yes", PLAN)
    # A task that vCenter began is found again; one that it did not begin is asked for again.
    assert ("checking the current state" in ran.told) == (kind == "drop_before")
    assert vgpu_cfg.look(ESTATE).vms == {"hvd-01", "hvd-02"}
    assert vgpu_cfg("plan", "--exit-code", PLAN).code == 0


def test_a_session_that_ends_midway_is_renewed(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(ESTATE, {"method": "PowerOnVM_Task", "kind": "session_expired"})
    vgpu_cfg.done("apply", "--yes", PLAN)


# ---------------------------------------------------------------- others


def test_another_run_of_the_same_plan_is_waited_for_by_nobody(vgpu_cfg: CommandLine) -> None:
    before = vgpu_cfg.look(ESTATE)
    with locked_by_others(vgpu_cfg.lab(ESTATE), LockName(kind="plan", key="horovod-a100")):
        ran = vgpu_cfg("apply", "--yes", PLAN)
        assert ran.code == 6
        assert "another run has locked plan horovod-a100: anna on ci-7" in ran.told
        assert vgpu_cfg.look(ESTATE) == before
        vgpu_cfg.done("plan", PLAN)
        vgpu_cfg.done("apply", "--yes", "plans/before.yaml")


def test_a_vm_without_the_plans_mark_is_never_touched_and_a_renamed_one_is_told(
    vgpu_cfg: CommandLine,
) -> None:
    vgpu_cfg.done("apply", "--yes", "examples/full-vgpu.yaml")
    lab = vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        vm = next(vm for vm in lab.state.all(VirtualMachine) if vm.name == "big-01")
        vm.name = "anna's"
        lab.state.touch(vm)
    told = vgpu_cfg.done("destroy", "--dry-run", "examples/full-vgpu.yaml").told
    assert "its name in vCenter is anna's" in told
    assert "to keep the VM, first remove its owner mark: `govc vm.change -vm" in told
    with lab.transaction():
        for key in ("vgpu_cfg.plan", "vgpu_cfg.vm"):
            del vm.extra_config[key]
        lab.state.touch(vm)
    lab.save()
    before = vgpu_cfg.look(ESTATE)
    vgpu_cfg("destroy", "--yes", "examples/full-vgpu.yaml")
    assert vgpu_cfg.look(ESTATE) == before


def test_a_vm_that_is_in_the_way_by_its_name_is_told(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", "plans/before.yaml")
    text = Path("plans/before.yaml").read_text(encoding="utf-8")
    other = text.replace("name: changing\nid: 6b1d", "name: other\nid: 7c2e")
    vgpu_cfg.write("other.yaml", other)
    before = vgpu_cfg.look(ESTATE)
    ran = vgpu_cfg("apply", "--yes", "other.yaml")
    assert ran.code == 4
    assert "changing" in ran.told
    assert vgpu_cfg.look(ESTATE) == before


# ---------------------------------------------------------------- the journal


def test_a_run_leaves_a_journal_and_reading_leaves_none(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("plan", PLAN)
    journals = vgpu_cfg.state_folder / "journals"
    assert not journals.exists()
    vgpu_cfg.done("apply", "--yes", PLAN)
    (journal,) = journals.iterdir()
    lines = [json.loads(line) for line in journal.read_text(encoding="utf-8").splitlines()]
    assert len(lines) > 4
    vgpu_cfg.done("apply", "--yes", PLAN)
    assert list(journals.iterdir()) == [journal]


# ---------------------------------------------------------------- many failures of one cause


def test_one_cause_is_told_once_with_what_it_stopped(vgpu_cfg: CommandLine) -> None:
    text = (vgpu_cfg.folder / PLAN).read_text(encoding="utf-8")
    text = text.replace("hvd-{01..02}", "m-{01..12}").replace("cpus: 16", "cpus: 2").replace("64GiB", "4GiB")
    text = text.replace("gpus: grid_a100-40c", "power: true").replace("  place: {spread: gpus}\n", "")
    plan = vgpu_cfg.write("many.yaml", text)
    vgpu_cfg.script(ESTATE, {"method": "PowerOnVM_Task", "nth": 0, "message": "Module DevicePowerOn failed."})
    ran = vgpu_cfg("apply", "--yes", plan)
    assert ran.code == 6
    assert ran.told.count("Module DevicePowerOn failed.") == 2, "as it happens, and at the end"
    assert ran.out.count("created, but not completed") == 1
    assert "FAILED  12 steps: power on m-{01..12}" in ran.out
    assert "power on m-12: as power on m-" in ran.told
