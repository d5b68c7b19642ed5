"""From a bare host to one that runs vGPUs, by the lab's own wire: every step is needed."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.lab.host_rig import A100_HOST, CX6_0, L40S_HOST, HostRig
from tests.unit.lab.rig import Rig


def share(rig: HostRig, name: str) -> None:
    """Configure all GPUs of a host for vGPUs, and restart Xorg."""
    host = rig.host(name)
    config = host.config.graphicsConfig
    config.hostDefaultGraphicsType = "sharedDirect"
    for device in config.deviceType:
        device.graphicsType = "sharedDirect"
    host.configManager.graphicsManager.UpdateGraphicsConfig(config)
    host.configManager.serviceSystem.RestartService("xorg")


def created(vms: Rig, name: str, profile: str) -> Any:
    return vms.clone("gpu-01", profile, host=name, memory_mib=16384)


def test_an_a100_host_runs_a_vgpu_once_it_has_driver_and_type() -> None:
    vms = Rig("bare")
    rig = HostRig(vms.lab)
    rig.install_driver()
    rig.leave()
    vm = created(vms, A100_HOST, "grid_a100-40c")
    refused = vms.refused(vm, "PowerOnVM_Task", host=vim.HostSystem(rig.state().moid))
    assert isinstance(refused, vim.fault.InsufficientGraphicsResourcesFault)
    share(rig, A100_HOST)
    vms.done(vm, "PowerOnVM_Task", host=vim.HostSystem(rig.state().moid))
    assert rig.host(A100_HOST).config.graphicsInfo[0].vm or rig.host(A100_HOST).config.graphicsInfo[1].vm


def test_an_l40s_host_needs_sriov_in_the_bios_too() -> None:
    vms = Rig("bare")
    rig = HostRig(vms.lab)
    rig.install_driver(L40S_HOST)
    share(rig, L40S_HOST)
    rig.leave(L40S_HOST)
    vm = created(vms, L40S_HOST, "nvidia_l40s-48c")
    there = vim.HostSystem(rig.state(L40S_HOST).moid)
    assert "libnvidia-vgx.so" in vms.refused(vm, "PowerOnVM_Task", host=there).msg
    rig.rest(L40S_HOST)
    rig.done(rig.host(L40S_HOST).ShutdownHost_Task(force=False))
    rig.settle()
    rig.lab.at_server(L40S_HOST, "bios", sriov=True)
    rig.lab.at_server(L40S_HOST, "power_on")
    rig.settle()
    rig.leave(L40S_HOST)
    vms.done(vm, "PowerOnVM_Task", host=there)


def test_mig_on_a_prepared_host_offers_its_profiles() -> None:
    vms = Rig("bare")
    rig = HostRig(vms.lab)
    rig.install_driver()
    share(rig, A100_HOST)
    rig.state().gpus[0].mig_pending = True
    assert "grid_a100-1-5c" not in rig.host().config.sharedPassthruGpuTypes
    rig.reboot()
    assert "grid_a100-1-5c" in rig.host().config.sharedPassthruGpuTypes
    assert rig.host().config.graphicsInfo[0].vgpuMode == "multiInstanceGpu"


def graphics(manager: Any) -> None:
    manager.graphicsManager.UpdateGraphicsConfig(manager.graphicsManager.graphicsConfig)


def passthrough(manager: Any) -> None:
    change = vim.host.PciPassthruConfig(id=CX6_0, passthruEnabled=True)
    manager.pciPassthruSystem.UpdatePassthruConfig([change])


def modules(manager: Any) -> None:
    manager.kernelModuleSystem.UpdateModuleOptionString("nmlx5_core", "pfctx=8")


def packages(manager: Any) -> None:
    manager.imageConfigManager.fetchSoftwarePackages()


def lockdown(manager: Any) -> None:
    manager.hostAccessManager.ChangeLockdownMode("lockdownNormal")


@pytest.mark.parametrize(
    ("call", "privilege"),
    [
        (graphics, "Host.Config.Settings"),
        (passthrough, "Host.Config.PciPassthru"),
        (modules, "Host.Config.Settings"),
        (packages, "Host.Config.Image"),
        (lockdown, "Host.Config.Settings"),
    ],
)
def test_every_manager_asks_for_its_privilege(call: Any, privilege: str) -> None:
    rig = HostRig()
    manager = rig.host().configManager
    rig.lab.faults.lacking.add(privilege)
    with pytest.raises(vim.fault.NoPermission) as caught:
        call(manager)
    assert getattr(caught.value, "privilegeId") == privilege  # noqa: B009 - pyvmomi's fault types are not declared
    rig.lab.faults.clear()
    call(manager)


def test_a_power_on_under_way_does_not_reach_a_host_that_enters() -> None:
    rig = HostRig()
    name = "esx-r12-04.lab"
    rig.cluster().drs_enabled = False
    archive = vim.VirtualMachine(rig.vm("archive-01").moid, rig.instance._stub)
    power_on = archive.PowerOnVM_Task()
    enter = rig.host(name).EnterMaintenanceMode_Task(0)
    assert isinstance(rig.end(power_on).error, vim.fault.InvalidState)
    assert enter.info.state == "success"


def test_two_hosts_that_enter_do_not_move_vms_to_each_other() -> None:
    rig = HostRig()
    names = (A100_HOST, "esx-r12-02.lab", L40S_HOST)
    tasks = [rig.host(name).EnterMaintenanceMode_Task(0) for name in names]
    assert [rig.end(task).state for task in tasks] == ["success"] * 3
    assert {rig.host_of(vm) for vm in ("web-01", "web-02", "mail-01", "db-01")} == {"esx-r12-04.lab"}
    last = rig.enter("esx-r12-04.lab", timeout=60)
    assert isinstance(last.error, vim.fault.Timedout)
