"""The lab as a process of its own, over HTTPS and SSH, that splits in two when it is told to.

Its clock stands still until somebody waits, and then jumps: who runs against it asks it for the time.
"""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Never

from tests.cli.locks import ANNA, take_for_others
from tests.faults.harness import guests, mishaps
from tests.faults.harness.look import begin_with, look_at, whole
from tests.faults.harness.wires import Place, hear, listening, tell
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.shell.shell import ShellAccess
from vgpu_cfg.lab.shell.ssh_server import LabSshServer
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.soap.server import Certificate, LabServer
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.locks import LockName
from vgpu_cfg.settings.connection import LAB_PASSWORD

ORPHAN_SECONDS = 5.0
"""How soon a lab sees that whoever started it has gone, and goes too."""


class LabProcess:
    """One lab in this process; what another process asks of it comes as a line, with a thread of its own."""

    def __init__(self, estate: str, folder: Path, certificate: Certificate) -> None:
        self._lab: Lab = open_lab(estate, clock=VirtualClock())
        self._folder = folder
        self._certificate = certificate
        self._place = Place("")

    def begin(self) -> Never:
        """Serve until somebody says `end`; the process ends with it."""
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        mishaps.install()
        self._serve(listening(self._folder / "control"), self._folder / "control")

    def _serve(self, control: socket.socket, path: Path, asker: socket.socket | None = None) -> Never:
        http = LabServer(self._lab, certificate=self._certificate)
        ssh = LabSshServer(self._lab, access=ShellAccess(password=LAB_PASSWORD), folder=self._folder)
        http.start()
        ssh.__enter__()
        self._place = Place(str(path), http.port, {name: port for name, (_, port) in ssh.endpoints.items()})
        if asker is not None:
            tell(asker, self._place.as_data())
            asker.close()
        parent = os.getppid()
        control.settimeout(ORPHAN_SECONDS)
        while os.getppid() == parent:
            try:
                line, _ = control.accept()
            except TimeoutError:
                continue
            line.settimeout(None)
            threading.Thread(target=self._answer, args=(line,), daemon=True).start()
        os._exit(1)

    def _answer(self, line: socket.socket) -> None:
        with line:
            asked = hear(line)
            if asked is None:
                return
            do = asked.pop("do")
            if do == "fork":
                self._fork(line)
                return
            answers: dict[str, Callable[..., Any]] = {
                "place": self._place.as_data,
                "now": self._lab.clock.now,
                "pause": self._pause,
                "arm": self._arm,
                "revision": lambda: self._lab.state.revision,
                "look": lambda: look_at(self._lab.state),
                "begin": lambda: begin_with(self._lab.state),
                "whole": lambda: whole(self._lab.state),
                "rest": self._rest,
                "script": self._lab.faults.add,
                "lock": self._lock,
                "end": lambda: None,
            }
            tell(line, (answers | guests.answers(self._lab))[do](**asked))
            if do == "end":
                os._exit(0)

    def _fork(self, asker: socket.socket) -> None:
        """Split: the child is the same lab with the same sessions, on other ports; it answers who asked."""
        with self._lab.changed:
            if os.fork():
                return
            path = self._folder / f"control-{os.getpid()}"
            path.unlink(missing_ok=True)  # of another that had this number before
        self._serve(listening(path), path, asker)

    def _pause(self, seconds: float) -> None:
        """Let time pass."""
        with self._lab.changed:
            clock = self._lab.clock
            end = clock.now() + seconds
            while clock.now() < end:
                clock.wait(end, self._lab.changed)
        self._lab.settle()

    def _arm(self, mishap: mishaps.Mishap, pid: int) -> None:
        """Let something happen to the next request."""
        mishaps.ARMED.mishap, mishaps.ARMED.pid = mishap, pid

    def _lock(self, run: str) -> None:
        """Let a run of another machine hold two locks."""
        names = [LockName(kind="plan", key="theirs"), LockName(kind="host", key="host-9", label="esx-9")]
        take_for_others(self._lab, *names, holder=ANNA.model_copy(update={"run": run}))

    def _rest(self) -> None:
        """Let hosts that restart come back."""
        while self._lab.state.booting and self._lab.wait(None):
            continue
