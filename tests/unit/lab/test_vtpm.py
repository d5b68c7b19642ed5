"""A VM's virtual TPM: what it wants, and what a clone does with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import Rig, add, change, estate_of, gpu_spec
from tests.unit.lab.wire.client import shown
from vgpu_cfg.lab.state.devices import TPM
from vgpu_cfg.lab.state.inventory import VirtualMachine

ESTATE = """
about: a vCenter with a key provider, or without
vcenter: {vcenter}
clusters:
- {{name: gpu, hosts: [{{name: esx-1}}]}}
folders: [training]
templates:
- {{name: ubuntu-22.04-efi}}
"""
WITH = "{key_providers: [{name: own}]}"
NO_DEFAULT = "{key_providers: [{name: own, default: false}]}"
WITHOUT = "{}"


def rig_with(vcenter: str, tmp_path: Path) -> Rig:
    return Rig(estate_of(ESTATE.format(vcenter=vcenter), tmp_path))


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return rig_with(WITH, tmp_path)


def new_tpm() -> Any:
    return vim.vm.ConfigSpec(deviceChange=[add(vim.vm.device.VirtualTPM(key=-1))])


def tpms(rig: Rig, vm: VirtualMachine) -> list[Any]:
    """Return the virtual TPMs of a VM as a client reads them over the wire."""
    devices = shown(rig.lab, vm).config.hardware.device
    return [device for device in devices if isinstance(device, vim.vm.device.VirtualTPM)]


def test_it_is_added_read_back_and_removed(rig: Rig) -> None:
    vm = rig.clone("a")
    assert tpms(rig, vm) == []
    rig.done(vm, "ReconfigVM_Task", spec=new_tpm())
    (found,) = tpms(rig, vm)
    assert (found.key, found.deviceInfo.label) == (TPM, "Virtual TPM")
    rig.done(vm, "PowerOnVM_Task")
    rig.done(vm, "PowerOffVM_Task")
    rig.done(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(deviceChange=[change("remove", found)]))
    assert tpms(rig, vm) == []


def test_a_clone_can_be_given_one(rig: Rig) -> None:
    assert len(tpms(rig, rig.clone("a", config=new_tpm()))) == 1


@pytest.mark.parametrize("vcenter", [WITHOUT, NO_DEFAULT])
def test_it_wants_a_default_key_provider(tmp_path: Path, vcenter: str) -> None:
    rig = rig_with(vcenter, tmp_path)
    assert isinstance(rig.refused(rig.clone("a"), "ReconfigVM_Task", spec=new_tpm()), vmodl.RuntimeFault)
    assert tpms(rig, rig.vm("a")) == []


def test_a_vm_has_one_at_most(rig: Rig) -> None:
    vm = rig.clone("a", config=new_tpm())
    assert isinstance(rig.refused(vm, "ReconfigVM_Task", spec=new_tpm()), vim.fault.TooManyDevices)


@pytest.mark.parametrize(("version", "is_taken"), [(13, False), (14, True)])
def test_it_wants_hardware_of_esxi_6_7(rig: Rig, version: int, is_taken: bool) -> None:
    vm = rig.clone("a")
    vm.hardware_version = version
    assert (rig.run(vm, "ReconfigVM_Task", spec=new_tpm()).fault is None) is is_taken


@pytest.mark.parametrize("firmware", ["bios", "efi"])
def test_that_it_wants_efi_shows_at_the_power_on(rig: Rig, firmware: str) -> None:
    vm = rig.clone("a", config=gpu_spec(firmware=firmware, window_gb=None))
    rig.done(vm, "ReconfigVM_Task", spec=new_tpm())
    fault: Any = rig.run(vm, "PowerOnVM_Task").fault
    assert isinstance(fault, vim.fault.GenericVmConfigFault) is (firmware == "bios")
    assert fault is None or fault.msg == "The virtual machine must use EFI firmware."


def test_it_is_changed_only_while_the_vm_is_off(rig: Rig) -> None:
    vm = rig.running("a")
    assert isinstance(rig.refused(vm, "ReconfigVM_Task", spec=new_tpm()), vim.fault.InvalidPowerState)


def test_it_takes_a_privilege_more_than_other_devices(rig: Rig) -> None:
    rig.lab.faults.lacking.add("Cryptographer.Encrypt")
    vm = rig.clone("a")
    with pytest.raises(vim.fault.NoPermission) as caught:
        rig.run(vm, "ReconfigVM_Task", spec=new_tpm())
    assert caught.value.privilegeId == "Cryptographer.Encrypt"
    other = vim.vm.device.VirtualNVMEController(key=-1, busNumber=0)
    rig.done(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(deviceChange=[add(other)]))


@pytest.mark.parametrize("policy", [None, "copy", "replace"])
def test_a_clone_keeps_one(rig: Rig, policy: str | None) -> None:
    rig.clone("a", config=new_tpm())
    call = rig.clone_call("b", source="a")
    call["spec"].tpmProvisionPolicy = policy
    rig.done(**call)
    assert len(tpms(rig, rig.vm("b"))) == 1


def test_a_policy_that_there_is_not_is_refused(rig: Rig) -> None:
    call = rig.clone_call("b")
    call["spec"].tpmProvisionPolicy = "share"
    with pytest.raises(vmodl.fault.InvalidArgument):
        rig.run(**call)


def test_replacing_one_wants_a_key_and_copying_none(rig: Rig) -> None:
    rig.clone("a", config=new_tpm())
    rig.lab.state.key_providers = ()
    call = rig.clone_call("b", source="a")
    call["spec"].tpmProvisionPolicy = "replace"
    with pytest.raises(vmodl.RuntimeFault):
        rig.run(**call)
    call["spec"].tpmProvisionPolicy = "copy"
    rig.done(**call)
