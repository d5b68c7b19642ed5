"""What is configured and what is in force, over the wire: each method with its refusal and its twin."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.host_rig import (
    A100_0,
    A100_1,
    A100_HOST,
    CX6_0,
    L40S_HOST,
    UPLINK,
    HostRig,
)
from vgpu_cfg.lab.state.inventory import Host, VgpuUse


def graphics(rig: HostRig, name: str = A100_HOST, **fields: Any) -> None:
    """Write the configuration read back, with some fields changed."""
    manager = rig.host(name).configManager.graphicsManager
    config = manager.graphicsConfig
    for field, value in fields.items():
        setattr(config, field, value)
    manager.UpdateGraphicsConfig(config)
    manager.RefreshGraphicsManager()


def of_type(rig: HostRig, wanted: str, name: str = A100_HOST) -> None:
    """Configure the default type and every device's."""
    config = rig.host(name).config.graphicsConfig
    for device in config.deviceType:
        device.graphicsType = wanted
    graphics(rig, name, hostDefaultGraphicsType=wanted, deviceType=config.deviceType)


def types(rig: HostRig, name: str = A100_HOST) -> list[str]:
    return [info.graphicsType for info in rig.host(name).config.graphicsInfo]


def vgpu_vm(rig: HostRig, name: str = A100_HOST) -> None:
    """Let a VM run on a vGPU of a host."""
    rig.state(name).gpus[0].uses.append(VgpuUse(rig.vm("mail-01").moid, 13000, "grid_a100-10c"))


def test_a_graphics_type_waits_for_xorg_or_a_reboot() -> None:
    rig = HostRig()
    rig.install_driver()
    assert types(rig) == ["shared", "shared"]
    of_type(rig, "sharedDirect")
    config = rig.host().config.graphicsConfig
    assert config.hostDefaultGraphicsType == "sharedDirect"
    assert {device.graphicsType for device in config.deviceType} == {"sharedDirect"}
    assert types(rig) == ["shared", "shared"]
    assert not rig.host().config.sharedPassthruGpuTypes
    rig.host().configManager.serviceSystem.RestartService("xorg")
    assert types(rig) == ["sharedDirect", "sharedDirect"]
    assert "grid_a100-40c" in rig.host().config.sharedPassthruGpuTypes
    of_type(rig, "shared")
    rig.reboot()
    assert types(rig) == ["shared", "shared"]


def test_a_device_has_a_type_of_its_own_where_the_request_names_it() -> None:
    rig = HostRig()
    rig.install_driver()
    graphics(rig, hostDefaultGraphicsType="sharedDirect")
    rig.host().configManager.serviceSystem.RestartService("xorg")
    assert types(rig) == ["shared", "shared"], "each was named with its old type"
    graphics(rig, hostDefaultGraphicsType="sharedDirect", deviceType=[])
    rig.host().configManager.serviceSystem.RestartService("xorg")
    assert types(rig) == ["sharedDirect", "sharedDirect"]


def test_xorg_is_not_restarted_under_a_vgpu() -> None:
    rig = HostRig()
    rig.install_driver()
    of_type(rig, "sharedDirect")
    vgpu_vm(rig)
    with pytest.raises(vim.fault.HostConfigFault):
        rig.host().configManager.serviceSystem.RestartService("xorg")
    assert types(rig) == ["shared", "shared"]


def test_the_policy_waits_too_and_shows_as_an_option() -> None:
    rig = HostRig()
    graphics(rig, sharedPassthruAssignmentPolicy="consolidation")
    options = rig.host().configManager.advancedOption
    assert options.QueryOptions("Config.Defaults.vGPU.consolidation")[0].value is True
    assert rig.state().assignment_policy == "performance"
    rig.host().configManager.serviceSystem.RestartService("xorg")
    assert rig.state().assignment_policy == "consolidation"


def test_without_a_driver_the_type_stays_basic() -> None:
    rig = HostRig()
    of_type(rig, "sharedDirect")
    rig.rest()
    rig.reboot()
    assert types(rig) == ["basic", "basic"]


@pytest.mark.parametrize(
    "fields",
    [
        {"hostDefaultGraphicsType": "direct"},
        {"sharedPassthruAssignmentPolicy": "fastest"},
        {"deviceType": [vim.host.GraphicsConfig.DeviceType(deviceId="0000:ff:00.0", graphicsType="shared")]},
        {"deviceType": [vim.host.GraphicsConfig.DeviceType(deviceId=A100_0, graphicsType="basic")]},
        {
            "deviceType": [
                vim.host.GraphicsConfig.DeviceType(deviceId=A100_0, graphicsType="shared", vgpuMode="mig")
            ]
        },
    ],
)
def test_graphics_that_make_no_sense_are_refused_whole(fields: dict[str, Any]) -> None:
    rig = HostRig()
    before = str(rig.host().config.graphicsConfig)
    with pytest.raises(vmodl.fault.InvalidArgument):
        graphics(rig, **fields)
    assert str(rig.host().config.graphicsConfig) == before


