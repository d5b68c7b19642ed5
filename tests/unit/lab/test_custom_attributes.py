"""Custom attributes of VMs: defined, set, read where the API shows them, and gone with the VM."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import Rig
from tests.unit.lab.wire.client import connect
from vgpu_cfg.lab.state.inventory import VirtualMachine


@pytest.fixture
def rig() -> Rig:
    return Rig()


@pytest.fixture
def manager(rig: Rig) -> Any:
    return connect(rig.lab).content.customFieldsManager


def shown(manager: Any, vm: VirtualMachine) -> Any:
    return vim.VirtualMachine(vm.moid, manager._stub)


def values(found: Any) -> dict[int, str]:
    return {value.key: value.value for value in found}


def test_one_is_defined_for_vms_set_and_read_back(rig: Rig, manager: Any) -> None:
    field = manager.AddCustomFieldDef(name="course", moType=vim.VirtualMachine)
    assert (field.name, field.managedObjectType) == ("course", vim.VirtualMachine)
    vm = shown(manager, rig.clone("a"))
    assert [found.key for found in vm.availableField] == [field.key]
    manager.SetField(entity=vm, key=field.key, value="ml-2026")
    for found in (vm.customValue, vm.value, vm.summary.customValue):
        assert values(found) == {field.key: "ml-2026"}
    manager.SetField(entity=vm, key=field.key, value="")
    for found in (vm.customValue, vm.value, vm.summary.customValue):
        assert not found


def test_a_vm_without_any_shows_none(rig: Rig, manager: Any) -> None:
    vm = shown(manager, rig.clone("a"))
    assert not vm.customValue
    assert not vm.availableField


def test_they_are_listed_by_name(manager: Any) -> None:
    for name in ("owner", "course"):
        manager.AddCustomFieldDef(name=name, moType=vim.VirtualMachine)
    assert [field.name for field in manager.field] == ["course", "owner"]


def test_a_name_is_taken_once(manager: Any) -> None:
    course = manager.AddCustomFieldDef(name="course", moType=vim.VirtualMachine)
    owner = manager.AddCustomFieldDef(name="owner", moType=vim.VirtualMachine)
    with pytest.raises(vim.fault.DuplicateName):
        manager.AddCustomFieldDef(name="course", moType=vim.VirtualMachine)
    with pytest.raises(vim.fault.DuplicateName):
        manager.RenameCustomFieldDef(key=owner.key, name="course")
    manager.RenameCustomFieldDef(key=course.key, name="course")
    manager.RenameCustomFieldDef(key=owner.key, name="who")
    assert [field.name for field in manager.field] == ["course", "who"]


@pytest.mark.parametrize(
    ("kind", "is_taken"), [(vim.VirtualMachine, True), (None, True), (vim.HostSystem, False)]
)
def test_one_of_another_type_is_not_set(rig: Rig, manager: Any, kind: Any, is_taken: bool) -> None:
    field = manager.AddCustomFieldDef(name="course", moType=kind)
    vm = shown(manager, rig.clone("a"))
    if is_taken:
        manager.SetField(entity=vm, key=field.key, value="x")
        return
    with pytest.raises(vmodl.fault.InvalidArgument):
        manager.SetField(entity=vm, key=field.key, value="x")


@pytest.mark.parametrize("lacking", ["Global.SetCustomField", "Global.ManageCustomFields"])
def test_they_take_privileges(rig: Rig, manager: Any, lacking: str) -> None:
    field = manager.AddCustomFieldDef(name="course", moType=vim.VirtualMachine)
    vm = shown(manager, rig.clone("a"))
    rig.lab.faults.lacking.add(lacking)

    def define() -> None:
        manager.AddCustomFieldDef(name="owner", moType=vim.VirtualMachine)

    def set_it() -> None:
        manager.SetField(entity=vm, key=field.key, value="x")
        vm.setCustomValue(key="course", value="y")

    refused, allowed = (set_it, define) if lacking == "Global.SetCustomField" else (define, set_it)
    with pytest.raises(vim.fault.NoPermission) as caught:
        refused()
    assert caught.value.privilegeId == lacking
    allowed()


def test_a_clone_begins_without_those_of_its_source(rig: Rig, manager: Any) -> None:
    field = manager.AddCustomFieldDef(name="course", moType=vim.VirtualMachine)
    manager.SetField(entity=shown(manager, rig.clone("a")), key=field.key, value="x")
    assert not shown(manager, rig.clone("b", source="a")).customValue


def test_they_go_with_their_vm(rig: Rig, manager: Any) -> None:
    field = manager.AddCustomFieldDef(name="course", moType=vim.VirtualMachine)
    vm = rig.clone("a")
    manager.SetField(entity=shown(manager, vm), key=field.key, value="x")
    rig.done(vm, "Destroy_Task")
    assert rig.lab.state.custom_values["values"] == {}
