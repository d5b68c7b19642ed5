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
from vgpu_cfg.planning.host_settings.case import Gap, GapKind, HostCase
from vgpu_cfg.planning.host_settings.entry import HostSetting, HostView, Objection, Reading, Wish, needs_of
from vgpu_cfg.planning.host_settings.table import SETTINGS


def wishes_of(entry: DesiredHosts, view: HostView) -> Iterable[tuple[HostSetting, Wish]]:
    """Yield everything that an entry of the plan file asks of a host, in the table's order."""
    for setting in SETTINGS:
        for wish in setting.wishes(entry, view):
            yield setting, wish


def compare_host(case: HostCase, findings: Findings, *, supposes: bool = True) -> None:
    """Sort the case's wishes into what is right and what falls short; the rest are findings.

    `supposes` as in `PlanOptions`.
    """
    unread: list[tuple[HostSetting, Wish, Reading]] = []
    for setting, wish in case.wishes.values():
        reading = setting.read(case.view, wish.device)
        if reading.is_absent and not wish.comes_back:
            _refuse(case, setting, wish, reading, findings)
        elif reading.unread:
            unread.append((setting, wish, reading))
        elif _is_right(setting, wish, reading):
            if _waits_for_restart(case, wish):
                _take(case, setting, wish, reading, GapKind.PENDING, findings)
            else:
                case.right.append((setting, wish, reading))
        elif reading.configured is not None and setting.same(wish.value, reading.configured):
            _take(case, setting, wish, reading, GapKind.PENDING, findings)
        else:
            _take(case, setting, wish, reading, GapKind.WRONG, findings)
    _judge_unread(case, unread, findings, supposes=supposes)
    _keep_right(case)


def _keep_right(case: HostCase) -> None:
    """Write along what is set as wanted and would not stay: a GPU without an own type follows the default."""
    host = case.view.host
    for gap in case.gaps:
        host = host if gap.kind is GapKind.PENDING else gap.setting.show(host, gap.wish)
    if host is case.view.host:
        return
    then = replace(case.view, host=host)
    for setting, wish, reading in tuple(case.right):
        if _is_undone(setting, wish, then):
            case.right.remove((setting, wish, reading))
            case.gaps.append(Gap(setting, wish, reading, GapKind.UNDONE, setting.impact(case.view, wish)))
    case.gaps = [
        replace(gap, kind=GapKind.UNDONE)
        if gap.kind is GapKind.PENDING and _is_undone(gap.setting, gap.wish, then)
        else gap
        for gap in case.gaps
    ]


def _is_undone(setting: HostSetting, wish: Wish, then: HostView) -> bool:
    after = setting.read(then, wish.device)
    if after.is_absent or after.unread or after.configured is None:
        return False
    return not setting.same(wish.value, after.configured)


def _is_right(setting: HostSetting, wish: Wish, reading: Reading) -> bool:
    found = {reading.configured, reading.in_force}
    return all(value is not None and setting.same(wish.value, value) for value in found)


def _waits_for_restart(case: HostCase, wish: Wish) -> bool:
    """Whether this tool wrote the setting and the host has not restarted since.

    It decides where the source tells only what is configured.
    """
    mark = case.view.facts.mark
    if mark is None or wish.id not in mark.waiting:
        return False
    return is_same_boot(mark.waiting[wish.id], case.view.facts.boot_time)


def _take(
    case: HostCase, setting: HostSetting, wish: Wish, reading: Reading, kind: GapKind, findings: Findings
) -> None:
    objection = setting.objects(case.view, wish)
    if objection is not None:
        _object(case, wish, objection, findings)
        return
    if wish.cuts_off and kind is not GapKind.PENDING:
        remedy = "see that nothing needs it; vCenter may lose sight of the host"
        findings.add(Code.NIC_CUT_OFF, case.subject, f"{wish.id}: {wish.cuts_off}", remedy)
    case.gaps.append(Gap(setting, wish, reading, kind, setting.impact(case.view, wish)))


def _refuse(case: HostCase, setting: HostSetting, wish: Wish, reading: Reading, findings: Findings) -> None:
    objection = setting.objects(case.view, wish)
    if objection is not None:
        _object(case, wish, objection, findings)
        return
    case.has_refusals = True
    message = f"{wish.id}: {reading.unread or 'the host has no such setting'}"
    findings.add(Code.NOT_SUPPORTED, case.subject, message, "leave it out for this host")


def _object(case: HostCase, wish: Wish, objection: Objection, findings: Findings) -> None:
    """Report an objection; one that only informs leaves the host as asked."""
    findings.add(objection.code, case.subject, f"{wish.id}: {objection.message}", objection.remedy)
    if findings.severity_of(objection.code) is not Severity.INFO:
        case.has_refusals = True


def _judge_unread(
    case: HostCase,
    unread: Iterable[tuple[HostSetting, Wish, Reading]],
    findings: Findings,
    *,
    supposes: bool,
) -> None:
    """Decide over settings that nobody told: supposed to differ where the plan can read them later on."""
    changing = {gap.setting.key for gap in case.gaps}
    closed: list[str] = []
    for setting, wish, reading in unread:
        if case.view.facts.done.get(wish.id) == wish.value:
            case.right.append((setting, wish, reading))  # somebody gave their word, as nothing can show it
        elif case.is_checked_only:
            message = f"{wish.id} is not known: {reading.unread}"
            remedy = "give the account or the shell what reading it takes (docs/reference/permissions.md)"
            case.has_refusals = True
            findings.add(Code.CHECK_UNREAD, case.subject, message, remedy)
        elif _may_be_told_yet(case, setting, wish):
            closed.append(wish.id)
            case.has_refusals = True
        elif changing & {*needs_of(setting, wish), *setting.after} or setting.by_hand(case.view, wish):
            _take(case, setting, wish, reading, GapKind.SUPPOSED, findings)
            changing.add(setting.key)
        elif setting.facts & SHELL_GROUPS and case.view.facts.shell is None:
            closed.append(wish.id)
            case.has_refusals = True
            if supposes:
                _take(case, setting, wish, reading, GapKind.SUPPOSED, findings)
                changing.add(setting.key)
        elif (objection := setting.objects(case.view, wish)) is not None:
            _object(case, wish, objection, findings)
        else:
            case.has_refusals = True
            message = f"{wish.id} cannot be read: {reading.unread}"
            remedy = "mend that and plan again; nothing is guessed"
            findings.add(Code.SETTING_UNREAD, case.subject, message, remedy)
    if closed:
        _report_closed(case, closed, findings)


def _may_be_told_yet(case: HostCase, setting: HostSetting, wish: Wish) -> bool:
    """Whether a look at the host is all that a setting takes, and the shell may spare it once it is open."""
    is_open = case.view.facts.shell is not None or case.entry.access.ssh == "off"
    is_look = bool(setting.by_hand(case.view, wish)) and setting.impact(case.view, wish) is Impact.NONE
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
