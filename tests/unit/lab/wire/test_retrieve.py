from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.wire.client import connect, everything, filter_spec, one, open_virtual, read
from vgpu_cfg.lab.state.inventory import Host, VirtualMachine

Collector: Any = vmodl.query.PropertyCollector
Options: Any = Collector.RetrieveOptions


def below_root(instance: Any, kind: Any, paths: list[str]) -> Any:
    """Return the filter spec that finds everything of a kind through a view."""
    content = instance.content
    view = content.viewManager.CreateContainerView(content.rootFolder, [kind], recursive=True)
    traversal = Collector.TraversalSpec(name="view", type=vim.view.ContainerView, path="view", skip=False)
    return Collector.FilterSpec(
        objectSet=[Collector.ObjectSpec(obj=view, skip=True, selectSet=[traversal])],
        propSet=[Collector.PropertySpec(type=kind, pathSet=paths)],
    )


def names(page: Any) -> list[str]:
    return [content.propSet[0].val for content in page.objects]


def test_paths_of_any_depth_are_answered_under_their_own_names() -> None:
    instance = connect(open_virtual("two-a100"))
    hosts = everything(instance, vim.HostSystem)
    paths = [
        "name",
        "hardware.cpuInfo.numCpuCores",
        "config.product.version",
        "summary.hardware.memorySize",
        'hardware.pciDevice["0000:21:00.0"].deviceName',
    ]
    (found,) = read(instance, hosts, vim.HostSystem, paths)
    assert list(found) == paths
    assert found["hardware.cpuInfo.numCpuCores"] == 64
    assert found[paths[-1]] == "NVIDIA A100 PCIe 40GB"


def test_keyed_paths_reach_one_element_and_an_unknown_key_is_absent() -> None:
    lab = open_virtual("two-a100")
    vm = lab.state.all(VirtualMachine)[0]
    vm.extra_config["vgpu_cfg.plan"] = "training"
    instance = connect(lab)
    vms = everything(instance, vim.VirtualMachine)
    paths = [
        'config.extraConfig["vgpu_cfg.plan"]',
        'config.extraConfig["vgpu_cfg.plan"].value',
        'config.extraConfig["other"]',
        "config.hardware.device[1000]",
        "config.hardware.device[4999]",
    ]
    (found,) = read(instance, vms, vim.VirtualMachine, paths)
    assert found[paths[0]].value == found[paths[1]] == "training"
    assert isinstance(found[paths[3]], vim.vm.device.ParaVirtualSCSIController)
    assert set(found) == {paths[0], paths[1], paths[3]}


@pytest.mark.parametrize(
    "path",
    ["nme", "config.hardware.devices", "name.x", "config.", "", "a b", 'name["x"]', "config.extraConfig.key"],
)
def test_a_path_that_the_type_has_not_is_invalid(path: str) -> None:
    instance = connect(open_virtual("two-a100"))
    vms = everything(instance, vim.VirtualMachine)
    with pytest.raises(vmodl.query.InvalidProperty) as caught:
        read(instance, vms, vim.VirtualMachine, [path])
    assert caught.value.name == path


def test_a_path_that_the_type_has_and_nobody_set_is_absent() -> None:
    instance = connect(open_virtual("two-a100"))
    vms = everything(instance, vim.VirtualMachine)
    assert read(instance, vms, vim.VirtualMachine, ["config.ftInfo", "runtime.bootTime"]) == [{}]


def test_numbers_and_words_inside_any_have_their_own_types() -> None:
    instance = connect(open_virtual("two-a100"))
    hosts = everything(instance, vim.HostSystem)
    paths = ["hardware.memorySize", "hardware.cpuInfo.numCpuCores", "overallStatus"]
    read(instance, hosts, vim.HostSystem, paths)
    answer = instance._stub.answers[-1].decode()
    assert '<val xsi:type="xsd:long">549755813888</val>' in answer
    assert '<val xsi:type="xsd:short">64</val>' in answer
    assert '<val xsi:type="ManagedEntityStatus">green</val>' in answer


