"""The channel to a machine: a command line, bytes in, bytes out; and the file that lists every call.

The file has a line of JSON for each call that leaves the program. A command is listed with the size of its
input. Secrets are in inputs only, never in command lines.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import Any, Protocol, TypeVar, cast

from vgpu_cfg.documents import append_whole
from vgpu_cfg.ports import ShellResult


@dataclass(frozen=True, slots=True)
class Executed:
    """The result of a command line: its exit status and, as bytes, its output."""

    status: int
    stdout: bytes = b""
    stderr: bytes = b""

    @property
    def as_text(self) -> ShellResult:
        """The same, with the output read as UTF-8; other bytes are replaced."""
        return ShellResult(
            status=self.status,
            stdout=self.stdout.decode("utf-8", errors="replace"),
            stderr=self.stderr.decode("utf-8", errors="replace"),
        )


class Channel(Protocol):
    """An open way to the POSIX shell of a host or a guest.

    Its methods raise `HostShellError` or `GuestError`; that of a guest never names the line.
    """

    def execute(self, line: str, timeout_seconds: float, stdin: bytes = b"") -> Executed:
        """Run one command line, already quoted for a POSIX shell, and wait for its end."""
        ...

    def close(self) -> None:
        """Hang up; a second time does nothing."""
        ...


class GuestChannel(Channel, Protocol):
    """A channel into a guest, which can run background work."""

    def start(self, prefix: Sequence[str], words: Sequence[str]) -> None:
        """Start a background command that outlives the connection; `prefix` gives it root's rights."""
        ...


_MOST_SIGNS = 400
Opened = TypeVar("Opened", bound=Channel)


@contextmanager
def listed(file: Path, line: dict[str, object]) -> Iterator[dict[str, object]]:
    """Add a line for a call, once it is answered or lost; the block completes it.

    Raises OSError if the file cannot be written: a call that would not be listed is not made.
    """
    began, started = datetime.now(UTC), monotonic()
    line = {"at": began.isoformat(timespec="milliseconds"), **line}
    append_whole(file, "", mode=0o600)
    try:
        yield line
    except BaseException as error:
        line["lost"] = type(error).__name__
        raise
    finally:
        line["seconds"] = round(monotonic() - started, 3)
        append_whole(file, json.dumps(line) + "\n", mode=0o600)


def opened(file: Path | None, to: str, way: str, connect: Callable[[], Opened]) -> Opened:
    """Log in to a host or a guest; if a file is named, list that and each command there."""
    if file is None:
        return connect()
    with listed(file, {"to": to, "call": f"{way} login"}):
        channel = connect()
    return cast("Opened", _Listed(channel, to, way, file))


@dataclass(frozen=True, slots=True)
class _Listed:
    """A channel whose commands are listed; `start` is there for guests only."""

    channel: Any
    to: str
    way: str
    file: Path

    def execute(self, line: str, timeout_seconds: float, stdin: bytes = b"") -> Executed:
        with self._listed(line, len(stdin)) as told:
            done: Executed = self.channel.execute(line, timeout_seconds, stdin)
            told |= {"status": done.status, "received": len(done.stdout) + len(done.stderr)}
            return done

    def start(self, prefix: Sequence[str], words: Sequence[str]) -> None:
        with self._listed(" ".join((*prefix, *words)), 0):
            self.channel.start(prefix, words)

    def close(self) -> None:
        self.channel.close()

    def _listed(self, line: str, sent: int) -> AbstractContextManager[dict[str, object]]:
        words = " ".join(line.split())
        cut = words if len(words) <= _MOST_SIGNS else f"{words[:_MOST_SIGNS]}…"
        return listed(self.file, {"to": self.to, "call": f"{self.way} $ {cut}", "sent": sent})
