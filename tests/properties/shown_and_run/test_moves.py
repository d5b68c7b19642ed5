"""Shown is run where VMs get other names, folders, hosts and datastores, running or off."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.test_rename_and_move import COLD, ESTATE, HOT, PLAN
from tests.properties.shown_and_run.comparison import faults_of
from tests.properties.shown_and_run.reviewed import run_reviewed

ELSEWHERE = (
    PLAN.replace("cluster: gpu", "cluster: other")
    .replace("datastore: vsan", "datastore: nfs")
    .replace("folder: training", "folder: training/new")
    .replace("vm-{01..02}", "trn-{01..02}")
    + 'moved: [{from: "vm-{01..02}", to: "trn-{01..02}"}]\n'
)


@pytest.mark.parametrize("estate", [HOT, COLD], ids=["vmotion", "cold"])
def test_what_is_sent_was_shown(estate: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    vgpu_cfg = CommandLine(tmp_path, monkeypatch)
    vgpu_cfg.write(ESTATE, estate.replace("folders: [training]", "folders: [training, training/new]"))
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("plan.yaml", PLAN))
    plan = vgpu_cfg.write("plan.yaml", ELSEWHERE)
    run = run_reviewed(vgpu_cfg, monkeypatch, plan, ESTATE, "--allow-move", "--allow-power-cycle")
    assert run is not None
    kinds = {change["kind"] for change in run.plan["changes"]}
    assert kinds >= {"rename_vm", "move_vm_to_folder", "relocate_vm", "reconfigure_vm"}
    assert faults_of(run, of_vms=True) + faults_of(run, of_vms=False) == []
    vgpu_cfg.done("plan", "--exit-code", plan)
