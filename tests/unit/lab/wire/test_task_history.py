"""Task history collectors: by filter, in either direction, with the tasks that failed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import Rig
from tests.unit.lab.wire.client import connect, one
from vgpu_cfg.lab.managers.task_history import MOST_COLLECTORS


@pytest.fixture
def rig() -> Rig:
    """Two VMs; the power-on of the second failed."""
    rig = Rig()
    rig.running("good", "grid_a100-10c")
    rig.clone("bad", "grid_a100-40c", window_gb=None)
    assert rig.refused(rig.vm("bad"), "PowerOnVM_Task").msg
    return rig


@pytest.fixture
def instance(rig: Rig) -> Any:
    return connect(rig.lab)


def collector(instance: Any, **fields: Any) -> Any:
    return instance.content.taskManager.CreateCollectorForTasks(vim.TaskFilterSpec(**fields))


def of(entity: Any, recursion: str = "self") -> Any:
    return vim.TaskFilterSpec.ByEntity(entity=entity, recursion=recursion)


def told(infos: Iterable[Any]) -> list[tuple[str, str, str]]:
    return [(info.entityName, info.descriptionId.rpartition(".")[2], info.state) for info in infos]


def everything(read: Any, size: int) -> Iterator[Any]:
    while page := read(size):
        assert len(page) <= size
        yield from page


CLONE_GOOD = ("ubuntu-22.04-efi", "clone", "success")
ON_GOOD = ("good", "powerOn", "success")
ON_BAD = ("bad", "powerOn", "error")


def test_a_new_collector_reads_on_from_the_oldest(instance: Any) -> None:
    history = collector(instance)
    assert told(everything(history.ReadNextTasks, 2)) == [CLONE_GOOD, ON_GOOD, CLONE_GOOD, ON_BAD]
    assert history.ReadNextTasks(5) == []
    history.RewindCollector()
    assert told(history.ReadNextTasks(1)) == [CLONE_GOOD]


def test_a_reset_collector_reads_back_from_the_newest(instance: Any) -> None:
    history = collector(instance)
    history.ResetCollector()
    assert told(everything(history.ReadPreviousTasks, 3)) == [ON_BAD, CLONE_GOOD, ON_GOOD, CLONE_GOOD]


def test_the_latest_page_has_the_newest_first(instance: Any) -> None:
    history = collector(instance)
    assert told(history.latestPage)[0] == ON_BAD
    history.SetCollectorPageSize(1)
    assert told(history.latestPage) == [ON_BAD]


def test_a_failed_task_of_a_vm_is_found_with_its_fault(instance: Any) -> None:
    vm = one(instance, vim.VirtualMachine, "bad")
    (info,) = collector(instance, entity=of(vm), state=["error"]).latestPage
    assert info.entity == vm
    assert isinstance(info.error, vim.fault.GenericVmConfigFault)
    assert info.error.reason == "Module 'DevicePowerOn' power on failed."
    assert info.completeTime >= info.startTime >= info.queueTime


def test_a_vm_without_failures_has_none(instance: Any) -> None:
    vm = one(instance, vim.VirtualMachine, "good")
    assert collector(instance, entity=of(vm), state=["error"]).latestPage == []
    assert told(collector(instance, entity=of(vm)).latestPage) == [ON_GOOD]


def test_tasks_below_an_entity_are_found(instance: Any) -> None:
    root = instance.content.rootFolder
    assert len(collector(instance, entity=of(root, "all")).latestPage) == 4
    assert collector(instance, entity=of(root, "children")).latestPage == []
    folder = one(instance, vim.Folder, "training")
    assert told(collector(instance, entity=of(folder, "children")).latestPage) == [ON_BAD, ON_GOOD]


def test_tasks_are_found_by_user_time_and_chain(rig: Rig, instance: Any) -> None:
    by_user: Any = vim.TaskFilterSpec.ByUsername
    assert (
        len(collector(instance, userName=by_user(systemUser=False, userList=[rig.lab.user])).latestPage) == 4
    )
    assert collector(instance, userName=by_user(systemUser=False, userList=["x"])).latestPage == []
    assert collector(instance, userName=by_user(systemUser=True)).latestPage == []
    later = datetime.fromtimestamp(rig.lab.clock.now(), UTC) + timedelta(hours=1)
    by_time: Any = vim.TaskFilterSpec.ByTime
    assert collector(instance, time=by_time(timeType="completedTime", beginTime=later)).latestPage == []
    assert len(collector(instance, time=by_time(timeType="queuedTime", endTime=later)).latestPage) == 4
    chain = collector(instance).latestPage[0].eventChainId
    assert told(collector(instance, eventChainId=[chain]).latestPage) == [ON_BAD]
    assert collector(instance, tag=["x"]).latestPage == []


def test_a_collector_sees_what_comes_later(rig: Rig, instance: Any) -> None:
    history = collector(instance, entity=of(one(instance, vim.VirtualMachine, "good")))
    assert len(list(everything(history.ReadNextTasks, 10))) == 1
    rig.done(rig.vm("good"), "PowerOffVM_Task")
    assert told(history.ReadNextTasks(10)) == [("good", "powerOff", "success")]


def test_a_destroyed_collector_is_gone(instance: Any) -> None:
    history = collector(instance)
    history.DestroyCollector()
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        history.ReadNextTasks(1)


def test_a_session_has_so_many_collectors_and_no_more(instance: Any) -> None:
    for _ in range(MOST_COLLECTORS):
        collector(instance)
    with pytest.raises(vim.fault.InvalidState):
        collector(instance)


def test_a_vm_that_is_gone_has_no_history(rig: Rig, instance: Any) -> None:
    vm = one(instance, vim.VirtualMachine, "bad")
    rig.done(rig.vm("bad"), "Destroy_Task")
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        collector(instance, entity=of(vm))


@pytest.mark.parametrize("count", [-1, 1001])
def test_a_page_has_a_sensible_size(instance: Any, count: int) -> None:
    with pytest.raises(vmodl.fault.InvalidArgument):
        collector(instance).ReadNextTasks(count)
    with pytest.raises(vmodl.fault.InvalidArgument):
        collector(instance).SetCollectorPageSize(count)


def test_a_vm_lists_its_recent_tasks_also_when_they_failed(rig: Rig, instance: Any) -> None:
    vm = one(instance, vim.VirtualMachine, "bad")
    (task,) = vm.recentTask
    assert (task.info.state, task.info.descriptionId) == ("error", "VirtualMachine.powerOn")
    rig.lab.clock.catch_up(rig.lab.clock.now() + 700)
    assert vm.recentTask == []
