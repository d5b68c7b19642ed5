"""What an upgrade affects: hosts, their VMs and owners, the steps before it, its waves and what it writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests.sections import section
from tests.unit.planning.hosts.plans import GPU, estate, host
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.report import Event, EventKind, OutcomeStatus
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.observed.host_facts import FactGroup, HostMark
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.doctor.patient import Patient
from vgpu_cfg.planning.estate.down_hosts import exit_id
from vgpu_cfg.planning.hosts.sequence import enter_id, reboot_id
from vgpu_cfg.planning.upgrade.assess import Assessment, Target, assess
from vgpu_cfg.planning.upgrade.waves import (
    DEFAULT_TIMES,
    Installation,
    Played,
    Times,
    Wave,
    letters,
    make_waves,
    plan_files,
    times_of,
)
from vgpu_cfg.render.text.estate.upgrade import render_rehearsal

TOLD = Path(__file__).with_name("upgrades.txt")
OLD, NEW = "570.133.10", "580.95.02"
DRIVER = Target(driver=NEW)
ESXI = Target(esxi="24859861")
TIMES = Times(maintenance=1200, reboot=600)
NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
WEEKEND = "Sat 22:00-04:00 Europe/Berlin"
SECOND = GPU | {"pci": "0000:41:00.0"}
V100 = GPU | {"board": "V100"}
IMAGE: dict[str, Any] = {"components": {"NVD-AIE-800": OLD}, "depot": {"NVD-AIE-800": [OLD]}}
DIFFERS = {"status": "NON_COMPLIANT", "differs": {"Broadcom-lsi": ("1.1", "1.2")}}


def old(version: str = OLD, **more: Any) -> dict[str, Any]:
    """Observe a host with a driver of this version, "" for none."""
    return host(driver=bool(version), facts={"software": {"NVD-AIE-800": version} if version else {}}, **more)


def vm(at: str = "esx-01", gpu: dict[str, Any] = GPU, **more: Any) -> dict[str, Any]:
    """Observe a VM that vMotion moves, of the plan `team/a`."""
    of_gpu = {"gpus": ["grid_a100-40c"], "on": [gpu["pci"]], "migrates": True}
    return {"host": at, "mark": "team/a", **of_gpu} | more


def small(**more: Any) -> dict[str, Any]:
    return vm(gpus=["grid_a100-10c"], **more)


def marked(observed: Inventory) -> Inventory:
    mark = HostMark(plan="demo", since=NOW)
    return observed.with_hosts({one.moid: one.model_copy(update={"mark": mark}) for one in observed.hosts})


def unread(observed: Inventory) -> Inventory:
    """Observe hosts whose software was not read, but for the last."""
    groups = frozenset(FactGroup) - {FactGroup.SOFTWARE}
    *first, _ = observed.hosts
    update = {one.moid: observed.facts.hosts[one.moid].model_copy(update={"groups": groups}) for one in first}
    facts = observed.facts.model_copy(update={"hosts": {**observed.facts.hosts, **update}})
    return observed.model_copy(update={"facts": facts})


def by_image(*, drs: str = "fullyAutomated", **more: Any) -> Inventory:
    clusters = {"gpu": {"drs": drs, "image": IMAGE | more}}
    return estate(old(), old(), clusters=clusters, vms={"a": small()})


CASES: Mapping[str, tuple[Inventory, Target]] = {
    "two hosts of three": (estate(old(), old(), old(NEW), vms={"a": small()}), DRIVER),
    "no driver yet": (estate(old("")), DRIVER),
    "not read": (unread(estate(old(), old())), DRIVER),
    "disconnected": (estate(old(connection="disconnected")), DRIVER),
    "in a plan's hands": (marked(estate(old())), DRIVER),
    "in maintenance": (estate(old(maintenance=True)), DRIVER),
    "a version for each branch": (estate(old("535.129.03"), old()), Target(fixed=("570.172.07",))),
    "a board that has no driver": (estate(old("550.90.05", gpus=[V100])), Target(driver="595.58")),
    "no guest driver for both": (estate(old("470.63"), vms={"a": small()}), Target(driver="595.58")),
    "ESXi": (by_image(), ESXI),
    "ESXi and driver without an image": (estate(old(), old()), Target(driver=NEW, esxi=ESXI.esxi)),
    "of the image": (by_image(), DRIVER),
    "of an image that is managed": (by_image(manager="SDDC Manager"), DRIVER),
    "an image that holds it": (by_image(depot={"NVD-AIE-800": [OLD, NEW]}), DRIVER),
    "an image that differs": (by_image(hosts={"host-esx-01": DIFFERS}), DRIVER),
    "an image that is refused": (
        by_image(hosts={"host-esx-01": DIFFERS | {"status": "INCOMPATIBLE"}}),
        DRIVER,
    ),
    "DRS asks first": (by_image(drs="manual"), DRIVER),
    "alone in its cluster": (estate(old(), vms={"a": small(), "m": {"host": "esx-01"}}), DRIVER),
    "VMs that stay": (
        estate(
            old(gpus=[GPU, SECOND]),
            old(),
            vms={
                "own": small(),
                "unknown": small(migrates=None, on=[SECOND["pci"]], mark=None),
                "off": small(power="poweredOff"),
            },
            clusters={"gpu": {"drs": "fullyAutomated", "drs_overrides": {"own": "manual"}}},
        ),
        DRIVER,
    ),
    "no room for it": (estate(old(), old(), vms={"a": vm(), "b": vm("esx-02")}), DRIVER),
    "two clusters": (
        estate(
            *(old(cluster="lab") for _ in range(3)),
            old(),
            clusters={"gpu": {}, "lab": {}},
            vms={"a": small()},
        ),
        DRIVER,
    ),
}


def assessed(observed: Inventory, target: Target, max_down: int = 1) -> Assessment:
    return assess(Patient(observed, load_catalog()), target, observed.hosts, max_down=max_down)


def lines(found: Assessment) -> Iterator[str]:
    yield f"{found.target.words}: {found.has_it} have it; unknown: {', '.join(found.unknown)}"
    yield f"at once: {found.lanes}; proven: {sorted(found.proven)}"
    for one in found.hosts:
        yield f"{one.name} of {one.datacenter}/{one.cluster}: {one.kind} {one.present} -> {one.target}"
        yield f"  build {one.build}, image: {one.by_image}, blocked: {one.blocked}"
        for vm in one.vms:
            yield f"  {vm.name} of {vm.owner}: {vm.fate} {vm.why}, {vm.stun_ms} ms, GPU: {vm.has_gpu}"
    for first in found.firsts:
        yield f"first{' (owners)' * first.is_for_owners}: {first.text} {first.command}".rstrip()


@pytest.mark.parametrize("case", CASES)
def test_what_is_affected_is_as_it_is_stored(case: str) -> None:
    told = "\n".join(lines(assessed(*CASES[case])))
    assert told == section(TOLD, case, told)


def shown(waves: tuple[Wave, ...]) -> list[str]:
    return [
        f"{one.number}{' canary' * one.is_canary}: {one.opens:%a %d. %H:%M}-{one.ends:%H:%M}, closes "
        f"{one.closes:%H:%M}: {' '.join(host.name for host in one.hosts)}"
        for one in waves
    ]


FOUR = estate(*(old(gpus=[GPU, SECOND]) for _ in range(4)), vms={"a": small(migrates=False)})


@pytest.mark.parametrize(
    ("observed", "window", "max_down", "expected"),
    [
        (
            FOUR,
            WEEKEND,
            1,
            [
                "1 canary: Sat 06. 22:00-22:30, closes 04:00: esx-02",
                "2: Sat 06. 22:30-00:00, closes 04:00: esx-03 esx-04 esx-01",
            ],
        ),
        (
            FOUR,
            WEEKEND,
            2,
            [
                "1 canary: Sat 06. 22:00-22:30, closes 04:00: esx-02",
                "2: Sat 06. 22:30-23:30, closes 04:00: esx-03 esx-04 esx-01",
            ],
        ),
        (
            FOUR,
            "daily 22:00-22:45 UTC",
            1,
            [
                "1 canary: Mon 01. 22:00-22:30, closes 22:45: esx-02",
                "2: Tue 02. 22:00-22:30, closes 22:45: esx-03",
                "3: Wed 03. 22:00-22:30, closes 22:45: esx-04",
                "4: Thu 04. 22:00-22:30, closes 22:45: esx-01",
            ],
        ),
        (
            estate(old(), old(NEW)),
            "",
            1,
            ["1: Mon 01. 12:00-12:30, closes 00:00: esx-01"],
        ),
    ],
    ids=["one at a time", "two at a time", "one a day", "always"],
)
def test_the_hosts_of_each_opening(
    observed: Inventory, window: str, max_down: int, expected: list[str]
) -> None:
    assert shown(make_waves(assessed(observed, DRIVER, max_down), window, TIMES, NOW)) == expected


def test_a_window_that_is_too_short_for_a_host() -> None:
    with pytest.raises(ValueError, match="daily 22:00-22:30 UTC is too short: one host requires 30 min"):
        make_waves(assessed(FOUR, DRIVER), "daily 22:00-22:30 UTC", TIMES, NOW)


@pytest.mark.parametrize("case", ["two hosts of three", "of the image", "VMs that stay", "two clusters"])
def test_what_an_upgrade_writes_is_as_it_is_stored(case: str) -> None:
    found = assessed(*CASES[case])
    waves = make_waves(found, WEEKEND, TIMES, NOW)
    depots = ("/vmfs/volumes/iso/aie.zip",) if case == "two hosts of three" else ()
    plans = plan_files(found, waves, Installation("vc.example", WEEKEND, TIMES, depots))
    told = "\n".join(
        [
            *shown(waves),
            *(f"--- {name}\n{json.dumps(plan)}" for name, plan in plans.items()),
            *(f"--- {owner}\n{text}" for owner, text in letters(found, waves).items()),
        ]
    )
    assert told.strip() == section(TOLD, f"what is written for {case}", told)


def ran(host: str, *minutes: int, status: OutcomeStatus = OutcomeStatus.DONE) -> list[Event]:
    """Tell of a host that a run took down: when each of its changes began and ended, in minutes."""
    ids = (enter_id(host), reboot_id(host), exit_id(host))
    spans = zip(minutes[::2], minutes[1::2], strict=True)
    subject = Subject(kind="host", name=host)
    return [
        Event(kind=kind, change_id=one, subject=subject, at=NOW + timedelta(minutes=at), status=known)
        for one, (began, ended) in zip(ids, spans, strict=True)
        for kind, at, known in (
            (EventKind.STARTED, began, None),
            (EventKind.ENDED, ended, status),
        )
    ]


def test_windows_are_held_by_the_longest_times_and_hours_are_by_the_average() -> None:
    slow, quick = ran("esx-01", 0, 10, 12, 27, 30, 31), ran("esx-02", 0, 20, 21, 26, 27, 40)
    failed = ran("esx-03", 0, 90, 90, 180, 180, 400, status=OutcomeStatus.FAILED)
    both = times_of([[*slow, *quick], failed])
    assert both == Times(maintenance=35 * 60, reboot=15 * 60, measured=2, average=35 * 60 + 30)
    assert times_of([slow]) == Times(maintenance=16 * 60, reboot=15 * 60, measured=1, average=31 * 60)
    assert times_of([failed]) == DEFAULT_TIMES
    assert (
        "the longest of 2 hosts in earlier runs; the hours are based on the average, 35 min 30 s"
        in both.source
    )
    assert Times(maintenance=61, reboot=59).estimate == {"maintenance": 2, "reboot": 1}
    found = assessed(FOUR, DRIVER)
    planned, forecast = (make_waves(found, WEEKEND, one, NOW) for one in (replace(both, average=0), both))
    assert [one.hosts for one in planned] == [one.hosts for one in forecast]
    assert forecast[0].hours == pytest.approx(planned[0].hours * both.average / both.seconds)


@pytest.mark.parametrize(("measured", "total"), [(0, ""), (1, "took 33 min")])
def test_a_rehearsal_sums_up_forecasts_by_measured_hosts_alone(measured: int, total: str) -> None:
    """A default is an assumption: the canary takes what it takes, and the others are forecast by it."""
    canary, rest, *_ = make_waves(assessed(FOUR, DRIVER), WEEKEND, TIMES, NOW)
    played = [Played(canary, 0, 360, 1, 0), Played(rest, measured, 33 * 60, 1, 0)]
    told = "\n".join(line.plain for line in render_rehearsal(played, 160))
    assert "-80%" in told
    assert ("TOTAL" in told, total in told) == (bool(total), True)
