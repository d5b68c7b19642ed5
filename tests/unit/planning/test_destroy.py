from __future__ import annotations

from typing import Any

import pytest

from tests.plans.simulator import carry_out
from tests.unit.planning.desired_plans import codes, estate, own, plan_for, planned, vm
from tests.unit.planning.privileges.needed import needed_privileges
from vgpu_cfg.model.desired import ProtectingContext
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.vms.destroy import make_destroy_plan


def ids(plan: Any) -> list[str]:
    return [change.id for change in plan.changes]


def destroyed(wanted: Any, vms: dict[str, Any], **more: Any) -> Any:
    options = PlanOptions(
        only=more.pop("only", ()),
        delete=more.pop("delete", ()),
        allow_destroy=more.pop("allow_destroy", 0),
    )
    return make_destroy_plan(wanted, estate(vms, **more), options)


def test_destroy_takes_what_the_file_names_and_nothing_else() -> None:
    vms = {
        "a": own("grid_a100-20c"),
        "gone": own(power="poweredOff"),
        "a-copy": {"host": "esx-01", "mark": "demo/a"},
        "other": {"host": "esx-01", "mark": "another/other"},
        "stranger": {"host": "esx-01"},
    }
    rules = [{"name": "vgpu-cfg:demo:l", "vms": ["a"]}, {"name": "vgpu-cfg:demo2:l", "vms": ["a"]}]
    wanted, clusters = plan_for(vm("a", "grid_a100-20c")), {"gpu": {"rules": rules}}
    plan = destroyed(wanted, vms, clusters=clusters)
    assert ids(plan) == ["remove rule vgpu-cfg:demo:l in gpu", "power off a", "delete a"]
    assert codes(plan) == ["VG003", "VG005"]
    plan = destroyed(wanted, vms, clusters=clusters, delete=("gone",))
    assert ids(plan) == ["remove rule vgpu-cfg:demo:l in gpu", "power off a", "delete a", "delete gone"]
    assert not plan.errors


def test_destroy_leaves_the_rules_that_hold_a_vm_that_stays() -> None:
    cluster = {
        "host_groups": {"even": ["esx-01"]},
        "vm_groups": {"vgpu-cfg:demo:a": ["a", "gone"], "vgpu-cfg:demo:b": ["a"]},
        "rules": [
            {"name": "vgpu-cfg:demo:a", "vms": ["a", "gone"]},
            {"name": "vgpu-cfg:demo:b", "vms": ["a", "b"]},
            {"name": "vgpu-cfg:demo:a:hosts", "group": "vgpu-cfg:demo:a", "hosts": "even"},
            {"name": "vgpu-cfg:demo:b:hosts", "group": "vgpu-cfg:demo:b", "hosts": "even"},
        ],
    }
    off = own(power="poweredOff")
    vms = {"a": off, "b": off, "gone": off | {"folder": "attic"}}
    plan = destroyed(plan_for(vm("a"), vm("b")), vms, clusters={"gpu": cluster}, folders=["attic"])
    assert ids(plan) == [
        "remove rule vgpu-cfg:demo:b in gpu",
        "remove rule vgpu-cfg:demo:b:hosts in gpu",
        "remove VM group vgpu-cfg:demo:b in gpu",
        "delete a",
        "delete b",
    ]


def test_a_wrong_code_in_checks_does_not_stop_it() -> None:
    wanted = plan_for(vm("a")).model_copy(update={"checks": {"VG350": "warning"}})
    plan = destroyed(wanted, {"a": own(power="poweredOff")})
    assert ([(one.code, one.severity) for one in plan.diagnostics], ids(plan)) == (
        [("VG008", "warning")],
        ["delete a"],
    )


@pytest.mark.parametrize("name", ["gone*", "a", "b"])
def test_destroy_refuses_a_name_to_delete_that_is_no_orphans(name: str) -> None:
    plan = destroyed(plan_for(vm("a")), {"a": own(), "gone": own()}, delete=(name,))
    assert codes(plan.errors) == ["VG011"]
    assert "delete gone" not in ids(plan)


def test_destroy_of_a_stranger_with_the_name_does_nothing() -> None:
    plan = destroyed(plan_for(vm("a", "grid_a100-20c")), {"a": {"host": "esx-01"}})
    assert ids(plan) == []
    assert not plan.errors


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (plan_for(vm("a", lock=True)), "VG006"),
        (plan_for(vm("a"), protect={"names": ("a",)}), "VG004"),
        (plan_for(vm("a"), protect={"names": ("gone",)}), "VG004"),
    ],
)
def test_destroy_refuses_what_is_locked_or_protected(wanted: Any, code: str) -> None:
    vms = {"a": own(), "gone": own(), "b": own()}
    assert codes(destroyed(wanted, vms, delete=("gone",)).errors) == [code]
    others = plan_for(*wanted.vms, vm("b"), protect=wanted.protect.model_dump())
    assert not destroyed(others, vms, only=("b",)).errors


