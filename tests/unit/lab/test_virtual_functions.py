"""SR-IOV cards at a power-on: as many as the physical function has virtual ones, and not one more."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.lab.rig import Rig
from vgpu_cfg.lab.state.host import Nic, Passthrough
from vgpu_cfg.lab.state.inventory import Network, VirtualMachine

HOST = "esx-01.lab"
_Sriov = vim.vm.device.VirtualSriovEthernetCard
_Passthrough = vim.vm.device.VirtualPCIPassthrough


@pytest.fixture
def rig() -> Rig:
    """The first NIC of the host has two virtual functions, the second has none."""
    rig = Rig("two-a100")
    roce_nics(rig)[0].num_vfs = 2
    return rig


def roce_nics(rig: Rig) -> list[Nic]:
    return [nic for nic in rig.host().nics if nic.max_vfs][:2]


def pci_ids(rig: Rig) -> list[str]:
    return [nic.pci.pci_id for nic in roce_nics(rig)]


def with_cards(rig: Rig, name: str, *functions: str | None) -> VirtualMachine:
    backing = vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(
        network=vim.Network(rig.find(Network, "vm-network").moid)
    )
    specs = [
        vim.vm.device.VirtualDeviceSpec(
            operation="add", device=_Sriov(key=-number, backing=backing, sriovBacking=sriov_backing(function))
        )
        for number, function in enumerate(functions, start=1)
    ]
    vm = rig.clone(name)
    spec = vim.vm.ConfigSpec(deviceChange=specs, memoryReservationLockedToMax=True)
    rig.done(vm, "ReconfigVM_Task", spec=spec)
    return vm


def sriov_backing(function: str | None) -> Any:
    if function is None:
        return None
    return _Sriov.SriovBackingInfo(
        physicalFunctionBacking=_Passthrough.DeviceBackingInfo(
            id=function, deviceId="", systemId="", vendorId=0, deviceName=""
        )
    )


def test_a_function_is_free_again_when_its_vm_stops(rig: Rig) -> None:
    first, _ = pci_ids(rig)
    one, two, three = (with_cards(rig, name, first) for name in ("a", "b", "c"))
    rig.done(one, "PowerOnVM_Task")
    rig.done(two, "PowerOnVM_Task")
    assert rig.refused(three, "PowerOnVM_Task").reason == "Module 'DevicePowerOn' power on failed."
    assert three.log == [f"The physical function {first} has no free virtual function."]
    rig.done(one, "PowerOffVM_Task")
    rig.done(three, "PowerOnVM_Task")


def test_two_cards_of_one_vm_take_two(rig: Rig) -> None:
    first, _ = pci_ids(rig)
    rig.done(with_cards(rig, "a", first), "PowerOnVM_Task")
    assert rig.refused(with_cards(rig, "b", first, first), "PowerOnVM_Task").reason is not None


def test_a_nic_without_virtual_functions_gives_none(rig: Rig) -> None:
    _, second = pci_ids(rig)
    assert rig.refused(with_cards(rig, "a", second), "PowerOnVM_Task").reason is not None
    assert rig.refused(with_cards(rig, "b", "0000:99:00.0"), "PowerOnVM_Task").reason is not None


@pytest.mark.parametrize("unnamed", [None, "Automatic-0000:00:00.0"])
def test_what_names_no_function_takes_any_that_is_left(rig: Rig, unnamed: str | None) -> None:
    first, _ = pci_ids(rig)
    rig.done(with_cards(rig, "a", first), "PowerOnVM_Task")
    rig.done(with_cards(rig, "b", unnamed), "PowerOnVM_Task")
    late = with_cards(rig, "c", unnamed)
    rig.refused(late, "PowerOnVM_Task")
    assert late.log == ["No physical function has a free virtual function."]


def test_a_virtual_function_pins_memory(rig: Rig) -> None:
    vm = with_cards(rig, "a", pci_ids(rig)[0])
    vm.memory_reservation_locked, vm.memory_reservation_mib = False, 0
    assert "sched.mem.min" in rig.refused(vm, "PowerOnVM_Task").reason


@pytest.mark.parametrize("by_label", [True, False])
def test_a_whole_nic_is_passed_through_like_a_gpu(rig: Rig, *, by_label: bool) -> None:
    _, second = pci_ids(rig)
    host = rig.host()
    device_id = roce_nics(rig)[1].pci.device_id
    backing: Any
    if by_label:
        backing = _Passthrough.DynamicBackingInfo(
            deviceName="",
            allowedDevice=[_Passthrough.AllowedDevice(vendorId=0x15B3, deviceId=device_id)],
            customLabel="rail",
        )
    else:
        backing = _Passthrough.DeviceBackingInfo(
            id=second,
            deviceId=format(device_id, "x"),
            systemId=host.system_id,
            vendorId=0x15B3,
            deviceName="",
        )
    rig.refused(rig.clone("early", devices=(backing,)), "PowerOnVM_Task")
    host.passthrough[second] = Passthrough(enabled=True, active=True, label="rail")
    vm = rig.clone("a", devices=(backing,))
    rig.done(vm, "PowerOnVM_Task")
    assert host.passthrough[second].vm == vm.moid
    rig.refused(rig.vm("early"), "PowerOnVM_Task")
    rig.done(vm, "PowerOffVM_Task")
    rig.done(rig.vm("early"), "PowerOnVM_Task")
