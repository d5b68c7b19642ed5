"""What must hold of the plan at this site, asked of the recorded vCenter, and of a lab."""

from __future__ import annotations

import pytest

from vgpu_cfg.testing import (
    LabEstate,
    PlanFile,
    RecordedVCenter,
    assert_fits,
    assert_in_sync,
    assert_no_disruption,
    assert_no_findings,
    assert_placed,
    assert_unchanged,
)

pytestmark = pytest.mark.vgpu_plan(variable_files=["site.yaml"])


def test_there_is_room(vgpu_plan: PlanFile, vgpu_recording: RecordedVCenter) -> None:
    assert_fits(vgpu_plan, vgpu_recording)
    assert_no_findings(vgpu_plan, vgpu_recording)


def test_nobody_is_disturbed(vgpu_plan: PlanFile, vgpu_recording: RecordedVCenter) -> None:
    assert_no_disruption(vgpu_plan, vgpu_recording)
    assert_unchanged(vgpu_plan, vgpu_recording, "vdi-*", "research-*", "esx-*")


def test_notebooks_stay_together(vgpu_plan: PlanFile, vgpu_recording: RecordedVCenter) -> None:
    assert_placed(vgpu_plan, vgpu_recording, "notebook-*", "esx-a100-02.lab")


@pytest.mark.vgpu_lab("mixed-fleet")
def test_it_can_be_carried_out(vgpu_plan: PlanFile, vgpu_lab: LabEstate) -> None:
    vgpu_lab.apply(vgpu_plan)
    assert_in_sync(vgpu_plan, vgpu_lab)


@pytest.mark.vgpu_plan("plan.yaml", variables={"network": "no-such-network"})
def test_a_network_that_is_not_there_is_refused(vgpu_plan: PlanFile, vgpu_recording: RecordedVCenter) -> None:
    with pytest.raises(AssertionError, match="no-such-network"):
        assert_fits(vgpu_plan, vgpu_recording)
