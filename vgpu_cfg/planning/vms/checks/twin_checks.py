"""Checks of MAC addresses and pinned GPUs against VMs outside the plan.

vSphere accepts both twice. NICs with the same MAC address lose packets, and a GPU serves one running VM.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.changes.values import Placement
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm


def check_twins(
    observed: Inventory,
    resolved_vms: Sequence[ResolvedVm],
    deleted: Sequence[Vm],
    places: Mapping[str, Placement],
    findings: Findings,
) -> None:
    """Report MAC addresses of running VMs, and GPUs that powered-off VMs have, too."""
    own = {one.existing.moid for one in resolved_vms if one.existing is not None}
    own |= {vm.moid for vm in deleted}
    others = [
        (vm, vm.detail)
        for vm in observed.vms
        if vm.moid not in own and vm.detail is not None and not vm.is_template
    ]
    macs = {nic.mac.lower(): vm for vm, detail in others if vm.is_on for nic in detail.nics if nic.mac}
    pins = {(vm.host_moid, one.pci_id): vm for vm, detail in others for one in detail.passthrough}
    for resolved in resolved_vms:
        vm, place = resolved.desired, places.get(resolved.name)
        for nic in vm.nics:
            twin = macs.get(nic.mac) if nic.mac and nic.function is None else None
            if twin is not None:
                message = f"{twin.name}, which is running, also has the MAC address {nic.mac}"
                findings.refuse_vm(Code.MAC_TAKEN, vm, message, "use another `mac`, or omit it")
        for pin in dict.fromkeys(gpu.pin for gpu in vm.gpus if gpu.pin):
            twin = pins.get((place.host_moid, pin)) if place is not None else None
            if twin is not None and not twin.is_on:
                message = f"{twin.name}, which is off, also has {pin}; only one of them can run"
                remedy = f"remove the GPU from {twin.name}, or pin another"
                findings.add_vm(Code.PIN_SHARED, vm, message, remedy)
