"""Maintenance mode, reboot, connection and outages of hosts: no answer, power lost and restored, vSphere HA.

Entering maintenance mode ends when no VM runs on the host: DRS moves all VMs that it can, the rest is waited
for until the request's timeout. A host that enters takes no new VM.

Fully automated DRS moves ordinary VMs. One with a vGPU it moves only where the cluster's option
`VgpuMMAutomationTimeoutSecs` is -1 (vCenter 7.0 U3 and later) and vCenter's `vgpu.hotmigrate.enabled` is
true; one that holds a PCI function whole, or a virtual function, never. Obstacles to any move of a running VM
(`rules.drs`) apply to DRS, too.

After a reboot was requested, the host answers for some seconds yet, with its old boot time. A host that loses
its power or its network cannot report it: vCenter shows its VMs as they were last known. vSphere HA starts
those of a dead host elsewhere, at once in the lab; those of a host that is only cut off run on there, as it
still beats on its datastores (vSphere Availability, "Determining Responses to Host Issues").

vSphere HA starts VMs that ran, on hosts of their cluster that reach their files and take them as they are.
One with a function handed through fixed it does not start: high availability is not available to it (vSphere
Networking, "DirectPath I/O"). One whose restarts are disabled, and one that is off, it would register
elsewhere; the lab leaves those where they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any, Literal

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.guest import lifecycle as life
from vgpu_cfg.lab.operations.vms.migrate import move_running
from vgpu_cfg.lab.operations.vms.power import is_in_reach, start_on_one_of
from vgpu_cfg.lab.rules import admission, drs, refusals
from vgpu_cfg.lab.simulation import past_events
from vgpu_cfg.lab.simulation.operations import task
from vgpu_cfg.lab.simulation.simulation import Simulation, watched_gpus
from vgpu_cfg.lab.simulation.tasks import ENDED, Blocked
from vgpu_cfg.lab.state.devices import fixed_of, vgpus_of
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
    past_events.post(lab, host, "HostConnectionLostEvent")
    lab.note(host, "host down")
    if loses_power:
        for vm in running_on(lab, host):
            life.halt(lab, vm)
        fail_over(lab, host)
    lab.state.touch(host)


def _reconnect(lab: Simulation, host: Host) -> None:
    if host.connection == "connected":
        raise ValueError(f"{host.name} is connected")
    if host.is_off or host.moid in lab.state.booting:
        raise ValueError(f"{host.name} is off: power it on")
    host.connection = "connected"
    past_events.post(lab, host, "HostConnectedEvent")
    lab.state.touch(host)


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
    for vm in running_on(lab, host):
        admission.stop(lab.state, vm)
        life.halt(lab, vm)


def _come_up(lab: Simulation, host: Host, at: float) -> None:
    """Answer again; the VMs last known to run there do not."""
    del lab.state.booting[host.moid]
    _stop_all(lab, host)
    with watched_gpus(lab, host):
        restart(host, cold=host.boots_cold, denies=lab.state.denies)
    lab.note(host, "host up")
    host.connection, host.power_state, host.boots_cold = "connected", "poweredOn", False
    host.boot_time = at
    past_events.post(lab, host, "HostConnectedEvent")
    lab.state.touch(host)


ENTER = "EnterMaintenanceMode_Task"
VSAN_ACTIONS = ("noAction", "ensureObjectAccessibility", "evacuateAllData")
"""vim `VsanHostDecommissionModeObjectAction`. That vCenter refuses any other word is unproven."""
ENTER_SECONDS = 5.0
SECONDS_A_VM = 4.0
"""How long one migration adds: a number of the lab's own."""

VGPU_OPTION = "VgpuMMAutomationTimeoutSecs"
VGPU_OPTION_FROM = (7, 0, 3)


def _begin(lab: Simulation, host: Host, *, maintenanceSpec: Any = None, **_arguments: Any) -> None:
    refusals.check_host_answers(host)
    vsan = getattr(maintenanceSpec, "vsanMode", None)
    if vsan is not None and vsan.objectAction not in VSAN_ACTIONS:
        raise refusals.bad_argument("maintenanceSpec.vsanMode.objectAction")
    if host.in_maintenance or host.entering_maintenance:
        raise refusals.wrong_state(" of the host")
    lab.note(host, "maintenance", "enter")
    host.entering_maintenance = True
    lab.state.touch(host)


def _seconds(lab: Simulation, host: Host, **_arguments: Any) -> float:
    return ENTER_SECONDS + SECONDS_A_VM * len(running_on(lab, host))


@task(
    "HostSystem",
    ENTER,
    description_id="HostSystem.enterMaintenanceMode",
    seconds=_seconds,
    check=_begin,
    cancelable=True,
)
def enter_maintenance(
    lab: Simulation,
    host: Host,
    *,
    timeout: int,
    evacuatePoweredOffVms: Any = None,
    maintenanceSpec: Any = None,
) -> None:
    """Enter maintenance mode once no VM runs on the host. VMs that are off stay registered there.

    Of vSAN's modes only the words are judged, and no VM that is off is moved.
    """
    refusals.check_host_answers(host)
    evacuate(lab, host)
    if running_on(lab, host):
        raise Blocked(float(timeout), vim.fault.Timedout(msg="Operation timed out."))
    host.in_maintenance, host.entering_maintenance = True, False
    lab.state.touch(host)
    past_events.post(lab, host, "EnteredMaintenanceModeEvent")


