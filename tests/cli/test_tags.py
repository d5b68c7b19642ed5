"""Tags of VMs by the command line on the lab: given, found in sync, changed by a colleague, gone."""

from __future__ import annotations

from tests.cli.command_line import CommandLine
from tests.cli.team import codes, kinds, vm_of
from tests.cli.test_vm_options import ESTATE, plan_of
from vgpu_cfg.lab.state.inventory import LabState
from vgpu_cfg.lab.state.tags import attached_to, categories_of, objects_of, tags_of

DAILY = "{Backup: daily, Team: [ml, ops]}"


def shown(state: LabState, name: str = "vm-01") -> set[str]:
    """Return the tags of a VM, as a colleague sees them."""
    found = [tags_of(state)[one] for one in attached_to(state, "VirtualMachine", vm_of(state, name).moid)]
    return {f"{categories_of(state)[tag['category_id']]['name']}/{tag['name']}" for tag in found}


def tag_id(state: LabState, name: str) -> str:
    return next(one for one, tag in tags_of(state).items() if tag["name"] == name)


def test_tags_are_given_stay_drift_and_are_given_again(vgpu_cfg: CommandLine) -> None:
    plan = plan_of(vgpu_cfg, tags=DAILY)
    vgpu_cfg.done("apply", "--yes", plan)
    lab = vgpu_cfg.lab(ESTATE)
    assert shown(lab.state) == {"Backup/daily", "Team/ml", "Team/ops"}
    assert ": in sync, " in vgpu_cfg.done("plan", plan, "--exit-code").told
    with lab.transaction():
        own = ["VirtualMachine", vm_of(lab.state, "vm-01").moid]
        for name, there in (("daily", False), ("weekly", True), ("r1", True)):
            objects = objects_of(lab.state, tag_id(lab.state, name))
            objects.append(own) if there else objects.remove(own)
        lab.state.touch()
    status = vgpu_cfg("status", plan)
    assert "Backup" in status.told
    assert "weekly" in status.told
    assert kinds(vgpu_cfg("plan", plan, "--output", "json")) == {"set_tags"}
    vgpu_cfg.done("apply", "--yes", plan)
    assert shown(vgpu_cfg.lab(ESTATE).state) == {"Backup/daily", "Team/ml", "Team/ops", "Rack/r1"}


def test_a_category_that_left_the_file_is_left_alone_and_told_of(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", plan_of(vgpu_cfg, tags=DAILY))
    ran = vgpu_cfg.done("plan", "-v", plan_of(vgpu_cfg, tags="{Backup: daily}"))
    assert "tags.Team" in ran.told
    assert ": in sync, " in ran.told


def test_a_run_that_fails_is_taken_back_with_its_tags(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", plan_of(vgpu_cfg, tags=DAILY))
    vgpu_cfg.script(ESTATE, {"method": "CloneVM_Task", "kind": "task"})
    plan = plan_of(vgpu_cfg, "vm-01", "vm-02", tags="{Backup: weekly, Team: [ops]}")
    ran = vgpu_cfg("apply", "--yes", "--rollback-on-failure", plan)
    assert ran.code == 6
    assert "set tags of vm-01" in ran.told
    assert shown(vgpu_cfg.lab(ESTATE).state) == {"Backup/daily", "Team/ml", "Team/ops"}


def test_a_vm_that_goes_takes_its_tags_along(vgpu_cfg: CommandLine) -> None:
    plan = plan_of(vgpu_cfg, tags=DAILY)
    vgpu_cfg.done("apply", "--yes", plan)
    vgpu_cfg.done("destroy", plan, "--yes")
    state = vgpu_cfg.lab(ESTATE).state
    assert [one for one in tags_of(state) if objects_of(state, one)] == []


def test_a_recording_holds_no_tags_and_says_so(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("inventory", "--record", "vc.json", "--server", f"lab:{ESTATE}")
    ran = vgpu_cfg("plan", plan_of(vgpu_cfg, tags=DAILY), "--from", "vc.json", "--output", "json")
    assert "VG240" in codes(ran)
    assert "set_tags" not in kinds(ran)


def test_who_names_no_tags_logs_in_nowhere_else(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.script(ESTATE, {"method": "POST session", "nth": 0, "kind": "unavailable"})
    vgpu_cfg.done("plan", plan_of(vgpu_cfg))
    ran = vgpu_cfg("plan", plan_of(vgpu_cfg, tags=DAILY))
    assert ran.code == 5
    assert "returned 503" in ran.told