def mode(rig: HostRig, wanted: str) -> None:
    config = rig.host().config.graphicsConfig
    for device in config.deviceType:
        device.vgpuMode = wanted
    graphics(rig, deviceType=config.deviceType)


def test_mixed_size_holds_at_once_and_is_lost_at_a_reboot() -> None:
    rig = HostRig()
    rig.install_driver()
    of_type(rig, "sharedDirect")
    rig.reboot()
    mode(rig, "mixedSize")
    assert [info.vgpuMode for info in rig.host().config.graphicsInfo] == ["mixedSize", "mixedSize"]
    rig.reboot()
    assert [info.vgpuMode for info in rig.host().config.graphicsInfo] == ["sameSize", "sameSize"]
    assert rig.host().config.graphicsConfig.deviceType[0].vgpuMode == "sameSize"


def test_the_mode_of_a_gpu_in_use_is_not_changed() -> None:
    rig = HostRig()
    rig.install_driver()
    vgpu_vm(rig)
    with pytest.raises(vim.fault.ResourceInUse):
        mode(rig, "mixedSize")
    mode(rig, "sameSize")


def test_an_old_host_knows_no_mixed_size() -> None:
    rig = HostRig()
    device = vim.host.GraphicsConfig.DeviceType(deviceId=A100_0, graphicsType="shared", vgpuMode="mixedSize")
    with pytest.raises(vmodl.fault.InvalidArgument):
        graphics(rig, L40S_HOST, deviceType=[device])


def passthrough(rig: HostRig, *entries: Any, name: str = A100_HOST) -> None:
    rig.host(name).configManager.pciPassthruSystem.UpdatePassthruConfig(list(entries))


def given(pci_id: str, *, enabled: bool = True, **more: Any) -> Any:
    return vim.host.PciPassthruConfig(id=pci_id, passthruEnabled=enabled, **more)


def functions(count: int, pci_id: str = CX6_0) -> Any:
    return vim.host.SriovConfig(
        id=pci_id, passthruEnabled=False, sriovEnabled=count > 0, numVirtualFunction=count
    )


def shown(rig: HostRig, pci_id: str, name: str = A100_HOST) -> Any:
    return next(info for info in rig.host(name).config.pciPassthruInfo if info.id == pci_id)


def vmnics(rig: HostRig) -> list[str]:
    return [nic.device for nic in rig.host().config.network.pnic]


def test_passthrough_holds_at_once_and_hides_the_nic() -> None:
    rig = HostRig()
    assert vmnics(rig) == ["vmnic0", "vmnic2", "vmnic3"]
    passthrough(rig, given(CX6_0, hardwareLabel="roce"))
    info = shown(rig, CX6_0)
    assert (info.passthruEnabled, info.passthruActive, info.hardwareLabel) == (True, True, "roce")
    assert not rig.host().summary.rebootRequired
    assert vmnics(rig) == ["vmnic0", "vmnic3"]
    passthrough(rig, given(CX6_0, enabled=False, hardwareLabel=""))
    assert vmnics(rig) == ["vmnic0", "vmnic2", "vmnic3"]
    assert shown(rig, CX6_0).hardwareLabel is None


@pytest.mark.parametrize("why", ["request", "host"])
def test_passthrough_waits_for_a_reboot_where_it_must(why: str) -> None:
    rig = HostRig()
    rig.state().rebinds_without_reboot = why == "request"
    assert rig.host().capability.deviceRebindWithoutRebootSupported == (why == "request")
    passthrough(rig, given(A100_1, applyNow=why == "host"))
    info = shown(rig, A100_1)
    assert (info.passthruEnabled, info.passthruActive) == (True, False)
    assert rig.host().summary.rebootRequired
    rig.rest()
    rig.reboot()
    assert shown(rig, A100_1).passthruActive
    assert not rig.host().summary.rebootRequired
    assert [info.pciId for info in rig.host().config.graphicsInfo] == [A100_0]


def test_a_function_that_a_vm_uses_stays_as_it_is() -> None:
    rig = HostRig()
    passthrough(rig, given(CX6_0))
    rig.state().passthrough[CX6_0].vm = rig.vm("mail-01").moid
    with pytest.raises(vim.fault.HostConfigFault, match="in use"):
        passthrough(rig, given(CX6_0, enabled=False))
    passthrough(rig, given(CX6_0, hardwareLabel="roce"))
    rig.state().passthrough[CX6_0].vm = None
    passthrough(rig, given(CX6_0, enabled=False))


