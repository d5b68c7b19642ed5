"""Which VMs `import` takes in, which it refuses and why, and that it tells what `plan` says after it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import PLAN_ID
from tests.plans.simulator import carry_out
from tests.unit.planning.desired_plans import codes, estate, own, plan_for, planned, vm
from tests.unit.planning.privileges.needed import needed_privileges
from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import DestroyVm
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.vm import OwnerMark
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.vms.destroy import make_destroy_plan
from vgpu_cfg.planning.vms.ownership import make_import_plan, with_marks

STRANGER = own() | {"mark": None}


def ids(plan: Plan) -> list[str]:
    return [change.id for change in plan.changes]


def imported(wanted: DesiredPlan, vms: dict[str, Any], *only: str, **more: Any) -> Plan:
    return make_import_plan(wanted, estate(vms, **more), PlanOptions(only=only))


def test_strangers_that_the_file_names_are_taken_in_and_nothing_else() -> None:
    vms = {"a": STRANGER, "b": own(), "c": STRANGER, "attic": STRANGER | {"name": "d", "folder": "attic"}}
    plan = imported(plan_for(vm("a"), vm("b"), vm("new")), vms, folders=["attic"])
    assert (ids(plan), plan.in_sync, plan.diagnostics) == (["import a"], ("b",), ())
    assert plan.untouched_vms == 3
    assert needed_privileges(plan, estate(vms, folders=["attic"])) == {
        "vm-a": ("VirtualMachine.Config.AdvancedConfig",)
    }


def test_what_it_tells_of_apply_is_what_plan_says_then() -> None:
    vms = {"a": own("grid_a100-10c") | {"mark": None}, "b": STRANGER | {"power": "poweredOff"}}
    wanted = plan_for(vm("a", "grid_a100-10c", cpus=8), vm("b", boot_delay=3, stated=["boot_delay"]))
    observed = estate(vms)
    taken = make_import_plan(wanted, observed, PlanOptions())
    told = planned(wanted, with_marks(taken, observed))
    after = carry_out(taken, observed)
    said = planned(wanted, after)
    assert (said.digest, said.diagnostics) == (told.digest, told.diagnostics)
    assert {change.kind for change in said.changes} > {"reconfigure_vm"}
    assert ids(make_import_plan(wanted, after, PlanOptions())) == []
    found = next(one.mark for one in after.vms if one.name == "a")
    assert (found is not None and found.is_imported, with_marks(taken, observed).vms[-1].mark) == (
        True,
        after.vms[-1].mark,
    )


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"mark": "other/a", "marked": {"by": "jo"}}, "the VM has the owner mark other/a with the ID"),
        ({"mark": "demo/a", "marked": {"for": "b"}}, "the VM is a copy: its owner mark was written for"),
        ({"name": "A"}, "its name in vCenter is 'A'"),
        (
            {"mark": "demo/a", "marked": {"id": "e0a9d2b6-5c1f-4a7e-8d33-6b1c2f4e9a02"}},
            "the VM has the owner mark demo/a with the ID",
        ),
    ],
)
def test_it_refuses_what_is_somebodys(row: dict[str, Any], message: str) -> None:
    plan = imported(plan_for(vm("a"), vm("b")), {"a": STRANGER | row, "b": STRANGER})
    assert codes(plan.errors) == ["VG232"]
    assert plan.errors[0].message.startswith(message)
    assert ids(plan) == ["import b"]
    assert not imported(plan_for(vm("a"), vm("b")), {"a": STRANGER | row, "b": STRANGER}, "b").diagnostics


def test_a_vm_of_the_plan_that_was_renamed_to_another_name_of_it_is_refused_as_that() -> None:
    plan = imported(plan_for(vm("a"), vm("b")), {"a": STRANGER | {"mark": "demo/b"}})
    assert [one.message for one in plan.errors] == ["the VM already belongs to this plan as b"]
    assert (ids(plan), plan.in_sync) == ([], ("b",))


def test_it_refuses_a_template() -> None:
    plan = imported(plan_for(vm("ubuntu", folder=None)), {})
    assert [(one.code, one.message) for one in plan.errors] == [("VG232", "it is a template")]
    assert ids(plan) == []


def test_it_refuses_what_a_context_protects_and_not_what_the_file_does() -> None:
    protect = {"names": ["a"]}
    own_word = plan_for(vm("a"), protect=protect)
    assert ids(imported(own_word, {"a": STRANGER})) == ["import a"]
    context = {"name": "prod", "file": "config.yaml", "protect": protect}
    plan = imported(plan_for(vm("a"), contexts=[context]), {"a": STRANGER})
    assert (codes(plan.errors), ids(plan)) == (["VG004"], [])


def test_a_vm_of_that_name_in_another_folder_is_told_and_is_no_error() -> None:
    vms = {"a": STRANGER | {"folder": "attic"}, "b": STRANGER}
    plan = imported(plan_for(vm("a"), vm("b")), vms, folders=["attic"])
    (found,) = plan.diagnostics
    assert (found.code, found.severity) == ("VG232", Severity.WARNING)
    assert "/dc1/vm/attic/a" in found.message
    assert ids(plan) == ["import b"]
    assert ids(imported(plan_for(vm("a", folder="attic")), vms, folders=["attic"])) == ["import a"]


def test_nothing_to_take_in_is_an_error_and_what_is_the_plans_already_is_none() -> None:
    assert codes(imported(plan_for(vm("a")), {}).errors) == ["VG011"]
    assert codes(imported(plan_for(vm("a")), {"a": STRANGER}, "b*").errors) == ["VG011"]
    assert not imported(plan_for(vm("a")), {"a": own()}).diagnostics


def test_what_was_imported_is_deleted_by_its_exact_name_alone() -> None:
    row = own(power="poweredOff") | {"marked": {"imported": True}}
    observed = estate({"a": row, "b": own(power="poweredOff"), "gone": row})
    wanted = plan_for(vm("a"), vm("b"))
    refused = make_destroy_plan(wanted, observed, PlanOptions(delete=("gone",)))
    assert [(one.code, one.subject.name) for one in refused.errors] == [("VG230", "a")]
    assert refused.errors[0].remedy == "to delete it, add --delete=a"
    assert codes(make_destroy_plan(wanted, observed, PlanOptions(delete=("*",))).errors) == ["VG011", "VG230"]
    gone = make_destroy_plan(wanted, observed, PlanOptions(delete=("a", "gone")))
    assert ids(gone) == ["delete a", "delete b", "delete gone"]
    assert [change.is_imported for change in of_kind(gone.changes, DestroyVm)] == [True, False, True]
    assert not planned(wanted, observed, delete=("gone",)).errors


def test_the_word_goes_through_the_mark_and_back() -> None:
    uuid = "50321e27-1f6e-4a3c-9b3d-0f4f7c1d2e3a"
    mark = OwnerMark(plan="demo", vm="a", id=PLAN_ID, instance_uuid=uuid, made_by="jo doe", is_imported=True)
    assert OwnerMark.parse(mark.text, "a") == mark
    plain = mark.model_copy(update={"is_imported": False})
    assert OwnerMark.parse(plain.text, "a") == plain
