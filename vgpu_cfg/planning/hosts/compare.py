"""A host's deviations from its requests: every setting of the table against the host's reading.

While its shell is closed, a setting can have the value that the host's attributes remember. A value is
remembered if it is in force and waits for nothing. It is void with anything that the setting's row names, and
it never suffices for a write: before a write a host is read.

Belief: boot-time-is-steady, settings-change-at-boot-only.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from datetime import date, datetime

from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import (
    MOST_IN_ONE,
    NO_LOCKDOWN,
    SHELL_GROUPS,
    FactGroup,
    RememberedValue,
    attribute_of_row,
    device_digest,
    is_same_boot,
    remembered_text,
    state_digest,
    value_digest,
    values_of_row,
)
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    HostSetting,
    HostView,
    Invalidator,
    Reading,
    Remembering,
    needs_of,
)
from vgpu_cfg.planning.host_settings.gpus.driver import driver_facts
from vgpu_cfg.planning.host_settings.resolved_host import Drift, DriftKind, ResolvedHost
from vgpu_cfg.planning.host_settings.table import SETTINGS

_BOOT_SECONDS = 10
"""The boot times of one boot may differ by less than this (`is_same_boot`)."""


_Unread = tuple[HostSetting, DesiredSetting, Reading]


def desired_settings_of(entry: DesiredHosts, view: HostView) -> Iterable[tuple[HostSetting, DesiredSetting]]:
    """Yield everything that an entry of the plan file asks of a host, in the table's order."""
    for setting in SETTINGS:
        for desired in setting.desired_settings(entry, view):
            yield setting, desired


def compare_host(resolved: ResolvedHost, findings: Findings) -> None:
    """Sort the desired settings of a host into correct, deviating and unknown ones.

    The rest are findings. Values of a closed shell are recalled, if they were kept; if the shell cannot be
    read before a write, that does not suffice.
    """
    unread: list[_Unread] = []
    recalled: list[_Unread] = []
    for setting, desired in resolved.desired_settings.values():
        reading = setting.read(resolved.view, desired.device)
        if reading.unread and not reading.is_absent and resolved.view.facts.shell is None:
            remembered = recall(setting, desired, resolved.view)
            if remembered is not None:
                recalled.append((setting, desired, reading))
                reading = remembered
        if reading.is_absent and not desired.comes_back:
            _refuse(resolved, setting, desired, reading, findings)
        elif reading.unread:
            unread.append((setting, desired, reading))
        else:
            _sort(resolved, setting, desired, reading, findings)
    if recalled and resolved.drifts and _cannot_be_asked(resolved):
        _forget(resolved, recalled)
        unread += recalled
    _assess_unread(resolved, unread, findings)
    _keep_right(resolved)


def _sort(
    resolved: ResolvedHost,
    setting: HostSetting,
    desired: DesiredSetting,
    reading: Reading,
    findings: Findings,
) -> None:
    """Return whether a reported setting is right, waits for a restart, or is wrong."""
    if _is_right(setting, desired, reading):
        if _waits_for_restart(resolved, desired):
            _take(resolved, setting, desired, reading, DriftKind.PENDING, findings)
        else:
            resolved.right.append((setting, desired, reading))
    elif reading.configured is not None and setting.same(desired.value, reading.configured):
        _take(resolved, setting, desired, reading, DriftKind.PENDING, findings)
    else:
        _take(resolved, setting, desired, reading, DriftKind.WRONG, findings)


def _cannot_be_asked(resolved: ResolvedHost) -> bool:
    """Whether the shell is out of reach: it did not answer, or lockdown mode keeps it closed."""
    facts = resolved.view.facts
    return facts.lockdown not in ("", NO_LOCKDOWN) or bool(facts.unread.keys() & SHELL_GROUPS)


def _forget(resolved: ResolvedHost, recalled: Iterable[_Unread]) -> None:
    """Take back values that were only recalled."""
    ids = {desired.id for _, desired, _ in recalled}
    resolved.right = [one for one in resolved.right if one[1].id not in ids]
    resolved.drifts = [drift for drift in resolved.drifts if drift.desired.id not in ids]


