"""What `forget` takes away from VMs and clusters, and what it leaves; `import` takes the VMs back."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tests.plans.estate import READ_AT
from tests.plans.simulator import carry_out
from tests.unit.planning.desired_plans import codes, estate, own, plan_for, planned, vm
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.vms.ownership import make_forget_plan, make_import_plan

OFF = own(power="poweredOff")
CLUSTER = {
    "host_groups": {"even": ["esx-01"]},
    "vm_groups": {"vgpu-cfg:demo:l": ["a", "b", "c"], "vgpu-cfg:demo:m": ["a"], "theirs": ["a"]},
    "rules": [
        {"name": "vgpu-cfg:demo:l", "vms": ["a", "b", "c"]},
        {"name": "vgpu-cfg:demo:k", "vms": ["a", "b"], "enabled": False},
        {"name": "by hand", "vms": ["a", "b"]},
        {"name": "vgpu-cfg:demo:l:hosts", "group": "vgpu-cfg:demo:l", "hosts": "even", "must": False},
        {"name": "vgpu-cfg:demo:m:hosts", "group": "vgpu-cfg:demo:m", "hosts": "even"},
    ],
}
THREE = plan_for(vm("a", lock=True), vm("b"), vm("c"), protect={"names": ["*"]})


def ids(plan: Plan) -> list[str]:
    return [change.id for change in plan.changes]


def forgotten(observed: Inventory, *only: str, wanted: Any = THREE) -> Plan:
    return make_forget_plan(wanted, observed, PlanOptions(only=only))


def observed_of(**rows: Any) -> Inventory:
    return estate({"a": OFF, "b": OFF, "c": OFF} | rows, clusters={"gpu": CLUSTER})


def test_marks_and_rules_go_and_nothing_else() -> None:
    observed = observed_of(stranger=OFF | {"mark": None})
    plan = forgotten(observed)
    assert ids(plan)[-3:] == ["forget a", "forget b", "forget c"]
    assert not plan.diagnostics
    after = carry_out(plan, observed)
    (cluster,) = after.clusters
    assert [one.name for one in cluster.rules] + [one.name for one in cluster.host_rules] == ["by hand"]
    assert [group.name for group in cluster.vm_groups] == ["theirs"]
    for before, now in zip(observed.vms, after.vms, strict=True):
        assert before.detail is not None
        assert now.detail is not None
        kept = {"extra_config": {}, "change_version": ""}
        assert now.mark is None
        assert now.detail.model_copy(update=kept) == before.detail.model_copy(update=kept)
        assert not any(key.startswith("vgpu_cfg.") for key in now.detail.extra_config)
        assert {**before.detail.extra_config, **now.detail.extra_config} == before.detail.extra_config
    again = forgotten(after)
    assert (codes(again.diagnostics), again.errors) == (["VG011"], ())


def test_who_stays_stays_in_rule_and_group() -> None:
    observed = observed_of()
    plan = forgotten(observed, "a")
    assert ids(plan) == [
        "set rule vgpu-cfg:demo:l in gpu",
        "remove rule vgpu-cfg:demo:k in gpu",
        "set rule vgpu-cfg:demo:l:hosts in gpu",
        "remove rule vgpu-cfg:demo:m:hosts in gpu",
        "remove VM group vgpu-cfg:demo:m in gpu",
        "forget a",
    ]
    assert plan.changes[-1].needs == tuple(ids(plan)[:-1])
    after = carry_out(plan, observed)
    (cluster,) = after.clusters
    assert {rule.name: (rule.vm_moids, rule.is_mandatory) for rule in cluster.rules} == {
        "vgpu-cfg:demo:l": (("vm-b", "vm-c"), True),
        "by hand": (("vm-a", "vm-b"), True),
    }
    (tie,) = cluster.host_rules
    assert (tie.name, tie.is_mandatory) == ("vgpu-cfg:demo:l:hosts", False)
    assert {group.name: group.vm_moids for group in cluster.vm_groups} == {
        "vgpu-cfg:demo:l": ("vm-b", "vm-c"),
        "theirs": ("vm-a",),
    }


def test_plan_sees_strangers_then_and_import_takes_them_back() -> None:
    wanted = plan_for(vm("a", "grid_a100-10c"))
    observed = estate({"a": own("grid_a100-10c")})
    assert not planned(wanted, observed).changes
    after = carry_out(forgotten(observed, wanted=wanted), observed)
    assert codes(planned(wanted, after).errors) == ["VG001"]
    back = carry_out(make_import_plan(wanted, after, PlanOptions()), after)
    assert (planned(wanted, back).changes, planned(wanted, back).errors) == ((), ())


def test_an_orphan_goes_by_its_name_alone() -> None:
    observed = estate({"a": OFF, "gone": OFF, "attic": OFF | {"folder": "attic"}}, folders=["attic"])
    wanted = plan_for(vm("a"))
    assert ids(forgotten(observed, wanted=wanted)) == ["forget a"]
    assert codes(forgotten(observed, "g*", wanted=wanted).errors) == ["VG011"]
    assert ids(forgotten(observed, "gone", "attic", wanted=wanted)) == ["forget attic", "forget gone"]


@pytest.mark.parametrize("row", [{"mark": "other/a"}, {"marked": {"for": "b"}}])
def test_what_is_not_the_plans_is_left_alone(row: dict[str, Any]) -> None:
    assert codes(forgotten(estate({"a": OFF | row}), wanted=plan_for(vm("a"))).errors) == ["VG011"]


def test_overrides_stay_and_are_told() -> None:
    cluster = {"vm_overrides": {"a": {"drs": "manual", "ha_restart": "high"}}}
    plan = forgotten(estate({"a": OFF}, clusters={"gpu": cluster}), wanted=plan_for(vm("a")))
    (found,) = plan.diagnostics
    assert (found.code, found.severity) == ("VG233", Severity.INFO)
    assert found.message == "gpu keeps its overrides for this VM: DRS manual, HA restart high"
    assert ids(plan) == ["forget a"]


def test_a_host_that_the_plan_works_on_is_finished_first() -> None:
    mark = {"plan": "demo", "since": "2026-11-20T20:00:00+00:00", "maintenance": True}
    host = {"gpus": [{"board": "A100", "pci": "0000:21:00.0", "node": 0}], "facts": {"mark": mark}}
    observed = estate({"a": OFF}, hosts={"esx-01": host})
    assert codes(forgotten(observed, wanted=plan_for(vm("a"))).errors) == ["VG234"]
    other = host | {"facts": {"mark": mark | {"plan": "other"}}}
    assert not forgotten(estate({"a": OFF}, hosts={"esx-01": other}), wanted=plan_for(vm("a"))).errors


@pytest.mark.parametrize("only", [(), ("a",)])
def test_what_is_reserved_goes_with_all_of_the_vms_and_stays_with_some(only: tuple[str, ...]) -> None:
    own_time = {"demo": {"board": "A100", "gpus": 1, "from": READ_AT, "until": READ_AT + timedelta(days=1)}}
    theirs = {"other": own_time["demo"]}
    plan = forgotten(estate({"a": OFF}, reservations=own_time | theirs), *only, wanted=plan_for(vm("a")))
    assert ids(plan) == ["forget a", *([] if only else ["release the reservation"])]
    assert plan.changes[-1].needs == (() if only else ("forget a",))


def test_a_plan_before_its_time_gives_back_what_it_reserved() -> None:
    own_time = {"demo": {"board": "A100", "gpus": 1, "from": READ_AT, "until": READ_AT + timedelta(days=1)}}
    wanted = plan_for(vm("a"))
    plan = forgotten(estate({}, reservations=own_time), wanted=wanted)
    assert (ids(plan), plan.errors) == (["release the reservation"], ())
    assert codes(forgotten(estate({}, reservations=own_time), "a", wanted=wanted).errors) == ["VG011"]
