"""`fit --without --html` in a browser: laid out at every width, turned by keyboard, marked.

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
WORDS = {
    "host": "host:esx-a100-01",
    "cluster": "cluster:vdi",
    "gpu": "gpu:esx-vdi-02/0000:17:00.0",
    "nic": "nic:esx-a100-01/vmnic0",
}


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the pages of a host, a cluster, a GPU and a NIC."""
    with pytest.MonkeyPatch.context() as patch:
        vgpu_cfg = CommandLine(tmp_path_factory.mktemp("pages"), patch)
        for name, word in WORDS.items():
            vgpu_cfg.done("fit", "--without", word, "--server=lab:mixed-fleet", "--html", f"{name}.html")
        return {name: vgpu_cfg.folder / f"{name}.html" for name in WORDS}


@pytest.mark.parametrize(("width", "is_dark"), LOOKS)
def test_it_is_laid_out_at_every_width_in_both_looks_and_asks_nobody(
    browser: Chromium, pages: dict[str, Path], axe: str, width: int, *, is_dark: bool
) -> None:
    browser.look(width, is_dark=is_dark)
    for path in pages.values():
        assert_page(browser, path, axe)


@LONG
def test_the_keyboard_turns_the_picture_through_all_three_times(
    browser: Chromium, pages: dict[str, Path]
) -> None:
    browser.look(1000, is_dark=False)
    browser.open(pages["host"])
    drawn = (
        "[...document.querySelectorAll('.host:not([hidden]) a.piece')].map((one) => "
        "`${one.closest('.host').ariaLabel}: ${one.title}`)"
    )
    seen = {}
    browser.run("document.getElementById('turn').focus()")
    for key in (("ArrowLeft", 37), ("ArrowRight", 39), ("ArrowRight", 39)):
        browser.press(key[0], key[0], key[1])
        browser.drawn()
        when = browser.run("document.getElementById('turn').getAttribute('aria-valuetext')")
        seen[when] = browser.run(drawn)
    way = "moved to esx-a100-02.lab while powered off: the vCenter setting vgpu.hotmigrate.enabled is off"
    assert seen == {
        "now": [f"esx-a100-01.lab: 40c research-01, grid_a100d-40c: {way}"],
        "in maintenance": [f"esx-a100-02.lab: 40c research-01, grid_a100d-40c: {way}"],
        "after a failure": [
            "esx-a100-02.lab: 40c research-01, grid_a100d-40c: fails; vSphere HA restarts it on "
            "esx-a100-02.lab"
        ],
    }


@LONG
def test_vms_without_a_place_are_gone_from_the_picture(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.look(1000, is_dark=False)
    browser.open(pages["cluster"])
    browser.run("dispatchEvent(new Event('beforeprint'))")
    names = "[...document.querySelectorAll('a.piece')].filter((one) => one.title.includes('vdi-00')).length"
    assert browser.run(names) == 1  # vdi-007 is in another cluster
    browser.run(
        "turn = document.getElementById('turn'); turn.value = '0'; turn.dispatchEvent(new Event('input'))"
    )
    browser.run("dispatchEvent(new Event('beforeprint'))")
    assert browser.run(names) == 8


@pytest.mark.skipif(not os.environ.get("REWRITE_SCREENSHOTS"), reason="REWRITE_SCREENSHOTS=1 takes them")
def test_pictures_for_the_docs(browser: Chromium, pages: dict[str, Path]) -> None:
    browser.look(1200, is_dark=False, height=900)
    browser.open(pages["host"])
    shot = browser.picture()
    assert len(shot) < 150_000
    (ROOT / "docs" / "pictures" / "without-light.png").write_bytes(shot)
