"""What a VM's options do in the lab: hot-add, boot, latency sensitivity, CPU reservation."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.lab.rig import Rig
from tests.unit.lab.wire.client import connect
from vgpu_cfg.lab.state import VirtualMachine


@pytest.fixture
def rig() -> Rig:
    return Rig()


def read(rig: Rig, vm: VirtualMachine) -> Any:
    """Return a VM's `config` as a client reads it over the wire."""
    return vim.VirtualMachine(vm.moid, connect(rig.lab)._stub).config


def boot(**fields: Any) -> Any:
    return vim.vm.ConfigSpec(bootOptions=vim.vm.BootOptions(**fields))


@pytest.mark.parametrize("is_on", [True, False])
def test_hot_add_is_read_back(rig: Rig, is_on: bool) -> None:
    spec = vim.vm.ConfigSpec(cpuHotAddEnabled=is_on, memoryHotAddEnabled=not is_on)
    vm = rig.clone("a", config=spec)
    found = read(rig, vm)
    assert (found.cpuHotAddEnabled, found.memoryHotAddEnabled) == (is_on, not is_on)


@pytest.mark.parametrize(
    "spec",
    [
        vim.vm.ConfigSpec(cpuHotAddEnabled=True),
        vim.vm.ConfigSpec(memoryHotAddEnabled=True),
        boot(efiSecureBootEnabled=True),
        vim.vm.ConfigSpec(latencySensitivity=vim.LatencySensitivity(level="high")),
    ],
)
def test_these_want_the_vm_off(rig: Rig, spec: Any) -> None:
    vm = rig.clone("a")
    rig.done(vm, "ReconfigVM_Task", spec=spec)
    vm = rig.running("b")
    assert isinstance(rig.refused(vm, "ReconfigVM_Task", spec=spec), vim.fault.InvalidPowerState)


def test_boot_options_change_one_by_one(rig: Rig) -> None:
    vm = rig.clone("a")
    rig.done(vm, "ReconfigVM_Task", spec=boot(efiSecureBootEnabled=True, enterBIOSSetup=True))
    rig.done(vm, "ReconfigVM_Task", spec=boot(bootDelay=5000))
    found = read(rig, vm).bootOptions
    assert (found.efiSecureBootEnabled, found.bootDelay, found.enterBIOSSetup) == (True, 5000, True)
    rig.done(vm, "ReconfigVM_Task", spec=boot(efiSecureBootEnabled=False))
    found = read(rig, vm).bootOptions
    assert (found.efiSecureBootEnabled, found.bootDelay, found.enterBIOSSetup) == (False, 5000, True)


def test_secure_boot_wants_efi(rig: Rig) -> None:
    vm = rig.clone("a", firmware="bios", window_gb=None)
    fault = rig.refused(vm, "ReconfigVM_Task", spec=boot(efiSecureBootEnabled=True))
    assert isinstance(fault, vim.fault.InvalidVmConfig)
    assert fault.property == "configSpec.bootOptions.efiSecureBootEnabled"
    spec = boot(efiSecureBootEnabled=True)
    spec.firmware = "efi"
    rig.done(vm, "ReconfigVM_Task", spec=spec)
    back = rig.refused(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(firmware="bios"))
    assert isinstance(back, vim.fault.InvalidVmConfig)
    spec = boot(efiSecureBootEnabled=False)
    spec.firmware = "bios"
    rig.done(vm, "ReconfigVM_Task", spec=spec)


@pytest.mark.parametrize(("version", "is_taken"), [(12, False), (13, True)])
def test_secure_boot_wants_hardware_of_esxi_6_5(rig: Rig, version: int, is_taken: bool) -> None:
    vm = rig.clone("a")
    vm.hardware_version = version
    assert (rig.run(vm, "ReconfigVM_Task", spec=boot(efiSecureBootEnabled=True)).fault is None) is is_taken


@pytest.mark.parametrize("delay_ms", [0, 30_000])
def test_a_guest_is_up_after_the_boot_delay(rig: Rig, delay_ms: int) -> None:
    vm = rig.clone("a", config=boot(bootDelay=delay_ms))
    rig.done(vm, "PowerOnVM_Task")
    before = rig.lab.clock.now()
    guest = rig.booted(vm)
    assert round(rig.lab.clock.now() - before) == guest.boot_seconds + delay_ms // 1000


def test_no_boot_delay_is_below_nothing(rig: Rig) -> None:
    fault = rig.refused(rig.clone("a"), "ReconfigVM_Task", spec=boot(bootDelay=-1))
    assert isinstance(fault, vim.fault.InvalidVmConfig)
