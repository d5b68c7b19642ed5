"""A host's own network, over the wire: VMkernel NICs and standard switches, each change with its refusals."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.host_rig import A100_HOST, OTHER_A100_HOST, HostRig
from tests.unit.lab.switch_rig import SwitchRig
from vgpu_cfg.lab.state.host_defaults import MANAGEMENT_NETWORK
from vgpu_cfg.lab.state.inventory import Host

PORT_GROUP: Any = vim.host.PortGroup.Specification
STATIC = {"dhcp": False, "ipAddress": "10.9.0.5", "subnetMask": "255.255.0.0"}


def spec(**fields: Any) -> Any:
    ip = vim.host.IpConfig(**fields.pop("ip", STATIC))
    return vim.host.VirtualNic.Specification(ip=ip, **fields)


def network(rig: HostRig, name: str = A100_HOST) -> Any:
    return rig.host(name).configManager.networkSystem


def vmknics(rig: HostRig, name: str = A100_HOST) -> dict[str, Any]:
    return {nic.device: nic for nic in rig.host(name).config.network.vnic}


def vm_network(rig: HostRig) -> str:
    """Return the name of the standard portgroup for VMs."""
    return str(next(net.name for net in rig.host().network if type(net) is vim.Network))


def test_a_vmkernel_nic_is_made_on_a_standard_portgroup() -> None:
    rig = HostRig()
    assert network(rig).AddVirtualNic(vm_network(rig), spec(mtu=9000)) == "vmk1"
    made = vmknics(rig)["vmk1"]
    assert (made.portgroup, made.spec.portgroup) == (vm_network(rig), vm_network(rig))
    assert (made.spec.ip.dhcp, made.spec.ip.ipAddress, made.spec.mtu) == (False, "10.9.0.5", 9000)
    assert made.spec.distributedVirtualPort is None
    assert made.spec.mac != vmknics(rig)["vmk0"].spec.mac
    assert set(vmknics(rig, OTHER_A100_HOST)) == {"vmk0"}


def test_a_vmkernel_nic_gets_the_lowest_free_number() -> None:
    rig = HostRig()
    network(rig).AddVirtualNic(vm_network(rig), spec())
    network(rig).RemoveVirtualNic("vmk1")
    assert network(rig).AddVirtualNic(vm_network(rig), spec()) == "vmk1"
    rig.state().vmknics.pop("vmk0")
    assert network(rig).AddVirtualNic(MANAGEMENT_NETWORK, spec()) == "vmk0"


def test_a_standard_portgroup_has_one_vmkernel_nic_at_most() -> None:
    rig = HostRig()
    with pytest.raises(vim.fault.AlreadyExists):
        network(rig).AddVirtualNic(MANAGEMENT_NETWORK, spec())


@pytest.mark.parametrize(
    ("ip", "wrong"),
    [
        ({**STATIC, "ipAddress": "10.9.0.500"}, "nic.ip.ipAddress"),
        ({"dhcp": False}, "nic.ip.ipAddress"),
        ({**STATIC, "subnetMask": "16"}, "nic.ip.subnetMask"),
        ({**STATIC, "subnetMask": "0.0.255.255"}, "nic.ip.subnetMask"),
        ({**STATIC, "subnetMask": None}, "nic.ip.subnetMask"),
        ({**STATIC, "dhcp": True}, "nic.ip.ipAddress"),
    ],
)
def test_an_address_that_cannot_be_is_refused(ip: dict[str, Any], wrong: str) -> None:
    rig = HostRig()
    with pytest.raises(vmodl.fault.InvalidArgument) as caught:
        network(rig).AddVirtualNic(vm_network(rig), spec(ip=ip))
    fault: Any = caught.value
    assert fault.invalidProperty == wrong
    assert set(vmknics(rig)) == {"vmk0"}


def test_a_portgroup_that_is_not_there_and_one_named_twice_are_refused() -> None:
    rig = SwitchRig()
    rig.join()
    port = rig.port(rig.portgroup(111))
    for name, nic in (
        ("nowhere", spec()),
        ("", spec()),
        (vm_network(rig), spec(distributedVirtualPort=port)),
    ):
        with pytest.raises(vmodl.fault.InvalidArgument):
            network(rig).AddVirtualNic(name, nic)
    with pytest.raises(vmodl.fault.InvalidArgument):
        network(rig).AddVirtualNic(vm_network(rig), vim.host.VirtualNic.Specification())


def test_a_vmkernel_nic_on_a_distributed_portgroup_takes_a_member() -> None:
    rig = SwitchRig()
    nic = spec(distributedVirtualPort=rig.port(rig.portgroup(111)), mtu=9000)
    with pytest.raises(vim.fault.HostConfigFault):
        network(rig).AddVirtualNic("", nic)
    rig.join()
    assert network(rig).AddVirtualNic("", nic) == "vmk1"
    made = vmknics(rig)["vmk1"]
    assert made.portgroup == ""
    assert made.spec.distributedVirtualPort.switchUuid == rig.switch.uuid
    assert network(rig).AddVirtualNic("", nic) == "vmk2"


@pytest.mark.parametrize("field", ["switchUuid", "portgroupKey"])
def test_a_port_of_another_switch_or_none_is_refused(field: str) -> None:
    rig = SwitchRig()
    rig.join()
    port = rig.port(rig.portgroup(111))
    setattr(port, field, "elsewhere")
    with pytest.raises(vmodl.fault.InvalidArgument):
        network(rig).AddVirtualNic("", spec(distributedVirtualPort=port))
    uplinks = rig.port(rig.switch.config.uplinkPortgroup[0])
    with pytest.raises(vmodl.fault.InvalidArgument):
        network(rig).AddVirtualNic("", spec(distributedVirtualPort=uplinks))


def test_a_vmkernel_nic_changes_what_is_named_and_loses_an_mtu_that_is_not() -> None:
    rig = HostRig()
    device = network(rig).AddVirtualNic(vm_network(rig), spec(mtu=9000))
    network(rig).UpdateVirtualNic(device, spec(ip={"dhcp": True}))
    changed = vmknics(rig)[device].spec
    assert (changed.ip.dhcp, changed.ip.ipAddress, changed.mtu) == (True, None, 1500)
    network(rig).UpdateVirtualNic(device, vim.host.VirtualNic.Specification(mtu=9000))
    changed = vmknics(rig)[device].spec
    assert (changed.ip.dhcp, changed.mtu, changed.portgroup) == (True, 9000, vm_network(rig))


def test_a_vmkernel_nic_moves_to_another_network() -> None:
    rig = SwitchRig()
    rig.join()
    device = network(rig).AddVirtualNic(vm_network(rig), spec())
    portgroup = rig.portgroup(111)
    network(rig).UpdateVirtualNic(device, spec(distributedVirtualPort=rig.port(portgroup)))
    moved = vmknics(rig)[device]
    assert (moved.portgroup, moved.spec.distributedVirtualPort.portgroupKey) == ("", portgroup.key)
    network(rig).UpdateVirtualNic(device, spec(portgroup=vm_network(rig)))
    assert vmknics(rig)[device].spec.distributedVirtualPort is None
    with pytest.raises(vim.fault.AlreadyExists):
        network(rig).UpdateVirtualNic(device, spec(portgroup=MANAGEMENT_NETWORK))


def test_what_is_not_there_is_neither_changed_nor_removed() -> None:
    rig = HostRig()
    calls: list[Callable[[], Any]] = [
        lambda: network(rig).UpdateVirtualNic("vmk7", spec()),
        lambda: network(rig).RemoveVirtualNic("vmk7"),
        lambda: network(rig).UpdateVirtualSwitch("vSwitch7", switch_spec(rig)),
    ]
    for call in calls:
        with pytest.raises(vim.fault.NotFound):
            call()


def test_the_only_management_interface_stays() -> None:
    rig = HostRig()
    with pytest.raises(vim.fault.HostConfigFault):
        network(rig).RemoveVirtualNic("vmk0")
    assert set(vmknics(rig)) == {"vmk0"}


@pytest.mark.parametrize("privilege", ["Host.Config.Network", "Network.Assign"])
def test_a_vmkernel_nic_on_a_distributed_portgroup_takes_both_privileges(privilege: str) -> None:
    rig = SwitchRig()
    rig.join()
    nic = spec(distributedVirtualPort=rig.port(rig.portgroup(111)))
    rig.lab.faults.lacking.add(privilege)
    with pytest.raises(vim.fault.NoPermission) as caught:
        network(rig).AddVirtualNic("", nic)
    assert caught.value.privilegeId == privilege
    if privilege == "Network.Assign":
        assert network(rig).AddVirtualNic(vm_network(rig), spec()) == "vmk1"


# ----------------------------------------------------------- standard switches


def switch_spec(rig: HostRig, **fields: Any) -> Any:
    """Return the spec of vSwitch0 as it is read, with some fields changed."""
    found = rig.host().config.network.vswitch[0].spec
    for field, value in fields.items():
        setattr(found, field, value)
    return found


def bond(*devices: str) -> Any:
    return vim.host.VirtualSwitch.BondBridge(nicDevice=list(devices))


def test_a_standard_switch_takes_the_uplinks_and_the_mtu_it_is_given() -> None:
    rig = HostRig()
    order = vim.host.NetworkPolicy.NicOrderPolicy(activeNic=["vmnic0"], standbyNic=["vmnic2"])
    policy = vim.host.NetworkPolicy(nicTeaming=vim.host.NetworkPolicy.NicTeamingPolicy(nicOrder=order))
    wanted = switch_spec(rig, bridge=bond("vmnic0", "vmnic2"), mtu=9000, policy=policy)
    network(rig).UpdateVirtualSwitch("vSwitch0", wanted)
    shown = rig.host().config.network.vswitch[0]
    assert list(shown.spec.bridge.nicDevice) == ["vmnic0", "vmnic2"]
    assert [key.rpartition("-")[2] for key in shown.pnic] == ["vmnic0", "vmnic2"]
    assert (shown.mtu, shown.spec.mtu) == (9000, 9000)
    read = shown.spec.policy.nicTeaming.nicOrder
    assert (list(read.activeNic), list(read.standbyNic)) == (["vmnic0"], ["vmnic2"])


def test_a_standard_switch_keeps_an_mtu_that_is_unset_and_loses_uplinks_that_are() -> None:
    rig = HostRig()
    network(rig).UpdateVirtualSwitch("vSwitch0", switch_spec(rig, mtu=9000))
    network(rig).UpdateVirtualSwitch("vSwitch0", switch_spec(rig, mtu=None, bridge=None, policy=None))
    shown = rig.host().config.network.vswitch[0]
    assert (shown.mtu, shown.spec.bridge, list(shown.pnic or ())) == (9000, None, [])
    assert rig.state().nics[0].uplink_of == ""


def test_a_teaming_order_names_no_other_nic() -> None:
    rig = HostRig()
    read = switch_spec(rig, bridge=bond("vmnic2"))
    with pytest.raises(vmodl.fault.InvalidArgument):
        network(rig).UpdateVirtualSwitch("vSwitch0", read)
    read.policy.nicTeaming.nicOrder.activeNic = ["vmnic2"]
    network(rig).UpdateVirtualSwitch("vSwitch0", read)
    assert list(rig.host().config.network.vswitch[0].spec.bridge.nicDevice) == ["vmnic2"]


def test_a_nic_of_another_switch_and_one_that_is_not_there_are_refused() -> None:
    rig = SwitchRig()
    rig.join(nics=("vmnic2",))
    with pytest.raises(vim.fault.ResourceInUse):
        network(rig).UpdateVirtualSwitch("vSwitch0", switch_spec(rig, bridge=bond("vmnic0", "vmnic2")))
    with pytest.raises(vmodl.fault.InvalidArgument):
        network(rig).UpdateVirtualSwitch("vSwitch0", switch_spec(rig, bridge=bond("vmnic0", "vmnic9")))
    simple = vim.host.VirtualSwitch.SimpleBridge(nicDevice="vmnic0")
    with pytest.raises(vmodl.fault.InvalidArgument):
        network(rig).UpdateVirtualSwitch("vSwitch0", switch_spec(rig, bridge=simple))
    assert rig.state().nics[1].uplink_of == rig.switch._moId


def test_changing_a_standard_switch_takes_a_privilege() -> None:
    rig = HostRig()
    wanted = switch_spec(rig, mtu=9000)
    rig.lab.faults.lacking.add("Host.Config.Network")
    with pytest.raises(vim.fault.NoPermission):
        network(rig).UpdateVirtualSwitch("vSwitch0", wanted)


def test_what_a_host_has_is_kept_in_a_saved_lab(tmp_path: Path) -> None:
    rig = SwitchRig(tmp_path)
    rig.join()
    network(rig).AddVirtualNic("", spec(distributedVirtualPort=rig.port(rig.portgroup(111))))
    host = next(host for host in rig.opened_again().state.all(Host) if host.name == A100_HOST)
    assert host.vmknics == rig.state().vmknics
    assert len(host.vmknics) == 2
    assert [nic.uplink_of for nic in host.nics] == ["vSwitch0", rig.switch._moId, ""]


def test_a_standard_switch_and_a_portgroup_are_made_changed_and_removed() -> None:
    rig = HostRig()
    system = network(rig)
    system.AddVirtualSwitch("vSwitch9", vim.host.VirtualSwitch.Specification(numPorts=128, mtu=9000))
    made = PORT_GROUP(name="pg", vlanId=9, vswitchName="vSwitch9", policy=vim.host.NetworkPolicy())
    system.AddPortGroup(made)
    for again, what in ((system.AddPortGroup, made), (system.AddVirtualSwitch, "vSwitch9")):
        with pytest.raises(vim.fault.AlreadyExists):
            again(what)
    made.name, made.vlanId = "pg2", 10
    system.UpdatePortGroup("pg", made)
    shown = {group.spec.name: group.spec.vlanId for group in rig.host().config.network.portgroup}
    assert shown["pg2"] == 10
    assert "pg" not in shown
    system.AddVirtualNic("pg2", spec())
    with pytest.raises(vim.fault.ResourceInUse):
        system.RemovePortGroup("pg2")
    with pytest.raises(vim.fault.ResourceInUse):
        system.RemoveVirtualSwitch("vSwitch9")
    system.RemoveVirtualNic("vmk1")
    system.RemovePortGroup("pg2")
    system.RemoveVirtualSwitch("vSwitch9")
    for gone, name in ((system.RemovePortGroup, "pg2"), (system.RemoveVirtualSwitch, "vSwitch9")):
        with pytest.raises(vim.fault.NotFound):
            gone(name)


def test_what_a_portgroup_cannot_be_is_refused() -> None:
    system = network(HostRig())
    made = PORT_GROUP(name="pg", vlanId=4096, vswitchName="vSwitch0", policy=vim.host.NetworkPolicy())
    with pytest.raises(vmodl.fault.InvalidArgument):
        system.AddPortGroup(made)
    made.vlanId, made.vswitchName = 4095, "none"
    with pytest.raises(vim.fault.NotFound):
        system.AddPortGroup(made)


def test_nothing_is_heard_on_the_wires_of_nics() -> None:
    system = network(HostRig())
    hints = system.QueryNetworkHint([])
    assert [hint.device for hint in hints][:1] == ["vmnic0"]
    with pytest.raises(vim.fault.NotFound):
        system.QueryNetworkHint(["vmnic99"])


def test_a_host_keeps_the_ntp_servers_that_it_is_told() -> None:
    rig = HostRig()
    clock = rig.host().configManager.dateTimeSystem
    servers = vim.host.NtpConfig(server=["time.lab"])
    clock.UpdateDateTimeConfig(vim.host.DateTimeConfig(ntpConfig=servers))
    assert clock.dateTimeInfo.ntpConfig.server == ["time.lab"]
    assert clock.QueryDateTime() is not None
    with pytest.raises(vmodl.fault.InvalidArgument):
        clock.UpdateDateTimeConfig(vim.host.DateTimeConfig(timeZone="Europe/Berlin"))
