"""Files of datastores over HTTPS, `/folder/<path>?dcPath=…&dsName=…`: uploaded ones, and VMs' logs.

A log has the reason of a power-on that failed. The beginnings of its lines, on 7.0 and from 8.0 on, are
recorded (Dell 000199172 and field reports), as are `PCIPassthru: total number …` and the lines on the
power-on module; the log's head and its DICT lines are recalled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from urllib.parse import parse_qs, unquote, urlsplit

from pyVmomi import vim

from vgpu_cfg.lab.operations.files import delete_file, put
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import Datastore, Host, Task, VirtualMachine

PREFIX = "/folder/"
LOG = "vmware.log"
PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
POWER_ON = "PowerOnVM_Task"
FIRST_NEW_FORM = 8
"""The major release of ESXi from which log lines say `In(05) vmx -`."""

Answer = tuple[int, Mapping[str, str], bytes]


def exchange(
    lab: Simulation, method: str, url: str, body: bytes, cookie: str | None, caller: tuple[str, bool] | None
) -> Answer:
    """Answer a GET, HEAD, PUT or DELETE of a file: 404 for a missing one, 401 without a login.

    `caller` is the user that a password proves, and whether it is an administrator; else the session's user
    counts.
    """
    with lab.transaction():
        session = lab.sessions.find(cookie, lab.clock.now())
        caller = caller or ((session.user, session.is_administrator) if session is not None else None)
        if caller is None:
            asks = {"WWW-Authenticate": 'Basic realm="VMware HTTP server"'}
            return 401, {**PLAIN, **asks}, b"401 Unauthorized\n"
        parts = urlsplit(url)
        store = _store(lab, parts.query)
        path = unquote(parts.path).removeprefix(PREFIX)
        if store is not None and method in ("PUT", "DELETE"):
            lab.user, lab.is_administrator = caller
            return _changed(lab, store, method, path, body)
        found = _find(lab, store, path) if store is not None else None
    if found is None:
        return 404, PLAIN, b"404 Not Found\n"
    return 200, PLAIN, found


def _changed(lab: Simulation, store: Datastore, method: str, path: str, body: bytes) -> Answer:
    """Put a file or delete one; a refusal of vSphere becomes 403 or 404 (assumed)."""
    try:
        if method == "DELETE":
            delete_file(lab, store, name=f"[{store.name}] {path}")
            return 204, PLAIN, b""
        lab.check_privileges(vim.Datastore(store.moid), ["Datastore.FileManagement"])
        put(lab, store, path, body.decode("latin-1"))
    except vim.fault.FileNotFound:
        return 404, PLAIN, b"404 Not Found\n"
    except (vim.fault.FileLocked, vim.fault.NoPermission):
        return 403, PLAIN, b"403 Forbidden\n"
    return 201, PLAIN, b""


def _store(lab: Simulation, query: str) -> Datastore | None:
    """Return the datastore that a query means by the paths of its datacenter and its own name."""
    names = parse_qs(query)
    wanted = (names.get("dcPath", [""])[0].strip("/"), names.get("dsName", [""])[0])
    stores = lab.state.all(Datastore)
    return next((store for store in stores if (_path_of_datacenter(lab, store), store.name) == wanted), None)


def _find(lab: Simulation, store: Datastore, path: str) -> bytes | None:
    if path in store.files:
        return store.files[path].encode("latin-1")
    folder, _, name = path.rpartition("/")
    for vm in (lab.state.get(moid, VirtualMachine) for moid in store.vms):
        if (vm.home or vm.name) == folder and name == LOG:
            text = log_text(lab, vm)
            return None if text is None else text.encode()
    return None


def _path_of_datacenter(lab: Simulation, store: Datastore) -> str:
    at = lab.state.datacenter_of(store)
    names: list[str] = []
    while at is not None and at.parent is not None:
        names.insert(0, at.name)
        at = lab.state.objects.get(at.parent)  # type: ignore[assignment]  # above a datacenter are folders
    return "/".join(names)


def log_text(lab: Simulation, vm: VirtualMachine) -> str | None:
    """Return a VM's vmware.log; None for one that no host ever tried to run."""
    tried = _last_try(lab, vm)
    if tried is None and vm.boot_time is None:
        return None
    host = lab.state.find(vm.host, Host)
    moment = (tried.ended_at if tried is not None else vm.boot_time) or lab.clock.now()
    stamp = _stamp(as_datetime(moment), host)
    return "".join(f"{stamp}{line}\n" for line in _lines(vm, host, tried))


def _last_try(lab: Simulation, vm: VirtualMachine) -> Task | None:
    """Return the last power-on that reached a host: one without a message failed before it did."""
    for moid in reversed(lab.state.tasks):
        task = lab.state.get(moid, Task)
        if task.entity != vm.moid or task.name != POWER_ON or task.state not in ("success", "error"):
            continue
        if task.state == "success" or _messages(task) or vm.log:
            return task
    return None


def _messages(task: Task) -> list[tuple[str, str]]:
    """Return key and text of the host's message on a failure."""
    return [(each.key, each.message or "") for each in getattr(task.fault, "faultMessage", None) or ()]


def _stamp(moment: datetime, host: Host | None) -> str:
    """Return the beginning of a log line."""
    time = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond // 1000:03d}Z"
    is_new = host is None or int(host.version.partition(".")[0]) >= FIRST_NEW_FORM
    return f"{time} In(05) vmx - " if is_new else f"{time}| vmx| | I005: "


def _lines(vm: VirtualMachine, host: Host | None, tried: Task | None) -> Iterator[str]:
    number = int(vm.moid.rpartition("-")[2])
    if host is not None:
        yield (
            f"Log for VMware ESX pid={2_100_000 + number} version={host.version} build=build-{host.build} "
            "option=Release"
        )
    settings = {
        "displayName": vm.name,
        "virtualHW.version": str(vm.hardware_version),
        "firmware": vm.firmware,
        "numvcpus": str(vm.cpus),
        "memSize": str(vm.memory_mib),
        **vm.extra_config,
    }
    yield "DICT --- CONFIGURATION"
    yield from (f'DICT {key:>30} = "{value}"' for key, value in settings.items())
    yield "PowerOn"
    yield from vm.log
    if tried is None or tried.state == "success":
        yield "VMX_PowerOn: ModuleTable_PowerOn = 1"
        return
    posted = [(key, text) for key, text in _messages(tried) if text not in vm.log]
    if posted:
        yield "Msg_Post: Error"
    yield from (f"[{key}] {text}" for key, text in posted)
    yield "VMX_PowerOn: ModuleTable_PowerOn = 0"
