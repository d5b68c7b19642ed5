"""VMs renamed or moved, by hand or by the plan file: told, brought about, and in sync afterwards."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyVmomi import vim

from tests.cli.command_line import CommandLine
from tests.cli.host_watch import put_state, state_file
from vgpu_cfg.lab.state.inventory import Folder, Host, LabState, VirtualMachine
from vgpu_cfg.lab.vcenter import Lab

ESTATE = "two-clusters.yaml"
HOT = """\
about: A cluster of two servers, and another of one.
vcenter: {settings: {vgpu.hotmigrate.enabled: true}}
clusters:
- name: gpu
  hosts:
  - {name: one.lab, memory: 256GiB, gpus: [{board: A100, count: 2}]}
  - {name: two.lab, memory: 256GiB, gpus: [{board: A100, count: 2}]}
- name: other
  hosts:
  - {name: far.lab, memory: 256GiB, gpus: [{board: A100, count: 2}]}
datastores: [{name: vsan}, {name: nfs, kind: NFS}]
networks: [{name: vm-network}]
folders: [training]
templates: [{name: ubuntu-22.04-efi}]
"""
COLD = HOT.replace("true", "false")
PLAN = """\
version: 1
name: shared
id: 6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e03
vcenter: lab:two-clusters.yaml
defaults:
  {template: ubuntu-22.04-efi, cluster: gpu, folder: training, datastore: vsan, cpus: 4, memory: 16GiB}
vms:
- {name: "vm-{01..02}", gpus: grid_a100-10c, place: {spread: hosts, must: false}}
"""


@pytest.fixture(scope="module")
def applied(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The lab's state with the plan applied, as a file."""
    with pytest.MonkeyPatch.context() as patch:
        vgpu_cfg = CommandLine(tmp_path_factory.mktemp("applied"), patch)
        vgpu_cfg.write(ESTATE, HOT)
        vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("plan.yaml", PLAN))
        yield state_file(vgpu_cfg, ESTATE).absolute()


@pytest.fixture
def plan(applied: Path, vgpu_cfg: CommandLine) -> Path:
    """Return the plan, whose VMs stand."""
    vgpu_cfg.write(ESTATE, HOT)
    put_state(vgpu_cfg, applied, ESTATE)
    return vgpu_cfg.write("plan.yaml", PLAN)


def vm_of(state: LabState, name: str) -> VirtualMachine:
    return next(vm for vm in state.all(VirtualMachine) if vm.name == name)


def rename(lab: Lab, name: str, other: str) -> None:
    lab.call(vm_of(lab.state, name), "Rename_Task", newName=other)
    lab.run_until_idle()
    lab.save()


def put_into(lab: Lab, name: str, sub: str) -> None:
    training = next(folder for folder in lab.state.all(Folder) if folder.name == "training")
    made = lab.call(training, "CreateFolder", name=sub)
    moid = vm_of(lab.state, name).moid
    lab.call(made, "MoveIntoFolder_Task", list=[vim.VirtualMachine(moid)])
    lab.run_until_idle()
    lab.save()


def moids(vgpu_cfg: CommandLine) -> set[str]:
    """Return the VMs that are there, templates apart: no other may be made."""
    return {vm.moid for vm in vgpu_cfg.lab(ESTATE).state.all(VirtualMachine) if not vm.is_template}


def assert_in_sync(vgpu_cfg: CommandLine, plan: Path, *flags: str) -> None:
    assert "in sync, 2 VMs, 0 changes" in vgpu_cfg.done("plan", "--exit-code", *flags, plan).told


def test_a_vm_that_was_renamed_by_hand_is_told_and_gets_its_name_back(
    plan: Path, vgpu_cfg: CommandLine
) -> None:
    before = moids(vgpu_cfg)
    rename(vgpu_cfg.lab(ESTATE), "vm-01", "other")
    status = vgpu_cfg.done("status", plan).told
    assert "vm-01 name vm-01 other" in status
    assert "VG222 vm-01: its name in vCenter is other" in status
    assert vgpu_cfg("verify", plan).code == 0
    left = vgpu_cfg.done("plan", "--only", "vm-02", plan).told
    assert "0 changes" in left
    removed = vgpu_cfg.done("destroy", "--dry-run", plan).told
    assert "2 removed VMs" in removed
    ran = vgpu_cfg.done("apply", "--yes", plan).told
    assert "rename vm-01: renamed from other" in ran
    assert vgpu_cfg.look(ESTATE).vms == {"vm-01", "vm-02"}
    assert moids(vgpu_cfg) == before
    assert_in_sync(vgpu_cfg, plan)


def test_a_renamed_vm_is_deleted_as_the_plans_own(plan: Path, vgpu_cfg: CommandLine) -> None:
    rename(vgpu_cfg.lab(ESTATE), "vm-01", "other")
    vgpu_cfg.done("destroy", "--yes", plan)
    assert vgpu_cfg.look(ESTATE).vms == frozenset()


