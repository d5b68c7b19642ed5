"""Distributed switches and their members, over the wire: each change with its twin and its refusals."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.host_rig import A100_HOST, L40S_HOST, OTHER_A100_HOST, rig_of
from tests.unit.lab.switch_rig import SWITCH, Config, SwitchRig
from vgpu_cfg.lab.state.inventory import DistributedSwitch


def uplinks(rig: SwitchRig, name: str = A100_HOST) -> dict[str, list[str]]:
    """Return the uplinks of each switch of a host, as the host tells them."""
    network = rig.host(name).config.network
    found = {switch.name: switch.pnic for switch in network.vswitch}
    found |= {switch.dvsName: switch.pnic for switch in network.proxySwitch}
    return {name: [key.rpartition("-")[2] for key in keys or ()] for name, keys in found.items()}


def test_a_switch_is_made_with_its_uplink_portgroup() -> None:
    rig = SwitchRig()
    config = rig.switch.config
    assert (rig.switch.name, config.maxMtu, list(config.host)) == (SWITCH, 9000, [])
    (uplink,) = config.uplinkPortgroup
    assert uplink.name.startswith(f"{SWITCH}-DVUplinks-")
    assert uplink.config.uplink is True
    assert isinstance(
        uplink.config.defaultPortConfig.vlan, vim.dvs.VmwareDistributedVirtualSwitch.TrunkVlanSpec
    )
    assert {SWITCH, uplink.name} <= {child.name for child in rig.network_folder.childEntity}
    assert rig.switch.parent == rig.network_folder
    assert rig.made(name="plain").config.maxMtu == 1500
    assert rig.made(name="other").uuid != rig.switch.uuid


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"name": SWITCH}, vim.fault.DuplicateName),
        ({"name": ""}, vim.fault.InvalidName),
        ({}, vim.fault.InvalidName),
    ],
)
def test_a_switch_needs_a_name_of_its_own(fields: dict[str, Any], fault: type[Exception]) -> None:
    rig = SwitchRig()
    spec = vim.DistributedVirtualSwitch.CreateSpec(configSpec=Config(**fields))
    info = rig.end(rig.network_folder.CreateDVS_Task(spec))
    assert isinstance(info.error, fault)
    if isinstance(info.error, vim.fault.DuplicateName):
        assert info.error.object == rig.switch
    assert len(rig.lab.state.all(DistributedSwitch)) == 1


def test_a_switch_is_made_in_a_network_folder_by_who_may() -> None:
    rig = SwitchRig()
    spec = vim.DistributedVirtualSwitch.CreateSpec(configSpec=Config(name="x"))
    with pytest.raises(vmodl.fault.NotSupported):
        rig.content.rootFolder.childEntity[0].vmFolder.CreateDVS_Task(spec)
    rig.lab.faults.lacking.add("DVSwitch.Create")
    with pytest.raises(vim.fault.NoPermission):
        rig.network_folder.CreateDVS_Task(spec)


def test_a_switch_may_be_made_with_members_and_uplinks_of_its_own_names() -> None:
    rig = SwitchRig()
    policy = vim.DistributedVirtualSwitch.NameArrayUplinkPortPolicy(uplinkPortName=["roce"])
    made = rig.made(name="one", uplinkPortPolicy=policy, host=[rig.member(nics=("vmnic3",))])
    assert list(made.config.uplinkPortPolicy.uplinkPortName) == ["roce"]
    (member,) = made.config.host
    assert len(member.uplinkPortKey) == 1
    assert uplinks(rig) == {"vSwitch0": ["vmnic0"], "one": ["vmnic3"]}


def test_a_host_joins_with_its_uplinks_and_sees_the_portgroups() -> None:
    rig = SwitchRig()
    before = rig.portgroup(111)
    assert before not in rig.host().network
    assert before not in rig.host().parent.network
    rig.join(nics=("vmnic2",))
    after = rig.portgroup(112)
    for portgroup in (before, after):
        assert portgroup in rig.host().network
        assert portgroup in rig.host().parent.network
        assert list(portgroup.host) == [rig.host()]
    assert rig.switch.config.uplinkPortgroup[0] not in rig.host().network
    assert before not in rig.host(OTHER_A100_HOST).network
    assert uplinks(rig) == {"vSwitch0": ["vmnic0"], SWITCH: ["vmnic2"]}
    assert uplinks(rig, OTHER_A100_HOST) == {"vSwitch0": ["vmnic0"]}
    assert list(rig.switch.summary.hostMember) == [rig.host()]


def test_a_member_has_its_uplinks_where_both_sides_tell_them() -> None:
    rig = SwitchRig()
    rig.join(nics=("vmnic3",))
    (proxy,) = rig.host().config.network.proxySwitch
    (spec,) = proxy.spec.backing.pnicSpec
    names = {port.key: port.value for port in proxy.uplinkPort}
    (member,) = rig.switch.config.host
    assert rig.members() == {A100_HOST: {"vmnic3": spec.uplinkPortKey}}
    assert (names[spec.uplinkPortKey], list(names)) == ("Uplink 1", list(member.uplinkPortKey))
    assert (proxy.dvsUuid, proxy.mtu) == (rig.switch.uuid, 9000)


def test_a_second_nic_joins_at_a_port_of_its_own_and_leaves_the_first_where_it_is() -> None:
    rig = SwitchRig()
    rig.join(nics=("vmnic3",))
    first = rig.members()[A100_HOST]
    assert rig.change(host=[rig.member("edit", nics=("vmnic2", "vmnic3"), **first)]).state == "success"
    then = rig.members()[A100_HOST]
    assert then["vmnic3"] == first["vmnic3"]
    assert len(set(then.values())) == 2
    assert rig.change(host=[rig.member("edit", nics=("vmnic2", "vmnic3"))]).state == "success"
    assert rig.members()[A100_HOST] == then


def test_a_backing_names_all_uplinks_and_none_leaves_them() -> None:
    rig = SwitchRig()
    rig.join(nics=("vmnic2", "vmnic3"))
    assert rig.change(host=[rig.member("edit", nics=None)]).state == "success"
    assert uplinks(rig)[SWITCH] == ["vmnic2", "vmnic3"]
    assert rig.change(host=[rig.member("edit", nics=("vmnic3",))]).state == "success"
    assert uplinks(rig)[SWITCH] == ["vmnic3"]
    assert rig.state().nics[1].uplink_of == ""


def test_a_port_is_taken_once_and_by_its_own_host() -> None:
    rig = SwitchRig()
    rig.join(nics=("vmnic2",))
    taken = rig.members()[A100_HOST]["vmnic2"]
    both = rig.member("edit", nics=("vmnic2", "vmnic3"), vmnic2=taken, vmnic3=taken)
    assert isinstance(rig.refused(host=[both]), vmodl.fault.InvalidArgument)
    elsewhere = rig.member("add", OTHER_A100_HOST, nics=("vmnic2",), vmnic2=taken)
    assert isinstance(rig.refused(host=[elsewhere]), vmodl.fault.InvalidArgument)
    assert set(rig.members()) == {A100_HOST}


def test_there_are_no_more_nics_than_uplinks() -> None:
    rig = SwitchRig()
    policy = vim.DistributedVirtualSwitch.NameArrayUplinkPortPolicy(uplinkPortName=["only"])
    assert rig.change(uplinkPortPolicy=policy).state == "success"
    fault = rig.refused(host=[rig.member(nics=("vmnic2", "vmnic3"))])
    assert isinstance(fault, vim.fault.ResourceNotAvailable)
    assert rig.members() == {}


@pytest.mark.parametrize(
    ("nic", "inner"), [("vmnic0", vim.fault.ResourceInUse), ("vmnic9", vim.fault.NotFound)]
)
def test_a_nic_of_another_switch_fails_on_its_host_and_nothing_is_done(
    nic: str, inner: type[Exception]
) -> None:
    rig = SwitchRig()
    entries = [rig.member(name=OTHER_A100_HOST, nics=("vmnic2",)), rig.member(nics=(nic,))]
    fault = rig.refused(host=entries, maxMtu=1500)
    assert isinstance(fault, vim.fault.DvsOperationBulkFault)
    (on_host,) = fault.hostFault
    assert on_host.host == rig.host()
    assert isinstance(on_host.fault, inner)
    assert (rig.members(), rig.switch.config.maxMtu) == ({}, 9000)
    assert uplinks(rig) == {"vSwitch0": ["vmnic0"]}


def test_a_nic_that_is_passed_through_is_no_uplink() -> None:
    rig = SwitchRig()
    config = vim.host.PciPassthruConfig(id="0000:24:00.0", passthruEnabled=True)
    rig.host().configManager.pciPassthruSystem.UpdatePassthruConfig([config])
    assert isinstance(rig.refused(host=[rig.member(nics=("vmnic2",))]), vim.fault.DvsOperationBulkFault)


def test_an_uplink_is_not_passed_through() -> None:
    rig = SwitchRig()
    rig.join(nics=("vmnic2",))
    config = vim.host.PciPassthruConfig(id="0000:24:00.0", passthruEnabled=True)
    with pytest.raises(vim.fault.HostConfigFault):
        rig.host().configManager.pciPassthruSystem.UpdatePassthruConfig([config])


def test_who_is_a_member_is_not_added_and_who_is_none_is_not_changed() -> None:
    rig = SwitchRig()
    rig.join()
    assert isinstance(rig.refused(host=[rig.member()]), vim.fault.AlreadyExists)
    for operation in ("edit", "remove"):
        fault = rig.refused(host=[rig.member(operation, OTHER_A100_HOST)])
        assert isinstance(fault, vim.fault.NotFound)
    twice = [rig.member(name=OTHER_A100_HOST), rig.member(name=OTHER_A100_HOST)]
    assert isinstance(rig.refused(host=twice), vmodl.fault.InvalidArgument)


def test_a_host_that_does_not_answer_cannot_join() -> None:
    rig = SwitchRig()
    rig.state().connection = "notResponding"
    fault = rig.refused(host=[rig.member()])
    assert isinstance(fault.hostFault[0].fault, vmodl.fault.HostNotConnected)


def test_a_host_leaves_when_nothing_of_it_is_on_the_switch() -> None:
    rig = SwitchRig()
    rig.join(nics=("vmnic2",))
    rig.join(OTHER_A100_HOST)
    portgroup = rig.portgroup(111)
    ip = vim.host.IpConfig(dhcp=True)
    nic = vim.host.VirtualNic.Specification(ip=ip, distributedVirtualPort=rig.port(portgroup))
    device = rig.host().configManager.networkSystem.AddVirtualNic("", nic)
    assert isinstance(rig.refused(host=[rig.member("remove")]), vim.fault.ResourceInUse)
    rig.host().configManager.networkSystem.RemoveVirtualNic(device)
    assert rig.change(host=[rig.member("remove", nics=None)]).state == "success"
    assert uplinks(rig) == {"vSwitch0": ["vmnic0"]}
    assert portgroup not in rig.host().network
    assert portgroup in rig.host().parent.network
    assert rig.change(host=[rig.member("remove", OTHER_A100_HOST)]).state == "success"
    assert portgroup not in rig.host().parent.network
    assert rig.state().nics[1].uplink_of == ""


def test_a_host_stays_while_a_vm_is_on_the_switch() -> None:
    rig = SwitchRig()
    rig.join()
    portgroup = rig.portgroup(111)
    port = vim.vm.device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=rig.port(portgroup))
    edit = vim.vm.device.VirtualDeviceSpec(
        operation="add", device=vim.vm.device.VirtualVmxnet3(key=-1, backing=port)
    )
    vm = rig.lab.state.get(rig.vm("web-01").moid, type(rig.vm("web-01")))
    client = next(one for one in rig.host().vm if one.name == vm.name)
    rig.done(client.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=[edit])))
    assert list(portgroup.vm) == [client]
    assert isinstance(rig.refused(host=[rig.member("remove")]), vim.fault.ResourceInUse)


def test_a_version_that_is_not_the_present_one_is_refused() -> None:
    rig = SwitchRig()
    read = rig.switch.config.configVersion
    assert rig.change(maxMtu=1500).state == "success"
    assert rig.switch.config.configVersion != read
    assert isinstance(rig.refused(maxMtu=9000, configVersion=read), vim.fault.ConcurrentAccess)
    assert isinstance(rig.refused(maxMtu=9000, configVersion=None), vmodl.fault.InvalidArgument)
    assert rig.switch.config.maxMtu == 1500
    assert rig.change(maxMtu=9000).state == "success"


def test_a_switch_changes_what_is_named_and_nothing_else() -> None:
    rig = SwitchRig()
    rig.join()
    assert rig.change(name="renamed").state == "success"
    assert (rig.switch.name, rig.switch.config.maxMtu) == ("renamed", 9000)
    assert uplinks(rig)["renamed"] == ["vmnic2"]
    rig.made(name="second")
    assert isinstance(rig.refused(name="second"), vim.fault.DuplicateName)
    assert rig.host().config.network.proxySwitch[0].mtu == 9000
    assert rig.change(maxMtu=1500).state == "success"
    assert rig.host().config.network.proxySwitch[0].mtu == 1500


@pytest.mark.parametrize("privilege", ["DVSwitch.HostOp", "DVSwitch.Modify", "Host.Config.Network"])
def test_what_changes_takes_its_own_privilege(privilege: str) -> None:
    rig = SwitchRig()
    version = rig.switch.config.configVersion
    member, mtu = {"host": [rig.member()]}, {"maxMtu": 1500}
    needs, twin = (mtu, member) if privilege == "DVSwitch.Modify" else (member, mtu)
    rig.lab.faults.lacking.add(privilege)
    with pytest.raises(vim.fault.NoPermission) as caught:
        rig.switch.ReconfigureDvs_Task(Config(configVersion=version, **needs))
    assert caught.value.privilegeId == privilege
    assert rig.change(**twin).state == "success"


def test_members_and_uplinks_are_kept_in_a_saved_lab(tmp_path: Path) -> None:
    rig = SwitchRig(tmp_path)
    rig.join(nics=("vmnic2", "vmnic3"))
    rig.join(L40S_HOST)
    (kept,) = rig.opened_again().state.all(DistributedSwitch)
    (now,) = rig.lab.state.all(DistributedSwitch)
    assert kept == now
    assert len(kept.uplinks) == 2


def test_an_estate_with_a_switch_has_the_hosts_of_its_nics_as_members(tmp_path: Path) -> None:
    nics = "".join(
        f"    - {{model: ConnectX-6 Dx, vmnic: vmnic{at}, switch: dvs-roce, speed_gbps: 100}}\n"
        for at in range(1, 7)
    )
    rig = rig_of(
        "about: Six uplinks.\nclusters:\n- name: gpu\n  hosts:\n  - names: [a.lab, b.lab]\n    nics:\n"
        f"{nics}switches:\n- {{name: dvs-roce, mtu: 9000}}\n",
        tmp_path,
    )
    (switch,) = rig.lab.state.all(DistributedSwitch)
    host = rig.state("a.lab")
    assert switch.hosts == [host.moid, rig.state("b.lab").moid]
    assert {nic.uplink_of for nic in host.nics} == {switch.moid}
    (proxy,) = rig.host("a.lab").config.network.proxySwitch
    assert [spec.pnicDevice for spec in proxy.spec.backing.pnicSpec] == [f"vmnic{at}" for at in range(1, 7)]
    assert len({spec.uplinkPortKey for spec in proxy.spec.backing.pnicSpec}) == 6


def test_link_discovery_is_kept_and_what_cannot_be_refused() -> None:
    rig = SwitchRig()
    kind: Any = vim.host.LinkDiscoveryProtocolConfig
    shown = rig.switch.config.linkDiscoveryProtocolConfig
    assert (shown.protocol, shown.operation) == ("cdp", "listen")
    assert rig.change(linkDiscoveryProtocolConfig=kind(protocol="lldp", operation="both")).state == "success"
    shown = rig.switch.config.linkDiscoveryProtocolConfig
    assert (shown.protocol, shown.operation) == ("lldp", "both")
    private = vim.dvs.VmwareDistributedVirtualSwitch.PvlanConfigSpec(
        operation="add",
        pvlanEntry=vim.dvs.VmwareDistributedVirtualSwitch.PvlanMapEntry(
            primaryVlanId=1, secondaryVlanId=1, pvlanType="promiscuous"
        ),
    )
    assert isinstance(rig.refused(pvlanConfigSpec=[private]), vmodl.fault.NotSupported)
    odd = kind(protocol="bgp", operation="both")
    assert isinstance(rig.refused(linkDiscoveryProtocolConfig=odd), vmodl.fault.InvalidArgument)


def test_uplink_ports_of_members_are_told_where_they_are_asked_for() -> None:
    rig = SwitchRig()
    rig.join()
    asked = vim.dvs.PortCriteria(uplinkPort=True, host=[rig.host(A100_HOST)])
    ports = rig.switch.FetchDVPorts(asked)
    (uplinks,) = rig.switch.config.uplinkPortgroup
    assert [port.config.name for port in ports] == list(rig.switch.config.uplinkPortPolicy.uplinkPortName)
    assert [port.key for port in ports] == list(uplinks.portKeys)
    elsewhere = vim.dvs.PortCriteria(uplinkPort=True, host=[rig.host(OTHER_A100_HOST)])
    assert rig.switch.FetchDVPorts(elsewhere) == []


def test_a_service_is_put_on_a_vmkernel_nic_and_taken_off() -> None:
    rig = SwitchRig()
    manager = rig.host(A100_HOST).configManager.virtualNicManager

    def selected(service: str) -> int:
        return len(manager.QueryNetConfig(service).selectedVnic)

    assert (selected("vmotion"), selected("vsan")) == (1, 0)
    manager.SelectVnicForNicType("vsan", "vmk0")
    manager.DeselectVnicForNicType("vmotion", "vmk0")
    assert (selected("vmotion"), selected("vsan")) == (0, 1)
    for service, device in (("vsan", "vmk9"), ("coffee", "vmk0")):
        with pytest.raises(vmodl.fault.InvalidArgument):
            manager.SelectVnicForNicType(service, device)
    with pytest.raises(vim.fault.HostConfigFault):
        manager.DeselectVnicForNicType("management", "vmk0")
    with pytest.raises(vmodl.fault.InvalidArgument):
        manager.QueryNetConfig("coffee")
