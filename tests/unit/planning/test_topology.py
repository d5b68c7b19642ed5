from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.planning.capacity.topology import (
    Domain,
    GroupWithoutLink,
    LinkAcrossBoards,
    NodeDisagrees,
    Source,
    Topologies,
    Topology,
    peer_sets,
)

A, B, C, D = "0000:4a:00.0", "0000:61:00.0", "0000:ca:00.0", "0000:e1:00.0"
PAIRS = "Nvidia:2@grid_a100-40c%NVLink"


def gpu(pci: str, node: Any = 0, board: str = "A100", **more: Any) -> dict[str, Any]:
    return {"board": board, "pci": pci, "node": node, **more}


FOUR = [gpu(A), gpu(B), gpu(C, 1), gpu(D, 1)]


def matrix(*pairs: tuple[str, str], among: tuple[str, ...] = (A, B, C, D)) -> dict[str, dict[str, str]]:
    """What `topo -m` tells where these pairs are bridged."""
    joined = {frozenset(pair) for pair in pairs}
    return {
        one: {
            other: "NV12" if frozenset((one, other)) in joined else "SYS" for other in among if other != one
        }
        for one in among
    }


def topology(**row: Any) -> Topology:
    observed = make_inventory({"hosts": {"esx-01": row}})
    return Topologies(observed, load_catalog()).of(observed.hosts[0])


def bridge(*gpus: str, source: Source) -> Domain:
    return Domain(frozenset(gpus), "bridge", source)


def test_the_shell_tells_which_gpus_a_bridge_joins() -> None:
    found = topology(gpus=FOUR, facts={"links": matrix((A, C), (B, D))})
    assert found.domains == (bridge(A, C, source=Source.SHELL), bridge(B, D, source=Source.SHELL))
    assert all(domain.is_certain for domain in found.domains)


def test_gpus_joined_over_others_are_one_domain() -> None:
    found = topology(gpus=FOUR, facts={"links": matrix((A, B), (B, C))})
    assert found.domains == (bridge(A, B, C, source=Source.SHELL),)
    assert found.domain(D) is None


def test_gpus_joined_over_others_are_no_peers_of_each_other() -> None:
    found = topology(
        gpus=FOUR,
        groups=[PAIRS, "Nvidia:4@grid_a100-40c%NVLink"],
        facts={"links": matrix((A, B), (B, C), (C, D), (D, A))},
    )
    assert set(peer_sets(found)) == {frozenset(pair) for pair in ((0, 1), (1, 2), (2, 3), (0, 3))}
    assert GroupWithoutLink("Nvidia:4@grid_a100-40c%NVLink", 4, 2) in found.disagreements


HGX = [f"0000:{bus}0:00.0" for bus in range(1, 9)]
GROUPS_OF_EIGHT = [f"Nvidia:{size}@nvidia_h100xm-80c%NVLink" for size in (2, 4, 8)]


def hgx(modules: tuple[int | None, ...]) -> Topology:
    gpus = [
        gpu(address, 0, "H100XM", **({"module": module} if module else {}))
        for address, module in zip(HGX, modules, strict=True)
    ]
    return topology(gpus=gpus, groups=GROUPS_OF_EIGHT)


@pytest.mark.parametrize(
    "modules", [(2, 4, 1, 3, 6, 8, 5, 7), (5, 6, 7, 8, 1, 2, 3, 4), (8, 7, 6, 5, 4, 3, 2, 1)]
)
def test_told_modules_make_the_partitions_whatever_the_addresses(modules: tuple[int, ...]) -> None:
    found = peer_sets(hgx(modules), with_guesses=False)
    told = {frozenset(modules[index] for index in members) for members in found}
    partitions = [(1, 3), (2, 4), (5, 7), (6, 8), (1, 2, 3, 4), (5, 6, 7, 8), tuple(range(1, 9))]
    assert told == {frozenset(one) for one in partitions}


def test_modules_that_nobody_tells_are_guessed_and_any_gpus_could_be_a_partition() -> None:
    unknown: tuple[int | None, ...] = (None,) * 8
    assert len(peer_sets(hgx(unknown))) == 7
    assert frozenset((0, 4)) not in peer_sets(hgx(unknown))
    assert len(peer_sets(hgx(unknown), with_guesses=False)) == 28 + 70 + 1
    one_unknown = (None, 4, 1, 3, 6, 8, 5, 7)
    assert len(peer_sets(hgx(one_unknown), with_guesses=False)) == 7


