"""UpdateGraphicsConfig: a host's configured graphics; only `vgpuMode` takes effect at once.

A graphics type or the policy waits for a restart of the host or of Xorg. A device that the request
leaves out follows the host's default again; one that it names has a type of its own, even if that is
the default's (comments in govmomi's types). Which fault refuses a mode on a GPU in use is recalled.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.gpu_load import ESXI_8_0_3
from vgpu_cfg.lab.simulation.gpu_modes import watched_gpus
from vgpu_cfg.lab.simulation.operations import operation
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Gpu
from vgpu_cfg.lab.state.host_defaults import release_of
from vgpu_cfg.lab.state.inventory import Host

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
        _check(host, gpus.get(pci_id), entry)
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


def _check(host: Host, gpu: Gpu | None, entry: Any) -> None:
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
