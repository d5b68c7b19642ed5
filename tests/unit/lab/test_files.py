"""Files of datastores: what somebody puts, copies, moves and deletes, and what belongs to VMs."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import Rig
from vgpu_cfg.lab.operations.files import listed, put
from vgpu_cfg.lab.simulation.operations import find_operation
from vgpu_cfg.lab.state.inventory import Datastore, Folder


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.find(Datastore).kind = "VMFS"
    return made


def root(rig: Rig) -> Folder:
    return rig.lab.state.get(rig.lab.state.root, Folder)


def call(rig: Rig, method: str, **arguments: Any) -> Any:
    """Call a method of the file manager, and wait where it is a task."""
    with rig.lab.transaction():
        return find_operation("FileManager", method)(rig.lab, root(rig), **arguments)


def finished(rig: Rig, method: str, **arguments: Any) -> Any:
    """Return the fault that a task of the file manager ends in, None for none."""
    task = call(rig, method, **arguments)
    rig.lab.run_until_idle()
    return rig.lab.state.objects[task.moid].fault  # type: ignore[attr-defined]  # a task


def names(rig: Rig, path: str, *patterns: str) -> list[str]:
    spec = vim.host.DatastoreBrowser.SearchSpec(matchPattern=list(patterns))
    with rig.lab.transaction():
        begin = find_operation("HostDatastoreBrowser", "SearchDatastore_Task")
        task = begin(rig.lab, rig.find(Datastore), datastorePath=path, searchSpec=spec)
    rig.lab.run_until_idle()
    return [one.path for one in task.result.file]


def test_files_are_put_listed_copied_moved_and_deleted(rig: Rig) -> None:
    call(rig, "MakeDirectory", name="[vsan] iso")
    put(rig.lab, rig.find(Datastore), "iso/a.iso", "text")
    moves = {"sourceName": "[vsan] iso/a.iso", "destinationName": "[vsan] iso/b.iso"}
    assert finished(rig, "CopyDatastoreFile_Task", **moves) is None
    assert names(rig, "[vsan] iso") == ["a.iso", "b.iso"]
    assert names(rig, "[vsan] iso", "B*") == ["b.iso"]
    assert isinstance(finished(rig, "MoveDatastoreFile_Task", **moves), vim.fault.FileAlreadyExists)
    assert finished(rig, "MoveDatastoreFile_Task", **moves, force=True) is None
    assert rig.find(Datastore).files == {"iso/": "", "iso/b.iso": "text"}
    assert finished(rig, "DeleteDatastoreFile_Task", name="[vsan] iso") is None
    assert rig.find(Datastore).files == {}
    assert isinstance(finished(rig, "DeleteDatastoreFile_Task", name="[vsan] iso"), vim.fault.FileNotFound)


def test_files_of_vms_are_listed_and_locked(rig: Rig) -> None:
    rig.clone("a")
    assert names(rig, "[vsan] a") == ["a.vmx", "a.vmdk"]
    assert isinstance(finished(rig, "DeleteDatastoreFile_Task", name="[vsan] a"), vim.fault.FileLocked)
    rig.done(rig.vm("a"), "Destroy_Task")
    assert "a/" not in listed(rig.lab.state, rig.find(Datastore))


def disk_call(rig: Rig, method: str, **arguments: Any) -> Any:
    """Return the fault that a task of the virtual disk manager ends in, None for none."""
    with rig.lab.transaction():
        task = find_operation("VirtualDiskManager", method)(rig.lab, root(rig), **arguments)
    rig.lab.run_until_idle()
    return task.fault


def made(kb: int) -> Any:
    return vim.VirtualDiskManager.FileBackedVirtualDiskSpec(
        diskType="thin", adapterType="lsiLogic", capacityKb=kb
    )


def test_a_virtual_disk_is_made_extended_copied_moved_and_deleted(rig: Rig) -> None:
    call(rig, "MakeDirectory", name="[vsan] disks")
    one, two = "[vsan] disks/a.vmdk", "[vsan] disks/b.vmdk"
    assert disk_call(rig, "CreateVirtualDisk_Task", name=one, spec=made(1024)) is None
    again = disk_call(rig, "CreateVirtualDisk_Task", name=one, spec=made(1024))
    assert isinstance(again, vim.fault.FileAlreadyExists)
    assert disk_call(rig, "ExtendVirtualDisk_Task", name=one, newCapacityKb=2048) is None
    assert "RW 4096 VMFS" in rig.find(Datastore).files["disks/a.vmdk"]
    smaller = disk_call(rig, "ExtendVirtualDisk_Task", name=one, newCapacityKb=1024)
    assert isinstance(smaller, vmodl.fault.InvalidArgument)
    assert disk_call(rig, "CopyVirtualDisk_Task", sourceName=one, destName=two) is None
    assert disk_call(rig, "DeleteVirtualDisk_Task", name=one) is None
    assert disk_call(rig, "MoveVirtualDisk_Task", sourceName=two, destName=one) is None
    assert names(rig, "[vsan] disks") == ["a.vmdk"]


@pytest.mark.parametrize(
    ("name", "kb", "fault"),
    [
        ("[vsan] none/a.vmdk", 1024, vim.fault.FileNotFound),
        ("[vsan] a.txt", 1024, vmodl.fault.InvalidArgument),
        ("[vsan] a.vmdk", 2**60, vim.fault.NoDiskSpace),
    ],
)
def test_a_virtual_disk_that_cannot_be_is_refused(rig: Rig, name: str, kb: int, fault: Any) -> None:
    assert isinstance(disk_call(rig, "CreateVirtualDisk_Task", name=name, spec=made(kb)), fault)
    assert isinstance(
        disk_call(rig, "ExtendVirtualDisk_Task", name=name, newCapacityKb=kb), vim.fault.FileNotFound
    )


@pytest.mark.parametrize(
    ("name", "kind", "fault"),
    [
        ("[vsan] x", "VMFS", None),
        ("[vsan] x", "vsan", vim.fault.CannotCreateFile),
        ("[vsan] x/y", "VMFS", vim.fault.FileNotFound),
        ("[none] x", "VMFS", vim.fault.InvalidDatastore),
        ("x", "VMFS", vim.fault.InvalidDatastorePath),
        ("[vsan] ubuntu-22.04-efi", "VMFS", vim.fault.FileAlreadyExists),
    ],
)
def test_a_folder_is_made_where_it_can_be(rig: Rig, name: str, kind: str, fault: Any) -> None:
    rig.find(Datastore).kind = kind
    if fault is None:
        call(rig, "MakeDirectory", name=name)
        return
    with pytest.raises(fault):
        call(rig, "MakeDirectory", name=name)
