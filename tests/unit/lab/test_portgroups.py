"""Distributed portgroups, over the wire: made, changed, shown to hosts, and refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.host_rig import OTHER_A100_HOST
from tests.unit.lab.switch_rig import SWITCH, Portgroup, SwitchRig, port_setting, trunk
from vgpu_cfg.lab.state.inventory import Network

Shapes = vim.dvs.VmwareDistributedVirtualSwitch


def add(rig: SwitchRig, *specs: Any) -> Any:
    return rig.end(rig.switch.AddDVPortgroup_Task(list(specs)))


def change(rig: SwitchRig, portgroup: Any, **fields: Any) -> Any:
    """Change a portgroup with the version that it has, and return the task's info."""
    version = fields.pop("configVersion", portgroup.config.configVersion)
    spec = Portgroup(configVersion=version, **fields)
    return rig.end(portgroup.ReconfigureDVPortgroup_Task(spec))


def named(rig: SwitchRig, name: str) -> Any:
    return next(portgroup for portgroup in rig.switch.portgroup if portgroup.name == name)


def test_portgroups_are_made_as_they_were_asked_for() -> None:
    rig = SwitchRig()
    spec = Portgroup(name="roce-111", type="earlyBinding", numPorts=8, autoExpand=True, description="RoCE")
    spec.defaultPortConfig = port_setting(111)
    info = add(rig, spec, Portgroup(name="plain"))
    assert (info.state, info.result) == ("success", None)
    config = named(rig, "roce-111").config
    assert (config.numPorts, config.autoExpand, config.type, config.description) == (
        8,
        True,
        "earlyBinding",
        "RoCE",
    )
    assert config.defaultPortConfig.vlan.vlanId == 111
    assert config.distributedVirtualSwitch == rig.switch
    assert named(rig, "roce-111").key == config.key
    assert named(rig, "plain").config.defaultPortConfig.vlan.vlanId == 0
    assert set(rig.switch.summary.portgroupName) >= {"roce-111", "plain"}
    assert {"roce-111", "plain"} <= {child.name for child in rig.network_folder.childEntity}


def test_one_portgroup_is_the_result_of_its_task() -> None:
    rig = SwitchRig()
    made = rig.portgroup(111)
    assert isinstance(made, vim.dvs.DistributedVirtualPortgroup)
    assert made == named(rig, "roce-111")


@pytest.mark.parametrize(
    ("spec", "fault"),
    [
        (Portgroup(name=SWITCH), vim.fault.DuplicateName),
        (Portgroup(name="taken"), vim.fault.DuplicateName),
        (Portgroup(), vim.fault.InvalidName),
        (Portgroup(name="x", type="loose"), vmodl.fault.InvalidArgument),
        (Portgroup(name="x", defaultPortConfig=port_setting(4095)), vmodl.fault.InvalidArgument),
        (
            Portgroup(name="x", defaultPortConfig=port_setting(spec=trunk((9, 1)))),
            vmodl.fault.InvalidArgument,
        ),
        (
            Portgroup(name="x", defaultPortConfig=port_setting(spec=Shapes.PvlanSpec(pvlanId=5))),
            vmodl.fault.NotSupported,
        ),
    ],
)
def test_a_portgroup_that_cannot_be_is_not_made_nor_those_beside_it(
    spec: Any, fault: type[Exception]
) -> None:
    rig = SwitchRig()
    rig.portgroup(1, "taken")
    before = [portgroup.name for portgroup in rig.switch.portgroup]
    info = add(rig, Portgroup(name="beside"), spec)
    assert isinstance(info.error, fault)
    assert [portgroup.name for portgroup in rig.switch.portgroup] == before


def test_two_portgroups_of_one_call_have_two_names() -> None:
    rig = SwitchRig()
    assert add(rig, Portgroup(name="x"), Portgroup(name="x")).state == "error"
    assert add(rig, Portgroup(name="x"), Portgroup(name="y")).state == "success"


def test_a_portgroup_is_seen_by_the_members_of_its_switch_only() -> None:
    rig = SwitchRig()
    rig.join()
    portgroup = rig.portgroup(111)
    assert portgroup in rig.host().network
    assert portgroup in rig.host().parent.network
    assert portgroup not in rig.host(OTHER_A100_HOST).network
    assert portgroup in rig.content.rootFolder.childEntity[0].network


def test_a_vm_uses_a_new_portgroup_on_a_member_and_nowhere_else() -> None:
    rig = SwitchRig()
    port = rig.port(rig.portgroup(111))
    backing = vim.vm.device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
    edit = vim.vm.device.VirtualDeviceSpec(
        operation="add", device=vim.vm.device.VirtualVmxnet3(key=-1, backing=backing)
    )
    spec = vim.vm.ConfigSpec(deviceChange=[edit])
    client = next(vm for vm in rig.host().vm if vm.name == "web-01")
    assert rig.end(client.ReconfigVM_Task(spec)).state == "error"
    rig.join()
    rig.done(client.ReconfigVM_Task(spec))
    assert [net.name for net in client.network][-1] == "roce-111"


def test_a_vlan_changes_and_what_is_not_named_stays() -> None:
    rig = SwitchRig()
    portgroup = rig.portgroup(111)
    version = portgroup.config.configVersion
    assert change(rig, portgroup, defaultPortConfig=port_setting(222)).state == "success"
    config = portgroup.config
    assert (config.defaultPortConfig.vlan.vlanId, config.numPorts, config.name) == (222, 8, "roce-111")
    assert config.configVersion != version
    assert change(rig, portgroup, numPorts=16, defaultPortConfig=port_setting()).state == "success"
    assert (portgroup.config.numPorts, portgroup.config.defaultPortConfig.vlan.vlanId) == (16, 222)


