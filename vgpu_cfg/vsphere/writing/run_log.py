"""Traces of a run at vCenter: an event of its own, and a name on each of its calls.

LogUserEvent makes a GeneralUserEvent; it takes the root folder, a datacenter, a VM, a host or a compute
resource, and needs Global.LogEvent there (vSphere API reference). The name goes as the SOAP header
`operationID`, as govmomi sends it and pyvmomi can: that vCenter's log has it as opID is what users of govmomi
report, and unproven here. `TaskInfo.activationId` and `changeTag` would be better places, but how a client
sets them is documented nowhere.
"""

from __future__ import annotations

from pyVmomi import vim

from vgpu_cfg.vsphere.history.collectors import RunEntryReader
from vgpu_cfg.vsphere.wire.faults import not_offered, translated
from vgpu_cfg.vsphere.wire.session import Session


class VCenterRunLog:
    """A RunLog on a session."""

    def __init__(self, session: Session) -> None:
        self._session = session

    def name_calls(self, name: str) -> None:
        """Give the calls that follow a name."""
        # Belief: operation-id.
        self._session.stub.requestContext["operationID"] = name

    def write(self, text: str, datacenter_moid: str | None = None) -> None:
        """Leave an event at a datacenter, or at the root folder; one round trip."""
        content = self._session.service_content
        if content.eventManager is None:
            raise not_offered("this server does not provide events", self._session.address)
        where = content.rootFolder
        if datacenter_moid is not None:
            where = vim.Datacenter(datacenter_moid, self._session.stub)
        with translated("recording the run in vCenter's events", str(where._moId)):
            # Belief: user-events.
            content.eventManager.LogUserEvent(where, text)

    def has_run(self, start: str) -> bool:
        """Whether events list a run whose id begins so."""
        entries, _ = RunEntryReader(self._session).read_entries()
        return any(entry.run.startswith(start) for entry in entries)
