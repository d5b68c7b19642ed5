"""Who made a VM and when, asked only of VMs that a plan owns and its file does not name.

When is `config.createDate` (API 6.7). Who stands in the event of its making: one QueryEvents per VM, since a
filter names one entity. vCenter forgets events in time (after 30 days by default: recalled).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.model.observed.vm import VmOrigin
from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from, renewing
from vgpu_cfg.vsphere.wire.faults import is_session_over, to_error
from vgpu_cfg.vsphere.wire.session import Session

MOST_ASKED = 50
"""Of so many VMs the events are asked for; of more than these, who made them stays untold."""

MAKING = ("VmCreatedEvent", "VmClonedEvent", "VmDeployedEvent", "VmBeingDeployedEvent")
"""The events that tell who made a VM: from nothing, from a VM, from a template, and the beginning of that."""

_CREATED = "config.createDate"


def read_origins(session: Session, moids: Sequence[str]) -> dict[str, VmOrigin]:
    """Return who made these VMs and when, as far as vCenter tells; nobody's word is no failure.

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
            raise to_error(fault, "reading who made a VM", moid) from fault
        return ()