def test_device_groups_only_suggest_pairs_of_a_node_in_the_order_of_addresses() -> None:
    found = topology(gpus=[*reversed(FOUR)], groups=[PAIRS])
    assert found.domains == (bridge(A, B, source=Source.GUESS), bridge(C, D, source=Source.GUESS))
    assert not any(domain.is_certain for domain in found.domains)


def test_without_a_group_and_a_shell_nothing_is_joined() -> None:
    assert topology(gpus=FOUR).domains == ()


def test_a_group_of_another_board_or_of_a_fraction_suggests_nothing() -> None:
    groups = ["Nvidia:2@nvidia_h100-80c%NVLink", "Nvidia:2@grid_a100-20c%NVLink", "Nvidia:2@strange%NVLink"]
    assert topology(gpus=FOUR, groups=groups).domains == ()


def test_a_gpu_left_over_is_joined_to_none() -> None:
    found = topology(gpus=[gpu(A), gpu(B), gpu(C)], groups=[PAIRS])
    assert found.domains == (bridge(A, B, source=Source.GUESS),)


def test_the_largest_group_tells_how_many_a_bridge_joins() -> None:
    four = [gpu(address, board="H200") for address in (A, B, C, D)]
    sizes = ["Nvidia:2@nvidia_h200-141c%NVLink", "Nvidia:4@nvidia_h200-141c%NVLink"]
    assert topology(gpus=four, groups=sizes).domains == (bridge(A, B, C, D, source=Source.GUESS),)


def test_a_bridge_for_more_gpus_than_a_node_has_goes_over_the_nodes() -> None:
    four = [gpu(address, int(address > B), "H200") for address in (A, B, C, D)]
    found = topology(gpus=four, groups=["Nvidia:4@nvidia_h200-141c%NVLink"])
    assert found.domains == (bridge(A, B, C, D, source=Source.GUESS),)


