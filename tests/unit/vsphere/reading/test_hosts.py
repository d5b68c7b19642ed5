"""What a host's properties mean: ids, NUMA nodes, and which of its PCI functions are GPUs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pyVmomi import vim

from vgpu_cfg.model.observed.gpu_use import AssignmentPolicy, GraphicsType
from vgpu_cfg.model.observed.inventory import Connection, Host, Sriov
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.render.views.estate.inventory import DEVICE_MODES
from vgpu_cfg.vsphere.reading.hosts import gpu_holders, lists_nvidia, make_host, pci_address
from vgpu_cfg.vsphere.reading.places import Places
from vgpu_cfg.vsphere.wire.collector import Item

A100 = "0000:3b:00.0"
OTHER = "0000:af:00.0"


def function(
    address: str, vendor: int = 0x10DE, device: int = 0x20F1, kind: int = 0x0302, sub: int = 0x145F
) -> Any:
    return vim.host.PciDevice(
        id=address,
        classId=kind,
        vendorId=_short(vendor),
        deviceId=_short(device),
        subVendorId=_short(vendor),
        subDeviceId=_short(sub),
        vendorName="NVIDIA Corporation",
        deviceName="GA100 [A100 PCIe 40GB]",
        parentBridge="0000:3A:00.0",
    )


def _short(value: int) -> int:
    return value - 0x10000 if value >= 0x8000 else value


def graphics(address: str, vendor: str = "NVIDIA Corporation", **more: Any) -> Any:
    return vim.host.GraphicsInfo(
        pciId=address,
        vendorName=vendor,
        deviceName=more.pop("deviceName", "NVIDIA A100-PCIE-40GB"),
        graphicsType=more.pop("graphicsType", "sharedDirect"),
        memorySizeInKB=more.pop("memorySizeInKB", 40960 << 10),
        vm=[vim.VirtualMachine(moid) for moid in more.pop("vms", ())],
        **more,
    )


def passthrough(address: str, *, enabled: bool = False, active: bool = False) -> Any:
    return vim.host.PciPassthruInfo(
        id=address, passthruCapable=True, passthruEnabled=enabled, passthruActive=active, hardwareLabel="roce"
    )


def host(values: Mapping[str, Any]) -> Host:
    item = Item("HostSystem", "host-1", {"name": "esx-01", "parent": vim.Folder("domain-c1"), **values})
    cluster = Item("ClusterComputeResource", "domain-c1", {"name": "gpu"})
    return make_host(Places([item, cluster]), item)


def test_a_host_of_which_nothing_is_known_is_not_usable() -> None:
    found = host({})
    assert found.connection is Connection.NOT_RESPONDING
    assert not found.is_usable
    assert (found.gpus, found.numa_nodes, found.pci_devices, found.cores) == ((), (), (), 0)


def test_signed_ids_become_unsigned() -> None:
    found = host({"hardware.pciDevice": [function("0000:00:00.0", 0x8086, 0xA1F0, 0x0600, 0x9001)]})
    device = found.pci_devices[0]
    assert (device.vendor_id, device.device_id, device.subsystem_id) == (0x8086, 0xA1F0, 0x9001)
    assert device.parent_bridge == "0000:3a:00.0"
    assert not device.is_gpu


@pytest.mark.parametrize(
    ("text", "expected"),
    [("0000:3B:00.0", "0000:3b:00.0"), ("3b:00.0", "0000:3b:00.0"), ("0001:3b:00.1", "0001:3b:00.1")],
)
def test_pci_addresses_are_written_one_way(text: str, expected: str) -> None:
    assert pci_address(text) == expected


def numa(threads: int) -> Any:
    return vim.host.NumaInfo(
        type="NUMA",
        numNodes=2,
        numaNode=[
            vim.host.NumaNode(
                typeId=node,
                cpuID=list(range(threads)),
                memoryRangeBegin=0,
                memoryRangeLength=256 << 30,
                pciId=[address.upper()],
            )
            for node, address in ((0, A100), (1, OTHER))
        ],
    )


@pytest.mark.parametrize(("threads", "hyperthreading"), [(64, True), (32, False)])
def test_a_numa_node_counts_physical_cores(threads: int, *, hyperthreading: bool) -> None:
    found = host(
        {
            "hardware.numaInfo": numa(threads),
            "summary.hardware.numCpuCores": 64,
            "summary.hardware.numCpuThreads": 2 * threads,
            "hardware.pciDevice": [function(A100), function(OTHER)],
            "config.graphicsInfo": [graphics(A100)],
        }
    )
    assert [node.cores for node in found.numa_nodes] == [32, 32]
    assert [node.memory_mib for node in found.numa_nodes] == [262144, 262144]
    assert found.hyperthreading is hyperthreading
    assert found.gpus[0].numa_node == 0
    assert found.pci_devices[1].numa_node == 1


def test_a_gpu_is_its_function_and_what_the_graphics_manager_says() -> None:
    found = host(
        {
            "hardware.pciDevice": [function(A100)],
            "config.graphicsInfo": [graphics(A100.upper(), vgpuMode="mixedSize", vms=["vm-1", "vm-2"])],
            "config.graphicsConfig": vim.host.GraphicsConfig(
                hostDefaultGraphicsType="shared",
                sharedPassthruAssignmentPolicy="consolidation",
                deviceType=[
                    vim.host.GraphicsConfig.DeviceType(
                        deviceId=A100, graphicsType="sharedDirect", vgpuMode="sameSize"
                    )
                ],
            ),
        }
    )
    (gpu,) = found.gpus
    assert (gpu.pci.device_id, gpu.memory_mib, gpu.vm_moids) == (0x20F1, 40960, ("vm-1", "vm-2"))
    assert gpu.graphics_type is GraphicsType.SHARED_DIRECT
    assert gpu.configured_graphics_type is GraphicsType.SHARED_DIRECT
    assert gpu.vgpu_mode is VgpuMode.MIXED_SIZE
    assert gpu.configured_vgpu_mode is VgpuMode.SAME_SIZE
    assert gpu.sharing is Sharing.TIME_SLICED
    assert found.graphics_type is GraphicsType.SHARED
    assert found.assignment_policy is AssignmentPolicy.CONSOLIDATION


@pytest.mark.parametrize(
    ("mode", "sharing", "vgpu_mode"),
    [
        ("multiInstanceGpu", Sharing.MIG, None),
        ("sameSize", Sharing.TIME_SLICED, VgpuMode.SAME_SIZE),
        ("none", None, None),
        (None, None, None),
    ],
)
def test_the_mode_of_a_gpu_tells_how_it_is_shared(
    mode: str | None, sharing: Sharing | None, vgpu_mode: VgpuMode | None
) -> None:
    (gpu,) = host({"config.graphicsInfo": [graphics(A100, vgpuMode=mode)]}).gpus
    assert gpu.sharing is sharing
    assert gpu.vgpu_mode is vgpu_mode


def test_a_host_without_an_override_has_the_default_for_each_gpu() -> None:
    config = vim.host.GraphicsConfig(
        hostDefaultGraphicsType="sharedDirect", sharedPassthruAssignmentPolicy="performance"
    )
    (gpu,) = host({"config.graphicsInfo": [graphics(A100)], "config.graphicsConfig": config}).gpus
    assert gpu.configured_graphics_type is GraphicsType.SHARED_DIRECT


def test_on_board_video_is_no_gpu() -> None:
    values = {"config.graphicsInfo": [graphics("0000:02:00.0", "Matrox Electronics", deviceName="G200eW3")]}
    assert host(values).gpus == ()
    assert not lists_nvidia(Item("HostSystem", "host-1", values))


def test_a_gpu_in_passthrough_is_a_gpu_though_no_graphics_list_has_it() -> None:
    found = host(
        {
            "hardware.pciDevice": [function(A100), function(OTHER)],
            "config.pciPassthruInfo": [passthrough(A100), passthrough(OTHER, enabled=True, active=True)],
            "config.graphicsInfo": [graphics(A100)],
        }
    )
    assert [gpu.pci_id for gpu in found.gpus] == [A100, OTHER]
    assert [gpu.is_passthrough for gpu in found.gpus] == [False, True]
    assert found.gpus[1].pci.hardware_label == "roce"
    assert found.gpus[1].graphics_type is None


def test_virtual_functions_of_a_listed_gpu_are_no_gpus() -> None:
    found = host(
        {
            "hardware.pciDevice": [function(A100), function("0000:3b:00.4"), function("0000:3b:00.5")],
            "config.graphicsInfo": [graphics(A100)],
        }
    )
    assert [gpu.pci_id for gpu in found.gpus] == [A100]


def test_where_no_graphics_list_tells_every_nvidia_display_function_counts() -> None:
    found = host({"hardware.pciDevice": [function(A100), function("0000:3b:00.1", kind=0x0403)]})
    assert [gpu.pci_id for gpu in found.gpus] == [A100]


def test_a_listed_gpu_without_its_pci_function_is_still_a_gpu() -> None:
    (gpu,) = host({"config.graphicsInfo": [graphics(A100)]}).gpus
    assert (gpu.pci_id, gpu.pci.vendor_id, gpu.pci.device_id) == (A100, 0x10DE, 0)


def test_nics_are_tied_to_their_function() -> None:
    nic = vim.host.PhysicalNic(
        device="vmnic2",
        pci=OTHER.upper(),
        mac="b8:ce:f6:00:0d:02",
        driver="nmlx5_core",
        linkSpeed=vim.host.PhysicalNic.LinkSpeedDuplex(speedMb=100000, duplex=True),
    )
    down = vim.host.PhysicalNic(device="vmnic3", pci="0000:b1:00.0", mac="b8:ce:f6:00:0d:03")
    found = host(
        {
            "hardware.pciDevice": [function(OTHER, 0x15B3, 0x101D, 0x0200)],
            "hardware.numaInfo": numa(2),
            "config.network.pnic": [nic, down],
        }
    )
    first, second = found.nics
    assert first.pci is not None
    assert (first.pci_id, first.speed_mbps, first.numa_node) == (OTHER, 100000, 1)
    assert (second.pci, second.speed_mbps, second.numa_node) == (None, None, None)


def test_holders_are_told_per_gpu() -> None:
    item = Item(
        "HostSystem",
        "host-1",
        {
            "config.graphicsInfo": [
                graphics(A100, vms=["vm-1"]),
                graphics(OTHER),
                graphics("0000:02:00.0", "Matrox", deviceName="G200"),
            ]
        },
    )
    assert gpu_holders(item) == {A100: ("vm-1",), OTHER: ()}


@pytest.mark.parametrize(
    ("parent_type", "cluster"), [("ComputeResource", None), ("ClusterComputeResource", "domain-1")]
)
def test_a_host_outside_of_a_cluster_has_none(parent_type: str, cluster: str | None) -> None:
    item = Item("HostSystem", "host-1", {"name": "esx-01", "parent": vim.ComputeResource("domain-1")})
    found = make_host(Places([item, Item(parent_type, "domain-1", {"name": "x"})]), item)
    assert found.cluster_moid == cluster
    assert found.compute_moid == "domain-1"


def virtual_functions(*, enabled: bool, requested: int, functions: int) -> Any:
    return vim.host.SriovInfo(
        id=A100,
        passthruCapable=True,
        passthruEnabled=False,
        passthruActive=False,
        sriovCapable=True,
        sriovEnabled=enabled,
        sriovActive=functions > 0,
        numVirtualFunctionRequested=requested,
        numVirtualFunction=functions,
        maxVirtualFunctionSupported=16,
    )


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        (
            virtual_functions(enabled=True, requested=8, functions=4),
            Sriov(is_capable=True, is_active=True, functions=4, requested=8, most=16),
        ),
        (
            virtual_functions(enabled=False, requested=8, functions=0),
            Sriov(is_capable=True, is_active=False, functions=0, requested=0, most=16),
        ),
        (passthrough(A100), None),
    ],
    ids=["on, more after a restart", "off", "not told"],
)
def test_virtual_functions_are_told_now_and_after_a_restart(state: Any, expected: Sriov | None) -> None:
    found = host({"hardware.pciDevice": [function(A100)], "config.pciPassthruInfo": [state]})
    assert found.pci_devices[0].sriov == expected
    assert found.pci_devices[0].passthrough_capable


def test_the_device_mode_is_what_esx_9_1_says_and_empty_before() -> None:
    told = passthrough(A100)
    told.directPathState = vim.host.PciPassthruInfo.DirectPathState(
        mode="enhancedDirectPath", configurableModes=["host", "directPath"]
    )
    listed = {"hardware.pciDevice": [function(A100)]}
    (device,) = host(listed | {"config.pciPassthruInfo": [told]}).pci_devices
    assert (device.device_mode, device.configurable_modes) == ("enhancedDirectPath", ("host", "directPath"))
    assert device.mode_note == " (device mode Enhanced DirectPath)"
    (device,) = host(listed | {"config.pciPassthruInfo": [passthrough(A100)]}).pci_devices
    assert (device.device_mode, device.configurable_modes, device.mode_note) == ("", (), "")


def test_the_version_of_a_functions_driver_is_what_esx_9_1_says() -> None:
    told = function(A100)
    assert host({"hardware.pciDevice": [told]}).pci_devices[0].driver_version == ""
    told.directPathInfo = vim.host.PciDevice.DirectPathInfo(driverName="nvidia", driverVersion="580.95.02")
    assert host({"hardware.pciDevice": [told]}).pci_devices[0].driver_version == "580.95.02"


def test_each_device_mode_of_the_api_has_a_name_or_is_known_otherwise() -> None:
    shown_otherwise = {"none", "directPath", "systemSelect"}
    modes: Any = vim.host.PciPassthruInfo.DirectPathDeviceMode
    assert set(modes.values) == set(DEVICE_MODES) | shown_otherwise


def test_a_gpu_without_a_driver_is_basic_and_has_no_memory() -> None:
    listed = graphics(A100, graphicsType="basic", memorySizeInKB=0, deviceName="GA100 [A100 PCIe 40GB]")
    found = host({"hardware.pciDevice": [function(A100)], "config.graphicsInfo": [listed]})
    (gpu,) = found.gpus
    assert (gpu.graphics_type, gpu.memory_mib, gpu.sharing) == (GraphicsType.BASIC, 0, None)
    assert gpu.pci.device_id == 0x20F1
