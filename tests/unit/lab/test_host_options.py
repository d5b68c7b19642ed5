"""Advanced options of hosts and of vCenter itself, over the wire."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import VmomiSupport, vim, vmodl

from tests.unit.lab.host_rig import L40S_HOST, HostRig

LONG: Any = VmomiSupport.vmodlTypes["long"]


def option(key: str, value: Any) -> Any:
    return vim.option.OptionValue(key=key, value=value)


def test_ats_is_an_option_from_7_0_u3_on_only() -> None:
    rig = HostRig()
    options = rig.host().configManager.advancedOption
    assert options.QueryOptions("VMkernel.Boot.atsSupport")[0].value is True
    options.UpdateOptions([option("VMkernel.Boot.atsSupport", value=False)])
    kernel = rig.state().kernel["atsSupport"]
    assert (kernel.configured, kernel.runtime) == ("FALSE", "TRUE")
    rig.rest()
    rig.reboot()
    assert kernel.runtime == "FALSE"
    old = rig.host(L40S_HOST).configManager.advancedOption
    assert "VMkernel.Boot.atsSupport" not in {each.key for each in old.QueryOptions("VMkernel.Boot.")}
    with pytest.raises(vim.fault.InvalidName):
        old.QueryOptions("VMkernel.Boot.atsSupport")
    with pytest.raises(vim.fault.InvalidName):
        old.UpdateOptions([option("VMkernel.Boot.atsSupport", value=True)])


def test_options_have_types() -> None:
    rig = HostRig()
    options = rig.host().configManager.advancedOption
    options.UpdateOptions([option("Net.PVRDMAVmknic", "vmk1")])
    options.UpdateOptions([option("UserVars.SuppressShellWarning", LONG(1))])
    assert options.QueryOptions("UserVars.SuppressShellWarning")[0].value == 1
    for key, value in (
        ("VMkernel.Boot.atsSupport", "FALSE"),
        ("UserVars.SuppressShellWarning", 2),
        ("Net.PVRDMAVmknic", True),
    ):
        with pytest.raises(vmodl.fault.InvalidArgument):
            options.UpdateOptions([option("Net.PVRDMAVmknic", "vmk9"), option(key, value)])
    assert options.QueryOptions("Net.PVRDMAVmknic")[0].value == "vmk1", "all or none"
    kinds = {each.key: type(each.optionType).__name__ for each in options.supportedOption}
    assert kinds["UserVars.SuppressShellWarning"].endswith("LongOption")
    with pytest.raises(vim.fault.InvalidName):
        options.QueryOptions("Numa.DeviceAffinity")


def test_writing_options_takes_a_privilege_that_pyvmomi_does_not_tell() -> None:
    rig = HostRig()
    options = rig.host().configManager.advancedOption
    rig.lab.faults.lacking.add("Host.Config.AdvancedConfig")
    with pytest.raises(vim.fault.NoPermission):
        options.UpdateOptions([option("Net.PVRDMAVmknic", "vmk1")])
    options.QueryOptions("Net.PVRDMAVmknic")


def test_vcenter_has_settings_of_its_own() -> None:
    rig = HostRig()
    settings = rig.content.setting
    assert settings.QueryOptions("vgpu.hotmigrate.enabled")[0].value is False
    settings.UpdateOptions([option("vgpu.hotmigrate.enabled", value=True)])
    assert settings.QueryOptions("vgpu.hotmigrate.enabled")[0].value is True
    with pytest.raises(vim.fault.InvalidName):
        settings.QueryOptions("vgpu.coldmigrate.enabled")
    with pytest.raises(vim.fault.InvalidName):
        settings.UpdateOptions([option("vgpu.coldmigrate.enabled", value=True)])
    with pytest.raises(vmodl.fault.InvalidArgument):
        settings.UpdateOptions([option("vgpu.hotmigrate.enabled", "yes")])
