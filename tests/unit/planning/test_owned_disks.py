"""Whose a VM's disks are, kind by kind, by the owner mark and by what the clone has clearly made."""

from __future__ import annotations

from typing import Any

import pytest

from vgpu_cfg.model.observed.vm import OwnerMark, VirtualDisk, Vm, VmDetail
from vgpu_cfg.planning.estate.devices import Layout, as_imported_disks, own_datastores, owned_disks

ID = "7c1f0a52-3b44-4d0e-9b6e-0f2a5d8c1e01"
TEMPLATE = Layout({2000: 100, 2001: 50})


def disk(key: int, file: str = "", size: int = 100, **more: Any) -> VirtualDisk:
    fields = {"uuid": f"u{key}", "file": f"[vsan] {file}" if file else "", "datastore_moid": "ds-1", **more}
    return VirtualDisk(key=key, capacity_mib=size, controller_key=1000, **fields)


FIRST = disk(2000, "a/a.vmdk")
SECOND = disk(2001, "a/a_1.vmdk", 50)


def vm_of(*disks: VirtualDisk, recorded: tuple[str, ...] | None = None, new: tuple[int, ...] = ()) -> Vm:
    mark = OwnerMark(plan="demo", vm="a", id=ID, instance_uuid="i", disks=recorded, new_disks=new)
    return Vm(moid="vm-1", name="a", instance_uuid="i", mark=mark, detail=VmDetail(disks=disks))


@pytest.mark.parametrize(
    ("other", "own"),
    [
        (disk(2002, "a/a_2.vmdk"), set()),
        (disk(2002, "a/a_2.vmdk", uuid="u2000"), {2001}),
        (disk(2002, "a/a_2.vmdk", uuid=""), set()),
        (disk(2002, uuid="u9", first_class_id="f"), set()),
        (disk(2002, uuid="u9", lun_uuid="02"), set()),
        (disk(2002, uuid="u9", is_shared=True), set()),
        (disk(2002, "a/a-000001.vmdk", uuid="u9", has_parent=True), {2000, 2001, 2002}),
        (disk(2002, "x/y.vmdk", uuid="u9"), {2000, 2001, 2002}),
    ],
    ids=["another", "one UUID twice", "unread", "first-class", "raw", "shared", "delta", "moved"],
)
def test_what_is_recorded_is_the_plans(other: VirtualDisk, own: set[int]) -> None:
    found = owned_disks(vm_of(FIRST, SECOND, other, recorded=("u2000", "u2001", "u9")))
    assert found.keys == (own or {2000, 2001})
    assert found.to_record is None


def test_a_vm_that_was_restored_in_place_has_no_disk_of_the_plan() -> None:
    assert owned_disks(vm_of(FIRST, recorded=("before",)), TEMPLATE).own == ()


@pytest.mark.parametrize(
    ("second", "own"),
    [
        (SECOND, {2000, 2001}),
        (disk(2001, "a/a_1.vmdk", 60), {2000, 2001}),
        (disk(2001, "a/a_1.vmdk", 40), {2000}),
        (disk(2001, "fcd/b.vmdk", 50), {2000}),
        (disk(2001, "a/a_1.vmdk", 50, first_class_id="f"), {2000}),
        (disk(2002, "a/a_1.vmdk", 50), {2000}),
    ],
    ids=["as cloned", "grown", "smaller", "elsewhere", "first-class", "at another place"],
)
def test_of_a_mark_of_before_only_what_the_clone_clearly_made_is_the_plans(
    second: VirtualDisk, own: set[int]
) -> None:
    assert owned_disks(vm_of(FIRST, second), TEMPLATE).keys == own


@pytest.mark.parametrize(
    ("sizes", "own", "is_certain"),
    [([20], {2000, 2002}, True), ([20, 20], {2000}, False), ([30], {2000}, False), ([], {2000}, False)],
)
def test_disks_that_the_plan_file_adds_count_if_there_are_just_these(
    sizes: list[int], own: set[int], is_certain: bool
) -> None:
    more = [disk(2002 + number, f"a/a_{number}.vmdk", size) for number, size in enumerate(sizes)]
    found = owned_disks(vm_of(FIRST, *more), Layout({2000: 100}, (20,)))
    assert found.keys == own
    assert found.is_certain is is_certain


