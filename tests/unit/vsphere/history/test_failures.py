"""A VM's last failed task, and its log: where they are asked for, and what is made of the answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest
from pyVmomi import vim, vmodl
from pyVmomi.Iso8601 import ParseISO8601

from tests.unit.vsphere.scripted import content, item, reading, session_on, typed
from vgpu_cfg.errors import NotFound, NotOffered, NotPermitted, Unreachable, VCenterError
from vgpu_cfg.knowledge.faults import VmHistory
from vgpu_cfg.vsphere.history.failures import MOST_LOG_BYTES, FailureReader

VM = vim.VirtualMachine("vm-42")
COLLECTOR = vim.TaskHistoryCollector("session[1]collector-1")
LOG = b"one\ntwo\nthree\n"
FILES = {"config.files.logDirectory": "[vsan] train 01/"}


@dataclass
class Files:
    """A datastore over HTTP: one answer for every GET, or one after the other."""

    answers: list[tuple[int, Mapping[str, str], bytes]]
    asked: list[tuple[str, str, Mapping[str, str]]] = field(default_factory=list)

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        assert body == b""
        self.asked.append((method, path, headers))
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]

    def close(self) -> None:
        """Nothing is held."""


def task(number: int, at: str, *, operation: str = "powerOn", **more: Any) -> Any:
    """Make a task that is over."""
    return vim.TaskInfo(
        key=f"task-{number}",
        task=vim.Task(f"task-{number}"),
        descriptionId=f"VirtualMachine.{operation}",
        entity=VM,
        state=vim.TaskInfo.State.error if "error" in more else vim.TaskInfo.State.success,
        cancelled=more.pop("cancelled", False),
        cancelable=False,
        reason=more.pop("reason", vim.TaskReasonUser(userName="EXAMPLE\\bob")),
        queueTime=ParseISO8601(at),
        completeTime=ParseISO8601(at),
        eventChainId=number,
        **more,
    )


def failed(number: int, at: str, **more: Any) -> Any:
    error = vim.fault.GenericVmConfigFault(reason="Module 'DevicePowerOn' power on failed.")
    return task(number, at, error=error, **more)


def history(errors: list[Any], done: list[Any]) -> VmHistory:
    """Read the history of a vCenter that knows these tasks."""
    service = content()
    service.taskManager = vim.TaskManager("TaskManager")
    pages = [
        reading(item(COLLECTOR, {"latestPage": typed("vim.TaskInfo", *infos)} if infos else {}))
        for infos in (errors, done)
    ]
    answers = {
        "CreateCollectorForTasks": COLLECTOR,
        "SetCollectorPageSize": None,
        "RetrievePropertiesEx": pages,
        "DestroyCollector": None,
    }
    with session_on(answers, service=service) as (session, script):
        found = FailureReader(session, Files([])).read_history("vm-42")
        once = ["CreateCollectorForTasks", "SetCollectorPageSize", "RetrievePropertiesEx", "DestroyCollector"]
        assert script.methods == once * 2
        asked = [body for method, body in script.calls if method == "CreateCollectorForTasks"]
    assert all("<recursion>self</recursion>" in body and ">vm-42</entity>" in body for body in asked)
    assert ["<state>error</state>" in body for body in asked] == [True, False]
    return found


# ---------------------------------------------------------------- tasks


def test_the_newest_failed_task_is_told_in_the_words_of_its_fault() -> None:
    found = history([failed(8, "2026-11-20T22:31:00Z"), failed(9, "2026-11-19T00:00:00Z")], [])
    assert found.failed is not None
    assert found.failed.task == "task-8"
    assert found.failed.operation == "VirtualMachine.powerOn"
    assert found.failed.user == "EXAMPLE\\bob"
    assert found.failed.ended_at == ParseISO8601("2026-11-20T22:31:00Z")
    assert found.failed.fault == "GenericVmConfigFault"
    assert found.failed.error == "Module 'DevicePowerOn' power on failed."
    assert found.reconfigured is None


def test_a_task_that_was_cancelled_is_no_failure() -> None:
    assert history([failed(8, "2026-11-20T22:31:00Z", cancelled=True)], []).failed is None


def test_the_last_change_of_the_configuration_is_told_beside_it() -> None:
    done = [
        task(7, "2026-11-20T22:30:00Z"),
        task(6, "2026-11-20T22:29:00Z", operation="reconfigure"),
        task(5, "2026-11-20T22:00:00Z", operation="reconfigure"),
    ]
    found = history([], done)
    assert found.failed is None
    assert found.reconfigured is not None
    assert found.reconfigured.task == "task-6"
    assert (found.reconfigured.fault, found.reconfigured.error) == ("", "")


@pytest.mark.parametrize(
    ("reason", "user"),
    [
        (vim.TaskReasonUser(userName="VSPHERE.LOCAL\\anna"), "VSPHERE.LOCAL\\anna"),
        (vim.TaskReasonSystem(), "vCenter itself"),
        (
            vim.TaskReasonSchedule(name="nightly", scheduledTask=vim.scheduler.ScheduledTask("schedule-1")),
            "scheduled task nightly",
        ),
        (
            vim.TaskReasonAlarm(alarmName="hot", alarm=vim.alarm.Alarm("alarm-1"), entityName="x", entity=VM),
            "alarm hot",
        ),
    ],
    ids=["user", "system", "schedule", "alarm"],
)
def test_who_began_a_task(reason: Any, user: str) -> None:
    found = history([failed(8, "2026-11-20T22:31:00Z", reason=reason)], [])
    assert found.failed is not None
    assert found.failed.user == user


def test_without_a_history_the_recent_tasks_of_the_vm_are_read() -> None:
    infos = [failed(8, "2026-11-20T22:31:00Z"), task(6, "2026-11-20T22:29:00Z", operation="reconfigure")]
    answers = {"RetrievePropertiesEx": reading(*(item(one.task, {"info": one}) for one in infos))}
    with session_on(answers) as (session, script):
        found = FailureReader(session, Files([])).read_history("vm-42")
        assert script.methods == ["RetrievePropertiesEx"] * 2
        assert all("<path>recentTask</path>" in body for _, body in script.calls)
    assert found.failed is not None
    assert found.failed.task == "task-8"
    assert found.reconfigured is not None
    assert found.reconfigured.task == "task-6"


def test_a_refusal_to_read_tasks_is_an_error_and_no_lack_of_failures() -> None:
    service = content()
    service.taskManager = vim.TaskManager("TaskManager")
    refusal = vim.fault.NoPermission(object=VM, privilegeId="System.View")
    with (
        session_on({"CreateCollectorForTasks": refusal}, service=service) as (session, _),
        pytest.raises(NotPermitted, match=r"System\.View"),
    ):
        FailureReader(session, Files([])).read_history("vm-42")


def test_a_collector_is_let_go_of_where_the_reading_fails() -> None:
    service = content()
    service.taskManager = vim.TaskManager("TaskManager")
    answers = {
        "CreateCollectorForTasks": COLLECTOR,
        "SetCollectorPageSize": vmodl.fault.InvalidArgument(invalidProperty="maxCount"),
        "DestroyCollector": vmodl.fault.ManagedObjectNotFound(obj=COLLECTOR),
    }
    with (
        session_on(answers, service=service) as (session, script),
        pytest.raises(VCenterError, match="maxCount"),
    ):
        FailureReader(session, Files([])).read_history("vm-42")
    assert script.methods[-1] == "DestroyCollector"


# ---------------------------------------------------------------- the log


def read_log(
    *answers: tuple[int, Mapping[str, str], bytes],
    files: Mapping[str, Any] | None = None,
    datacenter: str = "/north/dc1",
) -> tuple[Any, Files]:
    server = Files(list(answers))
    found = reading(item(VM, FILES if files is None else files))
    with session_on({"RetrievePropertiesEx": found}) as (session, _):
        session.stub._cookie = '"52abc"'
        return FailureReader(session, server).read_log("vm-42", datacenter), server


def test_the_log_is_fetched_from_the_vms_folder_as_the_session() -> None:
    log, server = read_log((200, {}, LOG))
    ((method, path, headers),) = server.asked
    assert method == "GET"
    assert path == "/folder/train%2001/vmware.log?dcPath=north%2Fdc1&dsName=vsan"
    assert headers["Cookie"] == 'vmware_soap_session="52abc"'
    assert headers["Range"] == f"bytes=-{MOST_LOG_BYTES}"
    assert (log.path, log.first, log.lines) == ("[vsan] train 01/vmware.log", 1, ("one", "two", "three"))


def test_the_end_of_a_log_that_the_server_cut_has_no_numbers() -> None:
    cut = (206, {"Content-Range": "bytes 100-113/114"}, LOG)
    assert read_log(cut)[0].first is None
    assert read_log(cut)[0].lines == ("two", "three")


def test_a_log_that_is_shorter_than_what_was_asked_for_is_whole() -> None:
    log, _ = read_log((206, {"content-range": "bytes 0-13/14"}, LOG))
    assert (log.first, log.lines) == (1, ("one", "two", "three"))


def test_of_a_log_that_came_whole_only_the_end_is_kept_and_lines_keep_their_numbers() -> None:
    long = b"x" * 99 + b"\n"
    log, _ = read_log((200, {}, long * (MOST_LOG_BYTES // 100 + 10)))
    assert len(log.lines) == MOST_LOG_BYTES // 100
    assert log.first == 11


def test_a_server_that_cannot_send_the_end_is_asked_for_the_whole() -> None:
    log, server = read_log((416, {}, b""), (200, {}, LOG))
    assert log.lines == ("one", "two", "three")
    assert ["Range" in headers for _, _, headers in server.asked] == [True, False]


def test_without_a_log_folder_it_is_beside_the_configuration() -> None:
    _, server = read_log((200, {}, LOG), files={"config.files.vmPathName": "[vsan] a/b/a.vmx"})
    assert server.asked[0][1].startswith("/folder/a/b/vmware.log?")
    _, server = read_log((200, {}, LOG), files={"config.files.vmPathName": "[vsan] a.vmx"})
    assert server.asked[0][1].startswith("/folder/vmware.log?")


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (404, NotFound, "no vmware.log for this VM"),
        (401, NotPermitted, "no read access"),
        (403, NotPermitted, "no read access"),
        (501, NotOffered, "does not provide file downloads"),
        (500, VCenterError, "HTTP status 500"),
    ],
)
def test_a_log_that_does_not_come_is_an_error(status: int, error: type[VCenterError], words: str) -> None:
    with pytest.raises(error, match=words) as caught:
        read_log((status, {}, b"no"))
    assert caught.value.subject == "[vsan] train 01/vmware.log"
    assert caught.value.remedy


def test_a_vm_whose_files_nobody_knows_is_an_error() -> None:
    with pytest.raises(NotFound, match="does not report the location of the VM's files"):
        read_log((200, {}, LOG), files={})


def test_a_vm_that_has_gone_is_an_error() -> None:
    with (
        session_on({"RetrievePropertiesEx": reading()}) as (session, _),
        pytest.raises(NotFound, match="no longer exists"),
    ):
        FailureReader(session, Files([])).read_log("vm-42", "/dc1")


def test_a_broken_connection_is_told_as_one() -> None:
    class Broken(Files):
        def exchange(self, *_: Any) -> tuple[int, Mapping[str, str], bytes]:
            raise Unreachable("broke", subject="vc01", remedy="try again")

    found = reading(item(VM, FILES))
    with session_on({"RetrievePropertiesEx": found}) as (session, _), pytest.raises(Unreachable):
        FailureReader(session, Broken([])).read_log("vm-42", "/dc1")
