"""Rendering of a server's hardware: CPUs, NUMA nodes, BIOS, PCI functions, and GPUs with their profiles."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.estates.lies import SOON_SECONDS
from vgpu_cfg.lab.renderers.entity import MIB, attribute, constant
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.rules.gpu_load import creatable_profiles, drives, known_profiles, serves_vgpus
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.operations import Context
from vgpu_cfg.lab.state.devices import vgpus_of
from vgpu_cfg.lab.state.host import is_endpoint
from vgpu_cfg.lab.state.inventory import Gpu, Host, Managed, Nic, PciDevice, VirtualMachine
from vgpu_cfg.lab.state.vm import LINGERS


def host_of(thing: Managed) -> Host:
    """Return the host that an object is, or that a manager serves."""
    owner = thing.owner if isinstance(thing, Service) else thing
    if not isinstance(owner, Host):
        raise TypeError(f"{thing.moid} serves no host")
    return owner


def vgpu_mode(gpu: Gpu) -> str:
    """Return vim `HostGraphicsInfo.vgpuMode` of a GPU, as far as it serves vGPUs."""
    return "multiInstanceGpu" if gpu.mig_enabled else gpu.vgpu_mode


def _vms_on(context: Context, host: Host, gpu: Gpu) -> list[Any]:
    """Return the VMs that hold a GPU or a part of it; running ones only, as the property says."""
    moids = dict.fromkeys(use.vm for use in gpu.uses)
    if context.state.denies("graphics-info-shows-the-gpu"):
        moids = {moid: None for moid in moids if not _is_new(context, moid)}
    if context.state.denies("graphics-info-forgets-stopped-vms"):
        moids |= {moid: None for moid in host.vms if _lingers(context, moid, gpu)}
    if context.state.denies("esxi-chooses-the-gpu") and gpu is host.gpus[0]:
        vms = (context.state.get(moid, VirtualMachine) for moid in host.vms)
        moids |= {vm.moid: None for vm in vms if not vm.is_on and vgpus_of(vm.devices)}
    holder = host.passthrough_of(gpu.pci_id).vm
    if holder is not None:
        moids[holder] = None
    return [vim.VirtualMachine(moid) for moid in moids]


def _is_new(context: Context, moid: str) -> bool:
    vm = context.state.find(moid, VirtualMachine)
    return vm is not None and context.lab.clock.now() - (vm.boot_time or 0) < SOON_SECONDS


def _lingers(context: Context, moid: str, gpu: Gpu) -> bool:
    vm = context.state.find(moid, VirtualMachine)
    kept = vm.extra.get(LINGERS) if vm is not None else None
    return kept is not None and gpu.pci_id in kept["gpus"] and context.lab.clock.now() < kept["until"]


def graphics_info(context: Context, thing: Managed) -> list[Any]:
    """Render one entry per GPU of the graphics manager; one passed through whole is not among them.

    Without an NVIDIA driver that has them the host lists its GPUs as `basic`.
    """
    host = host_of(thing)
    return [
        vim.host.GraphicsInfo(
            deviceName=gpu.name,
            vendorName="NVIDIA",
            pciId=gpu.pci_id,
            graphicsType=gpu.graphics_type if drives(host, gpu) else "basic",
            vgpuMode=vgpu_mode(gpu) if serves_vgpus(host, gpu) else "none",
            memorySizeInKB=gpu.memory_mib * 1024 if drives(host, gpu) else 0,
            vm=_vms_on(context, host, gpu),
        )
        for gpu in host.gpus
        if not host.is_passed_through(gpu.pci_id)
    ]


def graphics_config(_context: Context, thing: Managed) -> Any:
    """Render how the host is configured, which differs from what holds until it is restarted."""
    host = host_of(thing)
    return vim.host.GraphicsConfig(
        hostDefaultGraphicsType=host.configured_default_graphics_type,
        sharedPassthruAssignmentPolicy=host.configured_assignment_policy,
        deviceType=[
            vim.host.GraphicsConfig.DeviceType(
                deviceId=gpu.pci_id,
                graphicsType=gpu.configured_graphics_type or host.configured_default_graphics_type,
                vgpuMode=gpu.configured_vgpu_mode or gpu.vgpu_mode,
            )
            for gpu in host.gpus
            if not host.is_passed_through(gpu.pci_id)
        ],
    )


def shared_passthru_types(context: Context, thing: Managed) -> list[str]:
    """Render the profiles that can be created at this moment."""
    if context.state.denies("shared-types-are-fresh"):
        return [entry.name for entry in known_profiles(host_of(thing))]
    found = list(creatable_profiles(host_of(thing)))
    is_other = context.state.denies("same-build-same-profiles") and host_of(thing) is not _first(context)
    return found[:-1] if is_other else found


def _first(context: Context) -> Host:
    return context.state.all(Host)[0]


def shared_gpu_capabilities(_context: Context, thing: Managed) -> list[Any]:
    """Render a VM's capabilities with one of these profiles. The flags are plausible, not recorded."""
    return [
        vim.host.SharedGpuCapabilities(
            vgpu=profile,
            diskSnapshotSupported=True,
            memorySnapshotSupported=False,
            suspendSupported=True,
            migrateSupported=True,
        )
        for profile in creatable_profiles(host_of(thing))
    ]


GRAPHICS: dict[str, Render] = {
    "graphicsInfo": graphics_info,
    "graphicsConfig": graphics_config,
    "sharedPassthruGpuTypes": shared_passthru_types,
    "sharedGpuCapabilities": shared_gpu_capabilities,
}

GRAPHICS_MANAGER: dict[str, Render] = {
    "value": constant([]),
    "availableField": constant([]),
    **GRAPHICS,
}


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
        "passthruCapable": host.bios.iommu and state.capable and is_endpoint(device),
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
