"""When a plan depends on what kinds of hosts tell: each row beside its twin that does not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.plans.planned import without_kinds
from tests.unit.planning.desired_plans import plan_for, vm
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.kinds_needed import needs_kinds
from vgpu_cfg.planning.planner import make_plan

CATALOG = load_catalog()
TENTH, QUARTER, HALF, WHOLE = (f"grid_a100d-{size}c" for size in (10, 20, 40, 80))
OFF = {"power": "poweredOff"}


def addresses(count: int) -> list[str]:
    return [f"0000:{33 + place:02x}:00.0" for place in range(count)]


def observe(vms: dict[str, dict[str, Any]], *, gpus: int = 1, **host: Any) -> Inventory:
    """Observe two hosts with A100s, and VMs of the plan on one, which run unless they say otherwise."""
    cards = [{"board": "A100D", "pci": pci} for pci in addresses(gpus)]
    own = {"host": "esx-01", "mark": True, "gpus": [TENTH], "cpus": 16, "memory_gib": 64}
    rows = {name: own | ({} if "power" in row else {"on": addresses(1)}) | row for name, row in vms.items()}
    hosts = {"esx-01": {"gpus": cards} | host, "esx-02": {"gpus": cards}}
    return make_inventory({"hosts": hosts, "vms": rows})


def is_asked(desired: DesiredPlan, observed: Inventory, **options: Any) -> bool:
    return needs_kinds(desired, without_kinds(observed), CATALOG, PlanOptions(**options))


@pytest.mark.parametrize(
    ("seen", "wanted", "asked"),
    [
        ({}, {}, False),
        ({}, {"memory_mib": 131_072}, False),
        ({}, {"power": "off"}, False),
        ({}, {"hosts": ("esx-01",)}, False),
        ({}, {"hosts": ("esx-02",)}, True),
        ({"hardware": 11}, {}, False),
        ({"hardware": 10}, {}, True),
        (OFF, {"power": "off"}, False),
        (OFF, {"power": "leave"}, False),
        (OFF, {"power": "off", "memory_mib": 131_072}, False),
        (OFF, {"power": "on"}, True),
        ({"power": "suspended"}, {"power": "leave"}, True),
        ({"gpus": [HALF]}, {}, True),
        ({"gpus": [HALF]} | OFF, {"power": "off"}, True),
        ({"mark": False}, {}, True),
    ],
)
def test_kinds_of_hosts_are_asked_where_a_vm_may_get_a_place_or_devices(
    seen: dict[str, Any], wanted: dict[str, Any], asked: bool
) -> None:
    if "hosts" in wanted:
        wanted = {"place": {"hosts": wanted["hosts"]}, "stated": ["place"]}
    assert is_asked(plan_for(vm("a", TENTH, **wanted)), observe({"a": seen})) is asked


def test_kinds_of_hosts_are_asked_for_a_new_vm_and_where_one_is_deleted() -> None:
    observed = observe({"a": {}, "b": {}})
    both = plan_for(vm("a", TENTH), vm("b", TENTH))
    assert not is_asked(both, observed)
    assert is_asked(plan_for(*both.vms, vm("c", TENTH)), observed)
    assert not is_asked(plan_for(vm("a", TENTH)), observed)
    assert is_asked(plan_for(vm("a", TENTH)), observed, delete=("b",))


@pytest.mark.parametrize(
    ("host", "asked"),
    [
        ({}, False),
        ({"creatable": [TENTH]}, False),
        ({"creatable": [WHOLE]}, True),
        ({"profiles": [WHOLE]}, True),
        ({"tells_profiles": False}, False),
    ],
)
def test_a_vm_that_stays_off_depends_on_what_its_host_does_not_list(
    host: dict[str, Any], asked: bool
) -> None:
    observed, desired = observe({"a": OFF}, **host), plan_for(vm("a", TENTH, power="off"))
    assert is_asked(desired, observed) is asked
    is_same = make_plan(desired, without_kinds(observed), CATALOG) == make_plan(desired, observed, CATALOG)
    assert is_same or asked


def test_several_vgpus_are_not_counted_anew_where_a_vm_runs_with_them() -> None:
    observed = observe({"a": {"gpus": [WHOLE, WHOLE], "on": addresses(2)}}, gpus=2)
    few = [host.model_copy(update={"max_vgpus_by_hardware_version": {21: 1}}) for host in observed.hosts]
    limited = observed.model_copy(update={"hosts": tuple(few)})
    desired = plan_for(vm("a", WHOLE, WHOLE))
    assert not is_asked(desired, limited)
    assert make_plan(desired, limited, CATALOG) == make_plan(desired, observed, CATALOG)


@pytest.mark.parametrize(
    ("off", "asked"), [([QUARTER, QUARTER, HALF, WHOLE, HALF], True), ([HALF, HALF, HALF, WHOLE], False)]
)
def test_nvlink_counts_for_vms_that_stay_off_where_their_policy_would_strand_one(
    off: list[str], asked: bool
) -> None:
    """Where they would start under it each has the GPU that it chooses, whatever NVLink joins."""
    names = dict(zip("abcde", off, strict=False))
    vms: dict[str, dict[str, Any]] = {"other": {"mark": False, "gpus": [WHOLE], "on": [addresses(4)[2]]}}
    vms |= {name: OFF | {"gpus": [profile], "memory_gib": 16, "cpus": 4} for name, profile in names.items()}
    observed = observe(vms, gpus=4, groups=["Nvidia:2@grid_a100d-80c%NVLink"])
    small = {"power": "off", "cpus": 4, "memory_mib": 16_384}
    desired = plan_for(*(vm(name, profile, **small) for name, profile in names.items()))
    assert is_asked(desired, observed) is asked
    is_same = make_plan(desired, without_kinds(observed), CATALOG) == make_plan(desired, observed, CATALOG)
    assert is_same is not asked