def test_without_a_template_only_the_disk_that_is_named_after_the_vm_is_the_plans() -> None:
    assert owned_disks(vm_of(FIRST, SECOND)).keys == {2000}
    assert owned_disks(vm_of(disk(2000, "other/b.vmdk"))).keys == frozenset()
    assert owned_disks(vm_of(disk(2000, "a/a-000002.vmdk", has_parent=True))).keys == {2000}


OTHER = disk(2002, "fcd/b.vmdk", first_class_id="f")


@pytest.mark.parametrize(
    ("disks", "own"),
    [
        ((FIRST, SECOND), {2000, 2001}),
        ((FIRST, disk(2001, "a/a_1.vmdk", 60)), {2000, 2001}),
        ((FIRST, disk(2001, "a/a_1.vmdk", 40)), {2000}),
        ((FIRST, disk(2001, "a/a_2.vmdk", 50)), {2000}),
        ((FIRST, disk(2001, "x/a_1.vmdk", 50)), {2000}),
        ((FIRST, SECOND, disk(2002, "a/a_2.vmdk", 50)), {2000, 2001}),
        ((disk(2000, "uuid/x.vmdk"), disk(2001, "uuid/x_1.vmdk", 50)), {2000, 2001}),
        ((disk(2000, "uuid/x.vmdk"), disk(2001, "uuid/x_1.vmdk", 60)), {2000}),
    ],
    ids=[
        "as made",
        "grown",
        "smaller",
        "a later one",
        "elsewhere",
        "one more",
        "other names",
        "another size",
    ],
)
def test_the_disks_of_a_clone_are_known_by_what_its_request_made(
    disks: tuple[VirtualDisk, ...], own: set[int]
) -> None:
    assert owned_disks(vm_of(*disks, new=(100, 50))).keys == own


def test_what_the_clone_made_is_recorded_once_others_attach_a_disk() -> None:
    assert owned_disks(vm_of(FIRST, SECOND, OTHER, new=(100, 50))).to_record == ("u2000", "u2001")
    assert owned_disks(vm_of(FIRST, SECOND, new=(100, 50))).to_record is None


def test_a_disk_that_was_added_is_known_by_its_size_until_it_is_recorded() -> None:
    new = disk(2002, "a/a_1.vmdk", 50)
    assert owned_disks(vm_of(FIRST, new, OTHER, recorded=("u2000",), new=(50,))).keys == {2000, 2002}
    twice = disk(2003, "a/a_2.vmdk", 50)
    assert owned_disks(vm_of(FIRST, new, twice, recorded=("u2000",), new=(50,))).keys == {2000}


@pytest.mark.parametrize("text", ["-", "u1", "u1,u2", "+40960,+1024", "u1,+1024"])
def test_a_mark_keeps_its_disks(text: str) -> None:
    words = f"demo id={ID} uuid=i disks={text} by=jane"
    assert OwnerMark.parse(words, "a").text == words
    assert OwnerMark.parse(f"demo disks={text}", "a").text == f"demo disks={text}"


def test_a_mark_of_before_says_nothing_of_disks() -> None:
    assert OwnerMark.parse(f"demo id={ID} uuid=i", "a").disks is None


def test_an_import_takes_the_disks_in_the_folder_of_the_first_one() -> None:
    other = disk(2002, "fcd/b.vmdk", first_class_id="f")
    found = as_imported_disks(vm_of(FIRST, SECOND, other))
    assert found is not None
    assert (found.to_record, found.others) == (("u2000", "u2001"), (other,))
    assert as_imported_disks(vm_of(disk(2000, "a/a.vmdk", uuid=""))) is None


def test_datastores_of_others_disks_do_not_count() -> None:
    vm = vm_of(FIRST, disk(2001, "x/y.vmdk", datastore_moid="ds-2"), recorded=("u2000",))
    assert own_datastores(vm) == ("ds-1",)
