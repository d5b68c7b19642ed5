"""Virtual NUMA on the wire: the size of a VM's nodes, and the node of a device."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.lab.group_rig import A100D, PAIR, GroupRig, config, of_groups, single
from tests.unit.lab.rig import add, change
from tests.unit.lab.wire.client import connect, one


def virtual(**fields: Any) -> Any:
    return vim.vm.VirtualNuma(**fields)


def on_node(spec: Any, node: int) -> Any:
    spec.device.numaNode = node
    return spec


def device_of(vm: Any, key: int = 13000) -> Any:
    return next(device for device in vm.config.hardware.device if device.key == key)


@pytest.mark.parametrize(("version", "is_taken"), [(19, False), (20, True), (21, True)])
def test_nodes_are_set_from_hardware_version_20_on(version: int, is_taken: bool) -> None:
    rig = GroupRig()
    info = rig.create("a", config(virtualNuma=virtual(coresPerNumaNode=4)), version=version)
    assert (info.error is None) is is_taken
    assert is_taken or isinstance(info.error, vim.fault.InvalidVmConfig)
    if is_taken:
        shown = info.result.config.numaInfo
        assert (shown.coresPerNumaNode, shown.autoCoresPerNumaNode) == (4, False)


def test_unset_is_the_servers_choice() -> None:
    shown = GroupRig().made("a", config()).config.numaInfo
    assert (shown.coresPerNumaNode, shown.autoCoresPerNumaNode) == (8, True)


def test_what_is_not_named_stays() -> None:
    rig = GroupRig()
    vm = rig.made("a", config(virtualNuma=virtual(coresPerNumaNode=4)))
    assert rig.reconfigured(vm, virtualNuma=virtual(exposeVnumaOnCpuHotadd=True)) is None
    shown = vm.config.numaInfo
    assert (shown.coresPerNumaNode, shown.vnumaOnCpuHotaddExposed) == (4, True)
    assert rig.reconfigured(vm, virtualNuma=virtual(coresPerNumaNode=0)) is None
    assert vm.config.numaInfo.autoCoresPerNumaNode
    assert isinstance(
        rig.reconfigured(vm, virtualNuma=virtual(coresPerNumaNode=-1)), vim.fault.InvalidVmConfig
    )


def test_nodes_do_not_change_while_the_vm_runs() -> None:
    rig = GroupRig()
    vm = rig.on("a", config())
    fault = rig.reconfigured(vm, virtualNuma=virtual(coresPerNumaNode=4))
    assert isinstance(fault, vim.fault.InvalidPowerState)


@pytest.mark.parametrize(("version", "is_taken"), [(19, False), (20, True)])
def test_a_device_has_a_node_from_hardware_version_20_on(version: int, is_taken: bool) -> None:
    rig = GroupRig()
    info = rig.create("a", config(on_node(single(A100D), 1)), version=version)
    assert (info.error is None) is is_taken
    assert is_taken or isinstance(info.error, vim.fault.InvalidDeviceSpec)
    if is_taken:
        assert device_of(info.result).numaNode == 1


def test_a_device_without_a_node_has_none() -> None:
    rig = GroupRig()
    vm = rig.made("a", config(single(A100D), on_node(single(A100D, -2), -1)))
    assert [device_of(vm, key).numaNode for key in (13000, 13001)] == [None, None]


def test_a_devices_node_is_edited_and_taken_away() -> None:
    rig = GroupRig()
    vm = rig.made("a", of_groups(PAIR))
    for sent, shown in ((1, 1), (None, 1), (0, 0), (-1, None)):
        device = device_of(vm)
        device.numaNode = sent
        assert rig.reconfigured(vm, deviceChange=[change("edit", device)]) is None
        assert device_of(vm).numaNode == shown
    assert device_of(vm, 13001).numaNode is None
    assert vm.config.deviceGroups.deviceGroup[0].deviceGroupName == PAIR


def test_a_nic_has_a_node_too() -> None:
    rig = GroupRig()
    backing = vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(deviceName="vm-network")
    vm = rig.made("a", config(on_node(add(vim.vm.device.VirtualVmxnet3(key=-1, backing=backing)), 1)))
    assert device_of(vm, 4000).numaNode == 1


def test_an_older_client_sees_no_nodes() -> None:
    rig = GroupRig()
    rig.made("a", config(on_node(single(A100D), 1), virtualNuma=virtual(coresPerNumaNode=4)))
    vm = one(connect(rig.lab, "7.0.3.0"), vim.VirtualMachine, "a")
    assert device_of(vm).numaNode is None
    assert vm.config.numaInfo is None
