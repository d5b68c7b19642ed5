"""Which hardware version a VM needs for its devices."""

from __future__ import annotations

from vgpu_cfg.planning.capacity.hardware import least_version
from vgpu_cfg.planning.capacity.nic_needs import NicKind
from vgpu_cfg.planning.vms.lookup.nic_match import nic_needs
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.lookup.wanted import PVRDMA, WantedNic


def device_kinds(resolved: ResolvedVm) -> list[str]:
    """Return the kind of every device that is passed through or shared: vGPUs, GPUs and whole NICs."""
    needs = nic_needs(resolved.nics, resolved.kept_devices, resolved.host)
    whole = [need for need in needs if need.kind is NicKind.PASSTHROUGH]
    return [
        *(gpu.kind for gpu in resolved.gpus),
        *("passthrough" if need.pin or not need.label else "dynamic_passthrough" for need in whole),
    ]


def least_of_devices(resolved: ResolvedVm) -> int:
    """Return the lowest hardware version that can have the VM's devices; 0 if any can."""
    kinds = device_kinds(resolved)
    return least_version(
        kinds.count("vgpu"),
        kinds.count("dynamic_passthrough"),
        len(kinds),
        groups=bool(resolved.new_groups) or (resolved.fit is not None and bool(resolved.fit.groups)),
        pvrdma=any(isinstance(nic, WantedNic) and nic.kind == PVRDMA for nic in resolved.nics or ()),
        nvme=any(one.kind == "new" and one.controller == "nvme" for one in resolved.desired.disks),
    )
