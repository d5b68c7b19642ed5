"""Power: on if the rules let a VM run, off, suspended, reset, and the guest's own shutdown.

A power-on and a power-off move the VM's change version, as on a real vCenter (vmware/vic, pull
request 2510, for the power-on; for the power-off it is assumed).
"""

from __future__ import annotations

from typing import Any, Literal

from pyVmomi import vim

from vgpu_cfg.lab.estates.lies import SOON_SECONDS
from vgpu_cfg.lab.guest import lifecycle as life
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.operations.vms.drafts import check_reachable, stamp_change
from vgpu_cfg.lab.rules import admission, drs, refusals
from vgpu_cfg.lab.rules.refusals import refuse
from vgpu_cfg.lab.simulation import past_events
from vgpu_cfg.lab.simulation.operations import operation, resolve_or_none, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import copy_with, mac_of, nics_of
from vgpu_cfg.lab.state.inventory import Cluster, Host, ResourcePool, VirtualMachine
from vgpu_cfg.lab.state.vm import LINGERS


@task(
    "VirtualMachine", "PowerOnVM_Task", description_id="VirtualMachine.powerOn", seconds=4.0, cancelable=True
)
def power_on(lab: Simulation, vm: VirtualMachine, *, host: Any = None) -> None:
    """Start a VM on the host that is named, else where DRS wants it, else on the one it was put on.

    DRS at any level but manual chooses the host at power-on (vSphere API reference, DrsBehavior). If the lab
    chose the VM's host, any of the cluster will do.
    """
    if vm.is_template:
        raise refusals.not_supported()
    if vm.is_on:
        raise refusals.wrong_power_state(vm, "poweredOn")
    asked = resolve_or_none(lab.state, host, Host)
    registered = lab.state.get(vm.host, Host)
    candidates = [asked or registered]
    if asked is not None and lab.state.denies("drs-keeps-power-on-host"):
        hosts = [lab.state.get(moid, Host) for moid in lab.state.cluster_of(registered).hosts]
        candidates = [*(one for one in hosts if one is not asked and is_in_reach(lab, vm, one)), asked]
    cluster = lab.state.cluster_of(registered)
    is_placed_anew = asked is None and drs.places_at_power_on(cluster, vm)
    if is_placed_anew or (asked is None and vm.host_is_chosen):
        others = (lab.state.get(moid, Host) for moid in cluster.hosts)
        candidates += [other for other in others if other is not registered and is_in_reach(lab, vm, other)]
    if is_placed_anew:
        candidates.sort(key=lambda host: admission.reserved_mib(lab.state, host) / host.memory_mib)
    start_on_one_of(lab, vm, candidates)


def start_on_one_of(lab: Simulation, vm: VirtualMachine, candidates: list[Host]) -> None:
    """Start a VM on the first host that takes it, registering it there."""
    before = lab.state.get(vm.host, Host)
    vm.log.clear()
    try:
        chosen, admitted = drs.place(
            lab.state, vm, candidates, lambda host: admission.admit(lab.state, vm, host, lab.pick)
        )
    finally:
        lab.state.touch(vm)
    move_to(lab, vm, before, chosen)
    admission.start(lab.state, vm, chosen, admitted, now=lab.clock.now())
    life.boot(lab, vm, after="power on")
    if lab.state.denies("only-an-edit-changes-a-mac"):
        _give_other_macs(lab, vm, "manual", "assigned", "generated")
    elif lab.state.denies("nic-keeps-automatic-mac"):
        _give_other_macs(lab, vm, "assigned", "generated")
    if lab.state.denies("drs-keeps-numa-affinity"):
        vm.extra_config.pop("numa.nodeAffinity", None)
    stamp_change(lab, vm, "power-on-moves-change-version")


def _give_other_macs(lab: Simulation, vm: VirtualMachine, *kinds: str) -> None:
    for nic in nics_of(vm.devices):
        if nic.addressType in kinds:
            mac = mac_of(lab.state.revision, nic.key, lab.state)
            vm.devices[nic.key] = copy_with(nic, macAddress=mac)


