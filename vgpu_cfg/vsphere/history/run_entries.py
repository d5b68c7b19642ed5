"""How the entries that runs have left are found among vCenter's events: one collector, read a page at a time.

vCenter filters by type and time. `eventTypeId` is matched against an event's type (vSphere API reference), in
which spelling is not said: both that are in use are asked for. That ReadPreviousEvents goes from newer to
older is recalled; entries are put in order here all the same. How long vCenter keeps events is its own
setting (30 days by default: recalled).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from pyVmomi import vim

from vgpu_cfg.model.runs import RunEntry, parse_entry
from vgpu_cfg.vsphere.history.collectors import held, pages
from vgpu_cfg.vsphere.wire.collector import renewing
from vgpu_cfg.vsphere.wire.faults import not_offered, translated
from vgpu_cfg.vsphere.wire.session import Session

KINDS = ("vim.event.GeneralUserEvent", "GeneralUserEvent")
"""The one type that is asked for, as vSphere's lists of events name it and as govc does."""


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
            raise not_offered("this server keeps no events", self._session.address)
        spec = vim.event.EventFilterSpec(eventTypeId=list(KINDS))
        if since is not None:
            spec.time = vim.event.EventFilterSpec.ByTime(beginTime=since())
        events: list[Any] = []
        with held(manager.CreateCollectorForEvents(spec)) as collector:
            collector.ResetCollector()
            for page in pages(collector.ReadPreviousEvents):
                events += [event for event in page if isinstance(event, vim.event.GeneralUserEvent)]
        return events
