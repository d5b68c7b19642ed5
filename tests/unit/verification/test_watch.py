"""`verify --watch`: faults are reported by the rule of their kind; a healthy cluster is never cordoned."""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.extent import examples
from tests.fakes.answering_guests import FakeGuest, FakeGuests
from tests.unit.verification.health_plants import (
    FAULTS,
    LOST,
    OF_VGPU,
    QUIET,
    SOUND,
    Fault,
    answers,
    changed,
    recovery,
    xid,
)
from tests.unit.verification.planted import PLANTED
from tests.unit.verification.two_workers import GPU, NOW, Scene, failing, make_scene
from vgpu_cfg.knowledge.health_rules import BY_KEY, RULES, rule_of
from vgpu_cfg.knowledge.rows.xid import XID_ROWS
from vgpu_cfg.model.observed.own_items import HostAlarm
from vgpu_cfg.model.plan_file import WatchEntry
from vgpu_cfg.model.verification import (
    OF_PROGRAMS,
    Sign,
    Thresholds,
    Verification,
    Watch,
    Watched,
    WatchMemory,
)
from vgpu_cfg.render.text.verification import render_watch
from vgpu_cfg.verification import watch_choice
from vgpu_cfg.verification.watching import to_cordon, watched

MINUTE = timedelta(minutes=1)
MAY_CORDON = tuple(rule.key for rule in RULES if rule.may_cordon)
EVERYTHING = WatchEntry.model_validate({"cordon": MAY_CORDON, "after_minutes": 5})
"""The most that a plan file can allow."""


def two_quiet_workers() -> Scene:
    scene = make_scene()
    scene.change(host_gpus=(GPU,))
    for name in scene.views:
        scene.answer("dmesg", by=QUIET, of=name)
    return scene


def read(scene: Scene) -> Verification:
    return scene.run(watch_choice(8, Thresholds()))


def watches(*readings: Verification, every: timedelta = 10 * MINUTE) -> tuple[Watch, WatchMemory]:
    """Return the last of several watches, and what it remembers."""
    memory: WatchMemory | None = None
    for number, found in enumerate(readings):
        watch, memory = watched(memory, found, NOW + number * every)
    assert memory is not None
    return watch, memory


def read_with(fault: Fault) -> Verification:
    scene = two_quiet_workers()
    fault.put(scene)
    return read(scene)


def cordoned(watch: Watch) -> list[str]:
    return [one.sign.target for one in to_cordon(watch.due, EVERYTHING, watch.at)]


@pytest.mark.parametrize(
    "fault", FAULTS, ids=lambda fault: f"{fault.rule}: {fault.log[-40:] or fault.source}"
)
def test_a_planted_fault_is_reported_by_its_rule(fault: Fault) -> None:
    found = read_with(fault)
    watch, _ = watches(found, found, found, found)
    assert fault.rule in {one.sign.rule for one in watch.due}, watch
    assert all(one.sign.host == "esx-01" and one.sign.vm == "hvd-01" for one in watch.due)
    # What a log alone shows is never acted on, and neither is what a rule cannot act on.
    acts = fault.rule in MAY_CORDON and not fault.log
    assert cordoned(watch) == ([f"gpu:esx-01/{GPU}"] if acts else [])


def test_what_machines_print_is_reported_by_its_rules_alone() -> None:
    wrong = []
    for fault in PLANTED:
        found = read_with(fault)
        watch, _ = watches(found, found, found, found)
        rules = {one.sign.rule for one in watch.due}
        target = [f"gpu:esx-01/{GPU}"] if rules & set(MAY_CORDON) and not fault.log else []
        if rules != set(fault.rule.split()) or cordoned(watch) != target:
            wrong.append((fault.log or fault.smi[:80], fault.rule, rules, cordoned(watch)))
    assert wrong == []


def test_xids_before_a_hosts_restart_are_over() -> None:
    scene = two_quiet_workers()
    line = "2026-11-01T00:00:00.1Z NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.\n"
    grep = ("grep", "-iE", "NVRM: Xid", "/var/log/vmkernel.log")
    scene.host_shells = FakeGuests({"esx-01": FakeGuest("esx-01", {grep: line})})
    for restart, rules in (("2026-10-01", ["gpu-lost"]), ("2026-11-02", [])):
        scene.hosts = [replace(scene.hosts[0], has_shell=True, since=datetime.fromisoformat(restart))]
        watch, _ = watches(*[read(scene)] * 2)
        assert [one.sign.rule for one in watch.due if one.sign.checks == ("host-kernel-log",)] == rules


