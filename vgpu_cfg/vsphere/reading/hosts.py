"""The properties of a host as plain values: its PCI functions, GPUs, NUMA nodes, NICs, and handed out NICs.

vSphere hands out 16-bit PCI ids as signed shorts and lists the logical CPUs of a NUMA
node; here ids are unsigned and cores physical.

Only the host's list shows which passed-through devices of VMs are NICs, not the VM's properties.

Belief: passthrough-gpus-not-in-graphics.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeVar

from pyVmomi import vim

from vgpu_cfg.model.observed.cordon import parse_cordons
from vgpu_cfg.model.observed.gpu_use import AssignmentPolicy, GraphicsType
from vgpu_cfg.model.observed.host_facts import HostAttribute, HostMark
from vgpu_cfg.model.observed.inventory import (
    NVIDIA_VENDOR_ID,
    Connection,
    Gpu,
    Host,
    HostNic,
    NumaNode,
    PciDevice,
    Sriov,
)
from vgpu_cfg.model.observed.vm import PassthroughDevice, Vm
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.vsphere.reading.places import Places
from vgpu_cfg.vsphere.reading.tags import custom_attributes
from vgpu_cfg.vsphere.wire.collector import Item

_WITHOUT_DOMAIN = re.compile(r"[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")
_SRIOV: Any = vim.host.SriovInfo
_MIG_MODE = "multiInstanceGpu"
_VGPU_MODES: Mapping[str, VgpuMode] = {
    "sameSize": VgpuMode.SAME_SIZE,
    "mixedSize": VgpuMode.MIXED_SIZE,
}

Word = TypeVar("Word", bound=StrEnum)


def pci_address(text: str) -> str:
    """Return a PCI address as `dddd:bb:dd.f` in lower case."""
    address = text.strip().lower()
    return f"0000:{address}" if _WITHOUT_DOMAIN.fullmatch(address) else address


def lists_nvidia(item: Item) -> bool:
    """Whether the host's graphics list names an NVIDIA GPU; on-board video is listed there too."""
    return any(_is_nvidia(entry) for entry in item.get("config.graphicsInfo") or ())


def make_host(places: Places, item: Item) -> Host:
    """Make a host of its properties; unread ones stay empty."""
    nodes, node_of = _numa(item)
    devices = _pci_devices(item, node_of)
    by_address = {device.pci_id: device for device in devices}
    graphics = item.get("config.graphicsConfig")
    parent = places.find(item.moid_of("parent"))
    standalone = parent is not None and parent.type_name == "ComputeResource"
    kept = custom_attributes(item)
    # Belief: shared-types-are-fresh.
    return Host.one_of_many(
        **places.common(item),
        datacenter=places.datacenter(item.moid),
        cluster_moid=None if parent is None or standalone else parent.moid,
        compute_moid=item.moid_of("parent") or "",
        version=item.get("summary.config.product.version", ""),
        build=item.get("summary.config.product.build", ""),
        model=item.get("summary.hardware.model", ""),
        connection=_word(Connection, item.get("runtime.connectionState")) or Connection.NOT_RESPONDING,
        is_in_maintenance_mode=item.get("runtime.inMaintenanceMode", False),
        hyperthreading=_threads_per_core(item) > 1,
        cores=item.get("summary.hardware.numCpuCores", 0),
        cpu_mhz=item.get("summary.hardware.cpuMhz", 0),
        memory_mib=item.get("summary.hardware.memorySize", 0) >> 20,
        numa_nodes=nodes,
        pci_devices=devices,
        gpus=tuple(_gpus(item, by_address, node_of)),
        nics=tuple(_nics(item, by_address, node_of)),
        graphics_type=_word(GraphicsType, getattr(graphics, "hostDefaultGraphicsType", None)),
        assignment_policy=_word(AssignmentPolicy, getattr(graphics, "sharedPassthruAssignmentPolicy", None)),
        creatable_profiles=tuple(item.get("config.sharedPassthruGpuTypes") or ()),
        network_moids=frozenset(item.moids_of("network")),
        datastore_moids=frozenset(item.moids_of("datastore")),
        cordons=parse_cordons(kept),
        mark=HostMark.parse(kept.get(HostAttribute.MARK, "")),
    )


