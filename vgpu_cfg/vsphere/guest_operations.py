"""Guest operations through vCenter and VMware Tools, without a network to the guest.

A program is started by the tools and asked after until it has ended (vSphere API reference,
GuestProcessManager); its streams are redirected to files in a folder of its own, since the API carries none,
and those are fetched over HTTPS (GuestFileManager). On Linux the tools start programs through a shell, so the
command is quoted for one. The tools make the folder; that they make it open to its user alone is unproven, so
each file in it is made so. Secrets go in as files, never as arguments.

The URL of a file names `*` for the server that was asked, or the host that runs the VM. That host is believed
by the certificate that vCenter has of it (HostConfigInfo.certificate), as the API reference asks for.

Belief: guest-login-faults, guest-login-texts, temporary-folder-is-private, guest-files-go-through-esxi,
vcenter-vouches-for-hosts, one-guest-login-in-threads.
"""

from __future__ import annotations

import hashlib
import shlex
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, Self

from pyVmomi import vim, vmodl

from vgpu_cfg.errors import CertificateRejected, GuestError, GuestNotReady, Unreachable, VgpuCfgError
from vgpu_cfg.model.plan_file import LoginEntry
from vgpu_cfg.ports import Clock, GuestShell, GuestTarget, Transport
from vgpu_cfg.shells.channel import Executed, opened
from vgpu_cfg.shells.root import RootShell
from vgpu_cfg.vsphere.wire.allowances import believing
from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import to_guest_error
from vgpu_cfg.vsphere.wire.session import Session

SHELL = "/bin/sh"
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.2, 2.0
OWN_RIGHTS = 0o600
ANY_HOST = "https://*"
_HOST = (Paths("vim.VirtualMachine", ("runtime.host",)),)
_CERTIFICATE = (Paths("vim.HostSystem", ("config.certificate",)),)


class WaitingClock(Clock, Protocol):
    """A clock that can also let time pass."""

    def pause(self, seconds: float) -> None:
        """Return after so many seconds."""
        ...


class GuestOperations:
    """Logs in to guests by guest operations, as `ports.GuestShells`: with a user and a password.

    secrets: the secrets by the names in a login.
    calls: the file that lists logins and commands, in addition to the requests for them.
    """

    def __init__(
        self,
        session: Session,
        transport: Transport,
        clock: WaitingClock,
        secrets: Mapping[str, str],
        calls: Path | None = None,
    ) -> None:
        self._session = session
        self._calls = calls
        self._transport = transport
        self._clock = clock
        self._secrets = secrets

    def connect(self, target: GuestTarget, login: LoginEntry) -> GuestShell:
        """Have the guest check the login, and make a folder for the files.

        Raises GuestError, GuestNotReady where no tools answer, and NotPermitted.
        """
        name = login.password or ""
        if not login.user or name not in self._secrets:
            raise GuestError(
                "guest operations require a user and a password",
                subject=target.name,
                remedy="set both under `guest.login`; the password must be a secret that is not empty",
            )
        auth = vim.vm.guest.NamePasswordAuthentication(
            username=login.user, password=self._secrets[name], interactiveSession=False
        )
        made = _Channel(self._session, self._transport, self._clock, target, auth)
        channel = opened(self._calls, target.name, "guest operations", made.open)
        shell = RootShell(channel, target.name, login.user)
        try:
            shell.check_rights()
        except VgpuCfgError:
            channel.close()
            raise
        return shell


