"""What the methods do to VMs, folders and clusters; every refusal with its twin."""

from __future__ import annotations

from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import TEMPLATE, Rig, add, change, disk, gpu_spec, options, passthrough, vmxnet3
from vgpu_cfg.lab.state.devices import disks_of, nics_of, vgpu_backing, vgpus_of
from vgpu_cfg.lab.state.inventory import (
    Cluster,
    Datastore,
    Folder,
    Network,
    ResourcePool,
    VirtualMachine,
)
from vgpu_cfg.lab.state.vm import Snapshot

ConfigSpec = vim.vm.ConfigSpec


@pytest.fixture
def rig() -> Rig:
    return Rig()


def test_a_clone_carries_everything_and_takes_the_whole_spec(rig: Rig) -> None:
    template = rig.vm(TEMPLATE)
    template.extra_config["vgpu_cfg.plan"] = "somebody"
    template.annotation = "golden"
    vm = rig.clone("a", "grid_a100-10c", extra={"numa.nodeAffinity": "0"})
    assert vm.annotation == "golden"
    assert vm.extra_config["vgpu_cfg.plan"] == "somebody"
    assert vm.extra_config["numa.nodeAffinity"] == "0"
    assert (vm.cpus, vm.memory_mib, vm.memory_reservation_mib, vm.firmware) == (8, 65536, 65536, "efi")
    assert vgpus_of(vm.devices) == [(13000, "grid_a100-10c")]
    assert vm.instance_uuid != template.instance_uuid
    assert nics_of(vm.devices)[0].macAddress != nics_of(template.devices)[0].macAddress
    assert disks_of(vm.devices)[0].backing.fileName == "[vsan] a/a.vmdk"
    assert (vm.power_state, vm.is_template) == ("poweredOff", False)
    assert vgpus_of(template.devices) == []


def test_a_clone_is_registered_everywhere(rig: Rig) -> None:
    vm = rig.clone("a")
    folder, store, network = (
        rig.find(Folder, "training"),
        rig.find(Datastore),
        rig.find(Network, "vm-network"),
    )
    assert vm.parent == folder.moid
    places = (folder.children, rig.host().vms, store.vms, network.vms)
    assert all(vm.moid in place for place in places)
    rig.done(vm, "Destroy_Task")
    assert not any(vm.moid in place for place in (*places, rig.lab.state.objects))


def test_a_name_is_free_once_in_a_folder(rig: Rig) -> None:
    rig.clone("a")
    fault = rig.refused(**rig.clone_call("a"))
    assert isinstance(fault, vim.fault.DuplicateName)
    assert fault.name == "a"
    rig.clone("a", folder="vm")


def test_a_template_needs_a_pool(rig: Rig) -> None:
    call = rig.clone_call("a")
    call["spec"].location.pool = None
    with pytest.raises(vmodl.fault.InvalidArgument):
        rig.lab.call(**call)


def test_what_has_gone_is_not_found(rig: Rig) -> None:
    call = rig.clone_call("a")
    call["folder"] = vim.Folder("group-v999")
    with pytest.raises(vmodl.fault.ManagedObjectNotFound):
        rig.lab.call(**call)


def test_a_clone_that_fails_leaves_nothing(rig: Rig) -> None:
    before = set(rig.lab.state.objects)
    fault = rig.refused(**rig.clone_call("a", "grid_t4-16c"))
    assert isinstance(fault, vim.fault.InvalidDeviceBacking)
    assert fault.deviceIndex == 0
    assert set(rig.lab.state.objects) - before == set(rig.lab.state.tasks)
    assert not rig.find(Network, "vm-network").vms.keys() - {rig.vm(TEMPLATE).moid}


def test_a_clone_that_cannot_power_on_stays(rig: Rig) -> None:
    fault = rig.refused(**rig.clone_call("a", "grid_a100-40c", firmware="bios", power_on=True))
    assert fault.reason == "Module 'DevicePowerOn' power on failed."
    assert rig.vm("a").power_state == "poweredOff"
    rig.clone("b", "grid_a100-40c", power_on=True)
    assert rig.vm("b").is_on


