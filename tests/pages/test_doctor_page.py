"""`doctor --html` in a browser: laid out at every width, and searched by object and owner."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.cli.command_line import CommandLine
from tests.pages.browser import Chromium
from tests.pages.judges import LOOKS, assert_page

JUDGE = ROOT / "tests" / "doctor"


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the pages of a sick estate, and of one in which nothing is wrong."""
    with pytest.MonkeyPatch.context() as patch:
        vgpu_cfg = CommandLine(tmp_path_factory.mktemp("pages"), patch)
        for name in ("sick/provider-40", "healthy/works-14"):
            page = name.partition("/")[0]
            vgpu_cfg.done("doctor", "--server", f"lab:{JUDGE / name}.yaml", "--html", f"{page}.html")
        return [vgpu_cfg.folder / f"{name}.html" for name in ("sick", "healthy")]


@pytest.mark.parametrize(("width", "is_dark"), LOOKS)
def test_it_is_laid_out_at_every_width_in_both_looks_and_asks_nobody(
    browser: Chromium, pages: list[Path], axe: str, width: int, *, is_dark: bool
) -> None:
    browser.look(width, is_dark=is_dark)
    for path in pages:
        assert_page(browser, path, axe)


@pytest.mark.long("pages in a real Chromium: tests/pages")
def test_a_search_finds_an_object_in_every_section(browser: Chromium, pages: list[Path]) -> None:
    browser.look(1000, is_dark=False)
    browser.open(pages[0])
    browser.run("search.value = 'sandbox-pt'; search.dispatchEvent(new Event('input'))")
    seen = browser.run(
        "[...document.querySelectorAll('.of')].filter((one) => one.checkVisibility()).map((one) => one.id)"
    )
    assert seen == ["hardware-version", "passthrough-device"]
