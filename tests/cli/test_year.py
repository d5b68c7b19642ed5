"""A year on one estate: VMs taken in, changed by hand, renamed, moved; a host that dies, one that is patched.

Each step is one command; after it the plan is in sync, nobody else's VM was touched, and `history` has it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyVmomi import vim

from tests.cli.colleague import NAME as COLLEAGUE
from tests.cli.colleague import Colleague
from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.state.inventory import Host, VirtualMachine

if TYPE_CHECKING:
    import pytest

ESTATE = "estates/year.yaml"
SERVER = f"lab:{ESTATE}"
PLAN = "team.yaml"


class Year:
    """The estate as it goes through the year, and the commands that the team ran on it."""

    def __init__(self, run: CommandLine) -> None:
        self.run = run
        self.commands: list[str] = []
        self.of_others = self.others()

    def step(self, *words: str) -> None:
        """Run a command that changes something; then the plan is in sync."""
        self.run.done(*words, "--yes") if words[0] != "cordon" else self.run.done(*words)
        self.commands.insert(0, words[0])
        self.holds()

    def holds(self) -> None:
        """See that the plan is in sync, that others' VMs are as they were, and that every run is told."""
        self.run.done("plan", PLAN, "--exit-code")
        self.run.done("status", PLAN, "--exit-code")
        assert self.others() == self.of_others
        told = json.loads(self.run.done("history", "--output", "json").out)
        assert [one["command"] for one in told["runs"]] == self.commands

    def edit(self, before: str, after: str) -> None:
        """Change the plan file, as its author does."""
        text = Path(PLAN).read_text(encoding="utf-8")
        assert text.count(before) == 1, text
        Path(PLAN).write_text(text.replace(before, after), encoding="utf-8")

    def vms(self) -> dict[str, VirtualMachine]:
        return {vm.name: vm for vm in self.run.lab(ESTATE).state.all(VirtualMachine)}

    def host_of(self, name: str) -> str:
        state = self.run.lab(ESTATE).state
        return state.get(self.vms()[name].host, Host).name

    def others(self) -> dict[str, Any]:
        return {
            name: (vm.host, vm.power_state, vm.change_version, dict(vm.extra_config))
            for name, vm in self.vms().items()
            if name.startswith("theirs-")
        }


def test_a_year(vgpu_cfg: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VGPU_CFG_SERVER", SERVER)
    vgpu_cfg.done("export", "--vm", "old-*", "--name", "team", "-o", PLAN)
    year = Year(vgpu_cfg)
    year.step("import", PLAN)

    # New VMs beside those that were taken in.
    year.edit(
        "vms:\n",
        "vms:\n- {name: 'new-{01..02}', template: ubuntu-22.04-efi, cluster: gpu-a, "
        "folder: training, gpus: grid_a100-10c, boot_delay: 2}\n",
    )
    year.step("apply", PLAN)

    # A colleague changes a setting: who is told, and what was found goes into the file.
    Colleague(vgpu_cfg.lab(ESTATE)).does(
        "new-02", "ReconfigVM_Task", vim.vm.ConfigSpec(bootOptions=vim.vm.BootOptions(bootDelay=5000))
    )
    assert COLLEAGUE in vgpu_cfg("status", PLAN).told
    vgpu_cfg.done("export", "--update", PLAN, "--vm", "new-02", "--yes")
    year.holds()

    # A VM is renamed in vCenter by a colleague: told, and given its name back.
    Colleague(vgpu_cfg.lab(ESTATE)).does("new-01", "Rename_Task", "mine")
    told = vgpu_cfg("status", PLAN).told
    assert "mine" in told
    year.step("apply", PLAN)

    # Renamed by the plan file.
    text = Path(PLAN).read_text(encoding="utf-8")
    Path(PLAN).write_text(text.replace("new-", "trn-"), encoding="utf-8")
    year.edit("vms:\n", "moved:\n- {from: 'new-{01..02}', to: 'trn-{01..02}'}\nvms:\n")
    kept = {vm.instance_uuid for name, vm in year.vms().items() if name.startswith("new-")}
    year.step("apply", PLAN)
    assert {vm.instance_uuid for name, vm in year.vms().items() if name.startswith("trn-")} == kept

    # A host dies, and comes back.
    host = year.host_of("trn-01")
    vgpu_cfg.done("lab", "hand", ESTATE, host, "--fail")
    assert vgpu_cfg("status", PLAN, "--exit-code").code == 10
    vgpu_cfg.done("lab", "hand", ESTATE, host, "--power-on")
    lab = vgpu_cfg.lab(ESTATE)
    while lab.state.booting and lab.wait():
        continue
    year.holds()

    # They go to another cluster.
    text = Path(PLAN).read_text(encoding="utf-8")
    line = next(line for line in text.splitlines() if "trn-{01..02}'," in line)
    year.edit(line, line.replace("gpu-a", "gpu-b"))
    year.step("apply", PLAN, "--allow-move")
    assert {year.host_of(name) for name in ("trn-01", "trn-02")} <= {"esx-b-01.lab", "esx-b-02.lab"}

    # A host is drained.
    host = year.host_of("old-02")
    year.step("cordon", f"host:{host}", "--reason", "new DIMM")
    year.step("drain", host, "--reason", "patches")
    year.step("uncordon", f"host:{host}", "--restore")

    # A VM is given up.
    year.edit("old-{01..02}", "old-02")
    year.step("forget", PLAN, "--only", "old-01")
    assert not any(key.startswith("vgpu_cfg.") for key in year.vms()["old-01"].extra_config)
