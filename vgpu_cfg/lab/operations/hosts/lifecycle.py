"""When a host goes and comes: a reboot told and begun, the minutes without an answer, the power by hand.

After a reboot was told, the host answers for some seconds yet, with the boot time that it had.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Literal

from vgpu_cfg.lab.guest import lifecycle as life
from vgpu_cfg.lab.rules import admission
from vgpu_cfg.lab.simulation import events
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Host
from vgpu_cfg.lab.state.host_restart import restart
from vgpu_cfg.lab.state.inventory import Managed, VirtualMachine

GOING_SECONDS = 20.0
BOOT_SECONDS = 300.0
"""How long a server takes from the power button to an answer: a number of the lab's own."""

ServerAction = Literal["power_on", "bios"]


def begin_shutdown(lab: Simulation, host: Host, *, for_good: bool) -> None:
    """Let a host go down in a moment: to come back, or `for_good`, until somebody powers it on."""
    host.is_off = for_good
    lab.state.leaving[host.moid] = lab.clock.now() + _scaled(lab, GOING_SECONDS)
    lab.state.touch(host)


def settle(lab: Simulation) -> None:
    """Let hosts go and come whose time it is."""
    now = lab.clock.now()
    for moid, at in [item for item in lab.state.leaving.items() if item[1] <= now]:
        _go_down(lab, lab.state.get(moid, Host), at)
    for moid, at in [item for item in lab.state.booting.items() if item[1] <= now]:
        _come_up(lab, lab.state.get(moid, Host), at)


def next_event(lab: Simulation) -> float | None:
    """Return when a host goes or comes next, None where none does."""
    return min((*lab.state.leaving.values(), *lab.state.booting.values()), default=None)


def act_at_server(
    lab: Simulation, host: Managed | str, what: ServerAction, facts: Mapping[str, bool]
) -> None:
    """Press the power button, or set facts of the BIOS while the server is off. Raises ValueError."""
    found = next(
        (each for each in lab.state.all(Host) if host is each or host in (each.name, each.moid)), None
    )
    if found is None:
        raise ValueError(f"the lab has no host {host!r}")
    if not found.is_off or found.moid in lab.state.leaving:
        raise ValueError(f"{found.name} is on: shut it down first")
    match what:
        case "power_on":
            if facts:
                raise ValueError("a power button takes no settings")
            found.is_off, found.boots_cold = False, True
            lab.state.booting[found.moid] = lab.clock.now() + _scaled(lab, BOOT_SECONDS)
        case "bios":
            known = {field.name for field in fields(found.bios) if isinstance(field.default, bool)}
            if not facts or not facts.keys() <= known:
                raise ValueError(f"of the BIOS there are {', '.join(sorted(known))}")
            found.bios = replace(found.bios, **facts)  # type: ignore[arg-type]  # names checked above
    lab.state.touch(found)


def _scaled(lab: Simulation, seconds: float) -> float:
    return lab.clock.scaled(seconds * lab.task_seconds)


def _go_down(lab: Simulation, host: Host, at: float) -> None:
    """Stop answering; VMs that still run there are gone with the host."""
    del lab.state.leaving[host.moid]
    for vm in [lab.state.get(moid, VirtualMachine) for moid in host.vms]:
        if vm.is_on:
            admission.stop(lab.state, vm)
            life.halt(lab, vm)
    host.connection, host.power_state = "notResponding", "poweredOff"
    host.boots_cold = host.is_off
    if not host.is_off:
        lab.state.booting[host.moid] = at + _scaled(lab, BOOT_SECONDS)
    lab.state.touch(host)


def _come_up(lab: Simulation, host: Host, at: float) -> None:
    del lab.state.booting[host.moid]
    restart(host, cold=host.boots_cold)
    host.connection, host.power_state, host.boots_cold = "connected", "poweredOn", False
    host.boot_time = at
    events.post(lab, host, "HostConnectedEvent")
    lab.state.touch(host)
