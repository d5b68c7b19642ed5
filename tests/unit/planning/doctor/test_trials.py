"""The table of experiments: each belief once, in a step no weaker than the trial that its row names."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime

import pytest

from vgpu_cfg.contact import gpus, objects, readings, shells, vms
from vgpu_cfg.knowledge.beliefs import Trial, load_beliefs
from vgpu_cfg.planning.doctor.trials import (
    CLONED_VM,
    EXPERIMENTS,
    NEW_VM,
    Experiment,
    Left,
    Step,
    TrialMark,
    experiments_of,
    instance_uuid,
)

ORDER = list(Trial)
MARK = TrialMark("a1b2c3", datetime(2027, 1, 5, 8, 25, tzinfo=UTC))


@pytest.mark.parametrize("one", EXPERIMENTS, ids=lambda one: one.does)
def test_a_step_is_no_weaker_than_the_trials_of_its_beliefs(one: Experiment) -> None:
    step = ORDER.index(Trial(one.step.trial))
    known = load_beliefs()
    assert [belief for belief in one.beliefs if ORDER.index(known[belief].trial) > step] == []


def test_a_belief_is_in_one_experiment() -> None:
    counts = Counter(belief for one in EXPERIMENTS if one is not CLONED_VM for belief in one.beliefs)
    assert [belief for belief, count in counts.items() if count > 1] == []


def test_each_step_tries_enough_of_its_own() -> None:
    by_step = {
        step: {belief for one in EXPERIMENTS if one.step is step for belief in one.beliefs} for step in Step
    }
    assert {
        step: len(found) >= least
        for (step, found), least in zip(by_step.items(), (12, 1, 12, 8, 4, 12), strict=True)
    } == dict.fromkeys(Step, True)


def test_each_experiment_has_a_course() -> None:
    courses = objects.COURSES | vms.COURSES | gpus.COURSES | shells.COURSES | readings.COURSES
    assert courses.keys() == {one.does for one in EXPERIMENTS}


def test_a_step_with_vgpus_makes_the_vm_that_it_clones() -> None:
    assert NEW_VM in experiments_of([Step.GPU], {CLONED_VM})
    assert CLONED_VM not in experiments_of([Step.GPU], {CLONED_VM})


def test_the_name_of_an_object_holds_its_trial_and_expiry() -> None:
    name = MARK.name("copy")
    assert name == "vgpu-cfg-trial-a1b2c3-20270105T0825Z-copy"
    assert TrialMark.of(name) == MARK
    assert MARK.part(name) == "copy"
    assert instance_uuid(name) != instance_uuid(MARK.name("source"))


@pytest.mark.parametrize(
    "name",
    ["vgpu-cfg lock: plan demo", "vgpu-cfg-trial-a1b2c3", "vgpu-cfg-trial-a1b2c3-20271305T0825Z-copy",
     "my vgpu-cfg-trial-a1b2c3-20270105T0825Z-copy", "vgpu-cfg-trial-A1B2C3-20270105T0825Z-copy"],
)  # fmt: skip
def test_another_name_belongs_to_no_trial(name: str) -> None:
    assert TrialMark.of(name) is None


def test_an_object_is_due_once_it_has_expired_and_is_proven() -> None:
    left = Left("VM", "vm-1", MARK.name("copy"), MARK)
    early, late = datetime(2027, 1, 5, 8, 24, tzinfo=UTC), datetime(2027, 1, 5, 8, 25, tzinfo=UTC)
    assert (left.is_due(early), left.is_due(late)) == (False, True)
    assert not Left("VM", "vm-1", MARK.name("copy"), MARK, is_proven=False).is_due(late)
