from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Hindrance
from vgpu_cfg.model.plan_file import DeviceEntry
from vgpu_cfg.model.plan_values import NumaPolicy, Spread
from vgpu_cfg.planning.capacity.gpu_state import needs_of
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader, Claim
from vgpu_cfg.planning.capacity.nic_needs import NicKind, NicNeed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.placement.demand import Demand, Shape
from vgpu_cfg.planning.placement.expected_gpus import expect_gpus
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.place import NoPlace, Placed, Placer, place_greedily
from vgpu_cfg.planning.placement.place import place as place_with
from vgpu_cfg.planning.placement.solver import place_by_program
from vgpu_cfg.planning.placement.start_queues import Start, power_on_tiers, simulate_starts
from vgpu_cfg.planning.placement.startable import PLACERS
from vgpu_cfg.planning.remedies.refusals import explain_refusal

CATALOG = load_catalog()


def a100s(count: int = 1, board: str = "A100", **more: Any) -> list[dict[str, Any]]:
    return [
        {"board": board, "pci": f"0000:{16 + number:02x}:00.0", "node": number % 2} | more
        for number in range(count)
    ]


def states(hosts: dict[str, Any], vms: dict[str, Any] | None = None) -> list[HostState]:
    observed = make_inventory({"hosts": hosts, "vms": vms or {}})
    reader = CapacityReader(observed, CATALOG)
    return [HostState.of(index, reader.read(host)) for index, host in enumerate(observed.hosts)]


def shape(*profiles: str, hosts: int | Sequence[int] = 1, **more: Any) -> Shape:
    indexes = range(hosts) if isinstance(hosts, int) else hosts
    needs = tuple(next(iter(needs_of(profile, CATALOG).values())) for profile in profiles)
    base = Shape(tuple((index, 0) for index in indexes), (needs,) if needs else (), cpus=4, memory_mib=16_384)
    return dataclasses.replace(base, **more)


def demands(count: int, wanted: Shape, prefix: str = "vm") -> list[Demand]:
    return [Demand(f"{prefix}-{number}", wanted.line, wanted) for number in range(count)]


def hosts_of(found: Placed) -> dict[str, int]:
    return {vm: fit.host for vm, fit in sorted(found.fits.items())}


def place(hosts: list[HostState], wanted: list[Demand], placers: Sequence[Placer] = PLACERS) -> Placed:
    return place_with(hosts, wanted, placers)


def test_like_vms_fill_one_host_before_the_next() -> None:
    hosts = states({"a": {"gpus": a100s(2)}, "b": {"gpus": a100s(2)}})
    found = place(hosts, demands(3, shape("grid_a100-20c", hosts=2)))
    assert hosts_of(found) == {"vm-0": 0, "vm-1": 0, "vm-2": 0}
    assert not found.failed


def test_a_gpu_that_runs_the_size_already_goes_before_an_idle_one() -> None:
    vms = {"x": {"host": "b", "gpus": ["grid_a100-20c"], "on": ["0000:11:00.0"]}}
    found = place(
        states({"a": {"gpus": a100s()}, "b": {"gpus": a100s(2)}}, vms),
        demands(1, shape("grid_a100-20c", hosts=2)),
    )
    assert found.fits["vm-0"].host == 1
    assert found.fits["vm-0"].gpus == (1,)


def test_the_first_cluster_goes_before_better_fits() -> None:
    hosts = states({"a": {"gpus": a100s()}, "b": {"gpus": a100s()}})
    wanted = dataclasses.replace(shape("grid_a100-20c"), hosts=((1, 0), (0, 1)))
    assert hosts_of(place(hosts, demands(3, wanted))) == {"vm-0": 1, "vm-1": 1, "vm-2": 0}


def test_the_hosts_are_not_changed() -> None:
    hosts = states({"a": {"gpus": a100s()}})
    before = hosts[0].copy()
    place(hosts, demands(1, shape("grid_a100-20c")))
    assert hosts[0].gpus == before.gpus
    assert hosts[0].free_mib == before.free_mib


