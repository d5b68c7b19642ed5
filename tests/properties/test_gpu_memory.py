"""VMs that ask for GPU memory, against a search through every profile that serves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.properties.estates import Wanted, estates, is_feasible, open_estate
from tests.properties.moving import StandingClock
from tests.properties.test_placement_on_the_lab import (
    CATALOG,
    MAY_STRAND,
    NO_PLACE,
    SLOW,
    desired_plan,
    planned,
)
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session

SIZES = (9, 10, 12, 20, 40)
KINDS = ("mig", "mixed", "same")


def choices(estate: dict[str, Any], gib: int, count: int) -> tuple[tuple[str, ...], ...]:
    """List the ways to have so many vGPUs of one profile with so much memory, the smallest first."""
    boards = {gpu["board"] for host in estate["clusters"][0]["hosts"] for gpu in host["gpus"]}
    profiles = [entry.profile for board in boards for entry in CATALOG.board(board).profiles]
    fitting = [one for one in profiles if one.framebuffer_gb >= gib and not one.suffix]
    return tuple(
        (one.name,) * count for one in sorted(fitting, key=lambda one: (one.framebuffer_gb, one.name))
    )


@st.composite
def cases(draw: st.DrawFn, *, most_lines: int = 2) -> tuple[dict[str, Any], tuple[Wanted, ...]]:
    """Make a small estate, and a few lines that ask for memory."""
    estate = draw(estates(most_hosts=2, most_gpus=2, kinds=KINDS))
    wanted = []
    for _ in range(draw(st.integers(1, most_lines))):
        gib, count = draw(st.sampled_from(SIZES)), draw(st.sampled_from([1, 1, 1, 2]))
        ways = choices(estate, gib, count)
        if ways:
            wanted.append(Wanted((), draw(st.integers(1, 4)), memory_gib=8, gpu_gib=gib, choices=ways))
    return estate, tuple(wanted)


def planned_profiles(
    lab: Lab, wanted: tuple[Wanted, ...], folder: Path
) -> tuple[set[str], list[tuple[str, ...]]]:
    """Plan on a lab; return the errors, and the profiles of each VM that is made."""
    desired = desired_plan(wanted, folder)
    with Session(lab, "lab", LAB_USER, LAB_PASSWORD) as session:
        plan = planned(lab, desired, VCenterReader(session, StandingClock()))
    made = [
        tuple(device.profile for device in change.spec.devices if device.kind == "new_vgpu")
        for change in plan.changes
        if change.kind == "create_vm"
    ]
    return {found.code for found in plan.errors}, made


@SLOW
@given(cases())
def test_a_place_is_found_exactly_where_a_profile_that_serves_has_one(
    tmp_path: Path, case: tuple[dict[str, Any], tuple[Wanted, ...]]
) -> None:
    estate, wanted = case
    lab = open_estate(estate)
    codes, made = planned_profiles(lab, wanted, tmp_path)
    assert codes <= {*NO_PLACE, MAY_STRAND}
    assert (not codes - {MAY_STRAND}) == is_feasible(lab, wanted)
    ways = {way for line in wanted for way in line.choices}
    assert set(made) <= ways


@SLOW
@given(cases(most_lines=1))
def test_a_line_gets_the_smallest_profile_that_all_of_its_vms_can_have(
    tmp_path: Path, case: tuple[dict[str, Any], tuple[Wanted, ...]]
) -> None:
    estate, wanted = case
    lab = open_estate(estate)
    for line in wanted:
        alike = [way for way in line.choices if is_feasible(lab, [replace(line, choices=(way,))])]
        codes, made = planned_profiles(lab, wanted, tmp_path)
        if alike and not codes:
            assert len(set(made)) == 1
            assert _gib(made[0]) == _gib(alike[0])


def _gib(way: tuple[str, ...]) -> int:
    return CATALOG.by_profile(way[0])[0].profile.framebuffer_gb
