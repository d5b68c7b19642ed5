"""What a host offers to VMs: vGPU profiles, boards, whole PCI functions, groups joined by NVLink."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from pyVmomi import vim

from vgpu_cfg.catalog import Board, ProfileEntry, load_catalog
from vgpu_cfg.lab.devices import vgpu_backing
from vgpu_cfg.lab.host_state import Gpu, Host
from vgpu_cfg.lab.renderers.host_hardware import is_endpoint, pci_device
from vgpu_cfg.lab.rules.profiles import creatable_profiles, known_profiles
from vgpu_cfg.lab.soap.versions import is_at_least, version_name
from vgpu_cfg.model.vgpu import Sharing

NVSWITCH_GROUP_SIZES = (2, 4, 8)
"""GPUs that one device group of an NVSwitch host joins (VMware's and NVIDIA's device group pages)."""

FIRST_GROUP_VERSION = "vim.version.v8_0_0_1"


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
    )


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
    """Return the NICs that have virtual functions; the functions themselves are not listed by the lab."""
    return [
        vim.vm.SriovInfo(
            name=nic.pci.pci_id,
            pciDevice=pci_device(nic.pci),
            systemId=host.system_id,
            virtualFunction=False,
            pnic=nic.device,
        )
        for nic in host.nics
        if nic.num_vfs
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
    """Return the groups of GPUs joined by NVLink; they exist from 8.0 on, with the GPU management daemon.

    A GPU in MIG mode or handed through whole is in no group, and a board without a profile for
    peer to peer has none.
    """
    version = version_name(host.api_version) or ""
    if host.driver is None or not host.driver.gpu_daemon or not is_at_least(version, FIRST_GROUP_VERSION):
        return []
    found: dict[str, Any] = {}
    for gpus in _joined(host):
        board = load_catalog().board(gpus[0].board)
        for size in _group_sizes(gpus):
            info = _device_group(board, size)
            if info is not None:
                found.setdefault(info.deviceGroupName, info)
    return list(found.values())


def _joined(host: Host) -> Iterator[list[Gpu]]:
    """Yield the sets of GPUs of one board that NVLink or NVSwitch joins."""
    left = {
        gpu.pci_id: gpu for gpu in host.gpus if not gpu.mig_enabled and not host.is_passed_through(gpu.pci_id)
    }
    while left:
        _, first = left.popitem()
        joined, queue = [first], [first]
        while queue:
            at = queue.pop()
            near = [gpu for gpu in left.values() if _is_linked(at, gpu)]
            for gpu in near:
                del left[gpu.pci_id]
            joined += near
            queue += near
        if len(joined) > 1:
            yield joined


def _is_linked(one: Gpu, other: Gpu) -> bool:
    is_near = other.pci_id in one.nvlink_peers or (one.nvswitch and other.nvswitch)
    return is_near and one.board == other.board


def _group_sizes(gpus: list[Gpu]) -> list[int]:
    if gpus[0].nvswitch:
        return [size for size in NVSWITCH_GROUP_SIZES if size <= len(gpus)]
    return [len(gpus)]


def _device_group(board: Board, size: int) -> Any:
    profile = board.nvlink_p2p_profile
    if profile is None:
        return None
    component: Any = vim.vm.VendorDeviceGroupInfo.ComponentDeviceInfo
    group_of: Any = vim.vm.device.VirtualDevice.DeviceGroupInfo
    name = f"Nvidia:{size}@{profile.name}%NVLink"
    return vim.vm.VendorDeviceGroupInfo(
        name=name,
        deviceGroupName=name,
        deviceGroupDescription=f"{size} GPUs joined by NVLink",
        componentDeviceInfo=[
            component(
                type="nvidiaVgpu",
                vendorName="NVIDIA",
                deviceName=profile.name,
                isConfigurable=False,
                device=vim.vm.device.VirtualPCIPassthrough(
                    key=-(100 + index),
                    backing=vgpu_backing(profile.name),
                    deviceGroupInfo=group_of(groupInstanceKey=-1, sequenceId=index),
                ),
            )
            for index in range(size)
        ],
    )
