"""A guest whose customisation failed: the run says so, and so does everybody who looks later."""

from __future__ import annotations

import json

from tests.cli.command_line import CommandLine

ESTATE = """
about: a specification, and a template whose guest it does not get into
vcenter: {customization_specs: [{name: farm}]}
clusters: [{name: gpu, hosts: [{name: esx-1}]}]
templates:
- {name: good, guest: {cloud_init: false}}
- {name: broken, guest: {cloud_init: false, faults: {customization: network}}}
"""
PLAN = """
version: 1
name: farm
vcenter: lab:estate.yaml
vms:
- {name: a, template: TEMPLATE, cluster: gpu, cpus: 2, memory: 4GiB, guest: {spec: farm}}
"""


def test_a_failed_customisation_is_told_by_later_plans(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("estate.yaml", ESTATE)
    plan = vgpu_cfg.write("plan.yaml", PLAN.replace("TEMPLATE", "broken"))
    ran = vgpu_cfg("apply", "--yes", plan)
    assert (ran.code, "An error occurred while customizing VM a" in ran.told) == (6, True), ran.told
    for command in ("plan", "status"):
        found = vgpu_cfg(command, plan, "--exit-code", "--output", "json")
        told = json.loads(found.out)
        codes = [one["code"] for one in told.get("findings") or told["plan"]["diagnostics"]]
        assert (found.code, codes) == (0, ["VG256"]), command
    again = vgpu_cfg.done("apply", "--yes", plan)
    assert "guest customization failed" in again.told
    plan.write_text(plan.read_text(encoding="utf-8").replace("{spec: farm}", "{spec: farm}, ignore: [guest]"))
    assert "VG256" not in vgpu_cfg.done("plan", plan).told


def test_one_that_succeeded_is_not(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.write("estate.yaml", ESTATE)
    plan = vgpu_cfg.write("plan.yaml", PLAN.replace("TEMPLATE", "good"))
    vgpu_cfg.done("apply", "--yes", plan)
    found = json.loads(vgpu_cfg.done("plan", plan, "--output", "json").out)
    assert [one["code"] for one in found["plan"]["diagnostics"]] == ["VG255"]
