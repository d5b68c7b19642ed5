"""Remedies for a VM without a place: the order of several reasons, cordons, the return of hosts and GPUs.

The cordons are the one that alone keeps a VM off a host, and those that a plan meets.
"""

from __future__ import annotations

import shlex
from collections.abc import Container, Iterable
from dataclasses import dataclass

from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.observed.cordon import Cordon
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.demand import Shape
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.vms.checks.nic_checks import NIC_REMEDIES

FARTHEST_FIRST = (
    Code.NO_SUCH_BOARD,
    Code.NO_HOST_DRIVER,
    Code.NOT_SHARED_DIRECT,
    Code.GPU_IN_PASSTHROUGH,
    Code.PROFILE_NOT_OFFERED,
    Code.PROFILE_NEEDS_NEWER_ESXI,
    Code.MULTI_VGPU_NEEDS_FULL,
    Code.TOO_MANY_VGPUS,
    Code.NVLINK_GROUP_ABSENT,
    Code.MIXED_SIZE_NOT_SUPPORTED,
    Code.GPU_NOT_IN_MIG_MODE,
    Code.GPU_IN_MIG_MODE,
    Code.LABEL_UNKNOWN,
    Code.PASSTHROUGH_ABSENT,
    Code.PASSTHROUGH_NOT_ACTIVE,
    Code.PASSTHROUGH_SERVES_VGPUS,
    Code.NIC_ABSENT,
    Code.NIC_INFINIBAND,
    Code.NIC_NOT_READY,
    Code.NIC_HOSTS_OWN,
    Code.HOLDER_UNKNOWN,
    Code.CLASSES_CANNOT_SHARE,
    Code.NOT_CREATABLE_NOW,
    Code.GPU_FULL,
    Code.NVLINK_GROUP_BROKEN,
    Code.PASSTHROUGH_TAKEN,
    Code.MIXED_SIZE_NO_ROOM,
    Code.NO_MIG_SLICE,
    Code.SAME_SIZE_LOCK,
    Code.NIC_TAKEN,
    Code.NIC_FAR,
    Code.NUMA_NODE_ABSENT,
    Code.HOST_CPUS,
    Code.HOST_MEMORY,
    Code.SPREAD_IMPOSSIBLE,
    Code.GPU_CORDONED,
    Code.HOST_CORDONED,
)
"""The reverse order of reasons: the last is the refusal closest to a place, which is shown first."""

