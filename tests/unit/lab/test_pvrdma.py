"""PVRDMA NICs in the lab: distributed portgroups of hardware 13 on, a known protocol, all memory reserved."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.lab.rig import Rig
from vgpu_cfg.lab.state.devices import nic_backing
from vgpu_cfg.lab.state.inventory import Network, VirtualMachine


@pytest.fixture
def rig() -> Rig:
    return Rig("two-a100")


def card(rig: Rig, network: str = "dv-train", protocol: str | None = "rocev2") -> Any:
    found = rig.find(Network, network)
    device = vim.vm.device.VirtualVmxnet3Vrdma(key=-1, deviceProtocol=protocol)
    device.backing = nic_backing(found, "50 01" if found.is_distributed else "")
    return vim.vm.device.VirtualDeviceSpec(operation="add", device=device)


def spec(*devices: Any, reserved: bool = True) -> Any:
    return vim.vm.ConfigSpec(deviceChange=list(devices), memoryReservationLockedToMax=reserved)


def rdma_nics(vm: VirtualMachine) -> list[Any]:
    return [one for one in vm.devices.values() if isinstance(one, vim.vm.device.VirtualVmxnet3Vrdma)]


@pytest.mark.parametrize(("asked", "shown"), [("rocev2", "rocev2"), ("rocev1", "rocev1"), (None, "rocev2")])
def test_it_is_made_as_a_network_adapter(rig: Rig, asked: str | None, shown: str) -> None:
    vm = rig.clone("a")
    rig.done(vm, "ReconfigVM_Task", spec=spec(card(rig, protocol=asked)))
    (nic,) = rdma_nics(vm)
    assert nic.deviceProtocol == shown
    assert nic.macAddress.startswith("00:50:56:")
    rig.done(vm, "PowerOnVM_Task")


def test_it_needs_a_distributed_portgroup(rig: Rig) -> None:
    fault = rig.refused(rig.clone("a"), "ReconfigVM_Task", spec=spec(card(rig, "vm-network")))
    assert isinstance(fault, vim.fault.InvalidDeviceBacking)


def test_it_needs_hardware_version_13(rig: Rig) -> None:
    vm = rig.clone("a")
    vm.hardware_version = 11
    fault = rig.refused(vm, "ReconfigVM_Task", spec=spec(card(rig)))
    assert isinstance(fault, vim.fault.InvalidDeviceBacking)


def test_it_speaks_no_unknown_protocol(rig: Rig) -> None:
    fault = rig.refused(rig.clone("a"), "ReconfigVM_Task", spec=spec(card(rig, protocol="rocev3")))
    assert isinstance(fault, vim.fault.InvalidDeviceSpec)


def test_without_all_memory_reserved_it_does_not_start(rig: Rig) -> None:
    vm = rig.clone("a")
    unreserved = spec(card(rig), reserved=False)
    unreserved.memoryAllocation = vim.ResourceAllocationInfo(reservation=0)
    rig.done(vm, "ReconfigVM_Task", spec=unreserved)
    assert "memory" in (rig.refused(vm, "PowerOnVM_Task").msg or "").casefold()
