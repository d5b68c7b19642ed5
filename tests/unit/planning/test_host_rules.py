"""VM groups and their rules: whose VMs are in them, what they are called, and what stays when VMs leave."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.unit.planning.desired_plans import codes, estate, own, plan_for, planned, vm
from vgpu_cfg.changes.change import SetHostRule
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.model.desired import DesiredVm

A100 = [
    {"board": "A100", "pci": "0000:21:00.0", "node": 0},
    {"board": "A100", "pci": "0000:e2:00.0", "node": 1},
]


def line(*groups: str | None, **more: Any) -> list[DesiredVm]:
    return [
        vm(f"a-{n}", "grid_a100-20c", line="a-{0..9}", place={"host_group": group} | more, stated=["place"])
        for n, group in enumerate(groups)
    ]


def rules(plan: Plan) -> dict[str, tuple[str, list[str]]]:
    return {
        change.vm_group: (change.host_group, [one.name for one in change.vms])
        for change in plan.changes
        if isinstance(change, SetHostRule)
    }


def test_vms_of_a_line_with_several_groups_have_a_rule_each() -> None:
    groups = {"even": ["esx-0"], "odd": ["esx-1"]}
    observed = make_inventory(
        {
            "clusters": {"gpu": {"host_groups": groups}},
            "hosts": {f"esx-{n}": {"gpus": A100} for n in range(2)},
        }
    )
    assert rules(planned(plan_for(*line("even", "EVEN", "odd", None)), observed)) == {
        "vgpu-cfg:demo:a-{0..9}:even": ("even", ["a-0", "a-1"]),
        "vgpu-cfg:demo:a-{0..9}:odd": ("odd", ["a-2"]),
    }


@pytest.mark.parametrize(("delete", "stays"), [((), True), (("gone",), False)])
def test_a_group_stays_with_orphans_that_stay(delete: tuple[str, ...], stays: bool) -> None:
    cluster = {
        "host_groups": {"even": ["esx-01"]},
        "vm_groups": {"vgpu-cfg:demo:old": ["gone"]},
        "rules": [{"name": "vgpu-cfg:demo:old:hosts", "group": "vgpu-cfg:demo:old", "hosts": "even"}],
    }
    vms = {"a": own("grid_a100-20c"), "gone": own("grid_a100-20c")}
    plan = planned(plan_for(vm("a", "grid_a100-20c")), estate(vms, clusters={"gpu": cluster}), delete=delete)
    assert any(change.kind == "remove_vm_group" for change in plan.changes) is not stays
    assert any(change.kind == "remove_rule" for change in plan.changes) is not stays


def test_a_rule_that_the_plan_file_ignores_is_left_as_it_is() -> None:
    cluster = {
        "host_groups": {"even": ["esx-01"]},
        "vm_groups": {"vgpu-cfg:demo:a": []},
        "rules": [
            {"name": "vgpu-cfg:demo:a:hosts", "group": "vgpu-cfg:demo:a", "hosts": "even", "must": False}
        ],
    }
    observed = estate({"a": own("grid_a100-20c")}, clusters={"gpu": cluster})
    minded = vm("a", "grid_a100-20c", place={"host_group": "even"})
    ignored = vm("a", "grid_a100-20c", place={"host_group": "even"}, ignore=["place"])
    assert [change.kind for change in planned(plan_for(minded), observed).changes] == ["set_host_rule"]
    assert not planned(plan_for(ignored), observed).changes


def test_a_running_vm_of_a_group_that_is_not_there_is_an_error() -> None:
    wanted = vm("a", "grid_a100-20c", place={"host_group": "even"})
    assert codes(planned(plan_for(wanted), estate({"a": own("grid_a100-20c")}))) == ["VG330"]


def test_only_keeps_a_rule_whose_vms_are_all_chosen() -> None:
    observed = make_inventory(
        {"clusters": {"gpu": {"host_groups": {"even": ["esx-0"]}}}, "hosts": {"esx-0": {"gpus": A100}}}
    )
    wanted = plan_for(*line("even", "even"))
    assert "set_host_rule" in {change.kind for change in planned(wanted, observed, only=("a-*",)).changes}


@pytest.mark.parametrize(("must", "severity"), [(True, Severity.WARNING), (False, Severity.INFO)])
def test_running_vms_that_share_a_numa_node_against_the_spread_are_told(
    must: bool, severity: Severity
) -> None:
    gpus = [*A100, {"board": "A100", "pci": "0000:22:00.0", "node": 0}]
    rows = {
        name: {"host": "esx-0", "mark": True, "gpus": ["grid_a100-40c"], "on": [pci]}
        for name, pci in (("a-0", "0000:21:00.0"), ("a-1", "0000:22:00.0"), ("a-2", "0000:e2:00.0"))
    }
    observed = make_inventory({"hosts": {"esx-0": {"gpus": gpus}}, "vms": rows})
    place = {"spread": "numa", "must": must}
    wanted = [vm(f"a-{n}", "grid_a100-40c", line="a", place=place, stated=["place"]) for n in range(3)]
    (found,) = planned(plan_for(*wanted), observed).diagnostics
    assert (found.code, found.severity, found.subject.name) == ("VG306", severity, "a-{0..1}")
