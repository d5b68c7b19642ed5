"""What a client logs stands among the events of its entity, in a filter and in a collector."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import TEMPLATE, Rig
from tests.unit.lab.wire.client import connect


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def content(rig: Rig) -> Any:
    return connect(rig.lab).content


def logged(content: Any, **fields: Any) -> list[str]:
    spec = vim.event.EventFilterSpec(eventTypeId=["vim.event.GeneralUserEvent"], **fields)
    collector = content.eventManager.CreateCollectorForEvents(spec)
    collector.ResetCollector()
    return [event.message for event in collector.ReadPreviousEvents(10)]


def test_the_words_of_a_client_are_read_newest_first(content: Any, rig: Rig) -> None:
    datacenter = content.rootFolder.childEntity[0]
    for entity, words in ((datacenter, "first"), (content.rootFolder, "second")):
        content.eventManager.LogUserEvent(entity, words)
    rig.clone("a-vm")
    assert logged(content) == ["second", "first"]
    by_entity: Any = vim.event.EventFilterSpec.ByEntity
    assert logged(content, entity=by_entity(entity=datacenter, recursion="self")) == ["first"]
    assert logged(content, category=["user"]) == ["second", "first"]
    assert logged(content, category=["info"]) == []
    latest = content.eventManager.QueryEvents(vim.event.EventFilterSpec(category=["user"]))[-1]
    assert (latest.userName, latest.fullFormattedMessage) == (rig.lab.user, "User logged event: second")
    assert latest.entity.entity == content.rootFolder


def test_not_every_entity_takes_words_nor_every_account_gives_them(content: Any, rig: Rig) -> None:
    log = content.eventManager.LogUserEvent
    log(vim.VirtualMachine(rig.vm(TEMPLATE).moid), "of a VM")
    with pytest.raises(vmodl.fault.InvalidArgument):
        log(content.rootFolder.childEntity[0].vmFolder, "of a folder")
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        log(vim.VirtualMachine("vm-nobody"), "of nothing")
    assert logged(content) == ["of a VM"]
