"""VMkernel NICs, switches and portgroups: what is sent, what goes along with it, and how many round trips."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.vsphere.scripted import item, no_method, reading, session_on, typed
from vgpu_cfg.changes.change import ChangeNetwork
from vgpu_cfg.changes.kinds.change_host import SwitchWrite, VmknicWrite
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.errors import NotFound, NotOffered, NotPermitted, StalePlan, VCenterError
from vgpu_cfg.vsphere.writing.host_writer import VCenterHostWriter
from vgpu_cfg.vsphere.writing.network_writer import changed_switch, changed_vmknic, ip_config, member_specs

HOST = vim.HostSystem("host-1")
TASK = vim.Task("task-7")
SYSTEM = vim.host.NetworkSystem("networkSystem-1")
PORTGROUP = vim.dvs.DistributedVirtualPortgroup("dvportgroup-2")
DATACENTER = vim.Datacenter("datacenter-2")
DVS = vim.DistributedVirtualSwitch("dvs-3")


def nic_spec(*, dhcp: bool = False, mtu: int = 1500) -> Any:
    return vim.host.VirtualNic.Specification(
        ip=vim.host.IpConfig(dhcp=dhcp, ipAddress="10.0.0.5", subnetMask="255.255.255.0"),
        mac="00:50:56:00:00:01",
        portgroup="roce",
        distributedVirtualPort=vim.dvs.PortConnection(switchUuid="50", portgroupKey="dvportgroup-2"),
        mtu=mtu,
        tsoEnabled=False,
        netStackInstanceKey="defaultTcpipStack",
    )


def switch_spec(*uplinks: str, active: tuple[str, ...] | None = None, standby: tuple[str, ...] = ()) -> Any:
    active = tuple(nic for nic in uplinks if nic not in standby) if active is None else active
    order = vim.host.NetworkPolicy.NicOrderPolicy(activeNic=list(active), standbyNic=list(standby))
    spec = vim.host.VirtualSwitch.Specification(
        numPorts=128,
        mtu=1500,
        policy=vim.host.NetworkPolicy(nicTeaming=vim.host.NetworkPolicy.NicTeamingPolicy(nicOrder=order)),
    )
    if uplinks:
        spec.bridge = vim.host.VirtualSwitch.BondBridge(
            nicDevice=list(uplinks), beacon=vim.host.VirtualSwitch.BeaconConfig(interval=1)
        )
    return spec


def host(**more: Any) -> Any:
    known = {
        "name": "esx-01",
        "config.product.apiVersion": "8.0.3.0",
        "configManager.networkSystem": SYSTEM,
        "config.network.vnic": typed(
            "vim.host.VirtualNic",
            vim.host.VirtualNic(device="vmk0", key="k0", portgroup="m", spec=nic_spec()),
            vim.host.VirtualNic(device="vmk1", key="k1", portgroup="roce", spec=nic_spec()),
        ),
        "config.network.vswitch": typed(
            "vim.host.VirtualSwitch",
            vim.host.VirtualSwitch(
                name="vSwitch0", key="s", numPorts=1, numPortsAvailable=1, spec=switch_spec("vmnic0")
            ),
        ),
    }
    return item(HOST, known | more)


PORTGROUP_READ = item(
    PORTGROUP,
    {
        "key": "dvportgroup-2",
        "config.configVersion": "4",
        "config.distributedVirtualSwitch": vim.dvs.VmwareDistributedVirtualSwitch("dvs-3"),
    },
)
SWITCH_READ = item(DVS, {"uuid": "50 1e"})


def write(session: Any, wanted: Any) -> int:
    before: int = session.round_trips
    VCenterHostWriter(session).write_host("host-1", wanted, {})
    return int(session.round_trips - before)


def test_a_vmknic_is_made_on_a_standard_portgroup_by_its_name() -> None:
    wanted = VmknicWrite(network_moid="network-4", network_name="roce", address="10.0.0.5/22", mtu=9000)
    with session_on({"RetrievePropertiesEx": reading(host()), "AddVirtualNic": "vmk2"}) as (session, vcenter):
        assert write(session, wanted) == 2
        body = vcenter.sent("AddVirtualNic")
    assert "<portgroup>roce</portgroup>" in body
    assert "<dhcp>false</dhcp><ipAddress>10.0.0.5</ipAddress><subnetMask>255.255.252.0</subnetMask>" in body
    assert "<mtu>9000<" in body
    assert "distributedVirtualPort" not in body


def test_a_vmknic_is_made_on_a_distributed_portgroup_by_key_and_switch() -> None:
    wanted = VmknicWrite(network_moid="dvportgroup-2", network_name="roce")
    answers = {
        "RetrievePropertiesEx": [reading(host(), PORTGROUP_READ), reading(SWITCH_READ)],
        "AddVirtualNic": "vmk2",
    }
    with session_on(answers) as (session, vcenter):
        assert write(session, wanted) == 3
        body = vcenter.sent("AddVirtualNic")
    assert "<portgroup></portgroup>" in body
    assert "<switchUuid>50 1e</switchUuid><portgroupKey>dvportgroup-2</portgroupKey>" in body
    assert "<dhcp>true<" in body
    assert "<mtu>" not in body


def test_a_portgroup_that_has_gone_is_said_so() -> None:
    wanted = VmknicWrite(network_moid="dvportgroup-2", network_name="roce")
    with (
        session_on({"RetrievePropertiesEx": reading(host())}) as (session, _),
        pytest.raises(NotFound) as caught,
    ):
        write(session, wanted)
    assert caught.value.subject == "roce"


def test_a_vmknic_changes_its_mtu_and_keeps_its_address() -> None:
    wanted = VmknicWrite(device="vmk1", mtu=9000)
    with session_on({"RetrievePropertiesEx": reading(host()), "UpdateVirtualNic": None}) as (
        session,
        vcenter,
    ):
        assert write(session, wanted) == 2
        body = vcenter.sent("UpdateVirtualNic")
    assert "<device>vmk1<" in body
    assert "<ipAddress>10.0.0.5<" in body
    assert "<mtu>9000<" in body
    assert "<tsoEnabled>false<" in body
    assert "portgroup" not in body
    assert "distributedVirtualPort" not in body


def test_a_vmknic_changes_its_address_and_keeps_its_mtu() -> None:
    spec = changed_vmknic(nic_spec(mtu=9000), VmknicWrite(device="vmk1", address="10.1.0.5/16"))
    assert (spec.ip.ipAddress, spec.ip.subnetMask, spec.mtu) == ("10.1.0.5", "255.255.0.0", 9000)
    assert changed_vmknic(nic_spec(), VmknicWrite(device="vmk1", address="dhcp")).ip.dhcp is True


def test_an_address_that_dhcp_gave_is_not_sent_back() -> None:
    spec = changed_vmknic(nic_spec(dhcp=True), VmknicWrite(device="vmk1", mtu=9000))
    assert (spec.ip.dhcp, spec.ip.ipAddress) == (True, None)
    bare = changed_vmknic(vim.host.VirtualNic.Specification(), VmknicWrite(device="vmk1", mtu=9000))
    assert bare.ip is None


def test_a_vmknic_or_switch_that_is_not_there_is_an_error() -> None:
    with session_on({"RetrievePropertiesEx": reading(host())}) as (session, _):
        with pytest.raises(NotFound, match="vmk7"):
            write(session, VmknicWrite(device="vmk7", mtu=9000))
        with pytest.raises(NotFound, match="vSwitch7"):
            write(session, SwitchWrite(switch="vSwitch7", mtu=9000))


@pytest.mark.parametrize("address", ["10.0.0.5/33", "fd00::5/64", "ten"])
def test_only_an_ipv4_address_is_written(address: str) -> None:
    with pytest.raises(VCenterError, match="IPv4"):
        ip_config(address)


def test_a_switch_changes_its_mtu_and_keeps_its_uplinks() -> None:
    answers = {"RetrievePropertiesEx": reading(host()), "UpdateVirtualSwitch": None}
    with session_on(answers) as (session, vcenter):
        assert write(session, SwitchWrite(switch="vSwitch0", mtu=9000)) == 2
        body = vcenter.sent("UpdateVirtualSwitch")
    assert "<vswitchName>vSwitch0<" in body
    assert "<numPorts>128<" in body
    assert "<mtu>9000<" in body
    assert "<nicDevice>vmnic0<" in body
    assert "<interval>1<" in body
    assert "<activeNic>vmnic0<" in body


def test_uplinks_that_go_leave_the_teaming_order_and_new_ones_are_active() -> None:
    spec = switch_spec("vmnic0", "vmnic1", "vmnic2", standby=("vmnic1", "vmnic2"))
    changed = changed_switch(spec, SwitchWrite(switch="s", uplinks=("vmnic1", "vmnic3")))
    assert list(changed.bridge.nicDevice) == ["vmnic1", "vmnic3"]
    assert changed.bridge.beacon.interval == 1
    assert list(changed.policy.nicTeaming.nicOrder.activeNic) == ["vmnic3"]
    assert list(changed.policy.nicTeaming.nicOrder.standbyNic) == ["vmnic1"]
    assert changed.mtu == 1500


@pytest.mark.parametrize(
    ("wanted", "active"),
    [
        (("vmnic0", "vmnic1", "vmnic2", "vmnic4"), ["vmnic2", "vmnic0", "vmnic4"]),
        (("vmnic0", "vmnic1", "vmnic2"), ["vmnic2", "vmnic0"]),
        (("vmnic0", "vmnic1"), ["vmnic0"]),
    ],
)
def test_active_uplinks_keep_their_order_and_an_unused_one_stays_unused(
    wanted: tuple[str, ...], active: list[str]
) -> None:
    spec = switch_spec(
        "vmnic0", "vmnic1", "vmnic2", "vmnic3", active=("vmnic2", "vmnic0"), standby=("vmnic3",)
    )
    changed = changed_switch(spec, SwitchWrite(switch="s", uplinks=wanted))
    assert list(changed.policy.nicTeaming.nicOrder.activeNic) == active
    assert list(changed.policy.nicTeaming.nicOrder.standbyNic) == []


@pytest.mark.parametrize("before", [("vmnic0",), ("vmnic7", "vmnic8")])
def test_uplinks_are_replaced_only_where_they_are_what_they_were_or_shall_be(before: tuple[str, ...]) -> None:
    answers = {"RetrievePropertiesEx": reading(host()), "UpdateVirtualSwitch": None}
    wanted = SwitchWrite(switch="vSwitch0", uplinks=("vmnic0", "vmnic2"), before=before)
    with session_on(answers) as (session, vcenter):
        if before == ("vmnic0",):
            assert write(session, wanted) == 2
            return
        with pytest.raises(StalePlan, match="are now vmnic0, but were vmnic7, vmnic8 when planned"):
            write(session, wanted)
        assert "UpdateVirtualSwitch" not in vcenter.methods
        there = wanted.model_copy(update={"uplinks": ("vmnic0",)})
        assert write(session, there) == 2


def test_a_switch_gets_its_first_uplink_and_loses_its_last() -> None:
    first = changed_switch(switch_spec(), SwitchWrite(switch="s", uplinks=("vmnic0",)))
    assert list(first.bridge.nicDevice) == ["vmnic0"]
    last = changed_switch(switch_spec("vmnic0"), SwitchWrite(switch="s", uplinks=()))
    assert last.bridge is None
    assert list(last.policy.nicTeaming.nicOrder.activeNic) == []


@pytest.mark.parametrize(
    ("wanted", "method"),
    [
        (VmknicWrite(network_moid="network-4", network_name="roce"), "AddVirtualNic"),
        (VmknicWrite(device="vmk1", mtu=9000), "UpdateVirtualNic"),
        (SwitchWrite(switch="vSwitch0", mtu=9000), "UpdateVirtualSwitch"),
    ],
)
def test_refusals_of_the_hosts_network(wanted: Any, method: str) -> None:
    with (
        session_on({"RetrievePropertiesEx": reading(host()), method: no_method(method)}) as (session, _),
        pytest.raises(NotOffered),
    ):
        write(session, wanted)
    lacks = vim.fault.NoPermission(object=HOST, privilegeId="Host.Config.Network")
    with (
        session_on({"RetrievePropertiesEx": reading(host()), method: lacks}) as (session, _),
        pytest.raises(NotPermitted, match=r"Host\.Config\.Network"),
    ):
        write(session, wanted)
    absent = reading(item(HOST, {"name": "esx-01"}))
    with session_on({"RetrievePropertiesEx": absent}) as (session, _), pytest.raises(NotOffered):
        write(session, wanted)


def change(session: Any, network: Any) -> tuple[str, int]:
    before: int = session.round_trips
    wanted = ChangeNetwork(id="n", subject=Subject(kind="network", name="roce"), network=network)
    return VCenterHostWriter(session).change_network(wanted), int(session.round_trips - before)


def test_a_distributed_switch_is_made_with_its_mtu() -> None:
    found = reading(item(DATACENTER, {"networkFolder": vim.Folder("group-n5")}))
    with session_on({"RetrievePropertiesEx": found, "CreateDVS_Task": TASK}) as (session, vcenter):
        network = MakeSwitch(datacenter_moid="datacenter-2", name="roce/1", mtu=9000)
        assert change(session, network) == ("task-7", 2)
        body = vcenter.sent("CreateDVS_Task")
    assert 'type="Folder">group-n5<' in body
    assert "<name>roce%2f1<" in body
    assert "<maxMtu>9000<" in body
    assert 'xsi:type="VMwareDVSConfigSpec"' in body


@pytest.mark.parametrize("found", [reading(), reading(item(DATACENTER, {}))])
def test_a_switch_is_made_in_a_datacenter_that_shows_its_network_folder(found: Any) -> None:
    network = MakeSwitch(datacenter_moid="datacenter-2", name="roce")
    with session_on({"RetrievePropertiesEx": found}) as (session, _), pytest.raises(NotFound):
        change(session, network)


def test_a_distributed_switch_is_changed_at_the_version_that_was_read() -> None:
    found = reading(item(DVS, {"uuid": "50 1e", "config.configVersion": "17"}))
    with session_on({"RetrievePropertiesEx": found, "ReconfigureDvs_Task": TASK}) as (session, vcenter):
        network = EditSwitch(
            switch_name="roce", switch_moid="dvs-3", mtu=9000, members={"host-1": ("vmnic2",)}
        )
        assert change(session, network) == ("task-7", 2)
        body = vcenter.sent("ReconfigureDvs_Task")
    assert "<configVersion>17<" in body
    assert "<maxMtu>9000<" in body
    assert "<operation>add<" in body
    assert "<pnicDevice>vmnic2<" in body


def member(moid: str, *nics: str) -> Any:
    specs = [
        vim.dvs.HostMember.PnicSpec(pnicDevice=nic, uplinkPortKey=f"p-{nic}", uplinkPortgroupKey="up")
        for nic in nics
    ]
    return vim.dvs.HostMember(
        config=vim.dvs.HostMember.ConfigInfo(
            host=vim.HostSystem(moid),
            maxProxySwitchPorts=1,
            backing=vim.dvs.HostMember.PnicBacking(pnicSpec=specs),
        ),
        status="up",
    )


def test_a_member_keeps_the_uplinks_that_it_has() -> None:
    (spec,) = member_specs({"host-1": ("vmnic2", "vmnic3")}, [member("host-1", "vmnic2")])
    assert spec.operation == "edit"
    assert [(nic.pnicDevice, nic.uplinkPortKey) for nic in spec.backing.pnicSpec] == [
        ("vmnic2", "p-vmnic2"),
        ("vmnic3", None),
    ]


def test_a_member_that_has_its_uplinks_is_left_out() -> None:
    assert member_specs({"host-1": ("vmnic2",)}, [member("host-1", "vmnic2", "vmnic9")]) == []
    hidden = member("host-1", "vmnic2")
    hidden.config.host = None
    assert [spec.operation for spec in member_specs({"host-2": ()}, [hidden])] == ["add"]


def test_a_portgroup_is_made_with_its_vlan() -> None:
    with session_on({"AddDVPortgroup_Task": TASK}) as (session, vcenter):
        network = SetPortgroup(switch_name="roce", switch_moid="dvs-3", name="roce-100", vlan=100)
        assert change(session, network) == ("task-7", 1)
        body = vcenter.sent("AddDVPortgroup_Task")
    assert "<name>roce-100<" in body
    assert "<vlanId>100<" in body
    assert "<inherited>false<" in body
    assert "<type>earlyBinding<" in body
    assert "<autoExpand>true<" in body


def test_a_portgroup_without_a_vlan_takes_the_switchs() -> None:
    with session_on({"AddDVPortgroup_Task": TASK}) as (session, vcenter):
        change(session, SetPortgroup(switch_name="roce", switch_moid="dvs-3", name="roce-0"))
        assert "defaultPortConfig" not in vcenter.sent("AddDVPortgroup_Task")


def test_a_portgroup_changes_its_vlan_at_the_version_that_was_read() -> None:
    answers = {"RetrievePropertiesEx": reading(PORTGROUP_READ), "ReconfigureDVPortgroup_Task": TASK}
    with session_on(answers) as (session, vcenter):
        network = SetPortgroup(switch_name="roce", portgroup_moid="dvportgroup-2", name="roce", vlan=0)
        assert change(session, network) == ("task-7", 2)
        body = vcenter.sent("ReconfigureDVPortgroup_Task")
    assert "<configVersion>4<" in body
    assert "<vlanId>0<" in body
    assert "<name>" not in body


@pytest.mark.parametrize(
    "network",
    [
        EditSwitch(switch_name="roce", mtu=9000),
        EditSwitch(switch_name="roce", switch_moid="dvs-9", mtu=9000),
        SetPortgroup(switch_name="roce", name="roce-100", vlan=100),
        SetPortgroup(switch_name="roce", portgroup_moid="dvportgroup-9", name="roce", vlan=100),
    ],
)
def test_what_is_not_there_is_not_changed(network: Any) -> None:
    with (
        session_on({"RetrievePropertiesEx": None}) as (session, _),
        pytest.raises(NotFound) as caught,
    ):
        change(session, network)
    assert caught.value.subject == "roce"
    assert caught.value.remedy
