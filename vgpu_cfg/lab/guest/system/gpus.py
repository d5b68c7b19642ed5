"""The GPUs that a guest sees, and whether its NVIDIA driver supports them.

A guest driver fits a vGPU where it is of the host's branch or the one before, or, on a host of a long-term
branch, of the long-term one before (vGPU 19.0 release notes for VMware vSphere, 1.2). A GPU that is handed
through whole takes any. The names by which guests show vGPUs are those of NVIDIA's guides: `GRID A100-40C`
for profiles with `grid_`.
"""

from __future__ import annotations

from dataclasses import dataclass
from uuid import NAMESPACE_DNS, uuid5

from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.nics import passthrough_address, whole_devices
from vgpu_cfg.lab.rules.gpu_load import entry_of
from vgpu_cfg.lab.state.devices import FIRST_PASSTHROUGH, groups_of
from vgpu_cfg.lab.state.guest import Guest, fault_of
from vgpu_cfg.lab.state.host import Gpu, Host
from vgpu_cfg.lab.state.inventory import LabState
from vgpu_cfg.lab.state.vm import VirtualMachine

BRANCHES = (460, 470, 510, 525, 535, 550, 570, 580, 595)
LONG_TERM = (470, 535, 580)


@dataclass(frozen=True, slots=True)
class SeenGpu:
    """A GPU as a guest sees it. `profile` is the vGPU's name, "" for one handed through whole."""

    key: int
    gpu: Gpu
    profile: str
    name: str
    memory_mib: int
    uuid: str
    group: int = 0
    unified: bool = False

    @property
    def bus_id(self) -> str:
        """Its address in the guest, with eight digits of domain: `00000000:02:01.0`."""
        return f"0000{self.pci_id.upper()}"

    @property
    def pci_id(self) -> str:
        """Its address in the guest."""
        return passthrough_address(self.key)


def gpus_of_guest(state: LabState, vm: VirtualMachine) -> list[SeenGpu]:
    """Return the GPUs of a running guest, by their addresses there."""
    host = state.find(vm.host, Host)
    if host is None or not vm.is_on:
        return []
    grouped = {key: group for group, keys in groups_of(vm.devices).items() for key in keys}
    seen = [
        _shared(vm, gpu, use.device_key, use.profile, grouped.get(use.device_key, 0))
        for gpu in host.gpus
        for use in gpu.uses
        if use.vm == vm.moid
    ]
    for key, pci_id in whole_devices(vm):
        gpu = host.gpu(pci_id)
        if gpu is not None:
            seen.append(SeenGpu(key, gpu, "", gpu.name, gpu.memory_mib, _uuid(vm, key)))
    return sorted(seen, key=lambda one: one.key)


def _shared(vm: VirtualMachine, gpu: Gpu, key: int, profile: str, group: int) -> SeenGpu:
    entry = entry_of(gpu.board, profile)
    memory = entry.framebuffer_mib if entry is not None else gpu.memory_mib
    prefix, _, rest = profile.partition("_")
    kind = "GRID" if prefix == "grid" else "NVIDIA"
    setting = f"pciPassthru{key - FIRST_PASSTHROUGH}.cfg.enable_uvm"
    unified = vm.extra_config.get(setting, "0") not in ("", "0")
    return SeenGpu(key, gpu, profile, f"{kind} {rest.upper()}", memory, _uuid(vm, key), group, unified)


def _uuid(vm: VirtualMachine, key: int) -> str:
    return f"GPU-{uuid5(NAMESPACE_DNS, f'{key}.{vm.uuid}')}"


def branch_of(version: str) -> int:
    """Return a driver's branch, 0 for a text that is no version."""
    head = version.partition(".")[0]
    return int(head) if head.isdecimal() else 0


def takes(host_branch: int, guest_branch: int) -> bool:
    """Whether a host's driver takes a vGPU's guest driver of a branch."""
    if host_branch == guest_branch:
        return True
    older = [branch for branch in BRANCHES if branch < host_branch]
    long_term = [branch for branch in LONG_TERM if branch < host_branch]
    before = {*older[-1:], *(long_term[-1:] if host_branch in LONG_TERM else ())}
    return guest_branch in before


def is_unbuilt(guest: Guest) -> bool:
    """Whether NVIDIA's module is missing for the kernel that runs."""
    return fault_of(guest, "driver") == "missing"


def newer_library(guest: Guest) -> str:
    """Return the version of libraries that are newer than the loaded module, "" for none."""
    return "" if is_unbuilt(guest) else fault_of(guest, "driver")


def why_no_cuda(guest: Guest) -> str:
    """Return with what CUDA refuses to begin though the driver has the GPUs, "" where it begins.

    Texts are those of cudaGetErrorString for 803 and 46.
    """
    if newer_library(guest):
        return "system has unsupported display driver / cuda driver combination"
    is_closed = fault_of(guest, "compute") == "Prohibited"
    return "CUDA-capable device(s) is/are busy or unavailable" if is_closed else ""


def driver_loads(state: LabState, vm: VirtualMachine) -> bool:
    """Whether the guest has NVIDIA's driver, and it drives its GPUs."""
    guest, host = guest_of(vm), state.find(vm.host, Host)
    if not guest.driver or guest.has_nouveau or host is None or is_unbuilt(guest):
        return False
    shared = [one for one in gpus_of_guest(state, vm) if one.profile]
    if not shared:
        return True
    if not guest.has_grid_driver:
        return False
    return host.driver is not None and takes(branch_of(host.driver.version), branch_of(guest.driver))


def driven_gpus(state: LabState, vm: VirtualMachine) -> list[SeenGpu]:
    """Return the GPUs that the guest's driver has."""
    return gpus_of_guest(state, vm) if driver_loads(state, vm) else []
