"""How a host's NICs, switches and portgroups show below `config.network`."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.entity import constant
from vgpu_cfg.lab.renderers.host_graphics import host_of
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.soap.context import Context
from vgpu_cfg.lab.state import DistributedSwitch, Host, Managed, Network, Nic

STANDARD_SWITCH = "vSwitch0"
PORTS = 2560


def _pnic_key(nic: Nic) -> str:
    return f"key-vim.host.PhysicalNic-{nic.device}"


def _rdma_key(nic: Nic) -> str:
    return f"key-vim.host.RdmaDevice-{nic.rdma_device}"


def _pnics(_context: Context, thing: Managed) -> list[Any]:
    return [
        vim.host.PhysicalNic(
            key=_pnic_key(nic),
            device=nic.device,
            pci=nic.pci.pci_id,
            driver=nic.driver,
            linkSpeed=vim.host.PhysicalNic.LinkSpeedDuplex(speedMb=nic.speed_mbps, duplex=True)
            if nic.link_up
            else None,
            spec=vim.host.PhysicalNic.Specification(),
            wakeOnLanSupported=False,
            mac=nic.mac,
            autoNegotiateSupported=True,
            rdmaDevice=_rdma_key(nic) if nic.rdma_device else None,
        )
        for nic in host_of(thing).nics
    ]


def _rdma_devices(_context: Context, thing: Managed) -> list[Any]:
    return [
        vim.host.RdmaDevice(
            key=_rdma_key(nic),
            device=nic.rdma_device,
            driver=nic.driver.replace("_core", "_rdma"),
            description=nic.pci.device_name,
            backing=vim.host.RdmaDevice.PnicBacking(pairedUplink=_pnic_key(nic)),
            connectionInfo=vim.host.RdmaDevice.ConnectionInfo(
                state="active" if nic.link_up else "down", mtu=1024, speedInMbps=nic.speed_mbps
            ),
            capability=vim.host.RdmaDevice.Capability(
                roceV1Capable=True, roceV2Capable=True, iWarpCapable=False
            ),
        )
        for nic in host_of(thing).nics
        if nic.rdma_device
    ]


def _standard(context: Context, host: Host) -> list[Network]:
    networks = (context.state.find(moid, Network) for moid in host.networks)
    return [network for network in networks if network is not None and not network.is_distributed]


def _uplinks(host: Host, switch: str) -> list[Nic]:
    return [nic for nic in host.nics if nic.uplink_of == switch]


def _portgroup_key(network: Network) -> str:
    return f"key-vim.host.PortGroup-{network.name}"


def _vswitches(context: Context, thing: Managed) -> list[Any]:
    host = host_of(thing)
    uplinks = _uplinks(host, STANDARD_SWITCH)
    bridge = vim.host.VirtualSwitch.BondBridge(nicDevice=[nic.device for nic in uplinks]) if uplinks else None
    return [
        vim.host.VirtualSwitch(
            name=STANDARD_SWITCH,
            key=f"key-vim.host.VirtualSwitch-{STANDARD_SWITCH}",
            numPorts=PORTS,
            numPortsAvailable=PORTS,
            mtu=1500,
            portgroup=[_portgroup_key(network) for network in _standard(context, host)],
            pnic=[_pnic_key(nic) for nic in uplinks],
            spec=vim.host.VirtualSwitch.Specification(numPorts=PORTS, bridge=bridge, mtu=1500),
        )
    ]


def _portgroups(context: Context, thing: Managed) -> list[Any]:
    return [
        vim.host.PortGroup(
            key=_portgroup_key(network),
            port=[],
            vswitch=f"key-vim.host.VirtualSwitch-{STANDARD_SWITCH}",
            computedPolicy=vim.host.NetworkPolicy(),
            spec=vim.host.PortGroup.Specification(
                name=network.name,
                vlanId=network.vlan,
                vswitchName=STANDARD_SWITCH,
                policy=vim.host.NetworkPolicy(),
            ),
        )
        for network in _standard(context, host_of(thing))
    ]


def _proxy_switches(context: Context, thing: Managed) -> list[Any]:
    host = host_of(thing)
    switches = [switch for switch in context.state.all(DistributedSwitch) if host.moid in switch.hosts]
    return [
        vim.host.HostProxySwitch(
            dvsUuid=switch.uuid,
            dvsName=switch.name,
            key=f"DvsPortset-{switch.moid}",
            numPorts=PORTS,
            numPortsAvailable=PORTS,
            mtu=switch.mtu,
            pnic=[_pnic_key(nic) for name in (switch.name, switch.moid) for nic in _uplinks(host, name)],
            spec=vim.host.HostProxySwitch.Specification(backing=vim.dvs.HostMember.PnicBacking()),
        )
        for switch in switches
    ]


NETWORK_INFO: dict[str, Render] = {
    "vswitch": _vswitches,
    "proxySwitch": _proxy_switches,
    "portgroup": _portgroups,
    "pnic": _pnics,
    "rdmaDevice": _rdma_devices,
    "vnic": constant([]),
}

NETWORK_SYSTEM: dict[str, Render] = {
    "value": constant([]),
    "availableField": constant([]),
    **{f"networkInfo.{path}": render for path, render in NETWORK_INFO.items()},
}
