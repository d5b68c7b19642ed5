"""`inventory --reservations --html` in a browser: laid out at every width in both looks, and accessible."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.command_line import CommandLine
from tests.cli.test_reservations import LAB, timed
from tests.pages.browser import Chromium
from tests.pages.judges import LOOKS, assert_page


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, ...]:
    """Return the page of a reservation that holds, and of none."""
    with pytest.MonkeyPatch.context() as patch:
        vgpu_cfg = CommandLine(tmp_path_factory.mktemp("pages"), patch)
        vgpu_cfg.done("inventory", "--reservations", *LAB, "--html", "none.html")
        vgpu_cfg.done("apply", "--yes", timed(vgpu_cfg, "2020-01-01T08:00Z"))
        vgpu_cfg.done("inventory", "--reservations", *LAB, "--html", "one.html")
        return tuple(vgpu_cfg.folder / name for name in ("none.html", "one.html"))


@pytest.mark.parametrize(("width", "is_dark"), LOOKS)
def test_it_is_laid_out_at_every_width_in_both_looks_and_asks_nobody(
    browser: Chromium, pages: tuple[Path, ...], axe: str, width: int, *, is_dark: bool
) -> None:
    browser.look(width, is_dark=is_dark)
    for path in pages:
        assert_page(browser, path, axe)
