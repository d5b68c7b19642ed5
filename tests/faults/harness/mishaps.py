"""What can go wrong with one request, and how the lab's process plays it."""

from __future__ import annotations

import os
import re
import signal
import socket
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from pyVmomi import VmomiSupport, vmodl

from vgpu_cfg.errors import HostShellError
from vgpu_cfg.lab.api.answer import write_fault
from vgpu_cfg.lab.shell.shell import LabShell
from vgpu_cfg.lab.simulation.faults import ConnectionDropped
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.soap import dispatch
from vgpu_cfg.lab.soap import server as soap_server

Mishap = Literal[
    "killed before", "killed after", "dropped before", "dropped after", "reset", "busy", "garbage", "half",
    "silence", "slow", "session ended", "fault", "another run", "task fault", "Ctrl-C", "Ctrl-C twice",
    "SIGTERM", "SIGHUP",
]  # fmt: skip
KILLS: tuple[Mishap, ...] = ("killed before", "killed after")
BREAKS: tuple[Mishap, ...] = (
    "dropped before", "dropped after", "reset", "busy", "garbage", "half", "silence", "slow",
    "session ended", "fault",
)  # fmt: skip
"""What happens to the wire, or is answered, while the process lives."""
ALL: tuple[Mishap, ...] = (*KILLS, *BREAKS)
TWICE: Mishap = "Ctrl-C twice"
SIGNALS: dict[Mishap, int] = {
    "Ctrl-C": signal.SIGINT,
    TWICE: signal.SIGINT,
    "SIGTERM": signal.SIGTERM,
    "SIGHUP": signal.SIGHUP,
}
AGAIN: tuple[Mishap, ...] = ("fault", "task fault", *SIGNALS, *KILLS)
"""After which the same command is typed again, whatever it is: `task fault` at requests that begin a task."""
SHELL_BREAKS: tuple[Mishap, ...] = ("dropped before", "dropped after")
"""Those of them that a connection by SSH has."""
WORDS: dict[Mishap, str] = {
    "killed before": "the process is killed (SIGKILL) before vCenter or the host has acted",
    "killed after": "the process is killed (SIGKILL) after they have acted",
    "dropped before": "the connection closes before the server has acted",
    "dropped after": "the connection closes after the server has acted",
    "reset": "the connection is reset (RST)",
    "busy": "503 Service Unavailable from the proxy of vCenter",
    "garbage": "an answer that is not SOAP, after the server has acted",
    "half": "the connection closes after half of the answer",
    "silence": "no answer within the time limit",
    "slow": "a slow answer within the time limit",
    "session ended": "the session has ended: NotAuthenticated",
    "another run": "another machine begins a run",
    "fault": "the SOAP fault SystemError",
    "task fault": "the task that the request begins ends with a fault; nothing was done",
    "Ctrl-C": "SIGINT while the request is under way",
    TWICE: "SIGINT while the request is under way, and again while the next one is",
    "SIGTERM": "SIGTERM while the request is under way",
    "SIGHUP": "SIGHUP while the request is under way",
}
SILENCE_SECONDS = 0.4
"""The time limit of a request that nobody answers, instead of the half minute that it is."""
SLOW_SECONDS = 0.2


@dataclass(slots=True)
class Armed:
    """The mishap of the next request; `pid` is the process that sends it."""

    mishap: Mishap | None = None
    pid: int = 0

    def take(self) -> Mishap | None:
        """Return what is to happen to this request; the next one is left alone, but for a second Ctrl-C."""
        taken, self.mishap = self.mishap, "Ctrl-C" if self.mishap == TWICE else None
        return taken

    def kill(self, number: int = signal.SIGKILL) -> None:
        """Send the process that asks a signal; by SIGKILL it is dead then."""
        os.kill(self.pid, number)


ARMED = Armed()
"""That of this process."""


def install() -> None:
    """Let the servers of this process ask, at every request, what is to happen to it."""
    answer, execute = soap_server._Handler._answer, LabShell.execute

    def answered(handler: Any, method: str, body: bytes) -> None:
        mishap = ARMED.take()
        if mishap is None:
            answer(handler, method, body)
        else:
            _disturb(handler, method, body, mishap)

    def executed(shell: LabShell, line: str) -> tuple[int, str, str]:
        mishap = ARMED.take()
        if mishap is None:
            return execute(shell, line)
        if mishap in SIGNALS:
            ARMED.kill(SIGNALS[mishap])
            return execute(shell, line)
        if mishap == "fault":
            return 1, "", "refused once"
        if mishap.endswith("after"):
            execute(shell, line)
        if mishap in KILLS:
            ARMED.kill()
        raise HostShellError("the connection has gone", subject="the host", remedy="none")

    patch = pytest.MonkeyPatch()
    patch.setattr(soap_server._Handler, "_answer", answered)
    patch.setattr(LabShell, "execute", executed)


def _disturb(handler: Any, method: str, body: bytes, mishap: Mishap) -> None:
    lab: Simulation = handler.server.owner.lab
    wire: socket.socket = handler.connection
    if mishap in SIGNALS:
        ARMED.kill(SIGNALS[mishap])
    if mishap == "task fault":
        lab.faults.add(_task_of(body), kind="task", fault="SystemError", message="refused once")
    if mishap == "session ended":
        with lab.changed:
            for session in lab.sessions.all():
                lab.sessions.end(session)
    answer: tuple[int, Any, bytes] = (
        503,
        {"Content-Type": "text/html"},
        b"<html>Service Unavailable</html>",
    )
    if mishap == "fault":
        fault = vmodl.fault.SystemError(reason="scripted", msg="A general system error occurred: scripted")
        answer = 500, {"Content-Type": dispatch.XML}, write_fault(fault, VmomiSupport.BASE_VERSION)
    elif mishap not in ("killed before", "dropped before", "busy"):
        try:
            owner = handler.server.owner
            headers = dict(handler.headers.items())
            answer = dispatch.exchange(owner.lab, method, handler.path, headers, body, owner.credentials)
        except ConnectionDropped:
            pass
    match mishap:
        case "killed before" | "killed after":
            ARMED.kill()
        case "reset":
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        case "silence":
            threading.Event().wait(SILENCE_SECONDS * 2)
        case "slow":
            threading.Event().wait(SLOW_SECONDS)
            _send(handler, answer, answer[2])
            return
        case "garbage":
            _send(handler, (200, answer[1], b""), b"\x1f\x8b\xff not what was asked \x00" * 9)
            return
        case "half":
            _send(handler, answer, answer[2][: len(answer[2]) // 2], length=len(answer[2]))
        case "busy" | "fault" | "session ended" | "task fault":
            _send(handler, answer, answer[2])
            return
        case "Ctrl-C" | "Ctrl-C twice" | "SIGTERM" | "SIGHUP":
            with suppress(OSError):  # a process that has ended hears no answer
                _send(handler, answer, answer[2])
            return
        case _:
            pass
    handler.close_connection = True


def _task_of(body: bytes) -> str:
    """Return the method that a request calls."""
    found = re.search(rb"<soapenv:Body>\s*<(\w+)", body)
    return found[1].decode() if found is not None else ""


def _send(handler: Any, answer: tuple[int, Any, bytes], content: bytes, length: int | None = None) -> None:
    handler.send_response(answer[0])
    for name, value in answer[1].items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(len(content) if length is None else length))
    handler.end_headers()
    handler.wfile.write(content)
