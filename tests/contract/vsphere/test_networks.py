"""Distributed switches and VMkernel NICs through the product's own client: the lab and vcsim side by side.

What vcsim lacks is said where it is left out: it keeps no uplinks of members, changes no member and no
MTU, counts no versions, marks no uplink portgroup, and has no VMkernel NICs to make.
"""

from __future__ import annotations

import re
from typing import Any

import pytest
from pyVmomi import vim

from tests.contract.vcenters import fresh, lab_vcenter
from tests.contract.vsphere.host_writing import Workshop, datacenter, make, open_workshop, vlan_of
from vgpu_cfg.changes.change import ChangeNetwork
from vgpu_cfg.changes.kinds.change_host import SwitchWrite, VmknicWrite
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.errors import NotFound, NotPermitted, VCenterError
from vgpu_cfg.model.observed.host_facts import DistributedSwitch, EstateFacts, FactGroup
from vgpu_cfg.model.observed.inventory import Network
from vgpu_cfg.ports import TaskState, TaskUpdate


def make_switch(workshop: Workshop, name: str, mtu: int | None = 9000) -> str:
    moid = make(workshop, MakeSwitch(datacenter_moid=datacenter(workshop), name=name, mtu=mtu))
    assert moid is not None
    return moid


def begin(workshop: Workshop, network: Any) -> TaskUpdate:
    """Change a network, and return how the task ended."""
    change = ChangeNetwork(id="n", subject=Subject(kind="network", name="roce"), network=network)
    return workshop.desk.done(workshop.writer.change_network(change))


def facts(workshop: Workshop) -> EstateFacts:
    hosts = [host.moid for host in workshop.desk.inventory().hosts]
    return workshop.desk.reader.read_facts(hosts, frozenset({FactGroup.BASE}))


def switch_named(workshop: Workshop, name: str) -> DistributedSwitch:
    return next(switch for switch in facts(workshop).switches if switch.name == name)


def network_named(workshop: Workshop, name: str) -> Network:
    return next(net for net in workshop.desk.inventory().networks if net.name == name)


def join(workshop: Workshop, name: str, moid: str, *nics: str) -> None:
    members = {workshop.host.moid: nics or ("vmnic2",)}
    make(workshop, EditSwitch(switch_name=name, switch_moid=moid, members=members))


def test_a_switch_is_read_as_it_was_made(workshop: Workshop) -> None:
    name = fresh("roce")
    moid = make_switch(workshop, name)
    found = switch_named(workshop, name)
    assert (found.moid, found.mtu, dict(found.members)) == (moid, 9000, {})
    uplinks = [net for net in workshop.desk.inventory().networks if net.switch_uuid == found.uuid]
    # vcsim makes an uplink portgroup as well, and says so of it nowhere.
    assert [net.is_uplink for net in uplinks] == [workshop.kind == "lab"]


def test_a_slash_in_a_name_comes_back(workshop: Workshop) -> None:
    name = fresh("rack/12")
    moid = make_switch(workshop, name)
    make(workshop, SetPortgroup(switch_name=name, switch_moid=moid, name=f"{name}-a", vlan=5))
    assert switch_named(workshop, name).moid == moid
    made = network_named(workshop, f"{name}-a")
    assert made.switch_uuid == switch_named(workshop, name).uuid
    spent = workshop.desk.session.round_trips
    assert workshop.desk.reader.read_portgroups(moid)[f"{name}-a"] == made.moid
    assert workshop.desk.session.round_trips == spent + 1
    assert workshop.desk.reader.read_portgroups("dvs-90001") == {}


def test_a_name_that_is_taken_is_refused_for_switches_and_portgroups(workshop: Workshop) -> None:
    name = fresh("roce")
    moid = make_switch(workshop, name)
    again = begin(workshop, MakeSwitch(datacenter_moid=datacenter(workshop), name=name))
    assert again.state is TaskState.ERROR
    portgroup = SetPortgroup(switch_name=name, switch_moid=moid, name=fresh("taken"), vlan=1)
    make(workshop, portgroup)
    assert again.fault == ("DuplicateName" if workshop.kind == "lab" else "InvalidArgument")
    assert begin(workshop, portgroup).fault == "DuplicateName"


def test_a_member_sees_the_portgroups_of_its_switch(workshop: Workshop) -> None:
    name = fresh("roce")
    moid = make_switch(workshop, name)
    make(workshop, SetPortgroup(switch_name=name, switch_moid=moid, name=f"{name}-1", vlan=1))
    join(workshop, name, moid)
    make(workshop, SetPortgroup(switch_name=name, switch_moid=moid, name=f"{name}-2", vlan=2))
    inventory = workshop.desk.inventory()
    host = next(host for host in inventory.hosts if host.moid == workshop.host.moid)
    wanted = {network_named(workshop, f"{name}-{at}").moid for at in (1, 2)}
    assert wanted <= set(host.network_moids)
    members = workshop.read("vim.DistributedVirtualSwitch", moid, "summary.hostMember")
    assert [member._moId for member in members["summary.hostMember"]] == [host.moid]
    cluster = workshop.read("vim.ClusterComputeResource", str(host.cluster_moid), "network")
    assert wanted <= {net._moId for net in cluster["network"]}


