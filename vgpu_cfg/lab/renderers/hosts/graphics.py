"""Rendering of a host's GPUs: board, settings, running VMs, profiles that can be created now."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import Service
from vgpu_cfg.lab.estates.lies import SOON_SECONDS
from vgpu_cfg.lab.renderers.entity import constant
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.rules.profiles import creatable_profiles, drives, known_profiles, serves_vgpus
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.state.devices import vgpus_of
from vgpu_cfg.lab.state.inventory import Gpu, Host, Managed, VirtualMachine
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
