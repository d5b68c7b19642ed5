from __future__ import annotations

from typing import Any

from tests.unit.planning.test_placement import a100s, demands, place, shape, states
from vgpu_cfg.model.desired import Spread
from vgpu_cfg.planning.demand import Demand
from vgpu_cfg.planning.mend import smallest_mend


def words(hosts: Any, wanted: list[Demand], **more: Any) -> str:
    found = smallest_mend(place(hosts, wanted), **more)
    return found.words if found else ""


def small_vm(host: str, pci: str, profile: str = "grid_a100-4c", name: str = "small") -> dict[str, Any]:
    return {name: {"host": host, "gpus": [profile], "on": [pci]}}


def test_nothing_is_said_where_all_fit() -> None:
    assert words(states({"a": {"gpus": a100s()}}), demands(1, shape("grid_a100-40c"))) == ""


def test_a_small_vm_that_locks_a_gpu_is_moved_to_one_of_its_size() -> None:
    vms = small_vm("a", "0000:10:00.0") | small_vm("b", "0000:10:00.0", name="other")
    hosts = states({"a": {"gpus": a100s()}, "b": {"gpus": a100s()}}, vms)
    assert words(hosts, demands(1, shape("grid_a100-40c", hosts=2))) == "move other from b to a"


def test_of_two_vms_the_one_that_may_be_named_is_moved() -> None:
    vms = small_vm("a", "0000:10:00.0") | small_vm("b", "0000:10:00.0", name="other")
    hosts = states({"a": {"gpus": a100s()}, "b": {"gpus": a100s()}}, vms)
    wanted = demands(1, shape("grid_a100-40c", hosts=2))
    assert words(hosts, wanted, may_move=lambda name: name != "other") == "move small from a to b"


def test_a_vm_that_could_go_nowhere_is_not_named() -> None:
    hosts = states({"a": {"gpus": a100s()}}, small_vm("a", "0000:10:00.0"))
    assert words(hosts, demands(1, shape("grid_a100-40c"))) == "add 1 host like a"


def test_an_unused_gpu_changes_its_mode() -> None:
    hosts = states({"a": {"gpus": a100s(2, sharing="mig")}})
    assert words(hosts, demands(1, shape("grid_a100-40c"))) == "turn MIG mode off for GPU 0000:10:00.0 of a"
    hosts = states({"a": {"gpus": a100s(1)}})
    assert words(hosts, demands(1, shape("grid_a100-1-5c"))) == "turn MIG mode on for GPU 0000:10:00.0 of a"


def test_two_sizes_on_one_gpu_need_mixed_size_mode() -> None:
    wanted = [*demands(1, shape("grid_a100-20c")), *demands(1, shape("grid_a100-10c"), "small")]
    assert words(states({"a": {"gpus": a100s()}}), wanted) == "add 1 host like a"
    hosts = states({"a": {"gpus": a100s(2)}})
    assert words(hosts, wanted) == ""


def test_as_many_hosts_are_asked_for_as_are_needed() -> None:
    hosts = states({"a": {"gpus": a100s()}})
    assert words(hosts, demands(3, shape("grid_a100-40c"))) == "add 2 hosts like a"
    assert words(hosts, demands(9, shape("grid_a100-40c"))) == ""


def test_a_device_that_is_named_is_found_on_no_other_host() -> None:
    hosts = states({"a": {"gpus": a100s(1, passthrough=True)}})
    wanted = [Demand(name, "", shape(fixed=("0000:10:00.0",))) for name in ("one", "two")]
    assert words(hosts, wanted) == ""


def test_a_new_host_has_none_of_the_line_that_is_spread() -> None:
    hosts = states({"a": {"gpus": a100s(2)}})
    hosts[0].residents["apart"] = 1
    wanted = demands(1, shape("grid_a100-40c", spread=Spread.HOSTS, line="apart"))
    assert words(hosts, wanted) == "add 1 host like a"