REMEDIES = NIC_REMEDIES | {
    Code.NO_SUCH_BOARD: "specify a cluster with hosts that have this board, or use a profile that their "
    "boards support",
    Code.NO_HOST_DRIVER: "install NVIDIA's host driver and disable passthrough for the GPU; then check "
    "`nvidia-smi` on the host",
    Code.NOT_SHARED_DIRECT: "set the host's default graphics type to Shared Direct (Configure > "
    "Graphics), and restart its Xorg service",
    Code.GPU_IN_PASSTHROUGH: "disable passthrough for the GPU (Configure > PCI Devices), or use the entire "
    "GPU with `pin`",
    Code.PROFILE_NOT_OFFERED: "run `vgpu-cfg inventory` to see the hosts' resources",
    Code.PROFILE_NEEDS_NEWER_ESXI: "upgrade ESXi, or use another profile",
    Code.MULTI_VGPU_NEEDS_FULL: "use full-framebuffer profiles, or a host with vSphere 8 or later",
    Code.TOO_MANY_VGPUS: "use fewer vGPUs per VM",
    Code.MIXED_SIZE_NOT_SUPPORTED: "use a profile that mixed-size mode supports, or set the GPU to "
    "same-size mode",
    Code.GPU_NOT_IN_MIG_MODE: "power off the VMs on the GPU, enable MIG mode (`nvidia-smi -i GPU -mig 1` on "
    "the host), or use a time-sliced profile",
    Code.GPU_IN_MIG_MODE: "use a MIG-backed profile, or disable MIG mode on the GPU",
    Code.NVLINK_GROUP_ABSENT: "install NVIDIA's GPU management daemon on the host (it creates the "
    "groups), use an available size, or remove `nvlink`",
    Code.NVLINK_GROUP_BROKEN: "free all GPUs in one NVLink set, or specify more hosts",
    Code.LABEL_UNKNOWN: "compare the label, model and IDs with `vgpu-cfg inventory`",
    Code.PASSTHROUGH_ABSENT: "run `vgpu-cfg inventory` to list the GPUs with their addresses",
    Code.PASSTHROUGH_NOT_ACTIVE: "enable passthrough for the device (Configure > PCI Devices)",
    Code.PASSTHROUGH_SERVES_VGPUS: "move the vGPUs to other GPUs first, or use another GPU for passthrough",
    Code.PASSTHROUGH_TAKEN: "use another device, or free this one",
    Code.HOLDER_UNKNOWN: "check what runs on the GPU with `nvidia-smi vgpu` on the host",
    Code.CLASSES_CANNOT_SHARE: "use a profile from the series that already runs on the GPU, or upgrade to "
    "vSphere "
    "8.0 U2",
    Code.HOST_CPUS: "use fewer CPUs, or specify larger hosts",
    Code.NOT_CREATABLE_NOW: "check which VM uses the GPU with `nvidia-smi vgpu` on the host; lower the "
    "severity of VG128 if vCenter's list is outdated",
    Code.GPU_FULL: "free a GPU, use a smaller profile, or specify more hosts",
    Code.MIXED_SIZE_NO_ROOM: "free a placement, use a smaller profile, or specify more hosts",
    Code.NO_MIG_SLICE: "free slices, use a smaller profile, or specify more hosts",
    Code.SAME_SIZE_LOCK: "use the size that already runs on the GPU, free the GPU, or set it to mixed-size "
    "mode "
    "(vSphere 8.0 U3 and later)",
    Code.NUMA_NODE_ABSENT: "specify nodes that the hosts have",
    Code.HOST_MEMORY: "use less memory, free some memory, or specify more hosts",
    Code.SPREAD_IMPOSSIBLE: "specify more hosts, create fewer VMs, or set `must: false`; if hosts are kept "
    "free, lower `keep_free`",
}
_PLACE = {code: place for place, code in enumerate(FARTHEST_FIRST)}


def closeness(code: Code) -> int:
    """Return a number that is the higher the closer a refusal was to a place."""
    return _PLACE.get(code, 0)


@dataclass(frozen=True, slots=True)
class Lifted:
    """A host that would accept a VM without its cordons, in words; `command` lifts them."""

    code: Code
    text: str
    command: str


def lift_cordons(host: HostState, shape: Shape) -> Lifted | None:
    """Return the obstacle of such a VM if a host would accept it without its cordons; else None."""
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
    chooses = ", and ESXi selects the GPU, so it could select this one" if needs else ""
    return Lifted(Code.GPU_CORDONED, f"{words}{chooses}", uncordon(host.host, *blocking))


def uncordon(host: Host, *cordons: Cordon) -> str:
    """Return the command that gives back what cordons of a host keep."""
    name = host.name
    targets = [f"gpu:{name}/{cordon.pci_id}" if cordon.pci_id else f"host:{name}" for cordon in cordons]
    return shlex.join(["vgpu-cfg", "uncordon", *targets])


def report_cordons(hosts: Iterable[Host], concerned: Container[str], findings: Findings) -> None:
    """Report the cordons of the hosts, by moid, that a plan's VMs are on."""
    for host in hosts:
        for cordon in host.cordons if host.moid in concerned else ():
            report_cordon(host, cordon, findings)


def report_cordon(host: Host, cordon: Cordon, findings: Findings, severity: Severity | None = None) -> None:
    """Report that a host, or a GPU of it, is kept from new VMs, and how to return it."""
    what = f"its GPU {cordon.pci_id}" if cordon.pci_id else "it"
    subject = Subject(kind="host", name=host.name, moid=host.moid)
    message = f"{what} is cordoned: {cordon.words}; running VMs are not moved"
    remedy = f"to return it to service, run `{uncordon(host, cordon)}`"
    findings.add(Code.CORDON_IN_FORCE, subject, message, remedy, severity)
