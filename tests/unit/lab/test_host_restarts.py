"""What is configured and what is in force never mix without a restart, whatever is written in which order."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from pyVmomi import vim

from tests.unit.lab.host_rig import A100_1, A100_HOST, CX6_0, HostRig, rig_of
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.state.inventory import Alarm, Host, LabState


def option(rig: HostRig, *, value: bool) -> None:
    change = vim.option.OptionValue(key="VMkernel.Boot.atsSupport", value=value)
    rig.host().configManager.advancedOption.UpdateOptions([change])


def module(rig: HostRig, *, value: bool) -> None:
    text = "pfctx=0x08 pfcrx=0x08" if value else ""
    rig.host().configManager.kernelModuleSystem.UpdateModuleOptionString("nmlx5_core", text)


def passthrough(rig: HostRig, *, value: bool) -> None:
    change = vim.host.PciPassthruConfig(id=A100_1, passthruEnabled=value, applyNow=False)
    rig.host().configManager.pciPassthruSystem.UpdatePassthruConfig([change])


def functions(rig: HostRig, *, value: bool) -> None:
    change = vim.host.SriovConfig(
        id=CX6_0, passthruEnabled=False, sriovEnabled=value, numVirtualFunction=4 if value else 0
    )
    rig.host().configManager.pciPassthruSystem.UpdatePassthruConfig([change])


def firmware(rig: HostRig, *, value: bool) -> None:
    parameters = rig.state().nics[1].firmware
    parameters["SRIOV_EN"].next_boot = "True(1)" if value else "False(0)"
    parameters["NUM_OF_VFS"].next_boot = "8" if value else "0"


def graphics(rig: HostRig, *, value: bool) -> None:
    manager = rig.host().configManager.graphicsManager
    config = manager.graphicsConfig
    wanted = "sharedDirect" if value else "shared"
    config.hostDefaultGraphicsType = wanted
    config.sharedPassthruAssignmentPolicy = "consolidation" if value else "performance"
    for device in config.deviceType:
        device.graphicsType = wanted
    manager.UpdateGraphicsConfig(config)


def gpu_modes(rig: HostRig, *, value: bool) -> None:
    gpu = rig.state().gpus[0]
    gpu.ecc_pending, gpu.mig_pending = not value, value


def driver(rig: HostRig, *, value: bool) -> None:
    vibs = [vib for bundle in rig.state().bundles.values() for vib in bundle]
    rig.state().staged = {vib.name: vib for vib in vibs} if value else {}


WRITES = (option, module, passthrough, functions, firmware, graphics, gpu_modes, driver)


def in_force(host: Host) -> dict[str, Any]:
    return {
        "types": [gpu.graphics_type for gpu in host.gpus],
        "policy": host.assignment_policy,
        "modes": [(gpu.ecc_enabled, gpu.mig_enabled) for gpu in host.gpus],
        "active": sorted(pci_id for pci_id, state in host.passthrough.items() if state.active),
        "functions": [nic.num_vfs for nic in host.nics],
        "firmware": [{name: each.current for name, each in nic.firmware.items()} for nic in host.nics],
        "kernel": {name: setting.runtime for name, setting in host.kernel.items()},
        "modules": {name: each.at_boot for name, each in host.modules.items()},
        "software": sorted(host.software),
        "driver": host.driver,
    }


def configured(host: Host) -> dict[str, Any]:
    return {
        "policy": host.configured_assignment_policy,
        "modes": [(gpu.ecc_pending, gpu.mig_pending) for gpu in host.gpus],
        "active": sorted(pci_id for pci_id, state in host.passthrough.items() if state.enabled),
        "firmware": [{name: each.next_boot for name, each in nic.firmware.items()} for nic in host.nics],
        "kernel": {name: setting.configured for name, setting in host.kernel.items()},
        "software": sorted({**host.software, **host.staged}),
    }


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(WRITES), st.booleans()), min_size=1, max_size=10))
def test_configured_and_in_force_never_mix_without_a_restart(writes: list[tuple[Any, bool]]) -> None:
    rig = HostRig()
    host = rig.state()
    before = in_force(host)
    for write, value in writes:
        write(rig, value=value)
        assert in_force(host) == before
    wanted = configured(host)
    rig.rest()
    assert in_force(host) == before
    rig.reboot()
    after = in_force(host)
    assert {name: after[name] for name in wanted} == wanted
    rig.reboot()
    assert in_force(host) == after


def test_a_stored_lab_keeps_everything_of_its_hosts(tmp_path: Path) -> None:
    rig = HostRig(folder=tmp_path)
    first = rig.lab
    for write in WRITES:
        write(rig, value=True)
    rig.content.alarmManager.CreateAlarm(
        rig.host(),
        vim.alarm.AlarmSpec(
            name="kept",
            description="",
            enabled=True,
            expression=vim.alarm.EventAlarmExpression(
                eventType=vim.event.EnteredMaintenanceModeEvent, status="yellow"
            ),
        ),
    )
    rig.content.setting.UpdateOptions([vim.option.OptionValue(key="vgpu.hotmigrate.enabled", value=True)])
    rig.rest()
    rig.done(rig.host().RebootHost_Task(force=False))
    with first.transaction():
        first.state.touch(rig.state())
    second = open_lab("bare", folder=tmp_path, clock=VirtualClock())
    assert second.state.leaving == first.state.leaving
    assert second.state.settings == first.state.settings
    assert _host(second.state) == _host(first.state)
    (one,), (other,) = (lab.state.all(Alarm) for lab in (first, second))
    assert (one.triggered, one.spec.name) == (other.triggered, other.spec.name)
    assert one.triggered
    rig.settle()
    second.settle()
    assert _host(second.state) == _host(first.state)
    assert in_force(_host(second.state))["driver"] is not None


FIRMWARE = """
about: A port whose firmware somebody changed, and one that is too old for ATS.
clusters:
- name: gpu
  hosts:
  - name: one.lab
    nics:
    - {firmware: {SRIOV_EN: "True(1)", NUM_OF_VFS: "8"}, ats: true}
    - {firmware: {ATS_ENABLED: null}}
"""


def test_an_estate_says_what_is_in_the_firmware(tmp_path: Path) -> None:
    rig = rig_of(FIRMWARE, tmp_path)
    changed, old = rig.state("one.lab").nics
    assert changed.is_on("SRIOV_EN")
    assert changed.is_on("ATS_ENABLED")
    assert changed.firmware["ATS_ENABLED"].default == "False(0)"
    assert changed.firmware["NUM_OF_VFS"].current == "8"
    assert "ATS_ENABLED" not in old.firmware
    assert not old.is_on("ATS_ENABLED")


def _host(state: LabState) -> Host:
    return next(host for host in state.all(Host) if host.name == A100_HOST)
