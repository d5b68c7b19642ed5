from __future__ import annotations

from typing import Any

from tests.plans.estate import make_inventory
from tests.unit.planning.test_placement import CATALOG, a100s, demands, place, shape, states
from vgpu_cfg.model.plan_file import ProtectEntry
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.moves.movables import Movables
from vgpu_cfg.planning.placement.demand import Demand
from vgpu_cfg.planning.remedies.fixes import smallest_fix


def words(hosts: dict[str, Any], vms: dict[str, Any] | None, wanted: list[Demand], *protected: str) -> str:
    observed = make_inventory({"hosts": hosts, "vms": vms or {}})
    reader = CapacityReader(observed, CATALOG)
    protect = ProtectEntry(names=protected)
    movables = Movables(observed, observed.hosts, reader, Protection((("the plan file", protect),)), ())
    found = smallest_fix(place(states(hosts, vms), wanted), movables.surroundings)
    return found.text if found else ""


def small_vm(host: str, pci: str, profile: str = "grid_a100-4c", name: str = "small") -> dict[str, Any]:
    return {name: {"host": host, "gpus": [profile], "on": [pci]}}


BOTH = {"a": {"gpus": a100s()}, "b": {"gpus": a100s()}}


def test_nothing_is_said_where_all_fit() -> None:
    assert words({"a": {"gpus": a100s()}}, None, demands(1, shape("grid_a100-40c"))) == ""


def test_a_small_vm_that_locks_a_gpu_is_moved_to_one_of_its_size() -> None:
    vms = small_vm("a", "0000:10:00.0") | small_vm("b", "0000:10:00.0", name="other")
    found = words(BOTH, vms, demands(1, shape("grid_a100-40c", hosts=2)))
    assert found == "move other from b to a while it is off"


def test_of_two_vms_the_one_that_is_not_protected_is_moved() -> None:
    vms = small_vm("a", "0000:10:00.0") | small_vm("b", "0000:10:00.0", name="other")
    found = words(BOTH, vms, demands(1, shape("grid_a100-40c", hosts=2)), "other")
    assert found == "move small from a to b while it is off"


def test_a_vm_that_could_go_nowhere_is_not_named() -> None:
    wanted = demands(1, shape("grid_a100-40c"))
    assert words({"a": {"gpus": a100s()}}, small_vm("a", "0000:10:00.0"), wanted) == "add 1 host like a"


def test_a_vm_whose_memory_the_other_host_lacks_is_not_named() -> None:
    vms = small_vm("a", "0000:10:00.0")
    vms["small"] |= {"memory_gib": 64}
    hosts = {"a": {"gpus": a100s()}, "b": {"gpus": a100s(), "node_gib": 16, "nodes": 1}}
    wanted = demands(1, shape("grid_a100-40c"))
    assert words(hosts, vms, wanted) == "add 1 host like a"
    assert words(BOTH, vms, wanted) == "move small from a to b while it is off"


def test_an_unused_gpu_changes_its_mode() -> None:
    found = words({"a": {"gpus": a100s(2, sharing="mig")}}, None, demands(1, shape("grid_a100-40c")))
    assert found == "turn MIG mode off for GPU 0000:10:00.0 of a"
    found = words({"a": {"gpus": a100s(1)}}, None, demands(1, shape("grid_a100-1-5c")))
    assert found == "turn MIG mode on for GPU 0000:10:00.0 of a"


def test_two_sizes_on_one_gpu_need_another_host() -> None:
    wanted = [*demands(1, shape("grid_a100-20c")), *demands(1, shape("grid_a100-10c"), "small")]
    assert words({"a": {"gpus": a100s()}}, None, wanted) == "add 1 host like a"
    assert words({"a": {"gpus": a100s(2)}}, None, wanted) == ""


def test_as_many_hosts_are_asked_for_as_are_needed() -> None:
    hosts = {"a": {"gpus": a100s()}}
    assert words(hosts, None, demands(3, shape("grid_a100-40c"))) == "add 2 hosts like a"
    assert words(hosts, None, demands(9, shape("grid_a100-40c"))) == ""


def test_a_device_that_is_named_is_found_on_no_other_host() -> None:
    wanted = [Demand(name, "", shape(fixed=("0000:10:00.0",))) for name in ("one", "two")]
    assert words({"a": {"gpus": a100s(1, passthrough=True)}}, None, wanted) == ""
