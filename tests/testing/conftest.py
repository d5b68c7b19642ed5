"""What tests of users' tests share: the example's repository, and an estate that is full."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from vgpu_cfg.testing import LabEstate, PlanFile, RecordedVCenter

SITE = ROOT / "examples/site-repository"


@pytest.fixture(scope="module")
def site() -> RecordedVCenter:
    return RecordedVCenter(SITE / "vcenter.json.gz")


@pytest.fixture(scope="module")
def plan() -> PlanFile:
    return PlanFile(SITE / "plan.yaml", variable_files=[SITE / "site.yaml"])


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> LabEstate:
    """Give an estate that is small enough to be full soon."""
    return LabEstate("one-a100", tmp_path_factory.mktemp("lab"))


@pytest.fixture(scope="module")
def too_many(tmp_path_factory: pytest.TempPathFactory) -> PlanFile:
    """Ask for two profiles more than `full` has."""
    path: Path = tmp_path_factory.mktemp("plans") / "too-many.yaml"
    text = (SITE.parent / "four-10c.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("{01..04}", "{01..06}"), encoding="utf-8")
    return PlanFile(path)
