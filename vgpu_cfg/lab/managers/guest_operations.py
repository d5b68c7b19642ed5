"""Guest operations: credentials, programs, files and their transfers of a running guest, over its tools.

Permissions are checked in vCenter's order, as far as known: the privilege on the VM, then its state and
tools, then the account in the guest. Texts of faults are recalled.

A file goes over HTTPS, by an address that is good once. The address is a host's, whose name vCenter leaves to
the client as `*`; the lab answers it itself.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.guest.system import files
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.operations import Context, answers
from vgpu_cfg.lab.simulation.simulation import Simulation, Transfer
from vgpu_cfg.lab.state.guest import ROOT, Process, takes_password
from vgpu_cfg.lab.state.inventory import Host, Managed, VirtualMachine

if TYPE_CHECKING:
    from vgpu_cfg.lab.guest.shell import Session
if TYPE_CHECKING:
    from vgpu_cfg.lab.guest.shell import Session


def listed(
    session: Session,
    path: str,
    index: int,
    most: int,
    pattern: str,
    attributes: Callable[[Session, str], Any],
) -> Any:
    """Return one page; a folder begins with itself and its parent, by the names `.` and `..`."""
    found: list[tuple[str, files.Entry]] = []
    if files.is_folder(session.guest, path):
        found = [
            (".", files.entry(session.guest, path)),
            ("..", files.entry(session.guest, posixpath.dirname(path))),
        ]
        found += [(posixpath.basename(one.path), one) for one in files.listing(session.guest, path)]
    else:
        found = [(path, files.entry(session.guest, path))]
    if pattern:
        found = [(name, one) for name, one in found if re.search(pattern, name)]
    page = found[index : index + most]
    kind: Any = vim.vm.guest.FileManager.FileInfo
    info: Any = vim.vm.guest.FileManager.ListFileInfo
    return info(
        files=[
            kind(
                path=name,
                type="directory" if one.is_folder else "file",
                size=one.size,
                attributes=attributes(session, one.path),
            )
            for name, one in page
        ],
        remaining=max(0, len(found) - index - len(page)),
    )


TRANSFERS = "/guestFile"
URL = "https://*:443/guestFile?id={id}&token={token}"
PLAIN = {"Content-Type": "text/plain; charset=utf-8"}
BINARY = {"Content-Type": "application/octet-stream"}

Answer = tuple[int, Mapping[str, str], bytes]


def exchange_file(lab: Simulation, method: str, url: str, body: bytes) -> Answer:
    """Answer a PUT or a GET of an address that was handed out: 404 for any other, 400 for a wrong size."""
    from vgpu_cfg.lab.guest.shell import Session
    from vgpu_cfg.lab.guest.tools.table import find

    query = parse_qs(urlsplit(url).query)
    number, token = query.get("id", [""])[0], query.get("token", [""])[0]
    with lab.transaction():
        known, transfer = lab.transfers.offers.get(number, ("", None))
        if transfer is None or known != token or transfer.puts != (method == "PUT"):
            return 404, PLAIN, b"404 Not Found\n"
        vm = lab.state.find(transfer.vm, VirtualMachine)
        if vm is None or not vm.is_on or not guest_of(vm).is_up:
            return 500, PLAIN, b"The guest operations agent could not be contacted.\n"
        del lab.transfers.offers[number]
        session = Session(lab, vm, transfer.user, find)
        try:
            if method == "GET":
                return 200, BINARY, session.read(transfer.path)
            if len(body) != transfer.size:
                return 400, PLAIN, b"400 Bad Request: not the announced size\n"
            session.write(transfer.path, body, mode=transfer.mode)
        except (files.NoSuchPathError, files.PathTakenError, PermissionError):
            return 500, PLAIN, b"The file cannot be transferred.\n"
    return 200, PLAIN, b""


UNAVAILABLE = "The guest operations agent could not be contacted."
DENIED = "Failed to authenticate with the guest operating system using the supplied credentials."
FEW_RIGHTS = "Insufficient permissions in the guest operating system."
LISTED_AT_MOST = 50
TEMPORARY = "/tmp"  # noqa: S108 - of a simulated guest


def _session(context: Context, vm: Any, auth: Any) -> Session:
    """Return a shell of the caller. Raises GuestOperationsUnavailable, InvalidGuestLogin."""
    from vgpu_cfg.lab.guest.shell import Session
    from vgpu_cfg.lab.guest.tools.table import find

    found = context.state.find(vm._moId, VirtualMachine)
    if found is None:
        raise vmodl.fault.ManagedObjectNotFound(
            obj=vm, msg="The object has already been deleted or has not been completely created."
        )
    if not found.is_on:
        raise refusals.wrong_power_state(found, "poweredOn")
    host = context.state.find(found.host, Host)
    away = refusals.host_away(host) if host is not None else None
    if away is not None:
        raise away
    if not found.tools_installed or not guest_of(found).is_up:
        raise vim.fault.GuestOperationsUnavailable(msg=UNAVAILABLE)
    if not isinstance(auth, vim.vm.guest.NamePasswordAuthentication):
        raise vim.fault.InvalidGuestLogin(msg=DENIED)
    if not takes_password(guest_of(found), auth.username, auth.password or ""):
        raise vim.fault.InvalidGuestLogin(msg=DENIED)
    return Session(context.lab, found, auth.username, find)


def _denied(path: str) -> Exception:
    return vim.fault.GuestPermissionDenied(msg=f"{FEW_RIGHTS} ({path})")


def _not_found(path: str) -> Exception:
    return vim.fault.FileNotFound(file=path, msg=f"File {path} was not found")


def _taken(path: str) -> Exception:
    return vim.fault.FileAlreadyExists(
        file=path, msg=f"The specified key, name, or identifier '{path}' exists."
    )


def _touch(session: Session) -> None:
    session.lab.state.touch(session.vm)


@answers("GuestAuthManager", "ValidateCredentialsInGuest")
def validate_credentials(context: Context, thing: Managed, *, vm: Any, auth: Any) -> None:
    """Say nothing where the credentials are right."""
    _session(context, vm, auth)


@answers("GuestProcessManager", "StartProgramInGuest")
def start_program(context: Context, thing: Managed, *, vm: Any, auth: Any, spec: Any) -> int:
    """Start a program, and return its process id. Raises FileNotFound for one that is not there.

    VMware's tools put path and arguments together and hand the line to a shell.
    """
    from vgpu_cfg.lab.guest.shell import start_process
    from vgpu_cfg.lab.guest.tools.table import PROGRAM_FOLDERS

    session = _session(context, vm, auth)
    folder, name = posixpath.split(spec.programPath)
    if folder not in PROGRAM_FOLDERS or session.find(session, spec.programPath) is None:
        raise _not_found(spec.programPath)
    at = spec.workingDirectory or session.guest.accounts[session.user].home or "/"
    if not files.is_folder(session.guest, at):
        raise _not_found(at)
    line = f"{spec.programPath} {spec.arguments}".rstrip()
    session.folder = at
    made = start_process(session, line)
    made.name = name
    return made.pid


@answers("GuestProcessManager", "ListProcessesInGuest")
def list_processes(context: Context, thing: Managed, *, vm: Any, auth: Any, pids: Any) -> list[Any]:
    """List the programs that run, or that ended within five minutes."""
    from vgpu_cfg.lab.guest.shell import known_processes

    session = _session(context, vm, auth)
    wanted = set(pids or ())
    known = known_processes(context.lab, session.vm)
    return [_process(one) for one in known if not wanted or one.pid in wanted]


def _process(process: Process) -> Any:
    info: Any = vim.vm.guest.ProcessManager.ProcessInfo
    return info(
        name=process.name,
        pid=process.pid,
        owner=process.owner,
        cmdLine=process.command,
        startTime=as_datetime(process.started),
        endTime=as_datetime(process.ended) if process.ended is not None else None,
        exitCode=process.exit_code,
    )


@answers("GuestProcessManager", "TerminateProcessInGuest")
def terminate_process(context: Context, thing: Managed, *, vm: Any, auth: Any, pid: int) -> None:
    """End a program. Raises GuestProcessNotFound."""
    from vgpu_cfg.lab.guest.shell import kill_process, known_processes

    session = _session(context, vm, auth)
    found = next((one for one in known_processes(context.lab, session.vm) if one.pid == pid), None)
    if found is None:
        raise vim.fault.GuestProcessNotFound(pid=pid, msg=f"The guest process {pid} was not found.")
    if session.user not in (ROOT, found.owner):
        raise _denied(str(pid))
    kill_process(context.lab, session.vm, found)


@answers("GuestProcessManager", "ReadEnvironmentVariableInGuest")
def read_environment(context: Context, thing: Managed, *, vm: Any, auth: Any, names: Any) -> list[str]:
    """Show the environment of programs."""
    session = _session(context, vm, auth)
    home = session.guest.accounts[session.user].home
    known = {"HOME": home, "USER": session.user, "PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    return [f"{name}={value}" for name, value in known.items() if not names or name in names]


def _temporary(
    context: Context, vm: Any, auth: Any, prefix: str, suffix: str, folder: str | None
) -> tuple[Session, str]:
    session = _session(context, vm, auth)
    above = folder or TEMPORARY
    if not files.is_folder(session.guest, above):
        raise _not_found(above)
    session.guest.last_pid += 1
    path = posixpath.join(above, f"{prefix}vmware{session.guest.last_pid}{suffix}")
    _check_writable(session, path)
    return session, path


def _check_writable(session: Session, path: str) -> None:
    try:
        session.check_writable(path)
    except PermissionError:
        raise _denied(path) from None


@answers("GuestFileManager", "CreateTemporaryDirectoryInGuest")
def create_temporary_directory(
    context: Context, thing: Managed, *, vm: Any, auth: Any, prefix: str, suffix: str, directoryPath: Any
) -> str:
    """Make a folder of a new name, for its owner alone."""
    session, path = _temporary(context, vm, auth, prefix, suffix, directoryPath)
    files.make_folder(session.guest, path, mode=0o700, owner=session.user)
    _touch(session)
    return path


@answers("GuestFileManager", "CreateTemporaryFileInGuest")
def create_temporary_file(
    context: Context, thing: Managed, *, vm: Any, auth: Any, prefix: str, suffix: str, directoryPath: Any
) -> str:
    """Make an empty file of a new name, for its owner alone."""
    session, path = _temporary(context, vm, auth, prefix, suffix, directoryPath)
    session.write(path, b"", mode=0o600)
    return path


@answers("GuestFileManager", "MakeDirectoryInGuest")
def make_directory(
    context: Context, thing: Managed, *, vm: Any, auth: Any, directoryPath: str, createParentDirectories: bool
) -> None:
    """Make a folder. Raises FileAlreadyExists, FileNotFound."""
    session = _session(context, vm, auth)
    path = files.normal(directoryPath)
    _check_writable(session, path)
    if files.exists(session.guest, path):
        raise _taken(path)
    try:
        files.make_folder(session.guest, path, parents=createParentDirectories, owner=session.user)
    except files.NoSuchPathError as error:
        raise _not_found(str(error)) from None
    _touch(session)


@answers("GuestFileManager", "InitiateFileTransferToGuest")
def transfer_to_guest(
    context: Context,
    thing: Managed,
    *,
    vm: Any,
    auth: Any,
    guestFilePath: str,
    fileAttributes: Any,
    fileSize: int,
    overwrite: bool,
) -> str:
    """Return the address to which the file's content is put, once. Raises FileAlreadyExists, FileNotFound."""
    session = _session(context, vm, auth)
    path = files.normal(guestFilePath)
    _check_writable(session, path)
    if files.is_folder(session.guest, path) or (path in session.guest.files and not overwrite):
        raise _taken(path)
    if not files.is_folder(session.guest, posixpath.dirname(path)):
        raise _not_found(posixpath.dirname(path))
    mode = getattr(fileAttributes, "permissions", None)
    return _offer(context, Transfer(session.vm.moid, path, session.user, size=fileSize, mode=mode, puts=True))


