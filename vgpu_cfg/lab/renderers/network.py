"""Rendering of networks: portgroups and switches, distributed and of a host, and a host's NICs."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.entity import ENTITY, attribute, constant
from vgpu_cfg.lab.renderers.hardware import host_of
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.operations import Context, reference_to, referred
from vgpu_cfg.lab.state.devices import merged
from vgpu_cfg.lab.state.host import VNIC_SERVICES, StandardSwitch, Vmknic
from vgpu_cfg.lab.state.inventory import DistributedSwitch, Host, Managed, Network, Nic, VirtualMachine
from vgpu_cfg.lab.state.switch_members import port_keys, portgroups_on, uplinks_of, visible_nics

_Switch = vim.dvs.VmwareDistributedVirtualSwitch
_Portgroup = vim.dvs.DistributedVirtualPortgroup


def network_summary(thing: Network) -> Any:
    """Return a portgroup's summary, which a ConfigTarget repeats."""
    kind: Any = vim.dvs.DistributedVirtualPortgroup if thing.is_distributed else vim.Network
    return vim.Network.Summary(network=kind(thing.moid), name=thing.name, accessible=True, ipPoolName="")


def port_config(context: Context, thing: Network) -> Any:
    """Render the settings of a portgroup's ports; unset ones are those of a new portgroup in the API."""
    if thing.trunk:
        ranges = [vim.NumericRange(start=start, end=end) for start, end in thing.trunk]
        vlan: Any = _Switch.TrunkVlanSpec(inherited=False, vlanId=ranges)
    else:
        vlan = _Switch.VlanIdSpec(inherited=False, vlanId=thing.vlan)
    switch = context.state.get(thing.switch, DistributedSwitch)
    order = _Switch.UplinkPortOrderPolicy(
        inherited=False, activeUplinkPort=list(switch.uplink_names), standbyUplinkPort=[]
    )
    unset = _Switch.VmwarePortConfigPolicy(
        blocked=vim.BoolPolicy(inherited=False, value=False),
        ipfixEnabled=vim.BoolPolicy(inherited=False, value=False),
        uplinkTeamingPolicy=_Switch.UplinkPortTeamingPolicy(
            inherited=False,
            policy=vim.StringPolicy(inherited=False, value="loadbalance_srcid"),
            reversePolicy=vim.BoolPolicy(inherited=False, value=True),
            notifySwitches=vim.BoolPolicy(inherited=False, value=True),
            rollingOrder=vim.BoolPolicy(inherited=False, value=False),
            uplinkPortOrder=order,
        ),
        macManagementPolicy=_Switch.MacManagementPolicy(
            inherited=False,
            allowPromiscuous=False,
            macChanges=False,
            forgedTransmits=False,
            macLearningPolicy=_Switch.MacLearningPolicy(
                enabled=False, allowUnicastFlooding=True, limit=4096, limitPolicy="DROP"
            ),
        ),
    )
    shown = merged(unset, thing.settings)
    shown.vlan = vlan
    shown.uplinkTeamingPolicy.uplinkPortOrder = _order(thing) or order
    return shown


def _order(thing: Network) -> Any:
    teaming = getattr(thing.settings, "uplinkTeamingPolicy", None)
    return getattr(teaming, "uplinkPortOrder", None)


def _portgroup_config(context: Context, thing: Network) -> Any:
    return _Portgroup.ConfigInfo(
        key=thing.moid,
        name=thing.name,
        numPorts=thing.ports,
        distributedVirtualSwitch=reference_to(context, thing.switch),
        defaultPortConfig=port_config(context, thing),
        description=thing.description,
        type=thing.binding,
        backingType="standard",
        policy=_Switch.VMwarePortgroupPolicy(
            blockOverrideAllowed=True,
            shapingOverrideAllowed=False,
            vendorConfigOverrideAllowed=False,
            livePortMovingAllowed=False,
            portConfigResetAtDisconnect=True,
            vlanOverrideAllowed=False,
            uplinkTeamingOverrideAllowed=False,
            securityPolicyOverrideAllowed=False,
            ipfixOverrideAllowed=False,
        ),
        configVersion=str(thing.config_version),
        autoExpand=thing.auto_expand,
        uplink=thing.is_uplink,
    )


NO_NETFLOW = _Switch.IpfixConfig(
    collectorPort=0,
    observationDomainId=0,
    activeFlowTimeout=60,
    idleFlowTimeout=15,
    samplingRate=4096,
    internalFlowsOnly=False,
)
"""NetFlow as a new switch has it; nothing is sent to a collector, and none can be set."""


def switch_product() -> Any:
    """Return the version of all distributed switches of the lab."""
    return vim.dvs.ProductSpec(name="DVS", vendor="VMware, Inc.", version="7.0.3", build="18644231")


def _distributed_portgroups(context: Context, thing: DistributedSwitch) -> list[Any]:
    return referred(context, thing.portgroups)


