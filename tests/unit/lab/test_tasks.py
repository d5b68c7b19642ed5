"""Tasks in time: queued, running with progress, over; beside each other, cancelled, failed by order."""

from __future__ import annotations

import threading

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import TEMPLATE, Rig
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, RealClock, VirtualClock
from vgpu_cfg.lab.simulation.faults import ScriptedFault, fault_type
from vgpu_cfg.lab.state.inventory import Task


def test_a_task_runs_reports_progress_and_ends() -> None:
    rig = Rig()
    task = rig.lab.call(**rig.clone_call("a"))
    seen = [(task.state, task.progress)]
    while rig.lab.state.open_tasks:
        rig.lab.wait()
        seen.append((task.state, task.progress))
    assert seen == [("running", 0), ("running", 25), ("running", 50), ("running", 75), ("success", 100)]
    assert task.result == rig.vm("a").moid
    assert (task.queued_at, task.ended_at) == (VIRTUAL_START, VIRTUAL_START + 20.0)


def test_a_full_clone_takes_longer_than_a_linked_one() -> None:
    rig = Rig()
    call = rig.clone_call("a")
    rig.done(rig.vm(TEMPLATE), "CreateSnapshot_Task", name="s", memory=False, quiesce=False)
    linked = rig.clone_call("b")
    linked["spec"].location.diskMoveType = "createNewChildDiskBacking"
    full, short = rig.run(**call), rig.run(**linked)
    assert full.ended_at is not None
    assert short.ended_at is not None
    assert full.ended_at - full.queued_at > short.ended_at - short.queued_at


def test_due_tasks_are_judged_in_their_order() -> None:
    rig = Rig()
    vms = [rig.clone(name, "grid_a100-40c") for name in "abc"]
    tasks = [rig.lab.call(vm, "PowerOnVM_Task") for vm in vms]
    rig.lab.run_until_idle()
    assert [task.state for task in tasks] == ["success", "success", "error"]


def test_a_limit_queues_what_is_more() -> None:
    rig = Rig(task_limit=2)
    tasks = [rig.lab.call(**rig.clone_call(name)) for name in "abc"]
    assert [task.state for task in tasks] == ["running", "running", "queued"]
    rig.lab.run_until_idle()
    assert [task.state for task in tasks] == ["success"] * 3
    assert tasks[2].ended_at == VIRTUAL_START + 40.0


def test_two_tasks_on_one_vm_are_one_too_many() -> None:
    rig = Rig()
    vm = rig.clone("a")
    first = rig.lab.call(vm, "PowerOnVM_Task")
    second = rig.lab.call(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(numCPUs=2))
    assert isinstance(second.fault, vim.fault.TaskInProgress)
    assert second.fault.task._GetMoId() == first.moid
    rig.lab.run_until_idle()
    assert first.state == "success"


def test_clones_of_one_template_run_beside_each_other() -> None:
    rig = Rig()
    tasks = [rig.lab.call(**rig.clone_call(name)) for name in "ab"]
    rig.lab.run_until_idle()
    assert {task.state for task in tasks} == {"success"}


def test_cancel() -> None:
    rig = Rig()
    task = rig.lab.call(**rig.clone_call("a"))
    rig.lab.call(task, "CancelTask")
    assert (task.state, task.cancelled) == ("error", True)
    assert isinstance(task.fault, vmodl.fault.RequestCanceled)
    rig.lab.run_until_idle()
    assert not rig.has_vm("a")
    with pytest.raises(vim.fault.InvalidState):
        rig.lab.call(task, "CancelTask")
    vm = rig.clone("b")
    fixed = rig.lab.call(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(numCPUs=2))
    with pytest.raises(vmodl.fault.NotSupported):
        rig.lab.call(fixed, "CancelTask")


def test_a_task_whose_object_went_away() -> None:
    rig = Rig()
    vm = rig.clone("a")
    task = rig.lab.call(vm, "Rename_Task", newName="b")
    rig.lab.call(vm, "UnregisterVM")
    rig.lab.run_until_idle()
    assert isinstance(task.fault, vmodl.fault.ManagedObjectNotFound)


def test_old_tasks_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vgpu_cfg.lab.simulation.tasks.KEPT_TASKS", 3)
    rig = Rig()
    vm = rig.clone("a")
    for number in range(5):
        rig.done(vm, "Rename_Task", newName=f"n{number}")
    assert len(rig.lab.state.tasks) == 3
    assert len(rig.lab.state.all(Task)) == 3


def test_a_mistake_of_the_labs_ends_its_task() -> None:
    rig = Rig()
    vm = rig.clone("a")
    fault = rig.refused(vm, "PowerOnVM_Task", host="no reference")
    assert isinstance(fault, vmodl.fault.SystemError)


