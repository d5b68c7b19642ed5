"""Links that go down and up, and who hangs on them: VMs that run, VMkernel NICs, the uplinks themselves.

"Changing the MTU on a virtual distributed switch will cause the uplinks to be brought down and up", on all of
its hosts (Broadcom KB 419088). That a standard switch's MTU does so, too, is assumed, and that an uplink that
a switch loses disturbs everything on it, while one more disturbs nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import network_of, nics_of
from vgpu_cfg.lab.state.diary import Experience
from vgpu_cfg.lab.state.inventory import DistributedSwitch, Host, Network, VirtualMachine
from vgpu_cfg.lab.state.standard_switches import portgroups_on, uplinks_of


def drop_links(lab: Simulation, host: Host, switch: DistributedSwitch | str) -> None:
    """Take a switch's uplinks on a host down and up. Without one there is no link to lose."""
    uplinks = uplinks_of(host, switch if isinstance(switch, str) else switch.moid)
    if not uplinks:
        return
    for uplink in uplinks:
        lab.note(host, "link", uplink.device)
    if isinstance(switch, DistributedSwitch):
        disturb(lab, host, switch.portgroups, "link")
    else:
        names = portgroups_on(lab.state, host, host.switches[switch])
        networks = (lab.state.get(moid, Network) for moid in host.networks)
        standard = [network.moid for network in networks if network.name in names and not network.switch]
        disturb(lab, host, [*standard, *names], "link")


def disturb(lab: Simulation, host: Host, portgroups: Collection[str], what: Experience) -> None:
    """Let everything of a host on these portgroups experience something.

    Portgroups are moids of networks, and names of standard ones for VMkernel NICs.
    """
    for vmknic in host.vmknics.values():
        if (vmknic.distributed or vmknic.portgroup) in portgroups:
            lab.note(host, what, vmknic.device)
    for vm in (lab.state.get(moid, VirtualMachine) for moid in host.vms):
        if vm.is_on:
            for nic in nics_of(vm.devices):
                if network_of(nic) in portgroups:
                    lab.note(vm, what, nic.deviceInfo.label)
