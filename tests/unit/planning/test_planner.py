from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.unit.planning.desired_plans import GPU, codes, estate, own, plan_for, planned, vm
from vgpu_cfg.changes.change import CreateVm, PowerOnVm, ReconfigureVm, SetRule
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.observed.vm import AFFINITY_KEY

ON_NODE_0 = {"extra_config": {AFFINITY_KEY: "0"}}


def numa(policy: str, *nodes: int) -> dict[str, Any]:
    return {"numa": {"policy": policy, "nodes": nodes}, "stated": ["numa"]}


def ids(plan: Any) -> list[str]:
    return [change.id for change in plan.changes]


def test_a_new_vm_is_one_clone_with_everything_in_it() -> None:
    plan = planned(plan_for(vm("a", "grid_a100-20c", nics=({"network": "vm-network"},))), estate())
    create, power_on = plan.changes
    assert isinstance(create, CreateVm)
    assert create.spec.settings == {
        "cpus": 16,
        "memory": 64 << 10,
        "memory_reservation": 64 << 10,
        "cpu_hot_add": False,
        "memory_hot_add": False,
        "cores_per_numa_node": 16,
    }
    assert create.spec.extra_config == {
        "numa.nodeAffinity": "0",
        "pciPassthru.64bitMMIOSizeGB": "128",
        "pciPassthru.use64bitMMIO": "TRUE",
        "vgpu_cfg.plan": "demo",
        "vgpu_cfg.vm": "a",
    }
    assert [device.kind for device in create.spec.devices] == ["new_vgpu"]
    assert isinstance(power_on, PowerOnVm)
    assert power_on.pin is None
    assert plan.errors == ()
    assert plan.placements[0].is_certain


def test_vms_that_are_alike_share_what_is_shown_of_them() -> None:
    plan = planned(plan_for(vm("a", "grid_a100-10c"), vm("b", "grid_a100-10c")), estate())
    first, second = (change for change in plan.changes if isinstance(change, CreateVm))
    own = {"clone", "owner_mark"}
    together = zip(first.edits, second.edits, strict=True)
    assert [one.key for one, other in together if one is not other and one.key not in own] == []


def test_vms_that_differ_share_nothing_of_it() -> None:
    plan = planned(plan_for(vm("a", "grid_a100-10c"), vm("b", "grid_a100-10c", cpus=8)), estate())
    first, second = (change for change in plan.changes if isinstance(change, CreateVm))
    assert [edit.after for one in (first, second) for edit in one.edits if edit.key == "cpus"] == ["16", "8"]


@pytest.mark.parametrize("is_default", [False, True])
def test_defaults_are_marked_and_statements_are_not(is_default: bool) -> None:
    wanted = vm("a", "grid_a100-20c", defaulted=frozenset({"folder"} if is_default else ()))
    create = planned(plan_for(wanted), estate()).changes[0]
    assert [edit.is_default for edit in create.edits if edit.key == "folder"] == [is_default]


@pytest.mark.parametrize(
    ("change", "observed", "edits"),
    [
        ({}, {}, []),
        ({"cpus": 32}, {}, ["cpus"]),
        ({"memory_mib": 32_768}, {}, ["memory"]),
        ({}, {"reserved": False}, ["memory_reservation"]),
        ({}, {"mmio": 64}, ["pciPassthru.64bitMMIOSizeGB"]),
        ({}, {"mmio": 512}, []),
        ({"extra_config": {"x": "1"}, "stated": ["extra_config"]}, {}, ["x"]),
        ({"extra_config": {"x": "1"}, "stated": ["extra_config"]}, {"extra_config": {"x": "1"}}, []),
        ({"nics": ({"network": "vm-network"},), "stated": ["nics"]}, {"nics": ["vm-network"]}, []),
        ({"nics": (), "stated": ["nics"]}, {"nics": ["vm-network"]}, ["nic"]),
        ({}, {"nics": ["vm-network"]}, []),
        ({"cpus": 32, "ignore": frozenset({"cpus"})}, {}, []),
        ({"gpus": ({"profile": ("grid_a100-20c",), "uvm": False},)}, {}, []),
        ({"cpus": 30}, {"cores_per_socket": 4}, ["cpus", "cores_per_socket"]),
        ({"cpus": 32}, {"cores_per_socket": 4}, ["cpus"]),
        (numa("off"), ON_NODE_0, [AFFINITY_KEY]),
        (numa("off"), {}, []),
        (numa("follow-gpu"), ON_NODE_0, []),
        (numa("follow-gpu"), {}, [AFFINITY_KEY]),
        (numa("node", 1), ON_NODE_0, [AFFINITY_KEY]),
        (numa("node", 0), ON_NODE_0, []),
        (numa("node"), ON_NODE_0, []),
        ({}, ON_NODE_0, []),
    ],
)
def test_only_what_is_stated_and_differs_changes(
    change: dict[str, Any], observed: dict[str, Any], edits: list[str]
) -> None:
    wanted = plan_for(vm("a", "grid_a100-20c", **change))
    plan = planned(wanted, estate({"a": own("grid_a100-20c", **observed)}), allow_power_cycle=True)
    found = [edit.key for one in plan.changes if isinstance(one, ReconfigureVm) for edit in one.edits]
    assert [key for key in found if key != "owner_mark"] == edits
    assert ids(plan) == (["power off a", "reconfigure a", "power on a"] if edits else [])
    assert plan.in_sync == (() if edits else ("a",))
    assert all(one.impact is Impact.POWER_CYCLE for one in plan.changes)


