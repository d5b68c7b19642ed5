"""The entry of hosts without a mark into maintenance mode: vCenter's events, and the runs of that time.

A run leaves word of its end among the events, and of its beginning unless it is short; one that has left none
yet has a lock. Changes by its account in between were the run's own, or those of another user of the account.

Belief: event-filter-by-type-id, event-collector-reads-backwards, event-type-spelling.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.model.locks import SILENT_AFTER, Lock
from vgpu_cfg.model.observed.cordon import MaintenanceEntry
from vgpu_cfg.model.runs import RunEntry, entry_of_lock
from vgpu_cfg.vsphere.history.collectors import RunEntryReader, held, pages
from vgpu_cfg.vsphere.wire.collector import renewing
from vgpu_cfg.vsphere.wire.faults import is_session_over, to_error
from vgpu_cfg.vsphere.wire.session import Session

_ENTERED = ("EnteredMaintenanceModeEvent", "vim.event.EnteredMaintenanceModeEvent")
_LONGEST = timedelta(days=1)
"""So long a run that left no end may have gone on."""
_LONGEST_LOCKED = SILENT_AFTER
"""The maximum length of a run of which only a lock is left: it may have died before any change."""
_BY_ANOTHER_CLOCK = timedelta(minutes=1)
"""The time that may pass at vCenter, beyond the machine's clock, between a beginning and its entry."""
_MOST_LATE = timedelta(days=366)
"""The maximum delay of an entry: each account that may log events can write one for any time."""


def read_maintenance(
    session: Session, host_moids: Sequence[str], read_locks: Callable[[], Sequence[Lock]]
) -> Mapping[str, MaintenanceEntry]:
    """Return how hosts came into maintenance mode, without those that no event records.

    Three round trips for each host and some five for the runs, plus their locks. Nothing where events are not
    kept, or not shown to the account. Raises VCenterError where the connection or the session is lost.
    """
    try:
        found = renewing(session, lambda: _entries(session, host_moids))
        if not found:
            return found
        oldest = min(one.at for one in found.values())
        locked = [
            (lock.beat_at, entry) for lock in read_locks() if (entry := entry_of_lock(lock)) is not None
        ]
        runs, _ = RunEntryReader(session).read_timed(lambda: oldest - _LONGEST)
        runs += locked
    except vmodl.MethodFault as fault:
        if is_session_over(fault):
            raise to_error(fault, "reading events", session.address) from fault
        return {}
    return {moid: _with_run(one, runs) for moid, one in found.items()}


def _entries(session: Session, host_moids: Sequence[str]) -> dict[str, MaintenanceEntry]:
    events = {moid: _last_entry(session, moid) for moid in host_moids}
    return {
        moid: MaintenanceEntry(at=event.createdTime, by=event.userName or "")
        for moid, event in events.items()
        if event is not None
    }


def _last_entry(session: Session, moid: str) -> Any | None:
    manager = session.service_content.eventManager
    if manager is None:
        return None
    entity = vim.event.EventFilterSpec.ByEntity(entity=vim.HostSystem(moid), recursion="self")
    spec = vim.event.EventFilterSpec(entity=entity, eventTypeId=list(_ENTERED))
    with held(manager.CreateCollectorForEvents(spec)) as collector:
        events = [event for page in pages(collector.ReadNextEvents) for event in page]
    return max(events, key=lambda event: event.createdTime, default=None)


def _with_run(entry: MaintenanceEntry, runs: Sequence[tuple[datetime, RunEntry]]) -> MaintenanceEntry:
    """Add the run that went on then under the same account: the one that began last."""
    ended = {run.run: at for at, run in runs if run.result is not None}
    own = [
        (began, run)
        for at, run in runs
        if run.command == "apply" and _account(run.account) == _account(entry.by)
        if (began := _began(at, run)) is not None
        if began <= entry.at <= ended.get(run.run, began + (_LONGEST if run.digest else _LONGEST_LOCKED))
    ]
    if not own:
        return entry
    _, last = max(own, key=lambda pair: pair[0])
    return entry.model_copy(update={"plan": last.plan, "plan_id": last.plan_id, "run": last.run})


def _began(at: datetime, run: RunEntry) -> datetime | None:
    """Return when a run began, by an entry that vCenter took `at` a time by its own clock; None where untold.

    Of a lock it is when the run was last heard of.
    """
    if run.result is not None and run.began_at is None:
        return None
    seconds = (run.at - run.began_at).total_seconds() if run.began_at is not None else run.late_seconds
    later = timedelta(seconds=min(max(0.0, seconds), _MOST_LATE.total_seconds()))
    return at - later - _BY_ANOTHER_CLOCK if later else at


def _account(name: str) -> tuple[str, str]:
    r"""Return (name, domain) of an account, written as NAME@DOMAIN or as events have it: DOMAIN\NAME."""
    if "\\" in name:
        domain, _, user = name.partition("\\")
    else:
        user, _, domain = name.partition("@")
    return user.casefold(), domain.casefold()
