"""Whose a VM's NICs, GPUs and functions are, by the owner mark and by what the plan file asks for."""

from __future__ import annotations

from typing import Any

import pytest

from vgpu_cfg.changes.kinds.vm_spec import DeviceEdit, NewNic, NewVgpu, NicBacking, RemoveDevice
from vgpu_cfg.model.observed.vm import OwnerMark, PassthroughDevice, VgpuDevice, VirtualNic, Vm, VmDetail
from vgpu_cfg.planning.estate.devices import (
    OwnedDevices,
    Wanting,
    made_by,
    owned_devices,
    pci_word,
    recorded_others,
)

ID = "7c1f0a52-3b44-4d0e-9b6e-0f2a5d8c1e01"
FIRST, SECOND, THIRD = (
    VirtualNic(key=4000 + number, kind="vmxnet3", network="net", mac=f"00:50:56:80:00:0{number}")
    for number in range(3)
)
HALF, FULL = VgpuDevice(key=13000, profile="grid_a100-20c"), VgpuDevice(key=13001, profile="grid_a100-40c")
NOTHING = Wanting()


def marked(**words: Any) -> OwnerMark:
    return OwnerMark(plan="demo", vm="a", id=ID, instance_uuid="i", **words)


def vm_of(*devices: Any, **words: Any) -> Vm:
    detail = VmDetail(
        nics=tuple(one for one in devices if isinstance(one, VirtualNic)),
        vgpus=tuple(one for one in devices if isinstance(one, VgpuDevice)),
        passthrough=tuple(one for one in devices if isinstance(one, PassthroughDevice)),
    )
    return Vm(moid="vm-1", name="a", instance_uuid="i", mark=marked(**words), detail=detail)


def asking(*devices: Any) -> Wanting:
    """Return what a plan file asks for that asks for just these devices."""
    return Wanting(len(devices), lambda number, one: devices[number] == one)


def told(vm: Vm, nics: Wanting | None = NOTHING, gpus: Wanting | None = NOTHING) -> OwnedDevices:
    return owned_devices(vm, nics, gpus, NOTHING)


@pytest.mark.parametrize(
    "words",
    [
        {"nics": (), "new_nics": 2, "pci": ("grid_a100-10c", "grid_a100-10c")},
        {"nics": (FIRST.mac,), "new_nics": 1, "other_nics": (SECOND.mac,), "pci": ()},
        {"nics": (), "pci": ("0000:21:00.0", "10de:20b0/10de:20f1@rack 7, left")},
        {},
    ],
    ids=["counted", "with others", "functions", "of before"],
)
def test_a_mark_is_read_as_it_was_written(words: dict[str, Any]) -> None:
    assert OwnerMark.parse(marked(**words).text, "a") == marked(**words)


def test_a_mark_is_short_and_an_edited_one_is_read_as_far_as_it_can_be() -> None:
    assert " pci=8*grid_a100-10c" in marked(pci=("grid_a100-10c",) * 8).text
    found = OwnerMark.parse(f"demo id={ID} uuid=i nics=zz,+x,005056800001 pci=,2*", "a")
    assert (found.nics, found.new_nics, found.pci) == (("00:50:56:80:00:01",), 0, ())


@pytest.mark.parametrize(
    ("words", "others"),
    [
        ({"nics": (FIRST.mac, SECOND.mac)}, ()),
        ({"nics": (SECOND.mac,)}, (FIRST,)),
        ({"new_nics": 1}, (SECOND,)),
        ({"new_nics": 2}, ()),
        ({"nics": (), "new_nics": 1, "other_nics": (FIRST.mac,)}, (FIRST,)),
        ({"nics": (SECOND.mac,), "new_nics": 1}, ()),
        ({}, ()),
    ],
)
def test_nics_are_known_by_mac_and_new_ones_by_their_number(
    words: dict[str, Any], others: tuple[VirtualNic, ...]
) -> None:
    assert recorded_others(vm_of(FIRST, SECOND, **words)) == others


