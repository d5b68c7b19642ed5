"""Files of datastores, by their names and over HTTPS: uploaded ones, virtual disks, and those of VMs.

The faults are those of the types that vim declares for each method; which of them a file server of which kind
takes is assumed. When a file was changed is not kept: all show the moment of the question.

Of a virtual disk of no VM the lab keeps its descriptor, a text with its size in sectors. Faults are those
that vim declares for the methods; that InvalidArgument refuses a name that is no disk's, and a smaller disk,
is assumed.

A VM's log has the reason of a power-on that failed. The beginnings of its lines, on 7.0 and from 8.0 on, are
recorded (Dell 000199172 and field reports), as are `PCIPassthru: total number …` and the lines on the
power-on module; the log's head and its DICT lines are recalled.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from pyVmomi import vim

from vgpu_cfg.lab.operations.vms.disk_files import descriptor, sectors, uuid_in
from vgpu_cfg.lab.operations.vms.drafts import datastore_of
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.operations import operation, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import disk_uuid, disks_of
from vgpu_cfg.lab.state.inventory import Datastore, Host, LabState, Managed, Task, VirtualMachine

_NEEDED = ("Datastore.FileManagement",)

_OF = "virtualDiskManager"


# ---------------------------------------------------------------- what is there


def listed(state: LabState, store: Datastore) -> dict[str, int]:
    """Return every path on a datastore with its bytes; one of a folder ends in "/"."""
    found = {path: len(content) for path, content in store.files.items()}
    for moid in store.vms:
        found |= dict.fromkeys(_files_of(state.get(moid, VirtualMachine)), 0)
    found |= dict.fromkeys(store.left, 0)
    above = {path[: at + 1] for path in found for at, sign in enumerate(path) if sign == "/"}
    return dict.fromkeys(sorted(above), 0) | found


def config_file(vm: VirtualMachine) -> str:
    """Return the path of the file that describes a VM, on its datastore."""
    return f"{vm.home or vm.name}/{vm.name}.vmx"


def disk_files(vm: VirtualMachine) -> dict[int, str]:
    """Return the paths of a VM's disks, with their datastores, by the disks' keys."""
    named = {disk.key: getattr(disk.backing, "fileName", None) or "" for disk in disks_of(vm.devices)}
    return {key: name for key, name in named.items() if name}


def _files_of(vm: VirtualMachine) -> Iterator[str]:
    yield config_file(vm)
    for name in disk_files(vm).values():
        yield name.partition("] ")[2] or name


def split(lab: Simulation, path: str) -> tuple[Datastore, str]:
    """Return the datastore of a path like `[vsan] web/web.vmx`, and the rest of the path."""
    if not path.startswith("[") or "]" not in path:
        raise vim.fault.InvalidDatastorePath(datastorePath=path, msg=f"Invalid datastore path '{path}'.")
    return datastore_of(lab, path, None), path.partition("]")[2].strip().strip("/")


def not_found(path: str) -> Any:
    """Say that a file is not there."""
    return vim.fault.FileNotFound(file=path, msg=f"File {path} was not found")


@task(
    "HostDatastoreBrowser",
    "SearchDatastore_Task",
    description_id="host.DatastoreBrowser.search",
    seconds=0.5,
)
def search(lab: Simulation, place: Managed, *, datastorePath: str, searchSpec: Any = None) -> Any:
    """List a folder of a datastore, asked of its browser or of a host's. Raises FileNotFound."""
    store, folder = split(lab, datastorePath)
    return _results(lab, store, folder, searchSpec)


@task(
    "HostDatastoreBrowser",
    "SearchDatastoreSubFolders_Task",
    description_id="host.DatastoreBrowser.searchSubFolders",
    seconds=0.5,
)
def search_below(lab: Simulation, place: Managed, *, datastorePath: str, searchSpec: Any = None) -> Any:
    """List a folder of a datastore and all below it. Raises FileNotFound."""
    store, folder = split(lab, datastorePath)
    top = f"{folder}/" if folder else ""
    below = [path.rstrip("/") for path in listed(lab.state, store) if path.endswith("/")]
    names = [folder, *(path for path in below if path.startswith(top) and path != folder)]
    many: Any = vim.host.DatastoreBrowser.SearchResults
    return many.Array([_results(lab, store, name, searchSpec) for name in names])


