"""How a guest is worked in with root's rights over any channel: sudo, quoting, and files that arrive whole.

Arguments are quoted for a POSIX shell by `shlex`. What may be secret never stands in them: it goes through
the standard input of the command that takes it.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from vgpu_cfg.errors import GuestError
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.remote.channel import Channel, Executed

FILE_SECONDS = 120.0
"""How long one file may take on its way."""
_ABSENT = 44

# The file is written under another name, open to root alone, and takes its place once it is whole.
_WRITE = """\
set -eu
path=$1 mode=$2 folder_mode=$3 size=$4
if [ -d "$path" ]; then echo "a folder stands there" >&2; exit 1; fi
folder=$(dirname -- "$path")
umask 022
[ -d "$folder" ] || mkdir -p -m "$folder_mode" -- "$folder"
umask 077
new=$(mktemp -- "$path.XXXXXX")
trap 'rm -f -- "$new"' EXIT
cat >"$new"
[ "$(wc -c <"$new")" -eq "$size" ] || { echo "it arrived in part" >&2; exit 1; }
chmod -- "$mode" "$new"
mv -f -- "$new" "$path"
trap - EXIT
"""
_READ = f"""\
if [ ! -e "$1" ]; then exit {_ABSENT}; fi
exec cat -- "$1"
"""


class RootShell:
    """A `ports.GuestShell` on a channel, for a user who is root or may become it without a password."""

    def __init__(self, channel: Channel, name: str, user: str) -> None:
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
                f"{self._user} may not become root in the guest without a password: {said}",
                subject=self._name,
                remedy=f"let it, by a line `{self._user} ALL=(ALL) NOPASSWD: ALL` in /etc/sudoers.d, or name "
                "another user under `guest.login`",
            )

    def run(
        self, arguments: Sequence[str], *, timeout_seconds: float = 60.0, stdin: bytes = b""
    ) -> ShellResult:
        """Run one command and wait for it; a status other than 0 is returned, not raised."""
        done = self._execute(arguments[0], arguments, timeout_seconds, stdin)
        return ShellResult(status=done.status, stdout=_text(done.stdout), stderr=_text(done.stderr))

    def start(self, arguments: Sequence[str]) -> None:
        """Begin one command that goes on when nobody listens any more; what it prints is lost."""
        self._check(arguments)
        self._channel.start(self._prefix, arguments)

    def write_file(self, path: str, content: bytes, mode: int) -> None:
        """Write a file of root's, never open to more than `mode` says; it is there whole or not at all.

        A folder that must be made for a file that is root's alone is root's alone too.
        """
        folder_mode = 0o700 if mode & 0o077 == 0 else 0o755
        words = ["sh", "-c", _WRITE, "sh", path, f"{mode:04o}", f"{folder_mode:04o}", str(len(content))]
        done = self._execute(f"writing {path}", words, FILE_SECONDS, content)
        if done.status != 0:
            raise GuestError(
                f"{path} cannot be written in the guest: {_last_line(_text(done.stderr))}",
                subject=self._name,
                remedy="see in the guest whether its disk is full or read-only (`df -h`, `mount`)",
            )

    def read_file(self, path: str) -> bytes | None:
        """Return a file's content, None where there is none."""
        done = self._execute(f"reading {path}", ["sh", "-c", _READ, "sh", path], FILE_SECONDS, b"")
        if done.status == _ABSENT:
            return None
        if done.status != 0:
            raise GuestError(
                f"{path} cannot be read in the guest: {_last_line(_text(done.stderr))}",
                subject=self._name,
                remedy="look at the file in the guest",
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
            raise ValueError("a command has at least one word")
        if any("\0" in word for word in words):
            raise GuestError(
                "an argument with a NUL cannot be given to a command",
                subject=self._name,
                remedy="remove it from the plan file",
            )


def _text(data: bytes) -> str:
    return data.decode("utf-8", errors="replace")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "it says nothing"