@pytest.mark.parametrize(
    ("power", "state", "expected"),
    [
        ("on", "poweredOn", []),
        ("on", "poweredOff", ["power on a"]),
        ("off", "poweredOn", ["power off a"]),
        ("off", "poweredOff", []),
        ("leave", "poweredOn", []),
        ("leave", "poweredOff", []),
        ("on", "suspended", ["power on a"]),
        ("off", "suspended", ["power off a"]),
    ],
)
def test_power_follows_the_plan(power: str, state: str, expected: list[str]) -> None:
    row = own("grid_a100-20c", power=state)
    plan = planned(plan_for(vm("a", "grid_a100-20c", power=power)), estate({"a": row}))
    assert ids(plan) == expected
    assert not plan.errors


def test_a_suspended_vm_is_not_changed() -> None:
    row = own("grid_a100-20c", power="suspended")
    plan = planned(plan_for(vm("a", "grid_a100-20c", cpus=32)), estate({"a": row}), allow_power_cycle=True)
    assert codes(plan.errors) == ["VG013"]


def test_a_change_to_a_vm_that_is_off_disturbs_nobody() -> None:
    row = own("grid_a100-20c", power="poweredOff")
    plan = planned(plan_for(vm("a", "grid_a100-20c", cpus=32, power="leave")), estate({"a": row}))
    assert ids(plan) == ["reconfigure a"]
    assert plan.changes[0].impact is Impact.NONE
    assert not plan.errors


def test_a_power_cycle_must_be_allowed() -> None:
    wanted, observed = plan_for(vm("a", "grid_a100-20c", cpus=32)), estate({"a": own("grid_a100-20c")})
    assert codes(planned(wanted, observed).errors) == ["VG007"]
    assert not planned(wanted, observed, allow_power_cycle=True).errors


def test_a_profile_of_another_size_finds_no_place_beside_strangers() -> None:
    vms = {"a": own("grid_a100-10c"), "other": {"host": "esx-01", "gpus": ["grid_a100-10c"], "on": [GPU]}}
    plan = planned(plan_for(vm("a", "grid_a100-20c")), estate(vms), allow_power_cycle=True)
    assert codes(plan.errors) == ["VG104"]
    assert "other" in plan.errors[0].text
    assert [change.kind for change in plan.changes] == ["power_off_vm", "reconfigure_vm", "power_on_vm"]
    assert list(plan.blocked) == [change.id for change in plan.changes]


def test_own_powered_off_vms_keep_their_place() -> None:
    vms = {"a": own("grid_a100-40c", power="poweredOff")}
    both = plan_for(vm("a", "grid_a100-40c", power="off"), vm("b", "grid_a100-40c"))
    assert codes(planned(both, estate(vms)).errors) == ["VG103"]
    assert not planned(plan_for(vm("a", "grid_a100-40c", power="off")), estate(vms)).errors


