"""What the properties of hosts, clusters and switches say, and when they say nothing to rely on."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import pytest
from pyVmomi import VmomiSupport, vim

from vgpu_cfg.model.observed.host_facts import (
    ClusterFacts,
    DistributedSwitch,
    HostAttribute,
    HostFacts,
    HostMark,
    HostSwitch,
    ServiceFact,
    Vmknic,
)
from vgpu_cfg.vsphere.host_facts.reader import (
    Networks,
    attributes_by_key,
    base_facts,
    base_unread,
    cluster_facts,
    option_text,
    silence,
)
from vgpu_cfg.vsphere.wire.collector import Item
from vgpu_cfg.vsphere.wire.leaves import plain as plain_value

NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
MARK = HostMark(plan="train", since=NOON, maintenance=True, waiting={"ats": NOON})
FIELDS = Item(
    "CustomFieldsManager",
    "CustomFieldsManager",
    {
        "field": [
            vim.CustomFieldsManager.FieldDef(key=101, name="vgpu_cfg.host", type=str),
            vim.CustomFieldsManager.FieldDef(key=102, name="vgpu_cfg.done", type=str),
            vim.CustomFieldsManager.FieldDef(key=103, name="vgpu_cfg.vmnics", type=str),
            vim.CustomFieldsManager.FieldDef(key=104, name="owner", type=str),
        ]
    },
)
_Switch = vim.dvs.VmwareDistributedVirtualSwitch


def kept(key: int, text: str) -> Any:
    return vim.CustomFieldsManager.StringValue(key=key, value=text)


def vmknic(device: str, standard: str = "", key: str | None = None, **spec: Any) -> Any:
    port = None if key is None else vim.dvs.PortConnection(switchUuid="50 1e", portgroupKey=key)
    return vim.host.VirtualNic(
        device=device,
        key=f"key-vim.host.VirtualNic-{device}",
        portgroup=standard,
        spec=vim.host.VirtualNic.Specification(distributedVirtualPort=port, **spec),
    )


def ip(address: str | None = None, mask: str | None = None, *, dhcp: bool = False) -> Any:
    return vim.host.IpConfig(dhcp=dhcp, ipAddress=address, subnetMask=mask)


def pnic(device: str) -> Any:
    return vim.host.PhysicalNic(key=f"key-vim.host.PhysicalNic-{device}", device=device, pci="0000:01:00.0")


def host(**values: Any) -> Item:
    """A connected host that tells all it must."""
    told = {
        "runtime.connectionState": "connected",
        "config.service.service": [],
        "config.firewall.ruleset": [],
        "config.network.vnic": [],
    }
    return Item(
        "HostSystem", "host-1", {**told, **{name.replace("__", "."): value for name, value in values.items()}}
    )


def facts(item: Item, networks: Networks | None = None) -> HostFacts:
    return HostFacts(**base_facts(item, networks or Networks([]), attributes_by_key(FIELDS)))


def test_a_host_that_tells_nothing_has_empty_facts() -> None:
    assert facts(Item("HostSystem", "host-1", {})) == HostFacts()


def test_single_values_are_taken_over() -> None:
    found = facts(
        host(
            runtime__bootTime=NOON,
            summary__rebootRequired=True,
            config__lockdownMode="lockdownNormal",
            capability__deviceRebindWithoutRebootSupported=True,
        )
    )
    assert found.boot_time == NOON
    assert type(found.boot_time) is datetime
    assert (found.reboot_required, found.lockdown, found.rebind_without_reboot) == (
        True,
        "lockdownNormal",
        True,
    )


def test_services_and_rules_stand_by_their_keys() -> None:
    service = vim.host.Service(
        key="TSM-SSH", label="SSH", required=False, uninstallable=False, running=True, policy="off"
    )
    ruleset = vim.host.Ruleset(key="pvrdma", label="pvrdma", required=False, enabled=False)
    found = facts(host(config__service__service=[service], config__firewall__ruleset=[ruleset]))
    assert found.services == {"TSM-SSH": ServiceFact(running=True, policy="off")}
    assert found.rulesets == {"pvrdma": False}


NETWORKS = Networks(
    [
        Item("Network", "network-1", {"name": "Management Network"}),
        Item("Network", "network-2", {"name": "Management Network"}),
        Item(
            "DistributedVirtualPortgroup", "dvportgroup-5", {"name": "roce%2f111", "key": "dvportgroup-key"}
        ),
    ]
)


def test_a_vmknic_knows_its_network_address_and_uses() -> None:
    item = host(
        network=[vim.Network("network-2"), vim.Network("network-9")],
        config__network__vnic=[
            vmknic("vmk0", "Management Network", ip=ip("10.0.0.7", "255.255.0.0"), mtu=1500),
            vmknic("vmk1", key="dvportgroup-key", ip=ip(dhcp=True), mtu=9000),
            vmknic("vmk2", key="unknown", ip=ip("fe80::1")),
            vmknic("vmk3", "elsewhere"),
        ],
        config__virtualNicManagerInfo__netConfig=[
            net_config("vmotion", "vmk0", "vmk1"),
            net_config("management", "vmk0"),
            net_config("vsan"),
        ],
    )
    assert facts(item, NETWORKS).vmknics == (
        Vmknic(
            device="vmk0",
            network="Management Network",
            network_moid="network-2",
            address="10.0.0.7/16",
            services=("vmotion", "management"),
        ),
        Vmknic(
            device="vmk1",
            network="roce/111",
            network_moid="dvportgroup-5",
            is_dhcp=True,
            mtu=9000,
            services=("vmotion",),
        ),
        Vmknic(device="vmk2", address="fe80::1"),
        Vmknic(device="vmk3", network="elsewhere"),
    )


def net_config(kind: str, *selected: str) -> Any:
    candidates = [
        vim.host.VirtualNic(
            device=device, key=f"{kind}.{device}", portgroup="", spec=vim.host.VirtualNic.Specification()
        )
        for device in ("vmk0", "vmk1")
    ]
    return vim.host.VirtualNicManager.NetConfig(
        nicType=kind,
        multiSelectAllowed=True,
        candidateVnic=candidates,
        selectedVnic=[f"{kind}.{device}" for device in selected],
    )


def test_switches_name_their_uplinks() -> None:
    item = host(
        config__network__pnic=[pnic("vmnic0"), pnic("vmnic4")],
        config__network__vswitch=[
            vim.host.VirtualSwitch(
                name="vSwitch0",
                key="key-vim.host.VirtualSwitch-vSwitch0",
                numPorts=128,
                numPortsAvailable=100,
                mtu=1500,
                pnic=["key-vim.host.PhysicalNic-vmnic0"],
                spec=vim.host.VirtualSwitch.Specification(numPorts=128),
            )
        ],
        config__network__proxySwitch=[
            vim.host.HostProxySwitch(
                dvsUuid="50 1e",
                dvsName="dvs%2froce",
                key="DvsPortset-0",
                numPorts=1,
                numPortsAvailable=1,
                mtu=0,
                pnic=["key-vim.host.PhysicalNic-vmnic4", "key-vim.host.PhysicalNic-vmnic9"],
                spec=vim.host.HostProxySwitch.Specification(),
            )
        ],
    )
    found = facts(item)
    assert found.switches == (
        HostSwitch(name="vSwitch0", mtu=1500, uplinks=("vmnic0",)),
        HostSwitch(name="dvs/roce", uplinks=("vmnic4", "vmnic9"), switch_uuid="50 1e"),
    )
    assert found.uplink_of("vmnic4") == "dvs/roce"


def test_what_this_tool_keeps_on_a_host_is_read_back() -> None:
    item = host(
        customValue=[
            kept(101, MARK.text),
            kept(102, '{"step": "abc"}'),
            kept(103, '{"0000:3b:00.0": "vmnic4"}'),
            kept(104, "someone"),
        ]
    )
    found = facts(item)
    assert found.mark == MARK
    assert found.done == {"step": "abc"}
    assert found.vmnics == {"0000:3b:00.0": "vmnic4"}


@pytest.mark.parametrize("text", ["", "{", "[]", '{"a": 1}'])
def test_what_somebody_edited_is_none(text: str) -> None:
    found = facts(host(customValue=[kept(101, text), kept(102, text)]))
    assert (found.mark, found.done) == (None, {})


def test_only_this_tools_attributes_are_looked_at() -> None:
    assert attributes_by_key(FIELDS) == {
        101: HostAttribute.MARK,
        102: HostAttribute.DONE,
        103: HostAttribute.VMNICS,
    }
    assert attributes_by_key(None) == {}
    assert attributes_by_key(Item("CustomFieldsManager", "x", {})) == {}


def test_a_connected_host_that_tells_all_can_be_relied_on() -> None:
    assert base_unread(host(), FIELDS) == ""
    assert base_unread(host(), Item("CustomFieldsManager", "x", {})) == ""


LACKING = vim.fault.NoPermission(object=vim.HostSystem("host-1"), privilegeId="System.Read")


def without(path: str, faults: Mapping[str, Any]) -> Item:
    item = host()
    return Item(item.type_name, item.moid, {k: v for k, v in item.values.items() if k != path}, faults)


@pytest.mark.parametrize(
    ("item", "fields", "says"),
    [
        (
            host(runtime__connectionState="notResponding"),
            FIELDS,
            "the host is not responding: vCenter reports only",
        ),
        (host(runtime__connectionState="disconnected"), FIELDS, "the host is disconnected from vCenter"),
        (host(), None, "does not report its custom attributes"),
        (
            host(),
            Item("CustomFieldsManager", "x", {}, {"field": LACKING}),
            "custom attributes: .* System.Read",
        ),
        (
            without("", {"customValue": LACKING}),
            FIELDS,
            "custom attributes: the account does not have System.Read",
        ),
        (without("config.service.service", {}), FIELDS, "does not report the host's services$"),
        (without("config.firewall.ruleset", {}), FIELDS, "does not report the host's firewall rules$"),
        (
            without("config.network.vnic", {"config.network.vnic": LACKING}),
            FIELDS,
            "VMkernel NICs: the account does not have System.Read",
        ),
    ],
)
def test_what_cannot_be_relied_on_says_why(item: Item, fields: Item | None, says: str) -> None:
    assert re.search(says, base_unread(item, fields))


def test_a_host_whose_state_is_not_told_is_not_asked() -> None:
    assert silence(Item("HostSystem", "host-1", {})) == "the host is not responding"
    assert silence(host()) == ""


def cluster(*options: Any) -> Any:
    return vim.cluster.ConfigInfoEx(
        dasConfig=vim.cluster.DasConfigInfo(), drsConfig=vim.cluster.DrsConfigInfo(option=list(options))
    )


def test_a_clusters_options_and_owners() -> None:
    option = vim.option.OptionValue(key="VgpuMMAutomationTimeoutSecs", value="-1")
    values = {"configurationEx": cluster(option), "lifecycleManaged": True, "configManagerEnabled": False}
    assert cluster_facts(Item("ClusterComputeResource", "domain-c1", values)) == ClusterFacts(
        drs_options={"VgpuMMAutomationTimeoutSecs": "-1"}, image_managed=True, config_managed=False
    )


def test_an_old_server_leaves_open_who_owns_a_cluster() -> None:
    assert cluster_facts(Item("ComputeResource", "domain-s1", {})) == ClusterFacts()


@pytest.mark.parametrize(
    ("value", "text", "plain"),
    [(True, "true", True), (False, "false", False), (-1, "-1", -1), ("vmk1", "vmk1", "vmk1")],
)
def test_option_values_are_plain(value: Any, text: str, plain: Any) -> None:
    assert option_text(value) == text
    assert plain_value(value) == plain
    assert type(plain_value(value)) is type(plain)


def test_a_long_option_is_a_plain_number() -> None:
    found = plain_value(VmomiSupport.vmodlTypes["long"](7))
    assert found == 7
    assert type(found) is int


def port_settings(vlan: Any) -> Any:
    return _Switch.VmwarePortConfigPolicy(vlan=vlan)


def portgroup(moid: str, vlan: Any, **more: Any) -> Item:
    return Item(
        "DistributedVirtualPortgroup",
        moid,
        {"name": moid, "key": moid, "config.defaultPortConfig": port_settings(vlan), **more},
    )


def test_a_distributed_switch_has_its_members_and_vlans() -> None:
    trunk = _Switch.TrunkVlanSpec(inherited=False, vlanId=[vim.NumericRange(start=0, end=4094)])
    private = _Switch.PvlanSpec(inherited=False, pvlanId=7)
    config = _Switch.ConfigInfo(
        maxMtu=9000,
        host=[
            member("host-1", vim.dvs.HostMember.PnicBacking(pnicSpec=[uplink("vmnic4"), uplink("vmnic5")])),
            member("host-2", vim.dvs.HostMember.PnicBacking()),
        ],
    )
    switch = Item(
        "VmwareDistributedVirtualSwitch",
        "dvs-1",
        {
            "name": "dvs-roce",
            "uuid": "50 1e",
            "config": config,
            "portgroup": [vim.Network(moid) for moid in ("dvportgroup-1", "dvportgroup-2", "dvportgroup-3")],
        },
    )
    other = portgroup("dvportgroup-9", _Switch.VlanIdSpec(inherited=False, vlanId=4))
    groups = [
        portgroup("dvportgroup-1", _Switch.VlanIdSpec(inherited=False, vlanId=111)),
        portgroup("dvportgroup-2", trunk),
        portgroup("dvportgroup-3", private),
    ]
    assert Networks([switch, *groups, other]).switches == (
        DistributedSwitch(
            moid="dvs-1",
            name="dvs-roce",
            uuid="50 1e",
            mtu=9000,
            members={"host-1": ("vmnic4", "vmnic5"), "host-2": ()},
            portgroup_vlans={"dvportgroup-1": 111, "dvportgroup-2": None, "dvportgroup-3": None},
        ),
    )


def member(host_moid: str, backing: Any) -> Any:
    config = vim.dvs.HostMember.ConfigInfo(
        host=vim.HostSystem(host_moid), maxProxySwitchPorts=1, backing=backing
    )
    return vim.dvs.HostMember(config=config, status="up")


def uplink(device: str) -> Any:
    return vim.dvs.HostMember.PnicSpec(pnicDevice=device)


def test_an_opaque_switch_has_its_nics_and_its_tunnel_endpoints() -> None:
    named = vim.host.OpaqueSwitch(
        key="50 2f",
        name="nsx-overlay",
        pnic=["key-vim.host.PhysicalNic-vmnic4"],
        vtep=[vmknic("vmk10", ip=ip("172.16.0.7", "255.255.255.0"), mtu=1700), vmknic("vmk0")],
    )
    bare = vim.host.OpaqueSwitch(key="50 3a")
    item = host(
        config__network__pnic=[pnic("vmnic4")],
        config__network__vnic=[vmknic("vmk0", "Management Network")],
        config__network__opaqueSwitch=[named, bare],
    )
    found = facts(item)
    assert found.switches == (HostSwitch(name="nsx-overlay", uplinks=("vmnic4",)), HostSwitch(name="50 3a"))
    assert found.uplink_of("vmnic4") == "nsx-overlay"
    assert found.uplink_of("vmnic5") is None
    assert found.vmknics == (
        Vmknic(device="vmk0", network="Management Network"),
        Vmknic(device="vmk10", address="172.16.0.7/24", mtu=1700),
    )


@pytest.mark.parametrize("has_levels", [None, True, False])
def test_what_drs_does_with_single_vms_is_told(has_levels: bool | None) -> None:
    overrides = [
        vim.cluster.DrsVmConfigInfo(key=vim.VirtualMachine("vm-1"), enabled=False, behavior="fullyAutomated"),
        vim.cluster.DrsVmConfigInfo(key=vim.VirtualMachine("vm-2"), enabled=True, behavior="manual"),
        vim.cluster.DrsVmConfigInfo(key=vim.VirtualMachine("vm-3"), behavior="partiallyAutomated"),
        vim.cluster.DrsVmConfigInfo(key=vim.VirtualMachine("vm-4"), enabled=True),
    ]
    configuration = vim.cluster.ConfigInfoEx(
        dasConfig=vim.cluster.DasConfigInfo(),
        drsConfig=vim.cluster.DrsConfigInfo(enableVmBehaviorOverrides=has_levels),
        drsVmConfig=overrides,
    )
    found = cluster_facts(Item("ClusterComputeResource", "domain-c1", {"configurationEx": configuration}))
    levels = {} if has_levels is False else {"vm-2": "manual", "vm-3": "partiallyAutomated"}
    assert found.drs_overrides == {"vm-1": "disabled", **levels}
    bare = Item("ComputeResource", "domain-s1", {"configurationEx": vim.ComputeResource.ConfigInfo()})
    assert cluster_facts(bare).drs_overrides == {}
