from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.wire.client import connect, everything, open_virtual
from vgpu_cfg.lab.state.inventory import Host, Passthrough
from vgpu_cfg.lab.vcenter import Lab

Passthru: Any = vim.vm.device.VirtualPCIPassthroughOption


def browser_of(instance: Any) -> Any:
    return everything(instance, vim.ComputeResource)[0].environmentBrowser


def target_of(lab: Lab) -> Any:
    instance = connect(lab)
    return browser_of(instance).QueryConfigTarget(everything(instance, vim.HostSystem)[0])


def test_a_host_tells_its_profiles_boards_and_nodes() -> None:
    target = target_of(open_virtual("two-a100"))
    assert target.numNumaNodes == 2
    (board,) = target.vgpuDeviceInfo
    assert (board.deviceVendorId, board.maxFbSizeInGib) == (0x20F110DE, 40)
    assert (board.timeSlicedCapable, board.migCapable) == (True, True)
    profiles = {info.profileName: info for info in target.vgpuProfileInfo}
    assert profiles["grid_a100-40c"].profileSharing == "timeSliced"
    assert profiles["grid_a100-1-5c"].fbSizeInGib == 5
    assert "grid_a100-40c" in [info.vgpu for info in target.sharedGpuPassthroughTypes]
    assert not target.pciPassthrough
    assert not target.dynamicPassthrough


def test_a_host_without_gpus_offers_none() -> None:
    target = target_of(open_virtual("no-gpu"))
    assert not target.vgpuProfileInfo
    assert not target.sharedGpuPassthroughTypes
    assert target.datastore


def test_a_gpu_in_mig_mode_offers_slices_only() -> None:
    lab = open_virtual("mig-a100")
    names = [info.vgpu for info in target_of(lab).sharedGpuPassthroughTypes]
    assert "grid_a100-1-5c" in names
    assert "grid_a100-40c" not in names
    instance = connect(lab)
    (info, *_) = everything(instance, vim.HostSystem)[0].config.graphicsInfo
    assert info.vgpuMode == "multiInstanceGpu"


def test_a_gpu_passed_through_moves_from_one_list_to_the_others() -> None:
    lab = open_virtual("two-a100")
    (host,) = lab.state.all(Host)
    host.passthrough["0000:21:00.0"] = Passthrough(enabled=True, active=True, label="gpu")
    target = target_of(lab)
    (fixed,) = target.pciPassthrough
    assert (fixed.pciDevice.id, fixed.systemId) == ("0000:21:00.0", host.system_id)
    (dynamic,) = target.dynamicPassthrough
    assert (dynamic.vendorId, dynamic.deviceId, dynamic.customLabel) == (0x10DE, 0x20F1, "gpu")
    instance = connect(lab)
    shown = everything(instance, vim.HostSystem)[0].config
    assert [info.pciId for info in shown.graphicsInfo] == ["0000:e2:00.0"]
    states = {info.id: info for info in shown.pciPassthruInfo}
    assert states["0000:21:00.0"].passthruActive
    assert not states["0000:e2:00.0"].passthruActive


def test_device_groups_follow_the_bridges() -> None:
    lab = open_virtual("nvlink-4xa100")
    (group,) = target_of(lab).vendorDeviceGroupInfo
    assert group.deviceGroupName == "Nvidia:2@grid_a100d-80c%NVLink"
    assert [part.device.deviceGroupInfo.sequenceId for part in group.componentDeviceInfo] == [0, 1]
    assert {part.device.backing.vgpu for part in group.componentDeviceInfo} == {"grid_a100d-80c"}
    instance = connect(lab)
    manager = everything(instance, vim.HostSystem)[0].configManager.assignableHardwareManager
    found = manager.RetrieveVendorDeviceGroupInfo()
    assert [each.deviceGroupName for each in found] == [group.deviceGroupName]


def test_an_nvswitch_joins_two_four_or_eight() -> None:
    names = [info.deviceGroupName for info in target_of(open_virtual("hgx-h100")).vendorDeviceGroupInfo]
    assert names == [f"Nvidia:{size}@nvidia_h100xm-80c%NVLink" for size in (2, 4, 8)]