def _vms(context: Context, thing: DistributedSwitch) -> list[Any]:
    moids: dict[str, None] = {}
    for moid in thing.portgroups:
        moids.update(context.state.get(moid, Network).vms)
    return referred(context, moids)


def pnic_backing(switch: DistributedSwitch, host_moid: str) -> Any:
    """Return which NICs of a member are uplinks of a switch, each at its port."""
    return vim.dvs.HostMember.PnicBacking(
        pnicSpec=[
            vim.dvs.HostMember.PnicSpec(
                pnicDevice=device, uplinkPortKey=key, uplinkPortgroupKey=switch.uplink_portgroup
            )
            for device, key in switch.uplinks.get(host_moid, {}).items()
        ]
    )


def _ports(context: Context, switch: DistributedSwitch) -> int:
    portgroups = (context.state.get(moid, Network) for moid in switch.portgroups)
    of_portgroups = sum(portgroup.ports for portgroup in portgroups if not portgroup.is_uplink)
    return of_portgroups + len(switch.uplink_names) * len(switch.hosts)


def _member(context: Context, switch: DistributedSwitch, moid: str) -> Any:
    return vim.dvs.HostMember(
        config=vim.dvs.HostMember.ConfigInfo(
            host=reference_to(context, moid),
            maxProxySwitchPorts=2560,
            backing=pnic_backing(switch, moid),
        ),
        productInfo=switch_product(),
        status="up",
        statusDetail="",
        uplinkPortKey=list(port_keys(switch, moid)),
    )


def _switch_config(context: Context, thing: DistributedSwitch) -> Any:
    return _Switch.ConfigInfo(
        uuid=thing.uuid,
        name=thing.name,
        numStandalonePorts=0,
        numPorts=_ports(context, thing),
        maxPorts=60000,
        uplinkPortPolicy=vim.DistributedVirtualSwitch.NameArrayUplinkPortPolicy(
            uplinkPortName=list(thing.uplink_names)
        ),
        uplinkPortgroup=referred(context, [thing.uplink_portgroup]),
        defaultPortConfig=_Switch.VmwarePortConfigPolicy(),
        host=[_member(context, thing, moid) for moid in thing.hosts],
        productInfo=switch_product(),
        configVersion=str(thing.config_version),
        contact=vim.DistributedVirtualSwitch.ContactInfo(),
        healthCheckConfig=[],
        ipfixConfig=NO_NETFLOW,
        multicastFilteringMode="legacyFiltering",
        createTime=as_datetime(VIRTUAL_START),
        networkResourceManagementEnabled=True,
        maxMtu=thing.mtu,
        linkDiscoveryProtocolConfig=vim.host.LinkDiscoveryProtocolConfig(
            protocol=thing.discovery[0], operation=thing.discovery[1]
        ),
    )


def _switch_summary(context: Context, thing: DistributedSwitch) -> Any:
    names = [context.state.get(moid, Network).name for moid in thing.portgroups]
    return vim.DistributedVirtualSwitch.Summary(
        name=thing.name,
        uuid=thing.uuid,
        numPorts=_ports(context, thing),
        productInfo=switch_product(),
        hostMember=referred(context, thing.hosts),
        vm=_vms(context, thing),
        host=referred(context, thing.hosts),
        portgroupName=names,
        numHosts=len(thing.hosts),
    )


def _port_keys(context: Context, thing: Network) -> list[str]:
    """Render the ports of uplinks; the others are only in FetchDVPorts."""
    if not thing.is_uplink:
        return []
    switch = context.state.get(thing.switch, DistributedSwitch)
    return [key for moid in switch.hosts for key in port_keys(switch, moid)]


def _vms_on(context: Context, thing: Network) -> list[Any]:
    vms = [context.state.get(moid, VirtualMachine) for moid in thing.vms]
    is_short = context.state.denies("network-lists-stopped-vms")
    return referred(context, [vm.moid for vm in vms if vm.is_on or not is_short])


NETWORK: dict[str, Render] = {
    **ENTITY,
    "summary": attribute(network_summary),
    "host": lambda context, thing: referred(context, thing.hosts),
    "vm": _vms_on,
}

DISTRIBUTED_PORTGROUP: dict[str, Render] = {
    **NETWORK,
    "key": attribute(lambda thing: thing.moid),
    "config": _portgroup_config,
    "portKeys": _port_keys,
}

DISTRIBUTED_SWITCH: dict[str, Render] = {
    **ENTITY,
    "uuid": attribute(lambda thing: thing.uuid),
    "capability": constant(
        vim.DistributedVirtualSwitch.Capability(
            dvsOperationSupported=True, dvPortGroupOperationSupported=True, dvPortOperationSupported=True
        )
    ),
    "summary": _switch_summary,
    "config": _switch_config,
    "networkResourcePool": constant([]),
    "portgroup": _distributed_portgroups,
    "runtime": lambda _context, _thing: vim.DistributedVirtualSwitch.RuntimeInfo(hostMemberRuntime=[]),
}


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
