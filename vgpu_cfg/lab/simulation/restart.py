"""vCenter's own restart: no answer for a while, then its web front is alone, and sessions are gone.

Objects keep their moids. Hosts, VMs and guests go on meanwhile, as they do without a vCenter. The fate of a
real one's running tasks is unproven, so both are simulated: they run on, or are forgotten.
"""

from __future__ import annotations

from vgpu_cfg.errors import NotSent
from vgpu_cfg.lab.simulation import tasks
from vgpu_cfg.lab.simulation.sessions import Sessions
from vgpu_cfg.lab.simulation.simulation import Simulation


class ConnectionRefused(NotSent):
    """The refused connection while vCenter restarts, as a Transport reports it."""


def restart(
    lab: Simulation, *, away_seconds: float, starting_seconds: float = 0.0, forgets_tasks: bool = False
) -> None:
    """Restart vCenter: it is away, then starting, each for so many seconds of the lab."""
    state, now = lab.state, lab.clock.now()
    state.restarts += 1
    state.away_until = now + lab.clock.scaled(away_seconds)
    state.starting_until = state.away_until + lab.clock.scaled(starting_seconds)
    state.revision += 1
    if forgets_tasks:
        tasks.forget_all(lab)


def is_away(lab: Simulation) -> bool:
    """Whether vCenter refuses connections; also forgets sessions from before the last restart."""
    if lab.restarts_seen != lab.state.restarts:
        lab.restarts_seen = lab.state.restarts
        lab.sessions = Sessions()
    return lab.clock.now() < lab.state.away_until


def is_starting(lab: Simulation) -> bool:
    """Whether the web front answers, and vCenter itself does not yet."""
    return lab.clock.now() < lab.state.starting_until


def refused(lab: Simulation) -> ConnectionRefused:
    """Return a client's error while vCenter is away."""
    return ConnectionRefused(
        "the lab's vCenter restarts, and refuses connections",
        subject=f"lab:{lab.state.estate}",
        remedy="run the command again when it is back",
    )
