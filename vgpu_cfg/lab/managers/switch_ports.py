"""The ports of distributed switches: those of VMs first, then free ones. Their keys are the lab's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.network import port_config
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.context import Context, reference_to
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.state.inventory import DistributedSwitch, Network
from vgpu_cfg.lab.state.switch_members import port_keys


@answers("DistributedVirtualSwitch", "FetchDVPorts")
def fetch_ports(context: Context, thing: DistributedSwitch, *, criteria: Any) -> list[Any]:
    """Return the ports that meet the criteria. Uplink ports are among them where only those are asked for."""
    wanted = criteria or vim.dvs.PortCriteria()
    if wanted.uplinkPort:
        return _uplink_ports(context, thing, wanted)
    named = set(wanted.portgroupKey or ())
    is_inside = wanted.inside is not False
    found = (context.state.get(moid, Network) for moid in thing.portgroups)
    groups = [group for group in found if not named or (group.moid in named) is is_inside]
    ports = (port for group in groups if not group.is_uplink for port in _ports(context, thing, group))
    keys = set(wanted.portKey or ())
    return [
        port
        for port in ports
        if (not keys or port.key in keys) and wanted.connected in (None, port.connectee is not None)
    ]


def _uplink_ports(context: Context, switch: DistributedSwitch, wanted: Any) -> list[Any]:
    hosts = [host._moId for host in wanted.host or ()] or switch.hosts
    return [
        vim.dvs.DistributedVirtualPort(
            key=key,
            config=vim.dvs.DistributedVirtualPort.ConfigInfo(configVersion="0", name=name),
            dvsUuid=switch.uuid,
            portgroupKey=switch.uplink_portgroup,
            proxyHost=reference_to(context, moid),
            conflict=False,
            lastStatusChange=as_datetime(context.lab.clock.now()),
        )
        for moid in switch.hosts
        if moid in hosts
        for key, name in port_keys(switch, moid).items()
    ]


def _ports(context: Context, switch: DistributedSwitch, group: Network) -> Iterator[Any]:
    vms = list(group.vms)
    setting = port_config(context, group)
    number = int(group.moid.rpartition("-")[2]) * 1000
    for at in range(max(group.ports, len(vms))):
        vm = vim.VirtualMachine(vms[at]) if at < len(vms) else None
        yield vim.dvs.DistributedVirtualPort(
            key=str(number + at),
            config=vim.dvs.DistributedVirtualPort.ConfigInfo(configVersion="0", setting=setting),
            dvsUuid=switch.uuid,
            portgroupKey=group.moid,
            connectee=vim.dvs.PortConnectee(connectedEntity=vm, type="vmVnic") if vm is not None else None,
            conflict=False,
            lastStatusChange=as_datetime(context.lab.clock.now()),
        )
