"""Which guest drivers a host's takes, and which branch a package is of."""

from __future__ import annotations

import pytest

from tests.plans.estate import make_inventory
from tests.unit.planning.desired_plans import plan_for
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.catalog.version_pairs import load_driver_branches
from vgpu_cfg.model.guests.modules import branch_of_package, kind_of_package
from vgpu_cfg.planning.guests.drivers import (
    guest_branches,
    host_branches,
    is_unknown,
    is_unproven,
    refused_branches,
)
from vgpu_cfg.planning.host_settings.gpus.driver import branch_of

KNOWN = {one.number for one in load_driver_branches().branches}


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
    ("package", "kind"),
    [
        ("/srv/NVIDIA-Linux-x86_64-535.161.07-grid.run", "guest"),
        ("https://repo.example/nvidia-linux-grid-550_550.54.15_amd64.deb", "guest"),
        ("NVIDIA-Linux-x86_64-580.65.05-vgpu-kvm.run", "host"),
        ("nvidia-vgpu-ubuntu-580_580.65.05_amd64.deb", "host"),
        ("https://repo.example/NVIDIA-Linux-x86_64-570.86.15.run", "data center"),
        ("NVIDIA-Linux-aarch64-580.95.05-no-compat32.run", "data center"),
        ("nvidia-driver-local-repo-ubuntu2204-570.86.15_1.0-1_amd64.deb", "data center"),
        ("https://repo.example/grid/driver-570.run", ""),
    ],
)
def test_a_packages_name_tells_its_kind(package: str, kind: str) -> None:
    assert kind_of_package(package) == kind


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
    assert set(refused_branches(host)) == KNOWN.difference(guests)


@pytest.mark.parametrize(
    ("host", "unproven"),
    [("595", {"570", "535"}), ("580", set()), ("570", {"535"}), ("550", set()), ("535", set()), ("", set())],
)
def test_what_the_rule_does_not_name_is_unproven(host: str, unproven: set[str]) -> None:
    assert {
        one.number for one in load_driver_branches().branches if is_unproven(host, one.number)
    } == unproven


@pytest.mark.parametrize("host", ["610", "590", ""])
def test_of_a_branch_that_is_not_known_nothing_is_refused(host: str) -> None:
    assert guest_branches(host) == ()
    assert refused_branches(host) == ()


def test_a_guests_branch_that_no_document_names_is_refused_nowhere() -> None:
    for number in ("610", "590", "575"):
        assert is_unknown(number)
        assert all(number not in refused_branches(host) for host in KNOWN)
    assert not is_unknown("580")


def test_every_branch_says_what_it_rests_on() -> None:
    known = load_driver_branches()
    for one in known.branches:
        assert one.sources.get("release"), one.number
        assert not one.long_term or one.sources.get("long_term"), one.number
        assert not one.rule.read or one.rule.source, one.number
    assert [one.release for one in known.branches] == sorted(one.release for one in known.branches)
    assert [one.number for one in known.branches] == sorted(KNOWN)


@pytest.mark.parametrize(
    ("key", "name", "release"),
    [
        ("V100X", "Tesla V100-SXM2-16GB", 19),
        ("RTX8000P", "Quadro RTX 8000", 19),
        ("T4", "Tesla T4", None),
        ("L40S", "L40S", None),
        (None, "NVIDIATesla P40", 16),
        (None, "Tesla M10", 16),
        (None, "NVIDIA P4000", None),
    ],
)
def test_where_the_support_of_a_board_ends(key: str | None, name: str, release: int | None) -> None:
    board = load_catalog().boards[key] if key is not None else None
    end = load_driver_branches().end_of(board, name)
    assert (end.release if end is not None else None) == release


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