def test_an_alarm_is_named_once_for_its_host_until_it_is_acknowledged_or_unreadable() -> None:
    found = read_with(next(fault for fault in PLANTED if fault.rule == "alarm"))
    (sign,) = [one.sign for one in watches(found, found)[0].due]
    told = (f"Host hardware power status, since {NOW:%Y-%m-%d %H:%M} UTC",)
    assert (sign.place, sign.target, sign.words) == ("host esx-01", "host:esx-01", told)
    scene = two_quiet_workers()
    unread = watches(found, read(scene))[0]
    assert ([one.sign for one in unread.due], unread.gone) == ([sign], ())
    scene.hosts = [replace(scene.hosts[0], alarms=())]
    assert [one.sign for one in watches(found, read(scene))[0].gone] == [sign]


def test_dcgms_words_are_shown_until_it_reports_health_again() -> None:
    fault = next(fault for fault in PLANTED if fault.rule == "dcgm warning")
    found = read_with(fault)
    told = {one.sign.rule: one.sign.words for one in watches(found)[0].due}
    assert told == {
        "dcgm": ("GPU 0, InfoROM system: A corrupt InfoROM has been detected in GPU 0.",),
        "warning": ("GPU 0, PCIe system: Detected more than 8 PCIe replays per minute for GPU 0 : 11",),
    }
    assert {one.sign.target for one in watches(found)[0].due} == {f"gpu:esx-01/{GPU}"}
    scene = two_quiet_workers()
    scene.change(host_gpus=(GPU, "0000:af:00.0"))
    fault.put(scene)
    assert {one.sign.target for one in watches(read(scene))[0].due} == {"host:esx-01"}
    silent = read(two_quiet_workers())
    assert {one.sign.rule for one in watches(found, silent)[0].due} == set(told)
    sound = read_with(
        Fault("", "", plant=answers("dcgmi", by='{"body": {"Overall Health": {"value": "Healthy"}}}'))
    )
    assert {one.sign.rule for one in watches(found, sound)[0].gone} == set(told)


def test_sound_workers_show_no_sign() -> None:
    watch, memory = watches(read(two_quiet_workers()), read(two_quiet_workers()))
    assert (watch.due, watch.pending, watch.gone, watch.unread) == ((), (), (), ())
    assert set(memory.counters) == {"hvd-01", "hvd-02"}


def test_a_vm_that_is_off_as_planned_is_no_sign() -> None:
    scene = two_quiet_workers()
    scene.change(powered_on=False, shall_run=False)
    watch, _ = watches(read(scene), read(scene))
    assert (watch.due, watch.unread) == ((), ())
    scene.change(shall_run=True)
    assert [one.sign.rule for one in watches(*[read(scene)] * 3)[0].due] == ["guest-silent"]


def test_xids_of_programs_are_notes_by_which_nothing_may_be_cordoned() -> None:
    for number in OF_PROGRAMS:
        assert rule_of(f"xid-{number}") is BY_KEY["application"]
    assert not BY_KEY["application"].may_cordon
    assert rule_of("xid-999") is BY_KEY["other-xid"]
    assert rule_of("VG675") is None


def test_every_xid_that_explain_knows_has_one_rule() -> None:
    numbers = [row.key for row in XID_ROWS if row.key != "xid-other"]
    assert {key for key in numbers if rule_of(key) is BY_KEY["other-xid"]} == {
        "xid-61",
        "xid-78",
        "xid-92",
        "xid-121",
    }
    kinds = [kind for rule in RULES for kind in rule.kinds]
    assert len(kinds) == len(set(kinds))


def test_the_plan_file_offers_the_rules_that_may_cordon() -> None:
    offered = WatchEntry.model_fields["cordon"].annotation
    assert offered.__args__[0].__args__ == MAY_CORDON  # type: ignore[union-attr]  # it has one


PAGE = (Path(__file__).parents[3] / "docs/how-to/watch-the-hardware.md").read_text(encoding="utf-8")


