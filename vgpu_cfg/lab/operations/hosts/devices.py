"""A host's PCI functions and GPUs configured: UpdatePassthruConfig and UpdateGraphicsConfig.

Passthrough holds at once where the host can rebind a device without a reboot and the request does not say
otherwise, else from the next reboot on; virtual functions always wait for it. That a NIC which the host
itself uses is refused is the lab's own: the effect on a real host is unknown.

A graphics type or the policy waits for a restart of the host or of Xorg. A device that the request
leaves out follows the host's default again; one that it names has a type of its own, even if that is
the default's (comments in govmomi's types). Which fault refuses a mode on a GPU in use is recalled.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.gpu_load import ESXI_8_0_3
from vgpu_cfg.lab.simulation.operations import operation
from vgpu_cfg.lab.simulation.simulation import Simulation, watched_gpus
from vgpu_cfg.lab.state.host import Gpu, Nic, Passthrough, PciDevice, is_endpoint
from vgpu_cfg.lab.state.host_defaults import release_of, type_in_force
from vgpu_cfg.lab.state.inventory import Host


@operation("HostPciPassthruSystem", "UpdatePassthruConfig")
def update_passthru_config(lab: Simulation, host: Host, *, config: list[Any]) -> None:
    """Configure PCI functions, all or none. Raises InvalidArgument, HostConfigFault."""
    devices = {device.pci_id: device for device in host.pci_devices()}
    nics = {nic.pci.pci_id: nic for nic in host.nics}
    for entry in config:
        if entry.id not in devices:
            raise refusals.bad_argument("config.id")
        _check(host, devices[entry.id], nics.get(entry.id), entry)
    rebinds = host.rebinds_without_reboot and not lab.state.denies("passthrough-rebinds")
    with watched_gpus(lab, host):
        for entry in config:
            _apply(host, nics.get(entry.id), entry, rebinds=rebinds)
    lab.state.touch(host)


def _check(host: Host, device: PciDevice, nic: Nic | None, entry: Any) -> None:
    state = host.passthrough_of(entry.id)
    if entry.passthruEnabled != state.enabled:
        _check_free(host, device, nic, state)
    if not isinstance(entry, vim.host.SriovConfig):
        return
    if nic is None or not nic.max_vfs:
        raise _refused(f"The device {entry.id} has no virtual functions.")
    if entry.sriovEnabled and (entry.passthruEnabled or state.active):
        raise _refused(f"The device {entry.id} cannot be passed through and have virtual functions.")
    if entry.sriovEnabled and not 0 < entry.numVirtualFunction <= nic.max_vfs:
        raise _refused(f"The device {entry.id} has from 1 to {nic.max_vfs} virtual functions.")


def _check_free(host: Host, device: PciDevice, nic: Nic | None, state: Passthrough) -> None:
    """Refuse where something uses the function now: a VM, vGPUs, or the host itself."""
    if not is_endpoint(device) or not state.capable:
        raise _refused(f"The device {device.pci_id} cannot be passed through.")
    gpu = host.gpu(device.pci_id)
    if state.vm is not None or (gpu is not None and gpu.uses):
        raise _refused(f"The device {device.pci_id} is in use by a running virtual machine.")
    if nic is not None and nic.uplink_of:
        raise _refused(f"The device {device.pci_id} is an uplink of a switch: {nic.device}.")


def _apply(host: Host, nic: Nic | None, entry: Any, *, rebinds: bool) -> None:
    state = host.passthrough.setdefault(entry.id, Passthrough())
    state.enabled = bool(entry.passthruEnabled)
    if entry.hardwareLabel is not None:
        state.label = entry.hardwareLabel
    if rebinds and entry.applyNow is not False:
        state.active = state.enabled
        gpu = host.gpu(entry.id)
        if gpu is not None:
            gpu.graphics_type = type_in_force(host, gpu)
    if nic is not None and isinstance(entry, vim.host.SriovConfig):
        nic.requested_vfs = entry.numVirtualFunction if entry.sriovEnabled else 0


def _refused(reason: str) -> Exception:
    return vim.fault.HostConfigFault(msg=reason)


TYPES = ("shared", "sharedDirect")
POLICIES = ("performance", "consolidation")
MODES = ("sameSize", "mixedSize")


@operation("HostGraphicsManager", "UpdateGraphicsConfig")
def update_graphics_config(lab: Simulation, host: Host, *, config: Any) -> None:
    """Configure the host's graphics, all or nothing. Raises InvalidArgument, ResourceInUse."""
    if config.hostDefaultGraphicsType not in TYPES:
        raise refusals.bad_argument("config.hostDefaultGraphicsType")
    if config.sharedPassthruAssignmentPolicy not in POLICIES:
        raise refusals.bad_argument("config.sharedPassthruAssignmentPolicy")
    devices = {entry.deviceId: entry for entry in config.deviceType or ()}
    gpus = {gpu.pci_id: gpu for gpu in host.gpus if not host.is_passed_through(gpu.pci_id)}
    for pci_id, entry in devices.items():
        _check_gpu(host, gpus.get(pci_id), entry)
    host.configured_default_graphics_type = config.hostDefaultGraphicsType
    host.configured_assignment_policy = config.sharedPassthruAssignmentPolicy
    with watched_gpus(lab, host):
        for pci_id, gpu in gpus.items():
            listed = devices.get(pci_id)
            gpu.configured_graphics_type = listed.graphicsType if listed is not None else None
            if listed is not None and listed.vgpuMode:
                gpu.configured_vgpu_mode = listed.vgpuMode
                gpu.vgpu_mode = listed.vgpuMode if host.driver is not None else gpu.vgpu_mode
    lab.state.touch(host)


def _check_gpu(host: Host, gpu: Gpu | None, entry: Any) -> None:
    if gpu is None:
        raise refusals.bad_argument("config.deviceType.deviceId")
    if entry.graphicsType not in TYPES:
        raise refusals.bad_argument("config.deviceType.graphicsType")
    if not entry.vgpuMode:
        return
    is_too_old = entry.vgpuMode == "mixedSize" and release_of(host) < ESXI_8_0_3
    if entry.vgpuMode not in MODES or is_too_old:
        raise refusals.bad_argument("config.deviceType.vgpuMode")
    if gpu.uses and entry.vgpuMode != gpu.vgpu_mode:
        raise vim.fault.ResourceInUse(name=gpu.pci_id, msg=f"The resource '{gpu.pci_id}' is in use.")
