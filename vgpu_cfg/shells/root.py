"""Root's rights in a guest over any channel: sudo, quoting, and files that arrive whole.

Arguments are quoted for a POSIX shell by `shlex`. Possible secrets are never in them: they go through the
standard input of the command that reads them.
"""

from __future__ import annotations

import posixpath
import secrets
import shlex
from collections.abc import Sequence

from vgpu_cfg.errors import GuestError
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.shells.channel import Executed, GuestChannel

FILE_SECONDS = 120.0
"""How long one file may take on its way."""

# Under another name first, open to root alone; it takes its place once all of it has come. A folder that must
# be made gets `$3`. Plain commands only: every POSIX shell runs them, and so do simulated ones.
_WRITE = """\
umask 022; test -d "$4" || mkdir -p -m "$3" -- "$4"; umask 077
test ! -d "$1" && cat >"$2" && wc -c <"$2" | grep -q "^ *$5\\$" && chmod "$6" "$2" && mv -f -- "$2" "$1"
"""
_READ = 'test -e "$1" && cat -- "$1"'


class RootShell:
    """A `ports.GuestShell` on a channel, for root, or a user with passwordless sudo."""

    def __init__(self, channel: GuestChannel, name: str, user: str) -> None:
        self._channel = channel
        self._name = name
        self._user = user
        self._prefix: tuple[str, ...] = () if user == "root" else ("sudo", "-n", "--")

    def check_rights(self) -> None:
        """See that the user may become root. Raises GuestError."""
        if not self._prefix:
            return
        done = self.run(["true"])
        if done.status != 0:
            said = _last_line(done.stderr or done.stdout)
            raise GuestError(
                f"{self._user} cannot become root in the guest without a password: {said}",
                subject=self._name,
                remedy=f"add the line `{self._user} ALL=(ALL) NOPASSWD: ALL` to a file in /etc/sudoers.d, "
                "or set another user under `guest.login`",
            )

    def run(
        self, arguments: Sequence[str], *, timeout_seconds: float = 60.0, stdin: bytes = b""
    ) -> ShellResult:
        """Run one command and wait for it; a status other than 0 is returned, not raised."""
        return self._execute(arguments[0], arguments, timeout_seconds, stdin).as_text

    def start(self, arguments: Sequence[str]) -> None:
        """Start one background command that outlives the connection; its output is lost."""
        self._check(arguments)
        self._channel.start(self._prefix, arguments)

    def write_file(self, path: str, content: bytes, mode: int) -> None:
        """Write a file of root's, never open to more than `mode` says; it is there whole or not at all.

        A folder that must be made for a file that is root's alone is root's alone too.
        """
        folder_mode = "0700" if mode & 0o077 == 0 else "0755"
        half = f"{path}.{secrets.token_hex(6)}"
        values = [path, half, folder_mode, posixpath.dirname(path), str(len(content)), f"{mode:04o}"]
        done = self._execute(f"writing {path}", ["sh", "-c", _WRITE, "sh", *values], FILE_SECONDS, content)
        if done.status != 0:
            self._execute(f"removing {half}", ["rm", "-f", "--", half], FILE_SECONDS, b"")
            said = done.as_text.stderr.strip() or (
                "it was only partly transferred, or a folder has the same name"
            )
            raise GuestError(
                f"cannot write {path} in the guest: {_last_line(said)}",
                subject=self._name,
                remedy="check in the guest whether its disk is full or read-only (`df -h`, `mount`)",
            )

    def read_file(self, path: str) -> bytes | None:
        """Return a file's content, None where there is none."""
        done = self._execute(f"reading {path}", ["sh", "-c", _READ, "sh", path], FILE_SECONDS, b"")
        if done.status != 0 and not done.stderr:
            return None
        if done.status != 0:
            raise GuestError(
                f"cannot read {path} in the guest: {_last_line(done.as_text.stderr)}",
                subject=self._name,
                remedy="check the file in the guest",
            )
        return done.stdout

    def close(self) -> None:
        """Log out."""
        self._channel.close()

    def _execute(self, what: str, words: Sequence[str], timeout_seconds: float, stdin: bytes) -> Executed:
        self._check(words)
        try:
            return self._channel.execute(shlex.join([*self._prefix, *words]), timeout_seconds, stdin)
        except GuestError as error:
            said = f"{what}: {error.message}"
            raise type(error)(said, subject=error.subject or self._name, remedy=error.remedy) from error

    def _check(self, words: Sequence[str]) -> None:
        if not words:
            raise ValueError("a command must have at least one word")
        if any("\0" in word for word in words):
            raise GuestError(
                "a command argument cannot contain a NUL character",
                subject=self._name,
                remedy="remove it from the plan file",
            )


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no output"
