"""What events tell, read in bulk: a fixed number of round trips, who began a task, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import Rig
from tests.unit.vsphere.scripted import NOON, content, item, reading, session_on, typed
from vgpu_cfg.model.observed.past import Past, PastScope
from vgpu_cfg.vsphere.history.collectors import MOST_ENTRIES, pages
from vgpu_cfg.vsphere.history.events import NOT_ALLOWED, NOT_KEPT, TOO_MANY, read_past
from vgpu_cfg.vsphere.wire.session import Session

VM = vim.VirtualMachine("vm-1")
ABOUT = vim.event.VmEventArgument(name="hvd-01", vm=VM)


def event(kind: Any, key: int = 1, **fields: Any) -> Any:
    return kind(key=key, chainId=key, createdTime=NOON, userName="eve", template=False, vm=ABOUT, **fields)


def service(*, with_events: bool = True) -> Any:
    found = content()
    found.taskManager = vim.TaskManager("TaskManager")
    if with_events:
        found.eventManager = vim.event.EventManager("EventManager")
    return found


def answers(*events: Any, **more: Any) -> dict[str, Any]:
    page = typed("vim.event.Event", *events)
    return {
        "RetrievePropertiesEx": reading(item(VM, {"config.createDate": NOON})),
        "CreateCollectorForEvents": vim.event.EventHistoryCollector("events"),
        "CreateCollectorForTasks": vim.TaskHistoryCollector("tasks"),
        "ReadNextEvents": [page, None],
        "ReadNextTasks": None,
        "DestroyCollector": None,
        **more,
    }


def past_of(told: dict[str, Any], **more: Any) -> Past:
    with session_on(told, service=service(**more)) as (session, _):
        return read_past(session, PastScope(vm_moids=("vm-1",)))


def task_of(reason: Any) -> Any:
    return vim.TaskInfo(
        key="t", task=vim.Task("t"), descriptionId="d", state="success", cancelled=False, cancelable=False,
        reason=reason, queueTime=NOON, eventChainId=1,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reason", "by"),
    [
        (vim.TaskReasonUser(userName="eve"), "eve"),
        (
            vim.TaskReasonSchedule(name="nightly", scheduledTask=vim.scheduler.ScheduledTask("s")),
            "scheduled task nightly",
        ),
        (
            vim.TaskReasonAlarm(
                alarmName="hot", alarm=vim.alarm.Alarm("a"), entityName="e", entity=vim.Folder("f")
            ),
            "alarm hot",
        ),
    ],
)
def test_an_event_is_by_whoever_began_its_task(reason: Any, by: str) -> None:
    spec = vim.vm.ConfigSpec(
        numCPUs=2,
        cpuHotAddEnabled=True,
        bootOptions=vim.vm.BootOptions(bootDelay=5),
        extraConfig=[vim.option.OptionValue(key="a.b", value="c")],
    )
    told = answers(
        event(vim.event.VmReconfiguredEvent, configSpec=spec),
        ReadNextTasks=[typed("vim.TaskInfo", task_of(reason)), None],
    )
    (found,) = past_of(told).events
    assert (found.kind, found.moid, found.name, found.by) == ("VmReconfiguredEvent", "vm-1", "hvd-01", by)
    wanted = {
        "numCPUs": "2",
        "cpuHotAddEnabled": "true",
        "bootOptions.bootDelay": "5",
        "extraConfig[a.b]": "c",
    }
    assert found.sets == wanted


@pytest.mark.parametrize(
    ("told", "why"),
    [
        (answers(CreateCollectorForEvents=vim.fault.NoPermission(privilegeId="System.View")), NOT_ALLOWED),
        (answers(CreateCollectorForEvents=vmodl.fault.NotSupported()), NOT_KEPT),
        (answers(ReadNextEvents=typed("vim.event.Event", event(vim.event.VmPoweredOnEvent))), TOO_MANY),
    ],
    ids=["refused", "not offered", "too many"],
)
def test_what_cannot_be_read_is_said(told: dict[str, Any], why: str) -> None:
    assert past_of(told) == Past(unread=why)


def test_a_vcenter_without_events_is_not_asked() -> None:
    assert past_of(answers(), with_events=False) == Past(unread=NOT_KEPT)


def test_many_vms_take_no_more_round_trips_than_two() -> None:
    rig = Rig()
    names = [f"vm-{number}" for number in range(6)]
    moids = [rig.clone(name).moid for name in names]
    for name in names:
        rig.done(rig.vm(name), "ReconfigVM_Task", spec=vim.vm.ConfigSpec(numCPUs=2))
    rig.done(rig.vm(names[5]), "Destroy_Task")
    trips = []
    with Session(rig.lab, "lab", "administrator@vsphere.local", "lab") as session:
        for count in (2, 5):
            before = session.stub.round_trips
            past = read_past(session, PastScope(vm_moids=tuple(moids[:count]), removed_vms=(names[5],)))
            trips.append(session.stub.round_trips - before)
            assert {one.moid for one in past.events if one.sets} == {*moids[:count]}
            assert [one.name for one in past.events if one.kind == "VmRemovedEvent"] == [names[5]]
            assert past.since is not None
            assert {*past.made_at} == {*moids[:count]}
        one = read_past(session, PastScope(vm_moids=(moids[0],)))
    assert trips[0] == trips[1] <= 16
    assert {event.moid for event in one.events} == {moids[0]}


@pytest.mark.parametrize("size", [100, 1000])
def test_short_pages_hide_no_event(size: int) -> None:
    taken = iter([range(size)] * (MOST_ENTRIES // size) * 2)
    assert sum(len(page) for page in pages(lambda _most: next(taken))) == MOST_ENTRIES
