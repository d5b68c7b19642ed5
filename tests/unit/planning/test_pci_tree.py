from __future__ import annotations

import pytest

from tests.plans.estate import make_inventory
from vgpu_cfg.planning.capacity.pci_tree import PciTree

ONE_PORT, OTHER_PORT = "0000:20:01.0", "0000:20:02.0"
FAR_PORT = "0000:80:01.0"
UPSTREAM, FIRST, SECOND, NESTED = "0000:21:00.0", "0000:22:00.0", "0000:22:01.0", "0000:24:00.0"
BELOW_NESTED = "0000:25:00.0"


def tree(*, bridges: bool = True) -> PciTree:
    """A root port with a switch of two ports, behind one of which is another switch, and two ports more."""
    above = {
        ONE_PORT: None,
        OTHER_PORT: None,
        FAR_PORT: None,
        UPSTREAM: ONE_PORT,
        FIRST: UPSTREAM,
        SECOND: UPSTREAM,
        NESTED: SECOND,
        BELOW_NESTED: NESTED,
    }
    row = {
        "gpus": [
            {"board": "A100", "pci": "0000:23:00.0", "node": 0, "bridge": FIRST},
            {"board": "A100", "pci": "0000:26:00.0", "node": 0, "bridge": BELOW_NESTED},
            {"board": "A100", "pci": "0000:31:00.0", "node": 0, "bridge": OTHER_PORT},
            {"board": "A100", "pci": "0000:81:00.0", "node": 0, "bridge": FAR_PORT},
        ],
        "nics": [
            {"vmnic": "vmnic2", "pci": "0000:2a:00.0", "node": 0, "bridge": SECOND},
            {"vmnic": "vmnic3", "pci": "0000:2a:00.1", "node": 0, "bridge": SECOND},
        ],
        "bridges": above if bridges else {},
    }
    return PciTree(make_inventory({"hosts": {"esx-01": row}}).hosts[0])


@pytest.mark.parametrize(
    ("one", "other", "word"),
    [
        ("0000:2a:00.0", "0000:2a:00.1", "PIX"),
        ("0000:23:00.0", "0000:2a:00.0", "PIX"),
        ("0000:23:00.0", "0000:26:00.0", "PXB"),
        ("0000:23:00.0", "0000:31:00.0", "PHB"),
        ("0000:23:00.0", "0000:81:00.0", "NODE"),
    ],
)
def test_bridges_tell_how_far_two_functions_of_a_node_are_apart(one: str, other: str, word: str) -> None:
    found = tree()
    assert found.distance(one, other, (0, 0)) == found.distance(other, one, (0, 0)) == word


def test_another_node_is_far_and_an_unknown_one_tells_nothing() -> None:
    found = tree()
    assert found.distance("0000:23:00.0", "0000:81:00.0", (0, 1)) == "SYS"
    assert found.distance("0000:23:00.0", "0000:81:00.0", (0, None)) is None
    assert found.distance("0000:23:00.0", "0000:2a:00.0", (None, None)) == "PIX"


def test_root_ports_on_one_bus_are_one_root_complex() -> None:
    found = tree()
    assert found.root("0000:26:00.0") == "0000:20"
    assert found.is_one_root("0000:23:00.0", "0000:31:00.0") is True
    assert found.is_one_root("0000:23:00.0", "0000:81:00.0") is False


def test_of_bridges_that_are_not_listed_only_the_same_one_tells_something() -> None:
    found = tree(bridges=False)
    assert found.root("0000:23:00.0") is None
    assert found.is_one_root("0000:23:00.0", "0000:81:00.0") is None
    assert found.distance("0000:23:00.0", "0000:31:00.0", (0, 0)) == "NODE"


def test_bridges_in_a_ring_end() -> None:
    row = {
        "gpus": [{"board": "A100", "pci": "0000:23:00.0", "bridge": "0000:01:00.0"}],
        "bridges": {"0000:01:00.0": "0000:02:00.0", "0000:02:00.0": "0000:01:00.0"},
    }
    found = PciTree(make_inventory({"hosts": {"esx-01": row}}).hosts[0])
    assert found.chain("0000:23:00.0") == ("0000:01:00.0", "0000:02:00.0")