def test_one_too_many_is_proven_impossible_and_the_others_are_placed() -> None:
    found = place(states({"a": {"gpus": a100s(sharing="mig")}}), demands(8, shape("grid_a100-1-5c")))
    assert len(found.fits) == 7
    assert [verdict for _, verdict in found.failed.values()] == [NoPlace.IMPOSSIBLE]


def greedy_trap() -> tuple[list[HostState], list[Demand]]:
    """Two VMs of like hardness: whoever takes host 0 first must be the one that cannot go to host 1."""
    hosts = states({"a": {"gpus": a100s()}, "b": {"gpus": a100s()}, "c": {"gpus": a100s()}})
    first = shape("grid_a100-40c", hosts=[0, 1])
    second = shape("grid_a100-40c", hosts=[0, 1], cpus=3)
    third = shape("grid_a100-40c", hosts=[0, 2], cpus=5)
    return hosts, [Demand("one", "", first), Demand("two", "", second), Demand("zzz", "", third)]


def test_the_solver_finds_what_the_greedy_way_misses() -> None:
    hosts, wanted = greedy_trap()
    assert place_greedily(hosts, wanted).left
    assert {verdict for _, verdict in place(hosts, wanted, [place_greedily]).failed.values()} == {
        NoPlace.UNDECIDED
    }
    found = place(hosts, wanted)
    assert sorted(fit.host for fit in found.fits.values()) == [0, 1, 2]
    assert not found.failed


def test_the_solver_proves_what_cannot_be_and_places_the_others() -> None:
    hosts, wanted = greedy_trap()
    wanted.append(Demand("four", "", shape("grid_a100-40c", hosts=3, cpus=2)))
    found = place(hosts, wanted)
    assert [verdict for _, verdict in found.failed.values()] == [NoPlace.IMPOSSIBLE]
    assert len(found.fits) == 3


def test_a_solver_that_reaches_its_limit_decides_nothing() -> None:
    hosts, wanted = greedy_trap()
    placers: list[Placer] = [place_greedily, partial(place_by_program, most_variables=3)]
    assert {verdict for _, verdict in place(hosts, wanted, placers).failed.values()} == {NoPlace.UNDECIDED}
    assert Code("VG111") is Code.UNDECIDED  # what the planner makes of it


def test_the_order_of_demands_does_not_matter() -> None:
    hosts = states({"a": {"gpus": a100s(2)}, "b": {"gpus": a100s(2)}})
    wanted = [
        *demands(3, shape("grid_a100-20c", hosts=2), "a"),
        *demands(2, shape("grid_a100-40c", hosts=2), "b"),
    ]
    assert hosts_of(place(hosts, wanted)) == hosts_of(place(hosts, wanted[::-1]))


@pytest.mark.parametrize(("must", "left"), [(True, 1), (False, 0)])
def test_vms_that_must_run_apart_need_as_many_hosts(must: bool, left: int) -> None:
    hosts = states({"a": {"gpus": a100s(2)}, "b": {"gpus": a100s(2)}})
    wanted = shape("grid_a100-40c", hosts=2, spread=Spread.HOSTS, must=must, line="l")
    found = place(hosts, demands(3, wanted))
    assert len(found.failed) == left
    assert set(hosts_of(found).values()) == {0, 1}


@pytest.mark.parametrize(("must", "left"), [(True, 1), (False, 0)])
def test_vms_that_must_not_share_a_gpu_need_as_many_gpus(must: bool, left: int) -> None:
    wanted = shape("grid_a100-10c", spread=Spread.GPUS, must=must, line="l")
    found = place(states({"a": {"gpus": a100s(2)}}), demands(3, wanted))
    assert len(found.failed) == left


def test_memory_is_reserved() -> None:
    found = place(states({"a": {"gpus": a100s(), "node_gib": 20}}), demands(3, shape("grid_a100-10c")))
    assert len(found.fits) == 2


