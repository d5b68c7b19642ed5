"""The progress of a guest's customization, by the events that vCenter keeps of its VM.

Source: vSphere API reference, CustomizationEvent and the types below it. vcsim has the same ones.
"""

from __future__ import annotations

from typing import Any, Final

from pyVmomi import vim

from vgpu_cfg.model.observed.customization import (
    CUSTOMIZATION_FAILURES,
    CUSTOMIZATION_SUCCEEDED,
    CustomizationSeen,
)
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.session import Session

STARTED: Final = "CustomizationStartedEvent"


def read_customization(session: Session, vm_moid: str) -> CustomizationSeen:
    """Return how far a guest's customisation is, by the newest event of it: one round trip."""
    one: Any = vim.event.EventFilterSpec.ByEntity
    spec = vim.event.EventFilterSpec(
        entity=one(entity=vim.VirtualMachine(vm_moid), recursion="self"),
        eventTypeId=[STARTED, CUSTOMIZATION_SUCCEEDED, *CUSTOMIZATION_FAILURES],
    )
    with translated("reading the progress of guest customization", vm_moid):
        events = session.service_content.eventManager.QueryEvents(spec) or ()
    newest = max(events, key=lambda event: (event.createdTime, event.key), default=None)
    return CustomizationSeen() if newest is None else _seen(newest)


def _seen(event: Any) -> CustomizationSeen:
    kind = str(type(event)._wsdlName)
    words = (event.fullFormattedMessage or "", getattr(event, "reason", None) or "")
    return CustomizationSeen(
        state="running" if kind == STARTED else "succeeded" if kind == CUSTOMIZATION_SUCCEEDED else "failed",
        event=kind,
        message=" ".join(word for word in words if word),
        log=event.logLocation or "",
    )
