"""One browser for all pages of a process; without Chromium these tests are skipped, out loud."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.architecture.sources import ROOT
from tests.cli.conftest import vgpu_cfg as vgpu_cfg  # noqa: PLC0414  # a fixture, for these tests too
from tests.pages.browser import CHROMIUM, Chromium

AXE = ROOT / ".cache" / "pages" / "axe.min.js"


@pytest.fixture(scope="session")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chromium]:
    if CHROMIUM is None:
        pytest.skip("Chromium is not on this machine: apt-get install chromium")
    started = Chromium(tmp_path_factory.mktemp("chromium"))
    yield started
    started.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """Return the text of axe-core."""
    if not AXE.exists():
        pytest.skip("axe-core is not here: script/build-pages fetches it")
    return AXE.read_text(encoding="utf-8")