def test_several_vgpus_prefer_one_node() -> None:
    gpus = [
        {"board": "L40S", "pci": f"0000:{16 + number:02x}:00.0", "node": number % 2} for number in range(4)
    ]
    found = place(states({"a": {"gpus": gpus}}), demands(2, shape("nvidia_l40s-48c", "nvidia_l40s-48c")))
    assert sorted((fit.gpus, fit.nodes) for fit in found.fits.values()) == [((0, 2), (0,)), ((1, 3), (1,))]


def test_a_vm_on_two_nodes_is_split() -> None:
    found = place(states({"a": {"gpus": a100s(2)}}), demands(1, shape("grid_a100-40c", "grid_a100-40c")))
    assert found.fits["vm-0"].nodes == (0, 1)


@pytest.mark.parametrize(("cpus", "level"), [(20, 0), (33, 2)])
def test_a_node_that_is_too_small_is_a_last_resort(cpus: int, level: int) -> None:
    found = place(states({"a": {"gpus": a100s()}}), demands(1, shape("grid_a100-40c", cpus=cpus)))
    assert found.fits["vm-0"].numa_level == level


def test_what_vms_promise_each_other_on_a_node_is_counted() -> None:
    found = place(states({"a": {"gpus": a100s()}}), demands(2, shape("grid_a100-20c", cpus=20)))
    assert [fit.numa_level for fit in found.fits.values()] == [0, 1]


def test_a_named_node_must_be_there() -> None:
    wanted = shape("grid_a100-20c", numa=NumaPolicy.NODE, numa_nodes=(3,))
    assert place(states({"a": {"gpus": a100s()}}), demands(1, wanted)).failed


def test_the_hosts_word_on_what_it_can_create_goes_before_ours() -> None:
    host = {"gpus": a100s(), "creatable": ["grid_a100-10c"]}
    assert place(states({"a": host}), demands(1, shape("grid_a100-20c"))).failed
    assert not place(states({"a": host}), demands(1, shape("grid_a100-10c"))).failed


def test_passed_through_devices_are_taken_once() -> None:
    hosts = states({"a": {"gpus": a100s(2, passthrough=True, label="x")}})
    by_label = shape(dynamic=(DeviceEntry(label="x"),))
    found = place(hosts, [*demands(2, by_label), Demand("pin", "", shape(fixed=("0000:10:00.0",)))])
    assert found.fits["pin"].slots == ("0000:10:00.0",)
    assert [fit.slots for vm, fit in found.fits.items() if vm != "pin"] == [("0000:11:00.0",)]
    assert len(found.failed) == 1


@pytest.mark.parametrize(
    ("need", "is_met"),
    [
        (DeviceEntry(model="a100"), True),
        (DeviceEntry(model="L40S"), False),
        (DeviceEntry(device_id=(0x10DE, 0x20F1)), True),
        (DeviceEntry(device_id=(0x10DE, 0x20F2)), False),
        (DeviceEntry(label="x", model="A100"), True),
        (DeviceEntry(label="y"), False),
    ],
)
def test_a_dynamic_device_is_all_that_is_said(need: DeviceEntry, is_met: bool) -> None:
    hosts = states({"a": {"gpus": a100s(passthrough=True, label="x")}})
    assert bool(place(hosts, demands(1, shape(dynamic=(need,)))).fits) is is_met


def test_a_vm_that_stays_goes_before_new_ones() -> None:
    wanted = [
        Demand("new", "", shape("grid_a100-40c")),
        Demand("zz-old", "", shape("grid_a100-40c"), stays=True),
    ]
    found = place(states({"a": {"gpus": a100s()}}), wanted)
    assert list(found.fits) == ["zz-old"]


def start(vm: str, *profiles: str) -> Start:
    return Start(vm, shape(*profiles).variants[0])


def test_large_vgpus_start_first() -> None:
    starts = [start("c", "grid_a100-10c"), start("a", "grid_a100-20c"), start("b", "grid_a100-40c")]
    assert power_on_tiers(starts) == [["b"], ["a"], ["c"]]
    assert power_on_tiers(starts[:1] * 2) == [["c", "c"]]


