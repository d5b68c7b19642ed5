"""The limits of virtual hardware: devices per version, memory reservation, firmware, 64-bit MMIO window."""

from __future__ import annotations

import re
from collections.abc import Iterable

from pyVmomi import vim

from vgpu_cfg.catalog import Board
from vgpu_cfg.lab.estates.stock import BY_VERSION
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.refusals import refuse
from vgpu_cfg.lab.state.devices import FIRST_NIC, has_tpm, nics_of, vgpus_of
from vgpu_cfg.lab.state.inventory import Host, VirtualMachine

OLDEST_VGPU_VERSION = 11
OLDEST_SECURE_BOOT_VERSION = 13
"""ESXi 6.5's (ansible/ansible, issue 47107)."""
OLDEST_TPM_VERSION = 14
OLDEST_DYNAMIC_VERSION = 17
OLDEST_DEVICE_GROUP_VERSION = 20
OLDEST_PVRDMA_VERSION = 13
PVRDMA_PROTOCOLS = ("rocev1", "rocev2")
OLDEST_VNUMA_VERSION = 20
SMALL_MEMORY_MIB = 32 * 1024
"""NVIDIA asks for the 64-bit window from 32 GB of guest memory on."""

PAGES_PER_GB = 262_144
PAGES_BELOW_4G = 917_504
"""The space for devices below 4 GB, as a VM's log shows it."""
PAGES_BESIDE_BAR = 12_290

DEFAULT_WINDOW_GB = 32
LARGEST_DISK_KB = 62 * 1024**3
"""62 TB, the largest virtual disk (vSphere Configuration Maximums)."""
MOST_CPUS_WITHOUT_IOMMU = 127
IOMMU_KEYS = ("vvtd.enable", "pciPassthru.vmiop.allowViommu", "pciPassthru.vmiop.enableViommu")
AMD_IOMMU_KEY = "amd.iommu.supportsPcip"
MEMORY_STEP_MIB = 4
FIRST_VIOMMU_ESXI = 8
HOST_OWN_MIB = 8192
"""The overhead of the lab's hosts. A real host's overhead depends on much more."""

PINNING = (
    vim.vm.device.VirtualPCIPassthrough,
    vim.vm.device.VirtualSriovEthernetCard,
    vim.vm.device.VirtualVmxnet3Vrdma,
)

_NODES = re.compile(r"\d+(,\d+)*")


def max_vgpus(hardware_version: int) -> int:
    """Return how many vGPUs a VM of a hardware version takes (`VmiopBackingOption.maxInstances`)."""
    for oldest, most in ((21, 16), (20, 8), (15, 4), (OLDEST_VGPU_VERSION, 1)):
        if hardware_version >= oldest:
            return most
    return 0


def max_passthrough(hardware_version: int) -> int:
    """Return how many passthrough devices of any kind a VM of a hardware version takes."""
    return 128 if hardware_version >= OLDEST_DEVICE_GROUP_VERSION else 16


def max_hardware_version(host: Host) -> int:
    """Return the newest hardware version that a host runs."""
    return BY_VERSION[host.version].max_hardware_version


def can_secure_boot(vm: VirtualMachine) -> bool:
    """Whether a VM's firmware can check its boot loader."""
    return vm.firmware == "efi" and vm.hardware_version >= OLDEST_SECURE_BOOT_VERSION


def needs_all_memory_reserved(vm: VirtualMachine) -> bool:
    """Whether a VM has a device that needs its memory pinned: passthrough, vGPU, SR-IOV or PVRDMA NIC."""
    return any(isinstance(device, PINNING) for device in vm.devices.values())


def check_memory_reserved(vm: VirtualMachine) -> None:
    """Raise where a VM with passthrough or vGPU has not reserved all its memory."""
    if needs_all_memory_reserved(vm) and reservation_mib(vm) < vm.memory_mib:
        raise refusals.memory_not_reserved(vm.memory_mib)


def reservation_mib(vm: VirtualMachine) -> int:
    """Return the memory that a VM reserves when it runs."""
    return vm.memory_mib if vm.memory_reservation_locked else vm.memory_reservation_mib


def cpu_capacity_mhz(host: Host) -> int:
    """Return a host's CPU capacity: its cores at their frequency. Hyperthreads add nothing to it."""
    return host.cores * host.cpu_mhz


def check_latency_sensitivity(vm: VirtualMachine, host: Host, *, more: bool = False) -> None:
    """Raise where a VM of high latency sensitivity has not reserved its memory and its CPUs in full.

    Full is a core of the host for each vCPU, or for each pair of hyperthreads that the guest is shown
    (vSphere Resource Management 8.0, "CPU reservation of a low latency VM": vCPUs times the CPU's
    frequency, divided by the threads of a core). The text of the CPUs is that of an ESXi host in 2020
    (RedHatOfficial/ocp4-vsphere-upi-automation, issue 36); since which release it is said was not found,
    nor which fault carries it. With `more`, a core on top is needed.
    """
    if vm.latency_sensitivity != "high":
        return
    if reservation_mib(vm) < vm.memory_mib:
        raise refusals.memory_not_reserved(vm.memory_mib)
    needed = (vm.cpus + more) * host.cpu_mhz // (vm.extra.get("simultaneousThreads") or 1)
    if vm.cpu_reservation_mhz < needed:
        raise refusals.cpu_not_reserved(needed)


