"""Data objects that are made quickly are those of pyvmomi: the same content, the same refusals."""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport, vim, vmodl

from tests.quick_types import DataObject, check, make, their_check, their_make

KINDS: tuple[Any, ...] = (
    vim.vm.ConfigSpec,
    vim.vm.GuestInfo,
    vim.vm.device.VirtualPCIPassthrough,
    vim.vm.device.VirtualDeviceSpec,
    vim.host.PciDevice,
    vim.host.GraphicsInfo,
    vim.host.PhysicalNic,
    vim.TaskInfo,
    vim.event.VmPoweredOnEvent,
    vim.fault.NoPermission,
    vim.fault.GenericVmConfigFault,
    vmodl.DynamicProperty,
    vmodl.query.PropertyCollector.ObjectContent,
    vmodl.query.PropertyCollector.FilterSpec,
)
ENTITIES: Any = VmomiSupport.GetVmodlType("vim.ManagedEntity[]")
VALUES: tuple[Any, ...] = (
    None,
    True,
    7,
    2**40,
    1.5,
    "text",
    VmomiSupport.short(3),
    "poweredOn",
    [],
    [None],
    [1, 2],
    ["a", "b"],
    ["a", 1],
    [vmodl.DynamicProperty(name="a", val=1)],
    VmomiSupport.Array([1]),
    vim.VirtualMachine("vm-1"),
    [vim.VirtualMachine("vm-1")],
    ENTITIES([vim.VirtualMachine("vm-1")]),
    vim.HostSystem("host-1"),
    vim.vm.device.VirtualDisk(),
    vim.vm.device.VirtualDevice(),
    vim.fault.NoPermission(),
    object(),
)


def made(how: Any, kind: Any, **values: Any) -> Any:
    one = kind.__new__(kind)
    how(one, **values)
    return one


def outcome(how: Any, *words: Any, **named: Any) -> object:
    """Return what comes of a call: the content of what it made, or its error."""
    try:
        done = how(*words, **named)
    except Exception as error:  # noqa: BLE001 - whatever is raised is compared
        return type(error), str(error)
    return done if done is None else {name: (type(value), str(value)) for name, value in vars(done).items()}


def test_a_new_object_holds_the_same() -> None:
    for kind in KINDS:
        assert outcome(made, make, kind) == outcome(made, their_make, kind), kind


def test_arrays_are_each_objects_own() -> None:
    first, second = made(make, vim.vm.ConfigSpec), made(make, vim.vm.ConfigSpec)
    first.deviceChange.append(1)
    assert second.deviceChange == []


def test_the_same_values_are_refused_in_the_same_words() -> None:
    refused = taken = 0
    for kind in KINDS:
        for info in kind._GetPropertyList():
            for value in VALUES:
                said = outcome(their_check, info, value)
                assert outcome(check, info, value) == said, (kind, info.name, value)
                assert outcome(made, make, kind, **{info.name: value}) == outcome(
                    made, their_make, kind, **{info.name: value}
                ), (kind, info.name, value)
                refused, taken = refused + (said is not None), taken + (said is None)
    assert min(refused, taken) > 100


def test_a_property_that_a_type_lacks_is_refused_alike() -> None:
    assert outcome(made, make, vim.TaskInfo, colour=1) == outcome(made, their_make, vim.TaskInfo, colour=1)


def test_every_test_makes_them_quickly() -> None:
    assert DataObject.__init__ is make
    assert VmomiSupport.CheckField is check