def test_ids_beyond_a_short_come_signed() -> None:
    lab = open_virtual("two-a100")
    instance = connect(lab)
    hosts = everything(instance, vim.HostSystem)
    (found,) = read(instance, hosts, vim.HostSystem, ["hardware.pciDevice"])
    by_id = {device.id: device for device in found["hardware.pciDevice"]}
    assert by_id["0000:e2:00.0"].bus == 0xE2 - 256
    assert by_id["0000:e2:00.0"].bus & 0xFF == 0xE2
    assert by_id["0000:e2:00.0"].vendorId == 0x10DE


def test_reading_again_gives_other_objects_so_that_nothing_is_shared() -> None:
    lab = open_virtual("two-a100")
    instance = connect(lab)
    vms = everything(instance, vim.VirtualMachine)
    (first,) = read(instance, vms, vim.VirtualMachine, ["config.hardware.device"])
    for device in first["config.hardware.device"]:
        device.deviceInfo = None
    (second,) = read(instance, vms, vim.VirtualMachine, ["config.hardware.device"])
    assert all(device.deviceInfo for device in second["config.hardware.device"])


def test_pages_hold_as_many_as_asked_and_end() -> None:
    instance = connect(open_virtual("fleet-4x8-10vms"))
    collector = instance.content.propertyCollector
    everyone = [vm.name for vm in everything(instance, vim.VirtualMachine)]
    spec = below_root(instance, vim.VirtualMachine, ["name"])
    page = collector.RetrievePropertiesEx([spec], Options(maxObjects=4))
    found, sizes = names(page), [len(page.objects)]
    while page.token:
        page = collector.ContinueRetrievePropertiesEx(page.token)
        found += names(page)
        sizes.append(len(page.objects))
    assert sizes[:-1] == [4] * (len(sizes) - 1)
    assert found == everyone
    assert len(found) == len(set(found))


def test_a_token_is_good_for_once_and_can_be_cancelled() -> None:
    instance = connect(open_virtual("fleet-4x8-10vms"))
    collector = instance.content.propertyCollector
    spec = below_root(instance, vim.VirtualMachine, ["name"])
    token = collector.RetrievePropertiesEx([spec], Options(maxObjects=2)).token
    collector.ContinueRetrievePropertiesEx(token)
    with pytest.raises(vmodl.fault.InvalidArgument):
        collector.ContinueRetrievePropertiesEx(token)
    token = collector.RetrievePropertiesEx([spec], Options(maxObjects=2)).token
    collector.CancelRetrievePropertiesEx(token)
    with pytest.raises(vmodl.fault.InvalidArgument):
        collector.ContinueRetrievePropertiesEx(token)


def test_what_went_between_two_pages_is_left_out() -> None:
    lab = open_virtual("fleet-4x8-10vms")
    instance = connect(lab)
    collector = instance.content.propertyCollector
    spec = below_root(instance, vim.VirtualMachine, ["name"])
    before = names(collector.RetrievePropertiesEx([spec], Options()))
    page = collector.RetrievePropertiesEx([spec], Options(maxObjects=1))
    first = page.objects[0].obj._moId
    gone = next(vm for vm in lab.state.all(VirtualMachine) if vm.moid != first)
    lab.state.remove(gone)
    found = names(page)
    while page is not None and page.token:
        page = collector.ContinueRetrievePropertiesEx(page.token)
        found += names(page) if page is not None else []
    assert sorted(found) == sorted(set(before) - {gone.name})


def test_nothing_found_is_no_answer() -> None:
    instance = connect(open_virtual("no-gpu"))
    spec = below_root(instance, vim.HostSystem, ["name"])
    spec.propSet[0].type = vim.Datastore
    assert instance.content.propertyCollector.RetrievePropertiesEx([spec], Options()) is None
    assert instance.content.propertyCollector.RetrieveProperties([spec]) == []