def test_a_linked_clone_needs_a_snapshot(rig: Rig) -> None:
    call = rig.clone_call("a")
    call["spec"].location.diskMoveType = "createNewChildDiskBacking"
    assert isinstance(rig.refused(**call), vmodl.fault.InvalidArgument)
    template = rig.vm(TEMPLATE)
    snapshot = rig.done(template, "CreateSnapshot_Task", name="base", memory=False, quiesce=False)
    call["spec"].snapshot = vim.vm.Snapshot(snapshot)
    rig.done(**call)
    parent = disks_of(rig.vm("a").devices)[0].backing.parent
    assert parent.fileName == disks_of(template.devices)[0].backing.fileName


def test_a_clone_does_not_change_the_hardware_version(rig: Rig) -> None:
    spec = gpu_spec("grid_a100-40c")
    spec.version = "vmx-21"
    vm = rig.clone("a", config=spec)
    assert vm.hardware_version == 19
    rig.done(vm, "UpgradeVM_Task", version="vmx-21")
    assert vm.hardware_version == 21
    assert isinstance(rig.refused(vm, "UpgradeVM_Task", version="vmx-21"), vim.fault.AlreadyUpgraded)
    assert isinstance(
        rig.refused(vm, "UpgradeVM_Task", version="vmx-22"), vim.fault.VirtualHardwareVersionNotSupported
    )
    rig.done(vm, "PowerOnVM_Task")
    assert isinstance(rig.refused(vm, "UpgradeVM_Task"), vim.fault.InvalidPowerState)


def create_spec(name: str, *devices: Any, **more: Any) -> Any:
    return ConfigSpec(
        name=name,
        files=vim.vm.FileInfo(vmPathName="[vsan]"),
        guestId="ubuntu64Guest",
        numCPUs=2,
        memoryMB=4096,
        deviceChange=[add(device) for device in devices],
        **more,
    )


def test_a_vm_from_nothing(rig: Rig) -> None:
    folder, cluster = rig.find(Folder, "training"), rig.find(Cluster)
    scsi = vim.vm.device.ParaVirtualSCSIController(key=-1, busNumber=0, sharedBus="noSharing")
    pool = vim.ResourcePool(cluster.resource_pool)
    spec = create_spec(
        "a",
        scsi,
        disk(1024, -1, -2),
        disk(2048, -1, -3),
        vmxnet3(rig.find(Network, "vm-network"), -4),
        version="vmx-20",
    )
    vm = rig.lab.state.get(rig.done(folder, "CreateVM_Task", config=spec, pool=pool), VirtualMachine)
    assert [(item.key, item.controllerKey, item.unitNumber) for item in disks_of(vm.devices)] == [
        (2000, 1000, 0),
        (2001, 1000, 1),
    ]
    assert [nic.key for nic in nics_of(vm.devices)] == [4000]
    assert (vm.hardware_version, vm.firmware, vm.datastore) == (20, "bios", rig.find(Datastore).moid)
    rig.done(vm, "PowerOnVM_Task")
    assert isinstance(
        rig.refused(folder, "CreateVM_Task", config=create_spec("b", disk(1024, -1)), pool=pool),
        vim.fault.MissingController,
    )
    nowhere = create_spec("c")
    nowhere.files.vmPathName = "[nowhere]"
    fault = rig.refused(folder, "CreateVM_Task", config=nowhere, pool=pool)
    assert isinstance(fault, vim.fault.InvalidDatastore)


def test_keys_are_the_servers(rig: Rig) -> None:
    vm = rig.clone("a", "grid_a100-10c", "grid_a100-10c")
    assert vgpus_of(vm.devices) == [(13000, "grid_a100-10c"), (13001, "grid_a100-10c")]
    spec = ConfigSpec(
        deviceChange=[
            change("remove", vim.vm.device.VirtualPCIPassthrough(key=13000)),
            add(passthrough(vgpu_backing("grid_a100-20c"))),
        ]
    )
    rig.done(vm, "ReconfigVM_Task", spec=spec)
    assert vgpus_of(vm.devices) == [(13000, "grid_a100-20c"), (13001, "grid_a100-10c")]


