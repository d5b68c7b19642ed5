"""Who made a VM, asked of the events: by a filter, and only of VMs that were made here."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import TEMPLATE, Rig
from tests.unit.lab.wire.client import connect

TYPES = vim.event


@pytest.fixture
def rig() -> Rig:
    """One VM of a template, and one of that VM."""
    rig = Rig()
    rig.clone("first")
    rig.run(**rig.clone_call("second", source="first"))
    return rig


@pytest.fixture
def instance(rig: Rig) -> Any:
    return connect(rig.lab)


def asked(instance: Any, vm: str | None = None, **fields: Any) -> list[tuple[str, str]]:
    if vm is not None:
        fields["entity"] = TYPES.EventFilterSpec.ByEntity(entity=vim.VirtualMachine(vm), recursion="self")
    found = instance.content.eventManager.QueryEvents(TYPES.EventFilterSpec(**fields))
    return [(type(event)._wsdlName, event.vm.name) for event in found]


DEPLOYED, CLONED = ("VmDeployedEvent", "first"), ("VmClonedEvent", "second")


def test_each_vm_tells_how_it_was_made_and_by_whom(instance: Any, rig: Rig) -> None:
    assert asked(instance) == [DEPLOYED, CLONED]
    first, second = (rig.vm(name) for name in ("first", "second"))
    assert asked(instance, first.moid) == [DEPLOYED]
    assert asked(instance, second.moid) == [CLONED]
    assert asked(instance, rig.vm(TEMPLATE).moid) == []
    deployed, cloned = instance.content.eventManager.QueryEvents(TYPES.EventFilterSpec())
    assert deployed.userName == rig.lab.user
    assert deployed.createdTime.timestamp() == first.created
    assert (deployed.srcTemplate.name, cloned.sourceVm.name) == (TEMPLATE, "first")


def test_a_filter_leaves_out_what_it_does_not_mean(instance: Any) -> None:
    by_user: Any = TYPES.EventFilterSpec.ByUsername
    assert asked(instance, eventTypeId=["VmClonedEvent", "VmRemovedEvent"]) == [CLONED]
    assert asked(instance, type=[TYPES.VmDeployedEvent]) == [DEPLOYED]
    assert asked(instance, userName=by_user(systemUser=False, userList=["eve"])) == []
    assert asked(instance, maxCount=1) == [DEPLOYED]
    (first, _) = instance.content.eventManager.QueryEvents(TYPES.EventFilterSpec())
    later = first.createdTime + timedelta(seconds=1)
    by_time: Any = TYPES.EventFilterSpec.ByTime
    assert asked(instance, time=by_time(beginTime=later)) == [CLONED]
    assert asked(instance, time=by_time(endTime=first.createdTime)) == [DEPLOYED]
    assert asked(instance, eventChainId=first.chainId) == [DEPLOYED]


def test_of_a_vm_that_is_gone_what_is_above_it_tells(instance: Any, rig: Rig) -> None:
    gone = rig.vm("second").moid
    rig.done(rig.vm("second"), "Destroy_Task")
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        asked(instance, gone)
    datacenter = instance.content.rootFolder.childEntity[0]
    below: Any = TYPES.EventFilterSpec.ByEntity(entity=datacenter, recursion="all")
    assert asked(instance, entity=below) == [DEPLOYED, CLONED, ("VmRemovedEvent", "second")]
    only: Any = TYPES.EventFilterSpec.ByEntity(entity=datacenter, recursion="self")
    assert asked(instance, entity=only) == []


def test_a_reconfiguration_tells_its_spec_and_whose_session_it_was(rig: Rig) -> None:
    other = connect(rig.lab, login=False)
    other.content.sessionManager.Login("Colleague@vsphere.local", "lab")
    vm = vim.VirtualMachine(rig.vm("first").moid, other._stub)
    vm.ReconfigVM_Task(vim.vm.ConfigSpec(numCPUs=2))
    rig.lab.run_until_idle()
    vm.PowerOnVM_Task()
    rig.lab.run_until_idle()
    told = other.content.eventManager.QueryEvents(TYPES.EventFilterSpec())[2:]
    assert [type(event)._wsdlName for event in told] == ["VmReconfiguredEvent", "VmPoweredOnEvent"]
    assert {event.userName for event in told} == {"Colleague@VSPHERE.LOCAL"}
    assert (told[0].configSpec.numCPUs, told[0].configSpec.memoryMB) == (2, None)


def test_a_collector_goes_through_events_page_by_page(instance: Any) -> None:
    collector = instance.content.eventManager.CreateCollectorForEvents(TYPES.EventFilterSpec())
    assert [event.vm.name for event in collector.ReadNextEvents(1)] == ["first"]
    assert [event.vm.name for event in collector.ReadNextEvents(10)] == ["second"]
    assert collector.ReadNextEvents(10) == []
    assert [event.vm.name for event in collector.ReadPreviousEvents(10)] == ["first"]
    collector.RewindCollector()
    assert len(collector.ReadNextEvents(10)) == 2
    assert [event.vm.name for event in collector.latestPage] == ["second", "first"]
    collector.DestroyCollector()
