"""What a VM's options do in the lab: hot-add, boot, latency sensitivity, CPU reservation."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.lab.rig import Rig
from tests.unit.lab.wire.client import shown
from vgpu_cfg.lab.state.inventory import VirtualMachine


@pytest.fixture
def rig() -> Rig:
    return Rig()


def read(rig: Rig, vm: VirtualMachine) -> Any:
    """Return a VM's `config` as a client reads it over the wire."""
    return shown(rig.lab, vm).config


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


def test_a_boot_delay_holds_from_the_next_power_on(rig: Rig) -> None:
    vm = rig.running("a")
    rig.done(vm, "ReconfigVM_Task", spec=boot(bootDelay=1000))
    assert read(rig, vm).bootOptions.bootDelay == 1000


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
    assert (type(fault), fault.property) == (
        vim.fault.InvalidVmConfig,
        "configSpec.bootOptions.efiSecureBootEnabled",
    )
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


def cpu(mhz: int) -> Any:
    return vim.vm.ConfigSpec(cpuAllocation=vim.ResourceAllocationInfo(reservation=mhz))


def low_latency(mhz: int, *, reserve: bool = True, threads: int | None = None) -> Any:
    spec = cpu(mhz)
    spec.numCPUs = 8
    spec.memoryReservationLockedToMax = reserve
    spec.latencySensitivity = vim.LatencySensitivity(level="high")
    spec.simultaneousThreads = threads
    return spec


def test_a_cpu_reservation_is_read_back_where_it_stands(rig: Rig) -> None:
    vm = rig.clone("a", config=cpu(4000))
    rig.done(
        vm,
        "ReconfigVM_Task",
        spec=vim.vm.ConfigSpec(cpuAllocation=vim.ResourceAllocationInfo(limit=9000)),
    )
    found = shown(rig.lab, vm)
    allocation = found.config.cpuAllocation
    assert (allocation.reservation, allocation.limit) == (4000, 9000)
    assert found.resourceConfig.cpuAllocation.reservation == 4000
    assert found.summary.config.cpuReservation == 4000


def test_no_cpu_reservation_is_none(rig: Rig) -> None:
    assert read(rig, rig.clone("a")).cpuAllocation.reservation == 0
    assert isinstance(rig.refused(rig.clone("b"), "ReconfigVM_Task", spec=cpu(-1)), vim.fault.InvalidVmConfig)


def test_cpus_are_admitted_as_long_as_there_are_some(rig: Rig) -> None:
    host = rig.host()
    most = host.cores * host.cpu_mhz
    rig.done(rig.clone("a", config=cpu(most - 1000)), "PowerOnVM_Task")
    fault = rig.refused(rig.clone("b", config=cpu(1001)), "PowerOnVM_Task")
    assert isinstance(fault, vim.fault.InsufficientCpuResourcesFault)
    assert (fault.unreserved, fault.requested) == (1000, 1001)
    vm = rig.clone("c", config=cpu(600))
    rig.done(vm, "PowerOnVM_Task")
    grown = rig.refused(vm, "ReconfigVM_Task", spec=cpu(1001))
    assert isinstance(grown, vim.fault.InsufficientCpuResourcesFault)
    rig.done(vm, "ReconfigVM_Task", spec=cpu(1000))
    rig.done(rig.vm("a"), "PowerOffVM_Task")
    rig.done(rig.vm("b"), "PowerOnVM_Task")


@pytest.mark.parametrize("level", ["normal", "high"])
def test_latency_sensitivity_is_read_back(rig: Rig, level: str) -> None:
    vm = rig.clone("a")
    assert read(rig, vm).latencySensitivity.level == "normal"
    spec = vim.vm.ConfigSpec(latencySensitivity=vim.LatencySensitivity(level=level))
    rig.done(vm, "ReconfigVM_Task", spec=spec)
    assert read(rig, vm).latencySensitivity.level == level


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        (low_latency(8 * 2794), None),
        (low_latency(8 * 2794 - 1), "(sched.cpu.min) should be at least 22352 MHz"),
        (low_latency(4 * 2794, threads=2), None),
        (low_latency(4 * 2794 - 1, threads=2), "(sched.cpu.min) should be at least 11176 MHz"),
        (low_latency(8 * 2794, reserve=False), "(sched.mem.min) should be equal to memsize(8192)"),
    ],
)
def test_high_latency_sensitivity_wants_all_reserved(rig: Rig, spec: Any, text: str | None) -> None:
    vm = rig.clone("a", config=spec)
    assert rig.host().cpu_mhz == 2794
    if text is None:
        rig.done(vm, "PowerOnVM_Task")
        return
    fault = rig.refused(vm, "PowerOnVM_Task")
    assert (type(fault), text in fault.msg) == (vim.fault.GenericVmConfigFault, True)
    normal = vim.vm.ConfigSpec(latencySensitivity=vim.LatencySensitivity(level="normal"))
    rig.done(vm, "ReconfigVM_Task", spec=normal)
    rig.done(vm, "PowerOnVM_Task")
