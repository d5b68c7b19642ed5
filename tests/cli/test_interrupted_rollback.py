"""A rollback that is interrupted is finished by the same command; another command goes on from there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.command_line import CommandLine

PLAN = "plans/pair.yaml"
ESTATE = "two-a100"
APPLY = ("apply", "--yes", PLAN)
ALL_OR_NOTHING = (*APPLY, "--rollback-on-failure")
NO_START: dict[str, Any] = {"method": "PowerOnVM_Task", "nth": 0, "kind": "task", "message": "no"}
ONE_STAYS: dict[str, Any] = {"method": "Destroy_Task", "nth": 2, "kind": "task", "message": "no"}
FAILED = 6


@pytest.fixture
def interrupted(vgpu_cfg: CommandLine) -> CommandLine:
    """Leave a rollback that could not delete the second of two VMs; then nothing fails any more."""
    vgpu_cfg.script(ESTATE, NO_START, ONE_STAYS)
    assert vgpu_cfg(*ALL_OR_NOTHING).code == FAILED
    assert len(vgpu_cfg.look(ESTATE).vms) == 1
    vgpu_cfg.script(ESTATE)
    return vgpu_cfg


def kept(vgpu_cfg: CommandLine) -> list[str]:
    return [path.name for path in (vgpu_cfg.state_folder / "attempts").glob("*")]


def test_the_same_command_finishes_it_and_the_next_one_goes_forward(interrupted: CommandLine) -> None:
    ran = interrupted(*ALL_OR_NOTHING)
    assert ran.code == FAILED
    assert "finishing the interrupted rollback of an earlier run" in ran.told
    assert interrupted.look(ESTATE).vms == frozenset()
    assert kept(interrupted) == []
    interrupted.done(*ALL_OR_NOTHING)
    assert interrupted.look(ESTATE).vms == {"hvd-01", "hvd-02"}


def test_without_the_option_the_run_goes_forward_and_it_is_given_up(interrupted: CommandLine) -> None:
    interrupted.done(*APPLY)
    assert interrupted.look(ESTATE).vms == {"hvd-01", "hvd-02"}
    assert kept(interrupted) == []


def test_destroy_gives_it_up_too(interrupted: CommandLine) -> None:
    interrupted.done("destroy", "--yes", PLAN)
    assert kept(interrupted) == []


def test_a_file_of_another_version_is_no_attempt(interrupted: CommandLine) -> None:
    for path in (interrupted.state_folder / "attempts").glob("*"):
        path.write_text('{"format": 9}', encoding="utf-8")
    assert "cannot be rolled back" in interrupted.done(*ALL_OR_NOTHING).told
    assert interrupted.look(ESTATE).vms == {"hvd-01", "hvd-02"}


def test_a_run_that_ends_well_leaves_nothing(vgpu_cfg: CommandLine) -> None:
    vgpu_cfg.done(*ALL_OR_NOTHING)
    assert kept(vgpu_cfg) == []
