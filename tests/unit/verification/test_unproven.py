"""What could not be proven: told apart from what was skipped, in every face, and no pass in any."""

from __future__ import annotations

from junitparser import Error, JUnitXml, Skipped

from tests.unit.parsers.printed import printed
from tests.unit.verification.plants import PLANTS
from tests.unit.verification.two_workers import make_scene
from vgpu_cfg.model.verification import CheckState, Verification
from vgpu_cfg.render.data.verification import verification_data
from vgpu_cfg.render.junit import render_junit, verification_cases
from vgpu_cfg.render.layout.console import plain
from vgpu_cfg.render.page.verification import render_verification_page
from vgpu_cfg.render.text.verification import render_verification
from vgpu_cfg.render.views.verification import view_report
from vgpu_cfg.verification import Choice, past_run

WIDE = 100


def _ran(what: str) -> Verification:
    plant = next(one for one in PLANTS if one.what == what)
    scene = make_scene()
    plant.change(scene)
    return scene.run()


def test_each_face_counts_it_apart() -> None:
    found = _ran("the kernel's log is not readable")
    assert not found.passes
    text = plain(render_verification(found, WIDE))
    assert "nothing failed, 1 not proven" in text
    assert "NOT PROVEN  1" in text
    assert "hvd-01: kernel log: cannot read the kernel log" in text
    assert "TOTAL  1 not proven, " in text
    data = verification_data(found)
    view = view_report(found, past_run(found), exit_code=9)
    page = render_verification_page(found, data, view)
    assert view.sums.unproven == 1
    assert "plan: nothing failed, 1 not proven</h1>" in page.replace(found.plan, "plan")
    assert (data["passes"], data["counts"]["unproven"], data["counts"]["failed"]) == (False, 1, 0)


def test_junit_has_an_error_for_it_and_no_skip() -> None:
    found = _ran("the kernel's log is not readable")
    (suite,) = JUnitXml.fromstring(render_junit("verify", verification_cases(found)).encode())
    assert (suite.errors, suite.failures) == (1, 0)
    (case,) = [case for case in suite if any(isinstance(one, Error) for one in case.result)]
    assert case.name == "hvd-01: kernel log"
    skips = [case for case in suite if any(isinstance(one, Skipped) for one in case.result)]
    assert len(skips) == len(found.in_state(CheckState.SKIPPED))


def test_what_the_plan_asks_for_and_was_skipped_is_no_pass_on_the_page() -> None:
    scene = make_scene()
    whole = scene.run()
    asked = [one for one in whole.in_state(CheckState.SKIPPED) if one.is_asked]
    view = view_report(whole, past_run(whole), exit_code=0)
    assert view.sums.left_out == len(asked) > 0
    assert view.sums.not_asked == len(whole.in_state(CheckState.SKIPPED)) - len(asked) > 0
    assert "readable only from the host's shell" in " ".join(one.why for one in asked)
    assert not [one for one in asked if "the plan" in one.why]
    assert '<div class="tile good"><p class="value">0</p><p class="what">exit code' in (
        render_verification_page(whole, verification_data(whole), view)
    )
    only = scene.run(Choice(only=("driver",)))
    alone = view_report(only, past_run(only), exit_code=0)
    assert alone.sums.left_out == 0
    assert '<div class="tile good"><p class="value">0</p><p class="what">exit code' in (
        render_verification_page(only, verification_data(only), alone)
    )


def test_failures_are_named_before_it() -> None:
    plant = next(one for one in PLANTS if one.what == "the kernel's log is not readable")
    other = next(one for one in PLANTS if one.what == "a full disk")
    scene = make_scene()
    plant.change(scene)
    other.change(scene)
    assert "1 check failed, 1 not proven" in plain(render_verification(scene.run(), WIDE))


def test_what_another_check_proves_is_skipped_and_says_by_which() -> None:
    scene = make_scene()
    cuda = " Parser function exited with Error\n Unsupported memory type\n"
    host = printed("ib-write-bw-by-time.txt")
    for name in ("hvd-01", "hvd-02"):
        scene.answer("timeout", by=lambda words: cuda if "--use_cuda=0" in words else host, of=name)
    found = scene.run()
    assert found.passes
    skipped = [one for one in found.results if one.check == "bandwidth-gpu"]
    assert {one.state for one in skipped} == {CheckState.SKIPPED}
    assert all(one.why.endswith("verified by allreduce") for one in skipped)
