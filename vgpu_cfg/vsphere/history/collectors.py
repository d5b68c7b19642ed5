"""Past events of vCenter: collectors read a page at a time, entries of runs, and the creators of VMs.

Collectors of events and tasks are released after reading. The entries of runs among vCenter's events take one
collector.

vCenter filters by type and time. `eventTypeId` is matched against an event's type (vSphere API reference), in
which spelling is not said: both that are in use are asked for. That ReadPreviousEvents goes from newer to
older is recalled; entries are put in order here all the same. How long vCenter keeps events is its own
setting (30 days by default: recalled).

The creator of a VM and the time are read only for VMs that a plan owns and its file does not name. The time
is `config.createDate` (API 6.7). The creator is in the event of the creation: one QueryEvents per VM, since a
filter names one entity. vCenter deletes events in time (after 30 days by default: recalled).

Belief: event-filter-takes-bare-names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.errors import VCenterError
from vgpu_cfg.model.observed.vm import VmOrigin
from vgpu_cfg.model.runs import RunEntry, parse_entry
from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from, renewing
from vgpu_cfg.vsphere.wire.faults import is_session_over, not_offered, to_error, translated
from vgpu_cfg.vsphere.wire.session import Session

PAGE_SIZE = 1000
"""So many a page may have (vSphere API reference, ReadPreviousEvents)."""
MOST_ENTRIES, MOST_PAGES = 20_000, 200
"""About so many entries are read of a collector at most, even if pages are as short as 100."""

KINDS = ("vim.event.GeneralUserEvent", "GeneralUserEvent")
"""The one type that is asked for, as vSphere's lists of events name it and as govc does."""

MOST_ASKED = 50
"""Of so many VMs the events are asked for; of more than these, who made them stays untold."""

MAKING = ("VmCreatedEvent", "VmClonedEvent", "VmDeployedEvent", "VmBeingDeployedEvent")
"""The events that record the creation of a VM: from nothing, from a VM, from a template, and its beginning.
"""

_CREATED = "config.createDate"


@contextmanager
def held(collector: Any) -> Iterator[Any]:
    """Let go of a collector at the end: a session may have 32."""
    try:
        yield collector
    finally:
        # What cannot be let go of ends with the session.
        with suppress(vmodl.MethodFault, VCenterError):
            collector.DestroyCollector()


def pages(read: Callable[[int], Any]) -> Iterator[Any]:
    """Yield the pages that a method of a collector gives, the last one empty where all of it was read."""
    left = MOST_ENTRIES
    for _ in range(MOST_PAGES):
        page = read(PAGE_SIZE) or ()
        yield page
        left -= len(page)
        if not page or left <= 0:
            return


def beginner(reason: Any) -> str:
    """Name the alarm or the scheduled task that began a task; "" for anybody else."""
    match reason:
        case vim.TaskReasonAlarm():
            return f"alarm {reason.alarmName}"
        case vim.TaskReasonSchedule():
            return f"scheduled task {reason.name}"
        case _:
            return ""


class RunEntryReader:
    """Reads entries of runs; writes nothing."""

    def __init__(self, session: Session) -> None:
        self._session = session

    @property
    def instance_uuid(self) -> str:
        """The vCenter's own id, as journals name it."""
        return self._session.vcenter.instance_uuid

    def read_entries(self, age: timedelta | None = None) -> tuple[tuple[RunEntry, ...], int]:
        """Return the entries of runs, oldest first, and how many could not be understood.

        With `age` only those that are no older, by vCenter's own clock. A round trip for each thousand
        events of clients, and some five. Raises `VCenterError`.
        """
        now = vim.ServiceInstance("ServiceInstance", self._session.stub)
        timed, unclear = self.read_timed(None if age is None else lambda: now.CurrentTime() - age)
        return tuple(sorted((entry for _, entry in timed), key=lambda entry: entry.at)), unclear

    def read_timed(
        self, since: Callable[[], datetime] | None = None
    ) -> tuple[list[tuple[datetime, RunEntry]], int]:
        """Return entries with the times at which vCenter took them, and how many could not be understood.

        `since` says from when on. Raises `VCenterError`.
        """
        with translated("reading vCenter's events", self._session.address):
            events = renewing(self._session, lambda: self._events(since))
        entries, unclear = [], 0
        for event in events:
            try:
                entry = parse_entry(str(event.message))
            except ValueError:
                unclear += 1
            else:
                entries += [] if entry is None else [(event.createdTime, entry)]
        return entries, unclear

    def _events(self, since: Callable[[], datetime] | None) -> Sequence[Any]:
        manager = self._session.service_content.eventManager
        if manager is None:
            raise not_offered("this server does not provide events", self._session.address)
        spec = vim.event.EventFilterSpec(eventTypeId=list(KINDS))
        if since is not None:
            spec.time = vim.event.EventFilterSpec.ByTime(beginTime=since())
        events: list[Any] = []
        with held(manager.CreateCollectorForEvents(spec)) as collector:
            collector.ResetCollector()
            for page in pages(collector.ReadPreviousEvents):
                events += [event for event in page if isinstance(event, vim.event.GeneralUserEvent)]
        return events


def read_origins(session: Session, moids: Sequence[str]) -> dict[str, VmOrigin]:
    """Return the creators of these VMs and the times, if vCenter has them; a missing one is no failure.

    A round trip for all, and one for each VM, some at once.
    """
    wanted = (Paths("vim.VirtualMachine", (_CREATED,)),)
    items = collect_from(session, wanted, [Start("vim.VirtualMachine", moid) for moid in moids])
    dates = {item.moid: item.get(_CREATED) for item in items}
    makers = dict(session.each(lambda moid: _maker(session, moid), moids[:MOST_ASKED]))
    return {moid: VmOrigin(made_at=dates.get(moid), made_by=makers.get(moid, "")) for moid in moids}


def _maker(session: Session, moid: str) -> str:
    events = sorted(_events(session, moid), key=lambda event: event.createdTime)
    return next((event.userName for event in events if event.userName), "")


def _events(session: Session, moid: str) -> Sequence[Any]:
    """Return the events of a VM's making; none where vCenter lacks, hides or has forgotten them."""
    by_entity = vim.event.EventFilterSpec.ByEntity(entity=vim.VirtualMachine(moid), recursion="self")
    spec = vim.event.EventFilterSpec(entity=by_entity, eventTypeId=list(MAKING))

    def attempt() -> Sequence[Any]:
        manager = session.service_content.eventManager
        return () if manager is None else manager.QueryEvents(spec) or ()

    try:
        return renewing(session, attempt)
    except vmodl.MethodFault as fault:
        if is_session_over(fault):
            raise to_error(fault, "reading who created a VM", moid) from fault
        return ()
