"""The product as a process that can be killed: forked from one that has imported it, in its own folder.

To import everything takes longer than most runs; what is forked is as much a process as what is started.
"""

from __future__ import annotations

import ctypes
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Never

from tests.cli.command_line import Ran
from tests.faults.harness import guests, wires
from tests.faults.harness.explorer import Explorer
from tests.faults.harness.wires import Place, hear, tell
from vgpu_cfg.cli import compose
from vgpu_cfg.cli.app import main
from vgpu_cfg.shells.esxi import logins

_PR_SET_PDEATHSIG = 1
DEADLINE_SECONDS = 200
POLL_SECONDS = 0.05
SSH_TRIES_SECONDS = 0.05
"""How long a login waits between its tries: the lab's ports open within that."""


@dataclass(frozen=True, slots=True)
class Ended(Ran):
    """How a command ended; `code` is negative where a signal ended it, as `subprocess` has it."""

    @property
    def is_sound(self) -> bool:
        """Whether it did not end in a bug."""
        return not (self.code == 1 or "bug in vgpu-cfg" in self.told or "Traceback" in self.told)


@dataclass(frozen=True, slots=True)
class Command:
    """What is run where: words, the folder that it runs in, the lab that it finds, and its environment."""

    words: Sequence[str]
    folder: str
    place: Mapping[str, Any]
    environment: Mapping[str, str] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        """Return it as JSON values."""
        return asdict(self)


def outputs(folder: Path) -> tuple[Path, Path]:
    """Return where a command's output is kept: beside its folder."""
    return folder.with_suffix(".out"), folder.with_suffix(".err")


def ended(status: int, folder: Path) -> Ended:
    """Return how a process ended, by what `waitpid` says."""
    out, err = (path.read_text(encoding="utf-8", errors="replace") for path in outputs(folder))
    return Ended(os.waitstatus_to_exitcode(status), out, err)


def start(command: Command, explorer: Explorer | None = None) -> int:
    """Start a command; return its process."""
    pid = os.fork()
    if pid:
        return pid
    try:
        _be(command, explorer)
    finally:
        os._exit(99)


def run(command: Command, explorer: Explorer | None = None) -> Ended:
    """Run a command to its end."""
    pid = start(command, explorer)
    return ended(os.waitpid(pid, 0)[1], Path(command.folder))


def _be(command: Command, explorer: Explorer | None) -> Never:
    die_with_parent()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(DEADLINE_SECONDS if explorer is None else 0)
    folder = Path(command.folder)
    os.chdir(folder)
    os.environ.update(command.environment)
    take_outputs(folder)
    settle_in(Place(**command.place))
    if explorer is not None:
        explorer.install()
    sys.argv = ["vgpu-cfg", *command.words]
    code = 99
    try:
        main()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 98
    with suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    if explorer is not None and not explorer.is_child:
        explorer.keep_requests()
    os._exit(code)


def die_with_parent() -> None:
    """Let the kernel kill this process when its parent's thread ends."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def take_outputs(folder: Path) -> None:
    """Let this process write to files of its own."""
    for number, path in enumerate(outputs(folder), start=1):
        file = os.open(path, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
        os.dup2(file, number)
        os.close(file)
    sys.stdout = os.fdopen(1, "w", buffering=1, encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, encoding="utf-8", closefd=False)


class _LabsClock:
    """The lab's own clock, asked over its socket: what a run waits for passes there at once."""

    place = Place("")

    def now(self) -> datetime:
        return datetime.fromtimestamp(self.place.ask("now"), UTC)

    def pause(self, seconds: float) -> None:
        self.place.ask("pause", seconds=seconds)


def settle_in(place: Place) -> None:
    """Let this process find a lab behind its names, and take the time from it."""
    wires.lead_to(place)
    _LabsClock.place = place
    compose.SystemClock = _LabsClock  # type: ignore[misc,assignment]  # what it has of a clock is all that is asked
    compose._make_guest_logins = lambda keys, secrets, *_: guests.guest_shells(
        lambda: _LabsClock.place, keys, secrets
    )
    defaults = logins.EsxiShells.__init__.__kwdefaults__ or {}
    defaults["sleep"] = lambda _seconds: _pause_for_real()


def _pause_for_real() -> None:
    threading.Event().wait(SSH_TRIES_SECONDS)


# ---------------------------------------------------------------- for processes that cannot fork cleanly


def serve_commands(
    socket_: socket.socket, processes: list[int], go: Callable[[], int] | None = None
) -> list[int]:
    """Run the commands that a socket asks for, each in a process of its own, until processes have ended.

    Where `go` is asked for instead, it starts one more of these; so it does at the latest when they have
    ended. Returns their statuses.
    """
    statuses: dict[int, int] = {}
    socket_.settimeout(POLL_SECONDS)
    while True:
        found, status = os.waitpid(-1, os.WNOHANG)
        if found:
            statuses[found] = status
        if statuses.keys() >= set(processes):
            if go is None or len(processes) > 1:
                return [statuses[process] for process in processes]
            processes.append(go())
        try:
            line, _ = socket_.accept()
        except TimeoutError:
            continue
        with line:
            asked = hear(line)
            if asked.pop("do") == "go" and go is not None:
                processes.append(go())
                tell(line, None)
            elif os.fork() == 0:
                _answer(line, Command(**asked))


def _answer(line: socket.socket, command: Command) -> Never:
    """Run a command in a process of its own, so that its being killed is told, too."""
    try:
        tell(line, asdict(run(command)))
    finally:
        os._exit(0)
