"""The outages of a host: reboots, the minutes without an answer, power lost and restored, and vSphere HA.

After a reboot was requested, the host answers for some seconds yet, with its old boot time. A host that loses
its power or its network cannot report it: vCenter shows its VMs as they were last known. vSphere HA starts
those of a dead host elsewhere, at once in the lab; those of a host that is only cut off run on there, as it
still beats on its datastores (vSphere Availability, "Determining Responses to Host Issues").

It starts VMs that ran, on hosts of their cluster that reach their files and take them as they are. One with a
function handed through fixed it does not start: high availability is not available to it (vSphere Networking,
"DirectPath I/O"). One whose restarts are disabled, and one that is off, it would register elsewhere; the lab
leaves those where they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Literal

from pyVmomi import vmodl

from vgpu_cfg.lab.guest import lifecycle as life
from vgpu_cfg.lab.operations.vms.power import is_in_reach, start_on_one_of
from vgpu_cfg.lab.rules import admission, drs
from vgpu_cfg.lab.simulation import event_history
from vgpu_cfg.lab.simulation.gpu_modes import watched_gpus
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import fixed_of
from vgpu_cfg.lab.state.host_defaults import restart
from vgpu_cfg.lab.state.inventory import Cluster, Host, Managed, VirtualMachine


def fail_over(lab: Simulation, host: Host) -> None:
    """Start elsewhere what ran on a dead host, one after the other in the order of their registration."""
    cluster = lab.state.cluster_of(host)
    if not cluster.ha_enabled:
        return
    for vm in [lab.state.get(moid, VirtualMachine) for moid in host.vms]:
        if vm.is_on and _is_restarted(cluster, vm):
            _restart_elsewhere(lab, cluster, vm)


def _is_restarted(cluster: Cluster, vm: VirtualMachine) -> bool:
    return not fixed_of(vm.devices) and cluster.is_restarted(vm.moid)


def _restart_elsewhere(lab: Simulation, cluster: Cluster, vm: VirtualMachine) -> None:
    """Start a VM on another host; where none takes it, it stays as it was last known."""
    hosts = (lab.state.get(moid, Host) for moid in cluster.hosts)
    candidates = [host for host in hosts if host.moid != vm.host and is_in_reach(lab, vm, host)]
    try:
        chosen, _ = drs.place(
            lab.state, vm, candidates, lambda host: admission.admit(lab.state, vm, host, lab.pick)
        )
    except vmodl.MethodFault:
        return
    admission.stop(lab.state, vm)
    start_on_one_of(lab, vm, [chosen])


GOING_SECONDS = 20.0
BOOT_SECONDS = 300.0
"""How long a server takes from the power button to an answer: a number of the lab's own."""

ServerAction = Literal["power_on", "bios", "fail", "cut_off", "reconnect"]


def begin_shutdown(lab: Simulation, host: Host, *, for_good: bool) -> None:
    """Make a host go down in a moment: to come back, or `for_good`, until it is powered on."""
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
    """Do at a server what only a person or a fate does. Raises ValueError where it cannot be.

    `power_on` presses the button and `bios` sets facts, both while it is off; `fail` takes its power and
    `cut_off` its network, `reconnect` gives that back.
    """
    found = next(
        (each for each in lab.state.all(Host) if host is each or host in (each.name, each.moid)), None
    )
    if found is None:
        raise ValueError(f"the lab has no host {host!r}")
    if what not in ("power_on", "bios") and facts:
        raise ValueError("only the BIOS has settings")
    match what:
        case "fail" | "cut_off":
            _lose(lab, found, loses_power=what == "fail")
        case "reconnect":
            _reconnect(lab, found)
        case "power_on":
            _check_off(lab, found)
            if facts:
                raise ValueError("a power button has no settings")
            found.is_off, found.boots_cold = False, True
            lab.state.booting[found.moid] = lab.clock.now() + _scaled(lab, BOOT_SECONDS)
        case "bios":
            _check_off(lab, found)
            known = {field.name for field in fields(found.bios) if isinstance(field.default, bool)}
            if not facts or not facts.keys() <= known:
                raise ValueError(f"the BIOS settings are {', '.join(sorted(known))}")
            found.bios = replace(found.bios, **facts)  # type: ignore[arg-type]  # names checked above
    lab.state.touch(found)


def _check_off(lab: Simulation, host: Host) -> None:
    if not host.is_off or host.moid in lab.state.leaving:
        raise ValueError(f"{host.name} is on: shut it down first")


def _lose(lab: Simulation, host: Host, *, loses_power: bool) -> None:
    """Let a host fall silent in the middle of its work."""
    if host.connection != "connected":
        raise ValueError(f"{host.name} is {host.connection} already")
    host.connection, host.is_off = "notResponding", loses_power
    lab.state.leaving.pop(host.moid, None)
    event_history.post(lab, host, "HostConnectionLostEvent")
    lab.note(host, "host down")
    if loses_power:
        for vm in _running_on(lab, host):
            life.halt(lab, vm)
        fail_over(lab, host)
    lab.state.touch(host)


def _reconnect(lab: Simulation, host: Host) -> None:
    if host.connection == "connected":
        raise ValueError(f"{host.name} is connected")
    if host.is_off or host.moid in lab.state.booting:
        raise ValueError(f"{host.name} is off: power it on")
    host.connection = "connected"
    event_history.post(lab, host, "HostConnectedEvent")
    lab.state.touch(host)


def _running_on(lab: Simulation, host: Host) -> list[VirtualMachine]:
    return [vm for vm in (lab.state.get(moid, VirtualMachine) for moid in host.vms) if vm.is_on]


def _scaled(lab: Simulation, seconds: float) -> float:
    return lab.clock.scaled(seconds * lab.task_seconds)


def _go_down(lab: Simulation, host: Host, at: float) -> None:
    """Stop answering; VMs that still run there are gone with the host."""
    del lab.state.leaving[host.moid]
    lab.note(host, "host down")
    _stop_all(lab, host)
    host.connection, host.power_state = "notResponding", "poweredOff"
    host.boots_cold = host.is_off
    if not host.is_off:
        lab.state.booting[host.moid] = at + _scaled(lab, BOOT_SECONDS)
    lab.state.touch(host)


def _stop_all(lab: Simulation, host: Host) -> None:
    for vm in _running_on(lab, host):
        admission.stop(lab.state, vm)
        life.halt(lab, vm)


def _come_up(lab: Simulation, host: Host, at: float) -> None:
    """Answer again; the VMs last known to run there do not."""
    del lab.state.booting[host.moid]
    _stop_all(lab, host)
    with watched_gpus(lab, host):
        restart(host, cold=host.boots_cold)
    lab.note(host, "host up")
    host.connection, host.power_state, host.boots_cold = "connected", "poweredOn", False
    host.boot_time = at
    event_history.post(lab, host, "HostConnectedEvent")
    lab.state.touch(host)
