"""VMs that leave the inventory without their files, and come back from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import Rig
from tests.unit.lab.test_files import finished, names
from vgpu_cfg.lab.operations.files import disk_files, listed
from vgpu_cfg.lab.state.inventory import Datastore, Folder, Host, ResourcePool

WEB = "[vsan] web/web.vmx"


@pytest.fixture
def rig() -> Rig:
    made = Rig()
    made.clone("web", "grid_a100-10c")
    return made


def given(rig: Rig, **changed: Any) -> dict[str, Any]:
    """Return what registers the VM as it was, but for what is changed; None leaves a thing out."""
    whole = {
        "path": WEB,
        "asTemplate": False,
        "pool": vim.ResourcePool(rig.find(ResourcePool).moid),
        **changed,
    }
    return {name: value for name, value in whole.items() if value is not None}


def registered(rig: Rig, **changed: Any) -> None:
    rig.done(rig.find(Folder, "training"), "RegisterVM_Task", **given(rig, **changed))


def test_a_vm_comes_back_as_it_was_by_another_moid(rig: Rig) -> None:
    vm = rig.vm("web")
    uuid, moid, devices = vm.instance_uuid, vm.moid, list(vm.devices)
    rig.lab.call(vm, "UnregisterVM")
    assert not rig.has_vm("web")
    assert "web/web.vmx" in listed(rig.lab.state, rig.find(Datastore))
    assert "web.vmx" in names(rig, "[vsan] web")
    registered(rig)
    back = rig.vm("web")
    assert (back.instance_uuid, list(back.devices), back.home) == (uuid, devices, "web")
    assert back.moid != moid
    assert moid not in rig.find(Datastore).vms
    rig.done(back, "PowerOnVM_Task")


def test_it_takes_another_name_or_becomes_a_template(rig: Rig) -> None:
    rig.lab.call(rig.vm("web"), "UnregisterVM")
    host = vim.HostSystem(rig.find(Host).moid)
    registered(rig, name="gold", asTemplate=True, pool=None, host=host)
    assert (rig.vm("gold").is_template, rig.vm("gold").resource_pool) == (True, None)


@pytest.mark.parametrize(
    ("changed", "fault"),
    [
        ({"pool": None}, vmodl.fault.InvalidArgument),
        ({"asTemplate": True, "pool": None}, vmodl.fault.InvalidArgument),
        ({"asTemplate": True}, vmodl.fault.InvalidArgument),
        ({"path": ""}, vmodl.fault.InvalidArgument),
    ],
)
def test_what_is_asked_wrongly_is_refused_at_once(rig: Rig, changed: dict[str, Any], fault: Any) -> None:
    rig.lab.call(rig.vm("web"), "UnregisterVM")
    with pytest.raises(fault):
        rig.lab.call(rig.find(Folder, "training"), "RegisterVM_Task", **given(rig, **changed))


@pytest.mark.parametrize(
    ("path", "fault"),
    [
        (WEB, vim.fault.AlreadyExists),
        ("[vsan] other/other.vmx", vim.fault.NotFound),
        ("[nowhere] web/web.vmx", vim.fault.InvalidDatastore),
    ],
)
def test_what_is_registered_or_not_there_is_refused(rig: Rig, path: str, fault: Any) -> None:
    refused = rig.refused(rig.find(Folder, "training"), "RegisterVM_Task", **given(rig, path=path))
    assert isinstance(refused, fault)


def test_a_name_that_is_taken_is_refused_and_the_files_stay(rig: Rig) -> None:
    rig.lab.call(rig.vm("web"), "UnregisterVM")
    rig.clone("other")
    folder = rig.find(Folder, "training")
    refused = rig.refused(folder, "RegisterVM_Task", **given(rig, name="other"))
    assert isinstance(refused, vim.fault.DuplicateName)
    registered(rig)


def test_its_files_can_be_deleted(rig: Rig) -> None:
    rig.lab.call(rig.vm("web"), "UnregisterVM")
    assert finished(rig, "DeleteDatastoreFile_Task", name="[vsan] web") is None
    refused = rig.refused(rig.find(Folder, "training"), "RegisterVM_Task", **given(rig))
    assert isinstance(refused, vim.fault.NotFound)


def test_a_disk_that_was_deleted_is_listed_no_more_and_keeps_the_vm_from_coming_back(rig: Rig) -> None:
    rig.lab.call(rig.vm("web"), "UnregisterVM")
    assert finished(rig, "DeleteDatastoreFile_Task", name="[vsan] web/web.vmdk") is None
    assert names(rig, "[vsan] web") == ["web.vmx"]
    refused = rig.refused(rig.find(Folder, "training"), "RegisterVM_Task", **given(rig))
    assert isinstance(refused, vim.fault.FileNotFound)
    assert refused.file == "[vsan] web/web.vmdk"


def test_its_folder_can_be_moved_and_it_comes_back_from_there(rig: Rig) -> None:
    rig.lab.call(rig.vm("web"), "UnregisterVM")
    moved = {"sourceName": "[vsan] web", "destinationName": "[vsan] shelf"}
    assert finished(rig, "MoveDatastoreFile_Task", **moved) is None
    assert "web/" not in listed(rig.lab.state, rig.find(Datastore))
    assert sorted(names(rig, "[vsan] shelf")) == ["web.vmdk", "web.vmx"]
    registered(rig, path="[vsan] shelf/web.vmx")
    back = rig.vm("web")
    assert list(disk_files(back).values()) == ["[vsan] shelf/web.vmdk"]
    assert isinstance(finished(rig, "DeleteDatastoreFile_Task", name="[vsan] shelf"), vim.fault.FileLocked)
    rig.done(back, "Destroy_Task")
    assert "shelf/web.vmdk" not in listed(rig.lab.state, rig.find(Datastore))


def test_it_is_kept_in_a_saved_lab(tmp_path: Path) -> None:
    rig = Rig(folder=tmp_path)
    rig.clone("web")
    rig.lab.call(rig.vm("web"), "UnregisterVM")
    again = Rig(folder=tmp_path)
    registered(again)
    assert again.vm("web").home == "web"
