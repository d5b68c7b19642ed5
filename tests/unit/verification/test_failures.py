"""Each code has a case that ends in it, and its page says what the tool says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.verification.cases import CASES, Case
from tests.unit.verification.two_workers import make_scene
from vgpu_cfg.knowledge.check_pages import read_page
from vgpu_cfg.knowledge.verify_failures import FAILURES, VerifyCode
from vgpu_cfg.model.verification import CheckState
from vgpu_cfg.render.layout.console import plain
from vgpu_cfg.render.text.verification import finding_lines

PAGES = Path(__file__).parents[3] / "docs" / "reference" / "checks"
WIDE = 110
IS_REWRITING = os.environ.get("REWRITE_PAGES") == "1"


def test_every_code_has_one_case() -> None:
    assert sorted(case.code for case in CASES) == sorted(VerifyCode)
    assert set(FAILURES) == set(VerifyCode)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code.value)
def test_the_case_ends_in_its_code(case: Case) -> None:
    result = case.result()
    assert (result.state, result.code) == (CheckState.FAILED, case.code.value), result.message
    assert result.meaning
    assert result.remedy
    assert result.observed


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code.value)
def test_the_page_says_what_the_tool_says(case: Case) -> None:
    page = read_page(case.code.value)
    assert page is not None
    (says,) = [section.text for section in page.sections if section.heading == "What it means"]
    shown = says.partition("```text\n")[2].partition("```")[0]
    printed = plain(finding_lines(case.result(), WIDE))
    if IS_REWRITING and shown.split() != printed.split():
        path = PAGES / f"{case.code.value}.md"
        told = "".join(f"{line.removeprefix('  ')}\n" for line in printed.splitlines())
        path.write_text(path.read_text(encoding="utf-8").replace(shown, told), encoding="utf-8")
        shown = told
    assert shown.split() == printed.split()


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.code.value)
def test_nothing_that_a_healthy_scene_does_not_have_fails_before_it(case: Case) -> None:
    scene = make_scene()
    case.change(scene)
    failed = [one for one in scene.run().results if one.state is CheckState.FAILED]
    followers = {VerifyCode.SLOW_GPU_MEMORY: {VerifyCode.ATS_OFF}}.get(case.code, set())
    assert {one.code for one in failed} - {case.code, *followers, *_SIDE_EFFECTS.get(case.code, ())} == set()


_SIDE_EFFECTS: dict[VerifyCode, tuple[VerifyCode, ...]] = {
    # A NIC with another MTU than the far one, and two GPUs of which the second is unlicensed.
    VerifyCode.NO_NVLINK: (
        VerifyCode.UNLICENSED,
        VerifyCode.LICENCE_ENDS,
        VerifyCode.NO_GPU_IN_CONTAINER,
        VerifyCode.WORKER_SHORT,
        VerifyCode.EXPORTER_SILENT,
    ),
    VerifyCode.NVLINK_LANES: (
        VerifyCode.UNLICENSED,
        VerifyCode.LICENCE_ENDS,
        VerifyCode.NO_GPU_IN_CONTAINER,
        VerifyCode.WORKER_SHORT,
        VerifyCode.EXPORTER_SILENT,
    ),
    # Metrics of one GPU, where two are given.
    VerifyCode.GPUS_MISSING: (VerifyCode.EXPORTER_SILENT,),
}