def test_the_nth_task_fails_by_order() -> None:
    rig = Rig()
    rig.lab.faults.add("CloneVM_Task", nth=2, fault="NoDiskSpace", message="full")
    rig.clone("a")
    fault = rig.refused(**rig.clone_call("b"))
    assert (type(fault), fault.msg) == (vim.fault.NoDiskSpace, "full")
    rig.clone("b")


def test_every_call_fails_by_order() -> None:
    rig = Rig()
    rig.lab.faults.add("CloneVM_Task", nth=0, message="no")
    assert [rig.refused(**rig.clone_call("a")).reason for _ in range(3)] == ["no"] * 3
    rig.lab.faults.clear()
    rig.clone("a")


def test_calls_and_tasks_are_counted_apart() -> None:
    faults = Rig().lab.faults
    faults.add("PowerOnVM_Task", nth=2, kind="call", fault="NotAuthenticated")
    faults.add("PowerOnVM_Task", nth=1, kind="task")
    assert faults.on_call("PowerOnVM_Task") is None
    assert faults.on_call("PowerOffVM_Task") is None
    due = faults.on_call("PowerOnVM_Task")
    assert due is not None
    assert isinstance(due.make(), vim.fault.NotAuthenticated)
    assert faults.on_task("PowerOnVM_Task") is not None
    assert faults.on_task("PowerOnVM_Task") is None


def test_only_faults_of_vsphere_can_be_ordered() -> None:
    assert fault_type("vim.fault.NoPermission") is vim.fault.NoPermission
    assert fault_type("HostNotConnected") is vmodl.fault.HostNotConnected
    with pytest.raises(ValueError, match="'Nonsense' is not a vSphere fault"):
        ScriptedFault(method="x", fault="Nonsense")


@pytest.mark.parametrize(
    ("privilege", "allowed"),
    [
        ("VirtualMachine.Provisioning.DeployTemplate", False),
        ("Resource.AssignVMToPool", False),
        ("VirtualMachine.Inventory.CreateFromExisting", False),
        ("VirtualMachine.Provisioning.Clone", True),
    ],
)
def test_a_privilege_that_the_user_lacks(privilege: str, allowed: bool) -> None:
    rig = Rig()
    rig.lab.faults.lacking.add(privilege)
    if allowed:
        rig.clone("a")
        return
    with pytest.raises(vim.fault.NoPermission) as caught:
        rig.lab.call(**rig.clone_call("a"))
    assert caught.value.privilegeId == privilege


@pytest.mark.parametrize(
    ("privilege", "spec"),
    [
        ("VirtualMachine.Config.CPUCount", vim.vm.ConfigSpec(numCPUs=2)),
        (
            "VirtualMachine.Config.AdvancedConfig",
            vim.vm.ConfigSpec(extraConfig=[vim.option.OptionValue(key="k")]),
        ),
        ("VirtualMachine.Config.Resource", vim.vm.ConfigSpec(memoryReservationLockedToMax=True)),
    ],
)
def test_what_a_reconfiguration_needs(privilege: str, spec: vim.vm.ConfigSpec) -> None:
    rig = Rig()
    vm = rig.clone("a")
    rig.lab.faults.lacking.add(privilege)
    with pytest.raises(vim.fault.NoPermission):
        rig.lab.call(vm, "ReconfigVM_Task", spec=spec)
    rig.lab.call(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(annotation="x"))


def test_destroying_needs_its_privilege() -> None:
    rig = Rig()
    vm = rig.clone("a")
    rig.lab.faults.lacking.add("VirtualMachine.Inventory.Delete")
    with pytest.raises(vim.fault.NoPermission):
        rig.lab.call(vm, "Destroy_Task")


def test_clocks() -> None:
    virtual = VirtualClock()
    virtual.wait(VIRTUAL_START + 5, threading.Condition())
    virtual.advance(1)
    assert virtual.now() == VIRTUAL_START + 6
    virtual.wait(VIRTUAL_START, threading.Condition())
    assert virtual.now() == VIRTUAL_START + 6
    real = RealClock(speed=20)
    assert real.scaled(10) == 0.5
    real.catch_up(real.now() + 1000)
    later = real.now()
    real.catch_up(later - 500)
    assert real.now() >= later
    with pytest.raises(ValueError, match="greater than 0"):
        RealClock(speed=0)


def test_nothing_to_wait_for() -> None:
    lab = Rig().lab
    assert lab.wait() is False
    assert lab.wait(lab.clock.now() + 7) is True
    assert lab.clock.now() == VIRTUAL_START + 7
