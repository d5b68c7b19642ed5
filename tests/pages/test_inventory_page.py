"""`inventory --html` in a browser: laid out at every width, reached by keyboard, and quick with 8,000 GPUs.

REWRITE_SCREENSHOTS=1 takes the pictures of the docs anew.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.cli.command_line import CommandLine
from tests.cli.test_verify import ESTATE, broken, vm_of
from tests.cli.test_verify import applied as applied  # noqa: PLC0414  # a fixture, for these tests too
from tests.cli.test_verify import trained as trained  # noqa: PLC0414  # a fixture, for these tests too
from tests.pages.browser import Chromium
from tests.pages.judges import assert_accessible, assert_laid_out
from tests.plans.estate import make_inventory
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.lab.state.inventory import LabState
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.render.page.estate import render_inventory_page
from vgpu_cfg.render.views.estate.topology import short
from vgpu_cfg.render.views.pictures.estate_map import view_map

pytestmark = pytest.mark.long("pages in a real Chromium: tests/pages")

ESTATES = ("lab:mixed-fleet", "lab:estates/stranded.yaml", "lab:bridges-2xa100", "lab:hgx-h100", "lab:no-gpu")
SEEN = """[...document.querySelectorAll('.host')].filter((one) => one.checkVisibility())
  .map((one) => one.ariaLabel)"""
# Texts of a drawing that leave it, or lie over another one.
_OUTSIDE = """(() => {
  const frame = document.querySelector(".wiring svg").getBoundingClientRect();
  const boxes = [...document.querySelectorAll(".wiring text")].map(
    (one) => [one.textContent, one.getBoundingClientRect()]);
  const leaves = boxes.filter(([, box]) =>
    box.left < frame.left || box.right > frame.right || box.bottom > frame.bottom + 1);
  const meets = boxes.filter(([, one], place) => place && boxes[place - 1][1].bottom > one.top + 1);
  return [...leaves, ...meets].map(([text]) => text);
})()"""
PICTURES = ROOT / "docs" / "pictures"


@pytest.fixture
def page(browser: Chromium, vgpu_cfg: CommandLine) -> Chromium:
    vgpu_cfg.done("inventory", "--server", "lab:mixed-fleet", "--html", "estate.html")
    browser.look(1000, is_dark=False)
    browser.open(vgpu_cfg.folder / "estate.html")
    return browser


def search(page: Chromium, text: str) -> None:
    page.run(
        f"field = document.getElementById('search'); field.value = {json.dumps(text)}; "
        "field.dispatchEvent(new Event('input'))"
    )


@pytest.mark.parametrize("server", ESTATES)
def test_it_is_laid_out_at_every_width_in_both_looks_and_asks_nobody(
    browser: Chromium, vgpu_cfg: CommandLine, axe: str, server: str
) -> None:
    vgpu_cfg.done("inventory", "--server", server, "--html", "estate.html")
    path = vgpu_cfg.folder / "estate.html"
    browser.errors.clear()
    browser.asked.clear()
    for width in (400, 1000, 1600):
        for is_dark in (False, True):
            browser.look(width, is_dark=is_dark)
            browser.open(path)
            browser.run("dispatchEvent(new Event('beforeprint'))")
            browser.drawn()
            assert_laid_out(browser)
            assert_accessible(browser, axe)
    assert browser.errors == []
    assert set(browser.asked) == {path.as_uri()}


@pytest.mark.parametrize("server", ESTATES)
def test_page_text_and_json_tell_the_same_numbers(
    browser: Chromium, vgpu_cfg: CommandLine, server: str
) -> None:
    told = vgpu_cfg.done("inventory", "--server", server, "--html", "estate.html").out
    pool = json.loads(vgpu_cfg.done("inventory", "--server", server, "--gpus", "--output=json").out)
    browser.open(vgpu_cfg.folder / "estate.html")
    values = browser.run("[...document.querySelectorAll('.tile .value')].map((one) => one.textContent)")
    hosts, gpus = re.findall(r"(\d+) hosts?, (\d+) GPUs?", told)[0]
    assert values[:2] == [hosts, gpus]
    sums = browser.run("JSON.parse(document.getElementById('data').textContent).totals")
    assert int(gpus) == len(pool["gpus"])
    for key in ("free_framebuffer_mib", "lost_mib", "bound_mib"):
        assert sums[key.replace("framebuffer_", "")] == sum(gpu[key] for gpu in pool["gpus"])
    browser.run("dispatchEvent(new Event('beforeprint'))")
    drawn = browser.run("document.querySelectorAll('a.piece').length")
    assert drawn == sum(len(gpu["runs"]) for gpu in pool["gpus"])


def test_a_search_leaves_what_it_names_and_says_how_much(page: Chromium) -> None:
    search(page, "research-mig")
    assert page.run(SEEN) == ["esx-a100-04.lab"]
    assert page.run("document.getElementById('count').textContent") == "1 of 33 GPUs on 1 host"
    search(page, "no such thing")
    assert page.run(SEEN) == []
    assert "Clear the search" in page.run("document.getElementById('none').textContent")
    search(page, "")
    assert len(page.run(SEEN)) == 14


def test_every_object_has_an_address_and_the_keyboard_reaches_and_leaves_it(page: Chromium) -> None:
    for address, title in (
        ("#vm=vdi-001", "vdi-001"),
        ("#host=esx-t4-01.lab", "esx-t4-01.lab"),
        ("#gpu=esx-a100-01.lab/0000%3A21%3A00.0", "A100 PCIe 80GB 21:00.0"),
        ("#cluster=vdi", "vdi"),
        ("#vm=nobody", "nobody"),
    ):
        page.run(f"location.hash = {address!r}")
        page.drawn()
        assert page.run("document.activeElement.textContent") == title
        page.press("Escape", "Escape", 27)
        page.drawn()
        assert page.run("[document.getElementById('detail').hidden, location.hash]") == [True, ""]


def test_names_that_are_html_are_shown_as_they_are(browser: Chromium, tmp_path: Path) -> None:
    name = "<img src=x onerror=alert(1)>\u202e\"'`%2f/="
    observed = make_inventory(
        {
            "hosts": {"esx-a": {"gpus": [{"board": "A100", "pci": "0000:21:00.0", "node": 0}]}},
            "vms": {"bad": {"name": name, "gpus": ["grid_a100-40c"], "on": ["0000:21:00.0"]}},
        }
    )
    browser.errors.clear()
    browser.look(1000, is_dark=False)
    path = tmp_path / "estate.html"
    path.write_text(render_inventory_page(view_map(observed, load_catalog())), encoding="utf-8")
    browser.open(path)
    assert browser.run("document.images.length") == 0
    browser.run("document.querySelector('a.piece').click()")
    browser.drawn()
    assert browser.run("document.getElementById('detail-title').textContent") == name.replace(
        "\u202e", "\\u{202e}"
    )
    assert browser.errors == []


@pytest.mark.parametrize("is_whole", [True, False])
def test_the_wiring_of_a_vm_is_drawn_as_text_and_json_tell_it(
    browser: Chromium,
    trained: CommandLine,
    axe: str,
    *,
    is_whole: bool,
) -> None:
    def lacking(state: LabState) -> None:
        vm_of(state, "hvd-01").extra_config["pciPassthru.allowP2P"] = "FALSE"

    if not is_whole:
        broken(trained, lacking)
    words = ("inventory", "--server", f"lab:{ESTATE}")
    text = trained.done(*words, "-v", "--html", "estate.html").out
    found = json.loads(trained.done(*words, "--output", "json").out)
    (chain,) = [one for one in found["ats"] if one["vm"] == "hvd-01"]
    states = {link["link"]: link["state"] for link in chain["links"]}
    assert set(states.values()) == ({"on"} if is_whole else {"on", "off"})
    assert ("vm options OFF" in text) is not is_whole
    browser.errors.clear()
    for width in (400, 1000, 1600):
        for is_dark in (False, True):
            browser.look(width, is_dark=is_dark)
            browser.open(trained.folder / "estate.html")
            browser.run("location.hash = '#vm=hvd-01'")
            browser.drawn()
            assert_accessible(browser, axe)
            assert browser.run(_OUTSIDE) == []
    own = browser.run("JSON.parse(document.getElementById('data').textContent).clusters[0][1]")
    assert [row for host in own for row in host["wiring"]] == found["wiring"]
    assert [row for host in own for row in host["ats"]] == found["ats"]
    shown = browser.run("[...document.querySelectorAll('.links li b')].map((one) => one.textContent)")
    assert shown == [f"{link}: {state}" for link, state in states.items()]
    assert browser.run("document.querySelectorAll('.ats.good').length") == int(is_whole)
    assert browser.run("document.querySelectorAll('.ats.bad').length") == int(not is_whole)
    alternative = browser.run("document.querySelector('.wiring svg').ariaLabel")
    wiring = {row["pci_id"]: row for row in found["wiring"] if row["host"] == chain["host"]}
    for pci_id in (chain["nic"], *chain["gpus"]):
        assert f"{short(pci_id)} {wiring[pci_id]['name']}, below PCIe switch" in alternative
        for bridge in wiring[pci_id]["bridges"]:
            assert short(bridge) in alternative
    assert browser.errors == []


def test_the_wiring_of_hosts_says_what_is_a_guess_and_what_is_not_told(
    browser: Chromium, vgpu_cfg: CommandLine, tmp_path: Path, axe: str
) -> None:
    vgpu_cfg.done("inventory", "--server", "lab:bridges-2xa100", "--html", "estate.html")
    browser.look(1000, is_dark=False)
    browser.open(vgpu_cfg.folder / "estate.html")
    browser.run("location.hash = '#host=esx-nvlink-01.lab'")
    browser.drawn()
    assert browser.run("document.querySelectorAll('.nvlink.unknown').length") == 2
    assert "NVLink perhaps (bridge, by guess): 4a:00.0, 61:00.0" in browser.run(
        "document.querySelector('.wiring svg').ariaLabel"
    )
    assert browser.run(_OUTSIDE) == []
    observed = make_inventory(
        {
            "hosts": {
                "esx-a": {
                    "gpus": [{"board": "A100", "pci": "0000:21:00.0", "node": None}],
                    "nics": [{"pci": "0000:24:00.0", "node": None}],
                }
            }
        }
    )
    path = tmp_path / "unknown.html"
    path.write_text(render_inventory_page(view_map(observed, load_catalog())), encoding="utf-8")
    browser.open(path)
    browser.run("location.hash = '#host=esx-a'")
    browser.drawn()
    assert "NUMA node unknown" in browser.run("document.querySelector('.wiring svg').textContent")
    assert browser.run("document.querySelectorAll('.wire.unknown').length") > 0
    assert browser.run("document.querySelectorAll('.nvlink, .ats').length") == 0
    assert_accessible(browser, axe)


def large(hosts: int) -> Inventory:
    """Make hosts of eight GPUs and ten VMs each, of one that is made in words."""
    slots = [f"0000:{bus:02x}:00.0" for bus in range(0x20, 0x60, 8)]
    profiles = ["grid_a100-40c"] * 4 + ["grid_a100-20c"] * 6
    places = [*slots[:4], *(slot for slot in slots[4:7] for _ in (1, 2))]
    one = make_inventory(
        {
            "hosts": {
                "esx": {
                    "gpus": [{"board": "A100", "pci": slot, "node": at // 4} for at, slot in enumerate(slots)]
                }
            },
            "vms": {
                f"vm-{at}": {"gpus": [profile], "on": [place]}
                for at, (profile, place) in enumerate(zip(profiles, places, strict=True))
            },
        }
    )
    (host,), held = one.hosts, [vm for vm in one.vms if not vm.is_template]
    made_hosts, made_vms = [], []
    for number in range(hosts):
        mark = f"-{number:04d}"
        gpus = [
            gpu.model_copy(update={"vm_moids": tuple(f"{moid}{mark}" for moid in gpu.vm_moids)})
            for gpu in host.gpus
        ]
        names = {"moid": f"{host.moid}{mark}", "name": f"{host.name}{mark}.example"}
        made_hosts.append(host.model_copy(update={**names, "gpus": tuple(gpus)}))
        made_vms += [
            vm.model_copy(
                update={"moid": f"{vm.moid}{mark}", "name": f"{vm.name}{mark}", "host_moid": names["moid"]}
            )
            for vm in held
        ]
    return one.model_copy(update={"hosts": tuple(made_hosts), "vms": tuple(made_vms)})


OPEN_ALL = "document.querySelectorAll('.cluster > header button').forEach((one) => one.click())"
SUMS = """[...document.querySelectorAll('.sums tbody tr')].map(
  (one) => [...one.cells].map((cell) => cell.innerText))"""


def test_a_large_estate_shows_totals_first_and_cards_when_asked(
    browser: Chromium, tmp_path: Path, axe: str
) -> None:
    path = tmp_path / "large.html"
    path.write_text(render_inventory_page(view_map(large(60), load_catalog())), encoding="utf-8")
    for width in (400, 1600):
        for is_dark in (False, True):
            browser.look(width, is_dark=is_dark)
            browser.open(path)
            assert_laid_out(browser)
            assert_accessible(browser, axe)
    sums = browser.run(SUMS)
    assert sum(int(row[3]) for row in sums) == 8 * 60
    assert browser.run(SEEN) == []
    browser.run("document.querySelector('.sums button').click()")
    assert len(browser.run(SEEN)) == int(sums[0][2])
    search(browser, "vm-7-0009")
    assert len(browser.run(SEEN)) == 1
    search(browser, "")
    for name in ("cluster", "board"):
        browser.run(
            "((one) => { one.value = ''; one.dispatchEvent(new Event('input')); })"
            f"(document.getElementById('{name}'))"
        )
    assert browser.run(SEEN) == []
    browser.run(OPEN_ALL)
    assert len(browser.run(SEEN)) == 60


@pytest.mark.parametrize(("hosts", "seconds", "megabytes"), [(14, 2, 3), (1000, 4, 15)])
def test_a_large_estate_opens_and_filters_without_a_stall(
    browser: Chromium, tmp_path: Path, hosts: int, seconds: float, megabytes: float
) -> None:
    path = tmp_path / "large.html"
    found = view_map(large(hosts), load_catalog())
    assert (found.totals.gpus, found.totals.vms) == (8 * hosts, 10 * hosts)
    path.write_text(render_inventory_page(found), encoding="utf-8")
    assert path.stat().st_size < megabytes * 1_000_000
    browser.look(1600, is_dark=False)
    begun = browser.worked()
    browser.open(path)
    assert browser.worked() - begun < seconds
    # Of a host that is not in sight only its frame and its name are drawn.
    assert browser.run("document.getElementsByTagName('*').length") < 1200 + 7 * hosts
    for text in ("vm-7-0009", "grid_a100-20c", ""):
        begun = browser.worked()
        search(browser, text)
        browser.drawn()
        assert browser.worked() - begun < 1
    browser.run(OPEN_ALL)
    begun = browser.worked()
    browser.run(
        """(async () => {
          for (let step = 0; step < 30; step++) {
            scrollBy(0, 900);
            await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
          }
        })()"""
    )
    assert (browser.worked() - begun) / 30 < 0.2


@pytest.mark.skipif(not os.environ.get("REWRITE_SCREENSHOTS"), reason="REWRITE_SCREENSHOTS=1 takes them")
@pytest.mark.parametrize("is_dark", [False, True])
def test_pictures_for_the_docs(page: Chromium, *, is_dark: bool) -> None:
    page.look(1200, is_dark=is_dark, height=760)
    page.drawn()
    shot = page.picture()
    assert len(shot) < 150_000
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / f"inventory-{'dark' if is_dark else 'light'}.png").write_bytes(shot)


@pytest.mark.skipif(not os.environ.get("REWRITE_SCREENSHOTS"), reason="REWRITE_SCREENSHOTS=1 takes them")
@pytest.mark.parametrize("is_dark", [False, True])
def test_pictures_of_the_wiring_for_the_docs(
    browser: Chromium, trained: CommandLine, *, is_dark: bool
) -> None:
    trained.done("inventory", "--server", f"lab:{ESTATE}", "--html", "estate.html")
    browser.look(1000, is_dark=is_dark, height=660)
    browser.open(trained.folder / "estate.html")
    browser.run("location.hash = '#vm=hvd-01'")
    browser.drawn()
    shot = browser.picture()
    assert len(shot) < 150_000
    (PICTURES / f"wiring-{'dark' if is_dark else 'light'}.png").write_bytes(shot)
