"""A setting's value in a host's attributes while its shell is closed, and the values to keep later.

A value is remembered if it is in force and waits for nothing. It is void with anything that the setting's row
names, and it never suffices for a write: before a write a host is read.

Belief: boot-time-is-steady, settings-change-at-boot-only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime

from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.model.observed.remembered import (
    MOST_IN_ONE,
    RememberedValue,
    attribute_of_row,
    device_digest,
    remembered_text,
    state_digest,
    value_digest,
    values_of_row,
)
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    HostSetting,
    HostView,
    Invalidator,
    Reading,
    Remembering,
)
from vgpu_cfg.planning.host_settings.gpus.driver import driver_facts

_BOOT_SECONDS = 10
"""The boot times of one boot may differ by less than this (`is_same_boot`)."""


def recall(setting: HostSetting, desired: DesiredSetting, view: HostView) -> Reading | None:
    """Return the last reading of a setting, as if it had been read now; None if it is unknown.

    A digest is compared with the wanted value's and with those of the words that the row knows; another value
    stays unknown.
    """
    remembering, host = setting.remembered, view.host.moid
    mark = view.facts.mark
    if remembering is None or (mark is not None and desired.id in mark.waiting):
        return None
    found = values_of_row(view.facts.remembered, setting.key).get(
        device_digest(host, setting.key, desired.device)
    )
    if found is None or found.state not in _states(remembering, view, desired.device):
        return None
    for word in dict.fromkeys((desired.value, *remembering.words)):
        if value_digest(host, setting.key, desired.device, word) == found.value:
            return Reading(configured=word, runtime=word)
    return None


def to_remember(
    desired_settings: Iterable[tuple[HostSetting, DesiredSetting]], view: HostView, today: date
) -> Mapping[str, str]:
    """Return the attributes that are to change, by name, after a host's shell was read; empty clears one.

    Values of other plans there stay.
    """
    asked: dict[str, tuple[HostSetting, list[DesiredSetting]]] = {}
    for setting, desired in desired_settings:
        if setting.remembered is not None:
            asked.setdefault(setting.key, (setting, []))[1].append(desired)
    found: dict[str, str] = {}
    for setting, desired_devices in asked.values():
        found |= _of_row(setting, desired_devices, view, today)
    return found


def _of_row(
    setting: HostSetting, desired_devices: Iterable[DesiredSetting], view: HostView, today: date
) -> dict[str, str]:
    remembering, host, before = setting.remembered, view.host.moid, view.facts.remembered
    if remembering is None:
        return {}
    values = values_of_row(before, setting.key)
    for desired in desired_devices:
        reading = setting.read(view, desired.device)
        if reading.unread or reading.is_absent:
            continue
        device = device_digest(host, setting.key, desired.device)
        values.pop(device, None)
        states = _states(remembering, view, desired.device)
        if states and _is_settled(setting, desired, reading, view):
            value = value_digest(host, setting.key, desired.device, reading.configured or "")
            values[device] = RememberedValue(device=device, state=states[0], value=value, read_on=today)
    newest = sorted(values.values(), key=lambda one: (-one.read_on.toordinal(), one.device))
    kept = sorted(newest[: remembering.attributes * MOST_IN_ONE], key=lambda one: one.device)
    found = {}
    for number in range(1, remembering.attributes + 1):
        name = attribute_of_row(setting.key, number)
        text = remembered_text(host, name, kept[(number - 1) * MOST_IN_ONE : number * MOST_IN_ONE])
        if text != remembered_text(host, name, before.get(name, ())):
            found[name] = text
    return found


def _is_settled(setting: HostSetting, desired: DesiredSetting, reading: Reading, view: HostView) -> bool:
    """Whether the configured value is in force: one that waits for a restart is not kept."""
    if reading.configured is None or reading.in_force is None:
        return False
    mark = view.facts.mark
    is_waiting = mark is not None and desired.id in mark.waiting
    return not is_waiting and setting.same(reading.configured, reading.in_force)


def _states(remembering: Remembering, view: HostView, device: str) -> tuple[str, ...]:
    """Return the states in which a value holds, none if nothing is remembered.

    ESXi's boot time wavers by seconds, so its neighbours are the same boot.
    """
    booted = view.facts.boot_time
    words = [_state_word(invalidator, view) for invalidator in remembering.invalidated_by]
    if booted is None or None in words or remembering.changes_unseen(view, device):
        return ()
    known = [word for word in words if word]
    return tuple(state_digest(str(boot), *known) for boot in _boots(booted, remembering.invalidated_by))


def _boots(booted: datetime, invalidated_by: Collection[Invalidator]) -> tuple[int, ...]:
    if Invalidator.BOOT not in invalidated_by:
        return (0,)
    tick = round(booted.timestamp() / _BOOT_SECONDS)
    return (tick, tick - 1, tick + 1)


def _state_word(invalidator: Invalidator, view: HostView) -> str | None:
    """Put a state into a word, empty if it cannot be one; None if it was not read."""
    match invalidator:
        case Invalidator.BOOT:
            return ""
        case Invalidator.BUILD:
            return f"{view.host.version} {view.host.build}"
        case Invalidator.DRIVER:
            if FactGroup.SOFTWARE not in view.facts.groups:
                return None
            driver = driver_facts(view.facts.software)
            return f"driver {driver.package} {driver.version}"
