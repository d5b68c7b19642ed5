"""How hosts that no mark explains came into maintenance mode: by vCenter's events, and the runs of that time.

A run leaves word of its beginning and its end among the events. What its account did in between was the run's
own doing, or that of somebody who shares the account.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.model.observed.maintenance import MaintenanceEntry
from vgpu_cfg.model.runs import RunEntry
from vgpu_cfg.vsphere.history.collectors import held, pages
from vgpu_cfg.vsphere.history.run_entries import RunEntryReader
from vgpu_cfg.vsphere.wire.collector import renewing
from vgpu_cfg.vsphere.wire.faults import is_session_over, to_error
from vgpu_cfg.vsphere.wire.session import Session

_ENTERED = ("EnteredMaintenanceModeEvent", "vim.event.EnteredMaintenanceModeEvent")
_LONGEST = timedelta(days=1)
"""So long a run that left no end may have gone on."""


def read_maintenance(session: Session, host_moids: Sequence[str]) -> Mapping[str, MaintenanceEntry]:
    """Return how hosts came into maintenance mode, without those of which no event tells.

    Three round trips for each host and some five for the runs. Nothing where events are not kept, or not
    shown to the account. Raises VCenterError where the connection or the session is lost.
    """
    try:
        found = renewing(session, lambda: _entries(session, host_moids))
        if not found:
            return found
        oldest = min(one.at for one in found.values())
        runs, _ = RunEntryReader(session).read_timed(lambda: oldest - _LONGEST)
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
        (at, run)
        for at, run in runs
        if run.result is None and run.command == "apply" and _account(run.account) == _account(entry.by)
        if at <= entry.at <= ended.get(run.run, at + _LONGEST)
    ]
    if not own:
        return entry
    _, last = max(own, key=lambda pair: pair[0])
    return entry.model_copy(update={"plan": last.plan, "plan_id": last.plan_id, "run": last.run})


def _account(name: str) -> tuple[str, str]:
    r"""Return (name, domain) of an account, written as NAME@DOMAIN or as events have it: DOMAIN\NAME."""
    if "\\" in name:
        domain, _, user = name.partition("\\")
    else:
        user, _, domain = name.partition("@")
    return user.casefold(), domain.casefold()
