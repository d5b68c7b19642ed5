"""Which guest drivers a host's takes, and which branch a package is of."""

from __future__ import annotations

import pytest

from tests.plans.estate import make_inventory
from tests.unit.planning.desired_plans import plan_for
from vgpu_cfg.planning.guests.drivers import (
    BRANCHES,
    branch_of,
    branch_of_package,
    guest_branches,
    host_branches,
    is_unproven,
)


@pytest.mark.parametrize(
    ("package", "branch"),
    [
        ("https://repo.example/nvidia-linux-grid-550_550.54.15_amd64.deb", "550"),
        ("nvidia-linux-grid-570.86.10-1.x86_64.rpm", "570"),
        ("/srv/NVIDIA-Linux-x86_64-535.161.07-grid.run", "535"),
        ("nvidia-driver-580-server", "580"),
        ("https://10.550.1.2/driver.deb", ""),
        ("driver.run", ""),
        ("", ""),
    ],
)
def test_a_packages_name_tells_its_branch(package: str, branch: str) -> None:
    assert branch_of_package(package) == branch


@pytest.mark.parametrize(
    ("host", "guests"),
    [
        ("595", ("595", "580", "570", "535")),
        ("580", ("580", "570", "535")),
        ("570", ("570", "550", "535")),
        ("550", ("550", "535")),
        ("535", ("535", "525", "470")),
        ("460", ("460",)),
    ],
)
def test_same_branch_the_one_before_and_the_last_long_term_one(host: str, guests: tuple[str, ...]) -> None:
    assert guest_branches(host) == guests
    # All others are refused: newer ones, and those that are older still.
    assert {one.number for one in BRANCHES}.difference(guests) != set()


@pytest.mark.parametrize(
    ("host", "unproven"),
    [("595", {"570", "535"}), ("580", set()), ("570", {"535"}), ("550", set()), ("535", set()), ("", set())],
)
def test_what_the_rule_does_not_name_is_unproven(host: str, unproven: set[str]) -> None:
    assert {one.number for one in BRANCHES if is_unproven(host, one.number)} == unproven


@pytest.mark.parametrize("host", ["610", "590", ""])
def test_of_a_branch_that_is_not_known_nothing_is_refused(host: str) -> None:
    assert guest_branches(host) == ()


def test_a_branch_that_is_not_known_is_unproven_but_for_itself() -> None:
    assert is_unproven("610", "595")
    assert not is_unproven("610", "610")
    assert not is_unproven("595", "610")


@pytest.mark.parametrize(
    ("version", "branch"),
    [("580.95.02-1OEM.800", "580"), ("550.*", "550"), ("*", ""), ("", ""), ("5801", "")],
)
def test_a_version_begins_with_its_branch(version: str, branch: str) -> None:
    assert branch_of(version) == branch


def test_the_driver_that_the_plan_file_asks_for_counts_before_the_one_that_is_there() -> None:
    observed = make_inventory(
        {
            "hosts": {
                "esx-01": {"facts": {"software": {"NVD-AIE-800": "550.54.16-1OEM.800"}}},
                "esx-02": {"facts": {"software": {"NVD-AIE-800": "550.54.16-1OEM.800"}}},
                "esx-03": {"driver": False},
            }
        }
    )
    entry = {"cluster": "gpu", "names": ("esx-01", "esx-03"), "driver": {"version": "580.*"}}
    assert host_branches(plan_for(hosts=(entry,)), observed) == {
        "host-esx-01": "580",
        "host-esx-02": "550",
        "host-esx-03": "580",
    }
