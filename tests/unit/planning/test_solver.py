from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from tests.unit.planning.test_placement import a100s, demands, shape, states
from vgpu_cfg.model.plan_file import DeviceEntry
from vgpu_cfg.model.plan_values import Spread
from vgpu_cfg.planning.capacity.gpu_state import GpuState
from vgpu_cfg.planning.placement.demand import Demand, Shape
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.milp import Program, SolverStatus
from vgpu_cfg.planning.placement.patterns import PatternBook, PatternItem, stack
from vgpu_cfg.planning.placement.place import Attempt, place_greedily
from vgpu_cfg.planning.placement.solver import place_by_program

PAIR = "Nvidia:2@grid_a100d-80c%NVLink"
HGX = [f"Nvidia:{size}@nvidia_h100xm-80c%NVLink" for size in (2, 4, 8)]


def solved(hosts: Sequence[HostState], wanted: Sequence[Demand]) -> Attempt:
    """Solve, and see that what comes out is what the hosts allow."""
    found = place_by_program(hosts, wanted)
    for demand in wanted:
        assert (demand.vm in found.fits) is (demand not in found.left)
    return found


def by_host(found: Attempt) -> dict[int, int]:
    hosts = [fit.host for fit in found.fits.values()]
    return {host: hosts.count(host) for host in sorted(set(hosts))}


def gpu(profile: str, **more: Any) -> tuple[GpuState, PatternItem]:
    host = states({"a": {"gpus": a100s(1, **more)}})[0]
    return host.gpus[0], PatternItem(shape(profile).variants[0][0])


def peers(profile: str, count: int, **more: Any) -> Shape:
    base = shape(*[profile] * count, **more)
    joined = tuple(dataclasses.replace(need, peers=1) for need in base.variants[0])
    return dataclasses.replace(base, variants=(joined,))


def hgx(**more: Any) -> dict[str, Any]:
    return {"gpus": a100s(8, "H100XM"), "groups": HGX, "node_gib": 4096, "cores": 128} | more


def test_the_patterns_of_a_mig_gpu_are_the_largest_sets() -> None:
    one, three = gpu("grid_a100-3-20c", sharing="mig")
    _, four = gpu("grid_a100-4-20c", sharing="mig")
    _, small = gpu("grid_a100-1-5c", sharing="mig")
    book = PatternBook((three, four, small))
    assert book.of(one) == ((2, 0, 0), (1, 1, 0), (1, 0, 4), (0, 1, 3), (0, 0, 7))


def test_a_size_locks_a_gpu_in_same_size_mode() -> None:
    one, half = gpu("grid_a100-20c")
    _, quarter = gpu("grid_a100-10c")
    assert PatternBook((half, quarter)).of(one) == ((2, 0), (0, 4))


def test_a_line_has_one_vgpu_on_a_gpu() -> None:
    one, half = gpu("grid_a100-20c")
    assert PatternBook((PatternItem(half.need, "line"),)).of(one) == ((1,),)


def test_too_many_patterns_are_admitted() -> None:
    one, half = gpu("grid_a100-20c")
    book = PatternBook((half,), most_states=1)
    book.of(one)
    assert not book.is_whole


def test_vgpus_are_stacked_in_an_order_that_works() -> None:
    one, three = gpu("grid_a100-3-20c", sharing="mig")
    _, two = gpu("grid_a100-2-10c", sharing="mig")
    filled = stack(one, [(two.need, "a", ""), (two.need, "b", ""), (three.need, "c", "")])
    assert filled is not None
    assert {held.vm for held in filled.held} == {"a", "b", "c"}
    assert stack(one, [(three.need, name, "") for name in "abc"]) is None


def test_memory_is_shared_out() -> None:
    hosts = states({"a": {"gpus": a100s(2), "node_gib": 32}, "b": {"gpus": a100s(1), "node_gib": 512}})
    large = shape("grid_a100-20c", hosts=2, memory_mib=40 * 1024)
    assert by_host(solved(hosts, demands(3, large))) == {0: 1, 1: 2}
    assert len(solved(hosts, demands(4, large)).left) == 1


def test_vms_of_a_line_run_apart() -> None:
    hosts = states({name: {"gpus": a100s(2)} for name in "abc"})
    apart = shape("grid_a100-20c", hosts=3, spread=Spread.HOSTS, line="l")
    assert by_host(solved(hosts, demands(3, apart))) == {0: 1, 1: 1, 2: 1}
    assert solved(hosts, demands(4, apart)).is_proof


def test_whole_functions_are_matched_with_who_asks_for_least() -> None:
    gpus = [*a100s(1, passthrough=True, label="x"), *a100s(2, passthrough=True)[1:]]
    hosts = states({"a": {"gpus": gpus}})
    anyone = Demand("any", "", shape(dynamic=(DeviceEntry(model="A100"),)))
    labelled = Demand("label", "", shape(dynamic=(DeviceEntry(label="x"),)))
    found = solved(hosts, [anyone, labelled])
    assert found.fits["label"].slots == ("0000:10:00.0",)
    assert found.fits["any"].slots == ("0000:11:00.0",)