@answers("GuestFileManager", "InitiateFileTransferFromGuest")
def transfer_from_guest(context: Context, thing: Managed, *, vm: Any, auth: Any, guestFilePath: str) -> Any:
    """Return the address where the file's content is got, once. Raises FileNotFound."""
    session = _session(context, vm, auth)
    path = files.normal(guestFilePath)
    try:
        content = session.read(path)
    except files.NoSuchPathError:
        raise _not_found(path) from None
    except PermissionError:
        raise _denied(path) from None
    information: Any = vim.vm.guest.FileManager.FileTransferInformation
    url = _offer(context, Transfer(session.vm.moid, path, session.user, size=len(content)))
    return information(attributes=_attributes(session, path), size=len(content), url=url)


def _offer(context: Context, transfer: Transfer) -> str:
    context.lab.transfers.count += 1
    number = context.lab.transfers.count
    token = f"52{number:08x}-{transfer.vm.rpartition('-')[2]}"
    context.lab.transfers.offers[str(number)] = (token, transfer)
    return URL.format(id=number, token=token)


def _attributes(session: Session, path: str) -> Any:
    try:
        entry = files.entry(session.guest, path)
    except files.NoSuchPathError:
        entry = files.Entry(path, is_folder=False, size=0, mode=0o444, changed=0.0)
    attributes: Any = vim.vm.guest.FileManager.PosixFileAttributes
    number = 0 if entry.owner == ROOT else 1000
    changed = as_datetime(entry.changed or session.lab.clock.now())
    return attributes(
        modificationTime=changed,
        accessTime=changed,
        ownerId=number,
        groupId=number,
        permissions=entry.mode,
        symlinkTarget="",
    )