def _is_over(lab: Simulation, host: Host) -> None:
    if host.entering_maintenance:
        host.entering_maintenance = False
        lab.state.touch(host)


ENDED["HostSystem", ENTER] = _is_over


def _check_in_maintenance(lab: Simulation, host: Host, **_arguments: Any) -> None:
    refusals.check_host_answers(host)
    if not host.in_maintenance:
        raise refusals.wrong_state(" of the host")


@task(
    "HostSystem",
    "ExitMaintenanceMode_Task",
    description_id="HostSystem.exitMaintenanceMode",
    seconds=3.0,
    check=_check_in_maintenance,
)
def exit_maintenance(lab: Simulation, host: Host, *, timeout: int) -> None:
    """Leave maintenance mode."""
    del timeout
    _check_in_maintenance(lab, host)
    lab.note(host, "maintenance", "exit")
    host.in_maintenance = False
    lab.state.touch(host)
    past_events.post(lab, host, "ExitMaintenanceModeEvent")


def _may_go_down(lab: Simulation, host: Host, *, force: bool) -> None:
    refusals.check_host_answers(host)
    if not (host.in_maintenance or force) or host.moid in lab.state.leaving:
        raise refusals.wrong_state(" of the host")


@task(
    "HostSystem",
    "RebootHost_Task",
    description_id="HostSystem.reboot",
    seconds=1.0,
    check=_may_go_down,
)
def reboot(lab: Simulation, host: Host, *, force: bool) -> None:
    """Reboot the host: it is gone a moment later, and back after some minutes."""
    _may_go_down(lab, host, force=force)
    begin_shutdown(lab, host, for_good=False)


@task(
    "HostSystem",
    "ShutdownHost_Task",
    description_id="HostSystem.shutdown",
    seconds=1.0,
    check=_may_go_down,
)
def shut_down(lab: Simulation, host: Host, *, force: bool) -> None:
    """Power off the host; it stays off until its power button is pressed."""
    _may_go_down(lab, host, force=force)
    begin_shutdown(lab, host, for_good=True)


def running_on(lab: Simulation, host: Host) -> list[VirtualMachine]:
    """Return the VMs that run on a host."""
    return [vm for vm in (lab.state.get(moid, VirtualMachine) for moid in host.vms) if vm.is_on]


def evacuate(lab: Simulation, host: Host) -> None:
    """Move every running VM that DRS may move and another host takes."""
    cluster = lab.state.cluster_of(host)
    for vm in running_on(lab, host):
        if may_move(lab, cluster, vm):
            _move(lab, cluster, vm, host)


def may_move(lab: Simulation, cluster: Cluster, vm: VirtualMachine) -> bool:
    """Whether DRS would move a VM by itself, room elsewhere apart."""
    override = cluster.overrides.get(vm.moid)
    level = (override.drs_behavior if override is not None else None) or cluster.drs_behavior
    is_off = override is not None and override.drs_enabled is False
    is_lazy = lab.state.denies("drs-empties-hosts")
    if not cluster.drs_enabled or is_off or is_lazy or level != "fullyAutomated":
        return False
    return not drs.holds_functions(vm) and (not vgpus_of(vm.devices) or _moves_vgpus(lab, cluster))


def _moves_vgpus(lab: Simulation, cluster: Cluster) -> bool:
    release = tuple(int(part) for part in lab.state.version.split("."))
    return (
        release >= VGPU_OPTION_FROM
        and cluster.drs_options.get(VGPU_OPTION) == "-1"
        and lab.state.settings.get(drs.HOT_MIGRATE) is True
    )


def _move(lab: Simulation, cluster: Cluster, vm: VirtualMachine, host: Host) -> None:
    """Move a VM as it runs, to the host with the most memory free; it stays where none takes it."""
    others = (lab.state.get(moid, Host) for moid in cluster.hosts)
    candidates = [other for other in others if other is not host and is_in_reach(lab, vm, other)]
    candidates.sort(key=lambda other: admission.reserved_mib(lab.state, other) / other.memory_mib)
    try:
        drs.check_may_leave(lab.state, vm, host)
        move_running(lab, vm, candidates)
    except vmodl.MethodFault:
        return


@task("HostSystem", "DisconnectHost_Task", description_id="HostSystem.disconnect", seconds=2.0)
def disconnect(lab: Simulation, host: Host) -> None:
    """Let go of a host; its VMs run on there. Raises InvalidState for one that is disconnected."""
    if host.connection == "disconnected":
        raise refusals.wrong_state(" of the host")
    host.connection = "disconnected"
    _touch(lab, host)


@task("HostSystem", "ReconnectHost_Task", description_id="HostSystem.reconnect", seconds=3.0)
def reconnect(lab: Simulation, host: Host, *, cnxSpec: Any = None, reconnectSpec: Any = None) -> None:
    """Look after a host again. Raises InvalidState where it is connected, HostNotReachable."""
    del cnxSpec, reconnectSpec
    if host.connection == "connected":
        raise refusals.wrong_state(" of the host")
    away = refusals.host_unusable(host)
    if host.connection == "notResponding" and away is not None:
        raise away
    host.connection = "connected"
    _touch(lab, host)


def _touch(lab: Simulation, host: Host) -> None:
    """Count host and VMs as changed: these show whether their host answers."""
    lab.state.touch(host, *(lab.state.objects[moid] for moid in host.vms))
