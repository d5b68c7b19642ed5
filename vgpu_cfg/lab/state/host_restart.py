"""What a restart does to a host: what was configured comes into force, and what does not last is dropped.

Source: NVIDIA MIG User Guide. MIG mode outlasts a restart on Ampere only, mixed size on no board.
That a reboot drops the configured `vgpuMode` together with the one in force is assumed.
"""

from __future__ import annotations

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.lab.state.host import Gpu, GraphicsType, Host, Nic
from vgpu_cfg.lab.state.host_defaults import driver_of, load_driver

KEEPS_MIG = frozenset({"Ampere"})


def restart(host: Host, *, cold: bool) -> None:
    """Let a host come up with what it was configured to; `cold` says that its power was off before."""
    _take_packages(host)
    for state in host.passthrough.values():
        state.active = state.enabled
    for nic in host.nics:
        _restart_nic(host, nic, cold=cold)
    for setting in host.kernel.values():
        setting.runtime = setting.configured
    for module in host.modules.values():
        module.at_boot, module.loaded = module.configured, True
    for gpu in host.gpus:
        _restart_gpu(gpu)
    apply_graphics(host)
    for service in host.services.values():
        service.running = service.policy != "off"


def apply_graphics(host: Host) -> None:
    """Bring graphics types and assignment policy into force, as a restart of Xorg does, too."""
    host.assignment_policy = host.configured_assignment_policy
    for gpu in host.gpus:
        gpu.graphics_type = type_in_force(host, gpu)


def type_in_force(host: Host, gpu: Gpu) -> GraphicsType:
    """Return the type that a GPU has once what is configured holds."""
    if host.is_passed_through(gpu.pci_id):
        return "direct"
    if host.driver is None:
        return "basic"
    return gpu.configured_graphics_type or host.configured_default_graphics_type


def _take_packages(host: Host) -> None:
    if not host.staged:
        return
    wanted = driver_of(host.staged)
    if wanted is not None:
        old = [name for name in host.software if name.startswith("NVD-") and name not in host.staged]
        for name in old:
            del host.software[name]
    host.software |= host.staged
    host.staged = {}
    host.driver = driver_of(host.software)
    load_driver(host)


def _restart_nic(host: Host, nic: Nic, *, cold: bool) -> None:
    if cold or not nic.firmware_needs_cold_boot:
        for parameter in nic.firmware.values():
            parameter.current = parameter.next_boot
    available = nic.firmware.get("NUM_OF_VFS")
    has_functions = host.bios.sriov and nic.is_on("SRIOV_EN") and not host.is_passed_through(nic.pci.pci_id)
    most = int(available.current) if available is not None and available.current.isdigit() else 0
    nic.num_vfs = min(nic.requested_vfs, most) if has_functions else 0


def _restart_gpu(gpu: Gpu) -> None:
    gpu.uses = []
    gpu.ecc_enabled = gpu.ecc_pending
    keeps = load_catalog().board(gpu.board).architecture in KEEPS_MIG
    gpu.mig_enabled = gpu.mig_pending = gpu.mig_pending and keeps
    gpu.vgpu_mode, gpu.configured_vgpu_mode = "sameSize", None