def test_the_guide_shows_a_block_as_it_is_printed_and_names_every_rule() -> None:
    gpu = "0000:21:00.0"
    sign = Sign(
        rule="memory-failed",
        host="esx-01.lab",
        vm="hvd-01",
        gpu=gpu,
        target=f"gpu:esx-01.lab/{gpu}",
        words=("memory row remapping failed",),
        is_now=True,
    )
    at = datetime(2026, 11, 29, 23, 15, tzinfo=UTC)
    due = (Watched(sign=sign, since=at, held_since=at, seen_at=at),)
    watch = Watch(plan="demo", server="vc01.example.com", file="plan.yaml", at=at, due=due)
    block = [line.plain.rstrip() for line in render_watch(watch, 120)][2:]
    assert "\n".join(block).strip() in PAGE
    assert [rule.key for rule in RULES if f"`{rule.key}`" not in PAGE] == []


# ---------------------------------------------------------------- over time

SICK = Fault(
    "memory-failed", "", smi=changed("Remapping Failure Occurred : No", "Remapping Failure Occurred : Yes")
)


def test_a_state_acts_once_it_has_lasted_in_three_readings() -> None:
    sick, sound = read_with(SICK), read(two_quiet_workers())
    unread = read_with(Fault("", "", plant=lambda scene: scene.answer("uname", "-r", by=failing("no", 255))))
    assert cordoned(watches(sick)[0]) == []
    assert cordoned(watches(sick, sick, sick)[0]) == [f"gpu:esx-01/{GPU}"]
    assert cordoned(watches(sick, sick, sick, every=MINUTE)[0]) == []
    assert cordoned(watches(sick, sick, sound, sick)[0]) == []
    assert cordoned(watches(sick, sick, unread, sick)[0]) == []
    assert (
        to_cordon(watches(sick, sick, sick)[0].due, WatchEntry(cordon=("gpu-lost",)), NOW + 20 * MINUTE) == ()
    )


def test_a_sign_is_new_once_and_its_end_is_reported() -> None:
    sick, sound = read_with(SICK), read_with(Fault("", ""))
    first, _ = watches(sick)
    second, _ = watches(sick, sick)
    third, _ = watches(sick, sick, sound)
    assert [len(one.new) for one in (first, second, third)] == [1, 0, 0]
    assert [len(one.gone) for one in (first, second, third)] == [0, 0, 1]
    assert second.due[0].since == NOW


def test_what_passes_by_itself_is_pending_first() -> None:
    hot = read_with(
        Fault("", "", smi=changed("SW Thermal Slowdown : Not Active", "SW Thermal Slowdown : Active"))
    )
    assert [one.sign.rule for one in watches(hot)[0].pending] == ["thermal"]
    assert [one.sign.rule for one in watches(hot, hot, hot)[0].due] == ["thermal"]


@pytest.mark.parametrize(
    ("counter", "more", "rule"),
    [
        ("rx_prio3_pause_duration", 60_000_000, "pauses"),
        ("rx_prio3_pause_duration", 1_000_000, ""),
        ("tx_pause_storm_error_events", 1, "pauses"),
        ("rx_discards_phy", 12, "pauses"),
        ("rx_crc_errors_phy", 3, "nic"),
        ("rx_discards_phy", -5, ""),
    ],
)
def test_counters_of_a_nic_that_rise(counter: str, more: int, rule: str) -> None:
    readings = []
    for value in (100, 100 + more, 100 + 2 * more):
        scene = two_quiet_workers()
        scene.answer("ethtool", "-S", "ens192", by=f"NIC statistics:\n     {counter}: {value}\n")
        readings.append(read(scene))
    watch, _ = watches(*readings)
    assert {one.sign.rule for one in watch.due} == ({rule} if rule else set())


# ---------------------------------------------------------------- healthy clusters

_PROGRAMS = (
    "13, pid=4711, name=python, Graphics SM Warp Exception on (GPC 0): Out Of Range Address",
    "31, pid=4711, name=python, Ch 00000008, MMU Fault: ENGINE GRAPHICS faulted @ 0x7f_00000000",
    "43, pid=4711, name=python, Ch 00000008",
    "45, pid=4711, name=python, Ch 00000008",
    "69, pid=4711, name=python, Class Error",
    "109, pid=4711, name=python, Ch 00000008, errorString CTX SWITCH TIMEOUT",
)
_NO_DRIVER = "Failed to initialize NVML: Driver/library version mismatch\n"


