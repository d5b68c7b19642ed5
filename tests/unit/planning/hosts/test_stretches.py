from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.observed.host_facts import HostFacts
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting, HostView, Instructions, Reading
from vgpu_cfg.planning.host_settings.resolved_host import Drift, DriftKind
from vgpu_cfg.planning.hosts.sequence import Phases, make_phases

VIEW = HostView(Host(moid="host-1", name="esx-01"), HostFacts())


def setting(key: str, impact: Impact, **more: Any) -> HostSetting:
    is_dropped = more.pop("dropped", False)
    return HostSetting(
        key=key,
        title=key,
        source="a test",
        desired_settings=lambda _entry, _view: (),
        read=lambda _view, _device: Reading("old"),
        write=lambda _view, _desired_settings: (),
        impact=lambda _view, _desired: impact,
        how=lambda _view, _desired: Instructions(why=""),
        group=key,
        remembered=None,
        is_dropped_by_reboot=lambda _view, _desired: is_dropped,
        **more,
    )


def drift(key: str, impact: Impact, device: str = "", **more: Any) -> Drift:
    entry = setting(key, impact, **more)
    return Drift(entry, DesiredSetting(key, "new", device), Reading("old"), DriftKind.WRONG, impact)


def shown(found: Phases) -> list[list[str]]:
    return [[one.desired.id for one in phase] for phase in found.drifts]


def test_what_restarts_for_itself_restarts_once_together() -> None:
    found = make_phases(VIEW, [drift("ats", Impact.HOST_REBOOT), drift("modules", Impact.HOST_REBOOT)], ())
    assert shown(found) == [["ats", "modules"], []]
    assert found.cold == [False]


def test_nothing_that_restarts_is_no_restart() -> None:
    found = make_phases(VIEW, [drift("policy", Impact.NONE), drift("mode", Impact.HOST_MAINTENANCE)], ())
    assert found.restarts == 0
    assert found.needs_empty_host


def test_what_disturbs_nothing_needs_no_empty_host() -> None:
    assert not make_phases(VIEW, [drift("policy", Impact.NONE)], ()).needs_empty_host


def test_what_needs_another_in_force_waits_for_its_restart() -> None:
    drifts = [
        drift("mig", Impact.HOST_REBOOT, "gpu-1", needs_in_force=("driver",)),
        drift("driver", Impact.HOST_REBOOT),
        drift("ats", Impact.HOST_REBOOT),
    ]
    found = make_phases(VIEW, drifts, ())
    assert shown(found) == [["driver", "ats"], ["mig gpu-1"], []]
    assert found.restarts == 2


def test_what_needs_another_that_holds_at_once_waits_for_no_restart() -> None:
    drifts = [
        drift("mig", Impact.HOST_REBOOT, needs_in_force=("passthrough",)),
        drift("passthrough", Impact.HOST_MAINTENANCE),
    ]
    assert shown(make_phases(VIEW, drifts, ())) == [["passthrough", "mig"], []]


def test_devices_do_not_wait_for_each_other() -> None:
    drifts = [
        drift("passthrough", Impact.HOST_MAINTENANCE, "nic-1", needs_in_force=("firmware",)),
        drift("firmware", Impact.HOST_REBOOT, "nic-2 ATS_ENABLED"),
    ]
    assert shown(make_phases(VIEW, drifts, ())) == [["passthrough nic-1", "firmware nic-2 ATS_ENABLED"], []]


def test_a_device_waits_for_its_own() -> None:
    drifts = [
        drift("passthrough", Impact.HOST_MAINTENANCE, "nic-1", needs_in_force=("firmware",)),
        drift("firmware", Impact.HOST_REBOOT, "nic-1 ATS_ENABLED"),
    ]
    assert shown(make_phases(VIEW, drifts, ())) == [["firmware nic-1 ATS_ENABLED"], ["passthrough nic-1"]]


def test_order_without_a_restart_is_kept() -> None:
    drifts = [drift("b", Impact.HOST_REBOOT, after=("a",)), drift("a", Impact.HOST_REBOOT)]
    assert shown(make_phases(VIEW, drifts, ())) == [["a", "b"], []]


def test_what_a_reboot_drops_is_written_after_the_last() -> None:
    drifts = [drift("mode", Impact.HOST_MAINTENANCE, dropped=True), drift("ats", Impact.HOST_REBOOT)]
    assert shown(make_phases(VIEW, drifts, ())) == [["ats"], ["mode"]]


def test_what_is_right_and_would_be_dropped_is_asserted_again() -> None:
    right = [
        (
            setting("mode", Impact.HOST_MAINTENANCE, dropped=True),
            DesiredSetting("mode", "new"),
            Reading("new"),
        )
    ]
    found = make_phases(VIEW, [drift("ats", Impact.HOST_REBOOT)], right)
    assert [[one.kind for one in phase] for phase in found.drifts] == [[DriftKind.WRONG], [DriftKind.DROPPED]]


def test_what_is_right_and_would_be_dropped_is_left_alone_without_a_reboot() -> None:
    right = [
        (
            setting("mode", Impact.HOST_MAINTENANCE, dropped=True),
            DesiredSetting("mode", "new"),
            Reading("new"),
        )
    ]
    assert shown(make_phases(VIEW, [drift("policy", Impact.NONE)], right)) == [["policy"]]


def test_a_service_restarts_only_where_no_reboot_follows() -> None:
    alone = make_phases(VIEW, [drift("type", Impact.SERVICE_RESTART, service="xorg")], ())
    assert list(alone.services) == ["xorg"]
    assert alone.touches_graphics
    drifts = [drift("type", Impact.SERVICE_RESTART, service="xorg"), drift("ats", Impact.HOST_REBOOT)]
    assert not make_phases(VIEW, drifts, ()).services


def test_one_cold_boot_does_for_all_of_its_stretch() -> None:
    found = make_phases(VIEW, [drift("bios", Impact.HOST_COLD_BOOT), drift("ats", Impact.HOST_REBOOT)], ())
    assert found.cold == [True]


KEYS = st.lists(st.sampled_from("abcdefgh"), unique=True, min_size=1)
IMPACTS = st.sampled_from([Impact.NONE, Impact.HOST_MAINTENANCE, Impact.HOST_REBOOT])


@given(keys=KEYS, data=st.data())
def test_every_need_is_in_force_before_and_no_restart_is_idle(keys: list[str], data: st.DataObject) -> None:
    drifts = []
    for index, key in enumerate(keys):
        needs = data.draw(st.lists(st.sampled_from(keys[:index]), unique=True)) if index else []
        drifts.append(drift(key, data.draw(IMPACTS), needs_in_force=tuple(needs)))
    found = make_phases(VIEW, data.draw(st.permutations(drifts)), ())
    place = {one.setting.key: index for index, phase in enumerate(found.drifts) for one in phase}
    order = [one.setting.key for phase in found.drifts for one in phase]
    by_key = {one.setting.key: one for one in drifts}
    assert sorted(order) == sorted(keys)
    for one in drifts:
        for need in one.setting.needs_in_force:
            assert order.index(need) < order.index(one.setting.key)
            assert place[one.setting.key] >= place[need] + by_key[need].restarts
    for index in range(found.restarts):
        assert any(one.restarts for one in found.drifts[index]), "a restart that brings nothing"
