"""`status` tells who changed what since the last apply, and asks nothing more where nothing differs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from pyVmomi import vim

from tests.cli.colleague import NAME, Colleague
from tests.cli.command_line import CommandLine
from tests.widths import WIDTHS
from vgpu_cfg.lab.state.inventory import VirtualMachine

if TYPE_CHECKING:
    import pytest

PLAN = """\
version: 1
name: told
vcenter: lab:two-a100
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB}
vms:
- {name: "vm-{01..04}", gpus: grid_a100-10c, extra_config: {sched.mem.pshare.enable: "FALSE"}}
"""


def told(vgpu_cfg: CommandLine) -> dict[tuple[str, str], tuple[str, str]]:
    """Return by VM and value who is told, and why nobody is."""
    found = json.loads(vgpu_cfg.done("status", "plan.yaml", "--output", "json").out)
    return {
        (one["subject"]["name"], one["what"]): (one["by"], one["why_unknown"]) for one in found["differences"]
    }


def test_each_value_has_its_own_author(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("plan.yaml", PLAN))
    assert told(vgpu_cfg) == {}
    lab = vgpu_cfg.lab("two-a100")
    colleague = Colleague(lab)
    colleague.does("vm-01", "PowerOffVM_Task")
    colleague.does("vm-01", "ReconfigVM_Task", vim.vm.ConfigSpec(numCPUs=2))
    colleague.does("vm-02", "PowerOffVM_Task")
    colleague.does("vm-02", "Destroy_Task")
    colleague.does("vm-04", "Rename_Task", "eves-vm")
    with lab.transaction():  # as a host's shell would
        (vm,) = (one for one in lab.state.all(VirtualMachine) if one.name == "vm-03")
        vm.extra_config["sched.mem.pshare.enable"] = "TRUE"
        lab.state.touch(vm)
    assert told(vgpu_cfg) == {
        ("vm-01", "cpus"): (NAME, ""),
        ("vm-01", "power"): (NAME, ""),
        ("vm-02", "VM"): (NAME, ""),
        ("vm-04", "name"): (NAME, ""),
        ("vm-03", "sched.mem.pshare.enable"): ("", "no vCenter event shows this"),
    }
    for width in WIDTHS:
        out = vgpu_cfg("status", "plan.yaml", COLUMNS=str(width)).out
        assert all(len(line) <= width for line in out.splitlines())
        assert out.count(NAME) == 4
        assert "no vCenter event shows this" in " ".join(out.split())
    before = vgpu_cfg.look("two-a100")
    vgpu_cfg.done("status", "plan.yaml")
    assert vgpu_cfg.look("two-a100") == before


def test_a_mark_that_is_written_along_is_no_difference(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("plan.yaml", PLAN))
    vgpu_cfg.write("plan.yaml", PLAN.replace("cpus: 4", "cpus: 2, boot_delay: 5"))
    words = {what for _, what in told(vgpu_cfg)}
    assert words == {"cpus", "boot_delay"}
    Colleague(vgpu_cfg.lab("two-a100")).does("vm-04", "Rename_Task", "vm-05")
    moved = PLAN.replace("{01..04}", "{01..03}") + "- {name: vm-05, gpus: grid_a100-10c}\n"
    vgpu_cfg.write("plan.yaml", f"{moved}moved:\n- {{from: vm-04, to: vm-05}}\n")
    shown = " ".join(vgpu_cfg("status", "plan.yaml").out.split())
    assert "owner_mark told of vm-05, previously vm-04" in shown


def test_in_sync_no_event_is_asked_for(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("plan.yaml", PLAN))
    monkeypatch.setattr("vgpu_cfg.vsphere.history.events.read_past", None)
    assert "in sync" in vgpu_cfg.done("status", "plan.yaml").out
