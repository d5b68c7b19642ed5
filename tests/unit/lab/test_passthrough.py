"""Whole devices handed through: fixed ones of one host, dynamic ones by ids and label."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.lab.rig import Rig
from vgpu_cfg.lab.state.devices import dynamic_of

_Passthrough = vim.vm.device.VirtualPCIPassthrough
HOST = "esx-a100-03.lab"
FREE = "0000:e2:00.0"


@pytest.fixture
def rig() -> Rig:
    """The VM `research-pt` holds the first of the host's A100 80 GB; one more is left in."""
    rig = Rig("mixed-fleet")
    del rig.host(HOST).gpus[1]
    return rig


def fixed(rig: Rig, host: str = HOST, pci_id: str = FREE, device_id: str = "20b5") -> Any:
    return _Passthrough.DeviceBackingInfo(
        id=pci_id, deviceId=device_id, systemId=rig.host(host).system_id, vendorId=0x10DE, deviceName=""
    )


def dynamic(label: str = "a100-pt", device_id: int = 0x20B5) -> Any:
    allowed = [_Passthrough.AllowedDevice(vendorId=0x10DE, deviceId=device_id)]
    return _Passthrough.DynamicBackingInfo(deviceName="", allowedDevice=allowed, customLabel=label)


def test_a_fixed_device_of_its_host(rig: Rig) -> None:
    vm = rig.running("a", devices=(fixed(rig),), host=HOST)
    assert rig.host(HOST).passthrough[FREE].vm == vm.moid
    other = rig.clone("b", devices=(fixed(rig),), host=HOST)
    assert rig.refused(other, "PowerOnVM_Task").reason == "Module 'DevicePowerOn' power on failed."
    assert other.log == [f"The device at {FREE} is in use by another virtual machine."]
    rig.done(vm, "PowerOffVM_Task")
    rig.done(other, "PowerOnVM_Task")


def test_the_system_id_ties_it_to_the_host(rig: Rig) -> None:
    wrong = rig.clone("a", devices=(fixed(rig, host="esx-a100-01.lab"),), host=HOST)
    assert rig.refused(wrong, "PowerOnVM_Task").reason == (
        "The systemId does not match the current system or the deviceId, and the vendorId does not match "
        "the device currently at 226:0.0."
    )
    wrong = rig.clone("b", devices=(fixed(rig, device_id="20f1"),), host=HOST)
    assert "does not match the device currently at 226:0.0" in rig.refused(wrong, "PowerOnVM_Task").reason


def test_a_device_that_is_not_handed_through(rig: Rig) -> None:
    vm = rig.clone("a", devices=(fixed(rig, host="esx-a100-01.lab"),), host="esx-a100-01.lab")
    assert rig.refused(vm, "PowerOnVM_Task").reason == (
        "Failed to start the virtual machine. Device 226:0.0 is not a passthrough device."
    )


def test_a_dynamic_device_is_assigned_at_power_on(rig: Rig) -> None:
    vm = rig.running("a", devices=(dynamic(),), cluster="a100")
    assert vm.host == rig.host(HOST).moid
    assert dynamic_of(vm.devices)[0].backing.assignedId == FREE
    assert isinstance(
        rig.refused(rig.clone("b", devices=(dynamic(),), host=HOST), "PowerOnVM_Task"),
        vim.fault.DeviceBackingNotSupported,
    )
    rig.done(vm, "PowerOffVM_Task")
    assert dynamic_of(vm.devices)[0].backing.assignedId is None
    rig.done(rig.vm("b"), "PowerOnVM_Task")


def test_one_by_label_and_one_by_address() -> None:
    whole = Rig("mixed-fleet")
    by_label = whole.running("any", devices=(dynamic(),), cluster="a100")
    whole.running("fixed", devices=(fixed(whole),), host=HOST)
    assert dynamic_of(by_label.devices)[0].backing.assignedId == "0000:41:00.0"


@pytest.mark.parametrize(("label", "device_id"), [("other", 0x20B5), ("a100-pt", 0x20F1)])
def test_label_and_ids_must_match(rig: Rig, label: str, device_id: int) -> None:
    vm = rig.clone("a", devices=(dynamic(label, device_id),), host=HOST)
    assert isinstance(rig.refused(vm, "PowerOnVM_Task"), vim.fault.DeviceBackingNotSupported)
    rig.running("b", devices=(dynamic(""),), host=HOST)


def test_dynamic_devices_need_hardware_17(rig: Rig) -> None:
    rig.vm("ubuntu-22.04-efi").hardware_version = 15
    fault = rig.refused(**rig.clone_call("a", devices=(dynamic(),), host=HOST))
    assert isinstance(fault, vim.fault.InvalidDeviceBacking)


def test_a_gpu_handed_through_serves_no_vgpu(rig: Rig) -> None:
    fault = rig.refused(**rig.clone_call("a", "grid_a100d-40c", host=HOST))
    assert isinstance(fault, vim.fault.InvalidDeviceBacking)


def test_passthrough_pins_memory_too(rig: Rig) -> None:
    vm = rig.clone("a", devices=(fixed(rig),), host=HOST, reserve=False)
    assert "sched.mem.min" in rig.refused(vm, "PowerOnVM_Task").reason
    vm = rig.clone("b", devices=(fixed(rig),), host=HOST, window_gb=128)
    assert rig.refused(vm, "PowerOnVM_Task").reason == "Module 'DevicePowerOn' power on failed."
