"""Find a VM's last failed task in vCenter's history, and fetch its vmware.log from the datastore.

Tasks come from a TaskHistoryCollector's latest page, or, if there is none, from the VM's recent tasks. The
log comes over HTTP (vSphere Web Services SDK Programming Guide, "Datastore Access"): `GET
/folder/PATH?dcPath=DATACENTER&dsName=DATASTORE` with the session's cookie, which needs the privileges
Datastore.Browse and Datastore.FileManagement there. That vCenter honours a Range header is unproven; where it
sends the whole file, the end of it is kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote, urlencode

from pyVmomi import vim, vmodl

from vgpu_cfg.errors import NotFound, NotOffered, NotPermitted, VCenterError
from vgpu_cfg.knowledge.faults import LOG_NAME, RECONFIGURE, PastTask, VmHistory, VmLog, last_start
from vgpu_cfg.ports import Transport
from vgpu_cfg.vsphere.history.collectors import beginner, held
from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from, renewing
from vgpu_cfg.vsphere.wire.faults import fault_name, fault_text, is_not_offered, translated
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.wire.stub import SESSION_COOKIE

MOST_LOG_BYTES = 4 * 1024 * 1024
"""So much of the end of a log is read: a start writes a few hundred kilobytes at most."""
PAGE_SIZE = 100
"""So many tasks of the VM are looked at, the newest ones."""

_DATASTORE_PATH = re.compile(r"\[([^\]]*)\] ?(.*)")
_RANGE = re.compile(r"bytes (\d+)-", re.IGNORECASE)
_VM = "vim.VirtualMachine"
_COLLECTOR = "vim.TaskHistoryCollector"
_FILES = (Paths(_VM, ("config.files.logDirectory", "config.files.vmPathName")),)


class FailureReader:
    """Reads what failed of a VM; writes nothing. Every method raises `VCenterError`."""

    def __init__(self, session: Session, transport: Transport) -> None:
        self._session = session
        self._transport = transport

    def read_history(self, vm_moid: str) -> VmHistory:
        """Read the VM's last failed task, and the last that changed its configuration.

        Eight round trips; two where the server keeps no history. How far back the history goes is a
        setting of vCenter's; recent tasks are those of the last ten minutes.
        """
        failed = self._tasks(vm_moid, "error")
        done = self._tasks(vm_moid, "success")
        changes = [info for info in done if info.descriptionId == RECONFIGURE]
        return VmHistory(
            failed=_newest(info for info in failed if not info.cancelled), reconfigured=_newest(changes)
        )

    def read_log(self, vm_moid: str, datacenter_path: str) -> VmLog:
        """Read of the VM's vmware.log what its last start left, from its last 4 MiB.

        `datacenter_path` is the inventory path of its datacenter, as in "/dc1". Two round trips. Raises
        NotFound where there is no log (a VM that was never started has none), and NotPermitted.
        """
        datastore, folder = self._log_folder(vm_moid)
        path = f"[{datastore}] {folder}{LOG_NAME}"
        query = urlencode({"dcPath": datacenter_path.strip("/"), "dsName": datastore}, quote_via=quote)
        status, headers, body = self._get(f"/folder/{quote(folder + LOG_NAME)}?{query}", with_range=True)
        if status == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:  # an empty file, or a server without ranges
            status, headers, body = self._get(f"/folder/{quote(folder + LOG_NAME)}?{query}", with_range=False)
        if status not in (HTTPStatus.OK, HTTPStatus.PARTIAL_CONTENT):
            raise _refused(status, path)
        is_whole = status == HTTPStatus.OK or _begins_at_0(headers.items())
        text = body.decode("utf-8", errors="replace")
        return last_start(path, text, is_whole=is_whole).shortened(MOST_LOG_BYTES)

    # ---------------------------------------------------------------- tasks

    def _tasks(self, vm_moid: str, state: str) -> Sequence[Any]:
        with translated("reading the VM's tasks", vm_moid):
            try:
                return renewing(self._session, lambda: self._from_history(vm_moid, state))
            except vmodl.MethodFault as fault:
                if not is_not_offered(fault):
                    raise
        return self._recent(vm_moid, state)

    def _from_history(self, vm_moid: str, state: str) -> Sequence[Any]:
        manager = self._session.service_content.taskManager
        if manager is None:
            raise vmodl.fault.NotSupported
        of_vm = vim.TaskFilterSpec.ByEntity(
            entity=vim.VirtualMachine(vm_moid), recursion=vim.TaskFilterSpec.RecursionOption.self
        )
        spec = vim.TaskFilterSpec(entity=of_vm, state=[state])
        with held(manager.CreateCollectorForTasks(spec)) as collector:
            collector.SetCollectorPageSize(PAGE_SIZE)
            start = Start(_COLLECTOR, str(collector._moId))
            (item,) = collect_from(self._session, (Paths(_COLLECTOR, ("latestPage",)),), (start,))
            return item.get("latestPage") or ()

    def _recent(self, vm_moid: str, state: str) -> Sequence[Any]:
        start = Start(_VM, vm_moid, follow="recentTask")
        items = collect_from(self._session, (Paths("vim.Task", ("info",)),), (start,))
        infos = (item.get("info") for item in items)
        return [info for info in infos if info is not None and info.state == state]

    # ---------------------------------------------------------------- the log

    def _log_folder(self, vm_moid: str) -> tuple[str, str]:
        """Return datastore and folder of the VM's log, the folder with a slash at its end."""
        items = collect_from(self._session, _FILES, (Start(_VM, vm_moid),))
        if not items:
            raise NotFound("the VM no longer exists", subject=vm_moid, remedy="look it up in vCenter")
        files = items[0]
        directory = files.get("config.files.logDirectory") or _parent(
            files.get("config.files.vmPathName") or ""
        )
        found = _DATASTORE_PATH.fullmatch(directory)
        if found is None:
            raise NotFound(
                "vCenter does not report the location of the VM's files",
                subject=vm_moid,
                remedy="check whether the VM is accessible in vCenter",
            )
        datastore, folder = found.groups()
        return datastore, folder if not folder or folder.endswith("/") else f"{folder}/"

    def _get(self, path: str, *, with_range: bool) -> tuple[int, Any, bytes]:
        stub = self._session.stub
        headers = {
            "Cookie": f"{SESSION_COOKIE}={stub._cookie}",  # noqa: SLF001 - the login's own cookie, for a request that is no call
            "User-Agent": "vgpu-cfg",
        }
        if with_range:
            headers["Range"] = f"bytes=-{MOST_LOG_BYTES}"
        stub.round_trips += 1
        return self._transport.exchange("GET", path, headers, b"")