class _Channel:
    """A `remote.Channel` into one guest."""

    def __init__(
        self, session: Session, transport: Transport, clock: WaitingClock, target: GuestTarget, auth: Any
    ) -> None:
        self._session = session
        self._transport = transport
        self._clock = clock
        self._target = target
        self._auth = auth
        self._vm = vim.VirtualMachine(target.moid, session.stub)
        self._folder = ""
        self._certificate: str | None = None
        self._is_certificate_read = False

    def open(self) -> Self:
        """Check the login, and make the folder."""
        with self._faults("checking the login"):
            self._managers.authManager.ValidateCredentialsInGuest(self._vm, self._auth)
        with self._faults("creating a folder"):
            self._folder = self._files.CreateTemporaryDirectoryInGuest(self._vm, self._auth, "vgpu-cfg-", "")
        return self

    def execute(self, line: str, timeout_seconds: float, stdin: bytes = b"") -> Executed:
        """Run one command line and wait for its end, asking after it at intervals."""
        given = "/dev/null"
        if stdin:
            given = self._path("in")
            self._put(given, stdin)
        out, err = self._path("out"), self._path("err")
        streams = f"<{shlex.quote(given)} >{shlex.quote(out)} 2>{shlex.quote(err)}"
        try:
            status = self._wait_for(self._start(f"umask 077; {line} {streams}"), timeout_seconds)
        finally:
            if stdin:
                self._remove(given)
        return Executed(status=status, stdout=self._get(out), stderr=self._get(err))

    def start(self, prefix: Sequence[str], words: Sequence[str]) -> None:
        """Start a command in the background; the tools do not wait for it."""
        self._start(f"{shlex.join([*prefix, *words])} </dev/null >/dev/null 2>&1")

    def close(self) -> None:
        """Remove the folder; a guest that has gone took it along, or keeps what only its user may read."""
        folder, self._folder = self._folder, ""
        if folder:
            with suppress(VgpuCfgError), self._faults("removing the folder"):
                self._files.DeleteDirectoryInGuest(self._vm, self._auth, folder, True)

    # ------------------------------------------------------------- programs

    def _start(self, line: str) -> int:
        spec = vim.vm.guest.ProcessManager.ProgramSpec(
            programPath=SHELL, arguments=shlex.join(["-c", line]), workingDirectory="/"
        )
        with self._faults("starting a program"):
            return int(self._processes.StartProgramInGuest(self._vm, self._auth, spec))

    def _wait_for(self, pid: int, timeout_seconds: float) -> int:
        deadline = self._clock.now().timestamp() + timeout_seconds
        pause = FIRST_PAUSE_SECONDS
        while True:
            with self._faults("checking a program"):
                found = self._processes.ListProcessesInGuest(self._vm, self._auth, [pid])
            if not found:
                raise GuestNotReady(
                    "the guest no longer reports the program's status",
                    subject=self._target.name,
                    remedy="the guest or its VMware Tools may have restarted; run the same command again",
                )
            if found[0].exitCode is not None:
                return int(found[0].exitCode)
            if self._clock.now().timestamp() >= deadline:
                raise GuestError(
                    f"took longer than {timeout_seconds:g} s",
                    subject=self._target.name,
                    remedy="the command may still be running in the guest; check before you run it again",
                )
            self._clock.pause(pause)
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    # ------------------------------------------------------------- files

    def _put(self, path: str, content: bytes) -> None:
        rights = vim.vm.guest.FileManager.PosixFileAttributes(permissions=OWN_RIGHTS)
        with self._faults("uploading a file"):
            url = self._files.InitiateFileTransferToGuest(
                self._vm, self._auth, path, rights, len(content), True
            )
        self._transfer("PUT", url, content)

    def _get(self, path: str) -> bytes:
        with self._faults("downloading a file"):
            try:
                found = self._files.InitiateFileTransferFromGuest(self._vm, self._auth, path)
            except vim.fault.FileNotFound:
                return b""
        limits = self._session.limits
        if found.size > limits.answer_bytes:
            raise GuestError(
                f"output exceeds {limits.answer_mib} MiB",
                subject=self._target.name,
                remedy="run the command manually in the guest to see why its output is so large, or raise "
                "VGPU_CFG_ANSWER_MIB",
            )
        return self._transfer("GET", found.url, b"") if found.size else b""

    def _remove(self, path: str) -> None:
        """Remove a file that may hold a secret; one that stays goes with the folder."""
        with suppress(VgpuCfgError), self._faults("removing a file"):
            self._files.DeleteFileInGuest(self._vm, self._auth, path)

    def _transfer(self, method: str, url: str, body: bytes) -> bytes:
        """Send or fetch a file. The URL holds a ticket, so no message names it."""
        headers = {"User-Agent": "vgpu-cfg", "Content-Type": "application/octet-stream"}
        is_elsewhere = not url.startswith(ANY_HOST)
        place = url if is_elsewhere else _path_of(url)
        try:
            with believing(self._host_certificate() if is_elsewhere else None):
                status, _, answer = self._transport.exchange(method, place, headers, body)
        except (Unreachable, CertificateRejected) as error:
            if not is_elsewhere:
                raise
            raise GuestError(
                f"files are transferred through the VM's host, which cannot be reached: {error.message}",
                subject=self._target.name,
                remedy="allow this machine to access port 443 on the host, or allow SSH access to the guest",
            ) from error
        if status not in (HTTPStatus.OK, HTTPStatus.CREATED):
            raise GuestError(
                f"the file transfer failed with HTTP status {status}",
                subject=self._target.name,
                remedy=(
                    "check whether the guest is restarting or being migrated to another host; then run the "
                    "command again"
                ),
            )
        return bytes(answer)

    def _host_certificate(self) -> str | None:
        """Return the thumbprint of the host that runs the VM, read once; None if unknown."""
        if not self._is_certificate_read:
            self._is_certificate_read = True
            vms = collect_from(self._session, _HOST, [Start("vim.VirtualMachine", self._target.moid)])
            host = vms[0].moid_of("runtime.host") if vms else None
            hosts = collect_from(self._session, _CERTIFICATE, [Start("vim.HostSystem", host)]) if host else []
            reported = hosts[0].get("config.certificate") if hosts else None
            self._certificate = _thumbprint(reported) if reported else None
        return self._certificate

    # ------------------------------------------------------------- inside

    @property
    def _managers(self) -> Any:
        found = self._session.service_content.guestOperationsManager
        if found is None:
            raise GuestError(
                "this vCenter does not support guest operations",
                subject=self._target.name,
                remedy="allow SSH access to the guest",
            )
        return found

    @property
    def _files(self) -> Any:
        return self._managers.fileManager

    @property
    def _processes(self) -> Any:
        return self._managers.processManager

    def _path(self, name: str) -> str:
        return f"{self._folder}/{name}"

    @contextmanager
    def _faults(self, what: str) -> Iterator[None]:
        try:
            yield
        except vmodl.MethodFault as fault:
            raise to_guest_error(fault, what, self._target.name, self._auth.username) from fault


def _path_of(url: str) -> str:
    """Return what of a URL comes after its host."""
    return "/" + url.removeprefix("https://").partition("/")[2]


def _thumbprint(pem: Sequence[int]) -> str | None:
    """Return the SHA-256 of a certificate, given by pyvmomi as signed bytes; None for other bytes."""
    text = bytes(byte & 0xFF for byte in pem).decode("ascii", errors="replace")
    try:
        return hashlib.sha256(ssl.PEM_cert_to_DER_cert(text.strip())).hexdigest()
    except ValueError:
        return None
