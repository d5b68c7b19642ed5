"""Each method of the writer and of the locks: its request, and the error if vCenter refuses it.

Both are compared with stored texts; see `conftest.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.fakes.fake_vcenter import START
from tests.unit.execution.makers import create, spec_of
from tests.unit.vsphere.scripted import session_on
from vgpu_cfg.changes.change import RemoveRule, RemoveVmGroup, SetHostRule, SetRule
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.errors import NotFound, NotPermitted
from vgpu_cfg.model.locks import Freeze, LockHolder, LockName
from vgpu_cfg.model.reservations import Reservation, ReservedGpus
from vgpu_cfg.vsphere.writing.alarms import VCenterLocks
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

TASK = vim.Task("task-7")
CLUSTER: dict[str, Any] = {"subject": Subject(kind="cluster", name="gpu"), "cluster_moid": "domain-1"}
RULE: dict[str, Any] = {**CLUSTER, "id": "rule", "rule_name": "apart", "vms": (VmRef(name="a", moid="vm-1"),)}
GROUPS: dict[str, Any] = {"vm_group": "mine", "host_group": "theirs"}
WHERE = Destination(host_moid="host-2", host_name="esx-02")
STORED = {
    "datastore_moid": "datastore-2",
    "resource_pool_moid": "resgroup-2",
    "kept_disks": {2001: "datastore-1"},
}
SPEC = VmSpec(settings={"cpus": 8, "memory": 4096}, extra_config={"numa.nodeAffinity": "0"})
PLAIN = spec_of("a", devices=())
LOCK = LockName(kind="plan", key="demo")
HOLDER = LockHolder(
    run="5eed5eed5eed", command="apply", plan="demo", user="anna", machine="jump", since=START
)
FREEZE = Freeze(until=START, reason="audit", user="anna", machine="jump", since=START)
HELD = ReservedGpus(cluster="domain-1", board="A100", gpus=2)
OURS = Reservation(plan="demo", begins=START, ends=START + timedelta(days=1), holds=(HELD,))
RECONFIGURE = "ReconfigureComputeResource_Task"

Write = Callable[[Any], object]
WRITES: dict[str, tuple[str, Write]] = {
    "create_vm": ("CloneVM_Task", lambda to: to.create_vm(create("a", spec=PLAIN), "uuid-1")),
    "upgrade_vm": ("UpgradeVM_Task", lambda to: to.upgrade_vm("vm-1", 21)),
    "reconfigure_vm": ("ReconfigVM_Task", lambda to: to.reconfigure_vm("vm-1", SPEC)),
    "power_on_vm": ("PowerOnVM_Task", lambda to: to.power_on_vm("vm-1")),
    "power_on_vm on a host": ("PowerOnVM_Task", lambda to: to.power_on_vm("vm-1", "host-1")),
    "power_off_vm": ("PowerOffVM_Task", lambda to: to.power_off_vm("vm-1")),
    "shut_down_guest": ("ShutdownGuest", lambda to: to.shut_down_guest("vm-1")),
    "destroy_vm": ("Destroy_Task", lambda to: to.destroy_vm("vm-1")),
    "rename_vm": ("Rename_Task", lambda to: to.rename_vm("vm-1", "a/b")),
    "move_vm_to_folder": ("MoveIntoFolder_Task", lambda to: to.move_vm_to_folder("vm-1", "group-2")),
    "relocate_vm": ("RelocateVM_Task", lambda to: to.relocate_vm("vm-1", WHERE)),
    "relocate_vm with its disks": (
        "RelocateVM_Task",
        lambda to: to.relocate_vm("vm-1", WHERE.model_copy(update=STORED)),
    ),
    "set_rule": (RECONFIGURE, lambda to: to.set_rule(SetRule(**RULE), ["vm-1", "vm-2"])),
    "set_rule that is there": (
        RECONFIGURE,
        lambda to: to.set_rule(SetRule(**RULE, rule_key=4, is_mandatory=True), ["vm-1"]),
    ),
    "set_host_rule": (RECONFIGURE, lambda to: to.set_host_rule(SetHostRule(**RULE, **GROUPS), ["vm-1"])),
    "set_host_rule that is there": (
        RECONFIGURE,
        lambda to: to.set_host_rule(SetHostRule(**RULE, **GROUPS, rule_key=4, has_group=True), ["vm-1"]),
    ),
    "remove_rule": (
        RECONFIGURE,
        lambda to: to.remove_rule(RemoveRule(id="r", rule_name="apart", rule_key=4, **CLUSTER)),
    ),
    "remove_vm_group": (
        RECONFIGURE,
        lambda to: to.remove_vm_group(RemoveVmGroup(id="g", group_name="mine", **CLUSTER)),
    ),
    "set_reservation": ("CreateAlarm", lambda to: to.set_reservation(OURS, "")),
    "set_reservation that is there": ("ReconfigureAlarm", lambda to: to.set_reservation(OURS, "alarm-7")),
    "set_reservation to none": ("RemoveAlarm", lambda to: to.set_reservation(None, "alarm-7")),
}
LOCKS: dict[str, tuple[str, Write]] = {
    "make": ("CreateAlarm", lambda to: to.make(LOCK, HOLDER)),
    "freeze": ("CreateAlarm", lambda to: to.freeze(FREEZE)),
    "beat": ("ReconfigureAlarm", lambda to: to.beat("alarm-7", LOCK, HOLDER, 3)),
    "remove": ("RemoveAlarm", lambda to: to.remove("alarm-7")),
}
ELSEWHERE = {
    "set_attributes",
    "set_tags",
    "set_host_attributes",
    "set_overrides",
    "wait_for_tasks",
    "close",
    "server",
    "place",
    "read",
    "missing_privileges",
    "running_tasks",
    "alarm_folder",
}
"""Methods that need several answers: their own files test them."""


def on(kind: Any, name: str, answer: Any) -> tuple[object, list[str]]:
    """Call a method of the table on a vCenter with this answer; return what came back and what was asked."""
    method, write = (WRITES if kind is VCenterWriter else LOCKS)[name]
    with session_on({method: answer}) as (session, script):
        return write(kind(session)), script.methods


TABLE = [(VCenterWriter, name) for name in WRITES] + [(VCenterLocks, name) for name in LOCKS]


@pytest.mark.parametrize(("kind", "name"), TABLE)
def test_a_write_is_one_request_and_returns_its_task(kind: Any, name: str) -> None:
    method = (WRITES if kind is VCenterWriter else LOCKS)[name][0]
    answer = {"CreateAlarm": vim.alarm.Alarm("alarm-9")}.get(method, TASK if "Task" in method else None)
    found, asked = on(kind, name, answer)
    assert asked == [method]
    assert found == ("task-7" if "Task" in method else "alarm-9" if name == "make" else found)
    assert found or method == "RemoveAlarm"


@pytest.mark.parametrize(("kind", "name"), TABLE)
def test_a_refused_write_names_its_object(kind: Any, name: str) -> None:
    with pytest.raises(NotPermitted) as error:
        on(kind, name, vim.fault.NoPermission(object=vim.Folder("group-d1"), privilegeId="Global.Disable"))
    assert error.value.subject


@pytest.mark.parametrize("name", ["make", "freeze", "set_reservation"])
def test_a_name_that_is_taken_is_no_error(name: str) -> None:
    kind = VCenterLocks if name in LOCKS else VCenterWriter
    taken = vim.fault.DuplicateName(name=name, object=vim.alarm.Alarm("alarm-8"))
    assert not on(kind, name, taken)[0]


@pytest.mark.parametrize(
    "name", ["beat", "remove", "set_reservation that is there", "set_reservation to none"]
)
def test_an_alarm_that_has_gone_is_no_error(name: str) -> None:
    kind = VCenterLocks if name in LOCKS else VCenterWriter
    assert not on(kind, name, vmodl.fault.ManagedObjectNotFound(obj=vim.alarm.Alarm("alarm-7")))[0]


def test_a_guest_without_tools_is_not_shut_down() -> None:
    assert on(VCenterWriter, "shut_down_guest", vim.fault.ToolsUnavailable())[0] is False


def test_a_vm_without_a_moid_is_not_found() -> None:
    with session_on({}) as (session, _), pytest.raises(NotFound, match="the VM does not exist yet"):
        VCenterWriter(session).power_on_vm(None)  # type: ignore[arg-type]  # as a saved plan could have it


def test_every_method_is_in_the_table() -> None:
    known = {name.partition(" ")[0] for name in (*WRITES, *LOCKS)} | ELSEWHERE
    methods = {
        name for kind in (VCenterWriter, VCenterLocks) for name in vars(kind) if not name.startswith("_")
    }
    assert methods <= known
