"""Programs that run in a guest: started as a user, ended at once or when their event has come."""

from __future__ import annotations

import posixpath
import shlex

from vgpu_cfg.lab.guest.shell.session import Finder, History, Session, StillRunning, run_line
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.guest import Process
from vgpu_cfg.lab.state.inventory import VirtualMachine

KEPT_SECONDS = 300.0
"""How long the exit code of a program is kept: about five minutes (vSphere API reference)."""

KILLED = 143


def start(session: Session, line: str) -> Process:
    """Start a line of shell as a program of its own, as the user and in the folder of a session."""
    lab, vm = session.lab, session.vm
    guest, now = guest_of(vm), lab.clock.now()
    guest.last_pid += 1
    words = shlex.split(line, posix=True) if _can_split(line) else [line]
    process = Process(guest.last_pid, posixpath.basename(words[0]) if words else "", line, session.user, now)
    guest.processes.append(process)
    _go_on(lab, vm, process, session.find, session.folder)
    lab.state.touch(vm)
    return process


def _can_split(line: str) -> bool:
    try:
        shlex.split(line)
    except ValueError:
        return False
    return True


def _go_on(lab: Simulation, vm: VirtualMachine, process: Process, find: Finder, folder: str = "/") -> None:
    history = History(process.statuses, process.waits_for)
    session = Session(lab, vm, process.owner, find, history, folder=folder)
    process.waits_for = ""
    try:
        result = run_line(session, process.command, b"")
    except StillRunning as waits:
        process.waits_for = waits.what
        return
    process.exit_code, process.ended = result.status & 0xFF, lab.clock.now()


def finish(lab: Simulation, vm: VirtualMachine, what: str, find: Finder) -> None:
    """Resume the programs that waited for an event in this guest; `find` returns its programs."""
    for process in guest_of(vm).processes:
        if process.exit_code is None and process.waits_for == what:
            _go_on(lab, vm, process, find)


def kill(lab: Simulation, vm: VirtualMachine, process: Process) -> None:
    """End a program that runs."""
    if process.exit_code is None:
        process.exit_code, process.ended, process.waits_for = KILLED, lab.clock.now(), ""
        lab.state.touch(vm)


def known(lab: Simulation, vm: VirtualMachine) -> list[Process]:
    """Return the listed programs: those that run, and those that ended of late."""
    now = lab.clock.now()
    return [
        process
        for process in guest_of(vm).processes
        if process.ended is None or now - process.ended <= KEPT_SECONDS
    ]