def test_an_nvswitch_joins_all_gpus_of_its_board() -> None:
    eight = [gpu(f"0000:{bus}0:00.0", int(bus) // 5, "H100XM") for bus in range(1, 9)]
    (found,) = topology(gpus=eight).domains
    assert (found.kind, len(found.gpus), found.source, found.is_certain) == (
        "nvswitch",
        8,
        Source.BOARD,
        True,
    )


def test_a_gpu_that_the_shell_does_not_see_is_judged_by_what_vcenter_tells() -> None:
    passed = [gpu(A), gpu(B), gpu(C, 1, passthrough=True), gpu(D, 1, passthrough=True)]
    found = topology(gpus=passed, groups=[PAIRS], facts={"links": matrix((A, B), among=(A, B))})
    assert found.domains == (bridge(A, B, source=Source.SHELL), bridge(C, D, source=Source.GUESS))


@pytest.mark.parametrize(("module", "half"), [(1, 0), (4, 0), (5, 1), (8, 1)])
def test_modules_tell_the_half_of_an_hgx_board(module: int, half: int) -> None:
    found = topology(gpus=[gpu(A, board="H100XM", module=module)])
    assert (found.module(A), found.half(A)) == (module, half)


def test_modules_of_other_boards_and_those_not_told_are_in_no_half() -> None:
    assert topology(gpus=[gpu(A, module=1)]).half(A) is None
    assert topology(gpus=[gpu(A, board="H100XM")]).half(A) is None


def test_a_distance_is_told_by_the_shell_else_derived() -> None:
    told = topology(gpus=FOUR, facts={"links": matrix((A, B))})
    one, far, derived = told.distance(A, B), told.distance(A, C), topology(gpus=FOUR).distance(A, B)
    assert one is not None
    assert (one.word, one.source) == ("NV12", Source.SHELL)
    assert far is not None
    assert far.word == "SYS"
    assert derived is not None
    assert (derived.word, derived.source) == ("NODE", Source.BRIDGES)
    assert one.rank < derived.rank < far.rank


def test_a_guessed_peer_is_nvlink_of_an_unknown_number() -> None:
    link = topology(gpus=FOUR, groups=[PAIRS]).distance(A, B)
    assert link is not None
    assert (link.word, link.source) == ("NV", Source.GUESS)


def test_nobody_tells_how_far_gpus_of_unknown_nodes_are() -> None:
    assert topology(gpus=[gpu(A, "unknown"), gpu(B, "unknown")]).distance(A, B) is None


def nic(pci: str, name: str, node: int = 0, **more: Any) -> dict[str, Any]:
    return {"vmnic": name, "pci": pci, "node": node, **more}


def test_the_nearest_nics_are_those_behind_the_gpus_switch() -> None:
    nics = [
        nic("0000:24:00.0", "vmnic4", bridge="0000:22:01.0"),
        nic("0000:25:00.0", "vmnic5"),
        nic("0000:26:00.0", "vmnic6", 1),
    ]
    bridges = {"0000:21:00.0": None, "0000:22:00.0": "0000:21:00.0", "0000:22:01.0": "0000:21:00.0"}
    found = topology(gpus=[gpu(A, bridge="0000:22:00.0"), gpu(C, 1)], nics=nics, bridges=bridges)
    assert [(near.device, near.link.word) for near in found.nics_near(A)] == [("vmnic4", "PIX")]
    assert [(near.device, near.link.word) for near in found.nics_near(C)] == [("vmnic6", "NODE")]


def test_a_nic_that_is_passed_through_is_near_and_has_no_vmnic() -> None:
    found = topology(gpus=[gpu(A)], nics=[nic("0000:24:00.0", "vmnic4", passthrough=True)])
    assert [(near.pci_id, near.device) for near in found.nics_near(A)] == [("0000:24:00.0", "")]


def test_other_nics_count_only_where_there_is_no_rdma_nic() -> None:
    plain = nic("0000:01:00.0", "vmnic0", device_id=0x1521)
    rdma = nic("0000:24:00.0", "vmnic4")
    assert [near.device for near in topology(gpus=[gpu(A)], nics=[plain, rdma]).nics_near(A)] == ["vmnic4"]
    assert [near.device for near in topology(gpus=[gpu(A)], nics=[plain]).nics_near(A)] == ["vmnic0"]


def test_no_nic_of_another_node_is_near() -> None:
    assert topology(gpus=[gpu(A)], nics=[nic("0000:24:00.0", "vmnic4", 1)]).nics_near(A) == ()


@pytest.mark.parametrize(("told", "expected"), [(1, (NodeDisagrees(A, 0, 1),)), (0, ())])
def test_a_node_that_is_told_twice(told: int, expected: tuple[object, ...]) -> None:
    found = topology(gpus=FOUR, facts={"links": matrix(), "nodes": {A: told}})
    assert found.disagreements == expected
    assert found.numa_node(A) == 0


def test_a_node_that_only_the_shell_tells_is_believed() -> None:
    found = topology(gpus=[gpu(A, "unknown")], facts={"links": {A: {}}, "nodes": {A: 1}})
    assert (found.numa_node(A), found.disagreements) == (1, ())


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [((), (GroupWithoutLink(PAIRS, 2, 0),)), (((A, B),), ())],
)
def test_a_group_that_is_offered_wants_nvlink(
    pairs: tuple[tuple[str, str], ...], expected: tuple[object, ...]
) -> None:
    assert topology(gpus=FOUR, groups=[PAIRS], facts={"links": matrix(*pairs)}).disagreements == expected


def test_a_group_says_nothing_where_the_shell_sees_too_few_gpus() -> None:
    found = topology(gpus=FOUR, groups=[PAIRS], facts={"links": matrix(among=(A,))})
    assert found.disagreements == ()


def test_nvlink_between_different_boards_is_told() -> None:
    mixed = [gpu(A), gpu(B, board="A100D")]
    found = topology(gpus=mixed, facts={"links": matrix((A, B), among=(A, B))})
    assert found.disagreements == (LinkAcrossBoards((A, B), ("A100 PCIe 40GB", "A100 PCIe 80GB")),)


def test_partitions_hold_where_a_gpu_of_the_board_is_passed_through() -> None:
    """The matrix does not tell of that GPU: the others keep their modules, and its partitions are gone."""
    addresses = [f"0000:{bus}0:00.0" for bus in range(1, 9)]
    board = [gpu(one, int(one[5]) // 5, "H100XM") for one in addresses]
    links = {one: {other: "NV18" for other in addresses[1:] if other != one} for one in addresses[1:]}
    groups = [f"Nvidia:{size}@nvidia_h100xm-80c%NVLink" for size in (2, 4, 8)]
    whole = peer_sets(topology(gpus=board, groups=groups))
    left = peer_sets(topology(gpus=board, groups=groups, facts={"links": links}))
    assert [len(one) for one in whole] == [8, 4, 4, 2, 2, 2, 2]
    assert left == tuple(one for one in whole if 0 not in one)