@pytest.mark.parametrize("key", [-1, 0])
def test_new_devices_need_distinct_keys(rig: Rig, key: int) -> None:
    backing = vgpu_backing("grid_a100-10c")
    vm = rig.clone("a")
    same = ConfigSpec(deviceChange=[add(passthrough(backing, key)), add(passthrough(backing, key))])
    fault = rig.refused(vm, "ReconfigVM_Task", spec=same)
    assert isinstance(fault, vim.fault.InvalidDeviceSpec)
    assert fault.deviceIndex == 1
    assert vgpus_of(vm.devices) == []


def test_a_passthrough_device_is_not_edited(rig: Rig) -> None:
    vm = rig.clone("a", "grid_a100-10c")
    edit = change("edit", passthrough(vgpu_backing("grid_a100-20c"), 13000))
    fault = rig.refused(vm, "ReconfigVM_Task", spec=ConfigSpec(deviceChange=[edit]))
    assert isinstance(fault, vim.fault.InvalidDeviceSpec)


def test_a_spec_is_applied_whole_or_not_at_all(rig: Rig) -> None:
    vm = rig.clone("a")
    spec = ConfigSpec(
        numCPUs=12, extraConfig=options(k="v"), deviceChange=[change("remove", passthrough(None, 13005))]
    )
    assert isinstance(rig.refused(vm, "ReconfigVM_Task", spec=spec), vim.fault.InvalidDeviceSpec)
    assert vm.cpus == 8
    assert "k" not in vm.extra_config


def test_extra_config_merges_and_an_empty_value_removes(rig: Rig) -> None:
    vm = rig.clone("a", extra={"one": "1", "two": "2"})
    rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(extraConfig=options(one="", three="3")))
    assert {key: vm.extra_config.get(key) for key in ("one", "two", "three")} == {
        "one": None,
        "two": "2",
        "three": "3",
    }


def test_a_stale_change_version_is_refused(rig: Rig) -> None:
    vm = rig.clone("a")
    seen = vm.current_change_version()
    rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(changeVersion=seen, numCPUs=4))
    assert vm.current_change_version() != seen
    fault = rig.refused(vm, "ReconfigVM_Task", spec=ConfigSpec(changeVersion=seen, numCPUs=2))
    assert isinstance(fault, vim.fault.ConcurrentAccess)
    assert vm.cpus == 4


def test_power_moves_the_change_version(rig: Rig) -> None:
    vm = rig.clone("a")
    seen = [vm.current_change_version()]
    for method in ("PowerOnVM_Task", "PowerOffVM_Task", "PowerOnVM_Task"):
        rig.done(vm, method)
        seen.append(vm.current_change_version())
    rig.booted(vm)
    rig.lab.call(vm, "ShutdownGuest")
    seen.append(vm.current_change_version())
    assert len(set(seen)) == 5
    fault = rig.refused(vm, "ReconfigVM_Task", spec=ConfigSpec(changeVersion=seen[0], numCPUs=4))
    assert isinstance(fault, vim.fault.ConcurrentAccess)


def test_a_template_of_the_estate_has_a_change_version(rig: Rig) -> None:
    template = rig.vm(TEMPLATE)
    spec = ConfigSpec(changeVersion=template.current_change_version(), annotation="x")
    rig.done(template, "ReconfigVM_Task", spec=spec)
    assert template.annotation == "x"


@pytest.mark.parametrize(
    ("spec", "allowed"),
    [
        (ConfigSpec(annotation="x"), True),
        (ConfigSpec(extraConfig=options(**{"guestinfo.metadata": "x"})), True),
        (ConfigSpec(extraConfig=options(**{"pciPassthru0.cfg.enable_uvm": "1"})), False),
        (ConfigSpec(extraConfig=options(**{"numa.nodeAffinity": "0"})), False),
        (ConfigSpec(numCPUs=16), False),
        (ConfigSpec(numCPUs=8), True),
        (ConfigSpec(memoryMB=131072), False),
        (ConfigSpec(firmware="bios"), False),
        (ConfigSpec(deviceChange=[add(passthrough(vgpu_backing("grid_a100-10c")))]), False),
        (ConfigSpec(deviceChange=[change("remove", passthrough(None, 13000))]), False),
        (ConfigSpec(deviceChange=[add(disk(1024))]), True),
    ],
)
def test_what_a_running_vm_takes(rig: Rig, spec: Any, allowed: bool) -> None:
    vm = rig.running("a", "grid_a100-10c")
    task = rig.run(vm, "ReconfigVM_Task", spec=spec)
    assert (task.state == "success") is allowed
    if not allowed:
        assert isinstance(task.fault, vim.fault.InvalidPowerState)
    rig.done(vm, "PowerOffVM_Task")
    rig.done(vm, "ReconfigVM_Task", spec=spec)


