"""Which cordon alone keeps a VM off a host, and what gives the host or the GPU back."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from vgpu_cfg.model.observed.cordon import Cordon
from vgpu_cfg.planning.findings.checks import Code
from vgpu_cfg.planning.placement.demand import Shape
from vgpu_cfg.planning.placement.host_state import HostState


@dataclass(frozen=True, slots=True)
class Lifted:
    """That a host would take a VM but for its cordons, in words; `command` gives back what is closed."""

    code: Code
    text: str
    command: str


def lift_cordons(host: HostState, shape: Shape) -> Lifted | None:
    """Say what keeps such a VM away, where a host would take it but for its cordons; else None."""
    if not host.host.cordons or host.fit(shape) is not None or host.uncordoned().fit(shape) is None:
        return None
    if host.cordon is not None:
        return Lifted(Code.HOST_CORDONED, f"is cordoned: {host.cordon.words}", uncordon(host, host.cordon))
    cordons = [cordon for cordon in host.host.cordons if cordon.pci_id]
    needs = {need for variant in shape.variants for need in variant}
    drawn = {
        gpu.pci_id for gpu in host.gpus if any(gpu.refuse(need) is Code.GPU_CORDONED for need in needs)
    } or {cordon.pci_id for cordon in cordons}
    blocking = [cordon for cordon in cordons if cordon.pci_id in drawn]
    words = "; ".join(f"{cordon.pci_id} is cordoned: {cordon.words}" for cordon in blocking)
    chooses = ", and ESXi, which chooses the GPU, could choose it" if needs else ""
    return Lifted(Code.GPU_CORDONED, f"{words}{chooses}", uncordon(host, *blocking))


def uncordon(host: HostState, *cordons: Cordon) -> str:
    """Return the command that gives back what cordons of a host keep."""
    name = host.host.name
    targets = [f"gpu:{name}/{cordon.pci_id}" if cordon.pci_id else f"host:{name}" for cordon in cordons]
    return shlex.join(["vgpu-cfg", "uncordon", *targets])
