"""Scripts as admins write them with pyvmomi, against the lab: connect, look, change, wait for tasks."""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from http.client import HTTPSConnection
from typing import Any

import pytest
from pyVim.connect import Disconnect, SmartConnect
from pyVim.task import WaitForTask
from pyVmomi import vim

from tests.contract.clients.test_govc_commands import ESTATE
from tests.contract.conftest import Server
from tests.contract.test_govc import served


@pytest.fixture
def server() -> Iterator[Server]:
    with served(str(ESTATE)) as running:
        yield running


@pytest.fixture
def instance(server: Server) -> Iterator[Any]:
    trusting = ssl.create_default_context(cadata=server.certificate)
    made: Any = SmartConnect(
        host=server.host, port=server.port, user=server.user, pwd=server.password, sslContext=trusting
    )
    yield made
    Disconnect(made)


def found(instance: Any, kind: Any, name: str = "") -> Any:
    """Return an object by its name, as scripts do: by a container view."""
    content = instance.RetrieveContent()
    view = content.viewManager.CreateContainerView(content.rootFolder, [kind], True)
    named = [one for one in view.view if name in ("", one.name)]
    view.Destroy()
    return named[0]


def cloned(instance: Any, name: str) -> Any:
    template = found(instance, vim.VirtualMachine, "ubuntu-22.04-efi")
    place = vim.vm.RelocateSpec(
        pool=found(instance, vim.ResourcePool), datastore=found(instance, vim.Datastore)
    )
    spec = vim.vm.CloneSpec(location=place, powerOn=False)
    WaitForTask(template.CloneVM_Task(found(instance, vim.Folder, "training"), name, spec))
    return found(instance, vim.VirtualMachine, name)


def test_an_inventory_is_listed(instance: Any) -> None:
    for center in instance.content.rootFolder.childEntity:
        for compute in center.hostFolder.childEntity:
            for host in compute.host:
                assert host.summary.hardware.numCpuCores > 0
                assert host.summary.runtime.connectionState == "connected"
                assert host.summary.quickStats is not None
        for store in center.datastore:
            assert store.summary.capacity > store.summary.freeSpace > 0
        assert [network.name for network in center.network]


def test_a_vm_is_made_run_and_destroyed(instance: Any) -> None:
    vm = cloned(instance, "web")
    WaitForTask(vm.ReconfigVM_Task(vim.vm.ConfigSpec(numCPUs=2, memoryMB=2048, annotation="a script's")))
    WaitForTask(vm.PowerOnVM_Task())
    assert (vm.summary.runtime.powerState, vm.summary.config.numCpu) == ("poweredOn", 2)
    WaitForTask(vm.SuspendVM_Task())
    WaitForTask(vm.PowerOnVM_Task())
    WaitForTask(vm.PowerOffVM_Task())
    WaitForTask(vm.Destroy_Task())
    with pytest.raises(IndexError):
        found(instance, vim.VirtualMachine, "web")


def test_snapshots_are_made_listed_reverted_and_removed(instance: Any) -> None:
    vm = cloned(instance, "web")
    WaitForTask(vm.CreateSnapshot_Task("first", "before", False, False))
    WaitForTask(vm.ReconfigVM_Task(vim.vm.ConfigSpec(numCPUs=8)))
    (first,) = vm.snapshot.rootSnapshotList
    WaitForTask(first.snapshot.RevertToSnapshot_Task())
    assert (first.name, vm.config.hardware.numCPU) == ("first", 4)
    WaitForTask(vm.RemoveAllSnapshots_Task())
    assert vm.snapshot is None


def test_disks_and_nics_are_added(instance: Any) -> None:
    vm = cloned(instance, "web")
    controller = next(
        one for one in vm.config.hardware.device if isinstance(one, vim.vm.device.VirtualSCSIController)
    )
    disk = vim.vm.device.VirtualDisk(
        key=-1,
        capacityInKB=2**20,
        controllerKey=controller.key,
        unitNumber=3,
        backing=vim.vm.device.VirtualDisk.FlatVer2BackingInfo(diskMode="persistent", thinProvisioned=True),
    )
    network = found(instance, vim.Network, "vm-network")
    nic = vim.vm.device.VirtualVmxnet3(
        key=-2,
        backing=vim.vm.device.VirtualEthernetCard.NetworkBackingInfo(
            network=network, deviceName=network.name
        ),
    )
    kind: Any = vim.vm.device.VirtualDeviceSpec
    changes = [
        kind(operation="add", fileOperation="create", device=disk),
        kind(operation="add", device=nic),
    ]
    before = len(vm.config.hardware.device)
    WaitForTask(vm.ReconfigVM_Task(vim.vm.ConfigSpec(deviceChange=changes)))
    assert len(vm.config.hardware.device) == before + 2


