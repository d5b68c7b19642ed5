"""Where a host falls short of what is asked: every wish of the table against what the host shows."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import NO_LOCKDOWN, SHELL_GROUPS, is_same_boot
from vgpu_cfg.model.plan.change import Impact, Severity
from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.wording import listed
from vgpu_cfg.planning.host_settings.entry import (
    DesiredSetting,
    HostSetting,
    HostView,
    Objection,
    Reading,
    needs_of,
)
from vgpu_cfg.planning.host_settings.resolved_host import Drift, DriftKind, HostCase
from vgpu_cfg.planning.host_settings.table import SETTINGS


def desired_settings_of(entry: DesiredHosts, view: HostView) -> Iterable[tuple[HostSetting, DesiredSetting]]:
    """Yield everything that an entry of the plan file asks of a host, in the table's order."""
    for setting in SETTINGS:
        for desired in setting.desired_settings(entry, view):
            yield setting, desired


def compare_host(case: HostCase, findings: Findings, *, supposes: bool = True) -> None:
    """Sort the case's wishes into what is right and what falls short; the rest are findings.

    `supposes` as in `PlanOptions`.
    """
    unread: list[tuple[HostSetting, DesiredSetting, Reading]] = []
    for setting, desired in case.desired_settings.values():
        reading = setting.read(case.view, desired.device)
        if reading.is_absent and not desired.comes_back:
            _refuse(case, setting, desired, reading, findings)
        elif reading.unread:
            unread.append((setting, desired, reading))
        elif _is_right(setting, desired, reading):
            if _waits_for_restart(case, desired):
                _take(case, setting, desired, reading, DriftKind.PENDING, findings)
            else:
                case.right.append((setting, desired, reading))
        elif reading.configured is not None and setting.same(desired.value, reading.configured):
            _take(case, setting, desired, reading, DriftKind.PENDING, findings)
        else:
            _take(case, setting, desired, reading, DriftKind.WRONG, findings)
    _judge_unread(case, unread, findings, supposes=supposes)
    _keep_right(case)


def _keep_right(case: HostCase) -> None:
    """Write along what is set as wanted and would not stay: a GPU without an own type follows the default."""
    host = case.view.host
    for drift in case.drifts:
        host = host if drift.kind is DriftKind.PENDING else drift.setting.show(host, drift.desired)
    if host is case.view.host:
        return
    then = replace(case.view, host=host)
    for setting, desired, reading in tuple(case.right):
        if _is_undone(setting, desired, then):
            case.right.remove((setting, desired, reading))
            case.drifts.append(
                Drift(setting, desired, reading, DriftKind.UNDONE, setting.impact(case.view, desired))
            )
    case.drifts = [
        replace(drift, kind=DriftKind.UNDONE)
        if drift.kind is DriftKind.PENDING and _is_undone(drift.setting, drift.desired, then)
        else drift
        for drift in case.drifts
    ]


def _is_undone(setting: HostSetting, desired: DesiredSetting, then: HostView) -> bool:
    after = setting.read(then, desired.device)
    if after.is_absent or after.unread or after.configured is None:
        return False
    return not setting.same(desired.value, after.configured)


def _is_right(setting: HostSetting, desired: DesiredSetting, reading: Reading) -> bool:
    found = {reading.configured, reading.in_force}
    return all(value is not None and setting.same(desired.value, value) for value in found)


def _waits_for_restart(case: HostCase, desired: DesiredSetting) -> bool:
    """Whether this tool wrote the setting and the host has not restarted since.

    It decides where the source tells only what is configured.
    """
    mark = case.view.facts.mark
    if mark is None or desired.id not in mark.waiting:
        return False
    return is_same_boot(mark.waiting[desired.id], case.view.facts.boot_time)


def _take(
    case: HostCase,
    setting: HostSetting,
    desired: DesiredSetting,
    reading: Reading,
    kind: DriftKind,
    findings: Findings,
) -> None:
    objection = setting.objects(case.view, desired)
    if objection is not None:
        _object(case, desired, objection, findings)
        return
    if desired.cuts_off and kind is not DriftKind.PENDING:
        remedy = "see that nothing needs it; vCenter may lose sight of the host"
        findings.add(Code.NIC_CUT_OFF, case.subject, f"{desired.id}: {desired.cuts_off}", remedy)
    case.drifts.append(Drift(setting, desired, reading, kind, setting.impact(case.view, desired)))


