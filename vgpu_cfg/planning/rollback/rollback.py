"""The plan that rolls back a failed run: the inverse of each change, in reverse order of their needs.

The settings of hosts are rolled back as they are planned for any host, with the earlier readings as the
wanted values. Manual steps, and changes that a closed window or `disruption` forbids or whose earlier value
is unknown, are left out, with the reason; the host comes back into service all the same. If a rollback is
requested, the changes that it could not undo are reported before the run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.base import all_needed, of_kind
from vgpu_cfg.changes.change import (
    Change,
    ChangeHost,
    ColdBootHost,
    EnterMaintenance,
    ExitMaintenance,
    PowerOffVm,
    RebootHost,
    RemediateHost,
    RestartService,
    ShutDownHost,
)
from vgpu_cfg.changes.plan import Plan, all_disturbed, reckoned
from vgpu_cfg.changes.report import Outcome
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Impact, Subject
from vgpu_cfg.model.observed.inventory import Connection, Host, Inventory
from vgpu_cfg.model.observed.vm import PowerState
from vgpu_cfg.planning.described import PlanTables
from vgpu_cfg.planning.estate.down_hosts import exit_id
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.host_settings.entry import DesiredSetting, HostSetting
from vgpu_cfg.planning.host_settings.nics.handed_out import HOSTS_OWN, PASSTHROUGH
from vgpu_cfg.planning.host_settings.resolved_host import ResolvedHost, resolve_hosts
from vgpu_cfg.planning.host_settings.table import setting
from vgpu_cfg.planning.hosts.assess import HostAssessor, HostWork
from vgpu_cfg.planning.hosts.sequence import HostSequence, is_by_hand
from vgpu_cfg.planning.hosts.window import parse_window
from vgpu_cfg.planning.rollback.attempt import FailedRun
from vgpu_cfg.planning.rollback.undo_sites import OfSite, undo_site
from vgpu_cfg.planning.rollback.undo_vms import OfVm, undo_vm

OfHost = (
    EnterMaintenance
    | ChangeHost
    | RestartService
    | RebootHost
    | ColdBootHost
    | RemediateHost
    | ShutDownHost
    | ExitMaintenance
)

_Wanted = dict[str, tuple[HostSetting, DesiredSetting]]


def make_rollback(
    plan: Plan,
    outcomes: Iterable[Outcome],
    before: Inventory,
    after: Inventory,
    catalog: Catalog,
    options: PlanOptions | None = None,
) -> Plan:
    """Plan the rollback of a run; `before` is the basis of its plan, `after` the reading since.

    Earlier objects are never deleted, and changes that cannot be undone or are kept on purpose are findings
    of the plan: VG555, VG556.
    """
    run = FailedRun(plan, {one.change_id: one for one in outcomes}, before, after)
    changes = _Undoing(run, HostUndo(run, catalog, options or PlanOptions())).changes()
    touched = {change.subject.moid for change in changes}
    own = {vm.moid for vm in after.vms if vm.is_of(plan.desired.identity)}
    undone = plan.model_copy(
        update={
            "read_at": after.read_at,
            "changes": tuple(changes),
            "diagnostics": run.findings.diagnostics(),
            "placements": (),
            "blocked": (),
            "contests": (),
            "canaries": (),
            "unknown": (),
            "in_sync": (),
            "hosts_in_sync": (),
            "lost_hosts": (),
        }
    )
    return reckoned(undone, after, all_disturbed(changes, after, own), vms=touched, hosts=touched)


class _Undoing:
    """Goes through a run backwards. `_undone` names, by change, those undone before the one it needs."""

    def __init__(self, run: FailedRun, hosts: HostUndo) -> None:
        self._run, self._hosts = run, hosts
        self._begun = tuple(run.begun())
        self._undone: dict[str, tuple[str, ...]] = {}
        self._changes: dict[str, Change] = {}
        self._host_done: set[str] = set()

    def changes(self) -> list[Change]:
        """Return the changes of the rollback, in an order in which they can be made."""
        for change in _backwards(self._run.plan.changes):
            needs = self._needs(change)
            if change not in self._begun:
                self._undone[change.id] = needs
                continue
            made = self._undo(change, needs)
            for one in made:
                self._changes[one.id] = one
            tail = () if not made else (made[-1].id,)
            self._undone[change.id] = tail or needs
        return self._after_moves(self._after_hosts(list(self._changes.values())))

    def _needs(self, change: Change) -> tuple[str, ...]:
        """Return the undone parts of the changes that needed this one."""
        followers = (one for one in self._run.plan.changes if change.id in one.needs)
        found = (name for one in followers for name in self._undone.get(one.id, ()))
        return tuple(dict.fromkeys(name for name in found if name in self._changes))

    def _undo(self, change: Change, needs: tuple[str, ...]) -> list[Change]:
        """Return the inverse of one change, each part after the one before and after `needs`."""
        if isinstance(change, OfHost):
            return self._undo_host(change.host.moid, needs)
        made: list[Change] = []
        for one in undo_change(change, self._run):
            behind = (made[-1].id,) if made else needs
            own = f"{one.id} again" if one.id in self._changes else one.id
            every = tuple(dict.fromkeys((*behind, *one.needs)))
            made.append(one.model_copy(update={"id": own, "needs": every}))
        return made

    def _undo_host(self, moid: str, needs: tuple[str, ...]) -> list[Change]:
        """Roll a host back as one, at the last of its changes."""
        if moid in self._host_done:
            return []
        self._host_done.add(moid)
        of_host = [one for one in self._begun if isinstance(one, OfHost) and one.host.moid == moid]
        freeing = [one.id for one in self._changes.values() if one.host_moid == moid and not one.starts]
        return self._hosts.undo(moid, of_host, self._changes, dict.fromkeys((*needs, *freeing)))

    def _after_hosts(self, changes: Sequence[Change]) -> list[Change]:
        """Let VMs that are started again wait until their host is in service."""
        ids = {change.id for change in changes}
        names = {host.moid: exit_id(host.name) for host in self._run.after.hosts}
        ordered = []
        for change in changes:
            after = names.get(change.host_moid or "", "")
            is_waiting = change.starts and after in ids and after not in change.needs
            own = {"needs": (*change.needs, after)} if is_waiting else {}
            ordered.append(change.model_copy(update=own))
        return ordered

    def _after_moves(self, changes: Sequence[Change]) -> list[Change]:
        """Let rules be set once their VMs are back in the cluster, unless a move waits for the rule to go."""
        direct = {change.id: change.needs for change in changes}
        moves = {vm.name: change.id for change in changes if (vm := change.moves) is not None}
        ordered = []
        for change in changes:
            homes = [moves[vm.name] for vm in change.ruled if vm.name in moves]
            first = [one for one in homes if change.id not in all_needed(direct[one], direct)]
            needs = tuple(dict.fromkeys((*change.needs, *first)))
            ordered.append(change.model_copy(update={"needs": needs}))
        return ordered


def undo_change(change: Change, run: FailedRun) -> Iterable[Change]:
    """List what takes one change back; what cannot be is noted in the run. Hosts are taken back as one."""
    if isinstance(change, OfVm):
        return undo_vm(change, run)
    if isinstance(change, OfSite):
        return undo_site(change, run)
    if isinstance(change, OfHost):
        raise ValueError(f"{change.id} is undone together with its host")
    return run.cannot(change, *change.for_good)


def _backwards(changes: Sequence[Change]) -> list[Change]:
    """Sort changes so that each comes before its needs, the last of the plan first."""
    left: Mapping[str, Change] = {change.id: change for change in changes}
    seen: set[str] = set()
    ordered: list[Change] = []

    def visit(change: Change) -> None:
        if change.id in seen:
            return
        seen.add(change.id)
        for need in change.needs:
            if need in left:
                visit(left[need])
        ordered.append(change)

    for change in changes:
        visit(change)
    return ordered[::-1]


@dataclass(slots=True)
class HostUndo:
    """Plans how hosts are taken back. `options` are those that the run was planned with."""

    run: FailedRun
    catalog: Catalog
    options: PlanOptions
    _observed: Inventory = field(init=False)

    def undo(
        self, moid: str, changes: Sequence[OfHost], first: Mapping[str, Change], needs: Iterable[str]
    ) -> list[Change]:
        """List what takes the changes of one host back, behind `needs`; `first` is undone before."""
        self._observed = self._as_undone(first.values())
        host = self.run.after.host_by_moid.get(moid)
        if host is None or host.connection is not Connection.CONNECTED:
            self._tell(changes[0].subject, "the host is not responding", "reconnect it, then rerun `apply`")
            return []
        wanted = self._wanted(changes)
        work = self._work(host, wanted)
        if work is None:
            return []
        sequence = HostSequence(
            work.resolved, work.phases, work.evacuation, first_needs=tuple(needs), is_held=work.is_held
        )
        return sequence.build()

    def _as_undone(self, first: Iterable[Change]) -> Inventory:
        """Return the estate once these are done: VMs that the run made have gone, others are off again."""
        off = {one.vm.moid for one in of_kind(first, PowerOffVm)}
        made = {vm.moid for vm in self.run.made.values()}
        vms = tuple(
            vm.model_copy(update={"power_state": PowerState.OFF}) if vm.moid in off else vm
            for vm in self.run.after.vms
            if vm.moid not in made
        )
        return self.run.after.model_copy(update={"vms": vms})

    def _wanted(self, changes: Sequence[OfHost]) -> _Wanted:
        """Return the settings that this run wrote, with their values before it first wrote each."""
        wanted: _Wanted = {}
        for change in changes:
            for target in change.brings:
                if target.id in wanted:
                    continue
                row = setting(target.setting)
                words = f"{row.title} {target.device}".rstrip()
                if target.before is None:
                    self._tell(change.subject, f"the previous value of {words} is unknown")
                elif row.stays(target.before):
                    self._tell(change.subject, f"{words} remains {target.value}: {row.stays(target.before)}")
                elif not row.same(target.value, target.before):
                    back = DesiredSetting(target.setting, target.before, device=target.device)
                    wanted[target.id] = (row, back)
        return _with_those_that_come_back(wanted)

    def _work(self, host: Host, wanted: _Wanted) -> HostWork | None:
        """Return the work on a host, with as many of the wanted values as possible."""
        while True:
            found = Findings()
            resolved = self._resolved(host, wanted)
            if resolved is None:
                self._tell(
                    Subject(kind="host", name=host.name, moid=host.moid), "no longer belongs to the plan"
                )
                return None
            assessor = HostAssessor(self.run.plan.desired, self._observed, self.options)
            work = assessor.assess(resolved, found).work
            refused = self._refused(resolved, work, found)
            if not refused:
                return None if work is None or work.is_blocked else work
            for key, (why, remedy) in refused.items():
                self._tell(resolved.subject, f"{key}: {why}", remedy)
                del wanted[key]

    def _resolved(self, host: Host, wanted: _Wanted) -> ResolvedHost | None:
        found = resolve_hosts(self.run.plan.desired, self._observed, self.catalog, PlanOptions(), Findings())
        one = next((one for one in found if one.view.host.moid == host.moid), None)
        if one is not None:
            one.desired_settings = dict(wanted)
        return one

    def _refused(
        self, resolved: ResolvedHost, work: HostWork | None, findings: Findings
    ) -> dict[str, tuple[str, str]]:
        """Say which of the settings cannot be set back now, each with why and what to do."""
        refused: dict[str, tuple[str, str]] = {}
        is_closed = self._is_closed(resolved)
        for drift in resolved.drifts:
            key = drift.desired.id
            remedy = f"set it back to {drift.desired.value or 'none'} manually"
            if drift.impact is Impact.HOST_COLD_BOOT:
                refused[key] = ("a manual cold boot is required", remedy)
            elif is_by_hand(resolved, drift):
                refused[key] = ("this plan cannot write this setting", remedy)
            elif is_closed and drift.impact is not Impact.NONE:
                refused[key] = ("the maintenance window is closed, so hosts are not restarted", remedy)
        for row, desired, reading in resolved.right:
            if reading.configured != desired.value and desired.id in resolved.desired_settings:
                why = f"the value {reading.configured} satisfies {desired.value} and is not reset"
                refused[desired.id] = (why, f"set {row.title} back manually")
        known = {one.desired.id for one in resolved.drifts} | {one.id for _, one, _ in resolved.right}
        for key in resolved.desired_settings.keys() - known:
            refused[key] = ("its current value is unknown", "set it back manually")
        if refused or work is None or not work.is_blocked:
            return refused
        errors = [one for one in findings.diagnostics() if one.severity is Severity.ERROR]
        why = errors[0].message if errors else "the host cannot currently be changed"
        remedy = errors[0].remedy if errors else ""
        disturbing = [one for one in resolved.drifts if one.impact is not Impact.NONE] or resolved.drifts
        return {one.desired.id: (why, remedy) for one in disturbing}

    def _is_closed(self, resolved: ResolvedHost) -> bool:
        window = resolved.entry.disruption.window
        return window is not None and not parse_window(window).is_open(self.run.after.read_at)

    def _tell(self, subject: Subject, message: str, remedy: str = "") -> None:
        self.run.findings.add(Code.NOT_UNDONE, subject, message, remedy)


def _with_those_that_come_back(wanted: _Wanted) -> _Wanted:
    """Say of the settings of NICs that are given back to the host that it can be asked for them then."""
    back = {one.device for row, one in wanted.values() if row.key == PASSTHROUGH and one.value == HOSTS_OWN}
    return {
        key: (row, replace(one, comes_back=one.device.partition(" ")[0] in back and row.key != PASSTHROUGH))
        for key, (row, one) in wanted.items()
    }


def with_no_way_back(plan: Plan) -> Plan:
    """Return a plan that reports the parts that a rollback could not undo (VG557)."""
    findings = Findings.for_plan(plan.desired)
    tables = PlanTables(plan)
    for change in plan.changes:
        for why in change.no_way_back(tables):
            findings.add(Code.NO_WAY_BACK, change.subject, f"{change.id}: {why}")
    found = tuple(one for one in findings.diagnostics() if one.code == Code.NO_WAY_BACK)
    return plan.model_copy(update={"diagnostics": (*plan.diagnostics, *found)})