def gpu_holders(item: Item) -> dict[str, tuple[str, ...]]:
    """Return the VMs that hold each NVIDIA GPU of a host now, by the GPU's address."""
    return {
        pci_address(entry.pciId): tuple(str(vm._moId) for vm in entry.vm or ())
        for entry in item.get("config.graphicsInfo") or ()
        if _is_nvidia(entry)
    }


def _word(words: type[Word], value: Any) -> Word | None:
    """Return a value of an enumeration, None if it is unset or not known here."""
    try:
        return words(str(value))
    except ValueError:
        return None


def _threads_per_core(item: Item) -> int:
    cores = item.get("summary.hardware.numCpuCores", 0)
    threads = item.get("summary.hardware.numCpuThreads", 0)
    return max(1, threads // cores) if cores else 1


def _numa(item: Item) -> tuple[tuple[NumaNode, ...], Mapping[str, int]]:
    """Return the NUMA nodes, and the node of each PCI address that one of them lists."""
    info = item.get("hardware.numaInfo")
    threads = _threads_per_core(item)
    nodes = tuple(
        NumaNode.one_of_many(
            node_id=node.typeId & 0xFF,
            cores=len(node.cpuID or ()) // threads,
            memory_mib=(getattr(node, "memorySize", None) or node.memoryRangeLength or 0) >> 20,
            pci_ids=frozenset(pci_address(address) for address in node.pciId or ()),
        )
        for node in (info.numaNode if info is not None else None) or ()
    )
    return nodes, {address: node.node_id for node in nodes for address in node.pci_ids}


def _pci_devices(item: Item, node_of: Mapping[str, int]) -> tuple[PciDevice, ...]:
    passthrough = {pci_address(entry.id): entry for entry in item.get("config.pciPassthruInfo") or ()}
    devices = []
    for found in item.get("hardware.pciDevice") or ():
        address = pci_address(found.id)
        state = passthrough.get(address)
        devices.append(
            _function(
                pci_id=address,
                vendor_id=found.vendorId & 0xFFFF,
                device_id=found.deviceId & 0xFFFF,
                subvendor_id=found.subVendorId & 0xFFFF,
                subdevice_id=found.subDeviceId & 0xFFFF,
                class_id=found.classId & 0xFFFF,
                vendor_name=found.vendorName or "",
                device_name=found.deviceName or "",
                parent_bridge=pci_address(found.parentBridge) if found.parentBridge else None,
                passthrough_capable=bool(state is not None and state.passthruCapable),
                passthrough_enabled=bool(state is not None and state.passthruEnabled),
                passthrough_active=bool(state is not None and state.passthruActive),
                hardware_label=(getattr(state, "hardwareLabel", None) or None) if state is not None else None,
                numa_node=node_of.get(address),
                sriov=_sriov(state),
                **_device_mode(state),
                driver_version=getattr(getattr(found, "directPathInfo", None), "driverVersion", None) or "",
            )
        )
    return tuple(devices)


def _device_mode(state: Any) -> dict[str, Any]:
    """Return the mode of a function and the modes that it allows, if the host reports them (API 9.1.0.0)."""
    told = getattr(state, "directPathState", None)
    if told is None:
        return {}
    return {"device_mode": told.mode, "configurable_modes": tuple(told.configurableModes or ())}


@lru_cache(4096)
def _function(**fields: Any) -> PciDevice:
    """Make a PCI function: once for all hosts that have the same, down to its address."""
    return PciDevice(**fields)


def _sriov(state: Any) -> Sriov | None:
    """Return the virtual functions of a PCI function, None where the host says nothing of them.

    The requested number counts only while SR-IOV is enabled: it stays when SR-IOV is switched off.
    """
    if not isinstance(state, _SRIOV):
        return None
    return Sriov(
        is_capable=bool(state.sriovCapable),
        is_active=bool(state.sriovActive),
        functions=state.numVirtualFunction or 0,
        requested=(state.numVirtualFunctionRequested or 0) if state.sriovEnabled else 0,
        most=state.maxVirtualFunctionSupported or 0,
    )


def _gpus(item: Item, devices: Mapping[str, PciDevice], node_of: Mapping[str, int]) -> Iterable[Gpu]:
    """Yield the GPUs: those the graphics manager lists, then those that are handed through.

    An NVIDIA function that is neither listed nor handed through is taken for a virtual
    function of a listed GPU (unproven), unless the host lists no GPU at all.
    """
    configured = {
        pci_address(entry.deviceId): entry
        for entry in getattr(item.get("config.graphicsConfig"), "deviceType", None) or ()
    }
    default = getattr(item.get("config.graphicsConfig"), "hostDefaultGraphicsType", None)
    listed: set[str] = set()
    for entry in item.get("config.graphicsInfo") or ():
        if not _is_nvidia(entry):
            continue
        address = pci_address(entry.pciId)
        listed.add(address)
        override = configured.get(address)
        mode = str(getattr(entry, "vgpuMode", None) or "")
        yield Gpu.one_of_many(
            pci=devices.get(address) or _unlisted(address, entry.deviceName, node_of),
            name=entry.deviceName or "",
            memory_mib=(entry.memorySizeInKB or 0) >> 10,
            graphics_type=_word(GraphicsType, entry.graphicsType),
            configured_graphics_type=_word(GraphicsType, getattr(override, "graphicsType", None) or default),
            vgpu_mode=_VGPU_MODES.get(mode),
            configured_vgpu_mode=_VGPU_MODES.get(str(getattr(override, "vgpuMode", None) or "")),
            sharing=_sharing(mode),
            vm_moids=tuple(str(vm._moId) for vm in entry.vm or ()),
        )
    for address, device in devices.items():
        handed_through = device.passthrough_enabled or device.passthrough_active
        if device.is_gpu and address not in listed and (handed_through or not listed):
            yield Gpu(pci=device, name=device.device_name)


def _is_nvidia(entry: Any) -> bool:
    return "nvidia" in f"{entry.vendorName} {entry.deviceName}".lower()


def _unlisted(address: str, name: str | None, node_of: Mapping[str, int]) -> PciDevice:
    """Substitute a function that the host's PCI list lacks, or that was not read."""
    return PciDevice(
        pci_id=address,
        vendor_id=NVIDIA_VENDOR_ID,
        device_id=0,
        device_name=name or "",
        numa_node=node_of.get(address),
    )


def _sharing(mode: str) -> Sharing | None:
    if mode == _MIG_MODE:
        return Sharing.MIG
    return Sharing.TIME_SLICED if mode in _VGPU_MODES else None


def _nics(item: Item, devices: Mapping[str, PciDevice], node_of: Mapping[str, int]) -> Iterable[HostNic]:
    for nic in item.get("config.network.pnic") or ():
        address = pci_address(nic.pci) if nic.pci else ""
        yield HostNic.one_of_many(
            device=nic.device or "",
            mac=nic.mac or "",
            driver=nic.driver or "",
            speed_mbps=nic.linkSpeed.speedMb if nic.linkSpeed is not None else None,
            pci_id=address,
            pci=devices.get(address),
            numa_node=node_of.get(address),
        )


def mark_nics(vms: Mapping[str, Vm], hosts: Iterable[Host]) -> dict[str, Vm]:
    """Return the VMs with their passed-through NICs marked as such.

    A function is a NIC where the VM's host lists it under PCI class 02xx. A device that names none is one
    where all ids that it allows are those of NICs of any host.
    """
    known = {host.moid: host for host in hosts}
    ids: dict[tuple[int, int], bool] = {}
    for host in known.values():
        for device in host.pci_devices:
            key = (device.vendor_id, device.device_id)
            ids[key] = ids.get(key, True) and device.is_nic
    return {moid: _with_nics(vm, known.get(vm.host_moid or ""), ids) for moid, vm in vms.items()}


def _with_nics(vm: Vm, host: Host | None, ids: Mapping[tuple[int, int], bool]) -> Vm:
    if vm.detail is None or not vm.detail.passthrough:
        return vm
    passthrough = tuple(
        device.model_copy(update={"is_nic": _is_nic(device, host, ids)}) for device in vm.detail.passthrough
    )
    return vm.model_copy(update={"detail": vm.detail.model_copy(update={"passthrough": passthrough})})


def _is_nic(device: PassthroughDevice, host: Host | None, ids: Mapping[tuple[int, int], bool]) -> bool:
    address = device.pci_id or device.assigned_id
    function = host.device(address) if host is not None and address is not None else None
    if function is not None:
        return function.is_nic
    return bool(device.allowed) and all(ids.get(pair, False) for pair in device.allowed)