def test_boards_do_not_wait_for_each_other() -> None:
    assert power_on_tiers([start("a", "grid_a100-10c"), start("b", "nvidia_l40s-48c")]) == [["a", "b"]]


@pytest.mark.parametrize(("policy", "stranded"), [("performance", "c"), ("consolidation", None)])
def test_breadth_first_may_strand_a_vm(policy: str, stranded: str | None) -> None:
    (host,) = states({"a": {"gpus": a100s(2), "policy": policy}})
    starts = [start("a", "grid_a100-20c"), start("b", "grid_a100-20c"), start("c", "grid_a100-10c")]
    assert simulate_starts(host, starts)[1] == stranded


@pytest.mark.parametrize(("policy", "nodes"), [("performance", [0, 1]), ("consolidation", [0, 0])])
def test_the_expected_gpu_follows_the_hosts_policy(policy: str, nodes: list[int]) -> None:
    hosts = states({"a": {"gpus": a100s(2), "policy": policy}})
    wanted = demands(2, shape("grid_a100-20c"))
    found = expect_gpus(place(hosts, wanted), wanted)
    assert [fit.nodes[0] for _, fit in sorted(found.fits.items())] == nodes


def passed_through(pci: str, node: int = 0, **more: Any) -> dict[str, Any]:
    return {"board": "A100", "pci": pci, "node": node, "passthrough": True} | more


def test_a_request_that_any_function_meets_leaves_the_labelled_one_to_who_needs_it() -> None:
    gpus = [passed_through("0000:10:00.0", label="train"), passed_through("0000:11:00.0")]
    wanted = shape(dynamic=(DeviceEntry(model="A100"), DeviceEntry(label="train")))
    assert place(states({"a": {"gpus": gpus}}), demands(1, wanted)).fits["vm-0"].slots == (
        "0000:11:00.0",
        "0000:10:00.0",
    )
    one = [passed_through("0000:10:00.0", label="train")]
    assert place(states({"a": {"gpus": one}}), demands(1, wanted)).failed["vm-0"][1] is NoPlace.IMPOSSIBLE


def test_a_gpu_is_passed_through_where_the_nic_is_that_must_be_near_it() -> None:
    gpus = [passed_through("0000:10:00.0"), passed_through("0000:90:00.0", node=1)]
    nics = [{"pci": "0000:91:00.0", "node": 1, "passthrough": True}]
    near = NicNeed(NicKind.PASSTHROUGH, near_gpu=True, must_be_near=True)
    wanted = shape(dynamic=(DeviceEntry(model="A100"),), nics=(near,))
    found = place(states({"a": {"gpus": gpus, "nics": nics}}), demands(1, wanted))
    assert found.fits["vm-0"].slots == ("0000:90:00.0",)
    none = place(states({"a": {"gpus": gpus[:1], "nics": nics}}), demands(1, wanted))
    assert none.failed["vm-0"][1] is NoPlace.IMPOSSIBLE


def test_what_one_line_keeps_free_no_other_line_takes() -> None:
    hosts = states({"a": {"gpus": a100s(2)}, "b": {"gpus": a100s(2)}})
    keeps = demands(2, shape("grid_a100-40c", hosts=2, keep_free=1), "keeps")
    other = demands(1, shape("grid_a100-20c", hosts=2), "other")
    found = place(hosts, [*keeps, *other])
    assert hosts_of(found) == {"keeps-0": 0, "keeps-1": 0}
    assert found.failed["other-0"][1] is NoPlace.IMPOSSIBLE
    refusal = explain_refusal(found.hosts, other[0].shape, {})
    assert [(one.subject, one.reason) for one in refusal.hindrances] == [
        ("b", "has no GPU VMs, and `keep_free` keeps it free"),
        ("a", "0000:10:00.0 is full (1 × grid_a100-40c planned: keeps-0)"),
        ("a", "0000:11:00.0 is full (1 × grid_a100-40c planned: keeps-1)"),
    ]
    assert hosts_of(place(hosts, [*keeps[:1], *other])) == {"keeps-0": 0, "other-0": 0}