def _results(lab: Simulation, store: Datastore, folder: str, spec: Any) -> Any:
    found = listed(lab.state, store)
    top = f"{folder}/" if folder else ""
    if top and top not in found:
        raise not_found(f"[{store.name}] {folder}")
    inside = {path.removeprefix(top): size for path, size in found.items() if path.startswith(top)}
    wanted = [name.lower() for name in getattr(spec, "matchPattern", None) or ("*",)]
    names = (name for name in inside if name and "/" not in name.rstrip("/"))
    return vim.host.DatastoreBrowser.SearchResults(
        datastore=vim.Datastore(store.moid),
        folderPath=f"[{store.name}] {top}",
        file=[
            _info(name, inside[name], as_datetime(lab.clock.now()))
            for name in names
            if any(fnmatchcase(name.rstrip("/").lower(), pattern) for pattern in wanted)
        ],
    )


def _info(name: str, size: int, moment: datetime) -> Any:
    browser = vim.host.DatastoreBrowser
    kinds: dict[str, Any] = {
        "/": browser.FolderInfo,
        ".vmx": browser.VmConfigInfo,
        ".vmdk": browser.VmDiskInfo,
    }
    kinds |= {".iso": browser.IsoImageInfo, ".log": browser.VmLogInfo}
    kind = next((made for end, made in kinds.items() if name.endswith(end)), browser.FileInfo)
    return kind(path=name.rstrip("/"), fileSize=size, modification=moment)


# ---------------------------------------------------------------- what is changed


@operation("FileManager", "MakeDirectory")
def make_directory(
    lab: Simulation,
    root: Managed,
    *,
    name: str,
    datacenter: Any = None,
    createParentDirectories: bool | None = None,
) -> None:
    """Make a folder. Raises FileAlreadyExists, FileNotFound where the one above is not there.

    At the top of a vSAN datastore no folder can be made so: CannotCreateFile (`Datastore.capability`,
    topLevelDirectoryCreateSupported).
    """
    del root, datacenter
    store, path = may_change(lab, name)
    above = path.rpartition("/")[0]
    found = listed(lab.state, store)
    if f"{path}/" in found or path in found:
        raise already_there(name)
    if above and f"{above}/" not in found and not createParentDirectories:
        raise not_found(f"[{store.name}] {above}")
    if not above and store.kind == "vsan":
        raise vim.fault.CannotCreateFile(file=name, msg="Cannot complete file creation operation.")
    put(lab, store, f"{path}/", "")


@task(
    "FileManager", "DeleteDatastoreFile_Task", description_id="FileManager.deleteDatastoreFile", seconds=1.0
)
def delete_file(lab: Simulation, root: Managed, *, name: str, datacenter: Any = None) -> None:
    """Delete a file, or a folder with all in it. Raises FileNotFound, FileLocked for one that a VM uses."""
    del root, datacenter
    store, path = may_change(lab, name)
    for found in _taken(lab, store, name, path):
        store.files.pop(found, None)
        store.left.pop(found, None)
    lab.state.touch(store)


@task("FileManager", "MoveDatastoreFile_Task", description_id="FileManager.moveDatastoreFile", seconds=1.0)
def move_file(
    lab: Simulation, root: Managed, *, sourceName: str, destinationName: str, **others: Any
) -> None:
    """Move a file or a folder. Raises FileNotFound, FileAlreadyExists unless forced, FileLocked."""
    copy_file(lab, root, sourceName=sourceName, destinationName=destinationName, **others)
    delete_file(lab, root, name=sourceName)


@task("FileManager", "CopyDatastoreFile_Task", description_id="FileManager.copyDatastoreFile", seconds=1.0)
def copy_file(
    lab: Simulation,
    root: Managed,
    *,
    sourceName: str,
    destinationName: str,
    sourceDatacenter: Any = None,
    destinationDatacenter: Any = None,
    force: bool | None = None,
) -> None:
    """Copy a file or a folder. Raises FileNotFound, FileAlreadyExists unless forced, FileLocked."""
    del root, sourceDatacenter, destinationDatacenter
    source, path = may_change(lab, sourceName)
    into, name = may_change(lab, destinationName)
    there = listed(lab.state, into)
    if not force and (name in there or f"{name}/" in there):
        raise already_there(destinationName)
    for found in _taken(lab, source, sourceName, path):
        copied = name + found.removeprefix(path)
        if found in source.left:
            into.left[copied] = source.left[found]
            lab.state.touch(into)
        else:
            put(lab, into, copied, source.files.get(found, ""))