def test_hot_add_of_cpus_and_memory_where_it_is_enabled(rig: Rig) -> None:
    vm = rig.clone("a")
    rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(cpuHotAddEnabled=True, memoryHotAddEnabled=True))
    rig.done(vm, "PowerOnVM_Task")
    rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(numCPUs=16, memoryMB=131072))
    assert (vm.cpus, vm.memory_mib, vm.memory_reservation_mib) == (16, 131072, 131072)
    assert isinstance(
        rig.refused(vm, "ReconfigVM_Task", spec=ConfigSpec(numCPUs=8)), vim.fault.InvalidPowerState
    )


def test_nics_are_added_moved_and_removed_hot(rig: Rig) -> None:
    vm = rig.running("a")
    standard, distributed = rig.find(Network, "vm-network"), rig.find(Network, "dv-train")
    port = vim.dvs.PortConnection(portgroupKey=distributed.moid, switchUuid="x")
    backing = vim.vm.device.VirtualEthernetCard.DistributedVirtualPortBackingInfo(port=port)
    new = vim.vm.device.VirtualVmxnet3(key=-1, backing=backing)
    rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(deviceChange=[add(new)]))
    assert [nic.key for nic in nics_of(vm.devices)] == [4000, 4001]
    assert vm.moid in distributed.vms
    first = nics_of(vm.devices)[0]
    edit = change("edit", vim.vm.device.VirtualVmxnet3(key=first.key, backing=backing))
    rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(deviceChange=[edit]))
    assert vm.moid not in standard.vms
    assert nics_of(vm.devices)[0].macAddress == first.macAddress
    gone = change("remove", vim.vm.device.VirtualVmxnet3(key=4001))
    rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(deviceChange=[gone]))
    assert [nic.key for nic in nics_of(vm.devices)] == [4000]


def test_a_network_that_the_host_has_not_is_refused(rig: Rig) -> None:
    vm = rig.clone("a")
    for moid in ("network-999", rig.find(Network, "dvs-mgmt-DVUplinks").moid):
        backing = vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(network=vim.Network(moid))
        device = vim.vm.device.VirtualVmxnet3(key=-1, backing=backing)
        fault = rig.refused(vm, "ReconfigVM_Task", spec=ConfigSpec(deviceChange=[add(device)]))
        assert isinstance(fault, vim.fault.InvalidDeviceBacking)


def test_disks_grow_and_do_not_shrink(rig: Rig) -> None:
    vm = rig.clone("a")
    bigger, smaller = (disk(size * 1024, key=2000) for size in (100, 50))
    rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(deviceChange=[change("edit", bigger)]))
    assert disks_of(vm.devices)[0].capacityInKB == 100 * 1024 * 1024
    fault = rig.refused(vm, "ReconfigVM_Task", spec=ConfigSpec(deviceChange=[change("edit", smaller)]))
    assert isinstance(fault, vim.fault.InvalidDeviceSpec)
    fault = rig.refused(vm, "ReconfigVM_Task", spec=ConfigSpec(deviceChange=[add(disk(50 * 2**20))]))
    assert isinstance(fault, vim.fault.NoDiskSpace)


def test_sriov_nics_count_down_from_13031(rig: Rig) -> None:
    backing = vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(
        network=vim.Network(rig.find(Network, "vm-network").moid)
    )
    cards = [add(vim.vm.device.VirtualSriovEthernetCard(key=-key, backing=backing)) for key in (1, 2)]
    vm = rig.clone("a")
    rig.done(vm, "ReconfigVM_Task", spec=ConfigSpec(deviceChange=cards))
    assert [nic.key for nic in nics_of(vm.devices)] == [4000, 13030, 13031]
    assert [nic.unitNumber for nic in nics_of(vm.devices)] == [7, 64, 65]


