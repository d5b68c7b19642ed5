"""The prepared hosts of a plan as rows: differences, pending restarts, and hosts down, with reasons."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, ManualStep
from vgpu_cfg.changes.plan import Diagnostic, LostHost, Plan, UnknownHost
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import edit_text
from vgpu_cfg.model.observed.host_facts import HostFacts
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.planning.findings.codes import Code

_UNREAD = frozenset({Code.SHELL_CLOSED, Code.SETTING_UNREAD, Code.CHECK_UNREAD, Code.FIRMWARE_IN_GUEST})


@dataclass(frozen=True, slots=True)
class HostStatus:
    """A host that the plan prepares.

    `drift` are the differences, `pending` the set values that wait for a restart; `is_read` is whether all
    was read; `unknown` names the unread settings, which may differ. `plan`, `since` and `reason` describe the
    plan that holds it in maintenance mode; else they are empty.
    """

    name: str
    moid: str
    is_in_maintenance_mode: bool
    drift: tuple[str, ...]
    pending: tuple[str, ...] = ()
    plan: str = ""
    since: datetime | None = None
    reason: str = ""
    is_read: bool = True
    unknown: tuple[str, ...] = ()
    silence: str = ""
    """How vCenter has lost it: "does not respond", "is disconnected"; empty for one that is connected."""
    cordoned: str = ""
    """The reason for which it, or GPUs of it, are closed to new VMs; empty for one that is open."""

    @property
    def is_in_sync(self) -> bool:
        """Whether nothing differs, waits, or is left in maintenance mode by this tool."""
        return not (self.drift or self.pending or self.plan)

    @property
    def word(self) -> str:
        """Its state in a few words."""
        if self.silence:
            return self.silence
        if self.drift:
            return "differs"
        if self.pending:
            return "waits"
        if self.plan:
            return "held"
        if self.cordoned:
            return "cordoned"
        return "in sync" if self.is_read else "not fully known"

    @property
    def standing(self) -> str:
        """Why it is down or cordoned, and for which plan this tool holds it so."""
        if not self.plan:
            return self.reason or (f"cordoned: {self.cordoned}" if self.cordoned else "")
        since = f" since {self.since:%Y-%m-%d %H:%M}" if self.since is not None else ""
        return f"in maintenance mode for plan {self.plan}{since}: {self.reason or 'no reason recorded'}"


def view_hosts(plan: Plan, observed: Inventory) -> tuple[HostStatus, ...]:
    """Make a row for each host that the plan prepares or has a finding about, by name."""
    changes: dict[str, list[Change]] = {}
    moids: dict[str, str] = {}
    for change in plan.changes:
        if change.subject.kind == "host":
            changes.setdefault(change.subject.name, []).append(change)
            moids.setdefault(change.subject.name, change.subject.moid or change.host_moid or "")
    findings: dict[str, list[Diagnostic]] = {}
    for found in plan.diagnostics:
        if found.subject.kind == "host" and found.subject.moid is not None:
            findings.setdefault(found.subject.name, []).append(found)
            moids.setdefault(found.subject.name, found.subject.moid)
    by_name = {host.name: host.moid for host in observed.hosts}
    unknown = {one.host.name: one for one in plan.unknown}
    moids |= {name: one.host.moid for name, one in unknown.items()}
    lost = {one.host.name: one for one in plan.lost_hosts}
    names = sorted({*plan.hosts_in_sync, *changes, *findings, *unknown})
    return tuple(
        _lost_row(lost[name])
        if name in lost
        else _row(
            name,
            moids.get(name) or by_name.get(name, ""),
            changes.get(name, []),
            findings.get(name, []),
            observed,
            is_in_sync=name in plan.hosts_in_sync,
            unknown=unknown.get(name),
        )
        for name in names
    )


def _row(
    name: str,
    moid: str,
    changes: Sequence[Change],
    findings: Sequence[Diagnostic],
    observed: Inventory,
    *,
    is_in_sync: bool,
    unknown: UnknownHost | None,
) -> HostStatus:
    host = observed.host_by_moid.get(moid)
    facts = observed.facts.hosts.get(moid, HostFacts())
    mark = facts.mark if facts.mark is not None and facts.mark.maintenance else None
    drift = [*_drift(changes), *(found.message for found in findings if found.code == Code.SETTING_DIFFERS)]
    pending = _pending(changes, facts)
    if any(found.code == Code.SHELL_LEFT_OPEN for found in findings):
        pending += ("SSH service must be stopped",)
    standing = next((found.message for found in findings if found.code == Code.STANDS_WAITING), "")
    is_read = unknown is None and not any(found.code in _UNREAD for found in findings)
    is_stated = drift or pending or is_in_sync or mark is not None or standing or not is_read
    if any(found.severity is not Severity.INFO for found in findings) and not is_stated:
        drift.append("see the findings")
    silence = "" if host is None or host.connection is Connection.CONNECTED else host.connection.words
    if silence:
        drift = [silence]
    is_work = any(not change.writes for change in changes)
    if is_work and not (drift or pending or mark is not None):
        drift.append("run `plan` to see the remaining changes")
    return HostStatus(
        name=name,
        moid=moid,
        is_in_maintenance_mode=host.is_in_maintenance_mode if host is not None else bool(standing),
        drift=tuple(dict.fromkeys(drift)),
        pending=pending,
        plan=mark.plan if mark is not None else "",
        since=mark.since if mark is not None else None,
        reason=mark.reason if mark is not None else standing,
        is_read=is_read,
        unknown=tuple(f"{one.title} {one.device}".rstrip() for one in unknown.settings) if unknown else (),
        silence=silence,
        cordoned=_cordoned(host),
    )


def _cordoned(host: Host | None) -> str:
    cordons = host.cordons if host is not None else ()
    return "; ".join(f"{one.pci_id}: {one.reason}" if one.pci_id else one.reason for one in cordons)


def _lost_row(lost: LostHost) -> HostStatus:
    """Make the row of a host that does not respond: of nothing else is anything known."""
    words = f"{lost.connection.words}, with {fold_names(vm.name for vm in lost.vms)} on it"
    return HostStatus(
        lost.host.name,
        lost.host.moid,
        is_in_maintenance_mode=False,
        drift=(words,),
        silence=lost.connection.words,
    )


def _drift(changes: Sequence[Change]) -> list[str]:
    """List the settings to write or to set manually; a value that a reboot would drop is right until then."""
    words = [edit_text(edit) for change in changes if change.edits for edit in change.differing]
    return words or [f"manual: {step.text}" for step in of_kind(changes, ManualStep)]


def _pending(changes: Sequence[Change], facts: HostFacts) -> tuple[str, ...]:
    """Name the settings that are configured as wanted and wait: a restart settles them without a write."""
    written = {target.id for change in changes for target in change.writes}
    settled = [target for change in changes for target in change.in_force if target.id not in written]
    waiting = [
        name
        for name, boot_time in (facts.mark.waiting if facts.mark is not None else {}).items()
        if boot_time == facts.boot_time
    ]
    return tuple(dict.fromkeys([*(f"{target.id} {target.value}" for target in settled), *waiting]))