@pytest.mark.parametrize(
    ("words", "asked", "others"),
    [
        ({"nics": (FIRST.mac,)}, (FIRST,), (SECOND,)),
        ({"nics": (FIRST.mac,)}, (FIRST, SECOND), ()),
        ({"nics": (FIRST.mac,)}, (SECOND,), (SECOND,)),
        ({}, (FIRST,), (SECOND,)),
        ({}, (SECOND,), (FIRST,)),
        ({}, (THIRD,), (SECOND,)),
        ({}, (), (FIRST, SECOND)),
    ],
    ids=["stays", "taken over", "own first", "of before", "the asked one", "another", "none asked"],
)
def test_what_the_plan_file_asks_for_beyond_its_own_is_taken_over(
    words: dict[str, Any], asked: tuple[VirtualNic, ...], others: tuple[VirtualNic, ...]
) -> None:
    assert told(vm_of(FIRST, SECOND, **words), nics=asking(*asked)).others == others


@pytest.mark.parametrize(
    ("pci", "asked", "others"),
    [
        (("grid_a100-20c",), (HALF,), (FULL,)),
        (("grid_a100-20c", "grid_a100-40c"), (), ()),
        (("grid_a100-20c",), (HALF, FULL), ()),
        (None, (FULL,), (HALF,)),
    ],
)
def test_gpus_are_known_by_what_they_are(
    pci: tuple[str, ...] | None, asked: tuple[VgpuDevice, ...], others: tuple[VgpuDevice, ...]
) -> None:
    assert told(vm_of(HALF, FULL, pci=pci), gpus=asking(*asked)).others == others


def test_a_vgpu_whose_profile_was_changed_is_the_plans() -> None:
    changed = vm_of(HALF, pci=("grid_a100-10c",))
    assert told(changed).pci == (HALF,)
    assert recorded_others(changed) == ()


def test_one_that_was_added_beside_is_not() -> None:
    beside = vm_of(HALF, FULL, pci=("grid_a100-20c",))
    assert told(beside).others == (FULL,)
    second = VgpuDevice(key=13002, profile="grid_a100-10c")
    assert told(vm_of(FULL, second, pci=("grid_a100-20c",))).others == (FULL, second)


def test_a_kind_that_is_not_compared_has_no_others_and_is_not_recorded() -> None:
    found = owned_devices(vm_of(FIRST, HALF), None, None, None)
    assert (found.others, found.record()) == ((), {})


def test_a_device_group_belongs_as_a_whole_to_whom_its_first_vgpu_belongs() -> None:
    group = [one.model_copy(update={"group_key": 1}) for one in (HALF, FULL)]
    nic = PassthroughDevice(key=13002, pci_id="0000:c1:00.0", is_nic=True, group_key=1)
    assert told(vm_of(*group, nic, pci=("grid_a100-20c",))).others == ()
    assert told(vm_of(*group, nic, pci=())).others == (*group, nic)


NEW = NewNic(backing=NicBacking(network_moid="net", network_name="net"))


@pytest.mark.parametrize(
    ("words", "devices", "record"),
    [
        ({"new_nics": 1}, [], {"nics": (FIRST.mac,), "new_nics": 0, "other_nics": ()}),
        ({"nics": (FIRST.mac,)}, [], {}),
        (
            {"nics": (FIRST.mac,)},
            [NEW],
            {"nics": (FIRST.mac,), "new_nics": 1, "other_nics": (SECOND.mac,)},
        ),
        (
            {"nics": (FIRST.mac,)},
            [RemoveDevice(key=FIRST.key, was="")],
            {"nics": (), "new_nics": 0, "other_nics": ()},
        ),
        ({"nics": (FIRST.mac,)}, [NewVgpu(profile="x")], {"pci": ("x",)}),
    ],
    ids=["others came", "known", "added", "removed", "another kind"],
)
def test_the_mark_is_written_anew_if_it_would_tell_too_little(
    words: dict[str, Any], devices: list[DeviceEdit], record: dict[str, Any]
) -> None:
    words = {"nics": (), "pci": (), **words}
    assert told(vm_of(FIRST, SECOND, **words), nics=asking(FIRST)).record(devices) == record


def test_a_clones_nics_are_counted() -> None:
    made = made_by(VmDetail(nics=(FIRST,)), [NEW, NewVgpu(profile="grid_a100-10c")])
    assert made == {"nics": (), "new_nics": 2, "pci": ("grid_a100-10c",)}


def test_functions_are_told_apart_by_label() -> None:
    ids = ((0x10DE, 0x20F1), (0x10DE, 0x20B0))
    assert pci_word(PassthroughDevice(key=1, allowed=ids, label="a")) == "10de:20b0/10de:20f1@a"
    assert pci_word(PassthroughDevice(key=1, allowed=ids)) == "10de:20b0/10de:20f1"
