"""`apply --html` in a browser: laid out at every width, with each step's bar where it was.

REWRITE_SCREENSHOTS=1 takes the picture of the docs anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.cli.command_line import CommandLine
from tests.pages.browser import Chromium
from tests.pages.judges import LOOKS, assert_page

LONG = pytest.mark.long("pages in a real Chromium: tests/pages")
PAIR = "plans/pair.yaml"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the page of a run that failed, and of one that was taken back."""
    with pytest.MonkeyPatch.context() as patch:
        vgpu_cfg = CommandLine(tmp_path_factory.mktemp("pages"), patch)
        fails = {"method": "PowerOnVM_Task", "nth": 1, "message": "Module 'DevicePowerOn' power on failed."}
        for name, more in (("back", ("--rollback-on-failure",)), ("failed", ())):
            vgpu_cfg.script("two-a100", fails)
            assert vgpu_cfg("apply", "--yes", PAIR, *more, "--html", f"{name}.html").code == 6
        return [vgpu_cfg.folder / f"{name}.html" for name in ("failed", "back")]


@pytest.fixture(scope="module")
def hosts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the page of a run that prepares hosts, and waits for a hand."""
    with pytest.MonkeyPatch.context() as patch:
        vgpu_cfg = CommandLine(tmp_path_factory.mktemp("hosts"), patch)
        words = ("apply", "--yes", "examples/prepare-hosts.yaml", "--html", "hosts.html")
        assert vgpu_cfg(*words, ESXI_PASSWORD="lab").code == 7
        return vgpu_cfg.folder / "hosts.html"


@pytest.mark.parametrize(("width", "is_dark"), LOOKS)
def test_it_is_laid_out_at_every_width_in_both_looks_and_asks_nobody(
    browser: Chromium, pages: list[Path], axe: str, width: int, *, is_dark: bool
) -> None:
    browser.look(width, is_dark=is_dark)
    for path in pages:
        assert_page(browser, path, axe)


@LONG
@pytest.mark.parametrize("width", [400, 1600])
def test_a_run_of_hosts_is_laid_out_too(browser: Chromium, hosts: Path, axe: str, width: int) -> None:
    browser.look(width, is_dark=width == 400)
    assert_page(browser, hosts, axe)


@LONG
def test_bars_lie_within_the_line_and_as_many_as_steps_were_begun(
    browser: Chromium, pages: list[Path], hosts: Path
) -> None:
    browser.look(1000, is_dark=False)
    for path in (*pages, hosts):
        browser.open(path)
        inside = browser.run(
            """[...document.querySelectorAll('.bars')].every((line) => [...line.children].every((bar) => {
              const [box, all] = [bar.getBoundingClientRect(), line.getBoundingClientRect()];
              return box.left >= all.left - 1 && box.right <= all.right + 1;
            }))"""
        )
        drawn = browser.run("document.querySelectorAll('.bars rect:not(.bar-span)').length")
        begun = browser.run(
            """(() => {
              const { told } = JSON.parse(document.getElementById('data').textContent);
              const every = [...told.outcomes, ...(told.rollback?.outcomes ?? [])];
              return every.filter((one) => one.started_at).length;
            })()"""
        )
        assert inside
        # Hosts and VMs that went alike to the second share a row.
        assert 0 < drawn <= begun


@pytest.mark.skipif(not os.environ.get("REWRITE_SCREENSHOTS"), reason="REWRITE_SCREENSHOTS=1 takes it")
def test_a_picture_for_the_docs(browser: Chromium, hosts: Path) -> None:
    browser.look(1200, is_dark=False, height=640)
    browser.open(hosts)
    browser.run("document.getElementById('line-title').scrollIntoView()")
    browser.drawn()
    (ROOT / "docs" / "pictures" / "run-light.png").write_bytes(browser.picture())
