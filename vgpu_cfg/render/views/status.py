"""The hosts, VMs and guests of a plan as rows: their states, and their differences from the plan file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from vgpu_cfg.changes.base import ChangeBase, of_kind
from vgpu_cfg.changes.change import Change, ManualStep, StageGuest
from vgpu_cfg.changes.plan import Diagnostic, LostHost, LostVm, Plan, UnknownHost
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.suggestion import Difference
from vgpu_cfg.changes.values import Impact, Subject, edit_text
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.guests.guest import (
    GUEST_MARK_KEY,
    PAUSED,
    REPORT_KEY,
    TRAINING_KEY,
    TRAINING_REPORT_KEY,
    GuestReport,
    outdated,
    parse_mark,
    parse_report,
    parse_training,
)
from vgpu_cfg.model.observed.host_facts import HostFacts
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import AFFINITY_KEY, PowerState, Vm
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.drift import differences_of
from vgpu_cfg.planning.estate.ownership import is_marked, own_and_taken
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.hosts.window import windows_of
from vgpu_cfg.planning.sync import is_in_sync, waits_for
from vgpu_cfg.render.views.plan import UnknownRow, error_count, view_unknown

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
        _lost_host_row(lost[name])
        if name in lost
        else _host_row(
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


def _host_row(
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
    drift = [
        *_host_drift(changes),
        *(found.message for found in findings if found.code == Code.SETTING_DIFFERS),
    ]
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


def _lost_host_row(lost: LostHost) -> HostStatus:
    """Make the row of a host that does not respond: of nothing else is anything known."""
    words = f"{lost.connection.words}, with {fold_names(vm.name for vm in lost.vms)} on it"
    return HostStatus(
        lost.host.name,
        lost.host.moid,
        is_in_maintenance_mode=False,
        drift=(words,),
        silence=lost.connection.words,
    )


def _host_drift(changes: Sequence[Change]) -> list[str]:
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


@dataclass(frozen=True, slots=True)
class GuestStatus:
    """The state of a guest. `state` is "staged", "outdated", "not staged", "needs a manual step" or "failed".

    `modules` are those to be staged, `module` and `why` the failed or waiting one in the guest's own words.
    `address` and `host_name` are reported by its tools. `training` is "since …" or "paused".
    """

    state: str
    modules: tuple[str, ...] = ()
    module: str = ""
    why: str = ""
    address: str = ""
    host_name: str = ""
    training: str = ""


def guest_status(vm: Vm, desired: DesiredVm | None, change: StageGuest | None) -> GuestStatus | None:
    """Return the state of a VM's guest; None if the plan stages none. `change` is the plan's change."""
    is_staged = desired is not None and desired.guest is not None and desired.guest.is_staged
    if vm.detail is None or desired is None or not is_staged or "guest" in desired.ignore:
        return None
    options, seen = vm.detail.extra_config, vm.detail.guest
    mark = parse_mark(options.get(GUEST_MARK_KEY, ""))
    modules = outdated(change.spec.modules, mark, {}) if change is not None else ()
    if change is not None and not modules:
        modules = change.modules
    state = "staged" if mark and not modules else "outdated" if mark else "not staged"
    report = parse_report(options.get(REPORT_KEY, ""))
    found = _trouble(report, modules)
    return GuestStatus(
        state=found[0] or state,
        modules=tuple(modules),
        module=found[1],
        why=found[2],
        address=seen.address if seen is not None else "",
        host_name=seen.host_name if seen is not None else "",
        training=_training(vm, options),
    )


def _training(vm: Vm, options: Mapping[str, str]) -> str:
    """Return the training that a guest reports, or that a run has paused from this VM."""
    if options.get(TRAINING_KEY, "") == PAUSED:
        return PAUSED
    return parse_training(options.get(TRAINING_REPORT_KEY, "")) if vm.is_on else ""


def staged_status(vm: Vm, change: StageGuest) -> GuestStatus:
    """Return the state of a guest after a run that was to stage it."""
    detail = vm.detail
    options = detail.extra_config if detail is not None else {}
    modules = outdated(change.spec.modules, parse_mark(options.get(GUEST_MARK_KEY, "")), {})
    found = _trouble(parse_report(options.get(REPORT_KEY, "")), modules)
    state = found[0] or ("outdated" if modules else "staged")
    seen = detail.guest if detail is not None else None
    return GuestStatus(
        state,
        modules,
        found[1],
        found[2],
        seen.address if seen is not None else "",
        seen.host_name if seen is not None else "",
    )


def _trouble(report: GuestReport | None, modules: Sequence[str]) -> tuple[str, str, str]:
    """Return state, module and reason of what failed in a guest, if it is still to be brought."""
    for state, word in (("failed", "failed"), ("hand", "needs a manual step")):
        found = report.first_in(state) if report is not None else None
        if found is not None and found.name in modules:
            return word, found.name, found.why
    return "", "", ""


@dataclass(frozen=True, slots=True)
class VmRow:
    """A VM. `state` is vSphere's power state, "missing", or "disconnected" where its host does not respond.

    It is "expired" if it is missing and past its date: then it is not made.

    It is "not owned" where a VM is in its place that is not the plan's, or of which that is not clear.

    `affinity` is `numa.nodeAffinity` as set, `gpu_nodes` the nodes its GPUs really are on. `guest` is None
    where the plan stages none.
    """

    name: str
    moid: str
    state: str
    host: str
    gpu_pci_ids: tuple[str, ...]
    gpu_nodes: tuple[int, ...]
    profiles: tuple[str, ...]
    affinity: str
    drift: tuple[str, ...]
    guest: GuestStatus | None = None

    @property
    def is_in_sync(self) -> bool:
        """Whether nothing differs."""
        return not self.drift

    @property
    def word(self) -> str:
        """Its state as readers spell it: on, off, suspended, missing, expired, not owned, disconnected."""
        return state_word(self.state)


@dataclass(frozen=True, slots=True)
class StatusView:
    """All rows of one plan, in the plan file's order, orphans last.

    `others` are the remaining changes that no row shows: to clusters, networks and vCenter itself; `unknown`
    are the hosts' unread settings. `differences` are those of hosts and VMs, value by value.
    """

    plan: str
    server: str
    datacenter: str
    read_at: str
    vms: tuple[VmRow, ...]
    findings: tuple[Diagnostic, ...]
    is_in_sync: bool
    hosts: tuple[HostStatus, ...] = ()
    others: tuple[str, ...] = ()
    unknown: tuple[UnknownRow, ...] = ()
    differences: tuple[Difference, ...] = ()
    waits: str = ""
    """Until when the plan only holds its reservation, in words; empty for one that has begun."""
    windows: tuple[str, ...] = ()
    """The maintenance windows that changes wait for: when each opens next, and how many are needed."""


def state_word(state: str) -> str:
    """Spell a power state as readers do."""
    known = {one.value: one.word for one in PowerState}
    return known.get(state, state)


def differing(view: StatusView) -> int:
    """Count the hosts and VMs that differ from the plan file, and the changes that no row shows."""
    hosts = sum(not row.is_in_sync for row in view.hosts)
    return hosts + sum(not row.is_in_sync for row in view.vms) + len(view.others)


def verdict_of(view: StatusView) -> tuple[str, str]:
    """Say whether all is as the plan file says: a colour, and words; what could not be read may differ."""
    silent = sum(bool(row.silence) for row in view.hosts)
    cordoned = sum(bool(row.cordoned) for row in view.hosts)
    count = differing(view) - silent
    unread = sum(not row.is_read for row in view.hosts)
    errors = error_count(view.findings)
    answers = f"{counted(silent, 'host')} {'does' if silent == 1 else 'do'} not respond" if silent else ""
    if count:
        differ = f"{count} {'differs' if count == 1 else 'differ'}"
        return "yellow", f"{differ}, {answers}" if answers else differ
    if answers:
        return "yellow", answers
    if errors:
        return "red", f"not in sync: {counted(errors, 'error')}"
    if unread and view.is_in_sync:
        return "yellow", f"in sync except for {counted(unread, 'partly unknown host')}"
    if view.waits:
        return "cyan", view.waits
    if cordoned and view.is_in_sync:
        return "yellow", f"in sync; {counted(cordoned, 'host')} cordoned"
    return ("green", "in sync") if view.is_in_sync else ("yellow", "not in sync: see the findings")


def view_status(
    plan: Plan, observed: Inventory, differences: tuple[Difference, ...] | None = None
) -> StatusView:
    """Make the rows of a plan from the latest reading.

    `differences` are those of the plan with vCenter's events about them, if requested.
    """
    owned, taken = own_and_taken(plan.desired, observed)
    own = {vm.name: vm for vm in observed.vms if is_marked(vm, plan.desired.identity)} | owned
    holders = gpus_by_vm(observed)
    changes: dict[str, list[ChangeBase]] = {}
    for change in (part for whole in plan.changes for part in whole.parts()):
        changes.setdefault(change.subject.name, []).append(change)
    lost = {vm.name: _lost_words(one, vm) for one in plan.lost_hosts for vm in one.vms}
    desired = {vm.name: vm for vm in plan.desired.vms}
    stages = {change.vm.name: change for change in of_kind(plan.changes, StageGuest)}
    guests = {name: guest_status(vm, desired.get(name), stages.get(name)) for name, vm in own.items()}
    is_waiting = any(found.code == Code.RESERVED_FIRST for found in plan.diagnostics)
    wanted = (vm.name for vm in plan.desired.vms if not is_waiting or vm.name in own)
    names = [*dict.fromkeys([*wanted, *plan.orphans])]
    rows = tuple(
        replace(
            _row(name, own.get(name), observed, holders, _drift(name, plan, changes.get(name, [])))
            if name not in lost
            else _lost_row(_row(name, own.get(name), observed, holders, ()), lost[name]),
            guest=guests.get(name),
        )
        for name in names
    )
    past = {vm.name for vm in plan.desired.vms if vm.is_expired(plan.read_at.date())}
    rows = tuple(
        replace(row, state="expired", drift=())
        if row.name in past and row.name not in taken and not row.moid
        else row
        for row in rows
    )
    rows = tuple(
        replace(row, state="not owned") if row.name in taken and not row.moid else row for row in rows
    )
    hosts = view_hosts(plan, observed)
    known = differences_of(plan) if differences is None else differences
    return StatusView(
        plan=plan.name,
        server=plan.target.address,
        datacenter=plan.target.datacenter,
        read_at=plan.read_at.isoformat(),
        vms=rows,
        findings=plan.diagnostics,
        is_in_sync=is_in_sync(plan),
        differences=(*known, *_of_rows(known, rows, hosts)),
        waits=waits_for(plan),
        windows=windows_of(plan.changes, plan.read_at),
        unknown=view_unknown(plan),
        hosts=hosts,
        others=tuple(
            change.id
            for change in plan.changes
            if change.subject.kind not in ("host", "vm") and not change.overridden
        ),
    )


def _of_rows(
    known: Iterable[Difference], rows: Iterable[VmRow], hosts: Iterable[HostStatus]
) -> Iterator[Difference]:
    """Yield the differences of rows without a single differing value."""
    told = {(one.subject.kind, one.subject.name) for one in known}
    both: list[tuple[str, HostStatus | VmRow]] = [("host", one) for one in hosts]
    both += [("vm", one) for one in rows]
    for kind, row in both:
        if row.drift and (kind, row.name) not in told:
            subject = Subject(kind=kind, name=row.name, moid=row.moid or None)
            yield Difference(
                subject=subject, what="VM" if kind == "vm" else kind, wanted="", found="; ".join(row.drift)
            )


def gpus_by_vm(observed: Inventory) -> Mapping[str, tuple[tuple[str, int | None], ...]]:
    """Map the moid of each VM that holds GPUs to their addresses and NUMA nodes."""
    found: dict[str, list[tuple[str, int | None]]] = {}
    for host in observed.hosts:
        for gpu in host.gpus:
            for moid in gpu.vm_moids:
                found.setdefault(moid, []).append((gpu.pci_id, gpu.numa_node))
        nodes = {device.pci_id: device.numa_node for device in host.pci_devices}
        for vm in observed.vms_by_host.get(host.moid, ()):
            for device in vm.detail.passthrough_gpus if vm.detail and vm.is_on else ():
                pci_id = device.pci_id or device.assigned_id
                if pci_id is not None:
                    found.setdefault(vm.moid, []).append((pci_id, nodes.get(pci_id)))
    return {moid: tuple(dict.fromkeys(gpus)) for moid, gpus in found.items()}


def make_row(vm: Vm, observed: Inventory, holders: Mapping[str, tuple[tuple[str, int | None], ...]]) -> VmRow:
    """Make the row of a VM that exists, with no say on what differs."""
    return _row(vm.name, vm, observed, holders, ())


def _row(
    name: str,
    vm: Vm | None,
    observed: Inventory,
    holders: Mapping[str, tuple[tuple[str, int | None], ...]],
    drift: tuple[str, ...],
) -> VmRow:
    if vm is None:
        return VmRow(name, "", "missing", "", (), (), (), "", drift)
    host = observed.host_by_moid.get(vm.host_moid or "")
    gpus = holders.get(vm.moid, ())
    return VmRow(
        name=name,
        moid=vm.moid,
        state=vm.power_state.value,
        host=host.name if host else "",
        gpu_pci_ids=tuple(pci_id for pci_id, _ in gpus),
        gpu_nodes=tuple(sorted({node for _, node in gpus if node is not None})),
        profiles=tuple(vgpu.profile for vgpu in vm.detail.vgpus) if vm.detail else (),
        affinity=vm.detail.extra_config.get(AFFINITY_KEY, "") if vm.detail else "",
        drift=drift,
    )


def _lost_words(host: LostHost, vm: LostVm) -> str:
    """Say of a VM that its host does not respond, and how it was seen last."""
    return f"{host.host.name} {host.connection.words}: last known {vm.power_state.word}"


def _lost_row(row: VmRow, words: str) -> VmRow:
    return replace(row, state="disconnected", drift=(words,))


def _drift(name: str, plan: Plan, changes: list[ChangeBase]) -> tuple[str, ...]:
    if name in plan.orphans:
        return ("not in the plan file",)
    if not changes and name not in plan.in_sync:
        return ("see the findings",)
    words: list[str] = []
    for change in changes:
        if change.makes:
            return ("not created yet",)
        if change.face.is_by_hand:
            continue
        if change.staged:
            words.append(f"guest: {', '.join(change.staged)}")
            continue
        is_cycle = change.impact is Impact.POWER_CYCLE
        words += [edit_text(edit) for edit in change.edits if not (is_cycle and edit.key == "power")]
    return tuple(dict.fromkeys(words)) or (("run `plan` to see the remaining changes",) if changes else ())