@pytest.mark.parametrize("why", ["mig", "no-daemon", "old-host", "no-bridge"])
def test_without_their_conditions_there_are_no_groups(why: str) -> None:
    lab = open_virtual("nvlink-4xa100")
    (host,) = lab.state.all(Host)
    match why:
        case "mig":
            for gpu in host.gpus:
                gpu.mig_enabled = True
        case "no-daemon":
            host.driver = None
        case "old-host":
            host.version, host.api_version = "7.0.3", "7.0.3.0"
        case _:
            for gpu in host.gpus:
                gpu.nvlink_peers = ()
    assert not target_of(lab).vendorDeviceGroupInfo


@pytest.mark.parametrize(
    ("version", "vgpus", "passthrough"),
    [(10, None, 16), (11, 1, 16), (14, 1, 16), (15, 4, 16), (19, 4, 16), (20, 8, 128), (21, 16, 128)],
)
def test_a_hardware_version_limits_the_devices(version: int, vgpus: int | None, passthrough: int) -> None:
    browser = browser_of(connect(open_virtual("two-a100")))
    query = vim.EnvironmentBrowser.ConfigOptionQuerySpec(key=f"vmx-{version:02d}")
    option = browser.QueryConfigOptionEx(query)
    assert (option.version, option.hardwareOptions.hwVersion) == (f"vmx-{version:02d}", version)
    devices = {type(found): found for found in option.hardwareOptions.virtualDeviceOption}
    backings = {type(found): found for found in devices[Passthru].backingOption}
    vmiop = backings.get(Passthru.VmiopBackingOption)
    assert (vmiop.maxInstances if vmiop is not None else None) == vgpus
    assert (Passthru.DynamicBackingOption in backings) is (version >= 17)
    assert devices[vim.vm.device.VirtualPCIControllerOption].numPCIPassthroughDevices.max == passthrough


def test_the_default_is_the_newest_that_the_hosts_run() -> None:
    lab = open_virtual("two-a100")
    browser = browser_of(connect(lab))
    assert browser.QueryConfigOption(None, None).version == "vmx-21"
    found = browser.QueryConfigOptionDescriptor()
    assert [each.key for each in found if each.defaultConfigOption] == ["vmx-21"]
    assert "vmx-22" not in [each.key for each in found]
    with pytest.raises(vmodl.fault.InvalidArgument):
        browser.QueryConfigOption("vmx-22", None)


def test_a_host_of_elsewhere_is_refused() -> None:
    browser = browser_of(connect(open_virtual("two-a100")))
    with pytest.raises(vmodl.fault.InvalidArgument):
        browser.QueryConfigTarget(vim.HostSystem("host-999"))


def test_only_the_guests_asked_for_are_described() -> None:
    browser = browser_of(connect(open_virtual("two-a100")))
    query = vim.EnvironmentBrowser.ConfigOptionQuerySpec(guestId=["ubuntu64Guest"])
    (guest,) = browser.QueryConfigOptionEx(query).guestOSDescriptor
    assert (guest.id, guest.fullName) == ("ubuntu64Guest", "Ubuntu Linux (64-bit)")


def test_a_host_as_it_comes_out_of_the_box_shows_so() -> None:
    lab = open_virtual("bare")
    instance = connect(lab)
    for host in everything(instance, vim.HostSystem):
        config = host.config
        assert config.graphicsConfig.hostDefaultGraphicsType == "shared"
        assert not config.sharedPassthruGpuTypes
        assert host.configManager.graphicsManager.IsSharedGraphicsActive() in (True, False)


def test_advanced_options_are_found_by_name_and_prefix() -> None:
    lab = open_virtual("two-a100")
    (host,) = lab.state.all(Host)
    host.advanced["Net.PVRDMAVmknic"].value = "vmk1"
    manager = everything(connect(lab), vim.HostSystem)[0].configManager.advancedOption
    assert [(found.key, found.value) for found in manager.QueryOptions("Net.PVRDMAVmknic")] == [
        ("Net.PVRDMAVmknic", "vmk1")
    ]
    boot = {found.key: found.value for found in manager.QueryOptions("VMkernel.Boot.")}
    assert boot["VMkernel.Boot.atsSupport"] is True
    with pytest.raises(vim.fault.InvalidName):
        manager.QueryOptions("Nothing.Such")
