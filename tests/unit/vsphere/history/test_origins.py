"""Who made a VM: the date that it carries, and the user of the event of its making, where they are told."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.vsphere.scripted import NOON, content, item, reading, session_on, typed
from vgpu_cfg.errors import LoginFailed
from vgpu_cfg.model.observed.vm import VmOrigin
from vgpu_cfg.vsphere.history.collectors import MOST_ASKED, read_origins

VM = vim.VirtualMachine("vm-1")


def event(kind: Any, user: str, minutes: int = 0) -> Any:
    return kind(
        key=1, chainId=1, createdTime=NOON + timedelta(minutes=minutes), userName=user, template=False
    )


def events(*found: Any) -> Any:
    return typed("vim.event.Event", *found) if found else None


def answers(told: Any, date: Any = NOON) -> dict[str, Any]:
    read = reading(item(VM, {} if date is None else {"config.createDate": date}))
    return {"RetrievePropertiesEx": read, "QueryEvents": told}


def service() -> Any:
    found = content()
    found.eventManager = vim.event.EventManager("EventManager")
    return found


def origin_of(told: Any, **more: Any) -> VmOrigin:
    with session_on(answers(told, **more), service=service()) as (session, _):
        return read_origins(session, ["vm-1"])["vm-1"]


def test_the_first_event_of_a_making_tells_who() -> None:
    later, first = (event(vim.event.VmCreatedEvent, "b", 2), event(vim.event.VmCreatedEvent, "a", 1))
    with session_on(answers(events(later, first)), service=service()) as (session, vcenter):
        assert read_origins(session, ["vm-1"]) == {"vm-1": VmOrigin(made_at=NOON, made_by="a")}
        body = vcenter.sent("QueryEvents")
    assert "vm-1" in body
    assert "<recursion>self</recursion>" in body
    assert body.count("<eventTypeId>Vm") == 4


@pytest.mark.parametrize(
    "told",
    [
        events(),
        events(event(vim.event.VmCreatedEvent, "")),
        vim.fault.NoPermission(privilegeId="System.View"),
        vmodl.fault.ManagedObjectNotFound(obj=VM),
        vmodl.fault.NotSupported(),
    ],
    ids=["forgotten", "nobody", "hidden", "gone", "not offered"],
)
def test_what_vcenter_does_not_tell_stays_untold(told: Any) -> None:
    assert origin_of(told) == VmOrigin(made_at=NOON)
    assert origin_of(told, date=None) == VmOrigin()


def test_a_vcenter_without_events_is_not_asked_for_them() -> None:
    with session_on(answers(events()), service=content()) as (session, vcenter):
        assert read_origins(session, ["vm-1"]) == {"vm-1": VmOrigin(made_at=NOON)}
        assert vcenter.methods == ["RetrievePropertiesEx"]


def test_of_many_vms_only_some_are_asked_for() -> None:
    moids = [f"vm-{number}" for number in range(MOST_ASKED + 5)]
    with session_on(answers(events()), service=service()) as (session, vcenter):
        assert list(read_origins(session, moids)) == moids
        assert vcenter.methods.count("QueryEvents") == MOST_ASKED


def test_a_session_that_cannot_be_renewed_ends_the_reading() -> None:
    over = vim.fault.NotAuthenticated(object=VM, privilegeId="System.View")
    with pytest.raises(LoginFailed):
        origin_of(over)
