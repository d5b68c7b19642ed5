from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.fakes.fake_vcenter import START
from vgpu_cfg.errors import Locked
from vgpu_cfg.execution import hold_lock, read_lock_holder
from vgpu_cfg.model.plan.change import PlanTarget

PROD = PlanTarget(address="vc01.example.com", instance_uuid="1234")


def test_a_second_run_of_the_same_plan_is_told_who_runs(tmp_path: Path) -> None:
    with hold_lock(tmp_path, "demo", PROD, now=START) as holder:
        with pytest.raises(Locked) as raised, hold_lock(tmp_path, "demo", PROD, now=START):
            pass
        assert f"process {os.getpid()}, since 2026-03-02 21:04:11 UTC" in raised.value.message
        assert raised.value.exit_code == 6
        assert read_lock_holder(tmp_path, "demo", PROD) == holder


def test_the_lock_is_free_again_after_the_run(tmp_path: Path) -> None:
    with hold_lock(tmp_path, "demo", PROD, now=START):
        pass
    assert read_lock_holder(tmp_path, "demo", PROD) is None
    with hold_lock(tmp_path, "demo", PROD, now=START):
        pass


def test_a_run_that_failed_lets_go_of_the_lock(tmp_path: Path) -> None:
    with pytest.raises(ZeroDivisionError), hold_lock(tmp_path, "demo", PROD, now=START):
        raise ZeroDivisionError
    with hold_lock(tmp_path, "demo", PROD, now=START):
        pass


def test_other_plans_and_other_vcenters_are_free(tmp_path: Path) -> None:
    other = PROD.model_copy(update={"instance_uuid": "5678"})
    with (
        hold_lock(tmp_path, "demo", PROD, now=START),
        hold_lock(tmp_path, "demo", other, now=START),
        hold_lock(tmp_path, "another", PROD, now=START),
    ):
        pass


def test_one_vcenter_under_two_names_is_one(tmp_path: Path) -> None:
    by_address = PlanTarget(address="10.0.0.5", instance_uuid="1234")
    with (
        hold_lock(tmp_path, "demo", PROD, now=START),
        pytest.raises(Locked),
        hold_lock(tmp_path, "demo", by_address, now=START),
    ):
        pass