def test_destroy_can_be_restricted() -> None:
    wanted, vms = plan_for(vm("a"), vm("b")), {"a": own(), "b": own()}
    assert ids(destroyed(wanted, vms, only=("b",))) == ["power off b", "delete b"]
    assert codes(destroyed(wanted, vms, only=("c",)).errors) == ["VG011"]
    vms["c"] = own()
    assert codes(destroyed(wanted, vms, only=("c",)).errors) == ["VG011"]
    assert ids(destroyed(wanted, vms, only=("c",), delete=("c",))) == ["power off c", "delete c"]


def test_after_destroy_nothing_is_left() -> None:
    wanted, observed = plan_for(vm("a", "grid_a100-20c")), estate({"a": own("grid_a100-20c")})
    after = carry_out(make_destroy_plan(wanted, observed), observed)
    assert [one.name for one in after.vms if not one.is_template] == []
    assert make_destroy_plan(wanted, after).changes == ()


def test_privileges_are_asked_where_the_changes_are() -> None:
    observed = estate({"old": own("grid_a100-10c", cpus=8)}, networks={"dv-train": {"kind": "distributed"}})
    wanted = plan_for(vm("a", "grid_a100-10c", nics=({"network": "dv-train"},)), vm("old", "grid_a100-10c"))
    needed = needed_privileges(planned(wanted, observed, allow_power_cycle=True), observed)
    assert needed["vm-ubuntu"] == ("VirtualMachine.Provisioning.DeployTemplate",)
    assert "VirtualMachine.Config.AddRemoveDevice" in needed["folder-training"]
    assert "VirtualMachine.Inventory.CreateFromExisting" in needed["folder-training"]
    assert needed["pool-gpu"] == ("Resource.AssignVMToPool",)
    assert needed["datastore-vsan"] == ("Datastore.AllocateSpace",)
    assert needed["network-dv-train"] == ("Network.Assign",)
    assert needed["vm-old"] == (
        "VirtualMachine.Config.CPUCount",
        "VirtualMachine.Interact.PowerOff",
        "VirtualMachine.Interact.PowerOn",
    )
    assert needed_privileges(planned(plan_for(), observed), observed) == {}


def test_privileges_to_delete_and_for_rules() -> None:
    rules = [{"name": "vgpu-cfg:demo:l", "vms": ["a"]}]
    observed = estate({"a": own()}, clusters={"gpu": {"rules": rules}})
    needed = needed_privileges(make_destroy_plan(plan_for(vm("a")), observed), observed)
    assert needed["vm-a"] == ("VirtualMachine.Interact.PowerOff", "VirtualMachine.Inventory.Delete")
    assert needed["cluster-gpu"] == ("Host.Inventory.EditCluster",)


def test_destroy_removes_the_plans_vm_groups_and_their_rules_and_nobody_elses() -> None:
    cluster = {
        "host_groups": {"even": ["esx-01"]},
        "vm_groups": {"vgpu-cfg:demo:a": ["a"], "vgpu-cfg:other:a": ["a"], "pets": ["a"]},
        "rules": [
            {"name": "vgpu-cfg:demo:a:hosts", "group": "vgpu-cfg:demo:a", "hosts": "even"},
            {"name": "vgpu-cfg:other:a:hosts", "group": "vgpu-cfg:other:a", "hosts": "even"},
            {"name": "theirs", "group": "pets", "hosts": "even"},
        ],
    }
    observed = estate({"a": own("grid_a100-20c")}, clusters={"gpu": cluster})
    plan = make_destroy_plan(plan_for(vm("a", "grid_a100-20c")), observed)
    assert [change.id for change in plan.changes] == [
        "remove rule vgpu-cfg:demo:a:hosts in gpu",
        "remove VM group vgpu-cfg:demo:a in gpu",
        "power off a",
        "delete a",
    ]
    assert plan.changes[1].needs == ("remove rule vgpu-cfg:demo:a:hosts in gpu",)


@pytest.mark.parametrize(
    ("count", "most", "allowed", "says"),
    [
        (10, None, 0, ""),
        (11, None, 0, "11 VMs would be deleted; the limit is 10"),
        (11, None, 11, ""),
        (11, None, 10, "11 VMs would be deleted; --allow-destroy allows 10"),
        (3, 2, 0, "3 VMs would be deleted; the limit is 2 (the context prod in config.yaml)"),
        (11, 20, 0, ""),
        (1, 0, 0, "1 VM would be deleted; the limit is 0 (the context prod in config.yaml)"),
    ],
)
def test_many_deletions_take_their_number(count: int, most: int | None, allowed: int, says: str) -> None:
    names = [f"vm-{number:02}" for number in range(count)]
    contexts = (
        [ProtectingContext(name="prod", file="config.yaml", most_deletions=most)] if most is not None else []
    )
    wanted = plan_for(*(vm(name) for name in names), contexts=contexts)
    found = destroyed(wanted, {name: own(power="poweredOff") for name in names}, allow_destroy=allowed)
    assert [one.message for one in found.errors] == [says] * bool(says)
