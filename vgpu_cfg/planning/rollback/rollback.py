"""The plan that takes a failed run back: the inverse of each change, in reverse order of what needed what."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.base import all_needed
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.reckoning import all_disturbed, reckoned
from vgpu_cfg.changes.report import Outcome
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.estate.left_down import exit_id
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.rollback.run import FailedRun
from vgpu_cfg.planning.rollback.undo_hosts import HostUndo, OfHost
from vgpu_cfg.planning.rollback.undo_sites import OfSite, undo_site
from vgpu_cfg.planning.rollback.undo_vms import OfVm, undo_vm


def make_rollback(
    plan: Plan,
    outcomes: Iterable[Outcome],
    before: Inventory,
    after: Inventory,
    catalog: Catalog,
    options: PlanOptions | None = None,
) -> Plan:
    """Plan how a run is taken back; `before` is what its plan was made from, `after` what was read since.

    What was there before is never deleted, and what cannot be undone or is left on purpose is a finding of
    the plan: VG555, VG556.
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
    """Goes through a run backwards. `_undone` names, by change, what is undone before that which it needs."""

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
        """Return what is undone of the changes that needed this one."""
        followers = (one for one in self._run.plan.changes if change.id in one.needs)
        found = (name for one in followers for name in self._undone.get(one.id, ()))
        return tuple(dict.fromkeys(name for name in found if name in self._changes))

    def _undo(self, change: Change, needs: tuple[str, ...]) -> list[Change]:
        """Return the inverse of one change, each part behind the one before and behind `needs`."""
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
        """Take a host back as one, where the last of its changes is met."""
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
        raise ValueError(f"{change.id} is taken back with its host")
    return run.cannot(change, *change.for_good)


def _backwards(changes: Sequence[Change]) -> list[Change]:
    """Sort changes so that each stands before what it needs, the last of the plan first."""
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