def move_to(
    lab: Simulation,
    vm: VirtualMachine,
    before: Host,
    after: Host,
    *,
    by: Literal["move", "register"] = "register",
) -> None:
    """Register a VM at another host, in the course of a move as it runs or without one."""
    if before is not after:
        lab.note(vm, by, f"{before.name} -> {after.name}")
        before.vms.pop(vm.moid, None)
        after.vms[vm.moid] = None
        vm.host = after.moid
        lab.state.touch(before, after, vm)


def is_in_reach(lab: Simulation, vm: VirtualMachine, host: Host) -> bool:
    """Whether a host reaches the VM's datastore and is in its pool's cluster."""
    pool = lab.state.find(vm.resource_pool, ResourcePool)
    in_cluster = pool is None or lab.state.get(pool.owner, Cluster).moid == host.parent
    return host.is_usable and in_cluster and vm.datastore in host.datastores


@task("VirtualMachine", "PowerOffVM_Task", description_id="VirtualMachine.powerOff", seconds=2.0)
def power_off(lab: Simulation, vm: VirtualMachine) -> None:
    """Stop a VM at once; one that is suspended loses its saved state."""
    if vm.power_state == "poweredOff":
        raise refusals.wrong_power_state(vm, "poweredOff")
    halt(lab, vm)
    stamp_change(lab, vm, "power-off-moves-change-version")


def halt(lab: Simulation, vm: VirtualMachine) -> None:
    """Let a VM and its guest stop. Raises where its host does not answer."""
    check_reachable(lab.state, vm)
    stop(lab, vm)


def stop(lab: Simulation, vm: VirtualMachine) -> None:
    """Stop a VM with its guest, and return its resources."""
    host = lab.state.get(vm.host, Host)
    if lab.state.denies("graphics-info-forgets-stopped-vms"):
        held = tuple(gpu.pci_id for gpu in host.gpus if any(use.vm == vm.moid for use in gpu.uses))
        vm.extra[LINGERS] = {"until": lab.clock.now() + SOON_SECONDS, "gpus": held}
    admission.stop(lab.state, vm)
    life.halt(lab, vm)


@task("VirtualMachine", "SuspendVM_Task", description_id="VirtualMachine.suspend", seconds=3.0)
def suspend(lab: Simulation, vm: VirtualMachine) -> None:
    """Suspend a VM that runs: it releases its resources, as one that is off.

    In the lab its guest boots anew when it is powered on again.
    """
    if not vm.is_on:
        raise refusals.wrong_power_state(vm, "poweredOn")
    if drs.holds_functions(vm):
        raise refuse("suspend-with-passthrough")
    halt(lab, vm)
    vm.power_state = "suspended"
    lab.state.touch(vm)


@task("VirtualMachine", "ResetVM_Task", description_id="VirtualMachine.reset", seconds=2.0)
def reset(lab: Simulation, vm: VirtualMachine) -> None:
    """Restart a VM that runs; it keeps its resources."""
    if not vm.is_on:
        raise refusals.wrong_power_state(vm, "poweredOn")
    check_reachable(lab.state, vm)
    vm.boot_time = lab.clock.now()
    life.boot(lab, vm)
    lab.state.touch(vm)


@operation("VirtualMachine", "ShutdownGuest")
def shut_down_guest(lab: Simulation, vm: VirtualMachine) -> None:
    """Ask the guest to stop; it does so at once where its tools run."""
    _check_tools(lab, vm)
    stop(lab, vm)
    stamp_change(lab, vm, "power-off-moves-change-version")
    past_events.record(lab, vm, "VmGuestShutdownEvent")


@operation("VirtualMachine", "RebootGuest")
def reboot_guest(lab: Simulation, vm: VirtualMachine) -> None:
    """Ask the guest to restart; it is down at once where its tools run."""
    _check_tools(lab, vm)
    life.boot(lab, vm)


def _check_tools(lab: Simulation, vm: VirtualMachine) -> None:
    """Raise unless a running guest's tools can be asked for something."""
    if not vm.is_on:
        raise refusals.wrong_power_state(vm, "poweredOff")
    check_reachable(lab.state, vm)
    if not vm.tools_installed or not guest_of(vm).is_up:
        raise vim.fault.ToolsUnavailable(
            msg="Cannot complete operation because VMware Tools is not running in this virtual machine."
        )