@answers("GuestFileManager", "ListFilesInGuest")
def list_files(
    context: Context,
    thing: Managed,
    *,
    vm: Any,
    auth: Any,
    filePath: str,
    index: Any,
    maxResults: Any,
    matchPattern: Any,
) -> Any:
    """List a folder, with `.` and `..`, or show one file. Raises FileNotFound."""
    session = _session(context, vm, auth)
    path = files.normal(filePath)
    if not files.exists(session.guest, path):
        raise _not_found(path)
    most = LISTED_AT_MOST if maxResults is None else int(maxResults)
    return listed(session, path, int(index or 0), most, matchPattern or "", _attributes)


@answers("GuestFileManager", "DeleteFileInGuest")
def delete_file(context: Context, thing: Managed, *, vm: Any, auth: Any, filePath: str) -> None:
    """Remove a file. Raises FileNotFound, NotAFile."""
    session = _session(context, vm, auth)
    path = files.normal(filePath)
    if files.is_folder(session.guest, path):
        raise vim.fault.NotAFile(file=path, msg=f"{path} is a directory, not a file")
    _check_writable(session, path)
    _removed(session, path)


@answers("GuestFileManager", "DeleteDirectoryInGuest")
def delete_directory(
    context: Context, thing: Managed, *, vm: Any, auth: Any, directoryPath: str, recursive: bool
) -> None:
    """Remove a folder. Raises FileNotFound, NotADirectory, DirectoryNotEmpty."""
    session = _session(context, vm, auth)
    path = files.normal(directoryPath)
    if path in session.guest.files:
        raise vim.fault.NotADirectory(file=path, msg=f"{path} is a file, not a directory")
    _check_writable(session, path)
    _removed(session, path, recursive=recursive)