def put(lab: Simulation, store: Datastore, path: str, content: str) -> None:
    """Put a file or a folder on a datastore."""
    store.files[path] = content
    lab.state.touch(store)


def may_change(lab: Simulation, name: str) -> tuple[Datastore, str]:
    """Return the datastore of a path, and the rest of the path. Raises NoPermission."""
    store, path = split(lab, name)
    lab.check_privileges(vim.Datastore(store.moid), _NEEDED)
    return store, path


def _taken(lab: Simulation, store: Datastore, name: str, path: str) -> list[str]:
    """Return a file, or a folder with its content."""
    found = listed(lab.state, store)
    taken = [one for one in found if one == path or one.startswith(f"{path}/")]
    if not path or not taken:
        raise not_found(name)
    free = {*store.files, *store.left}
    if any(one not in free and not one.endswith("/") for one in taken):
        raise vim.fault.FileLocked(file=name, msg=f"Unable to access file {name} since it is locked")
    return taken


def already_there(name: str) -> Any:
    """Say that a file is there already."""
    return vim.fault.FileAlreadyExists(
        file=name, msg="The specified key, name, or identifier already exists."
    )


@task("VirtualDiskManager", "CreateVirtualDisk_Task", description_id=f"{_OF}.createVirtualDisk", seconds=1.0)
def create_disk(lab: Simulation, root: Managed, *, name: str, spec: Any, datacenter: Any = None) -> str:
    """Make a disk in a folder that is there. Raises FileAlreadyExists, FileNotFound, NoDiskSpace."""
    del root, datacenter
    store, path = may_change(lab, name)
    there, above = listed(lab.state, store), path.rpartition("/")[0]
    if not path.endswith(".vmdk"):
        raise refusals.bad_argument("name")
    if path in there:
        raise already_there(name)
    if above and f"{above}/" not in there:
        raise not_found(f"[{store.name}] {above}")
    _write(lab, store, path, getattr(spec, "capacityKb", None) or 0)
    return name


@task("VirtualDiskManager", "ExtendVirtualDisk_Task", description_id=f"{_OF}.extendVirtualDisk", seconds=1.0)
def extend_disk(
    lab: Simulation,
    root: Managed,
    *,
    name: str,
    newCapacityKb: int,
    datacenter: Any = None,
    eagerZero: bool | None = None,
) -> None:
    """Make a disk larger. Raises FileNotFound, InvalidArgument, NoDiskSpace."""
    del root, datacenter, eagerZero
    store, path = may_change(lab, name)
    size = sectors(store.files.get(path, ""))
    if size is None:
        raise not_found(name)
    if newCapacityKb * 2 < size:
        raise refusals.bad_argument("newCapacityKb")
    _write(lab, store, path, newCapacityKb)


@task("VirtualDiskManager", "DeleteVirtualDisk_Task", description_id=f"{_OF}.deleteVirtualDisk", seconds=1.0)
def delete_disk(lab: Simulation, root: Managed, **arguments: Any) -> None:
    """Delete a disk, as a file is deleted."""
    delete_file(lab, root, **arguments)


@task("VirtualDiskManager", "MoveVirtualDisk_Task", description_id=f"{_OF}.moveVirtualDisk", seconds=1.0)
def move_disk(lab: Simulation, root: Managed, **arguments: Any) -> None:
    """Move a disk, as a file is moved."""
    move_file(lab, root, **_as_file(arguments))


@task("VirtualDiskManager", "CopyVirtualDisk_Task", description_id=f"{_OF}.copyVirtualDisk", seconds=1.0)
def copy_disk(lab: Simulation, root: Managed, **arguments: Any) -> None:
    """Copy a disk, as a file is copied; it stays of its kind."""
    copy_file(lab, root, **_as_file(arguments))


def _as_file(arguments: dict[str, Any]) -> dict[str, Any]:
    into, force = arguments["destName"], arguments.get("force")
    return {"sourceName": arguments["sourceName"], "destinationName": into, "force": force}


def _write(lab: Simulation, store: Datastore, path: str, kb: int) -> None:
    if kb // 1024 > store.free_mib:
        raise vim.fault.NoDiskSpace(
            datastore=store.name, msg=f"Insufficient disk space on datastore '{store.name}'."
        )
    uuid = uuid_in(store.files.get(path, "")) or disk_uuid(store.moid, path, str(lab.state.revision))
    put(lab, store, path, descriptor(path, kb, uuid))


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
