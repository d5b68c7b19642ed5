"""Every plant is told by its check, with a meaning; the page of plants says so."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.verification.plants import PLANTS, Plant
from tests.unit.verification.two_workers import make_scene
from vgpu_cfg.knowledge.verify_failures import failure_of
from vgpu_cfg.model.verification import CheckState, Verification

PAGE = Path(__file__).parents[3] / "docs" / "explanation" / "verify-plants.md"
BEGIN, END = "<!-- plants -->\n", "<!-- end -->\n"


def _ran(plant: Plant) -> Verification:
    scene = make_scene()
    plant.change(scene)
    return scene.run()


@pytest.mark.parametrize("plant", PLANTS, ids=lambda plant: plant.what)
def test_the_plant_is_told(plant: Plant) -> None:
    report = _ran(plant)
    assert not report.passes
    if plant.code:
        told = [one for one in report.failed if (one.check, one.code) == (plant.check, plant.code)]
        assert told, [(one.check, one.code, one.message) for one in report.failed]
        assert all(one.meaning and one.remedy for one in told)
    else:
        assert report.failed == ()
        assert plant.check in {one.check for one in report.unproven}
        assert all(one.why for one in report.unproven)


def test_the_healthy_twin_passes() -> None:
    report = make_scene().run()
    assert report.passes
    assert report.in_state(CheckState.NOT_ASKED) == ()


def test_the_page_lists_them() -> None:
    rows = []
    for plant in PLANTS:
        failure = failure_of(plant.code) if plant.code else None
        link = f"[{plant.code}](../reference/checks/{plant.code}.md)" if failure is not None else "not proven"
        rows.append(f"| {plant.what} | `{plant.check}` | {link} |\n")
    table = f"{BEGIN}| Fault | Check | Reported as |\n|---|---|---|\n{''.join(rows)}{END}"
    text = PAGE.read_text(encoding="utf-8")
    head, _, rest = text.partition(BEGIN)
    _, _, tail = rest.partition(END)
    if os.environ.get("REWRITE_PAGES") == "1":
        PAGE.write_text(f"{head}{table}{tail}", encoding="utf-8")
        text = PAGE.read_text(encoding="utf-8")
    assert table in text
