"""`status --html` in a browser: laid out at every width, searched, and each value with who changed it.

REWRITE_SCREENSHOTS=1 takes the picture of the docs anew.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pyVmomi import vim

from tests.architecture.sources import ROOT
from tests.cli.colleague import NAME, Colleague
from tests.cli.command_line import CommandLine
from tests.pages.browser import Chromium
from tests.pages.judges import LOOKS, assert_page

PLAN = """\
version: 1
name: told
vcenter: lab:two-a100
defaults: {template: ubuntu-22.04-efi, cluster: gpu, folder: training, cpus: 4, memory: 16GiB}
vms:
- {name: "vm-{01..03}", gpus: grid_a100-10c}
"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return the page of VMs that a colleague changed, of hosts that were never prepared, and one in sync."""
    with pytest.MonkeyPatch.context() as patch:
        vgpu_cfg = CommandLine(tmp_path_factory.mktemp("pages"), patch)
        plan = vgpu_cfg.write("plan.yaml", PLAN)
        vgpu_cfg.done("apply", "--yes", plan)
        vgpu_cfg.done("status", plan, "--html", "same.html")
        colleague = Colleague(vgpu_cfg.lab("two-a100"))
        colleague.does("vm-01", "PowerOffVM_Task")
        colleague.does("vm-01", "ReconfigVM_Task", vim.vm.ConfigSpec(numCPUs=2))
        colleague.does("vm-02", "Rename_Task", "eves-vm")
        vgpu_cfg.done("status", plan, "--html", "told.html")
        vgpu_cfg.done("status", "examples/prepare-hosts.yaml", "--html", "hosts.html")
        return [vgpu_cfg.folder / f"{name}.html" for name in ("told", "hosts", "same")]


@pytest.mark.parametrize(("width", "is_dark"), LOOKS)
def test_it_is_laid_out_at_every_width_in_both_looks_and_asks_nobody(
    browser: Chromium, pages: list[Path], axe: str, width: int, *, is_dark: bool
) -> None:
    browser.look(width, is_dark=is_dark)
    for path in pages:
        assert_page(browser, path, axe)


@pytest.mark.long("pages in a real Chromium: tests/pages")
def test_a_search_finds_keys_names_and_hands(browser: Chromium, pages: list[Path]) -> None:
    browser.look(1000, is_dark=False)
    browser.open(pages[0])
    rows = "[...document.querySelectorAll('tbody tr')].filter((one) => one.checkVisibility()).length"
    told = browser.run(rows)
    for text, count in (("", told), ("cpus", 1), ("vm-02", 1), (NAME.lower(), told), ("no such", 0)):
        browser.run(f"search.value = {text!r}; search.dispatchEvent(new Event('input'))")
        assert browser.run(rows) == count, text


@pytest.mark.skipif(not os.environ.get("REWRITE_SCREENSHOTS"), reason="REWRITE_SCREENSHOTS=1 takes it")
def test_a_picture_for_the_docs(browser: Chromium, pages: list[Path]) -> None:
    browser.look(1200, is_dark=False, height=640)
    browser.open(pages[0])
    (ROOT / "docs" / "pictures" / "status-light.png").write_bytes(browser.picture())
