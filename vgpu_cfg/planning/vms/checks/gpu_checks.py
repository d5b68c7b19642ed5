"""Checks of a VM's GPUs before placement: names, boards, series, unified memory.

Sources: NVIDIA AI Enterprise 5.0 User Guide and Infra 6.x (vGPU C-Series), release 9 (peer-to-peer), vGPU
Software User Guide.

Belief: one-board-and-series-in-a-vm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vgpu_cfg.catalog import Catalog, ProfileEntry
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.model.desired import DesiredPower, DesiredVm
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.wording import gib, is_at_least, listed
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm


def check_gpus(
    resolved: ResolvedVm, catalog: Catalog, reader: CapacityReader, offered: OfferedBy, findings: Findings
) -> None:
    """Check the GPUs that a VM will have; what makes them impossible is marked on the VM."""
    vm = resolved.desired
    vgpus = [gpu for gpu in resolved.gpus if gpu.kind == "vgpu"]
    is_idle = resolved.keeps_gpus or vm.power is not DesiredPower.ON
    if is_idle and resolved.has_devices and any(gpu.memory for gpu in vgpus):
        return  # it keeps its profile even if the catalog lacks it
    unknown = [gpu for gpu in vgpus if not any(reader.needs(profile.name) for profile in gpu.profile)]
    for gpu in unknown:
        _refuse_unknown(vm, gpu, catalog, offered, findings)
    if unknown:
        resolved.cannot_be_placed = True
        return
    if vgpus and not reader.variants(resolved.gpus):
        _refuse_mixture(vm, vgpus, findings)
        resolved.cannot_be_placed = True
        return
    for gpu in vgpus:
        for profile in gpu.profile:
            _check_profile(vm, profile.name, catalog, findings)
    _check_unified_memory(vm, vgpus, catalog, findings)


class OfferedBy:
    """Which hosts offer a profile that the catalogue lacks."""

    def __init__(self, hosts: Sequence[Host]) -> None:
        self._names: dict[str, list[str]] = {}
        for host in hosts:
            for name in {*host.creatable_profiles, *(profile.name for profile in host.profiles or ())}:
                self._names.setdefault(name, []).append(host.name)

    def hosts(self, profile: str) -> list[str]:
        """Return the names of the hosts, sorted."""
        return sorted(self._names.get(profile, ()))


def _refuse_unknown(
    vm: DesiredVm, gpu: GpuEntry, catalog: Catalog, offered: OfferedBy, findings: Findings
) -> None:
    if gpu.memory is not None:
        _refuse_memory(vm, gpu, gpu.memory, findings)
        return
    names = [profile.name for profile in gpu.profile]
    hosts = sorted({host for name in names for host in offered.hosts(name)})
    if hosts:
        message = f"the catalog has no board for {listed(names)} (offered by {listed(hosts)})"
        remedy = "add a board file to profiles/ (see profiles/README.md)"
        findings.refuse_vm(Code.PROFILE_UNKNOWN, vm, message, remedy)
        return
    findings.refuse_vm(Code.PROFILE_UNKNOWN, vm, *catalog.without(names))


def _refuse_memory(vm: DesiredVm, gpu: GpuEntry, memory_mib: int, findings: Findings) -> None:
    """Say that no GPU of the estate has as much memory as a VM asks for."""
    boards = f" on {listed(gpu.any_of)}" if gpu.any_of else ""
    shared = {"only": " with MIG", "never": " without MIG"}.get(gpu.mig, "")
    message = f"no GPU in this vCenter provides a vGPU of {gib(memory_mib)} or more{boards}{shared}"
    remedy = "request less `memory`, or add boards to `any_of`" if gpu.any_of else "request less `memory`"
    findings.refuse_vm(Code.NO_SUCH_BOARD, vm, message, remedy)


def _refuse_mixture(vm: DesiredVm, vgpus: Sequence[GpuEntry], findings: Findings) -> None:
    kinds = dict.fromkeys(f"{profile.prefix} {profile.series}" for gpu in vgpus for profile in gpu.profile)
    message = (
        f"all vGPUs in a VM must be of the same board model and series, but these are {' and '.join(kinds)}"
    )
    findings.refuse_vm(Code.MIXED_BOARDS, vm, message, "use profiles of the same board and series")


def _check_profile(vm: DesiredVm, name: str, catalog: Catalog, findings: Findings) -> None:
    for entry in catalog.by_profile(name):
        if not entry.board.is_esxi:
            message = f"{name} belongs to the {entry.board.name}, which is documented only for KVM hosts"
            findings.add_vm(Code.NOT_AN_ESXI_BOARD, vm, message, "use a board that ESXi supports")
        if entry.profile.series != "C":
            message = (
                f"{name} is a {entry.profile.series}-series profile; the C series is intended for compute "
                "workloads"
            )
            findings.add_vm(Code.OTHER_SERIES, vm, message)


def _check_unified_memory(
    vm: DesiredVm, vgpus: Sequence[GpuEntry], catalog: Catalog, findings: Findings
) -> None:
    """MIG-backed types may have it, of time-sliced ones only those with the full framebuffer."""
    with_uvm = [gpu for gpu in vgpus if gpu.uvm]
    if not with_uvm:
        return
    for entry in _entries(with_uvm, catalog):
        if entry.mig is None and not entry.is_full_framebuffer:
            message = (
                f"unified memory requires a full GPU or MIG slices, but {entry.name} is a fractional "
                "time-sliced profile"
            )
            remedy = "remove `uvm`, or use the profile with the full framebuffer"
            findings.refuse_vm(Code.UVM_NEEDS_FULL, vm, message, remedy)
        elif len(vgpus) > 1 and entry.loses_p2p_by_uvm:
            message = f"with unified memory, a VM's {entry.name} vGPUs cannot use NVLink to communicate"
            if any(gpu.nvlink is not None for gpu in vgpus):
                remedy = "remove `uvm`, or `nvlink`"
                findings.add_vm(Code.UVM_DISABLES_P2P, vm, message, remedy, Severity.ERROR)
            else:
                remedy = "remove `uvm` if the GPUs must be NVLink peers"
                findings.add_vm(Code.UVM_DISABLES_P2P, vm, message, remedy)
    findings.add_vm(Code.UVM_NO_MIGRATION, vm, "unified memory: the VM cannot be migrated with vMotion")


def _entries(gpus: Iterable[GpuEntry], catalog: Catalog) -> list[ProfileEntry]:
    found = {
        entry.name: entry
        for gpu in gpus
        for profile in gpu.profile
        for entry in catalog.by_profile(profile.name)
    }
    return list(found.values())


def check_api(vm: DesiredVm, gpus: Sequence[GpuEntry], api_version: str, findings: Findings) -> None:
    """Check that the vCenter's API can express the plan's requests, of GPUs and of NICs."""
    kinds: Mapping[str, tuple[str, tuple[int, ...]]] = {
        "vgpu": ("vGPUs", (6, 0)),
        "passthrough": ("passthrough", (4, 0)),
        "dynamic_passthrough": ("Dynamic DirectPath I/O", (7, 0)),
    }
    requested: list[str] = [gpu.kind for gpu in gpus]
    if any(nic.function is not None and nic.function.label for nic in vm.nics):
        requested.append("dynamic_passthrough")
    for kind in dict.fromkeys(requested):
        what, least = kinds[kind]
        if not is_at_least(api_version, least):
            needed = ".".join(map(str, least))
            message = f"{what} requires API version {needed}, but this vCenter has {api_version}"
            findings.refuse_vm(Code.API_TOO_OLD, vm, message, "upgrade vCenter, or use other devices")
