from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.wire.client import connect, everything, one, open_virtual
from vgpu_cfg.lab.state.inventory import Host, VirtualMachine
from vgpu_cfg.lab.state.roles import ADMIN
from vgpu_cfg.lab.vcenter import Lab


@pytest.fixture
def lab() -> Lab:
    return open_virtual("two-a100")


@pytest.fixture
def instance(lab: Lab) -> Any:
    return connect(lab)


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/dc1", vim.Datacenter),
        ("dc1/vm/ubuntu-22.04-efi", vim.VirtualMachine),
        ("/dc1/vm/training", vim.Folder),
        ("/dc1/host/gpu", vim.ClusterComputeResource),
        ("/dc1/host/gpu/esx-a100-01.lab", vim.HostSystem),
        ("/dc1/host/gpu/Resources", vim.ResourcePool),
        ("/dc1/datastore/vsan", vim.Datastore),
        ("/dc1/network/dv-train", vim.dvs.DistributedVirtualPortgroup),
    ],
)
def test_paths_lead_to_objects(instance: Any, path: str, kind: type) -> None:
    assert isinstance(instance.content.searchIndex.FindByInventoryPath(path), kind)


@pytest.mark.parametrize("path", ["/dc2", "/dc1/vm/none", "/dc1/vm/training/none"])
def test_a_path_to_nothing_finds_nothing(instance: Any, path: str) -> None:
    assert instance.content.searchIndex.FindByInventoryPath(path) is None


def test_a_child_is_found_by_its_name(instance: Any) -> None:
    index = instance.content.searchIndex
    folder = one(instance, vim.Folder, "vm")
    assert index.FindChild(folder, "training").name == "training"
    assert index.FindChild(folder, "none") is None
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        index.FindChild(vim.Folder("group-v999"), "x")


def test_uuids_find_vms_and_hosts(lab: Lab, instance: Any) -> None:
    index = instance.content.searchIndex
    (vm,) = lab.state.all(VirtualMachine)
    (host,) = lab.state.all(Host)
    assert index.FindByUuid(None, vm.uuid.upper(), True)._moId == vm.moid
    assert index.FindByUuid(None, vm.instance_uuid, True, True)._moId == vm.moid
    assert index.FindByUuid(None, vm.uuid, True, True) is None
    assert index.FindByUuid(None, host.uuid, False)._moId == host.moid
    assert [found._moId for found in index.FindAllByUuid(None, vm.uuid, True, False)] == [vm.moid]
    assert index.FindByDnsName(None, host.name, False)._moId == host.moid
    assert index.FindByDatastorePath(one(instance, vim.Datacenter, "dc1"), vm_path(instance))._moId == vm.moid


def vm_path(instance: Any) -> str:
    path: str = everything(instance, vim.VirtualMachine)[0].summary.config.vmPathName
    return path


def test_views_take_types_and_depth(instance: Any) -> None:
    content = instance.content
    datacenter = one(instance, vim.Datacenter, "dc1")
    flat = content.viewManager.CreateContainerView(datacenter.vmFolder, [], False)
    assert sorted(thing.name for thing in flat.view) == ["training", "ubuntu-22.04-efi"]
    both = content.viewManager.CreateContainerView(content.rootFolder, [vim.HostSystem, vim.Datastore], True)
    assert sorted(thing.name for thing in both.view) == ["esx-a100-01.lab", "vsan"]
    flat.DestroyView()
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        assert flat.view


def test_a_cluster_is_found_as_a_compute_resource_too(instance: Any) -> None:
    assert [found.name for found in everything(instance, vim.ComputeResource)] == ["gpu"]


def test_privileges_follow_the_script(lab: Lab, instance: Any) -> None:
    manager = instance.content.authorizationManager
    key = instance.content.sessionManager.currentSession.key
    vms = everything(instance, vim.VirtualMachine)
    wanted = ["VirtualMachine.Interact.PowerOn", "VirtualMachine.Config.CPUCount"]
    (answer,) = manager.HasPrivilegeOnEntities(vms, key, wanted)
    assert [found.isGranted for found in answer.privAvailability] == [True, True]
    assert list(vms[0].effectiveRole) == [ADMIN]
    lab.faults.lacking.add("VirtualMachine.Interact.PowerOn")
    assert ADMIN not in vms[0].effectiveRole
    (answer,) = manager.HasPrivilegeOnEntities(vms, key, wanted)
    assert {found.privId: found.isGranted for found in answer.privAvailability} == {
        "VirtualMachine.Interact.PowerOn": False,
        "VirtualMachine.Config.CPUCount": True,
    }
    (answer,) = manager.HasUserPrivilegeOnEntities(vms, "administrator@vsphere.local", wanted)
    assert [found.isGranted for found in answer.privAvailability] == [False, True]
    for none in ([manager], "administrator@vsphere.local", wanted), (vms, "administrator@vsphere.local", []):
        with pytest.raises(vmodl.fault.InvalidArgument):
            manager.HasUserPrivilegeOnEntities(*none)
    (listed,) = manager.FetchUserPrivilegeOnEntities(vms, "administrator@vsphere.local")
    assert "VirtualMachine.Interact.PowerOn" not in listed.privileges
    assert "VirtualMachine.Config.CPUCount" in listed.privileges


