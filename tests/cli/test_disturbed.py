"""What a plan disturbs besides its own: shown alike by every output, and refused without an approval."""

from __future__ import annotations

import json
from typing import Any, get_args

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.model.approvals import Approval
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


def test_every_output_names_who_is_on_a_switch_that_gets_another_mtu(vgpu_cfg: CommandLine) -> None:
    write(vgpu_cfg, estate(users=["erp-1", "erp-2"]), plan(allow=["network"]))
    text = vgpu_cfg.done("plan", "p.yaml", "--html", "p.html", "-o", "p.json").out
    markdown = vgpu_cfg.done("plan", "p.yaml", "--output", "markdown").out
    runbook = vgpu_cfg.done("runbook", "p.yaml").out
    page = (vgpu_cfg.folder / "p.html").read_text(encoding="utf-8")
    for shown in (text, markdown, runbook, page):
        assert "link down and up through dvs-prod" in shown
        assert "erp-{1..2}" in shown
        assert "bystander" not in shown or shown is page
    saved = json.loads((vgpu_cfg.folder / "p.json").read_text(encoding="utf-8"))
    found = {one["subject"]["name"]: one["needs"] for one in saved["disturbed"]}
    assert {name for name, needs in found.items() if needs} >= {"erp-1", "erp-2"}
    assert {"esx-1.lab", "esx-2.lab"} <= found.keys()
    assert "0 other hosts and 1 other VM are not touched" in text


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
    assert "through dvs-prod esx-{1..2}.lab" in shown
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
