"""Whether a VM may run on a host now, what of the host it would hold, and how it takes and returns that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pyVmomi import vim

from vgpu_cfg.catalog import Board, load_catalog
from vgpu_cfg.lab.rules import hardware, refusals
from vgpu_cfg.lab.rules.gpu_choice import Pick
from vgpu_cfg.lab.rules.gpu_load import ESXI_8_0, entry_of, esxi_order
from vgpu_cfg.lab.rules.vgpu_places import Suits, place_vgpus
from vgpu_cfg.lab.rules.virtual_functions import check_virtual_functions
from vgpu_cfg.lab.rules.whole_devices import assign_whole_devices
from vgpu_cfg.lab.state.devices import copy_with, dynamic_of
from vgpu_cfg.lab.state.inventory import Host, LabState, Passthrough, VgpuUse, VirtualMachine

SRIOV_ARCHITECTURES = ("Ampere", "Ada", "Hopper", "Blackwell")


@dataclass(frozen=True, slots=True)
class Admission:
    """What a VM would hold of its host: vGPUs by GPU address, and whole functions by device key."""

    vgpus: tuple[tuple[str, VgpuUse], ...] = ()
    whole: tuple[tuple[int, str], ...] = ()


def admit(
    state: LabState,
    vm: VirtualMachine,
    host: Host,
    pick: Pick,
    forced: Mapping[int, str] | None = None,
    suits: Suits | None = None,
) -> Admission:
    """Return what a VM would hold on a host, or raise vCenter's fault.

    `forced` fixes the GPU of some vGPUs (device key → address), for estates; `suits` leaves out GPUs, for
    a VM that moves as it runs.
    """
    if (unusable := refusals.host_unusable(host)) is not None:
        raise unusable
    if vm.hardware_version > hardware.max_hardware_version(host):
        raise refusals.too_new(host)
    _check_size(state, vm, host)
    placed = place_vgpus(vm, host, pick, forced or {}, suits)
    hardware.check_memory_reserved(vm)
    hardware.check_tpm(vm)
    hardware.check_latency_sensitivity(vm, host)
    hardware.check_numa_affinity(vm, host)
    whole = assign_whole_devices(vm, host)
    check_virtual_functions(state, vm, host)
    _check_several(vm, host, [use.profile for _, use in placed])
    boards = _boards_of(host, [pci_id for pci_id, _ in placed], list(whole.values()))
    for pci_id, use in placed:
        gpu = host.gpu(pci_id)
        if (
            gpu is not None
            and not host.bios.sriov
            and load_catalog().board(gpu.board).architecture in SRIOV_ARCHITECTURES
        ):
            raise refusals.plugin_failed(use.profile)
    hardware.check_window(vm, boards)
    return Admission(tuple(placed), tuple(whole.items()))


def start(state: LabState, vm: VirtualMachine, host: Host, admitted: Admission, *, now: float) -> None:
    """Let a VM run on a host, with what it was admitted."""
    for pci_id, use in admitted.vgpus:
        gpu = host.gpu(pci_id)
        if gpu is not None:
            gpu.uses.append(use)
    for _, pci_id in admitted.whole:
        held = host.passthrough.setdefault(pci_id, Passthrough())
        held.vm = vm.moid
    assigned = dict(admitted.whole)
    for device in dynamic_of(vm.devices):
        backing = copy_with(device.backing, assignedId=assigned[device.key])
        vm.devices[device.key] = copy_with(device, backing=backing)
    vm.power_state, vm.boot_time, vm.host = "poweredOn", now, host.moid
    state.touch(vm, host)


def stop(state: LabState, vm: VirtualMachine) -> None:
    """Let a VM stop, and return what it held."""
    host = state.get(vm.host, Host)
    for gpu in host.gpus:
        if any(use.vm == vm.moid for use in gpu.uses):
            gpu.uses = [use for use in gpu.uses if use.vm != vm.moid]
    for held in host.passthrough.values():
        if held.vm == vm.moid:
            held.vm = None
    for device in dynamic_of(vm.devices):
        vm.devices[device.key] = copy_with(device, backing=copy_with(device.backing, assignedId=None))
    vm.power_state, vm.boot_time = "poweredOff", None
    state.touch(vm, host)


def reserved_mib(state: LabState, host: Host) -> int:
    """Return the memory that the VMs which run on a host have reserved."""
    running = (state.get(moid, VirtualMachine) for moid in host.vms)
    return sum(hardware.reservation_mib(vm) for vm in running if vm.is_on)


def check_cpu(state: LabState, vm: VirtualMachine, host: Host) -> None:
    """Raise where the CPU that a VM reserves is not left on a host.

    Admission control compares the reservation with what is unreserved, at a power-on and where the
    reservation of a running VM grows (vSphere Resource Management, "Resource Allocation Reservation").
    """
    others = (state.get(moid, VirtualMachine) for moid in host.vms if moid != vm.moid)
    left = hardware.cpu_capacity_mhz(host) - sum(other.cpu_reservation_mhz for other in others if other.is_on)
    if vm.cpu_reservation_mhz > left:
        raise refusals.no_cpu(left, vm.cpu_reservation_mhz)


def _check_size(state: LabState, vm: VirtualMachine, host: Host) -> None:
    if vm.cpus > host.threads:
        raise vim.fault.NumVirtualCpusNotSupported(
            maxSupportedVcpusDest=host.threads,
            numCpuVm=vm.cpus,
            msg="The number of virtual CPUs is not supported by the host.",
        )
    if vm.memory_mib > host.memory_mib:
        raise vim.fault.MemorySizeNotSupported(
            memorySizeMB=vm.memory_mib,
            minMemorySizeMB=4,
            maxMemorySizeMB=host.memory_mib,
            msg="The memory size of the virtual machine is not supported by the host.",
        )
    asked = hardware.reservation_mib(vm)
    left = host.memory_mib - hardware.HOST_OWN_MIB - reserved_mib(state, host)
    if asked > left:
        raise refusals.no_memory(left, asked)
    check_cpu(state, vm, host)


def _check_several(vm: VirtualMachine, host: Host, profiles: list[str]) -> None:
    """Several vGPUs in one VM: one board, one series, and before 8.0 only whole GPUs of the C or Q series."""
    if len(profiles) < 2:
        return
    entries = [
        entry for gpu in host.gpus for name in profiles if (entry := entry_of(gpu.board, name)) is not None
    ]
    kinds = {(entry.profile.prefix, entry.profile.series) for entry in entries}
    whole = all(entry.is_full_framebuffer and entry.profile.series in ("C", "Q") for entry in entries)
    if len(kinds) > 1 or (esxi_order(host) < ESXI_8_0 and not whole):
        vm.log.append(f"vmiop_log: the vGPUs {', '.join(profiles)} do not go together in one virtual machine")
        raise refusals.plugin_failed(profiles[-1])


def _boards_of(host: Host, shared: list[str], whole: list[str]) -> list[Board]:
    """Return the board of each physical GPU that a VM would hold, once per GPU."""
    held = {*shared, *whole}
    return [load_catalog().board(gpu.board) for gpu in host.gpus if gpu.pci_id in held]
