"""The ways into a guest, one after the other: guest operations, ssh, and for the lab no wire at all."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from vgpu_cfg.errors import GuestError, GuestNotReady, NotOffered, NotPermitted, VgpuCfgError
from vgpu_cfg.shells.channel import Executed, opened

if TYPE_CHECKING:
    from vgpu_cfg.model.plan_file import LoginEntry
    from vgpu_cfg.ports import GuestShell, GuestShells, GuestTarget
    from vgpu_cfg.shells.keys import PlanKeyRing

RunLine = Callable[[str, bytes], tuple[int, str, str]]


class FirstThatAnswers:
    """Logs in by guest operations where the login has a password, else by ssh; else the other way round."""

    def __init__(self, operations: GuestShells, ssh: GuestShells) -> None:
        self._operations = operations
        self._ssh = ssh

    def connect(self, target: GuestTarget, login: LoginEntry) -> GuestShell:
        """Log in. Raises the error of the first way, with that of the other."""
        ways = [self._ssh]
        if login.user and login.password is not None:
            ways.insert(1 if target.prefers_ssh else 0, self._operations)
        failures: list[VgpuCfgError] = []
        for way in ways:
            try:
                return way.connect(target, login)
            except (GuestError, NotPermitted, NotOffered) as error:
                failures.append(error)
        raise _joined(failures)


def _joined(failures: Sequence[VgpuCfgError]) -> VgpuCfgError:
    """Make one error of what all ways said. It may pass where any of them may."""
    if len(failures) == 1:
        return failures[0]
    kind = GuestNotReady if any(isinstance(one, GuestNotReady) for one in failures) else GuestError
    first, other = failures
    return kind(
        f"{first.message}; with the other login: {other.message}", subject=first.subject, remedy=first.remedy
    )


class DirectChannel:
    """A `remote.GuestChannel` to a host or a guest of the lab, which answers at once.

    `run` accepts a line and its input, and returns its status and its output.
    """

    def __init__(self, run: RunLine) -> None:
        self._run = run

    def execute(self, line: str, timeout_seconds: float, stdin: bytes = b"") -> Executed:
        """Run one command line."""
        del timeout_seconds
        status, out, err = self._run(line, stdin)
        return Executed(status, out.encode(), err.encode())

    def start(self, prefix: Sequence[str], words: Sequence[str]) -> None:
        """Begin a command in the background."""
        self._run(f"{shlex.join([*prefix, *words])} >/dev/null 2>&1 &", b"")

    def close(self) -> None:
        """Log out; there is no connection to end."""


class LabGuestShells:
    """Logs in to the lab's guests without a wire, as ssh would: by key or password, and by the host key.

    For a guest without a reported key, the lab's user has the key in his known_hosts.

    `open_shell` accepts the VM's moid, a user, a password and a public key, and returns a function that runs
    a line there; `host_key_of` returns the public host key that a VM's guest shows, "" if it has none of its
    own.
    """

    def __init__(
        self,
        keys: PlanKeyRing,
        secrets: Mapping[str, str],
        open_shell: Callable[[str, str, str | None, str | None], RunLine],
        host_key_of: Callable[[str], str],
        calls: Path | None = None,
    ) -> None:
        self._keys = keys
        self._secrets = secrets
        self._open_shell = open_shell
        self._host_key_of = host_key_of
        self._calls = calls

    def connect(self, target: GuestTarget, login: LoginEntry) -> GuestShell:
        """Log in. Raises GuestError."""
        from vgpu_cfg.shells.guest import OWN_USER
        from vgpu_cfg.shells.root import RootShell

        shown = self._host_key_of(target.moid)
        known = [ring.public_host_key(target.name, target.host_key) for ring in self._keys.by_age()]
        if shown and any(known) and " ".join(shown.split()[:2]) not in known:
            raise GuestError(
                "the guest's host key differs from the known key",
                subject=target.name,
                remedy="check that VMware Tools, which reports the key, is running in the guest, and check "
                "whether the plan's keys (`training.keys`) have changed",
            )
        user = login.user or OWN_USER
        channel = opened(
            self._calls, target.name, "ssh", lambda: DirectChannel(self._log_in(target, login, user))
        )
        shell = RootShell(channel, target.name, user)
        shell.check_rights()
        return shell

    def _log_in(self, target: GuestTarget, login: LoginEntry, user: str) -> RunLine:
        if login.user:
            password = self._secrets.get(login.password or "")
            return self._open_shell(target.moid, user, password, self._public(login))
        *others, last = (ring.login_key().public for ring in self._keys.by_age())
        for public in others:
            with suppress(GuestError):
                return self._open_shell(target.moid, user, None, public)
        return self._open_shell(target.moid, user, None, last)

    def _public(self, login: LoginEntry) -> str | None:
        from vgpu_cfg.shells.ssh import SshFailure, private_key

        try:
            key = private_key(self._secrets.get(login.key or "", ""))
        except SshFailure:
            return None
        return f"{key.get_name()} {key.get_base64()}"