def test_a_file_is_uploaded_found_and_deleted(server: Server, instance: Any) -> None:
    store, center = found(instance, vim.Datastore), found(instance, vim.Datacenter)
    instance.content.fileManager.MakeDirectory(f"[{store.name}] notes", center)
    path = f"/folder/notes/a.txt?dcPath={center.name}&dsName={store.name}"
    trusting = ssl.create_default_context(cadata=server.certificate)
    connection = HTTPSConnection(server.host, server.port, context=trusting, timeout=120)
    connection.request("PUT", path, b"hello", {"Cookie": instance._stub.cookie.partition(";")[0]})
    assert connection.getresponse().status == 201
    connection.close()
    task = store.browser.SearchDatastore_Task(f"[{store.name}] notes", vim.host.DatastoreBrowser.SearchSpec())
    WaitForTask(task)
    assert [one.path for one in task.info.result.file] == ["a.txt"]
    WaitForTask(instance.content.fileManager.DeleteDatastoreFile_Task(f"[{store.name}] notes", center))


def test_a_host_is_taken_out_of_service_and_back(instance: Any) -> None:
    host = found(instance, vim.HostSystem, "esx-02.lab")
    WaitForTask(host.EnterMaintenanceMode_Task(0))
    assert host.runtime.inMaintenanceMode
    WaitForTask(host.ExitMaintenanceMode_Task(0))
    WaitForTask(host.DisconnectHost_Task())
    assert host.runtime.connectionState == "disconnected"
    WaitForTask(host.ReconnectHost_Task())


def test_events_and_tasks_are_asked_for(instance: Any) -> None:
    vm = cloned(instance, "web")
    by_entity = vim.event.EventFilterSpec.ByEntity(entity=vm, recursion="self")
    events = instance.content.eventManager.QueryEvents(vim.event.EventFilterSpec(entity=by_entity))
    assert "VmDeployedEvent" in {type(event).__name__.rpartition(".")[2] for event in events}
    collector = instance.content.taskManager.CreateCollectorForTasks(vim.TaskFilterSpec())
    assert any(task.descriptionId == "VirtualMachine.clone" for task in collector.ReadNextTasks(100))


def test_what_scripts_do_sums_with_is_a_number(instance: Any) -> None:
    vm = cloned(instance, "web")
    WaitForTask(vm.PowerOnVM_Task())
    stats = vm.summary.quickStats
    assert stats.balloonedMemory + stats.swappedMemory + stats.overallCpuDemand == 0
    session = instance.content.sessionManager
    assert session.AcquireCloneTicket().startswith("cst-VCT-")


def test_a_cluster_a_pool_and_a_folder_are_made(instance: Any) -> None:
    center = found(instance, vim.Datacenter)
    with_drs = vim.cluster.ConfigSpecEx(drsConfig=vim.cluster.DrsConfigInfo(enabled=True))
    cluster = center.hostFolder.CreateClusterEx("lab9", with_drs)
    pool = cluster.resourcePool.CreateResourcePool(
        "ml",
        vim.ResourceConfigSpec(
            cpuAllocation=vim.ResourceAllocationInfo(
                limit=1000, shares=vim.SharesInfo(level="normal", shares=0)
            ),
            memoryAllocation=vim.ResourceAllocationInfo(limit=-1),
        ),
    )
    assert pool.config.cpuAllocation.limit == 1000
    folder = center.vmFolder.CreateFolder("courses")
    WaitForTask(folder.MoveIntoFolder_Task([cloned(instance, "web")]))
    assert [one.name for one in folder.childEntity] == ["web"]
    WaitForTask(cluster.Destroy_Task())
