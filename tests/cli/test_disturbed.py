"""What a plan disturbs besides its own: shown alike by every output, and refused without an approval."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.model.choices import Approval
from vgpu_cfg.model.plan_file import fields

TWO = {"names": ["esx-1.lab", "esx-2.lab"], "gpus": [{"board": "A100"}]}


def estate(*, users: list[str]) -> dict[str, Any]:
    return {
        "about": "a switch that others use",
        "templates": [{"name": "ubuntu"}],
        "switches": [{"name": "dvs-prod", "mtu": 1500}],
        "networks": [{"name": name, "switch": "dvs-prod"} for name in ("prod", "roce")] + [{"name": "quiet"}],
        "clusters": [{"name": "gpu", "drs": "manual", "hosts": [TWO | {"nics": [{"switch": "dvs-prod"}]}]}],
        "vms": [{"names": users, "networks": ["prod"]}, {"name": "bystander", "networks": ["quiet"]}],
    }


def plan(**more: Any) -> dict[str, Any]:
    roce = {"name": "roce", "switch": "dvs-prod", "mtu": 9000}
    return {"version": 1, "name": "demo", "vcenter": "lab:./e.yaml", "networks": [roce]} | more


def write(vgpu_cfg: CommandLine, made: dict[str, Any], wanted: dict[str, Any]) -> None:
    vgpu_cfg.write("e.yaml", json.dumps(made))
    vgpu_cfg.write("p.yaml", json.dumps(wanted))


def switch(vgpu_cfg: CommandLine, name: str, power: Any) -> None:
    lab = vgpu_cfg.lab("./e.yaml")
    with lab.transaction():
        (vm,) = (one for one in lab.state.all(VirtualMachine) if one.name == name)
        vm.power_state = power
        lab.state.touch(vm)


def test_every_output_names_who_is_on_a_switch_that_gets_another_mtu(vgpu_cfg: CommandLine) -> None:
    write(vgpu_cfg, estate(users=["erp-1", "erp-2"]), plan(allow=["network"]))
    text = vgpu_cfg.done("plan", "p.yaml", "--html", "p.html", "-o", "p.json").out
    markdown = vgpu_cfg.done("plan", "p.yaml", "--output", "markdown").out
    runbook = vgpu_cfg.done("runbook", "p.yaml").out
    page = (vgpu_cfg.folder / "p.html").read_text(encoding="utf-8")
    for shown in (text, markdown, runbook, page):
        assert "link down and up" in shown
        assert "erp-{1..2}" in shown
        assert "bystander" not in shown or shown is page
    saved = json.loads((vgpu_cfg.folder / "p.json").read_text(encoding="utf-8"))
    found = {one["subject"]["name"]: one["needs"] for one in saved["disturbed"]}
    assert {name for name, needs in found.items() if needs} >= {"erp-1", "erp-2"}
    assert {"esx-1.lab", "esx-2.lab"} <= found.keys()
    assert "1 other VM is not affected" in text


@pytest.mark.parametrize("words", [(), ("--allow", "network")])
def test_that_needs_an_approval(vgpu_cfg: CommandLine, words: tuple[str, ...]) -> None:
    write(vgpu_cfg, estate(users=["erp-1"]), plan())
    ran = vgpu_cfg("plan", "p.yaml", *words)
    assert ran.code == (0 if words else 4)
    assert ("VG514" in ran.out) is not bool(words)
    if not words:
        assert "erp-1" in ran.told.split("VG514", 1)[1]
        assert "--allow network" in ran.told


def test_a_switch_that_nothing_uses_needs_none(vgpu_cfg: CommandLine) -> None:
    write(vgpu_cfg, estate(users=["x"]) | {"vms": []}, plan())
    shown = vgpu_cfg.done("plan", "p.yaml").out
    assert "esx-{1..2}.lab (through dvs-prod, 2 hosts not of this plan)" in shown
    assert "VG514" not in shown


def test_apply_says_the_approval_again_for_the_next_command(vgpu_cfg: CommandLine) -> None:
    write(vgpu_cfg, estate(users=["erp-1"]), plan())
    assert (
        "vgpu-cfg apply p.yaml --allow=network" in vgpu_cfg.done("plan", "p.yaml", "--allow", "network").out
    )
    vgpu_cfg.done("apply", "p.yaml", "--yes", "--allow", "network")
    assert "0 changes" in vgpu_cfg.done("plan", "p.yaml").out


def test_the_plan_file_knows_every_approval(vgpu_cfg: CommandLine) -> None:
    write(vgpu_cfg, estate(users=["erp-1"]), plan(allow=[*Approval]))
    assert "VG514" not in vgpu_cfg.done("plan", "p.yaml").out
    assert get_args(fields._ApprovalWord) == tuple(Approval)


def test_a_reviewed_plan_does_not_cover_vms_that_came_to_the_switch_since(vgpu_cfg: CommandLine) -> None:
    made = estate(users=["erp-1", "erp-2"])
    write(vgpu_cfg, made, plan(allow=["network"]))
    switch(vgpu_cfg, "erp-2", "poweredOff")
    vgpu_cfg.done("plan", "p.yaml", "-o", "p.json")
    switch(vgpu_cfg, "erp-2", "poweredOn")
    ran = vgpu_cfg("apply", "p.json", "--yes")
    assert ran.code == 4
    assert "does not allow for the disruption of erp-2" in ran.told


def test_a_host_without_an_uplink_on_the_switch_loses_no_link(vgpu_cfg: CommandLine) -> None:
    made = estate(users=["erp-1"])
    made["clusters"][0]["hosts"] = [
        TWO | {"names": ["esx-1.lab"], "nics": [{"switch": "dvs-prod"}]},
        TWO | {"names": ["esx-2.lab"], "nics": []},
    ]
    made["vms"] = [{"name": f"erp-{n}", "host": f"esx-{n}.lab", "networks": ["prod"]} for n in (1, 2)]
    write(vgpu_cfg, made, plan(allow=["network"]))
    shown = vgpu_cfg.done("plan", "p.yaml").told.partition("NETWORK")[0]
    assert "esx-1.lab" in shown
    assert "esx-2.lab" not in shown


@pytest.mark.parametrize("mtu", [1500, 9000])
def test_a_switch_keeps_the_mtu_that_a_vm_of_the_plan_uses(vgpu_cfg: CommandLine, mtu: int) -> None:
    made = estate(users=["erp-1"])
    made["switches"] = [{"name": "dvs-prod", "mtu": 9000}]
    nic = {"network": "prod", "type": "pvrdma", "rdma": "host"}
    vm = {"name": "w", "template": "ubuntu", "gpus": "grid_a100-40c", "memory": "8GiB", "nics": [nic]}
    lines = [{"name": "roce", "switch": "dvs-prod", "mtu": mtu}]
    write(vgpu_cfg, made, plan(allow=["network"], networks=lines, vms=[vm]))
    ran = vgpu_cfg("plan", "p.yaml")
    assert ("NICs on it use a larger one: w on prod (9000)" in ran.told) is (mtu == 1500)
