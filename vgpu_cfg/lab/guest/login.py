"""A login in a simulated guest: lines of shell, files; and the accepted accounts.

The way in is ssh's: an account of the guest, by its password or one of its keys. Background work (the stage
command, a server that waits) is waited for on the lab's clock.
"""

from __future__ import annotations

import posixpath

from vgpu_cfg.errors import GuestError, GuestNotReady
from vgpu_cfg.lab.guest.shell import History, Result, Session, StillRunning, run_line
from vgpu_cfg.lab.guest.staging.command import LOCK, STAGING
from vgpu_cfg.lab.guest.system import files
from vgpu_cfg.lab.guest.system.creation import guest_of, told_host_key
from vgpu_cfg.lab.guest.tools.table import find
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.guest import may_all, takes_key, takes_password
from vgpu_cfg.lab.state.inventory import VirtualMachine

PATIENCE_SECONDS = 10.0
"""Seconds of the wall clock that a server waits for a client of another thread."""


def open_guest_shell(
    lab: Simulation, vm_moid: str, user: str, *, password: str | None = None, public_key: str | None = None
) -> LabGuestShell:
    """Log in to a guest, with a password or a public key (`ssh-ed25519 AAAA…`). Raises GuestError."""
    with lab.transaction():
        vm = _running(lab, vm_moid)
        guest = guest_of(vm)
        is_known = (password is not None and takes_password(guest, user, password)) or (
            public_key is not None and takes_key(guest, user, public_key)
        )
        if not is_known:
            raise GuestError(
                f"the login of {user} was rejected",
                subject=vm.name,
                remedy="check the account's name, and that the guest has its key or password",
            )
        return LabGuestShell(lab, vm, user)


def host_key_of(lab: Simulation, vm_moid: str) -> str:
    """Return the public host key that a guest's sshd shows, "" where it has none of its own."""
    with lab.transaction():
        return told_host_key(guest_of(_running(lab, vm_moid)))


def _running(lab: Simulation, moid: str) -> VirtualMachine:
    vm = lab.state.find(moid, VirtualMachine)
    if vm is None or not vm.is_on or not guest_of(vm).is_up:
        raise GuestNotReady(
            "no connection: the guest does not respond",
            subject=vm.name if vm is not None else moid,
            remedy="check that the VM is on and its guest has booted",
        )
    return vm


class LabGuestShell:
    """A login. It outlives nothing: once the guest is gone or was restarted, everything fails."""

    def __init__(self, lab: Simulation, vm: VirtualMachine, user: str) -> None:
        self._lab = lab
        self._moid = vm.moid
        self._boots = guest_of(vm).boots
        self._user = user

    def execute(self, line: str, stdin: bytes = b"") -> tuple[int, str, str]:
        """Run a line of shell; return its status, stdout and stderr. Raises GuestError."""
        history = History()
        while True:
            with self._lab.transaction():
                vm = self._vm()
                history.met = 0
                session = Session(self._lab, vm, self._user, find, history)
                try:
                    result = run_line(session, line, stdin)
                except StillRunning as waits:
                    what = waits.what
                else:
                    return result.status, _text(result.out), _text(result.err)
            if not self._wait(what):
                return _gave_up(what)

    def write_file(self, path: str, content: bytes, mode: int) -> None:
        """Write a file as root where the account may be, with these permissions. Raises GuestError."""
        with self._lab.transaction():
            vm = self._vm()
            guest = guest_of(vm)
            owner = "root" if may_all(guest, self._user) else self._user
            session = Session(self._lab, vm, owner, find)
            try:
                if not files.is_folder(guest, posixpath.dirname(path)):
                    session.check_writable(posixpath.dirname(path))
                    files.make_folder(guest, posixpath.dirname(path), parents=True)
                session.write(path, content, mode=mode)
                files.set_mode(guest, path, mode)
            except (files.NoSuchPathError, files.PathTakenError, PermissionError) as error:
                raise GuestError(
                    f"{path} cannot be written", subject=vm.name, remedy="see the account's rights there"
                ) from error

    def read_file(self, path: str) -> bytes | None:
        """Return a file's content, None where there is none. Raises GuestError."""
        with self._lab.transaction():
            vm = self._vm()
            user = "root" if may_all(guest_of(vm), self._user) else self._user
            try:
                return Session(self._lab, vm, user, find).read(path)
            except files.NoSuchPathError:
                return None
            except PermissionError as error:
                raise GuestError(
                    f"{path} cannot be read", subject=vm.name, remedy="see the account's rights there"
                ) from error

    def _vm(self) -> VirtualMachine:
        vm = _running(self._lab, self._moid)
        if guest_of(vm).boots != self._boots:
            raise GuestNotReady(
                "the connection was closed: the guest was restarted",
                subject=vm.name,
                remedy="log in again",
            )
        return vm

    def _wait(self, what: str) -> bool:
        """Wait for the event that a command needs; False if it will never come."""
        if what in (STAGING, LOCK):
            return self._lab.wait()
        with self._lab.changed:
            before = self._lab.state.revision
            return self._lab.changed.wait_for(lambda: self._lab.state.revision != before, PATIENCE_SECONDS)


def _text(content: bytes) -> str:
    return content.decode("utf-8", "replace")


def _gave_up(what: str) -> tuple[int, str, str]:
    result = Result(1, err=f"no connection: {what}\n".encode())
    return result.status, _text(result.out), _text(result.err)
