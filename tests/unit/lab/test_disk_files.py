"""Files of disks in the lab: attached, detached, moved and deleted with their VM, as vCenter does."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim

from tests.unit.lab.rig import Rig, change
from vgpu_cfg.lab.operations.files import listed
from vgpu_cfg.lab.renderers.vm import devices
from vgpu_cfg.lab.simulation.operations import Context
from vgpu_cfg.lab.state.devices import copy_with, disks_of
from vgpu_cfg.lab.state.inventory import Datastore, VirtualMachine

FCD = "[vsan] fcd/pvc-1.vmdk"


@pytest.fixture
def rig() -> Rig:
    return Rig()


def attach(rig: Rig, vm: VirtualMachine, file: str, *, create: bool = False, sharing: str = "") -> Any:
    """Attach a disk, and return it as the lab then shows it."""
    flat: Any = vim.vm.device.VirtualDisk.FlatVer2BackingInfo
    backing = flat(fileName=file, diskMode="independent_persistent", sharing=sharing or None)
    spec = change(
        "add", vim.vm.device.VirtualDisk(key=-1, controllerKey=1000, capacityInKB=51200, backing=backing)
    )
    spec.fileOperation = "create" if create else None
    before = set(vm.devices)
    rig.done(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(deviceChange=[spec]))
    return next(disk for disk in disks_of(vm.devices) if disk.key not in before)


def detach(rig: Rig, vm: VirtualMachine, key: int, operation: str | None = None) -> None:
    spec = change("remove", vim.vm.device.VirtualDisk(key=key))
    spec.fileOperation = operation
    rig.done(vm, "ReconfigVM_Task", spec=vim.vm.ConfigSpec(deviceChange=[spec]))


def files(rig: Rig) -> dict[str, int]:
    return listed(rig.lab.state, rig.find(Datastore))


def test_a_disk_has_its_own_uuid_in_each_vm_and_keeps_it_wherever_it_is_attached(rig: Rig) -> None:
    vm, other = rig.clone("a"), rig.clone("b")
    first, second = disks_of(vm.devices)[0], disks_of(other.devices)[0]
    assert first.backing.uuid != second.backing.uuid
    made = attach(rig, vm, "[vsan]", create=True)
    assert (made.backing.fileName, made.vDiskId) == ("[vsan] a/a_1.vmdk", None)
    detach(rig, vm, made.key)
    assert attach(rig, other, made.backing.fileName).backing.uuid == made.backing.uuid


def test_a_first_class_disk_has_an_id(rig: Rig) -> None:
    assert attach(rig, rig.clone("a"), FCD).vDiskId.id


@pytest.mark.parametrize(("operation", "is_there"), [(None, True), ("destroy", False)])
def test_a_detached_disk_stays_unless_it_is_destroyed(
    rig: Rig, operation: str | None, is_there: bool
) -> None:
    vm = rig.clone("a")
    detach(rig, vm, attach(rig, vm, FCD).key, operation)
    assert ("fcd/pvc-1.vmdk" in files(rig)) is is_there
    rig.done(vm, "Destroy_Task")
    assert ("fcd/pvc-1.vmdk" in files(rig)) is is_there


def test_a_vm_is_deleted_with_all_disks_it_has_wherever_they_are(rig: Rig) -> None:
    vm = rig.clone("a")
    attach(rig, vm, FCD)
    assert "fcd/pvc-1.vmdk" in files(rig)
    rig.done(vm, "Destroy_Task")
    assert not {"fcd/pvc-1.vmdk", "a/a.vmdk"} & files(rig).keys()


def test_a_disk_that_two_vms_share_stays_with_the_other(rig: Rig) -> None:
    vm, other = rig.clone("a"), rig.clone("b")
    attach(rig, vm, FCD, sharing="sharingMultiWriter")
    attach(rig, other, FCD, sharing="sharingMultiWriter")
    rig.done(vm, "Destroy_Task")
    assert "fcd/pvc-1.vmdk" in files(rig)


def test_a_snapshot_holds_on_to_a_detached_disk(rig: Rig) -> None:
    vm = rig.clone("a")
    disk = attach(rig, vm, FCD)
    rig.done(vm, "CreateSnapshot_Task", name="s", memory=False, quiesce=False)
    detach(rig, vm, disk.key)
    rig.done(vm, "Destroy_Task")
    assert "fcd/pvc-1.vmdk" not in files(rig)


@pytest.mark.parametrize("stays", [True, False])
def test_a_disk_stays_where_a_move_leaves_it(rig: Rig, stays: bool) -> None:
    vm = rig.clone("a")
    disk, store = attach(rig, vm, FCD), rig.find(Datastore)
    other = Datastore(
        moid="datastore-900", name="nfs", capacity_mib=1 << 20, free_mib=1 << 20, hosts=store.hosts
    )
    rig.lab.state.add(other)
    for moid in store.hosts:
        rig.lab.state.objects[moid].datastores.append(other.moid)  # type: ignore[attr-defined]  # a host
    locator = vim.vm.RelocateSpec.DiskLocator(diskId=disk.key, datastore=vim.Datastore(store.moid))
    spec = vim.vm.RelocateSpec(datastore=vim.Datastore(other.moid), disk=[locator] if stays else [])
    rig.done(vm, "RelocateVM_Task", spec=spec)
    where = FCD if stays else "[nfs] a/pvc-1.vmdk"
    assert [one.backing.fileName for one in disks_of(vm.devices)] == ["[nfs] a/a.vmdk", where]


def test_a_disk_that_an_earlier_lab_kept_without_a_uuid_shows_the_one_of_its_file(rig: Rig) -> None:
    vm, other = rig.clone("a"), rig.clone("b")
    (disk,) = disks_of(vm.devices)
    vm.devices[disk.key] = copy_with(disk, backing=copy_with(disk.backing, uuid=None))
    context = Context(rig.lab, "")
    (shown,) = (one.backing.uuid for one in devices(context, vm) if one.key == disk.key)
    assert shown.startswith("6000C29")
    detach(rig, vm, disk.key)
    assert attach(rig, other, disk.backing.fileName).backing.uuid == shown