def check_tpm(vm: VirtualMachine) -> None:
    """Raise where a VM with a virtual TPM has no EFI firmware.

    The host says so, and only when the VM is powered on (vmware/terraform-provider-vsphere, pull request
    2279; theforeman/foreman, pull request 10225).
    """
    if has_tpm(vm.devices) and vm.firmware != "efi":
        raise refusals.power_on_failed("The virtual machine must use EFI firmware.")


def check_macs(vm: VirtualMachine) -> None:
    """Raise for a manual MAC address of VMware's own; `ethernet0.checkMACAddress` turns it off."""
    for nic in nics_of(vm.devices):
        key = f"ethernet{nic.key - FIRST_NIC}.checkMACAddress"
        is_checked = vm.extra_config.get(key, "").upper() != "FALSE"
        is_own = nic.macAddress.startswith("00:0c:29:") or "00:50:56:40" <= nic.macAddress < "00:50:57"
        if nic.addressType == "manual" and is_own and is_checked:
            raise refuse("reserved-mac", mac=nic.macAddress)


def check_iommu(vm: VirtualMachine, host: Host) -> None:
    """Raise where vGPUs meet the virtual IOMMU that many vCPUs need. From 8.0 on, parameters allow it."""
    if vm.cpus <= MOST_CPUS_WITHOUT_IOMMU or not vgpus_of(vm.devices):
        return
    keys = (*IOMMU_KEYS, *((AMD_IOMMU_KEY,) if "AMD" in host.cpu_model else ()))
    is_allowed = all(vm.extra_config.get(key, "").upper() == "TRUE" for key in keys)
    if not is_allowed or int(host.version.partition(".")[0]) < FIRST_VIOMMU_ESXI:
        raise refuse("iommu-with-vgpu")


def window_gb(vm: VirtualMachine) -> int:
    """Return the size of a VM's 64-bit MMIO window, 0 where it has none."""
    if vm.firmware != "efi" or vm.extra_config.get("pciPassthru.use64bitMMIO", "").upper() != "TRUE":
        return 0
    size = vm.extra_config.get("pciPassthru.64bitMMIOSizeGB", "")
    return int(size) if size.isdigit() else DEFAULT_WINDOW_GB


def needed_window_gb(boards: Iterable[Board]) -> int:
    """Return the window that a VM needs for its GPUs.

    NVIDIA's table per board, or the rule of thumb where that is more: the framebuffers' sum, up to
    a power of two, and the next one.
    """
    large = [board for board in boards if board.mmio_gb is not None]
    if not large:
        return 0
    total = sum(board.framebuffer_gb for board in large)
    by_rule = 1 << (total - 1).bit_length() + 1
    return max(by_rule, *(board.mmio_gb or 0 for board in large))


def check_window(vm: VirtualMachine, boards: list[Board]) -> None:
    """Raise where firmware or window do not carry the GPUs' BARs; the reason goes to the VM's log only."""
    large = [board for board in boards if board.mmio_gb is not None]
    if not large:
        return
    window = window_gb(vm)
    fits = window >= needed_window_gb(large) or (vm.firmware == "efi" and vm.memory_mib < SMALL_MEMORY_MIB)
    if fits:
        return
    pages = (
        sum((1 << (board.framebuffer_gb - 1).bit_length()) * PAGES_PER_GB for board in large)
        + PAGES_BESIDE_BAR
    )
    limit = window * PAGES_PER_GB or PAGES_BELOW_4G
    if pages <= limit:
        limit = pages - PAGES_BESIDE_BAR
    vm.log.append(f"PCIPassthru: total number of pages needed ({pages}) exceeds limit ({limit}), failing")
    vm.log.append("Module 'DevicePowerOn' power on failed.")
    raise refusals.device_power_on_failed()


def check_numa_affinity(vm: VirtualMachine, host: Host) -> None:
    """Raise if `numa.nodeAffinity` is not a list of the host's nodes.

    A real host's reaction to a bad one is unknown; the lab is strict.
    """
    value = vm.extra_config.get("numa.nodeAffinity")
    if value is None:
        return
    nodes = {node.node_id for node in host.numa_nodes}
    if not _NODES.fullmatch(value) or not {int(node) for node in value.split(",")} <= nodes:
        raise refusals.power_on_failed(f"Invalid value for numa.nodeAffinity: '{value}'.")
