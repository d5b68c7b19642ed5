"""Rendering of a host's NICs, switches and portgroups below `config.network`."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.entity import constant
from vgpu_cfg.lab.renderers.hosts.graphics import host_of
from vgpu_cfg.lab.renderers.network import pnic_backing
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.host import VNIC_SERVICES, StandardSwitch, Vmknic
from vgpu_cfg.lab.state.inventory import DistributedSwitch, Host, Managed, Network, Nic
from vgpu_cfg.lab.state.switch_members import port_keys, portgroups_on, uplinks_of, visible_nics

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
        for nic in visible_nics(host_of(thing))
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
        for nic in visible_nics(host_of(thing))
        if nic.rdma_device
    ]


def _portgroup_key(name: str) -> str:
    return f"key-vim.host.PortGroup-{name}"


def _vswitches(context: Context, thing: Managed) -> list[Any]:
    host = host_of(thing)
    return [_vswitch(context, host, switch) for switch in host.switches.values()]


def _vswitch(context: Context, host: Host, switch: StandardSwitch) -> Any:
    uplinks = uplinks_of(host, switch.name)
    devices = [nic.device for nic in uplinks]
    bridge = vim.host.VirtualSwitch.BondBridge(nicDevice=devices) if devices else None
    return vim.host.VirtualSwitch(
        name=switch.name,
        key=f"key-vim.host.VirtualSwitch-{switch.name}",
        numPorts=PORTS,
        numPortsAvailable=PORTS,
        mtu=switch.mtu,
        portgroup=[_portgroup_key(name) for name in portgroups_on(context.state, host, switch)],
        pnic=[_pnic_key(nic) for nic in uplinks],
        spec=vim.host.VirtualSwitch.Specification(
            numPorts=PORTS, bridge=bridge, mtu=switch.mtu, policy=_teaming(devices, switch)
        ),
    )


def _teaming(devices: list[str], switch: StandardSwitch) -> Any:
    """Return the policy of a switch as far as it names NICs."""
    in_order = [device for device in switch.active if device in devices]
    others = (*in_order, *switch.standby, *switch.unused)
    active = [*in_order, *(device for device in devices if device not in others)]
    order = vim.host.NetworkPolicy.NicOrderPolicy(activeNic=active, standbyNic=list(switch.standby))
    teaming = vim.host.NetworkPolicy.NicTeamingPolicy(policy="loadbalance_srcid", nicOrder=order)
    return vim.host.NetworkPolicy(nicTeaming=teaming)


def _portgroups(context: Context, thing: Managed) -> list[Any]:
    host = host_of(thing)
    return [
        vim.host.PortGroup(
            key=_portgroup_key(name),
            port=[],
            vswitch=f"key-vim.host.VirtualSwitch-{switch.name}",
            computedPolicy=vim.host.NetworkPolicy(),
            spec=vim.host.PortGroup.Specification(
                name=name,
                vlanId=vlan,
                vswitchName=switch.name,
                policy=vim.host.NetworkPolicy(),
            ),
        )
        for switch in host.switches.values()
        for name, vlan in portgroups_on(context.state, host, switch).items()
    ]


def _vnic_key(vmknic: Vmknic) -> str:
    return f"key-vim.host.VirtualNic-{vmknic.device}"


def _vnic(context: Context, vmknic: Vmknic) -> Any:
    return vim.host.VirtualNic(
        device=vmknic.device,
        key=_vnic_key(vmknic),
        portgroup=vmknic.portgroup,
        spec=vim.host.VirtualNic.Specification(
            ip=vim.host.IpConfig(
                dhcp=vmknic.dhcp, ipAddress=vmknic.ip or None, subnetMask=vmknic.netmask or None
            ),
            mac=vmknic.mac,
            portgroup=vmknic.portgroup or None,
            distributedVirtualPort=_port_of(context, vmknic),
            mtu=vmknic.mtu,
            tsoEnabled=True,
            netStackInstanceKey="defaultTcpipStack",
        ),
    )


def _port_of(context: Context, vmknic: Vmknic) -> Any:
    network = context.state.find(vmknic.distributed, Network)
    if network is None:
        return None
    switch = context.state.get(network.switch, DistributedSwitch)
    return vim.dvs.PortConnection(switchUuid=switch.uuid, portgroupKey=network.moid)


def _vnics(context: Context, thing: Managed) -> list[Any]:
    return [_vnic(context, vmknic) for vmknic in host_of(thing).vmknics.values()]


def _net_configs(context: Context, thing: Managed) -> list[Any]:
    """Render which VMkernel NICs carry which service; every one could carry any."""
    return [net_config(context, host_of(thing), service) for service in VNIC_SERVICES]


def net_config(context: Context, host: Host, service: str) -> Any:
    """Render which VMkernel NICs of a host carry a service."""
    vmknics = list(host.vmknics.values())
    return vim.host.VirtualNicManager.NetConfig(
        nicType=service,
        multiSelectAllowed=True,
        candidateVnic=[_vnic(context, vmknic) for vmknic in vmknics],
        selectedVnic=[_vnic_key(vmknic) for vmknic in vmknics if service in vmknic.services],
    )


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
            uplinkPort=[
                vim.KeyValue(key=key, value=name) for key, name in port_keys(switch, host.moid).items()
            ],
            mtu=switch.mtu,
            pnic=[_pnic_key(nic) for nic in uplinks_of(host, switch.moid)],
            spec=vim.host.HostProxySwitch.Specification(backing=pnic_backing(switch, host.moid)),
        )
        for switch in switches
    ]


def _opaque_switches(context: Context, thing: Managed) -> list[Any]:
    host = host_of(thing)
    return [
        vim.host.OpaqueSwitch(
            key=f"key-vim.host.OpaqueSwitch-{switch.name}",
            name=switch.name,
            pnic=[_pnic_key(nic) for nic in uplinks_of(host, switch.name)],
            status="up",
            vtep=[_vnic(context, vtep) for vtep in switch.vteps],
        )
        for switch in host.opaque_switches
    ]


NETWORK_INFO: dict[str, Render] = {
    "vswitch": _vswitches,
    "proxySwitch": _proxy_switches,
    "opaqueSwitch": _opaque_switches,
    "portgroup": _portgroups,
    "pnic": _pnics,
    "rdmaDevice": _rdma_devices,
    "vnic": _vnics,
}


def dns_config(_context: Context, thing: Managed) -> Any:
    """Render a host's names; the lab keeps no servers that it asks."""
    name, _, domain = host_of(thing).name.partition(".")
    return vim.host.DnsConfig(dhcp=False, hostName=name, domainName=domain, address=[], searchDomain=[])


