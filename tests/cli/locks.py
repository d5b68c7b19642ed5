"""Locks that somebody else's run holds at a lab, from a machine that is not this one."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

from tests.cli.command_line import Ran
from vgpu_cfg.lab.simulation.sessions import LAB_CREDENTIALS
from vgpu_cfg.lab.state.inventory import Alarm, LabState
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.locks import LockHolder, LockName, parse_lock
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.alarms import VCenterLocks

ANNA = LockHolder(
    run="a11a00000001",
    command="apply",
    plan="demo",
    user="anna",
    machine="ci-7",
    pid=812,
    since=datetime(2026, 1, 5, 8, tzinfo=UTC),
)


def take_for_others(lab: Lab, *names: LockName, holder: LockHolder = ANNA) -> list[str]:
    """Make locks as another run does; return their moids."""
    with Session(lab, "lab", LAB_CREDENTIALS.user, LAB_CREDENTIALS.password) as session:
        return [moid for name in names if (moid := VCenterLocks(session).make(name, holder))]


@contextmanager
def locked_by_others(lab: Lab, *names: LockName, holder: LockHolder = ANNA) -> Iterator[None]:
    """Let another run hold locks for the length of a block."""
    moids = take_for_others(lab, *names, holder=holder)
    yield
    with Session(lab, "lab", LAB_CREDENTIALS.user, LAB_CREDENTIALS.password) as session:
        for moid in moids:
            VCenterLocks(session).remove(moid)


def still_locked(ran: Ran) -> str:
    """Return the run whose locks a command says to stay, of a plan alone."""
    found = re.search(
        r"the locks of run (\w+) remain: plan [^;,]+; .* with `vgpu-cfg unlock \1 --server \S+` from",
        ran.told,
    )
    assert found is not None, ran.told
    return found[1]


def leave_proofs(state_folder: Path, state: LabState) -> None:
    """Leave on this machine what the processes left that were killed and held the locks of a state."""
    folder = state_folder / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    for alarm in state.all(Alarm):
        parsed = parse_lock(alarm.name, alarm.spec.description)
        if parsed is not None and parsed[1] is not None:
            (folder / f"{parsed[1].run}.lock").touch()
