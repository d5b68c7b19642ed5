"""`verify --report` in a browser: laid out at every width, filtered, and with a matrix that tells both ways.

REWRITE_SCREENSHOTS=1 takes the pictures of the docs anew.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.cli.command_line import CommandLine
from tests.cli.test_verify import PLAN, SECRETS, broken, vm_of
from tests.cli.test_verify import applied as applied  # noqa: PLC0414  # a fixture, for these tests too
from tests.cli.test_verify import trained as trained  # noqa: PLC0414  # a fixture, for these tests too
from tests.pages.browser import Chromium
from tests.pages.judges import LOOKS, assert_accessible, assert_laid_out, assert_page
from tests.unit.verification.two_workers import make_scene
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.inventory import LabState
from vgpu_cfg.model.verification import CheckResult, CheckState, CheckSubject, Verification
from vgpu_cfg.render.data.verification import verification_data
from vgpu_cfg.render.page.verification import render_verification_page
from vgpu_cfg.render.views.verification import view_report
from vgpu_cfg.verification import past_run

pytestmark = pytest.mark.long("pages in a real Chromium: tests/pages")

PICTURES = ROOT / "docs" / "pictures"
ROWS = "document.querySelectorAll('#rows li').length"


@pytest.fixture
def report(trained: CommandLine) -> Path:
    """Write the page of a run that one pair failed, beside the baseline and the history of two good ones."""
    words = ("verify", PLAN, "--history", "runs.jsonl")
    trained.done(*words, "--save", "figures.json", **SECRETS)
    trained.done(*words, **SECRETS)

    def slower(state: LabState) -> None:
        guest_of(vm_of(state, "hvd-02")).faults["send"] = "80"

    broken(trained, slower)
    ran = trained(*words, "--baseline", "figures.json", "--report", "verified.html", **SECRETS)
    assert ran.code == 8
    return trained.folder / "verified.html"


def choose(page: Chromium, field: str, value: str) -> None:
    page.run(
        f"field = document.getElementById({field!r}); field.value = {json.dumps(value)}; "
        "field.dispatchEvent(new Event('input'))"
    )


def write(path: Path, found: Verification) -> Path:
    view = view_report(found, past_run(found), exit_code=0)
    path.write_text(render_verification_page(found, verification_data(found), view), encoding="utf-8")
    return path


def test_it_is_laid_out_at_every_width_in_both_looks_and_asks_nobody(
    browser: Chromium, report: Path, axe: str
) -> None:
    browser.errors.clear()
    browser.asked.clear()
    for width in (400, 1000, 1600):
        for is_dark in (False, True):
            browser.look(width, is_dark=is_dark)
            browser.open(report)
            assert_laid_out(browser)
            assert_accessible(browser, axe)
    assert browser.errors == []
    assert set(browser.asked) == {report.as_uri()}


@pytest.mark.parametrize(("width", "is_dark"), LOOKS)
def test_the_page_of_a_branch_is_laid_out_too(
    browser: Chromium, trained: CommandLine, axe: str, width: int, *, is_dark: bool
) -> None:
    trained.done("verify", PLAN, "--target-branch", "R595", "--report", "branch.html", **SECRETS)
    browser.look(width, is_dark=is_dark)
    assert_page(browser, trained.folder / "branch.html", axe)


def test_tiles_matrix_rows_and_codes_tell_the_run(browser: Chromium, report: Path) -> None:
    browser.look(1000, is_dark=False)
    browser.open(report)
    sums = browser.run("data = JSON.parse(document.getElementById('data').textContent); data.view.sums")
    values = browser.run("[...document.querySelectorAll('.tile .value')].map((one) => one.textContent)")
    assert values == [
        "8",
        *(str(sums[key]) for key in ("passed", "failed", "unproven", "left_out", "not_asked")),
    ]
    assert browser.run("document.querySelector('h1').textContent") == "horovod-a100: 1 check failed"
    cells = browser.run(
        "[...document.querySelector('.matrix tbody').rows].map("
        "(row) => [...row.cells].map((one) => one.innerText))"
    )
    assert [row[0] for row in cells] == ["hvd-01", "hvd-02"]
    assert "80.0" in cells[1][1]
    assert "VG676" in cells[1][1]
    total = browser.run(ROWS)
    assert total == browser.run("data.verify.results.length")
    choose(browser, "state", "failed")
    assert browser.run(ROWS) == 1
    browser.run("document.querySelector('#rows a').click()")
    assert browser.run("[location.hash, document.querySelector(':target').textContent.slice(0, 5)]") == [
        "#VG676",
        "VG676",
    ]
    choose(browser, "state", "left_out")
    assert browser.run("[...document.querySelectorAll('#rows .sign.good')].length") == 0
    # What rests on a failure is a state of its own in the list, and counted with it on top.
    assert browser.run(ROWS) == sums["left_out"] - browser.run("data.verify.counts.not_asked")
    choose(browser, "state", "")
    choose(browser, "search", "no such thing")
    assert browser.run(ROWS) == 0
    assert browser.run("document.getElementById('count').textContent").startswith("0 of ")


def test_names_that_are_html_are_shown_as_they_are(browser: Chromium, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)></script>\u202e\"'"
    subject = CheckSubject(kind="pair", name=f"{name} -> b", vms=(name, "b"))
    result = CheckResult(
        subject=subject,
        check="bandwidth",
        title=name,
        state=CheckState.FAILED,
        observed=name,
        code="VG676",
        measured={"gbps": 1.0, "line_rate_gbps": 100.0},
    )
    found = make_scene().run().model_copy(update={"plan": name, "results": (result,)})
    browser.errors.clear()
    browser.look(400, is_dark=False)
    browser.open(write(tmp_path / "bad.html", found))
    assert browser.run("[document.images.length, document.scripts.length]") == [0, 2]
    seen = name.replace("\u202e", "\\u{202e}")
    assert browser.run("document.querySelector('#rows b').textContent") == f"{seen} -> b"
    assert browser.run("document.querySelector('.matrix th[scope=row]').textContent") == seen
    assert browser.errors == []


def test_sixty_workers_scroll_in_their_own_region(browser: Chromium, tmp_path: Path, axe: str) -> None:
    names = [f"worker-{number:02d}" for number in range(60)]
    results = tuple(
        CheckResult(
            subject=CheckSubject(kind="pair", name=f"{one} -> {other}", vms=(one, other)),
            check="bandwidth",
            title="RDMA, host memory",
            state=CheckState.PASSED,
            observed="94.8 Gb/s",
            measured={"gbps": 94.8, "line_rate_gbps": 100.0},
        )
        for one in names
        for other in names
        if one != other
    )
    found = make_scene().run().model_copy(update={"results": results})
    browser.look(1000, is_dark=False)
    browser.open(write(tmp_path / "many.html", found))
    assert_laid_out(browser)
    assert_accessible(browser, axe)
    assert browser.run(ROWS) == 300
    browser.run("document.getElementById('more').click()")
    assert browser.run(ROWS) == len(results)


@pytest.mark.skipif(not os.environ.get("REWRITE_SCREENSHOTS"), reason="REWRITE_SCREENSHOTS=1 takes them")
@pytest.mark.parametrize("is_dark", [False, True])
def test_pictures_for_the_docs(browser: Chromium, report: Path, *, is_dark: bool) -> None:
    browser.look(1000, is_dark=is_dark, height=1010)
    browser.open(report)
    shot = browser.picture()
    assert len(shot) < 150_000
    (PICTURES / f"verify-{'dark' if is_dark else 'light'}.png").write_bytes(shot)