def _keep_right(resolved: ResolvedHost) -> None:
    """Include wanted values that would not stay: a GPU without an own type follows the default."""
    host = resolved.view.host
    for drift in resolved.drifts:
        host = host if drift.kind is DriftKind.PENDING else drift.setting.show(host, drift.desired)
    if host is resolved.view.host:
        return
    then = replace(resolved.view, host=host)
    for setting, desired, reading in tuple(resolved.right):
        if _is_undone(setting, desired, then):
            resolved.right.remove((setting, desired, reading))
            resolved.drifts.append(
                Drift(setting, desired, reading, DriftKind.UNDONE, setting.impact(resolved.view, desired))
            )
    resolved.drifts = [
        replace(drift, kind=DriftKind.UNDONE)
        if drift.kind is DriftKind.PENDING and _is_undone(drift.setting, drift.desired, then)
        else drift
        for drift in resolved.drifts
    ]


def _is_undone(setting: HostSetting, desired: DesiredSetting, then: HostView) -> bool:
    after = setting.read(then, desired.device)
    if after.is_absent or after.unread or after.configured is None:
        return False
    return not setting.same(desired.value, after.configured)


def _is_right(setting: HostSetting, desired: DesiredSetting, reading: Reading) -> bool:
    found = {reading.configured, reading.in_force}
    return all(value is not None and setting.same(desired.value, value) for value in found)


def _waits_for_restart(resolved: ResolvedHost, desired: DesiredSetting) -> bool:
    """Whether this tool wrote the setting and the host has not restarted since.

    It decides if the source reports only the configured value.
    """
    mark = resolved.view.facts.mark
    if mark is None or desired.id not in mark.waiting:
        return False
    return is_same_boot(mark.waiting[desired.id], resolved.view.facts.boot_time)


def _take(
    resolved: ResolvedHost,
    setting: HostSetting,
    desired: DesiredSetting,
    reading: Reading,
    kind: DriftKind,
    findings: Findings,
) -> None:
    if _is_objected_to(resolved, setting, desired, findings):
        return
    if desired.cuts_off and kind is not DriftKind.PENDING:
        remedy = "make sure that nothing uses the NIC; vCenter may lose its connection to the host"
        findings.add(Code.NIC_CUT_OFF, resolved.subject, f"{desired.id}: {desired.cuts_off}", remedy)
    resolved.drifts.append(Drift(setting, desired, reading, kind, setting.impact(resolved.view, desired)))


def _refuse(
    resolved: ResolvedHost,
    setting: HostSetting,
    desired: DesiredSetting,
    reading: Reading,
    findings: Findings,
) -> None:
    if _is_objected_to(resolved, setting, desired, findings):
        return
    resolved.has_refusals = True
    message = f"{desired.id}: {reading.unread or 'the host does not have this setting'}"
    findings.add(Code.NOT_SUPPORTED, resolved.subject, message, "remove this setting for this host")


def _is_objected_to(
    resolved: ResolvedHost, setting: HostSetting, desired: DesiredSetting, findings: Findings
) -> bool:
    """Whether there is an objection to setting it: it is reported, and a refusal unless it only informs."""
    objection = setting.objects(resolved.view, desired)
    if objection is None:
        return False
    findings.add(objection.code, resolved.subject, f"{desired.id}: {objection.message}", objection.remedy)
    if findings.severity_of(objection.code) is not Severity.INFO:
        resolved.has_refusals = True
    return True


