from __future__ import annotations

import pytest

from tests.plans.planned import inventory_of, options_of
from tests.plans.test_fixes import source_of
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.planning.drift import differences_of
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.suggestions import write_found
from vgpu_cfg.suggestions.as_found import IN_GUEST, NO_KEY, NOT_ENOUGH, NOT_THERE, OTHER_NAME

AWAY = "esx-01 does not respond; reconnect it first"
FOUND: dict[str, tuple[list[str], list[tuple[str, str]]]] = {
    "affinity-mended-where-managed": (["-   numa: follow-gpu", "+   numa: 0"], []),
    "virtual-numa-mended-where-managed": (["-   numa: follow-gpu"], []),
    "power-off-is-wanted": (["-   power: false", "+   power: true"], []),
    "memory-is-too-little": (["-   gpus: 10GiB", "+   gpus: nvidia_l40s-8c"], []),
    "a-vgpu-of-others-and-an-own-one-that-the-plan-file-drops": (["-   gpus: []"], []),
    "nvlink-pair-was-plain": (
        [
            "-   gpus:",
            "-   - profile: grid_a100d-80c",
            "-     count: 2",
            "-     nvlink: true",
            "+   gpus: [{profile: grid_a100d-80c, count: 2}]",
        ],
        [],
    ),
    "overrides-before-the-power-on": (["-   drs: manual", "+   power: false"], []),
    "only-one-of-two-on-a-host": (["-   gpus: grid_a100-20c", "+   gpus: grid_a100-10c"], []),
    "lost-host-beside-a-change": (["+   except:", "+     a-2: {power: false}"], [("VM", AWAY)]),
    "addresses-stay-when-workers-come": (
        ["+   except:", "+     w-03: {nics: vm-network}"],
        [("VM", NOT_THERE)],
    ),
    "host-from-vms-mig-lost-at-reboot": (
        ["+   power: false"],
        [("pciPassthru.64bitMMIOSizeGB", NOT_ENOUGH)],
    ),
    "a-disk-of-others-at-the-place-of-its-own": (
        ["-   disks:", "-   - size: 20GiB", "+   disks: []"],
        [],
    ),
    "in-another-folder": ([], [("folder", NO_KEY)]),
    "names-in-a-row": ([], [("name", OTHER_NAME), ("name", OTHER_NAME)]),
    "guest-keys-half-replaced": ([], [("guest", IN_GUEST)]),
}
"""By case the changed lines of the plan file, and what stays different of its VMs, with the reason."""


@pytest.mark.parametrize("case", FOUND)
def test_the_plan_file_asks_for_what_was_found_and_for_nothing_else(case: str) -> None:
    source = source_of(case)
    lines, left = FOUND[case]
    names = [vm.name for vm in source.load(source.text).desired.vms]
    found = write_found(source, names)
    assert [line for line in found.lines if line[0] in "+-"] == lines
    assert [(one.what, one.why) for one in found.left] == left
    plan = make_plan(source.load(found.text).desired, inventory_of(case), load_catalog(), options_of(case))
    clean = set(found.vms) - {one.vm for one in found.left}
    assert not [one for one in differences_of(plan) if one.subject.name in clean]


def test_a_vm_that_is_not_named_keeps_its_lines() -> None:
    found = write_found(source_of("only-one-of-two-on-a-host"), ["a-2"])
    assert found.vms == ("a-2",)
    assert [line for line in found.lines if line[0] in "+-"] == [
        "+   except:",
        "+     a-2: {gpus: grid_a100-10c}",
    ]
