"""Rendering of a server: CPUs, NUMA nodes, PCI functions, BIOS, and passed-through functions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.entity import attribute, constant
from vgpu_cfg.lab.renderers.hosts.graphics import host_of
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.host import is_endpoint
from vgpu_cfg.lab.state.inventory import Host, Managed, Nic, PciDevice

MIB = 1024 * 1024


def signed(value: int, bits: int = 16) -> int:
    """Return an unsigned id as the API's short (or byte) holds it: 0x8086 becomes -32634."""
    half = 1 << (bits - 1)
    return (value ^ half) - half


@lru_cache(maxsize=4096)
def pci_device(device: PciDevice) -> Any:
    """Return one PCI function as the host lists it: one value, shown many times and never changed."""
    return vim.host.PciDevice(
        id=device.pci_id,
        classId=signed(device.class_id),
        bus=signed(device.bus, 8),
        slot=device.slot,
        function=device.function,
        vendorId=signed(device.vendor_id),
        subVendorId=signed(device.subvendor_id),
        vendorName=device.vendor_name,
        deviceId=signed(device.device_id),
        subDeviceId=signed(device.subdevice_id),
        parentBridge=device.parent_bridge,
        deviceName=device.device_name,
    )


def _pci_devices(_context: Context, thing: Host) -> list[Any]:
    return [pci_device(device) for device in thing.pci_devices()]


def pci_passthru_info(_context: Context, thing: Managed) -> list[Any]:
    """Render the passthrough state of every PCI function; NICs with virtual functions as SriovInfo."""
    host = host_of(thing)
    nics = {nic.pci.pci_id: nic for nic in host.nics if nic.max_vfs}
    return [_passthru(host, device, nics.get(device.pci_id)) for device in host.pci_devices()]


def _passthru(host: Host, device: PciDevice, nic: Nic | None) -> Any:
    state = host.passthrough_of(device.pci_id)
    common = {
        "id": device.pci_id,
        "dependentDevice": device.pci_id,
        "passthruEnabled": state.enabled,
        "passthruCapable": state.capable and is_endpoint(device),
        "passthruActive": state.active,
        "hardwareLabel": state.label or None,
    }
    if nic is None:
        return vim.host.PciPassthruInfo(**common)
    return vim.host.SriovInfo(
        **common,
        sriovEnabled=nic.requested_vfs > 0,
        sriovCapable=True,
        sriovActive=nic.num_vfs > 0,
        numVirtualFunctionRequested=nic.requested_vfs,
        numVirtualFunction=nic.num_vfs,
        maxVirtualFunctionSupported=nic.max_vfs,
    )


def _threads_by_node(host: Host) -> Iterator[list[int]]:
    """Yield the hardware threads of each NUMA node, numbered through."""
    per_core = 2 if host.hyperthreading else 1
    first = 0
    for node in host.numa_nodes:
        count = node.cores * per_core
        yield list(range(first, first + count))
        first += count


def _numa_nodes(_context: Context, thing: Host) -> list[Any]:
    nodes, begin = [], 0
    for node, threads in zip(thing.numa_nodes, _threads_by_node(thing), strict=True):
        size = node.memory_mib * MIB
        nodes.append(
            vim.host.NumaNode(
                typeId=node.node_id,
                cpuID=threads,
                memorySize=size,
                memoryRangeBegin=begin,
                memoryRangeLength=size,
                pciId=list(node.pci_ids),
            )
        )
        begin += size
    return nodes


def _packages(_context: Context, thing: Host) -> list[Any]:
    per_socket = thing.threads // thing.sockets
    return [
        vim.host.CpuPackage(
            index=index,
            vendor="amd" if "AMD" in thing.cpu_model else "intel",
            hz=thing.cpu_mhz * 1_000_000,
            busHz=100_000_000,
            description=thing.cpu_model,
            threadId=list(range(index * per_socket, (index + 1) * per_socket)),
        )
        for index in range(thing.sockets)
    ]


def _bios(_context: Context, thing: Host) -> Any:
    return vim.host.BIOSInfo(
        biosVersion=thing.bios.version,
        releaseDate=as_datetime(VIRTUAL_START),
        vendor=thing.bios.vendor,
        firmwareType="UEFI",
    )


SYSTEM: dict[str, Render] = {
    "vendor": attribute(lambda thing: thing.bios.vendor),
    "model": attribute(lambda thing: thing.bios.model),
    "uuid": attribute(lambda thing: thing.uuid),
}

HARDWARE: dict[str, Render] = {
    **{f"systemInfo.{path}": render for path, render in SYSTEM.items()},
    "cpuPowerManagementInfo.currentPolicy": constant("Balanced"),
    "cpuInfo.numCpuPackages": attribute(lambda thing: thing.sockets),
    "cpuInfo.numCpuCores": attribute(lambda thing: thing.cores),
    "cpuInfo.numCpuThreads": attribute(lambda thing: thing.threads),
    "cpuInfo.hz": attribute(lambda thing: thing.cpu_mhz * 1_000_000),
    "cpuPkg": _packages,
    "memorySize": attribute(lambda thing: thing.memory_mib * MIB),
    "numaInfo.type": constant("NUMA"),
    "numaInfo.numNodes": attribute(lambda thing: len(thing.numa_nodes)),
    "numaInfo.numaNode": _numa_nodes,
    "smcPresent": constant(value=False),
    "pciDevice": _pci_devices,
    "biosInfo": _bios,
}
"""The properties below `hardware`."""

PCI_PASSTHRU_SYSTEM: dict[str, Render] = {
    "value": constant([]),
    "availableField": constant([]),
    "pciPassthruInfo": pci_passthru_info,
}