def _refuse(
    case: HostCase, setting: HostSetting, desired: DesiredSetting, reading: Reading, findings: Findings
) -> None:
    objection = setting.objects(case.view, desired)
    if objection is not None:
        _object(case, desired, objection, findings)
        return
    case.has_refusals = True
    message = f"{desired.id}: {reading.unread or 'the host has no such setting'}"
    findings.add(Code.NOT_SUPPORTED, case.subject, message, "leave it out for this host")


def _object(case: HostCase, desired: DesiredSetting, objection: Objection, findings: Findings) -> None:
    """Report an objection; one that only informs leaves the host as asked."""
    findings.add(objection.code, case.subject, f"{desired.id}: {objection.message}", objection.remedy)
    if findings.severity_of(objection.code) is not Severity.INFO:
        case.has_refusals = True


def _judge_unread(
    case: HostCase,
    unread: Iterable[tuple[HostSetting, DesiredSetting, Reading]],
    findings: Findings,
    *,
    supposes: bool,
) -> None:
    """Decide over settings that nobody told: supposed to differ where the plan can read them later on."""
    changing = {drift.setting.key for drift in case.drifts}
    closed: list[str] = []
    for setting, desired, reading in unread:
        if case.view.facts.done.get(desired.id) == desired.value:
            case.right.append((setting, desired, reading))  # somebody gave their word, as nothing can show it
        elif case.is_checked_only:
            message = f"{desired.id} is not known: {reading.unread}"
            remedy = "give the account or the shell what reading it takes (docs/reference/permissions.md)"
            case.has_refusals = True
            findings.add(Code.CHECK_UNREAD, case.subject, message, remedy)
        elif _may_be_told_yet(case, setting, desired):
            closed.append(desired.id)
            case.has_refusals = True
        elif changing & {*needs_of(setting, desired), *setting.after} or setting.by_hand(case.view, desired):
            _take(case, setting, desired, reading, DriftKind.SUPPOSED, findings)
            changing.add(setting.key)
        elif setting.facts & SHELL_GROUPS and case.view.facts.shell is None:
            closed.append(desired.id)
            case.has_refusals = True
            if supposes:
                _take(case, setting, desired, reading, DriftKind.SUPPOSED, findings)
                changing.add(setting.key)
        elif (objection := setting.objects(case.view, desired)) is not None:
            _object(case, desired, objection, findings)
        else:
            case.has_refusals = True
            message = f"{desired.id} cannot be read: {reading.unread}"
            remedy = "mend that and plan again; nothing is guessed"
            findings.add(Code.SETTING_UNREAD, case.subject, message, remedy)
    if closed:
        _report_closed(case, closed, findings)


def _may_be_told_yet(case: HostCase, setting: HostSetting, desired: DesiredSetting) -> bool:
    """Whether a look at the host is all that a setting takes, and the shell may spare it once it is open."""
    is_open = case.view.facts.shell is not None or case.entry.access.ssh == "off"
    is_look = bool(setting.by_hand(case.view, desired)) and setting.impact(case.view, desired) is Impact.NONE
    return is_look and not is_open and bool(setting.facts & SHELL_GROUPS)


def _report_closed(case: HostCase, closed: list[str], findings: Findings) -> None:
    access = case.entry.access
    if access.ssh == "off":
        message = (
            f"without the host's shell nobody can tell {listed(closed, shown=6)}: set and proven by hand"
        )
        remedy = "give `access: {ssh: open-and-close}`, or acknowledge the steps with `apply --done`"
    elif case.view.facts.lockdown not in ("", NO_LOCKDOWN):
        message = f"the host is in lockdown mode, so its shell cannot tell {listed(closed, shown=6)}"
        remedy = (
            "end lockdown mode for the time of the work, or give `access: {ssh: off}` and do these by hand"
        )
        findings.add(Code.LOCKDOWN, case.subject, message, remedy)
        return
    elif case.view.facts.unread.keys() & SHELL_GROUPS:
        reason = next(text for group, text in case.view.facts.unread.items() if group in SHELL_GROUPS)
        message = f"the host's shell did not answer: {reason}"
        findings.add(
            Code.SETTING_UNREAD, case.subject, message, "mend `access`, and plan again", Severity.ERROR
        )
        return
    else:
        message = f"not read, the host's shell is closed: {listed(closed, shown=6)}"
        remedy = "`plan --open-shell` opens it to read, as `apply` does; only what differs is changed"
    findings.add(Code.SHELL_CLOSED, case.subject, message, remedy)