def test_a_gpu_that_serves_vgpus_is_not_passed_through() -> None:
    rig = HostRig()
    vgpu_vm(rig)
    with pytest.raises(vim.fault.HostConfigFault, match="in use"):
        passthrough(rig, given(A100_1), given(A100_0))
    assert not shown(rig, A100_1).passthruEnabled, "all or none"
    passthrough(rig, given(A100_1))


@pytest.mark.parametrize("pci_id", [UPLINK, "0000:00:00.0"])
def test_what_the_host_needs_is_not_passed_through(pci_id: str) -> None:
    rig = HostRig()
    with pytest.raises(vim.fault.HostConfigFault):
        passthrough(rig, given(pci_id))
    with pytest.raises(vmodl.fault.InvalidArgument):
        passthrough(rig, given("0000:ff:00.0"))


def set_firmware(rig: HostRig, name: str = A100_HOST, **values: str) -> None:
    """Set parameters as mlxconfig does; index 1 is the first NIC behind the uplink."""
    for parameter, value in values.items():
        rig.state(name).nics[1].firmware[parameter].next_boot = value


def test_virtual_functions_need_firmware_and_a_reboot() -> None:
    rig = HostRig()
    passthrough(rig, functions(8))
    info = shown(rig, CX6_0)
    assert (info.numVirtualFunctionRequested, info.numVirtualFunction) == (8, 0)
    assert (info.sriovEnabled, info.sriovActive) == (True, False)
    assert rig.host().summary.rebootRequired
    rig.rest()
    rig.reboot()
    assert shown(rig, CX6_0).numVirtualFunction == 0, "the firmware has none"
    set_firmware(rig, SRIOV_EN="True(1)", NUM_OF_VFS="4")
    rig.reboot()
    assert shown(rig, CX6_0).numVirtualFunction == 4
    set_firmware(rig, NUM_OF_VFS="8")
    rig.reboot()
    info = shown(rig, CX6_0)
    assert (info.numVirtualFunction, info.sriovActive) == (8, True)
    passthrough(rig, functions(0))
    assert shown(rig, CX6_0).numVirtualFunction == 8
    rig.reboot()
    assert shown(rig, CX6_0).numVirtualFunction == 0


def test_virtual_functions_need_the_bios_too() -> None:
    rig = HostRig()
    set_firmware(rig, L40S_HOST, SRIOV_EN="True(1)", NUM_OF_VFS="8")
    passthrough(rig, functions(8), name=L40S_HOST)
    rig.rest(L40S_HOST)
    rig.power_cycle(L40S_HOST)
    assert shown(rig, CX6_0, L40S_HOST).numVirtualFunction == 0
    rig.done(rig.host(L40S_HOST).ShutdownHost_Task(force=False))
    rig.settle()
    rig.lab.at_server(L40S_HOST, "bios", sriov=True)
    rig.lab.at_server(L40S_HOST, "power_on")
    rig.settle()
    assert shown(rig, CX6_0, L40S_HOST).numVirtualFunction == 8


@pytest.mark.parametrize("entry", [functions(200), functions(4, A100_0)])
def test_virtual_functions_that_cannot_be_are_refused(entry: Any) -> None:
    rig = HostRig()
    with pytest.raises(vim.fault.HostConfigFault):
        passthrough(rig, entry)


def test_firmware_holds_after_a_reboot_unless_it_needs_a_cold_boot() -> None:
    rig = HostRig()
    for name in (A100_HOST, L40S_HOST):
        set_firmware(rig, name, ATS_ENABLED="True(1)")
        rig.rest(name)
        rig.reboot(name)
    assert rig.state().nics[1].is_on("ATS_ENABLED")
    assert not rig.state(L40S_HOST).nics[1].is_on("ATS_ENABLED")
    rig.power_cycle(L40S_HOST)
    assert rig.state(L40S_HOST).nics[1].is_on("ATS_ENABLED")


def test_ecc_and_mig_pending_become_current_on_ampere_and_mig_stays() -> None:
    rig = HostRig()
    rig.install_driver()
    gpu = rig.state().gpus[0]
    gpu.ecc_pending, gpu.mig_pending = False, True
    assert (gpu.ecc_enabled, gpu.mig_enabled) == (True, False)
    rig.reboot()
    assert (gpu.ecc_enabled, gpu.mig_enabled) == (False, True)
    rig.reboot()
    assert gpu.mig_enabled