def test_power_off_reset_and_shutdown(rig: Rig) -> None:
    vm = rig.clone("a")
    for method in ("PowerOffVM_Task", "ResetVM_Task"):
        assert isinstance(rig.refused(vm, method), vim.fault.InvalidPowerState)
    with pytest.raises(vim.fault.InvalidPowerState):
        rig.lab.call(vm, "ShutdownGuest")
    rig.done(vm, "PowerOnVM_Task")
    rig.done(vm, "ResetVM_Task")
    with pytest.raises(vim.fault.ToolsUnavailable):
        rig.lab.call(vm, "ShutdownGuest")  # it boots yet
    rig.booted(vm)
    rig.lab.call(vm, "ShutdownGuest")
    assert not vm.is_on
    rig.done(vm, "PowerOnVM_Task")
    rig.booted(vm)
    vm.tools_installed = False
    with pytest.raises(vim.fault.ToolsUnavailable):
        rig.lab.call(vm, "ShutdownGuest")


def test_a_running_vm_is_not_destroyed(rig: Rig) -> None:
    vm = rig.running("a", "grid_a100-10c")
    assert isinstance(rig.refused(vm, "Destroy_Task"), vim.fault.InvalidPowerState)
    rig.done(vm, "PowerOffVM_Task")
    rig.done(vm, "Destroy_Task")
    assert not rig.has_vm("a")
    assert vm.moid in rig.lab.state.removed


def test_folders(rig: Rig) -> None:
    training = rig.find(Folder, "training")
    made = rig.lab.call(training, "CreateFolder", name="sub")
    assert made.parent == training.moid
    with pytest.raises(vim.fault.DuplicateName):
        rig.lab.call(training, "CreateFolder", name="sub")
    vm = rig.clone("a", folder="sub")
    rig.done(made, "Rename_Task", newName="other")
    assert rig.find(Folder, "other") is made
    rig.done(made, "Destroy_Task")
    assert vm.moid not in rig.lab.state.objects


def test_rename_and_templates(rig: Rig) -> None:
    vm, other = rig.clone("a"), rig.clone("b")
    assert isinstance(rig.refused(vm, "Rename_Task", newName="b"), vim.fault.DuplicateName)
    rig.done(vm, "Rename_Task", newName="c")
    assert vm.name == "c"
    rig.lab.call(other, "MarkAsTemplate")
    assert other.is_template
    pool = rig.find(Cluster).resource_pool
    rig.lab.call(other, "MarkAsVirtualMachine", pool=vim.ResourcePool(pool))
    assert (other.is_template, other.resource_pool) == (False, pool)
    rig.lab.call(other, "UnregisterVM")
    assert not rig.has_vm("b")


def test_a_vm_goes_from_folder_to_folder(rig: Rig) -> None:
    vm, other = rig.clone("a"), rig.clone("a", folder="vm")
    training, root = rig.find(Folder, "training"), rig.find(Folder, "vm")
    into = [vim.VirtualMachine(vm.moid)]
    assert isinstance(rig.refused(root, "MoveIntoFolder_Task", list=into), vim.fault.DuplicateName)
    rig.done(other, "Rename_Task", newName="b")
    rig.done(root, "MoveIntoFolder_Task", list=into)
    assert (vm.parent, vm.moid in training.children, vm.moid in root.children) == (root.moid, False, True)


def test_resource_pools(rig: Rig) -> None:
    root = rig.find(Cluster).resource_pool
    spec = vim.ResourceConfigSpec()
    made = rig.lab.call(root, "CreateResourcePool", name="research", spec=spec)
    assert (made.parent, made.owner) == (root, rig.find(Cluster).moid)
    with pytest.raises(vim.fault.DuplicateName):
        rig.lab.call(root, "CreateResourcePool", name="research", spec=spec)


