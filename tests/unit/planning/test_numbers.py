from __future__ import annotations

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.plan_values import NumaPolicy
from vgpu_cfg.model.wording import gib, is_at_least, listed, node_list, version_tuple, whole_gib
from vgpu_cfg.planning.capacity.hardware import (
    NodeState,
    choose_nodes,
    highest_version,
    least_version,
    nodes_of_affinity,
    numa_level,
    passthrough_limit,
    promise_nodes,
    vgpu_limit,
)
from vgpu_cfg.planning.capacity.pci_tree import mmio_size_gb
from vgpu_cfg.planning.findings.options import PlanOptions, matches_any


@pytest.mark.parametrize(
    ("boards", "size_gb"),
    [
        (["A100"], 128),
        (["A100", "A100"], 256),
        (["A10", "A10"], 128),
        (["A100D"] * 4, 1024),
        (["V100"], 64),
        (["H100XM"] * 8, 2048),
        (["H200X"], 512),
        (["L40S"], 128),
        (["T4"], None),
        (["T4", "A100"], 128),
        ([], None),
        ([None], 512),
        ([None, "T4"], 512),
        ([None, "H200X", "H200X"], 1024),
    ],
)
def test_mmio_is_the_larger_of_rule_and_table(boards: list[str | None], size_gb: int | None) -> None:
    catalog = load_catalog()
    assert mmio_size_gb([catalog.board(key) if key else None for key in boards]) == size_gb


def host(version: str = "8.0.3", hardware: int | None = 21, **told: object) -> Host:
    row = {"version": version, "hardware": hardware}
    made = make_inventory({"hosts": {"esx-01": row}}).hosts[0]
    return made.model_copy(update=told)


@pytest.mark.parametrize(
    ("version", "newest"),
    [
        ("6.7.0", 15),
        ("7.0", 17),
        ("7.0.1", 18),
        ("7.0.3", 19),
        ("8.0.1", 20),
        ("8.0.2", 21),
        ("9.0", 22),
        ("", None),
    ],
)
def test_the_newest_hardware_version_follows_from_the_release(version: str, newest: int | None) -> None:
    assert highest_version(host(version, None)) == newest


def test_vcenters_word_goes_before_the_table() -> None:
    assert highest_version(host("7.0", 18)) == 18
    told = host(max_vgpus_by_hardware_version={21: 12})
    assert (vgpu_limit(told, 21), vgpu_limit(told, 20)) == (12, 8)


@pytest.mark.parametrize(
    ("version", "limit"), [(10, 0), (11, 1), (14, 1), (15, 4), (19, 4), (20, 8), (21, 16), (22, 16)]
)
def test_vgpus_per_hardware_version(version: int, limit: int) -> None:
    assert vgpu_limit(host(), version) == limit


@pytest.mark.parametrize(
    ("vgpus", "dynamic", "devices", "least"),
    [(0, 0, 0, 0), (1, 0, 1, 11), (2, 0, 2, 15), (5, 0, 5, 20), (9, 0, 9, 21), (0, 1, 1, 17), (0, 0, 17, 20)],
)
def test_devices_need_a_hardware_version(vgpus: int, dynamic: int, devices: int, least: int) -> None:
    assert least_version(vgpus, dynamic, devices) == least


def test_passthrough_limits() -> None:
    assert (passthrough_limit(19), passthrough_limit(20), passthrough_limit(None)) == (16, 128, 128)


def nodes() -> list[NodeState]:
    return [NodeState(0, 32, 230_000, 32, 230_000), NodeState(1, 32, 230_000, 8, 10_000)]


@pytest.mark.parametrize(
    ("policy", "named", "gpu_nodes", "chosen"),
    [
        (NumaPolicy.OFF, (), [0], ()),
        (NumaPolicy.FOLLOW_GPU, (), [1], (1,)),
        (NumaPolicy.FOLLOW_GPU, (), [1, 0], (0, 1)),
        (NumaPolicy.FOLLOW_GPU, (), [None], ()),
        (NumaPolicy.FOLLOW_GPU, (), [], ()),
        (NumaPolicy.NODE, (), [1], (0,)),
        (NumaPolicy.NODE, (1,), [0], (1,)),
    ],
)
def test_nodes_follow_the_policy(
    policy: NumaPolicy, named: tuple[int, ...], gpu_nodes: list[int | None], chosen: tuple[int, ...]
) -> None:
    assert choose_nodes(policy, named, gpu_nodes, nodes(), (16, 65_536)) == chosen


def test_a_host_without_nodes_ties_nothing() -> None:
    assert choose_nodes(NumaPolicy.FOLLOW_GPU, (), [0], [], (16, 65_536)) == ()


@pytest.mark.parametrize(
    ("tied", "cpus", "level"), [((0,), 32, 0), ((1,), 16, 1), ((1,), 40, 2), ((0, 1), 64, 1), ((), 500, 0)]
)
def test_room_on_nodes_has_three_levels(tied: tuple[int, ...], cpus: int, level: int) -> None:
    assert numa_level(nodes(), tied, cpus, 1024) == level


def test_a_promise_is_split_evenly() -> None:
    states = nodes()
    promise_nodes(states, (0, 1), 9, 2000)
    assert [(state.free_cores, state.free_mib) for state in states] == [(27, 229_000), (3, 9_000)]


@pytest.mark.parametrize(("text", "found"), [("", ()), ("0", (0,)), ("1, 0", (0, 1)), ("x", ())])
def test_an_affinity_is_read(text: str, found: tuple[int, ...]) -> None:
    assert nodes_of_affinity(text) == found


def test_words() -> None:
    assert (gib(65_536), gib(1 << 20), gib(10), gib(0)) == ("64 GiB", "1 TiB", "10 MiB", "0 GiB")
    assert (whole_gib(2047), whole_gib(-5)) == ("1 GiB", "0 GiB")
    assert listed("abcde") == "a, b, c and 2 more"
    assert listed("abc") == "a, b, c"
    assert node_list([1, 0, 1]) == "0,1"
    assert version_tuple("8.0.x") == (8, 0, 0)
    assert is_at_least("8.0.3", (8, 0, 2))
    assert not is_at_least("7.0.3", (8,))
    assert is_at_least("", (99,))


@pytest.mark.parametrize(
    ("only", "is_selected"),
    [
        ((), True),
        (("hvd-*",), True),
        (("vm:HVD-01",), True),
        (("other", "hvd-01"), True),
        (("host:esx-*",), True),
        (("host:other",), False),
        (("host:esx-01",), True),
        (("host:ESX-01.lab",), True),
        (("host:lab",), False),
        (("host:",), False),
        (("hvd",), False),
    ],
)
def test_only_selects_vms(only: tuple[str, ...], is_selected: bool) -> None:
    assert PlanOptions(only=only).selects("hvd-01", "esx-01.lab") is is_selected


def test_globs_ignore_case() -> None:
    assert matches_any("ESX-01.example", ["esx-*"])
    assert not matches_any("esx-01", [])