def test_hopper_loses_mig_at_a_reboot() -> None:
    rig = HostRig("hgx-h100")
    (host,) = rig.lab.state.all(Host)
    gpu = host.gpus[0]
    gpu.mig_enabled = gpu.mig_pending = True
    rig.rest(host.name)
    rig.reboot(host.name)
    assert (gpu.mig_enabled, gpu.mig_pending) == (False, False)


def test_module_options_hold_from_the_next_boot_on() -> None:
    rig = HostRig()
    modules = rig.host().configManager.kernelModuleSystem
    modules.UpdateModuleOptionString("nmlx5_core", "pfctx=0x08 pfcrx=0x08")
    assert modules.QueryConfiguredModuleOptionString("nmlx5_core") == "pfctx=0x08 pfcrx=0x08"

    def at_boot() -> str:
        found = {module.name: str(module.optionString) for module in modules.QueryModules()}
        return found["nmlx5_core"]

    assert at_boot() == ""
    rig.rest()
    rig.reboot()
    assert at_boot() == "pfctx=0x08 pfcrx=0x08"


def test_the_driver_brings_its_module() -> None:
    rig = HostRig()
    modules = rig.host().configManager.kernelModuleSystem
    assert {module.name for module in modules.QueryModules()} == {"nmlx5_core", "nmlx5_rdma"}
    with pytest.raises(vim.fault.NotFound):
        modules.UpdateModuleOptionString("nvidia", "NVreg_RegistryDwords=RmPVMRL=0x01")
    with pytest.raises(vim.fault.NotFound):
        modules.QueryConfiguredModuleOptionString("nvidia")
    rig.install_driver()
    modules.UpdateModuleOptionString("nvidia", "NVreg_RegistryDwords=RmPVMRL=0x01")
    assert "nvidia" in {module.name for module in modules.QueryModules()}


def test_even_reading_modules_takes_a_privilege() -> None:
    rig = HostRig()
    modules = rig.host().configManager.kernelModuleSystem
    rig.lab.faults.lacking.add("Host.Config.Settings")
    with pytest.raises(vim.fault.NoPermission):
        modules.QueryModules()


def test_a_power_policy_is_offered_set_and_shown() -> None:
    rig = HostRig()
    power = rig.host().configManager.powerSystem
    assert [one.shortName for one in power.capability.availablePolicy] == [
        "static",
        "dynamic",
        "low",
        "custom",
    ]
    assert power.info.currentPolicy.shortName == "dynamic"
    power.ConfigurePowerPolicy(1)
    assert power.info.currentPolicy.shortName == "static"
    assert rig.host().config.powerSystemInfo.currentPolicy.key == 1
    with pytest.raises(vmodl.fault.InvalidArgument):
        power.ConfigurePowerPolicy(9)


def test_what_inventories_read_of_a_host_is_there() -> None:
    rig = HostRig()
    host = rig.host()
    manager = host.configManager
    networks = manager.networkSystem.networkConfig
    nics = {one.device for one in host.config.network.pnic}
    assert {one.device for one in networks.pnic} == nics
    assert {*networks.vswitch[0].spec.bridge.nicDevice} <= nics
    assert host.config.network.dnsConfig.hostName == A100_HOST.partition(".")[0]
    assert host.config.autoStart.defaults.enabled is False
    certificate = manager.certificateManager.certificateInfo
    assert A100_HOST in certificate.subject
    assert certificate.notBefore < certificate.notAfter
    assert manager.imageConfigManager.HostImageConfigGetAcceptance() == "partner"
    assert manager.storageSystem.storageDeviceInfo.multipathInfo.lun == []
    assert host.config.storageDevice.multipathInfo.lun == host.config.fileSystemVolume.mountInfo == []
    assert host.config.dateTimeInfo.timeZone.name == "UTC"
    task = host.datastoreBrowser.SearchDatastore_Task("[vsan]")
    rig.end(task)
    assert task.info.result.folderPath == "[vsan] "


def test_what_inventories_read_of_a_cluster_is_there() -> None:
    rig = HostRig()
    cluster = rig.host().parent
    usage = cluster.GetResourceUsage()
    assert usage.memCapacityMB == sum(host.hardware.memorySize for host in cluster.host) // 2**20
    assert 0 < usage.memUsedMB < usage.memCapacityMB
    assert cluster.configurationEx.vsanConfigInfo.enabled is True
    assert cluster.summaryEx.numHosts == len(cluster.host)
    cluster.RefreshRecommendation()
    assert cluster.recommendation == []
    can = cluster.environmentBrowser.QueryTargetCapabilities(None)
    assert can.vmotionSupported is True