def _assess_unread(resolved: ResolvedHost, unread: Iterable[_Unread], findings: Findings) -> None:
    """Decide on unreported settings: those of the shell are unknown, and no difference."""
    changing = {drift.setting.key for drift in resolved.drifts}
    closed: list[str] = []
    for setting, desired, reading in unread:
        is_of_shell = bool(setting.facts & SHELL_GROUPS) and resolved.view.facts.shell is None
        if resolved.view.facts.done.get(desired.id) == desired.value:
            # Somebody gave their word, as nothing can show it.
            resolved.right.append((setting, desired, reading))
        elif resolved.is_checked_only:
            _leave_open(resolved, setting, desired, reading, findings)
            if not is_of_shell:
                message = f"{desired.id} is unknown: {reading.unread}"
                remedy = "grant the account the required privileges (docs/reference/permissions.md)"
                findings.add(Code.CHECK_UNREAD, resolved.subject, message, remedy)
        elif _may_show_later(resolved, setting, desired):
            closed.append(desired.id)
            _leave_open(resolved, setting, desired, reading, findings)
        elif changing & {*needs_of(setting, desired), *setting.after} or setting.by_hand(
            resolved.view, desired
        ):
            _take(resolved, setting, desired, reading, DriftKind.SUPPOSED, findings)
            changing.add(setting.key)
        elif is_of_shell and resolved.entry.access.ssh == "off":
            closed.append(desired.id)
            resolved.has_refusals = True
            _take(resolved, setting, desired, reading, DriftKind.SUPPOSED, findings)
            changing.add(setting.key)
        elif is_of_shell:
            closed.append(desired.id)
            _leave_open(resolved, setting, desired, reading, findings)
        elif not _is_objected_to(resolved, setting, desired, findings):
            resolved.has_refusals = True
            message = f"{desired.id} cannot be read: {reading.unread}"
            remedy = "fix the cause, then run `plan` again"
            findings.add(Code.SETTING_UNREAD, resolved.subject, message, remedy)
    if closed:
        _report_closed(resolved, closed, findings)


def _leave_open(
    resolved: ResolvedHost,
    setting: HostSetting,
    desired: DesiredSetting,
    reading: Reading,
    findings: Findings,
) -> None:
    """Keep a setting as unknown, unless it is to be set and must not be."""
    if not resolved.is_checked_only and _is_objected_to(resolved, setting, desired, findings):
        return
    impact = setting.impact(resolved.view, desired)
    resolved.unknown.append(Drift(setting, desired, reading, DriftKind.UNKNOWN, impact))


def _may_show_later(resolved: ResolvedHost, setting: HostSetting, desired: DesiredSetting) -> bool:
    """Whether a look at the host is all that a setting takes, and the shell may spare it once it is open."""
    is_open = resolved.view.facts.shell is not None or resolved.entry.access.ssh == "off"
    is_look = (
        bool(setting.by_hand(resolved.view, desired))
        and setting.impact(resolved.view, desired) is Impact.NONE
    )
    return is_look and not is_open and bool(setting.facts & SHELL_GROUPS)


def _report_closed(resolved: ResolvedHost, closed: list[str], findings: Findings) -> None:
    """Report why a shell cannot be read at all; a closed one is listed under unknown."""
    facts = resolved.view.facts
    if resolved.entry.access.ssh == "off":
        message = (
            f"{listed(closed, shown=6)} cannot be read without the host's shell; check and set it manually"
        )
        remedy = "set `access: {ssh: open-and-close}`, or confirm the steps with `apply --done`"
        findings.add(Code.SHELL_CLOSED, resolved.subject, message, remedy)
    elif facts.lockdown not in ("", NO_LOCKDOWN):
        message = f"the host is in lockdown mode, so {listed(closed, shown=6)} cannot be read from its shell"
        remedy = (
            "disable lockdown mode while the host is changed, or set `access: {ssh: off}` and "
            "configure these "
            "settings manually"
        )
        findings.add(Code.LOCKDOWN, resolved.subject, message, remedy)
    elif facts.unread.keys() & SHELL_GROUPS:
        reason = next(text for group, text in facts.unread.items() if group in SHELL_GROUPS)
        message = f"the host's shell did not respond: {reason}"
        findings.add(
            Code.SETTING_UNREAD,
            resolved.subject,
            message,
            "correct `access`, then run `plan` again",
            Severity.ERROR,
        )


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