def test_powered_off_vms_of_others_are_told_and_not_counted() -> None:
    vms = {"other": {"host": "esx-01", "gpus": ["grid_a100-40c"], "power": "poweredOff"}}
    plan = planned(plan_for(vm("a", "grid_a100-40c")), estate(vms))
    assert codes(plan) == ["VG117"]
    assert "other" in plan.diagnostics[0].message


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({"extra_config": {"sched.mem.min": "0"}}, "VG208"),
        ({"extra_config": {"firmware": "bios"}}, "VG208"),
        ({"extra_config": {"pciPassthru.use64bitMMIO": "FALSE"}}, "VG208"),
        ({"extra_config": {"pciPassthru.64bitMMIOSizeGB": "64"}}, "VG209"),
        ({"nics": ({"network": "vm-network"},) * 11}, "VG214"),
        ({"expires": date(2026, 1, 1)}, "VG010"),
        ({"numa": {"policy": "node", "nodes": (7,)}}, "VG315"),
        ({"place": {"hosts": ("nowhere-*",)}}, "VG307"),
        ({"resource_pool": "resarch"}, "VG423"),
        ({"source": {"kind": "scratch", "guest_id": "winXPProGuest"}, "datastore": "vsan"}, "VG206"),
    ],
)
def test_what_one_vm_says_is_judged(change: dict[str, Any], code: str) -> None:
    plan = planned(plan_for(vm("a", "grid_a100-20c", **change)), estate())
    assert code in codes(plan)
    assert codes(planned(plan_for(vm("a", "grid_a100-20c")), estate())) == []


@pytest.mark.parametrize(
    ("more", "code"),
    [
        ({"templates": {"ubuntu": {"readable": False}}}, "VG014"),
        ({"templates": {"ubuntu": {"template": False}}}, "VG205"),
        ({"templates": {"ubuntu": {"hardware": 22}}}, "VG207"),
        ({"templates": {"ubuntu": {"cpus": 0}}}, None),
        ({"datastores": {"vsan": {"free_gib": 1}}}, "VG414"),
        ({"datastores": {"vsan": {"accessible": False}}}, "VG415"),  # the template's
        ({"clusters": {"gpu": {"drs": "fullyAutomated"}}}, "VG309"),
        ({"datacenters": ["dc1", "dc2"]}, "VG428"),
    ],
)
def test_what_the_estate_says_is_judged(more: dict[str, Any], code: str | None) -> None:
    found = codes(planned(plan_for(vm("a", "grid_a100-20c")), estate(**more)))
    assert found == ([code] if code else []) or code in found


def test_an_inaccessible_datastore_is_refused_where_it_is_named() -> None:
    observed = estate(datastores={"vsan": {"accessible": False}})
    assert codes(planned(plan_for(vm("a", "grid_a100-20c", datastore="vsan")), observed)) == ["VG415"]


def test_an_old_api_is_refused_where_it_matters() -> None:
    dynamic = vm("a", gpus=({"device": {"label": "x"}},))
    host = {"gpus": [{"board": "A100", "pci": GPU, "passthrough": True, "label": "x"}]}
    old = make_inventory({"api": "6.7.3", "hosts": {"esx-01": host}})
    new = make_inventory({"api": "7.0.0.0", "hosts": {"esx-01": host}})
    assert codes(planned(plan_for(dynamic), old).errors) == ["VG012"]
    assert not planned(plan_for(dynamic), new).errors


def test_a_host_whose_system_id_is_unknown_gets_no_fixed_passthrough() -> None:
    host = {"gpus": [{"board": "A100", "pci": GPU, "passthrough": True}], "tells_system": False}
    fixed = vm("a", gpus=({"pin": GPU},))
    assert codes(planned(plan_for(fixed), make_inventory({"hosts": {"esx-01": host}})).errors) == ["VG137"]


def test_unknown_boards_and_unread_holders_are_told() -> None:
    gpus = [{"board": "A100", "pci": GPU, "node": 0}, {"board": "unknown", "pci": "0000:99:00.0", "node": 0}]
    vms = {"x": {"host": "esx-01", "gpus": ["grid_a100-20c"], "on": [GPU], "readable": False}}
    more = [{"board": "A100", "pci": "0000:a0:00.0", "node": 0}]
    observed = make_inventory({"hosts": {"esx-01": {"gpus": [*gpus, *more]}}, "vms": vms})
    assert codes(planned(plan_for(vm("a", "grid_a100-20c")), observed)) == ["VG112", "VG118"]


@pytest.mark.parametrize(("name", "series"), [("grid_a100-20q", "Q"), ("grid_a100-20c", "C")])
def test_other_series_are_allowed_and_told(name: str, series: str) -> None:
    plan = planned(plan_for(vm("a", name)), estate())
    assert codes(plan) == (["VG113"] if series == "Q" else [])
    assert not plan.errors


def test_a_board_that_esxi_does_not_run_is_refused_unless_relaxed() -> None:
    host = {"gpus": [{"board": "GH200", "pci": GPU, "node": 0}]}
    observed = make_inventory({"hosts": {"esx-01": host}})
    wanted = vm("a", "nvidia_gh200-96c")
    assert codes(planned(plan_for(wanted), observed).errors) == ["VG114"]
    assert not planned(plan_for(wanted, checks={"VG114": "warning"}), observed).errors