def test_a_portgroup_is_made_and_gets_another_vlan(workshop: Workshop) -> None:
    name = fresh("roce")
    moid = make_switch(workshop, name)
    make(workshop, SetPortgroup(switch_name=name, switch_moid=moid, name=f"{name}-pg", vlan=111))
    portgroup = network_named(workshop, f"{name}-pg").moid
    assert switch_named(workshop, name).portgroup_vlans[portgroup] == 111
    make(workshop, SetPortgroup(switch_name=name, portgroup_moid=portgroup, name=f"{name}-pg", vlan=222))
    assert vlan_of(workshop, portgroup) == 222
    config = workshop.read(
        "vim.dvs.DistributedVirtualPortgroup", portgroup, "config.distributedVirtualSwitch"
    )
    assert config["config.distributedVirtualSwitch"]._moId == moid


def test_what_is_not_there_is_not_changed(workshop: Workshop) -> None:
    for network in (
        EditSwitch(switch_name="x", switch_moid="dvs-99999", mtu=9000),
        SetPortgroup(switch_name="x", portgroup_moid="dvportgroup-99999", name="x", vlan=1),
        MakeSwitch(datacenter_moid="datacenter-99999", name="x"),
    ):
        with pytest.raises(NotFound):
            begin(workshop, network)


# ---------------------------------------------------------------- on the lab


def test_a_switch_without_an_mtu_gets_the_ordinary_one(on_lab: Workshop) -> None:
    name = fresh("plain")
    make_switch(on_lab, name, None)
    assert switch_named(on_lab, name).mtu == 1500


def test_members_keep_their_uplinks_and_gain_others(on_lab: Workshop) -> None:
    name = fresh("roce")
    moid = make_switch(on_lab, name)
    join(on_lab, name, moid, "vmnic3")
    before = backing(on_lab, moid)
    join(on_lab, name, moid, "vmnic2", "vmnic3")
    after = backing(on_lab, moid)
    assert after["vmnic3"] == before["vmnic3"]
    assert switch_named(on_lab, name).members == {on_lab.host.moid: tuple(after)}
    assert set(after) == {"vmnic2", "vmnic3"}
    switches = {switch.name: switch for switch in facts(on_lab).hosts[on_lab.host.moid].switches}
    assert set(switches[name].uplinks) == {"vmnic2", "vmnic3"}
    assert switches[name].mtu == 9000


def backing(workshop: Workshop, moid: str) -> dict[str, str]:
    (member,) = workshop.read("vim.DistributedVirtualSwitch", moid, "config")["config"].host
    return {spec.pnicDevice: spec.uplinkPortKey for spec in member.config.backing.pnicSpec}


def test_an_mtu_changes_on_the_switch_and_its_members(on_lab: Workshop) -> None:
    name = fresh("roce")
    moid = make_switch(on_lab, name, 1500)
    join(on_lab, name, moid)
    make(on_lab, EditSwitch(switch_name=name, switch_moid=moid, mtu=9000))
    assert switch_named(on_lab, name).mtu == 9000
    assert switch_named(on_lab, name).members == {on_lab.host.moid: ("vmnic2",)}
    make(on_lab, EditSwitch(switch_name=name, switch_moid=moid, mtu=1500))
    assert switch_named(on_lab, name).mtu == 1500


def test_a_nic_that_another_switch_has_fails_with_what_vcenter_says(on_lab: Workshop) -> None:
    name = fresh("roce")
    moid = make_switch(on_lab, name)
    members = {on_lab.host.moid: ("vmnic0",)}
    update = begin(on_lab, EditSwitch(switch_name=name, switch_moid=moid, members=members))
    assert (update.state, update.fault) == (TaskState.ERROR, "DvsOperationBulkFault")
    assert "for one or more host members" in update.error
    assert switch_named(on_lab, name).members == {}


def test_a_standard_switch_gives_a_nic_up_and_a_distributed_one_takes_it(on_lab: Workshop) -> None:
    name = fresh("roce")
    moid = make_switch(on_lab, name)
    host = on_lab.host.moid
    two = SwitchWrite(switch="vSwitch0", uplinks=("vmnic0", "vmnic2"), before=("vmnic0",))
    on_lab.writer.write_host(host, two, {})
    members = {host: ("vmnic2",)}
    taken = EditSwitch(switch_name=name, switch_moid=moid, members=members)
    assert begin(on_lab, taken).state is TaskState.ERROR
    one = SwitchWrite(switch="vSwitch0", uplinks=("vmnic0",), before=("vmnic0", "vmnic2"))
    on_lab.writer.write_host(host, one, {})
    assert begin(on_lab, taken).state is TaskState.SUCCESS
    with pytest.raises(VCenterError, match="ResourceInUse"):
        on_lab.writer.write_host(host, two, {})


