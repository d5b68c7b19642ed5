"""A host's offers to VMs: vGPU profiles, boards, whole PCI functions, device groups."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyVmomi import vim

from vgpu_cfg.catalog import ProfileEntry, load_catalog
from vgpu_cfg.lab.renderers.hosts.hardware import pci_device
from vgpu_cfg.lab.rules.nvlink import GroupOffer, offered_groups
from vgpu_cfg.lab.rules.profiles import creatable_profiles, known_profiles
from vgpu_cfg.lab.state.devices import dynamic_backing, vgpu_backing
from vgpu_cfg.lab.state.host import Gpu, Host, is_endpoint
from vgpu_cfg.model.vgpu import Sharing

BANDWIDTHS_MBPS = (10_000, 25_000, 100_000)
"""Migration networks for which the lab estimates stun times."""


def device_vendor_id(gpu: Gpu) -> int:
    """Return both ids in one number, as vim `VgpuProfileInfo.deviceVendorId` has them."""
    return gpu.pci.device_id << 16 | gpu.pci.vendor_id


def vgpu_profile_info(host: Host) -> list[Any]:
    """Return every profile of the host's driver, once per board; A and B types count as quadro."""
    by_board = {load_catalog().board(gpu.board).key: device_vendor_id(gpu) for gpu in host.gpus}
    return [_profile_info(entry, by_board[entry.board.key]) for entry in known_profiles(host)]


def _profile_info(entry: ProfileEntry, ids: int) -> Any:
    return vim.vm.VgpuProfileInfo(
        name=entry.name,
        profileName=entry.name,
        deviceVendorId=ids,
        fbSizeInGib=entry.profile.framebuffer_gb,
        profileSharing="mig" if entry.profile.sharing is Sharing.MIG else "timeSliced",
        profileClass="compute" if entry.profile.series == "C" else "quadro",
        stunTimeEstimates=_stun_times(entry.framebuffer_mib),
    )


def _stun_times(framebuffer_mib: int) -> list[Any]:
    """Return how long a vMotion stops a VM with a full vGPU, in milliseconds by bandwidth.

    Invented: a tenth of a second, and the framebuffer sent once. The units were not read anywhere.
    """
    bits = framebuffer_mib * 2**20 * 8
    return [
        vim.vm.VMotionStunTimeInfo(
            name=f"{bandwidth} Mbps", migrationBW=bandwidth, stunTime=100 + bits // (bandwidth * 1000)
        )
        for bandwidth in BANDWIDTHS_MBPS
    ]


def vgpu_device_info(host: Host) -> list[Any]:
    """Return one entry per board that serves vGPUs."""
    entries = known_profiles(host)
    found: dict[str, Any] = {}
    for gpu in host.gpus:
        key = load_catalog().board(gpu.board).key
        own = [entry for entry in entries if entry.board.key == key]
        if own and gpu.board not in found:
            found[gpu.board] = vim.vm.VgpuDeviceInfo(
                name=gpu.name,
                deviceName=gpu.name,
                deviceVendorId=device_vendor_id(gpu),
                maxFbSizeInGib=own[0].board.framebuffer_gb,
                timeSlicedCapable=any(entry.mig is None for entry in own),
                migCapable=any(entry.mig is not None for entry in own),
                computeProfileCapable=any(entry.profile.series == "C" for entry in own),
                quadroProfileCapable=any(entry.profile.series == "Q" for entry in own),
            )
    return list(found.values())


def shared_gpu_types(hosts: Iterable[Host]) -> list[Any]:
    """Return the profiles that some host could create now."""
    names = dict.fromkeys(name for host in hosts for name in creatable_profiles(host))
    return [vim.vm.PciSharedGpuPassthroughInfo(name=name, vgpu=name) for name in names]


def pci_passthrough(host: Host) -> list[Any]:
    """Return the functions that can be handed through now, with the systemId that a device must carry."""
    return [
        vim.vm.PciPassthroughInfo(name=device.pci_id, pciDevice=pci_device(device), systemId=host.system_id)
        for device in host.pci_devices()
        if is_endpoint(device) and host.is_passed_through(device.pci_id)
    ]


def sriov(host: Host) -> list[Any]:
    """Return the NICs that can have virtual functions; the functions themselves are not listed by the lab.

    A recorded host names its system id here before anything is handed out.
    """
    return [
        vim.vm.SriovInfo(
            name=nic.pci.pci_id,
            pciDevice=pci_device(nic.pci),
            systemId=host.system_id,
            virtualFunction=False,
            pnic=nic.device,
        )
        for nic in host.nics
        if nic.max_vfs
    ]


def dynamic_passthrough(hosts: Iterable[Host]) -> list[Any]:
    """Return each kind of function that Dynamic DirectPath could assign: vendor, device and label."""
    found: dict[tuple[int, int, str], Any] = {}
    for host in hosts:
        for device in host.pci_devices():
            state = host.passthrough_of(device.pci_id)
            if state.active and is_endpoint(device):
                found.setdefault(
                    (device.vendor_id, device.device_id, state.label),
                    vim.vm.DynamicPassthroughInfo(
                        name=device.device_name,
                        vendorName=device.vendor_name,
                        deviceName=device.device_name,
                        customLabel=state.label or None,
                        vendorId=device.vendor_id,
                        deviceId=device.device_id,
                    ),
                )
    return list(found.values())


def device_groups(host: Host) -> list[Any]:
    """Return the groups of GPUs joined by NVLink or near NICs, with a device to copy for each member."""
    return [_device_group(host, offer) for offer in offered_groups(host).values()]


def _device_group(host: Host, offer: GroupOffer) -> Any:
    parts = [
        *(("nvidiaVgpu", "NVIDIA", offer.profile, vgpu_backing(offer.profile)) for _ in range(offer.size)),
        *(("pciPassthru", *_nic_words(host, ids), dynamic_backing([ids])) for ids in offer.nics),
    ]
    component: Any = vim.vm.VendorDeviceGroupInfo.ComponentDeviceInfo
    group_of: Any = vim.vm.device.VirtualDevice.DeviceGroupInfo
    return vim.vm.VendorDeviceGroupInfo(
        name=offer.name,
        deviceGroupName=offer.name,
        deviceGroupDescription=offer.description,
        componentDeviceInfo=[
            component(
                type=kind,
                vendorName=vendor,
                deviceName=name,
                isConfigurable=False,
                device=vim.vm.device.VirtualPCIPassthrough(
                    key=-(100 + index),
                    backing=backing,
                    deviceGroupInfo=group_of(groupInstanceKey=-1, sequenceId=index),
                ),
            )
            for index, (kind, vendor, name, backing) in enumerate(parts)
        ],
    )


def _nic_words(host: Host, ids: tuple[int, int]) -> tuple[str, str]:
    """Return what vendor and device of a NIC are called, of a host that has it."""
    nics = (nic.pci for nic in host.nics if (nic.pci.vendor_id, nic.pci.device_id) == ids)
    return next(((pci.vendor_name, pci.device_name) for pci in nics), ("", ""))
