"""Hosts changed as only the lab can, since vcsim has none of it: each thing read back, most taken back."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.vcenters import fresh, lab_vcenter
from tests.contract.vsphere.host_writing import (
    Workshop,
    alarm_names,
    datacenter,
    make,
    open_workshop,
    option_change,
    vcenter_option,
)
from vgpu_cfg.changes.kinds.change_host import (
    EsxcliWrite,
    GraphicsWrite,
    HostWrite,
    LicenceWrite,
    ModuleWrite,
    OptionWrite,
    PassthroughDevice,
    PassthroughWrite,
    RulesetWrite,
    SwitchWrite,
    VmknicWrite,
)
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.errors import NotOffered, NotPermitted, StalePlan, VCenterError, VersionTooOld
from vgpu_cfg.lab.state.inventory import Host
from vgpu_cfg.model.observed.gpu_use import AssignmentPolicy, GraphicsType
from vgpu_cfg.model.observed.host_facts import HostAttribute
from vgpu_cfg.model.observed.inventory import NetworkKind
from vgpu_cfg.model.vgpu import VgpuMode

GPU = "0000:21:00.0"
NIC = "0000:24:00.0"


def write(workshop: Workshop, wanted: HostWrite, moid: str = "", **secrets: str) -> int:
    """Carry out a write, and return how many round trips it took."""
    target = moid or workshop.host.moid
    return workshop.trips(lambda: workshop.writer.write_host(target, wanted, secrets))


def graphics(workshop: Workshop) -> Any:
    found = workshop.read("vim.HostSystem", workshop.host.moid, "config.graphicsConfig")
    return found["config.graphicsConfig"]


def test_graphics_are_configured_on_the_lab(on_lab: Workshop) -> None:
    before = graphics(on_lab)
    on = GraphicsWrite(
        default_type=GraphicsType.SHARED_DIRECT,
        assignment_policy=AssignmentPolicy.CONSOLIDATION,
        graphics_types={GPU: GraphicsType.SHARED},
        vgpu_modes={GPU: VgpuMode.MIXED_SIZE},
    )
    assert write(on_lab, on) == 2
    after = graphics(on_lab)
    assert after.hostDefaultGraphicsType == "sharedDirect"
    assert after.sharedPassthruAssignmentPolicy == "consolidation"
    entry = next(entry for entry in after.deviceType if entry.deviceId == GPU)
    assert (entry.graphicsType, entry.vgpuMode) == ("shared", "mixedSize")
    off = GraphicsWrite(
        default_type=GraphicsType(before.hostDefaultGraphicsType),
        assignment_policy=AssignmentPolicy(before.sharedPassthruAssignmentPolicy),
    )
    write(on_lab, off)
    assert graphics(on_lab).hostDefaultGraphicsType == before.hostDefaultGraphicsType
    again = next(entry for entry in graphics(on_lab).deviceType if entry.deviceId == GPU)
    assert (again.graphicsType, again.vgpuMode) == ("shared", "mixedSize")


def test_a_mode_is_refused_where_the_host_is_too_old_for_it(on_lab: Workshop) -> None:
    old = next(host for host in on_lab.desk.inventory().hosts if host.version.startswith("7.0"))
    with pytest.raises(VersionTooOld, match=r"8\.0\.3\.0, but the host has 7\.0"):
        write(on_lab, GraphicsWrite(vgpu_modes={GPU: VgpuMode.SAME_SIZE}), old.moid)
    write(on_lab, GraphicsWrite(default_type=GraphicsType.SHARED_DIRECT), old.moid)


def pci(workshop: Workshop, pci_id: str) -> Any:
    found = workshop.read("vim.HostSystem", workshop.host.moid, "config.pciPassthruInfo")
    return next(info for info in found["config.pciPassthruInfo"] if info.id == pci_id)


def test_functions_are_handed_through_labelled_and_divided_on_the_lab(on_lab: Workshop) -> None:
    for device in (
        PassthroughDevice(pci_id=GPU, is_passthrough=True, label="gpu"),
        PassthroughDevice(pci_id=NIC, virtual_functions=4),
    ):
        assert write(on_lab, PassthroughWrite(devices=(device,))) == 2
    assert (pci(on_lab, GPU).passthruEnabled, pci(on_lab, GPU).hardwareLabel) == (True, "gpu")
    assert pci(on_lab, NIC).numVirtualFunctionRequested == 4
    write(on_lab, PassthroughWrite(devices=(PassthroughDevice(pci_id=NIC, label="roce"),)))
    assert (pci(on_lab, NIC).hardwareLabel, pci(on_lab, NIC).numVirtualFunctionRequested) == ("roce", 4)
    back = (
        PassthroughDevice(pci_id=GPU, is_passthrough=False, label=""),
        PassthroughDevice(pci_id=NIC, virtual_functions=0),
    )
    write(on_lab, PassthroughWrite(devices=back))
    assert pci(on_lab, GPU).passthruEnabled is False
    assert not pci(on_lab, GPU).hardwareLabel
    assert pci(on_lab, NIC).numVirtualFunctionRequested == 0


def test_options_and_modules_on_the_lab(on_lab: Workshop) -> None:
    options = on_lab.desk.session.service_content.setting
    assert write(on_lab, OptionWrite(options={"VMkernel.Boot.atsSupport": False})) == 2
    assert write(on_lab, OptionWrite(options={"Net.PVRDMAVmknic": "vmk0"})) == 2
    found = on_lab.read("vim.HostSystem", on_lab.host.moid, "config.option")["config.option"]
    values = {option.key: option.value for option in found}
    assert values["VMkernel.Boot.atsSupport"] is False
    assert values["Net.PVRDMAVmknic"] == "vmk0"
    numbers = [key for key, value in values.items() if isinstance(value, int) and not isinstance(value, bool)]
    assert numbers
    assert write(on_lab, OptionWrite(options={numbers[0]: int(values[numbers[0]])})) == 3
    with pytest.raises(NotOffered, match=r"No\.such"):
        write(on_lab, OptionWrite(options={"No.such": True}))
    flow = ModuleWrite(module="nmlx5_core", options="pfctx=0x08 pfcrx=0x08")
    assert write(on_lab, flow) == 3
    assert write(on_lab, flow) == 3
    with pytest.raises(StalePlan, match="nmlx5_core"):
        write(on_lab, flow.model_copy(update={"options": "dcbx=1"}))
    assert write(on_lab, flow.model_copy(update={"options": "dcbx=1", "before": flow.options})) == 3
    with pytest.raises(NotOffered, match="nosuch"):
        write(on_lab, ModuleWrite(module="nosuch", options=""))
    on_lab.writer.set_vcenter_option(vcenter_option("vgpu.hotmigrate.enabled", value=True))
    (kept,) = options.QueryOptions("vgpu.hotmigrate.enabled")
    assert str(kept.value).lower() == "true"


def test_services_on_the_lab(on_lab: Workshop) -> None:
    moid = on_lab.host.moid
    assert on_lab.trips(lambda: on_lab.writer.control_service(moid, "TSM-SSH", "start")) == 2
    on_lab.writer.control_service(moid, "TSM-SSH", "stop")
    on_lab.writer.control_service(moid, "xorg", "restart")
    with pytest.raises(NotOffered, match="nosuch"):
        on_lab.writer.control_service(moid, "nosuch", "restart")


def test_an_alarm_is_raised_renewed_and_cleared_on_the_lab(on_lab: Workshop) -> None:
    moid, name = on_lab.host.moid, f"vgpu-cfg demo: {on_lab.host.name}"
    before = alarm_names(on_lab)
    on_lab.writer.raise_alarm(moid, "demo", "the first reason")
    assert f"{name} (the first reason)" in alarm_names(on_lab)
    on_lab.writer.raise_alarm(moid, "demo", "the second reason")
    assert f"{name} (the second reason)" in alarm_names(on_lab)
    assert states(on_lab) == []
    on_lab.succeeds(on_lab.writer.enter_maintenance(moid, "ensureAccessibility", 600))
    assert states(on_lab) == ["yellow"]
    on_lab.succeeds(on_lab.writer.exit_maintenance(moid, 600))
    assert states(on_lab) == []
    on_lab.writer.clear_alarm(moid, "other")
    assert f"{name} (the second reason)" in alarm_names(on_lab)
    assert on_lab.trips(lambda: on_lab.writer.clear_alarm(moid, "demo")) == 3
    assert alarm_names(on_lab) == before


def states(workshop: Workshop) -> list[str]:
    found = workshop.read("vim.HostSystem", workshop.host.moid, "triggeredAlarmState")
    return [str(state.overallStatus) for state in found.get("triggeredAlarmState") or ()]


def test_only_a_host_in_maintenance_mode_is_rebooted(on_lab: Workshop) -> None:
    moid = on_lab.host.moid
    for call in (on_lab.writer.reboot_host, on_lab.writer.shut_down_host):
        with pytest.raises(VCenterError):
            call(moid)
    on_lab.succeeds(on_lab.writer.enter_maintenance(moid, None, 600))
    on_lab.succeeds(on_lab.writer.reboot_host(moid))


def test_a_licence_is_assigned_on_the_lab(on_lab: Workshop) -> None:
    key = "AB0C1-DE2F3-GH4I5-JK6L7-MN8O9"
    assert write(on_lab, LicenceWrite(secret="esxi"), esxi=key) == 2
    with pytest.raises(VCenterError) as caught:
        write(on_lab, LicenceWrite(secret="esxi"), esxi="AB0C1-short")
    assert "AB0C1-short" not in str(caught.value)


def test_esxcli_reaches_the_lab(on_lab: Workshop) -> None:
    set_it = EsxcliWrite(
        command="system.settings.kernel.set", arguments=(("setting", "atsSupport"), ("value", "FALSE"))
    )
    assert write(on_lab, set_it) == 2


def vmknics(workshop: Workshop) -> dict[str, Any]:
    found = workshop.read("vim.HostSystem", workshop.host.moid, "config.network.vnic")
    return {nic.device: nic.spec for nic in found["config.network.vnic"]}


def test_vmknics_are_made_and_changed_on_the_lab(on_lab: Workshop) -> None:
    before = set(vmknics(on_lab))
    standard = next(net for net in on_lab.desk.inventory().networks if net.kind is NetworkKind.STANDARD)
    made = VmknicWrite(
        network_moid=standard.moid, network_name=standard.name, address="10.9.0.5/16", mtu=1500
    )
    assert write(on_lab, made) == 2
    (device,) = set(vmknics(on_lab)) - before
    assert vmknics(on_lab)[device].ip.subnetMask == "255.255.0.0"
    assert write(on_lab, VmknicWrite(device=device, address="dhcp")) == 2
    assert vmknics(on_lab)[device].ip.dhcp is True
    assert vmknics(on_lab)[device].mtu == 1500


def test_a_vmknic_is_made_on_a_distributed_portgroup_of_the_lab(on_lab: Workshop) -> None:
    name = fresh("roce")
    switch = make(on_lab, MakeSwitch(datacenter_moid=datacenter(on_lab), name=name, mtu=9000))
    members = {on_lab.host.moid: ("vmnic2",)}
    make(on_lab, EditSwitch(switch_name=name, switch_moid=switch, members=members))
    make(on_lab, SetPortgroup(switch_name=name, switch_moid=switch, name=f"{name}-100", vlan=100))
    portgroup = next(net for net in on_lab.desk.inventory().networks if net.name == f"{name}-100")
    before = set(vmknics(on_lab))
    made = VmknicWrite(
        network_moid=portgroup.moid, network_name=portgroup.name, address="10.9.0.6/16", mtu=9000
    )
    assert write(on_lab, made) == 3
    (device,) = set(vmknics(on_lab)) - before
    assert vmknics(on_lab)[device].distributedVirtualPort.portgroupKey == portgroup.portgroup_key
    assert write(on_lab, VmknicWrite(device=device, mtu=1500)) == 2
    assert vmknics(on_lab)[device].distributedVirtualPort.portgroupKey == portgroup.portgroup_key
    assert vmknics(on_lab)[device].mtu == 1500


def test_a_standard_switch_is_changed_on_the_lab(on_lab: Workshop) -> None:
    def spec() -> Any:
        found = on_lab.read("vim.HostSystem", on_lab.host.moid, "config.network.vswitch")
        return found["config.network.vswitch"][0].spec

    assert write(on_lab, SwitchWrite(switch="vSwitch0", mtu=9000)) == 2
    assert (spec().mtu, list(spec().bridge.nicDevice)) == (9000, ["vmnic0"])
    two = SwitchWrite(switch="vSwitch0", mtu=1500, uplinks=("vmnic0", "vmnic2"))
    with pytest.raises(StalePlan, match="now vmnic0, but were none when planned"):
        write(on_lab, two)
    write(on_lab, two.model_copy(update={"before": ("vmnic0",)}))
    assert (spec().mtu, list(spec().bridge.nicDevice)) == (1500, ["vmnic0", "vmnic2"])


@pytest.mark.parametrize(
    ("active", "unused", "after"),
    [
        (("vmnic2", "vmnic0"), (), ["vmnic2", "vmnic0", "vmnic3"]),
        (("vmnic2",), ("vmnic0",), ["vmnic2", "vmnic3"]),
    ],
)
def test_a_teaming_order_outlives_another_uplink_on_the_lab(
    active: tuple[str, ...], unused: tuple[str, ...], after: list[str]
) -> None:
    vcenter = lab_vcenter("bare")
    assert vcenter.lab is not None
    (workshop,) = open_workshop(vcenter)
    host = vcenter.lab.state.get(workshop.host.moid, Host)
    next(nic for nic in host.nics if nic.device == "vmnic2").uplink_of = "vSwitch0"
    host.switches["vSwitch0"].active, host.switches["vSwitch0"].unused = active, unused
    for workshop in open_workshop(vcenter):
        assert nic_order(workshop) == list(active)
        two, three = ("vmnic0", "vmnic2"), ("vmnic0", "vmnic2", "vmnic3")
        assert write(workshop, SwitchWrite(switch="vSwitch0", uplinks=three, before=two)) == 2
        assert nic_order(workshop) == after
        assert write(workshop, SwitchWrite(switch="vSwitch0", mtu=9000)) == 2
        assert nic_order(workshop) == after


def nic_order(workshop: Workshop) -> list[str]:
    found = workshop.read("vim.HostSystem", workshop.host.moid, "config.network.vswitch")
    return list(found["config.network.vswitch"][0].spec.policy.nicTeaming.nicOrder.activeNic)


def drs_options(workshop: Workshop) -> dict[str, str]:
    assert workshop.host.cluster_moid is not None
    config = workshop.read("vim.ClusterComputeResource", workshop.host.cluster_moid, "configurationEx")
    return {option.key: option.value for option in config["configurationEx"].drsConfig.option or ()}


def test_an_option_of_drs_comes_beside_the_others_and_goes(on_lab: Workshop) -> None:
    other = option_change(on_lab, "1").model_copy(update={"option": "ForceAffinePoweron"})
    on_lab.succeeds(on_lab.writer.set_cluster_option(other))
    before = drs_options(on_lab)
    on_lab.succeeds(on_lab.writer.set_cluster_option(option_change(on_lab, "-1")))
    assert drs_options(on_lab) == {**before, "VgpuMMAutomationTimeoutSecs": "-1"}
    on_lab.succeeds(on_lab.writer.set_cluster_option(option_change(on_lab, None)))
    assert drs_options(on_lab) == before


def lacking(privilege: str) -> Iterator[Workshop]:
    """Log in as somebody who lacks a privilege."""
    vcenter = lab_vcenter("bare")
    assert vcenter.lab is not None
    vcenter.lab.faults.lacking.add(privilege)
    yield from open_workshop(vcenter)


@pytest.mark.parametrize(
    ("wanted", "privilege"),
    [
        (GraphicsWrite(default_type=GraphicsType.SHARED_DIRECT), "Host.Config.Settings"),
        (ModuleWrite(module="nmlx5_core", options=""), "Host.Config.Settings"),
        (
            PassthroughWrite(devices=(PassthroughDevice(pci_id=GPU, is_passthrough=True),)),
            "Host.Config.PciPassthru",
        ),
        (OptionWrite(options={"VMkernel.Boot.atsSupport": False}), "Host.Config.AdvancedConfig"),
        (RulesetWrite(ruleset="pvrdma", is_enabled=True), "Host.Config.NetService"),
        (SwitchWrite(switch="vSwitch0", mtu=9000), "Host.Config.Network"),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_who_lacks_what_a_write_needs_is_told(wanted: HostWrite, privilege: str) -> None:
    for workshop in lacking(privilege):
        with pytest.raises(NotPermitted, match=re.escape(privilege)):
            write(workshop, wanted)


def test_who_may_not_take_a_host_down_or_mark_it_is_told() -> None:
    for workshop in lacking("Host.Config.Maintenance"):
        with pytest.raises(NotPermitted, match=r"Host\.Config\.Maintenance"):
            workshop.writer.enter_maintenance(workshop.host.moid, None, 60)
    for workshop in lacking("Global.SetCustomField"):
        with pytest.raises(NotPermitted, match=r"Global\.SetCustomField"):
            workshop.writer.set_host_attribute(workshop.host.moid, HostAttribute.MARK, "{}")
    for workshop in lacking("Alarm.Create"):
        with pytest.raises(NotPermitted, match=r"Alarm\.Create"):
            workshop.writer.raise_alarm(workshop.host.moid, "demo", "why")
