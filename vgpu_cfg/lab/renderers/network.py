"""How portgroups, standard and distributed, and distributed switches show."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.renderers.entity import ENTITY, attribute, constant
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.soap.context import Context, reference_to, referred
from vgpu_cfg.lab.state import DistributedSwitch, Network

PORTS = 128
"""Ports of a distributed portgroup; it expands by itself, so nobody runs out."""

_Switch = vim.dvs.VmwareDistributedVirtualSwitch
_Portgroup = vim.dvs.DistributedVirtualPortgroup


def network_summary(thing: Network) -> Any:
    """Return a portgroup's summary, which a ConfigTarget repeats."""
    kind: Any = vim.dvs.DistributedVirtualPortgroup if thing.is_distributed else vim.Network
    return vim.Network.Summary(network=kind(thing.moid), name=thing.name, accessible=True, ipPoolName="")


def _port_config(thing: Network) -> Any:
    if thing.is_uplink:
        vlan: Any = _Switch.TrunkVlanSpec(inherited=False, vlanId=[vim.NumericRange(start=0, end=4094)])
    else:
        vlan = _Switch.VlanIdSpec(inherited=False, vlanId=thing.vlan)
    return _Switch.VmwarePortConfigPolicy(vlan=vlan, blocked=vim.BoolPolicy(inherited=False, value=False))


def _portgroup_config(context: Context, thing: Network) -> Any:
    return _Portgroup.ConfigInfo(
        key=thing.moid,
        name=thing.name,
        numPorts=PORTS,
        distributedVirtualSwitch=reference_to(context, thing.switch),
        defaultPortConfig=_port_config(thing),
        description="",
        type="earlyBinding",
        backingType="standard",
        policy=_Portgroup.PortgroupPolicy(
            blockOverrideAllowed=True, livePortMovingAllowed=False, portConfigResetAtDisconnect=True
        ),
        configVersion="0",
        autoExpand=True,
        uplink=thing.is_uplink,
    )


def _product() -> Any:
    return vim.dvs.ProductSpec(name="DVS", vendor="VMware, Inc.", version="7.0.3", build="18644231")


def _portgroups(context: Context, thing: DistributedSwitch) -> list[Any]:
    return referred(context, thing.portgroups)


def _vms(context: Context, thing: DistributedSwitch) -> list[Any]:
    moids: dict[str, None] = {}
    for moid in thing.portgroups:
        moids.update(context.state.get(moid, Network).vms)
    return referred(context, moids)


def _switch_config(context: Context, thing: DistributedSwitch) -> Any:
    return _Switch.ConfigInfo(
        uuid=thing.uuid,
        name=thing.name,
        numStandalonePorts=0,
        numPorts=PORTS * len(thing.portgroups),
        maxPorts=60000,
        uplinkPortPolicy=vim.DistributedVirtualSwitch.NameArrayUplinkPortPolicy(uplinkPortName=["Uplink 1"]),
        uplinkPortgroup=referred(context, [thing.uplink_portgroup]),
        defaultPortConfig=_Switch.VmwarePortConfigPolicy(),
        host=[
            vim.dvs.HostMember(
                config=vim.dvs.HostMember.ConfigInfo(
                    host=host, maxProxySwitchPorts=2560, backing=vim.dvs.HostMember.PnicBacking()
                ),
                productInfo=_product(),
                status="up",
                statusDetail="",
                uplinkPortKey=[],
            )
            for host in referred(context, thing.hosts)
        ],
        productInfo=_product(),
        configVersion="1",
        contact=vim.DistributedVirtualSwitch.ContactInfo(),
        createTime=as_datetime(VIRTUAL_START),
        networkResourceManagementEnabled=True,
        maxMtu=thing.mtu,
    )


def _switch_summary(context: Context, thing: DistributedSwitch) -> Any:
    names = [context.state.get(moid, Network).name for moid in thing.portgroups]
    return vim.DistributedVirtualSwitch.Summary(
        name=thing.name,
        uuid=thing.uuid,
        numPorts=PORTS * len(thing.portgroups),
        productInfo=_product(),
        hostMember=referred(context, thing.hosts),
        vm=_vms(context, thing),
        host=referred(context, thing.hosts),
        portgroupName=names,
        numHosts=len(thing.hosts),
    )


NETWORK: dict[str, Render] = {
    **ENTITY,
    "summary": attribute(network_summary),
    "host": lambda context, thing: referred(context, thing.hosts),
    "vm": lambda context, thing: referred(context, thing.vms),
}

DISTRIBUTED_PORTGROUP: dict[str, Render] = {
    **NETWORK,
    "key": attribute(lambda thing: thing.moid),
    "config": _portgroup_config,
    "portKeys": constant([]),
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