def test_a_vm_in_another_folder_goes_back_and_a_name_stays_where_that_is_ignored(
    plan: Path, vgpu_cfg: CommandLine
) -> None:
    put_into(vgpu_cfg.lab(ESTATE), "vm-01", "attic")
    rename(vgpu_cfg.lab(ESTATE), "vm-02", "kept")
    plan = vgpu_cfg.write("plan.yaml", PLAN.replace("cpus: 4", "cpus: 4, ignore: [name]"))
    ran = vgpu_cfg.done("apply", "--yes", plan).told
    assert "folder /dc1/vm/training/attic -> /dc1/vm/training" in ran
    assert vgpu_cfg.look(ESTATE).vms == {"vm-01", "kept"}
    assert_in_sync(vgpu_cfg, plan)
    changed = vgpu_cfg.write("plan.yaml", PLAN.replace("cpus: 4", "cpus: 8, ignore: [name]"))
    vgpu_cfg.done("apply", "--yes", "--allow-power-cycle", changed)
    assert vm_of(vgpu_cfg.lab(ESTATE).state, "kept").cpus == 8
    assert_in_sync(vgpu_cfg, changed)


def test_the_plan_file_renames_vms_and_their_marks_and_rules(plan: Path, vgpu_cfg: CommandLine) -> None:
    before = moids(vgpu_cfg)
    text = PLAN.replace("vm-{01..02}", "trn-{01..02}")
    moved = text + 'moved: [{from: "vm-{01..02}", to: "trn-{01..02}"}]\n'
    plan = vgpu_cfg.write("plan.yaml", moved)
    assert "2 renamed VMs" in vgpu_cfg.done("plan", plan).told
    vgpu_cfg.done("apply", "--yes", plan)
    found = vgpu_cfg.look(ESTATE)
    assert found.vms == {"trn-01", "trn-02"}
    assert found.rules == {"vgpu-cfg:shared:trn-{01..02}"}
    assert moids(vgpu_cfg) == before
    state = vgpu_cfg.lab(ESTATE).state
    assert vm_of(state, "trn-01").extra_config["vgpu_cfg.vm"] == "trn-01"
    assert_in_sync(vgpu_cfg, plan)
    assert_in_sync(vgpu_cfg, vgpu_cfg.write("plan.yaml", text))


def test_another_cluster_is_a_vmotion_with_leave_and_with_its_stun(plan: Path, vgpu_cfg: CommandLine) -> None:
    plan = vgpu_cfg.write("plan.yaml", PLAN.replace("cluster: gpu", "cluster: other"))
    told = vgpu_cfg.done("plan", plan).told
    assert "to allow the move, add --allow-move" in told
    assert vgpu_cfg("plan", "--exit-code", plan).code == 10
    # The remedy, followed.
    shown = vgpu_cfg.done("plan", "--allow-move", plan).told
    assert "by vMotion, while running, paused for about 8.7 s: one.lab -> far.lab" in shown
    assert "2 vMotions" in shown
    ran = vgpu_cfg.done("apply", "--yes", "--allow-move", plan)
    assert "2 moved" in ran.told
    state = vgpu_cfg.lab(ESTATE).state
    far = next(host for host in state.all(Host) if host.name == "far.lab")
    assert all(vm_of(state, name).host == far.moid for name in ("vm-01", "vm-02"))
    assert all(vm_of(state, name).is_on for name in ("vm-01", "vm-02"))
    assert_in_sync(vgpu_cfg, plan)


def test_without_hot_migration_it_takes_a_power_cycle_and_leave_for_that(
    applied: Path, vgpu_cfg: CommandLine
) -> None:
    vgpu_cfg.write(ESTATE, COLD)
    vgpu_cfg.write("hot.yaml", PLAN)
    vgpu_cfg.done("apply", "--yes", "hot.yaml")
    plan = vgpu_cfg.write(
        "plan.yaml", PLAN.replace("datastore: vsan", "datastore: nfs, place: {hosts: two*}")
    )
    refused = vgpu_cfg("plan", "--allow-move", plan)
    assert refused.code == 4
    assert "vCenter setting vgpu.hotmigrate.enabled is off" in refused.told
    vgpu_cfg.done("apply", "--yes", "--allow-move", "--allow-power-cycle", plan)
    assert_in_sync(vgpu_cfg, plan)


def test_a_move_waits_for_the_window_of_its_hosts(plan: Path, vgpu_cfg: CommandLine) -> None:
    window = f"{(datetime.now(UTC) + timedelta(days=3)):%a} 22:00-22:01 UTC"
    hosts = f"hosts:\n- {{cluster: other, disruption: {{window: {window}}}}}\n"
    plan = vgpu_cfg.write("plan.yaml", PLAN.replace("cluster: gpu", "cluster: other") + hosts)
    refused = vgpu_cfg("apply", "--yes", "--allow-move", plan)
    assert f"only during {window}" in refused.told
    assert (refused.code, "is closed" in refused.told) == (4, True)
