"""Carries one check out: its steps to shells, their answers back to it, and errors into verdicts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from vgpu_cfg.errors import GuestError, Interrupted, ReachError
from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.ports import GuestShell, HostShell, ShellResult
from vgpu_cfg.verification.asking import Asking, Command, Pause, ReadClock, Step, Verdict, WriteFile, failed


@dataclass(frozen=True, slots=True)
class Machines:
    """The shells that a check may use, by name; "" is its own subject's. `now` is vCenter's clock."""

    shells: Mapping[str, Callable[[], GuestShell | HostShell]]
    pause: Callable[[float], None]
    stopped: threading.Event
    now: Callable[[], datetime]


def drive(asking: Asking, machines: Machines) -> Verdict:
    """Carry a check out to its verdict.

    Raises Interrupted where the run is broken off, after the check has stopped what it started.
    """
    try:
        return _drive(asking, machines)
    except UnreadableOutput as error:
        return failed(VerifyCode.NOT_UNDERSTOOD, error.message, remedy=error.remedy)
    except GuestError as error:
        return failed(VerifyCode.GUEST_UNREACHED, error.message, remedy=error.remedy)
    except ReachError as error:
        return failed(VerifyCode.NOT_UNDERSTOOD, error.message, remedy=error.remedy)


def _drive(asking: Asking, machines: Machines) -> Verdict:
    try:
        step = next(asking)
        while True:
            try:
                answer = _carry_out(step, machines)
            except BaseException as error:  # noqa: BLE001 - the check stops what it started, then raises it again
                step = asking.throw(error)
            else:
                step = asking.send(answer)
    except StopIteration as ended:
        verdict: Verdict = ended.value
        return verdict


def _carry_out(step: Step, machines: Machines) -> ShellResult:
    if isinstance(step, Command) and step.is_cleanup:
        try:
            return _run(step, machines)
        except ReachError as error:  # what was to be stopped ends by itself, and the reason is told already
            return ShellResult(status=1, stderr=error.message)
    if machines.stopped.is_set():
        raise Interrupted("stopped", remedy="run it again")
    match step:
        case Command():
            return _run(step, machines)
        case WriteFile():
            shell: Any = machines.shells[step.on]()  # a guest's: no check writes to a host
            shell.write_file(step.path, step.content.encode(), step.mode)
            return ShellResult(status=0)
        case Pause():
            machines.pause(step.seconds)
            return ShellResult(status=0)
        case ReadClock():
            return ShellResult(status=0, stdout=f"{machines.now().timestamp():.6f}")


def _run(step: Command, machines: Machines) -> ShellResult:
    return machines.shells[step.on]().run(step.arguments, timeout_seconds=step.timeout_seconds)
