"""`plan` and `status` both report each pair of a VM's extraConfig that a colleague changes or removes."""

from __future__ import annotations

import itertools

import pytest

from tests.cli.command_line import CommandLine
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, MARK_PLAN_KEY, MARK_VM_KEY

ESTATE, PLAN, VM = "two-hosts-roce", "examples/multi-node-torchrun.yaml", "ddp-01"
IN_FINDINGS = {MARK_PLAN_KEY: "VG00", MARK_VM_KEY: "VG00", AFFINITY_KEY: "VG310"}
"""The keys whose loss is a finding, not a change; without its mark, a VM is not the plan's."""
GUESTS = ("vgpu_cfg.guest", "guestinfo.")
"""The beginnings of the keys that the guest's bundle and its reports use."""


def set_pair(vgpu_cfg: CommandLine, key: str, value: str | None) -> str | None:
    """Set a pair in the lab, None to remove it; return its value before."""
    lab = vgpu_cfg.lab(ESTATE)
    with lab.transaction():
        (vm,) = (one for one in lab.state.all(VirtualMachine) if one.name == VM)
        before = vm.extra_config.pop(key, None)
        if value is not None:
            vm.extra_config[key] = value
        lab.state.touch(vm)
    return before


def owned_pairs(vgpu_cfg: CommandLine) -> list[str]:
    (vm,) = (one for one in vgpu_cfg.lab(ESTATE).state.all(VirtualMachine) if one.name == VM)
    return [key for key in vm.extra_config if not key.startswith(GUESTS)]


@pytest.mark.exhaustive("longer runs of what the tests beside them try")
def test_a_pair_that_was_lost_is_reported_by_plan_and_status(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done("apply", PLAN, "--yes")
    keys = owned_pairs(vgpu_cfg)
    assert {AFFINITY_KEY, "pciPassthru.use64bitMMIO", "vgpu_cfg.addresses"} <= {*keys}
    for key, other in zip(keys, itertools.cycle((None, "7")), strict=False):
        before = set_pair(vgpu_cfg, key, other)
        plan, status = (vgpu_cfg(command, PLAN, "--exit-code") for command in ("plan", "status"))
        says = IN_FINDINGS.get(key, key)
        assert (says in plan.told, says in status.told) == (True, True), (key, other, plan, status)
        assert (plan.code == 0) is (status.code == 0), (key, other, plan, status)
        set_pair(vgpu_cfg, key, before)
    assert "in sync" in vgpu_cfg.done("plan", PLAN).told