def _programs(dice: random.Random, scene: Scene) -> None:
    lines = [f"[ 60.1] NVRM: Xid (PCI:0000:3b:00): {one}" for one in dice.choices(_PROGRAMS, k=4)]
    scene.answer("dmesg", by=QUIET + "\n".join(lines) + "\n")


def _restart(_: random.Random, scene: Scene) -> None:
    scene.answer("uname", "-r", by=failing("ssh: connect to host hvd-01 port 22: Connection refused", 255))


def _reset(dice: random.Random, scene: Scene) -> None:
    scene.answer(
        "nvidia-smi", "-q", by=dice.choice((recovery("Reset"), f"{LOST} this GPU\n", recovery("Reboot")))
    )
    line = xid(154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)")
    scene.answer("dmesg", by=f"{QUIET}{line}\n")


def _upgrade(_: random.Random, scene: Scene) -> None:
    scene.answer("nvidia-smi", "-q", by=failing(_NO_DRIVER, 18))


def _renewal(dice: random.Random, scene: Scene) -> None:
    state = dice.choice(("Unlicensed (Unrestricted)", "Unlicensed"))
    scene.answer("nvidia-smi", "-q", by=OF_VGPU.replace(": Licensed (", f": {state} ("))


def _hot(dice: random.Random, scene: Scene) -> None:
    reason = dice.choice(("HW Thermal Slowdown", "SW Thermal Slowdown", "HW Power Brake Slowdown"))
    scene.answer("nvidia-smi", "-q", by=changed(f"{reason} : Not Active", f"{reason} : Active"))


def _busy(dice: random.Random, scene: Scene) -> None:
    """Let vCenter show what a host at work is often shown with."""
    alarms = [
        HostAlarm(name=f"Host {of} usage", is_red=dice.random() < 0.5, since=NOW) for of in ("CPU", "memory")
    ]
    scene.hosts = [replace(host, alarms=tuple(alarms)) for host in scene.hosts]


def _warned(dice: random.Random, scene: Scene) -> None:
    dice.choice([fault for fault in PLANTED if fault.rule == "warning"]).put(scene)


def _sound(_: random.Random, scene: Scene) -> None:
    scene.answer("nvidia-smi", "-q", by=SOUND)


LASTING = {
    _programs: 60,
    _hot: 60,
    _upgrade: 12,
    _renewal: 6,
    _restart: 6,
    _reset: 2,
    _sound: 9,
    _busy: 60,
    _warned: 60,
}
"""Events of a healthy cluster, and for how many readings in a row each lasts at most."""


@pytest.fixture(scope="module")
def moments() -> dict[object, tuple[Verification, ...]]:
    """Return random readings during each event."""
    found: dict[object, tuple[Verification, ...]] = {}
    for event in LASTING:
        readings = []
        for seed in range(6):
            scene = two_quiet_workers()
            event(random.Random(seed), scene)  # noqa: S311 - a test's dice
            readings.append(read(scene))
        found[event] = tuple(readings)
    return found


def test_a_healthy_cluster_is_never_cordoned(moments: dict[object, tuple[Verification, ...]]) -> None:
    """Each run is five hours of readings, five minutes apart; all of the events occur."""
    occurred: set[object] = set()
    for seed in range(examples(20, 1000)):
        dice = random.Random(seed)  # noqa: S311 - a test's dice
        memory: WatchMemory | None = None
        number = 0
        last: object = None
        while number < 60:
            event = dice.choice([one for one in LASTING if one is not last])
            last = event
            occurred.add(event)
            for found in dice.choices(moments[event], k=dice.randint(1, LASTING[event])):
                watch, memory = watched(memory, found, NOW + 5 * number * MINUTE)
                number += 1
                assert cordoned(watch) == [], f"seed {seed}, reading {number}"
    assert occurred == set(LASTING)


def test_its_events_are_seen_all_the_same(moments: dict[object, tuple[Verification, ...]]) -> None:
    seen = {event: {one.sign.rule for one in watches(*moments[event][:1] * 5)[0].due} for event in LASTING}
    assert seen[_programs] >= {"application"}
    assert seen[_hot] & {"thermal", "power"}
    assert seen[_upgrade] == {"driver"}
    assert seen[_renewal] == {"licence"}
    assert seen[_reset] & set(MAY_CORDON)
    assert seen[_restart] == {"guest-silent"}
    assert seen[_busy] & {"alarm", "warning"}
    assert seen[_warned] == {"warning"}
    assert seen[_sound] == set()
