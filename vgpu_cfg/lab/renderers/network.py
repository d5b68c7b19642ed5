"""Rendering of portgroups, standard and distributed, and distributed switches."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.entity import ENTITY, attribute, constant
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.context import Context, reference_to, referred
from vgpu_cfg.lab.state.devices import merged
from vgpu_cfg.lab.state.inventory import DistributedSwitch, Network, VirtualMachine
from vgpu_cfg.lab.state.switch_members import port_keys

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


def _portgroups(context: Context, thing: DistributedSwitch) -> list[Any]:
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
    "portgroup": _portgroups,
    "runtime": lambda _context, _thing: vim.DistributedVirtualSwitch.RuntimeInfo(hostMemberRuntime=[]),
}