def test_custom_attributes_are_defined_set_shown_and_dropped(instance: Any) -> None:
    manager = instance.content.customFieldsManager
    field = manager.AddCustomFieldDef("vgpu_cfg.done", vim.HostSystem)
    with pytest.raises(vim.fault.DuplicateName):
        manager.AddCustomFieldDef("vgpu_cfg.done", vim.HostSystem)
    (host,) = everything(instance, vim.HostSystem)
    (vm,) = everything(instance, vim.VirtualMachine)
    with pytest.raises(vmodl.fault.NotSupported):
        host.configManager.firewallSystem.setCustomValue("vgpu_cfg.done", "x")
    manager.SetField(host, field.key, "bios:abc")
    assert [(found.key, found.value) for found in host.customValue] == [(field.key, "bios:abc")]
    assert [found.name for found in host.availableField] == ["vgpu_cfg.done"]
    assert vm.availableField == []
    host.setCustomValue("vgpu_cfg.done", "")
    assert host.customValue == []
    manager.RenameCustomFieldDef(field.key, "other")
    assert [found.name for found in manager.field] == ["other"]
    manager.RemoveCustomFieldDef(field.key)
    assert manager.field == []
    with pytest.raises(vim.fault.NotFound):
        manager.SetField(host, field.key, "x")


def test_every_manager_that_is_advertised_is_there(instance: Any) -> None:
    content = instance.content
    advertised = [getattr(content, info.name) for info in content._GetPropertyList()]
    managers = [found for found in advertised if hasattr(found, "_moId")]
    (host,) = everything(instance, vim.HostSystem)
    shown = host.configManager
    managers += [getattr(shown, info.name) for info in shown._GetPropertyList()]
    for manager in filter(lambda found: hasattr(found, "_moId"), managers):
        spec = vmodl.query.PropertyCollector.FilterSpec(
            objectSet=[vmodl.query.PropertyCollector.ObjectSpec(obj=manager)],
            propSet=[vmodl.query.PropertyCollector.PropertySpec(type=type(manager), all=True)],
        )
        assert len(content.propertyCollector.RetrieveProperties([spec])) == 1


def test_licences_are_added_and_removed(instance: Any) -> None:
    manager, key = instance.content.licenseManager, "AAAAA-00000-00000-00000-00001"
    assert manager.AddLicense(key, []).licenseKey == key
    assert key in [licence.licenseKey for licence in manager.licenses]
    manager.RemoveLicense(key)
    assert key not in [licence.licenseKey for licence in manager.licenses]
    for method, word in ((manager.RemoveLicense, key), (manager.DecodeLicense, "no key")):
        with pytest.raises(vmodl.fault.InvalidArgument):
            method(word)


def test_a_datastore_is_browsed_below_a_folder(lab: Lab, instance: Any) -> None:
    store = one(instance, vim.Datastore, "vsan")
    task = store.browser.SearchDatastoreSubFolders_Task("[vsan] ", None)
    lab.run_until_idle()
    found = {one.folderPath: [file.path for file in one.file] for one in task.info.result}
    assert found["[vsan] ubuntu-22.04-efi/"][0] == "ubuntu-22.04-efi.vmx"
    assert found["[vsan] "] == ["ubuntu-22.04-efi"]


def test_ports_of_a_switch_are_told_by_portgroup(instance: Any) -> None:
    switch = one(instance, vim.dvs.VmwareDistributedVirtualSwitch, "dvs-mgmt")
    group = one(instance, vim.dvs.DistributedVirtualPortgroup, "dv-train")
    kind: Any = vim.dvs.PortCriteria
    criteria = kind(portgroupKey=[group.key], inside=True)
    ports = switch.FetchDVPorts(criteria)
    assert {port.portgroupKey for port in ports} == {group.key}
    assert len(ports) == group.config.numPorts
    assert ports[0].config.setting.vlan.vlanId == 40
    criteria.connected = True
    assert switch.FetchDVPorts(criteria) == []
    criteria = kind(portKey=[ports[1].key])
    assert [port.key for port in switch.FetchDVPorts(criteria)] == [ports[1].key]
