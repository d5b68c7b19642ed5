"""Watching of tasks: by filters, one over a list of them once they are many, and one long wait.

A filter over tasks takes one call and stays until the session ends; a list takes two, and tasks come and go.
Only the progress of tasks is polled, once a wait has ended without news: as news it would end every wait. The
filters, the list and the collector's version live as long as the session; if it has to be renewed a list is
made anew, and every task reports its state again. Filters are in the session's own property collector:
nothing else of a session waits for updates.

A filter of their own also covers the VMs that its tasks reconfigure: they need no second reading.

Belief: new-filter-reports-at-the-next-wait, filter-reports-new-change-version,
old-change-version-is-rejected.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.errors import TasksForgotten, VCenterError
from vgpu_cfg.ports import TaskState, TaskUpdate
from vgpu_cfg.vsphere.reading.passes import VM_AGAIN
from vgpu_cfg.vsphere.wire.collector import Pages, Paths, Start, collect_from, property_spec, renewing
from vgpu_cfg.vsphere.wire.faults import fault_name, fault_text, translated
from vgpu_cfg.vsphere.wire.session import Session

LONGEST_WAIT_SECONDS = 20
"""One wait; a stop of the run is noticed after it."""

MOST_FILTERS = 4
"""So often tasks that were begun together get a filter of their own; those that come later share a list."""

_STATES = (Paths("vim.Task", ("info.state", "info.result", "info.error")),)
_PROGRESS = (Paths("vim.Task", (*_STATES[0].paths, "info.progress")),)
"""The progress of a task, with its state in case its completion was not reported."""


@dataclass(frozen=True, slots=True)
class _Changed:
    """The VM that a task reconfigures, and the change version that it had before."""

    moid: str
    before: str


@dataclass(frozen=True, slots=True)
class _Filter:
    """A PropertyFilter of the tasks that were begun together, and of the VMs that they change."""

    filter: Any
    tasks: tuple[str, ...]
    vms: tuple[str, ...]


class TaskWatch:
    """Watches the tasks of one session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._renewals = session.renewals
        self._filters: list[_Filter] = []
        self._made = 0
        self._list: Any = None
        self._version = ""
        self._watched: set[str] = set()
        self._changed: dict[str, _Changed] = {}
        self._vms: dict[str, dict[str, Any]] = {}
        self._known: dict[str, dict[str, Any]] = {}
        self._news: set[str] = set()

    def bring(self, vm_moid: str, task: str, before: str) -> None:
        """Let the end of a task bring along the VM that it reconfigures, whose change version was `before`.

        The session has it then, if vCenter has reported another version of it.
        """
        self._changed[task] = _Changed(vm_moid, before)

    def wait(self, tasks: Sequence[str], timeout_seconds: float) -> tuple[TaskUpdate, ...]:
        """Wait for news of any of the tasks; after a timeout return their progress, if that has changed.

        Raises VCenterError, and TasksForgotten where vCenter no longer knows some of them.
        """
        wanted = dict.fromkeys(tasks)
        left = max(0, math.ceil(timeout_seconds))
        while wanted:
            found = [task for task in wanted if task in self._news or self._state(task).is_over]
            if found:
                self._news.difference_update(found)
                self._hand_over(found)
                return tuple(self._update(task) for task in found)
            if left < 0:
                break
            once = min(left, LONGEST_WAIT_SECONDS)
            passed = self._wait_once(tuple(wanted), once)
            left = left - passed if left > passed else -1
        return self._read_progress(tuple(wanted)) if wanted and timeout_seconds > 0 else ()

    def close(self) -> None:
        """Remove the filters and the list; errors are ignored."""
        releases = [found.filter.DestroyPropertyFilter for found in self._filters]
        if self._list is not None:
            releases.append(self._list.DestroyView)
        self._forget()
        for release in releases:
            try:
                release()
            except (vmodl.MethodFault, VCenterError):
                return

    def _read_progress(self, tasks: Sequence[str]) -> tuple[TaskUpdate, ...]:
        """Ask how far tasks are, all in one call; return those that are at another percentage, or over."""
        moved = []
        for item in collect_from(self._session, _PROGRESS, [Start("vim.Task", task) for task in tasks]):
            known = self._known.setdefault(item.moid, {})
            has_moved = item.get("info.progress") != known.get("info.progress")
            known.update(item.values)
            if has_moved or self._state(item.moid).is_over:
                moved.append(self._update(item.moid))
        return tuple(moved)

    def _wait_once(self, tasks: Sequence[str], seconds: int) -> int:
        """Wait once, and apply all changes; return how many of the seconds that took.

        News may be of a VM alone, which ends no wait for its task.
        """
        begun = self._session.outage.now()
        with translated("waiting for tasks", self._session.address):
            has_news = renewing(self._session, lambda: self._follow_all(tasks, seconds))
        passed = math.ceil((self._session.outage.now() - begun).total_seconds())
        return min(seconds, max(1, passed)) if has_news else seconds

    def _follow_all(self, tasks: Sequence[str], seconds: int) -> bool:
        """Follow tasks, regardless of the VMs that they change; return whether there was news."""
        while True:
            try:
                return self._follow(tasks, seconds)
            except vmodl.fault.ManagedObjectNotFound as fault:
                # vcsim answers so, whatever a filter says of missing objects.
                if not self._give_up_vm(str(getattr(fault.obj, "_moId", ""))):
                    raise

    def _follow(self, tasks: Sequence[str], seconds: int) -> bool:
        if self._renewals != self._session.renewals:
            self._forget()
        self._let_vms_go()
        self._watch(tasks)
        pages = Pages(self._session.limits.answer_pages, self._session.address)
        options = vmodl.query.PropertyCollector.WaitOptions(maxWaitSeconds=seconds)
        collector = self._session.service_content.propertyCollector
        update = collector.WaitForUpdatesEx(self._version, options)
        has_news = update is not None
        while update is not None:
            self._version = update.version
            lost = []
            for changed in update.filterSet or ():
                for found in changed.objectSet or ():
                    self._take(found)
                lost += [one.obj for one in changed.missingSet or () if isinstance(one.obj, vim.Task)]
            self._report_lost(lost)
            if not getattr(update, "truncated", False):
                break
            pages.turn(self._version, is_empty=not update.filterSet)
            update = collector.WaitForUpdatesEx(self._version, options)
        return has_news

    def _watch(self, tasks: Sequence[str]) -> None:
        """Have a filter see the tasks asked about; of a list those that are over are taken off on the way."""
        new = [task for task in tasks if task not in self._watched]
        if not new:
            return
        query = vmodl.query.PropertyCollector
        # A vCenter that restarted may have forgotten tasks: it tells that of what is put into a list.
        if self._list is None and self._made < MOST_FILTERS and not self._session.renewals:
            vms = [self._changed[task].moid for task in new if task in self._changed]
            objects = [*self._refs(new), *(vim.VirtualMachine(moid, self._session.stub) for moid in vms)]
            self._see([query.ObjectSpec(obj=found, skip=False) for found in objects], new, vms)
            self._watched.update(new)
            return
        if self._list is None:
            self._list = self._session.service_content.viewManager.CreateListView([])
            through = query.TraversalSpec(name="tasks", type=vim.view.ListView, path="view", skip=False)
            self._see([query.ObjectSpec(obj=self._list, skip=True, selectSet=[through])])
        done = [task for task in self._watched if self._state(task).is_over]
        lost = self._list.ModifyListView(self._refs(new), self._refs(done))
        self._watched.difference_update(done)
        self._watched.update(new)
        self._report_lost(lost)

    def _see(self, objects: list[Any], tasks: Iterable[str] = (), vms: Iterable[str] = ()) -> None:
        """Make a filter for the states of tasks, and for VMs, without changing the version."""
        tasks, vms, version = tuple(tasks), tuple(vms), self._session.stub.version
        wanted = (*_STATES, *VM_AGAIN) if vms else _STATES
        spec = vmodl.query.PropertyCollector.FilterSpec(
            propSet=[property_spec(one.type_name, one.paths, version) for one in wanted],
            objectSet=objects,
            # As is recommended of what may go: else the filter is refused, and the tasks are not told either.
            reportMissingObjectsInResults=bool(vms),
        )
        # What changes within a property brings all of it: no change has to be put into what was told before.
        made = self._session.service_content.propertyCollector.CreateFilter(spec, False)
        self._filters.append(_Filter(made, tasks, vms))
        self._made += 1

    def _let_vms_go(self) -> None:
        """Stop watching VMs whose task is over: their further changes would end waits for others."""
        for found in tuple(self._filters):
            if found.vms and all(self._state(task).is_over for task in found.tasks):
                found.filter.DestroyPropertyFilter()
                self._filters.remove(found)
        seen = {moid for found in self._filters for moid in found.vms}
        self._vms = {moid: values for moid, values in self._vms.items() if moid in seen}

    def _give_up_vm(self, moid: str) -> bool:
        """Watch the tasks that change a VM without it from now on; False where none does."""
        tasks = [task for task, changed in self._changed.items() if changed.moid == moid]
        for task in tasks:
            del self._changed[task]
        for found in [one for one in self._filters if moid in one.vms]:
            found.filter.DestroyPropertyFilter()
            self._filters.remove(found)
            self._watched.difference_update(found.tasks)
        return bool(tasks)

    def _hand_over(self, tasks: Iterable[str]) -> None:
        """Give the session the VMs that successful tasks have changed, as far as they were reported.

        The cause of a refused change is read later: it may still be in progress.
        """
        brought = {}
        for task in tasks:
            changed = self._changed.pop(task, None) if self._state(task).is_over else None
            if changed is None or self._state(task) is not TaskState.SUCCESS:
                continue
            values = self._vms.get(changed.moid, {})
            if values.get("config.changeVersion", changed.before) != changed.before:
                brought[changed.moid] = dict(values)
        self._session.bring(brought)

    def _forget(self) -> None:
        self._renewals = self._session.renewals
        self._filters = []
        self._vms = {}
        self._list = None
        self._version = ""
        self._watched = set()

    def _refs(self, tasks: Sequence[str]) -> list[Any]:
        return [vim.Task(task, self._session.stub) for task in tasks]

    def _report_lost(self, lost: Sequence[Any] | None) -> None:
        if lost:
            tasks = tuple(str(task._moId) for task in lost)
            self._watched.difference_update(tasks)
            raise TasksForgotten(
                f"vCenter no longer keeps information about {', '.join(tasks)}",
                tasks,
                subject=self._session.address,
                remedy="check the recent tasks in vCenter, then plan again",
            )

    def _take(self, found: Any) -> None:
        """Take in what changed of a task, or of a VM."""
        moid = str(found.obj._moId)
        is_task = isinstance(found.obj, vim.Task)
        known = (self._known if is_task else self._vms).setdefault(moid, {})
        for change in found.changeSet or ():
            if change.op in ("assign", "add") and change.val is not None:
                known[change.name] = change.val
            else:
                known.pop(change.name, None)
        if is_task:
            self._news.add(moid)

    def _state(self, task: str) -> TaskState:
        return TaskState(str(self._known.get(task, {}).get("info.state", TaskState.QUEUED.value)))

    def _update(self, task: str) -> TaskUpdate:
        known = self._known.get(task, {})
        state = self._state(task)
        result = known.get("info.result")
        error = known.get("info.error")
        return TaskUpdate(
            task=task,
            state=state,
            progress=100 if state is TaskState.SUCCESS else known.get("info.progress"),
            result_moid=str(result._moId) if isinstance(result, vim.ManagedEntity) else None,
            fault="" if error is None else fault_name(error),
            error="" if error is None else fault_text(error),
            taken_by=_taken_by(error),
        )


def _taken_by(error: Any) -> str:
    holder = getattr(error, "object", None) if isinstance(error, vim.fault.DuplicateName) else None
    return "" if holder is None else str(holder._moId)
