"""Tests for users' own repositories: assert the effect of a plan file on a recorded vCenter or a lab.

Nothing heavy is loaded until a plan file or a vCenter is named, and nothing is ever sent over a network.
"""

from __future__ import annotations

from vgpu_cfg.testing.assertions import (
    assert_changes,
    assert_finding,
    assert_fits,
    assert_in_sync,
    assert_no_disruption,
    assert_no_findings,
    assert_placed,
    assert_unchanged,
    plan_json,
)
from vgpu_cfg.testing.subjects import LabEstate, PlanFile, RecordedVCenter, Site

__all__ = [
    "LabEstate",
    "PlanFile",
    "RecordedVCenter",
    "Site",
    "assert_changes",
    "assert_finding",
    "assert_fits",
    "assert_in_sync",
    "assert_no_disruption",
    "assert_no_findings",
    "assert_placed",
    "assert_unchanged",
    "plan_json",
]