def test_traversals_refer_to_themselves_by_name() -> None:
    instance = connect(open_virtual("two-a100"))
    again = Collector.SelectionSpec(name="folders")
    folders = Collector.TraversalSpec(
        name="folders",
        type=vim.Folder,
        path="childEntity",
        skip=False,
        selectSet=[again, Collector.SelectionSpec(name="dc")],
    )
    datacenters = Collector.TraversalSpec(
        name="dc", type=vim.Datacenter, path="vmFolder", skip=False, selectSet=[again]
    )
    spec = Collector.FilterSpec(
        objectSet=[
            Collector.ObjectSpec(obj=instance.content.rootFolder, skip=True, selectSet=[folders, datacenters])
        ],
        propSet=[Collector.PropertySpec(type=vim.ManagedEntity, pathSet=["name"])],
    )
    found = instance.content.propertyCollector.RetrieveProperties([spec])
    shown = sorted(content.propSet[0].val for content in found)
    assert shown == ["dc1", "training", "ubuntu-22.04-efi", "vm"]


def test_one_object_met_by_several_specs_comes_once_with_all_its_paths() -> None:
    instance = connect(open_virtual("two-a100"))
    cluster = everything(instance, vim.ClusterComputeResource)[0]
    spec = filter_spec([cluster, cluster], vim.ComputeResource, ["name"])
    spec.propSet.append(Collector.PropertySpec(type=vim.ClusterComputeResource, pathSet=["host"]))
    spec.propSet.append(Collector.PropertySpec(type=vim.Folder, pathSet=["name"]))
    (found,) = instance.content.propertyCollector.RetrieveProperties([spec])
    assert [item.name for item in found.propSet] == ["name", "host"]


def test_a_reference_that_leads_nowhere_is_refused_or_passed_over() -> None:
    instance = connect(open_virtual("two-a100"))
    ghost = vim.VirtualMachine("vm-999", instance._stub)
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        read(instance, [ghost], vim.VirtualMachine, ["name"])
    spec = filter_spec([ghost, instance.content.rootFolder], vim.ManagedEntity, ["name"])
    spec.reportMissingObjectsInResults = True
    (found,) = instance.content.propertyCollector.RetrieveProperties([spec])
    assert found.obj == instance.content.rootFolder
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        assert ghost.name


def test_a_privilege_to_read_that_is_lacking_leaves_a_mark_not_a_hole() -> None:
    lab = open_virtual("two-a100")
    instance = connect(lab)
    vms = everything(instance, vim.VirtualMachine)
    lab.faults.lacking.add("System.Read")
    spec = filter_spec(vms, vim.VirtualMachine, ["name", "config.firmware"])
    (content,) = instance.content.propertyCollector.RetrieveProperties([spec])
    assert [item.name for item in content.propSet] == ["name"]
    (missing,) = content.missingSet
    assert missing.path == "config.firmware"
    assert isinstance(missing.fault, vim.fault.NoPermission)


def test_a_disconnected_host_shows_so_and_its_vms_too() -> None:
    lab = open_virtual("two-a100")
    lab.state.all(Host)[0].connection = "disconnected"
    instance = connect(lab)
    (host,) = read(instance, everything(instance, vim.HostSystem), vim.HostSystem, ["runtime"])
    assert (host["runtime"].connectionState, host["runtime"].powerState) == ("disconnected", "unknown")
    vm = one(instance, vim.VirtualMachine, "ubuntu-22.04-efi")
    assert vm.runtime.connectionState == "disconnected"
    with pytest.raises(vmodl.fault.HostNotConnected):
        everything(instance, vim.HostSystem)[0].configManager.graphicsManager.RefreshGraphicsManager()


def test_properties_can_be_fetched_one_by_one() -> None:
    instance = connect(open_virtual("two-a100"))
    vm = one(instance, vim.VirtualMachine, "ubuntu-22.04-efi")
    assert vm.config.hardware.memoryMB == 8192
    assert vm.parentVApp is None
    assert vm.snapshot is None
    assert [network.name for network in vm.network]


def test_the_task_that_removed_a_vm_still_names_it() -> None:
    lab = open_virtual("two-a100")
    instance = connect(lab)
    vm = one(instance, vim.VirtualMachine, "ubuntu-22.04-efi")
    task = vm.Destroy_Task()
    lab.run_until_idle()
    info = task.info
    assert (info.state, info.entity._moId, info.entityName) == ("success", vm._moId, "ubuntu-22.04-efi")
    assert task._moId in [recent._moId for recent in instance.content.taskManager.recentTask]
