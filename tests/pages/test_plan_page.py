"""`plan --html` in a browser: laid out at every width, turned by keyboard, marked; names that stay text.

REWRITE_SCREENSHOTS=1 takes the pictures of the docs anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.cli.command_line import CommandLine
from tests.pages.browser import Chromium
from tests.pages.judges import LOOKS, assert_page
from tests.plans.planned import inventory_of, plan_of
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.render.data.documents import plan_data
from vgpu_cfg.render.page.plan import render_plan_page
from vgpu_cfg.render.views.pictures.plan_picture import view_plan_picture

LONG = pytest.mark.long("pages in a real Chromium: tests/pages")
HOSTILE = "</script><img src=x onerror=alert(1)>\"'&amp;\u202e`%2f/="
PICTURES = ROOT / "docs" / "pictures"
SERVERS = """\
about: Three servers, of which one is full.
vcenter: {settings: {vgpu.hotmigrate.enabled: true}}
clusters:
- name: gpu
  hosts:
  - {name: one.lab, memory: 512GiB, gpus: [{board: A100, count: 2}]}
  - {name: two.lab, memory: 512GiB, gpus: [{board: A100, count: 2}]}
  - {name: three.lab, memory: 512GiB, gpus: [{board: A100, count: 2}]}
folders: [training]
templates: [{name: ubuntu-22.04-efi}]
"""
HEAD = """\
version: 1
name: training
id: 6b1d7c20-8e4f-4a15-b3d9-27f0c5a91e07
vcenter: lab:servers.yaml
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 8, memory: 32GiB}
vms:
"""
THEN = """\
- {name: head, gpus: grid_a100-10c, place: {hosts: [one.lab]}}
- {name: "small-{01..02}", gpus: grid_a100-10c, place: {hosts: [one.lab]}}
- {name: old, gpus: grid_a100-20c, place: {hosts: [two.lab]}}
"""
NOW = """\
- {name: head, cpus: 16, gpus: grid_a100-10c, place: {hosts: [one.lab]}}
- {name: "small-{01..02}", gpus: grid_a100-10c, place: {hosts: [two.lab]}}
- {name: "worker-{1..2}", gpus: grid_a100-40c, place: {hosts: [three.lab]}}
"""
ALLOWED = ("--allow-power-cycle", "--allow-move", "--delete=old")


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the page of a plan that makes, moves, power-cycles and deletes, of hosts, of a refused one."""
    with pytest.MonkeyPatch.context() as patch:
        vgpu_cfg = CommandLine(tmp_path_factory.mktemp("pages"), patch)
        vgpu_cfg.write("servers.yaml", SERVERS)
        vgpu_cfg.done("apply", "--yes", vgpu_cfg.write("plan.yaml", HEAD + THEN))
        vgpu_cfg.done("plan", vgpu_cfg.write("plan.yaml", HEAD + NOW), *ALLOWED, "--html", "plan.html")
        vgpu_cfg.done("plan", "examples/prepare-hosts.yaml", "--html", "hosts.html")
        big = HEAD.replace("servers.yaml", "estates/full-but-one-move.yaml")
        big += "- {name: big, gpus: grid_a100-40c}\n"
        assert vgpu_cfg("plan", vgpu_cfg.write("big.yaml", big), "--html", "big.html").code == 4
        return [vgpu_cfg.folder / f"{name}.html" for name in ("plan", "hosts", "big")]


@pytest.fixture
def change(pages: list[Path]) -> Path:
    return pages[0]


@pytest.mark.parametrize(("width", "is_dark"), LOOKS)
def test_it_is_laid_out_at_every_width_in_both_looks_and_asks_nobody(
    browser: Chromium, pages: list[Path], axe: str, width: int, *, is_dark: bool
) -> None:
    browser.look(width, is_dark=is_dark)
    for path in pages:
        assert_page(browser, path, axe)


@LONG
def test_the_keyboard_turns_the_picture_and_marks_stay_with_their_vms(
    browser: Chromium, change: Path
) -> None:
    browser.look(1000, is_dark=False)
    browser.open(change)
    drawn = "[...document.querySelectorAll('a.piece')].map((one) => one.title).sort()"
    after = browser.run(drawn)
    browser.run("document.getElementById('turn').focus()")
    browser.press("ArrowLeft", "ArrowLeft", 37)
    browser.drawn()
    before = browser.run(drawn)
    assert browser.run("document.getElementById('when').textContent").startswith("Before: 4 VMs on GPUs")
    assert before == [
        "10c head, grid_a100-10c: power cycle",
        "10c small-01, grid_a100-10c: moved by vMotion",
        "10c small-02, grid_a100-10c: moved by vMotion",
        "20c old, grid_a100-20c: deleted",
    ]
    assert after == [
        "10c head, grid_a100-10c: power cycle",
        "10c small-01, grid_a100-10c: moved by vMotion",
        "10c small-02, grid_a100-10c: moved by vMotion",
        "40c worker-1, grid_a100-40c: new",
        "40c worker-2, grid_a100-40c: new",
    ]
    browser.press("ArrowRight", "ArrowRight", 39)
    browser.drawn()
    assert browser.run(drawn) == after


@LONG
def test_every_change_and_edit_of_the_plan_is_there(browser: Chromium, change: Path) -> None:
    browser.look(1000, is_dark=False)
    browser.open(change)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    counts = browser.run(
        "[document.querySelectorAll('.change').length, document.querySelectorAll('.edits dt').length]"
    )
    told = browser.run("JSON.parse(document.getElementById('data').textContent).told.plan.changes")
    assert counts == [len(told), sum(len(one["edits"]) for one in told)]


@LONG
def test_names_that_are_html_are_shown_as_they_are(browser: Chromium, tmp_path: Path) -> None:
    case = "addresses-stay-when-workers-come"
    plan = plan_of(case)
    changes = tuple(
        one.model_copy(update={"subject": one.subject.model_copy(update={"name": HOSTILE})})
        for one in plan.changes
    )
    plan = plan.model_copy(update={"name": HOSTILE, "changes": changes})
    path = tmp_path / "plan.html"
    picture = view_plan_picture(plan, inventory_of(case), load_catalog())
    path.write_text(render_plan_page(plan, plan_data(plan), picture), encoding="utf-8")
    browser.errors.clear()
    browser.look(1000, is_dark=False)
    browser.open(path)
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run("document.images.length") == 0
    shown = HOSTILE.replace("\u202e", "\\u{202e}")
    assert browser.run("document.querySelector('summary b').textContent") == shown
    assert browser.errors == []


@pytest.mark.skipif(not os.environ.get("REWRITE_SCREENSHOTS"), reason="REWRITE_SCREENSHOTS=1 takes them")
@pytest.mark.parametrize("is_dark", [False, True])
def test_pictures_for_the_docs(browser: Chromium, change: Path, *, is_dark: bool) -> None:
    browser.look(1200, is_dark=is_dark, height=900)
    browser.open(change)
    shot = browser.picture()
    assert len(shot) < 150_000
    (PICTURES / f"plan-{'dark' if is_dark else 'light'}.png").write_bytes(shot)