def test_a_refusal_names_a_few_of_a_hosts_gpus_and_still_the_vms_that_are_off() -> None:
    vms = {
        f"x{n}": {"host": "a", "gpus": ["grid_a100-40c"], "on": [f"0000:{16 + n:02x}:00.0"]} for n in range(8)
    }
    claims = {0: [Claim("idle", "vm-9", "grid_a100-40c")]}
    rows = explain_refusal(states({"a": {"gpus": a100s(8)}}, vms), shape("grid_a100-40c"), claims).hindrances
    *full, more, off = [one.reason for one in rows]
    assert len(full) == 4
    assert all("is full" in reason for reason in full)
    assert more == "and 4 more reasons"
    assert off == "powered off, so not currently blocking: idle (grid_a100-40c)"
    four = dict(list(vms.items())[:4])
    rows = explain_refusal(states({"a": {"gpus": a100s(4)}}, four), shape("grid_a100-40c"), {}).hindrances
    assert ["is full" in one.reason for one in rows] == [True] * 4


def test_hosts_that_refuse_alike_share_a_row_and_of_very_many_the_rest_is_counted() -> None:
    wanted = shape("nvidia_l40s-48c", hosts=20)
    other_boards = {f"esx-{n:02}.lab": {"gpus": a100s(1)} for n in range(1, 21)}
    alike = explain_refusal(states(other_boards), wanted, {})
    assert [one.subject for one in alike.hindrances] == ["esx-{01..20}.lab"]
    hosts = {f"esx-{n:02}": {"gpus": a100s(1)} for n in range(1, 21)}
    vms = {f"x-{n}": {"host": f"esx-{n:02}", "gpus": ["grid_a100-40c"]} for n in range(1, 21)}
    many = explain_refusal(states(hosts, vms), shape("grid_a100-40c", hosts=20), {})
    assert len(many.hindrances) == 13
    assert many.hindrances[-1] == Hindrance(subject="8 more hosts", reason="also unsuitable")


def test_a_host_with_a_passed_through_nic_alone_is_free_of_gpu_vms() -> None:
    nics = [{"pci": "0000:91:00.0", "node": 1, "passthrough": True}]
    host = states({"a": {"gpus": [passed_through("0000:10:00.0")], "nics": nics}})[0]
    host.holders["0000:91:00.0"] = "other"
    assert not host.is_in_use
    host.holders["0000:10:00.0"] = "other"
    assert host.is_in_use


def test_vms_that_must_have_a_node_each_do_not_share_one() -> None:
    gpus = [{"board": "A100", "pci": f"0000:1{number}:00.0", "node": 0} for number in range(2)]
    apart = shape("grid_a100-40c", spread=Spread.NUMA, line="apart")
    found = place(states({"a": {"gpus": gpus}}), demands(2, apart))
    assert set(found.fits) == {"vm-0"}
    assert found.failed["vm-1"][1] is NoPlace.IMPOSSIBLE
    assert not place(states({"a": {"gpus": a100s(2)}}), demands(2, apart)).failed


def test_a_nic_on_the_node_of_the_gpu_is_part_of_the_program() -> None:
    gpus = [
        {"board": "A100", "pci": "0000:10:00.0", "node": 0},
        {"board": "A100", "pci": "0000:11:00.0", "node": 1},
    ]
    nics = [{"pci": f"0000:4{number}:00.0", "node": 0, "passthrough": True} for number in range(2)]
    near = shape("grid_a100-40c", nics=(NicNeed(NicKind.PASSTHROUGH, near_gpu=True, must_be_near=True),))
    hosts = states({"a": {"gpus": gpus, "nics": nics}})
    found = place_by_program(hosts, demands(2, near))
    assert (len(found.fits), found.least_left, found.is_proof) == (1, 1, True)
    beside = [*nics[:1], {"pci": "0000:51:00.0", "node": 1, "passthrough": True}]
    found = place_by_program(states({"a": {"gpus": gpus, "nics": beside}}), demands(2, near))
    assert (len(found.fits), found.least_left) == (2, 0)