def _removed(session: Session, path: str, *, recursive: bool = False) -> None:
    try:
        files.remove(session.guest, path, recursive=recursive)
    except files.NoSuchPathError:
        raise _not_found(path) from None
    except files.PathTakenError:
        raise vim.fault.DirectoryNotEmpty(file=path, msg=f"The directory {path} is not empty") from None
    _touch(session)


@answers("GuestFileManager", "MoveFileInGuest")
def move_file(
    context: Context,
    thing: Managed,
    *,
    vm: Any,
    auth: Any,
    srcFilePath: str,
    dstFilePath: str,
    overwrite: bool,
) -> None:
    """Give a file another path. Raises FileNotFound, FileAlreadyExists."""
    session = _session(context, vm, auth)
    source, target = files.normal(srcFilePath), files.normal(dstFilePath)
    for path in (source, target):
        _check_writable(session, path)
    try:
        files.move(session.guest, source, target, overwrite=overwrite)
    except files.NoSuchPathError as error:
        raise _not_found(str(error)) from None
    except files.PathTakenError:
        raise _taken(target) from None
    _touch(session)


@answers("GuestFileManager", "ChangeFileAttributesInGuest")
def change_attributes(
    context: Context, thing: Managed, *, vm: Any, auth: Any, guestFilePath: str, fileAttributes: Any
) -> None:
    """Change permissions and owner; times are left out of account. Raises FileNotFound."""
    session = _session(context, vm, auth)
    path = files.normal(guestFilePath)
    if not files.exists(session.guest, path):
        raise _not_found(path)
    _check_writable(session, path)
    mode = getattr(fileAttributes, "permissions", None)
    owner = getattr(fileAttributes, "ownerId", None)
    if owner is not None and session.user != ROOT:
        raise _denied(path)
    if mode is not None:
        files.set_mode(session.guest, path, int(mode))
    if owner == 0 and path in session.guest.files:
        session.guest.files[path].owner = ROOT
    _touch(session)