def test_a_snapshot_that_goes_leaves_those_behind_it_or_takes_them_along(rig: Rig) -> None:
    vm = rig.clone("a")
    first, second, third = (
        rig.done(vm, "CreateSnapshot_Task", name=name, memory=False, quiesce=False)
        for name in ("first", "second", "third")
    )
    shown = rig.lab.state.get
    rig.done(shown(second, Snapshot), "RemoveSnapshot_Task", removeChildren=False)
    assert vm.snapshots == [first, third]
    assert (shown(third, Snapshot).previous, vm.current_snapshot) == (first, third)
    again = rig.done(vm, "CreateSnapshot_Task", name="fourth", memory=False, quiesce=False)
    assert shown(again, Snapshot).number == 4
    rig.done(shown(third, Snapshot), "RemoveSnapshot_Task", removeChildren=True)
    assert (vm.snapshots, vm.current_snapshot) == ([first], first)
    rig.done(vm, "RemoveAllSnapshots_Task")
    assert (vm.snapshots, vm.current_snapshot) == ([], None)


def test_what_a_pool_holds_goes_to_the_one_above_it(rig: Rig) -> None:
    vm = rig.clone("a")
    root = rig.lab.state.get(vm.resource_pool or "", ResourcePool)
    pool = rig.lab.call(root, "CreateResourcePool", name="team", spec=vim.ResourceConfigSpec())
    below = rig.lab.call(pool, "CreateResourcePool", name="below", spec=vim.ResourceConfigSpec())
    root.vms.pop(vm.moid)
    pool.vms[vm.moid], vm.resource_pool = None, pool.moid
    rig.done(pool, "Destroy_Task")
    assert (vm.resource_pool, below.parent) == (root.moid, root.moid)
    assert vm.moid in root.vms
    assert root.pools[-1] == below.moid
    assert pool.moid not in rig.lab.state.objects
    assert isinstance(rig.refused(root, "Destroy_Task"), vmodl.fault.NotSupported)


def test_a_vm_that_is_suspended_gives_back_its_gpu(rig: Rig) -> None:
    vm = rig.clone("a", "grid_a100-40c")
    rig.done(vm, "PowerOnVM_Task")
    rig.done(vm, "SuspendVM_Task")
    assert (vm.power_state, [gpu.uses for gpu in rig.host().gpus]) == ("suspended", [[], []])
    assert isinstance(rig.refused(vm, "SuspendVM_Task"), vim.fault.InvalidPowerState)
    rig.done(vm, "PowerOnVM_Task")
    rig.done(vm, "SuspendVM_Task")
    rig.done(vm, "PowerOffVM_Task")
    assert vm.power_state == "poweredOff"


@pytest.mark.parametrize("memory", [False, True])
def test_a_revert_brings_the_settings_of_the_snapshot_back(rig: Rig, *, memory: bool) -> None:
    vm = rig.clone("a", "grid_a100-10c", extra={"guestinfo.role": "worker"})
    rig.done(vm, "PowerOnVM_Task")
    first = rig.done(vm, "CreateSnapshot_Task", name="first", memory=memory, quiesce=False)
    rig.done(vm, "CreateSnapshot_Task", name="second", memory=False, quiesce=False)
    rig.done(vm, "PowerOffVM_Task")
    spec = ConfigSpec(numCPUs=2, extraConfig=options(**{"guestinfo.role": "chief"}))
    rig.done(vm, "ReconfigVM_Task", spec=spec)
    before = vm.change_version
    rig.done(rig.lab.state.get(first, Snapshot), "RevertToSnapshot_Task")
    assert (vm.cpus, vm.extra_config["guestinfo.role"], vm.current_snapshot) == (8, "worker", first)
    assert vm.power_state == ("poweredOn" if memory else "poweredOff")
    assert vm.change_version != before


def test_a_vm_without_snapshots_has_none_to_revert_to(rig: Rig) -> None:
    vm = rig.clone("a")
    assert isinstance(rig.refused(vm, "RevertToCurrentSnapshot_Task"), vim.fault.NotFound)
    rig.done(vm, "CreateSnapshot_Task", name="first", memory=False, quiesce=False)
    rig.done(vm, "RevertToCurrentSnapshot_Task")