def test_creation_keys_of_a_vm_that_exists_are_told() -> None:
    wanted = vm("a", "grid_a100-20c", secure_boot=True, stated=["secure_boot"])
    assert codes(planned(plan_for(wanted), estate({"a": own("grid_a100-20c")}))) == ["VG009"]


def test_a_vm_outside_its_clusters_is_told() -> None:
    observed = estate({"a": own("grid_a100-20c")}, clusters={"gpu": {}, "other": {}})
    assert codes(planned(plan_for(vm("a", "grid_a100-20c", clusters=("other",))), observed)) == ["VG313"]


def line(count: int, **more: Any) -> list[DesiredVm]:
    rest: dict[str, Any] = {"line": "a-{1..2}", "place": {"spread": "hosts"} | more, "stated": ["place"]}
    return [vm(f"a-{number}", "grid_a100-20c", **rest) for number in range(count)]


def test_running_vms_that_share_a_host_against_the_rule_are_told() -> None:
    observed = estate({"a-0": own("grid_a100-20c"), "a-1": own("grid_a100-20c")})
    assert codes(planned(plan_for(*line(2)), observed)) == ["VG306"]


@pytest.mark.parametrize(("drs", "has_rule"), [("manual", True), ("off", False)])
def test_a_rule_needs_drs(drs: str, has_rule: bool) -> None:
    hosts = {f"esx-{n}": {"gpus": [{"board": "A100", "pci": GPU, "node": 0}]} for n in range(2)}
    plan = planned(plan_for(*line(2)), make_inventory({"hosts": hosts, "clusters": {"gpu": {"drs": drs}}}))
    assert any(isinstance(change, SetRule) for change in plan.changes) is has_rule
    assert codes(plan) == ([] if has_rule else ["VG314"])


def test_a_wish_becomes_a_rule_that_need_not_hold() -> None:
    hosts = {f"esx-{n}": {"gpus": [{"board": "A100", "pci": GPU, "node": 0}]} for n in range(2)}
    plan = planned(plan_for(*line(2, must=False)), make_inventory({"hosts": hosts}))
    assert [change.is_mandatory for change in plan.changes if isinstance(change, SetRule)] == [False]


def test_a_rule_stays_with_orphans_that_stay() -> None:
    rules = [{"name": "vgpu-cfg:demo:old", "vms": ["a", "gone"]}]
    vms = {"a": own("grid_a100-20c"), "gone": own("grid_a100-20c")}
    observed = estate(vms, clusters={"gpu": {"rules": rules}})
    wanted = plan_for(vm("a", "grid_a100-20c"))
    assert ids(planned(wanted, observed)) == []
    removed = ["power off gone", "delete gone", "remove rule vgpu-cfg:demo:old in gpu"]
    assert ids(planned(wanted, observed, delete=("gone",))) == removed


def test_only_restricts_changes_and_findings() -> None:
    wanted = plan_for(vm("a", "grid_a100-20c"), vm("b", "grid_a100-41c"))
    observed = estate()
    assert ids(planned(wanted, observed, only=("a",))) == ["create a", "power on a"]
    assert not planned(wanted, observed, only=("a",)).errors
    assert ids(planned(wanted, observed, only=("host:esx-01",))) == ["create a", "power on a"]
    assert codes(planned(wanted, observed, only=("c*",)).errors) == ["VG011"]


def test_a_rule_stays_with_a_vm_of_the_plan_in_a_folder_that_no_line_names() -> None:
    rules = [{"name": "vgpu-cfg:demo:old", "vms": ["gone"]}]
    vms = {"a": own("grid_a100-20c"), "gone": own("grid_a100-20c", folder="attic")}
    observed = estate(vms, clusters={"gpu": {"rules": rules}}, folders=["attic"])
    assert ids(planned(plan_for(vm("a", "grid_a100-20c")), observed)) == []


def test_only_the_orphan_that_is_named_is_deleted() -> None:
    observed = estate({"gone": own(), "gone-2": own(power="poweredOff"), "a": own()})
    wanted = plan_for(vm("a"))
    kept = planned(wanted, observed)
    assert ids(kept) == []
    lines = [one.remedy.rpartition("--delete=")[2] for one in kept.diagnostics]
    assert lines == ["gone`", "gone-2`"]
    assert ids(planned(wanted, observed, delete=("gone",))) == ["power off gone", "delete gone"]
    assert ids(planned(wanted, observed, delete=("/dc1/vm/training/gone-2",))) == ["delete gone-2"]
    assert ids(planned(wanted, observed, delete=("gone-2",), only=("a",))) == ["delete gone-2"]


