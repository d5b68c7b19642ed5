"""Which cordon alone keeps a VM off a host, which ones a plan meets, and what gives a host or a GPU back."""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterable
from dataclasses import dataclass

from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.observed.cordon import Cordon
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
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
    if host.host.cordon is not None:
        words = f"is cordoned: {host.host.cordon.words}"
        return Lifted(Code.HOST_CORDONED, words, uncordon(host.host, host.host.cordon))
    cordons = [cordon for cordon in host.host.cordons if cordon.pci_id]
    needs = {need for variant in shape.variants for need in variant}
    drawn = {
        gpu.pci_id for gpu in host.gpus if any(gpu.refuse(need) is Code.GPU_CORDONED for need in needs)
    } or {cordon.pci_id for cordon in cordons}
    blocking = [cordon for cordon in cordons if cordon.pci_id in drawn]
    words = "; ".join(f"{cordon.pci_id} is cordoned: {cordon.words}" for cordon in blocking)
    chooses = ", and ESXi, which chooses the GPU, could choose it" if needs else ""
    return Lifted(Code.GPU_CORDONED, f"{words}{chooses}", uncordon(host.host, *blocking))


def uncordon(host: Host, *cordons: Cordon) -> str:
    """Return the command that gives back what cordons of a host keep."""
    name = host.name
    targets = [f"gpu:{name}/{cordon.pci_id}" if cordon.pci_id else f"host:{name}" for cordon in cordons]
    return shlex.join(["vgpu-cfg", "uncordon", *targets])


def report_cordons(hosts: Iterable[Host], concerned: Container[str], findings: Findings) -> None:
    """Tell the cordons of the hosts, by moid, that a plan's VMs are on."""
    for host in hosts:
        for cordon in host.cordons if host.moid in concerned else ():
            what = f"its GPU {cordon.pci_id}" if cordon.pci_id else "it"
            subject = Subject(kind="host", name=host.name, moid=host.moid)
            message = f"{what} is cordoned: {cordon.words}; what runs there stays"
            remedy = f"`{uncordon(host, cordon)}` gives it back"
            findings.add(Code.CORDON_IN_FORCE, subject, message, remedy)
