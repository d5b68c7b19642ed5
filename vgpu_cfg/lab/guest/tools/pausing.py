"""`train --pause` and `--resume`: trainings are the workloads of workers that are called `train`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from vgpu_cfg.lab.guest.shell.session import Result, Session
from vgpu_cfg.lab.guest.system import files
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.faults import fault_of
from vgpu_cfg.lab.guest.system.workloads import end_training
from vgpu_cfg.lab.guest.tools.base import fail
from vgpu_cfg.lab.guest.tools.peers import why_no_ssh, worker_of
from vgpu_cfg.lab.state.guest import Workload
from vgpu_cfg.lab.state.inventory import VirtualMachine

PAUSED = "/var/log/vgpu-cfg/paused"
TRAINING = "train"


def pause(session: Session, arguments: Sequence[str]) -> Result:
    """Have all workers of a running training save, then end it; if one cannot, it continues."""
    found = [(name, vm) for name, vm in _workers(session) if vm is not None]
    work = {
        name: [(one.name, one.runtime, one.container) for one in guest_of(vm).workloads if is_training(one)]
        for name, vm in found
    }
    if not any(work.values()):
        is_paused = PAUSED in session.guest.files
        return Result(err=b"train: already paused\n" if is_paused else b"train: no training is running\n")
    for name, vm in found:
        answer = fault_of(guest_of(vm), "checkpoint")
        if answer == "fails":
            return fail(f"train: {name} did not save: it ended with status 1", _GOES_ON)
        if answer:
            seconds = float(arguments[arguments.index("--timeout") + 1])
            clock = session.lab.clock
            clock.wait(clock.now() + clock.scaled(seconds), session.lab.changed)
            return fail(f"train: {name} did not save: it did not end within {seconds:.0f} seconds", _GOES_ON)
    now = session.lab.clock.now()
    files.write(session.guest, PAUSED, json.dumps(work).encode(), now=now, parents=True)
    for _, vm in found:
        end_training(session.lab, vm, is_training)
    return Result(err=b"train: paused on a checkpoint\n")


_GOES_ON = "train: the training was not paused, and goes on"


def resume(session: Session, arguments: Sequence[str]) -> Result:
    """Start the paused training again on all workers, but for those to be left out."""
    kept = session.guest.files.get(PAUSED)
    if kept is None:
        return Result(err=b"train: no training is paused\n")
    without = arguments[2].split(",") if "--without" in arguments else []
    used = [(name, vm) for name, vm in _workers(session) if name not in without]
    for name, _ in used:
        refusal = why_no_ssh(session, name)
        if refusal is not None:
            return fail(f"train: {name} does not respond over SSH on port 2222: {refusal}")
    work = json.loads(kept.content)
    for name, vm in used:
        if vm is not None:
            guest_of(vm).workloads += [Workload(*one) for one in work.get(name, ())]
            session.lab.state.touch(vm)
    del session.guest.files[PAUSED]
    return Result(err=b"train: resumed\n")


def is_training(one: Workload) -> bool:
    """Whether work is a training that `train` has started."""
    return one.name.partition(" ")[0] == TRAINING


def _workers(session: Session) -> Iterator[tuple[str, VirtualMachine | None]]:
    hosts = session.guest.files["/opt/vgpu-cfg/hostfile"]
    for line in hosts.content.splitlines():
        name = line.split()[0]
        yield name, worker_of(session, name)