@pytest.mark.parametrize("name", ["gone*", "GONE", "a", "", "x"])
def test_a_name_to_delete_that_is_no_orphans_is_an_error(name: str) -> None:
    plan = planned(plan_for(vm("a")), estate({"gone": own(), "a": own()}), delete=(name,))
    assert (ids(plan), codes(plan.errors)) == ([], ["VG011"])


def test_a_name_that_two_orphans_have_deletes_neither() -> None:
    first = estate({"gone": own(), "a": own(), "b": own(folder="attic")}, folders=["attic"])
    gone = next(one for one in first.vms if one.name == "gone")
    other = gone.model_copy(
        update={"moid": "vm-9", "folder_moid": "folder-attic", "inventory_path": "/dc1/vm/attic/gone"}
    )
    observed = first.model_copy(update={"vms": (*first.vms, other)})
    wanted = plan_for(vm("a"), vm("b", folder="attic"))
    plan = planned(wanted, observed, delete=("gone",))
    assert (ids(plan), codes(plan.errors)) == ([], ["VG011"])
    assert "/dc1/vm/attic/gone or /dc1/vm/training/gone" in plan.errors[0].remedy
    both = ("/dc1/vm/attic/gone", "/dc1/vm/training/gone")
    chosen = [planned(wanted, observed, delete=(path,)) for path in both]
    assert [[change.subject.moid for change in one.changes] for one in chosen] == [
        ["vm-9"] * 2,
        ["vm-gone"] * 2,
    ]
    assert codes(planned(wanted, observed, delete=both).errors) == ["VG011"]


def test_a_protected_orphan_is_not_deleted() -> None:
    observed = estate({"gone": own("grid_a100-20c")})
    wanted = plan_for(vm("a", "grid_a100-20c"), protect={"names": ("gone",)})
    assert codes(planned(wanted, observed)) == ["VG005"]
    assert codes(planned(wanted, observed, delete=("gone",)).errors) == ["VG004"]


def test_the_plan_counts_what_it_leaves_alone() -> None:
    observed = estate({"x": {"host": "esx-01"}, "a": own("grid_a100-20c")})
    plan = planned(plan_for(vm("a", "grid_a100-20c")), observed)
    assert (plan.untouched_vms, plan.untouched_hosts) == (1, 0)


def test_severities_of_a_wish_are_lower() -> None:
    observed = estate({"a-0": own("grid_a100-20c"), "a-1": own("grid_a100-20c")})
    (found,) = planned(plan_for(*line(2, must=False)), observed).diagnostics
    assert found.severity is Severity.INFO


@pytest.mark.parametrize(
    ("change", "observed", "is_pinned"),
    [
        ({}, {}, False),
        ({}, ON_NODE_0, True),
        (numa("follow-gpu"), {}, True),
        (numa("off"), ON_NODE_0, False),
        (numa("node", 0), ON_NODE_0, False),
    ],
)
def test_a_power_cycle_pins_again_what_was_pinned(
    change: dict[str, Any], observed: dict[str, Any], is_pinned: bool
) -> None:
    gpus = [{"board": "A100", "pci": pci, "node": node} for node, pci in enumerate((GPU, "0000:e2:00.0"))]
    row = own("grid_a100-20c", cpus=8, **observed)
    both = make_inventory({"hosts": {"esx-01": {"gpus": gpus}}, "vms": {"a": row}})
    plan = planned(plan_for(vm("a", "grid_a100-20c", **change)), both, allow_power_cycle=True)
    (power_on,) = [one for one in plan.changes if isinstance(one, PowerOnVm)]
    assert (power_on.pin is not None) is is_pinned


@pytest.mark.parametrize(("node", "found"), [("0", ["VG305"]), ("1", [])])
def test_a_node_that_has_a_vm_of_the_line_gets_no_other(node: str, found: list[str]) -> None:
    gpus = [{"board": "A100", "pci": f"0000:{bus}:00.0", "node": 0} for bus in (20, 21)]
    apart = [
        vm(name, "grid_a100-40c", line="a-{1..2}", place={"spread": "numa"}, stated=["place"])
        for name in ("a-1", "a-2")
    ]
    detail = {"on": ["0000:20:00.0"], "extra_config": {AFFINITY_KEY: node}}
    first = {"a-1": own("grid_a100-40c") | detail}
    plan = planned(plan_for(*apart), make_inventory({"hosts": {"esx-01": {"gpus": gpus}}, "vms": first}))
    assert [one.code for one in plan.errors] == found