def test_a_trunk_becomes_a_vlan_and_back() -> None:
    rig = SwitchRig()
    portgroup = rig.portgroup(111)
    change(rig, portgroup, defaultPortConfig=port_setting(spec=trunk((1, 9), (100, 200))))
    shown = portgroup.config.defaultPortConfig.vlan
    assert [(one.start, one.end) for one in shown.vlanId] == [(1, 9), (100, 200)]
    change(rig, portgroup, defaultPortConfig=port_setting(0))
    assert portgroup.config.defaultPortConfig.vlan.vlanId == 0


def test_a_portgroup_of_another_version_is_not_changed() -> None:
    rig = SwitchRig()
    portgroup = rig.portgroup(111)
    read = portgroup.config.configVersion
    change(rig, portgroup, description="somebody else")
    info = change(rig, portgroup, configVersion=read, defaultPortConfig=port_setting(222))
    assert isinstance(info.error, vim.fault.ConcurrentAccess)
    info = change(rig, portgroup, configVersion=None, defaultPortConfig=port_setting(222))
    assert isinstance(info.error, vmodl.fault.InvalidArgument)
    assert portgroup.config.defaultPortConfig.vlan.vlanId == 111


def test_a_portgroup_takes_no_name_of_another() -> None:
    rig = SwitchRig()
    portgroup, other = rig.portgroup(111), rig.portgroup(112)
    info = change(rig, portgroup, name=other.name)
    assert isinstance(info.error, vim.fault.DuplicateName)
    assert info.error.object == other
    assert change(rig, portgroup, name=portgroup.name).state == "success"
    assert change(rig, portgroup, name="new").state == "success"
    assert "new" in rig.switch.summary.portgroupName


def test_making_and_changing_take_their_privileges() -> None:
    rig = SwitchRig()
    portgroup = rig.portgroup(111)
    rig.lab.faults.lacking.add("DVPortgroup.Create")
    with pytest.raises(vim.fault.NoPermission):
        rig.switch.AddDVPortgroup_Task([Portgroup(name="x")])
    assert change(rig, portgroup, defaultPortConfig=port_setting(222)).state == "success"
    rig.lab.faults.lacking = {"DVPortgroup.Modify"}
    with pytest.raises(vim.fault.NoPermission) as caught:
        change(rig, portgroup, defaultPortConfig=port_setting(333))
    assert (caught.value.privilegeId, caught.value.object) == ("DVPortgroup.Modify", portgroup)
    assert rig.portgroup(112) is not None


def test_portgroups_are_kept_in_a_saved_lab(tmp_path: Path) -> None:
    rig = SwitchRig(tmp_path)
    rig.join()
    change(rig, rig.portgroup(111), defaultPortConfig=port_setting(spec=trunk((1, 9))))
    kept = {net.moid: net for net in rig.opened_again().state.all(Network)}
    assert kept == {net.moid: net for net in rig.lab.state.all(Network)}
    assert ((1, 9),) in [net.trunk for net in kept.values()]


def teaming(policy: str | None = None, active: tuple[str, ...] = (), standby: tuple[str, ...] = ()) -> Any:
    order = Shapes.UplinkPortOrderPolicy(
        inherited=False, activeUplinkPort=list(active), standbyUplinkPort=list(standby)
    )
    return Shapes.VmwarePortConfigPolicy(
        uplinkTeamingPolicy=Shapes.UplinkPortTeamingPolicy(
            inherited=False,
            policy=vim.StringPolicy(inherited=False, value=policy) if policy else None,
            uplinkPortOrder=order if active or standby else None,
        )
    )


def test_teaming_is_kept_and_a_vlan_beside_it() -> None:
    rig = SwitchRig()
    made = rig.portgroup(111)
    shown = made.config.defaultPortConfig.uplinkTeamingPolicy
    uplinks = list(rig.switch.config.uplinkPortPolicy.uplinkPortName)
    assert (shown.policy.value, list(shown.uplinkPortOrder.activeUplinkPort)) == (
        "loadbalance_srcid",
        uplinks,
    )
    first, second = uplinks[:2]
    sent = teaming("failover_explicit", (first,), (second,))
    assert change(rig, made, defaultPortConfig=sent).state == "success"
    assert change(rig, made, defaultPortConfig=teaming(active=(second,))).state == "success"
    shown = made.config.defaultPortConfig
    order = shown.uplinkTeamingPolicy.uplinkPortOrder
    assert (shown.uplinkTeamingPolicy.policy.value, shown.vlan.vlanId) == ("failover_explicit", 111)
    assert (list(order.activeUplinkPort), list(order.standbyUplinkPort)) == ([second], [])


@pytest.mark.parametrize(
    ("policy", "active", "standby"),
    [("round_robin", 0, None), ("failover_explicit", "no such", None), ("failover_explicit", 0, 0)],
)
def test_teaming_that_cannot_be_is_refused(policy: str, active: Any, standby: Any) -> None:
    rig = SwitchRig()
    uplinks = list(rig.switch.config.uplinkPortPolicy.uplinkPortName)
    named = [
        tuple(uplinks[one] if one == 0 else one for one in (each,) if one is not None)
        for each in (active, standby)
    ]
    info = add(rig, Portgroup(name="odd", defaultPortConfig=teaming(policy, *named)))
    assert isinstance(info.error, vmodl.fault.InvalidArgument)