def test_hosts_are_kept_free() -> None:
    hosts = states({name: {"gpus": a100s(1)} for name in "abc"})
    wanted = demands(2, shape("grid_a100-40c", hosts=3, keep_free=1))
    assert len(by_host(solved(hosts, wanted))) == 2
    assert len(solved(hosts, demands(2, shape("grid_a100-40c", hosts=3, keep_free=2))).left) == 1
    assert len(place_greedily(hosts, demands(2, shape("grid_a100-40c", hosts=3, keep_free=2))).left) == 1


def test_peers_take_a_set_that_is_whole() -> None:
    groups = {"gpus": [one | {"node": 0} for one in a100s(4, "A100D")], "groups": [PAIR]}
    vms = {"x": {"host": "a", "gpus": ["grid_a100d-80c"], "on": ["0000:11:00.0"]}}
    hosts = states({"a": groups}, vms)
    found = solved(hosts, demands(1, peers("grid_a100d-80c", 2)))
    assert found.fits["vm-0"].gpus == (2, 3)
    assert found.fits["vm-0"].groups == ((1, PAIR),)
    assert solved(hosts, demands(2, peers("grid_a100d-80c", 2))).is_proof


def test_single_gpus_leave_the_sets_that_are_asked_for() -> None:
    hosts = states({"a": hgx()})
    four, single = peers("nvidia_h100xm-80c", 4), shape("nvidia_h100xm-80c")
    found = solved(hosts, [*demands(1, four, "four"), *demands(4, single, "one")])
    assert not found.left
    assert set(found.fits["four-0"].gpus) in ({0, 1, 2, 3}, {4, 5, 6, 7})


def test_two_pairs_of_different_halves_leave_no_four() -> None:
    vms = {
        "x": {"host": "a", "gpus": ["nvidia_h100xm-80c"] * 2, "on": ["0000:10:00.0", "0000:11:00.0"]},
        "y": {"host": "a", "gpus": ["nvidia_h100xm-80c"] * 2, "on": ["0000:14:00.0", "0000:15:00.0"]},
    }
    four = peers("nvidia_h100xm-80c", 4)
    assert solved(states({"a": hgx()}, vms), demands(1, four)).is_proof
    assert not solved(states({"a": hgx()}, {"x": vms["x"]}), demands(1, four)).left


def test_the_harder_vm_keeps_its_place() -> None:
    hosts = states({"a": {"gpus": a100s(1)}})
    wanted = [*demands(1, shape("grid_a100-40c"), "large"), *demands(1, shape("grid_a100-10c"), "small")]
    assert [demand.vm for demand in solved(hosts, wanted).left] == ["small-0"]


def test_a_row_may_name_a_variable_twice() -> None:
    program = Program()
    first = program.variable(4, cost=-1)
    second = program.variable(4, cost=-1)
    program.row([(first, 1), (second, 1), (first, 1)], most=4)
    solution = program.solve(most_nodes=10)
    assert solution.outcome is SolverStatus.BEST
    assert sum(solution.values) == 4


def test_a_program_without_a_solution_says_so() -> None:
    program = Program()
    one = program.variable(1)
    program.row([(one, 1.0)], least=2)
    assert program.solve(most_nodes=10).outcome is SolverStatus.NONE


def test_the_solver_is_loaded_only_where_it_is_needed() -> None:
    code = (
        "import sys, vgpu_cfg.planning.planner; sys.exit('highspy' in sys.modules or 'numpy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False, timeout=120).returncode == 0


def test_hosts_of_two_releases_have_patterns_of_their_own() -> None:
    rows = {"new": {"gpus": a100s(1, "A40")}, "old": {"gpus": a100s(1, "A40"), "version": "8.0.1"}}
    for hosts in (states(rows), states(dict(reversed(rows.items())))):
        compute = demands(3, shape("nvidia_a40-24c", hosts=2), "compute")
        graphics = demands(1, shape("nvidia_a40-24q", hosts=2), "graphics")
        assert not solved(hosts, [*compute, *graphics]).left


def test_two_vgpus_of_one_vm_that_is_spread_over_gpus_are_no_proof() -> None:
    wanted = shape("grid_a100-10c", "grid_a100-10c", spread=Spread.GPUS, line="apart")
    assert not solved(states({"a": {"gpus": a100s()}}), demands(1, wanted)).is_proof
    one = shape("grid_a100-10c", spread=Spread.GPUS, line="apart")
    assert solved(states({"a": {"gpus": a100s()}}), demands(2, one)).is_proof


def test_a_single_vgpu_goes_where_it_breaks_no_set() -> None:
    groups = {"gpus": [one | {"node": 0} for one in a100s(4, "A100D")], "groups": [PAIR]}
    vms = {"x": {"host": "a", "gpus": ["grid_a100d-80c"], "on": ["0000:13:00.0"]}}
    (host,) = states({"a": groups}, vms)
    fit = host.fit(shape("grid_a100d-80c"))
    assert fit is not None
    assert fit.gpus == (2,), "its peer is used by itself already"
