"""What is said of what is thought away: the same in text, JSON and page, and as `drain` plans it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from tests.contract.vcenters import FixedClock
from tests.unit.render.page_data import data_in
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import PowerOffVm, PowerOnVm, RelocateVm
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS
from vgpu_cfg.model.desired import DesiredPlan, ProtectingContext
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.model.plan_file import ProtectEntry
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.upkeep.absence import Absence, think_away
from vgpu_cfg.planning.upkeep.away import AwayHost
from vgpu_cfg.planning.upkeep.drain import DrainOptions, make_drain
from vgpu_cfg.planning.upkeep.targets import away_of
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.render.data.upkeep import absence_data
from vgpu_cfg.render.layout.lines import plain
from vgpu_cfg.render.page.estate import render_absence_page
from vgpu_cfg.render.text.estate.upgrade import render_absence
from vgpu_cfg.render.views.pictures.plan_picture import view_absence_picture
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session

ESTATES = ("mixed-fleet", "bridges-2xa100", "nic-groups", "two-hosts-roce", "one-a100", "hgx-h100")
DESIRED = DesiredPlan(name="fit", vcenter="vc.example")


@cache
def look_at(estate: str) -> Inventory:
    """Read an estate as `fit --without` does, with the switches of all hosts."""
    lab = open_lab(estate, clock=VirtualClock())
    with Session(lab, "lab", LAB_CREDENTIALS.user, LAB_CREDENTIALS.password) as session:
        reader = VCenterReader(session, FixedClock())
        observed = reader.read_inventory(ReadScope(everything=True))
        facts = reader.read_facts([host.moid for host in observed.hosts], frozenset())
    return observed.model_copy(update={"facts": facts})


def words(observed: Inventory) -> Iterator[str]:
    """Yield all that could be thought away."""
    answering = [host for host in observed.hosts if host.connection is Connection.CONNECTED]
    for host in answering:
        yield f"host:{host.name}"
        yield from (f"gpu:{host.name}/{gpu.pci_id}" for gpu in host.gpus)
        yield from (f"nic:{host.name}/{nic.device}" for nic in host.nics)
        passed = (one for one in host.pci_devices if one.is_nic and one.passthrough_active)
        yield from (f"nic:{host.name}/{one.pci_id}" for one in passed)
    yield from (f"cluster:{one.name}" for one in observed.clusters if not one.is_standalone)


def said(row: dict[str, Any]) -> list[str]:
    """Return what the text must say of a row of JSON."""
    drained, died = row["drained"], row["died"]
    way = {
        ("vmotion", True): f"vMotion to {drained['to']}",
        ("off", True): f"moved to {drained['to']} while powered off",
        ("restart", True): f"restarted on {drained['to']}",
        ("off", False): "off",
        ("stays", False): "stays",
    }[drained["how"], drained["to"] is not None]
    after = f"restarts on {died['to']}" if died["to"] else "cannot restart"
    return [way, after if died["dies"] is not False else f"runs on without {', '.join(died['loses'])}"]


@pytest.mark.parametrize("estate", ESTATES)
def test_text_and_json_say_the_same_of_all_that_could_be_away(estate: str) -> None:
    observed = look_at(estate)
    seen = 0
    for word in words(observed):
        found = away(word, observed)
        data = absence_data(found, "vc.example", "")
        text = plain(render_absence(found, "vc.example", 300))
        flowing = " ".join(text.split())
        rows = {one["name"]: one for one in data["vms"]}
        assert data["away"]["name"] == found.away.word
        for name, row in rows.items():
            if row["has_devices"]:
                (line,) = (line for line in text.splitlines() if line.startswith(f"  {name} "))
                assert all(part in line for part in said(row)), (word, line, said(row))
            for why in {row["drained"]["why"] or row["died"]["why"]} - {""}:
                assert why in flowing
        assert f"{sum(not row['has_devices'] for row in rows.values())} VM" in text or all(
            row["has_devices"] for row in rows.values()
        )
        sums = data["totals"]
        ways = ("vmotion", "cold", "restart", "off", "stays")
        assert sums["vms"] == len(rows) == sum(sums[way] for way in ways)
        assert sums["cold"] + sums["off"] == sum(row["drained"]["how"] == "off" for row in rows.values())
        assert sums["starts"] == sum(row["died"]["to"] is not None for row in rows.values())
        if rows:
            (total,) = (line for line in text.splitlines() if line.startswith("TOTAL"))
            assert f"TOTAL    {counted(len(rows), 'VM')}, maintenance: " in total
            assert all(f"{sums[way]} {start}" in total for way, start in STARTS.items() if sums[way])
        assert all(f"{count} × {name}" in flowing for name, count in data["gpus"].items())
        assert all(note in flowing for note in data["notes"])
        seen += len(rows)
    assert seen or estate not in ("mixed-fleet", "bridges-2xa100", "nic-groups")


STARTS = {
    "vmotion": "by vMotion",
    "cold": "moved while powered off",
    "restart": "restarted on",
    "stays": "stay",
}


@pytest.mark.parametrize("estate", ESTATES)
def test_maintenance_of_a_host_is_what_drain_would_plan(estate: str) -> None:
    observed = look_at(estate)
    for host in observed.hosts:
        if host.connection is not Connection.CONNECTED:
            continue
        found = away(f"host:{host.name}", observed)
        options = DrainOptions(others=True)
        changes = make_drain(AwayHost(host), observed, load_catalog(), DESIRED, options).plan.changes
        moves = {one.vm.name: one for one in changes if isinstance(one, RelocateVm)}
        off = {one.vm.name for one in changes if isinstance(one, PowerOffVm)}
        on = {one.vm.name for one in changes if isinstance(one, PowerOnVm)}
        planned = {
            name: (
                "vmotion" if move.is_running else "cold",
                move.destination.host_name,
                move.stun_ms if move.is_running else None,
            )
            for name, move in moves.items()
        } | dict.fromkeys(off - on, ("off", "", None))
        told = {one.vm: (one.drained.how.value, one.drained.to, one.drained.stun_ms) for one in found.vms}
        assert told == planned


@pytest.mark.parametrize("estate", ESTATES)
def test_a_cluster_of_one_host_is_that_host(estate: str) -> None:
    observed = look_at(estate)
    for cluster in observed.clusters:
        own = [host for host in observed.hosts if host.cluster_moid == cluster.moid]
        if cluster.is_standalone or len(own) != 1:
            continue
        host, whole = (
            absence_data(away(word, observed), "vc.example", "")
            for word in (f"host:{own[0].name}", f"cluster:{cluster.name}")
        )
        differing = {key for key in host if host[key] != whole[key]}
        assert differing == {"away", "host"}


def page_of(word: str, observed: Inventory) -> tuple[Absence, str, dict[str, Any]]:
    """Return what was found, the page of it and the data in the page."""
    found = away(word, observed)
    told = absence_data(found, "vc.example", "")
    page = render_absence_page(found, told, view_absence_picture(found, observed, load_catalog()))
    return found, page, data_in(page)


def drawn(data: dict[str, Any], turn: dict[str, Any]) -> dict[str, tuple[str, set[str]]]:
    """Return by VM the host and the GPUs on which the picture has it at one time."""
    places: dict[str, tuple[str, set[str]]] = {}
    hosts = [host for _, hosts in data["before"]["clusters"] for host in hosts]
    for host in (turn["hosts"].get(one["about"]["name"], one) for one in hosts):
        for gpu in (gpu for node in host["nodes"] for gpu in node["gpus"]):
            for piece in gpu["pieces"]:
                if piece["kind"] == "used" and piece["vm"]:
                    places.setdefault(piece["vm"], (host["about"]["name"], set()))[1].add(gpu["pci_id"])
    return places


@pytest.mark.sampled(3)
@pytest.mark.parametrize("estate", ESTATES)
def test_the_page_has_the_json_and_draws_each_vm_where_it_goes(estate: str) -> None:
    observed = look_at(estate)
    for word in words(observed):
        found, page, data = page_of(word, observed)
        assert data["told"] == json.loads(json.dumps(absence_data(found, "vc.example", "")))
        tiles = re.findall(r'class="value">(.*?)</p>', page)
        sums = data["told"]["totals"]
        down, off = sums["off"] + sums["stays"], sums["cold"] + sums["restart"]
        expected = [sums["vms"], sums["vmotion"], off, down, sums["vms"] - sums["starts"]]
        assert [int(value) for value in tiles[:5]] == expected
        in_order, died = (drawn(data, turn) for turn in data["turns"])
        gone = {one["pci_id"] for one in [data["told"]["away"]] if one["kind"] == "gpu"}
        for row in data["told"]["vms"]:
            if not row["holds"]:
                continue
            if row["drained"]["how"] != "stays":
                assert in_order.get(row["name"], (None, set()))[0] == row["drained"]["to"]
            if row["died"]["dies"] is not False:
                assert died.get(row["name"], (None, set()))[0] == row["died"]["to"]
            for places in (in_order, died):
                host, gpus = places.get(row["name"], ("", set()))
                assert host != row["host"] or not gpus & gone or row["drained"]["how"] == "stays"
        own = {row["name"] for row in data["told"]["vms"]}
        for turn, places in zip(data["turns"], (in_order, died), strict=True):
            assert {mark["name"] for mark in turn["marks"] if mark["subject"] == "vm"} == own
            assert all(where == places[name] for name, where in before(data).items() if name not in own)


def before(data: dict[str, Any]) -> dict[str, tuple[str, set[str]]]:
    return drawn(data, {"hosts": {}})


def test_who_does_not_leave_a_gpu_stays_drawn_on_it_and_it_takes_nobody_else() -> None:
    observed = look_at("mixed-fleet")
    context = ProtectingContext(name="prod", file="", protect=ProtectEntry(names=("research-01",)))
    found = think_away(
        away_of("gpu:esx-a100-01/21:00.0", observed),
        observed,
        load_catalog(),
        DESIRED.model_copy(update={"contexts": (context,)}),
    )
    in_order, died = view_absence_picture(found, observed, load_catalog()).turns
    (gpu,) = (
        gpu
        for node in in_order.hosts["esx-a100-01.lab"].nodes
        for gpu in node.gpus
        if gpu.pci_id == "0000:21:00.0"
    )
    assert ([one.vm for one in gpu.pieces], gpu.obstacle, gpu.mode) == (["research-01"], "away", "same size")
    assert [(one.kind, one.words) for one in died.marks if one.subject == "vm"] == [
        ("cycled", "fails; could be restarted on esx-a100-01.lab")
    ]


def test_a_hostile_name_is_text_in_the_page() -> None:
    hostile = "</script><script>alert(1)</script>\"'&amp;\u202ex"
    observed = look_at("mixed-fleet")
    vms = tuple(
        vm.model_copy(update={"name": hostile}) if vm.name == "research-01" else vm for vm in observed.vms
    )
    _, page, data = page_of("host:esx-a100-01", observed.model_copy(update={"vms": vms}))
    assert page.count("<script") == page.count("</script>") == 2
    assert "\u202e" not in page
    assert hostile in {row["name"] for row in data["told"]["vms"]}


def away(word: str, observed: Inventory) -> Absence:
    return think_away(away_of(word, observed), observed, load_catalog(), DESIRED)