def _newest(infos: Iterable[Any]) -> PastTask | None:
    found = max(infos, key=lambda info: info.completeTime or info.queueTime, default=None)
    return None if found is None else _past(found)


def _past(info: Any) -> PastTask:
    error = info.error
    return PastTask(
        task=info.key,
        operation=info.descriptionId or "",
        user=_by(info.reason),
        ended_at=info.completeTime or info.queueTime,
        fault="" if error is None else fault_name(error),
        error="" if error is None else fault_text(error),
    )


def _by(reason: Any) -> str:
    """Say who or what began a task."""
    if isinstance(reason, vim.TaskReasonUser):
        return str(reason.userName)
    return beginner(reason) or "vCenter itself"


def _parent(path: str) -> str:
    """Return the folder of "[datastore] folder/name.vmx"."""
    head, slash, _ = path.rpartition("/")
    return f"{head}/" if slash else path.partition("]")[0] + "]"


def _begins_at_0(headers: Iterable[tuple[str, str]]) -> bool:
    for name, value in headers:
        if name.lower() == "content-range" and (found := _RANGE.match(value.strip())) is not None:
            return int(found.group(1)) == 0
    return False


def _refused(status: int, path: str) -> VCenterError:
    if status == HTTPStatus.NOT_FOUND:
        return NotFound(
            f"the datastore has no {LOG_NAME} for this VM",
            subject=path,
            remedy="a VM that was never powered on has no log; otherwise check its folder on the datastore",
        )
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return NotPermitted(
            f"the account has no read access to the log (HTTP status {status})",
            subject=path,
            remedy="request a role with Datastore.Browse and Datastore.FileManagement on the datastore",
        )
    if status in (HTTPStatus.NOT_IMPLEMENTED, HTTPStatus.METHOD_NOT_ALLOWED):
        return NotOffered(
            f"this vCenter does not provide file downloads (HTTP status {status})",
            subject=path,
            remedy="download the log from the datastore manually, and pass it to `vgpu-cfg explain -`",
        )
    return VCenterError(
        f"downloading the log failed with HTTP status {status}",
        subject=path,
        remedy="download it from the datastore manually, and pass it to `vgpu-cfg explain -`",
    )
