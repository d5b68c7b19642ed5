from __future__ import annotations

from collections.abc import Callable
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.parsers.printed import DISGUISES, printed
from vgpu_cfg.parsers.nvidia.topology import DISTANCES, distance, links_by_address, parse_topology
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput

BRIDGES = "topo-4xa100-two-bridges.txt"
NICS = "topo-2xh100-nics-tabs.txt"


@pytest.mark.parametrize("name", [BRIDGES, "topo-4xa100-bare-matrix.txt"])
def test_bridges_make_pairs_of_four_gpus(name: str) -> None:
    found = parse_topology(printed(name))
    assert found.peers(2) == found.peers(4) == ("GPU0", "GPU1")
    assert (found.nvlinks("GPU0", "GPU1"), found.nvlinks("GPU0", "GPU2")) == (12, 0)


@pytest.mark.parametrize(("count", "peers"), [(2, 2), (4, 4), (5, 4), (8, 4)])
def test_gpus_that_are_joined_over_others_are_no_peers(count: int, peers: int) -> None:
    found = parse_topology(printed("topo-8xv100-hybrid-cube-mesh.txt"))
    best = found.peers(count)
    assert len(best) == peers
    assert all(found.nvlinks(one, other) for one, other in combinations(best, 2))


@pytest.mark.parametrize(
    "rows",
    [
        {"GPU0": "X NV4 SYS", "GPU1": "NV4 X NV4", "GPU2": "SYS NV4 X"},
        {"GPU0": "X NV4 NV4", "GPU1": "NV4 X SYS", "GPU2": "NV4 SYS X"},
    ],
    ids=["a chain", "a star"],
)
def test_of_equal_groups_the_first_are_peers(rows: dict[str, str]) -> None:
    text = "\n".join(["GPU0 GPU1 GPU2", *(f"{gpu} {row}" for gpu, row in rows.items())])
    assert parse_topology(text).peers(3) == ("GPU0", "GPU1")


def test_of_many_gpus_that_are_all_joined_as_many_are_peers_as_are_asked_for() -> None:
    names = [f"GPU{number}" for number in range(64)]
    rows = [" ".join([name, *("X" if name == other else "NV18" for other in names)]) for name in names]
    assert parse_topology("\n".join([" ".join(names), *rows])).peers(16) == tuple(names[:16])


def test_affinity_columns_are_kept_as_printed_where_they_are() -> None:
    found = parse_topology(printed(BRIDGES))
    assert (found.cpus["GPU2"], found.numa["GPU2"]) == ("24-47", "1")
    assert parse_topology(printed("topo-4xa100-bare-matrix.txt")).numa == {}


def test_links_go_by_address_once_the_numbers_are_known() -> None:
    addresses = {f"GPU{number}": f"0000:0{number}:00.0" for number in range(4)}
    found = links_by_address(parse_topology(printed(BRIDGES)), addresses)
    assert found.links["0000:00:00.0"] == {
        "0000:01:00.0": "NV12",
        "0000:02:00.0": "SYS",
        "0000:03:00.0": "SYS",
    }
    assert found.numa_nodes["0000:02:00.0"] == 1
    assert not links_by_address(parse_topology(printed("topo-4xa100-bare-matrix.txt")), addresses).numa_nodes


def test_nics_have_no_address_in_the_matrix() -> None:
    found = links_by_address(parse_topology(printed(NICS)), {"GPU0": "0000:17:00.0", "GPU1": "0000:ca:00.0"})
    assert set(found.links["0000:17:00.0"]) == {"0000:ca:00.0"}


def test_a_gpu_without_an_address_is_an_error() -> None:
    with pytest.raises(UnreadableOutput, match="GPU1, GPU2, GPU3"):
        links_by_address(parse_topology(printed(BRIDGES)), {"GPU0": "0000:4a:00.0", "GPU1": ""})


def test_nics_stand_in_the_matrix_and_have_names() -> None:
    found = parse_topology(printed(NICS))
    assert found.devices == ("GPU0", "GPU1", "NIC0", "NIC1")
    assert found.gpus == ("GPU0", "GPU1")
    assert (found.rows["GPU0"]["NIC0"], found.rows["GPU0"]["NIC1"]) == ("PIX", "SYS")
    assert found.nics == {"NIC0": "mlx5_0", "NIC1": "mlx5_bond_0"}
    assert found.numa == {"GPU0": "0", "GPU1": "1"}
    assert found.cpus["GPU1"] == "56-111,168-223"


def test_old_drivers_name_nics_by_their_rdma_device() -> None:
    found = parse_topology(printed("topo-mlx-named-nics.txt"))
    assert found.rows["mlx5_0"]["GPU0"] == "PXB"
    assert found.peers(2) == ()


def test_distances_rank_from_near_to_far() -> None:
    ranks = [distance(link) for link in ("X", "NV4", "PIX", "PXB", "PHB", "NODE", "SYS")]
    assert ranks == list(range(len(DISTANCES)))
    with pytest.raises(ValueError, match="SOC"):
        distance("SOC")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (printed("topo-wrapped-by-a-terminal.txt"), "NODENODE"),
        ("        GPU0    GPU1\nGPU0     X      SYS\n", "no row for GPU1"),
        ("        GPU0\nGPU0     SYS\n", "no X on the diagonal"),
        ("        GPU0\nGPU0     X\nGPU0     X\n", "duplicate row"),
        ("        GPU0\nGPU1     X\n", "a row that is not in the header"),
        ("        GPU0    GPU0\nGPU0     X     X\n", "header"),
        ("        GPU0    Colour\nGPU0     X     red\n", "header"),
        ("        GPU0    GPU1\nGPU0     X\nGPU1    SYS    X\n", "1 links for 2 devices"),
        ("nothing of the kind", "no header"),
        ("", "printed nothing"),
    ],
)
def test_a_matrix_that_is_not_understood_is_an_error_with_the_line(text: str, said: str) -> None:
    with pytest.raises(UnreadableOutput, match=said):
        parse_topology(text)


def test_no_driver_is_no_matrix() -> None:
    with pytest.raises(ToolFailed):
        parse_topology(printed("query-driver-not-loaded.txt"))


@pytest.mark.parametrize("disguise", DISGUISES)
@pytest.mark.parametrize("name", [BRIDGES, NICS])
def test_no_disguise_changes_a_matrix(name: str, disguise: Callable[[str], str]) -> None:
    assert parse_topology(disguise(printed(name))) == parse_topology(printed(name))


LINKS = st.sampled_from(["SYS", "NODE", "PHB", "PXB", "PIX", "NV2", "NV12", "NV18"])


@given(st.integers(1, 9), st.integers(0, 4), st.booleans(), st.data())
def test_generated_matrices_give_back_their_links(
    gpus: int, nics: int, has_affinity: bool, data: st.DataObject
) -> None:
    names = [f"GPU{at}" for at in range(gpus)] + [f"NIC{at}" for at in range(nics)]
    cells = {name: {other: "X" if other == name else data.draw(LINKS) for other in names} for name in names}
    header = ["", *names, *(["CPU Affinity", "NUMA Affinity"] if has_affinity else [])]
    lines = ["\t".join(header)]
    for name in names:
        affinity = ["0-7", "1"] if has_affinity and name.startswith("GPU") else []
        lines.append("\t".join([name, *cells[name].values(), *affinity]))
    found = parse_topology("\n".join(lines))
    assert found.rows == cells
    assert found.numa == ({f"GPU{at}": "1" for at in range(gpus)} if has_affinity else {})