def test_a_vmknic_is_made_on_a_new_portgroup_and_changed(on_lab: Workshop) -> None:
    name = fresh("roce")
    moid = make_switch(on_lab, name)
    join(on_lab, name, moid)
    make(on_lab, SetPortgroup(switch_name=name, switch_moid=moid, name=f"{name}-pg", vlan=111))
    portgroup = network_named(on_lab, f"{name}-pg")
    made = VmknicWrite(
        network_moid=portgroup.moid, network_name=portgroup.name, address="10.111.0.21/24", mtu=9000
    )
    on_lab.writer.write_host(on_lab.host.moid, made, {})
    (found,) = (nic for nic in facts(on_lab).hosts[on_lab.host.moid].vmknics if nic.device == "vmk1")
    assert (found.network, found.network_moid) == (portgroup.name, portgroup.moid)
    assert (found.address, found.mtu, found.is_dhcp) == ("10.111.0.21/24", 9000, False)
    on_lab.writer.write_host(on_lab.host.moid, VmknicWrite(device="vmk1", address="dhcp"), {})
    (found,) = (nic for nic in facts(on_lab).hosts[on_lab.host.moid].vmknics if nic.device == "vmk1")
    assert (found.is_dhcp, found.mtu, found.network) == (True, 9000, portgroup.name)


def test_a_portgroup_that_somebody_made_a_trunk_is_read_as_none_and_set_again(on_lab: Workshop) -> None:
    name = fresh("roce")
    moid = make_switch(on_lab, name)
    make(on_lab, SetPortgroup(switch_name=name, switch_moid=moid, name=f"{name}-pg", vlan=111))
    portgroup = network_named(on_lab, f"{name}-pg").moid
    shapes = vim.dvs.VmwareDistributedVirtualSwitch
    spec = vim.dvs.DistributedVirtualPortgroup.ConfigSpec(configVersion="0")
    ranges = [vim.NumericRange(start=1, end=9)]
    spec.defaultPortConfig = shapes.VmwarePortConfigPolicy(
        vlan=shapes.TrunkVlanSpec(vlanId=ranges, inherited=False)
    )
    seen = vim.dvs.DistributedVirtualPortgroup(portgroup, on_lab.desk.session.stub)
    on_lab.succeeds(str(seen.ReconfigureDVPortgroup_Task(spec)._moId))
    assert switch_named(on_lab, name).portgroup_vlans == {
        uplink_of(on_lab, moid): None,
        portgroup: None,
    }
    make(on_lab, SetPortgroup(switch_name=name, portgroup_moid=portgroup, name=f"{name}-pg", vlan=111))
    assert switch_named(on_lab, name).portgroup_vlans[portgroup] == 111


def uplink_of(workshop: Workshop, moid: str) -> str:
    return str(
        workshop.read("vim.DistributedVirtualSwitch", moid, "config")["config"].uplinkPortgroup[0]._moId
    )


@pytest.mark.parametrize(
    ("privilege", "step"),
    [
        ("DVSwitch.Create", "make"),
        ("DVSwitch.Modify", "mtu"),
        ("DVSwitch.HostOp", "members"),
        ("Host.Config.Network", "members"),
        ("DVPortgroup.Create", "portgroup"),
        ("DVPortgroup.Modify", "vlan"),
        ("Network.Assign", "vmknic"),
    ],
)
def test_who_lacks_what_a_step_needs_is_told(privilege: str, step: str) -> None:
    vcenter = lab_vcenter("bare")
    assert vcenter.lab is not None
    for workshop in open_workshop(vcenter):
        moid = make_switch(workshop, "roce")
        make(workshop, SetPortgroup(switch_name="roce", switch_moid=moid, name="pg", vlan=1))
        join(workshop, "roce", moid)
        portgroup = network_named(workshop, "pg").moid
        vcenter.lab.faults.lacking.add(privilege)
        networks: dict[str, MakeSwitch | EditSwitch | SetPortgroup] = {
            "make": MakeSwitch(datacenter_moid=datacenter(workshop), name="other"),
            "mtu": EditSwitch(switch_name="roce", switch_moid=moid, mtu=1500),
            "members": EditSwitch(
                switch_name="roce", switch_moid=moid, members={workshop.host.moid: ("vmnic3",)}
            ),
            "portgroup": SetPortgroup(switch_name="roce", switch_moid=moid, name="other", vlan=1),
            "vlan": SetPortgroup(switch_name="roce", portgroup_moid=portgroup, name="pg", vlan=2),
        }
        vmknic = VmknicWrite(network_moid=portgroup, network_name="pg", address="dhcp")
        with pytest.raises(NotPermitted, match=re.escape(privilege)):
            take(workshop, networks.get(step, vmknic))


def take(workshop: Workshop, step: MakeSwitch | EditSwitch | SetPortgroup | VmknicWrite) -> None:
    if isinstance(step, VmknicWrite):
        workshop.writer.write_host(workshop.host.moid, step, {})
    else:
        begin(workshop, step)