def _network_config(context: Context, thing: Managed) -> Any:
    """Render the configuration, in the form in which a whole configuration is written."""
    return vim.host.NetworkConfig(
        vswitch=[
            vim.host.VirtualSwitch.Config(name=one.name, spec=one.spec) for one in _vswitches(context, thing)
        ],
        proxySwitch=[
            vim.host.HostProxySwitch.Config(uuid=one.dvsUuid, spec=one.spec)
            for one in _proxy_switches(context, thing)
        ],
        portgroup=[vim.host.PortGroup.Config(spec=one.spec) for one in _portgroups(context, thing)],
        pnic=[
            vim.host.PhysicalNic.Config(device=one.device, spec=one.spec) for one in _pnics(context, thing)
        ],
        vnic=[
            vim.host.VirtualNic.Config(device=one.device, portgroup=one.portgroup, spec=one.spec)
            for one in _vnics(context, thing)
        ],
        dnsConfig=dns_config(context, thing),
    )


VNIC_MANAGER_INFO: dict[str, Render] = {"netConfig": _net_configs}

NETWORK_SYSTEM: dict[str, Render] = {
    "value": constant([]),
    "availableField": constant([]),
    **{f"networkInfo.{path}": render for path, render in NETWORK_INFO.items()},
    "networkInfo.dnsConfig": dns_config,
    "networkConfig": _network_config,
    "dnsConfig": dns_config,
}
