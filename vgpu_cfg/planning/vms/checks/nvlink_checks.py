"""NVLink's requirements for VMs with joined GPUs: their guest, their profiles, their host.

Sources: NVIDIA AI Enterprise multi-node deep learning guide (Linux, one VM, whole GPUs); Infra 6.x, vGPU
(C-Series) (the types that can be peers); Infra 8 (NVSwitch, multi-vGPU); Infra 9 (peer-to-peer); field
reports by Frank Denneman (groups by bridges and partitions, the cost of a lone member).

Belief: groups-need-version-20, esxi-before-8-ignores-nvlink, nvlink-off-for-a-lone-member, bridge-sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from vgpu_cfg.catalog import Board, Catalog, ProfileEntry
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import ScratchSource
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.wording import counted, is_at_least, listed
from vgpu_cfg.planning.capacity.pci_tree import is_switched
from vgpu_cfg.planning.capacity.peer_groups import group_of, has_group_api
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.vms.lookup.guest_system import is_linux
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm

NVSWITCH_SINCE: Mapping[str, tuple[int, ...]] = {
    "Ampere": (8, 0, 1),
    "Hopper": (8, 0, 2),
    "Blackwell": (8, 0, 2),
}
"""The ESXi release from which NVSwitch joins the GPUs of a VM: 8.0 U1, 8.0 U2.

Of Blackwell no document names a first release; it cannot be older than Hopper's.
"""


def has_peers(resolved: ResolvedVm) -> bool:
    """Whether NVLink joins GPUs of the VM."""
    return bool(_peers(resolved))


def check_peers(resolved: ResolvedVm, catalog: Catalog, hosts: Sequence[Host], findings: Findings) -> None:
    """Check whether NVLink peers can be had at all, before anybody looks for room."""
    peers = _peers(resolved)
    if not peers:
        return
    _check_guest(resolved, findings)
    offered = {group.peers[0] for host in hosts for group in host.device_groups}
    names = dict.fromkeys(profile.name for gpu in peers for profile in gpu.profile)
    for name in names:
        if name not in offered:
            for entry in catalog.by_profile(name):
                _check_entry(resolved, entry, findings)
    if not resolved.cannot_be_placed:
        _check_sizes(resolved, peers, catalog, hosts, findings)
    for entry in (entry for name in names for entry in catalog.by_profile(name)):
        if entry.board.architecture == "Blackwell" and entry.board.is_nvswitch:
            message = (
                f"several {entry.name} in one VM are documented for KVM hosts only; on ESXi, NVLink "
                "requires the Fabric Manager of NVIDIA AI Enterprise Infra 8.2, which 9.0 does not include"
            )
            remedy = "make sure that the host driver is from Infra 8.2, and ask NVIDIA"
            findings.add_vm(Code.NVLINK_BLACKWELL, resolved.desired, message, remedy)


def check_peers_place(resolved: ResolvedVm, fit: Fit, initial: HostState, findings: Findings) -> None:
    """Check NVLink peers on the host that they were given."""
    if not has_peers(resolved):
        return
    host = initial.host
    boards = dict.fromkeys(initial.gpus[index].board for index in fit.gpus)
    for board in boards:
        since = (
            NVSWITCH_SINCE.get(board.architecture) if board is not None and is_switched(host, board) else None
        )
        if board is not None and since is not None and not is_at_least(host.version, since):
            message = (
                f"{host.name} runs ESXi {host.version}, but using NVSwitch between {board.name} GPUs in a "
                f"VM requires {'.'.join(map(str, since))} or later"
            )
            findings.add_vm(Code.NVSWITCH_NEEDS_NEWER_ESXI, resolved.desired, message, "upgrade ESXi")
    choosable = resolved.choosable
    if not has_group_api(host) and len(choosable) > len(set(fit.gpus)):
        message = (
            f"{host.name} has no device groups before vSphere 8: ESXi selects {len(set(fit.gpus))} of "
            f"{counted(len(choosable), 'GPU')}, and these may not be connected by NVLink"
        )
        remedy = (
            "check `nvidia-smi topo -m` in the guest; if NVLink does not connect the GPUs, power the VM off "
            "and on again"
        )
        findings.add_vm(Code.NVLINK_CHOICE_OPEN, resolved.desired, message, remedy)


def check_lone_members(
    resolved_vms: Iterable[ResolvedVm],
    hosts: Sequence[Host],
    vms: Sequence[Vm],
    catalog: Catalog,
    findings: Findings,
) -> None:
    """Report VMs that use a GPU by itself on hosts with room for NVLink peers of the plan."""
    indexes = {
        index
        for resolved in resolved_vms
        if has_peers(resolved) and resolved.shape
        for index, _ in resolved.shape.hosts
    }
    known = {vm.moid: vm for vm in vms}
    ours = {resolved.existing.moid for resolved in resolved_vms if resolved.existing is not None}
    for host in (hosts[index] for index in sorted(indexes)):
        grouped = {group.peers[0] for group in host.device_groups if group.peers[1]}
        boards = {entry.board for name in grouped for entry in catalog.by_profile(name)}
        for gpu in host.gpus:
            board = catalog.of_device(gpu.pci)
            holders = [known[moid] for moid in gpu.vm_moids if moid in known and moid not in ours]
            alone = [vm.name for vm in holders if _is_alone(vm, catalog)]
            if board in boards and alone:
                message = (
                    f"GPU {gpu.pci_id} is used individually by {listed(sorted(alone))}, so NVLink is off "
                    "for it"
                )
                remedy = "move VMs that use only part of the board to hosts without NVLink"
                subject = Subject(kind="host", name=host.name, moid=host.moid)
                findings.add(Code.NVLINK_MEMBER_ALONE, subject, message, remedy)


def _peers(resolved: ResolvedVm) -> list[GpuEntry]:
    return [gpu for gpu in resolved.gpus if gpu.nvlink is not None]


def _check_guest(resolved: ResolvedVm, findings: Findings) -> None:
    source = resolved.desired.source
    is_new_scratch = resolved.existing is None and isinstance(source, ScratchSource)
    guest_id = (
        source.guest_id if is_new_scratch and isinstance(source, ScratchSource) else resolved.base.guest_id
    )
    verdict = is_linux(guest_id)
    if verdict is False:
        message = f"NVLink supports only Linux guests, but its guest ID is {guest_id}"
        remedy = "clone a Linux template, or remove `nvlink`"
        findings.add_vm(Code.NVLINK_NEEDS_LINUX, resolved.desired, message, remedy)
    elif verdict is None:
        message = (
            f"NVLink requires a Linux guest, but {guest_id or 'no guest id'} does not identify the guest OS"
        )
        findings.add_vm(
            Code.NVLINK_NEEDS_LINUX,
            resolved.desired,
            message,
            "make sure that the guest runs Linux",
            Severity.INFO,
        )


def _check_entry(resolved: ResolvedVm, entry: ProfileEntry, findings: Findings) -> None:
    board, best = entry.board, entry.board.nvlink_p2p_profile
    is_whole = entry.is_full_framebuffer and entry.mig is None and entry.profile.series == "C"
    if best is None or (is_whole and not entry.is_nvlink_p2p):
        message = f"{entry.name} belongs to the {board.name}, whose vGPUs cannot be NVLink peers"
        remedy = "use a board that supports it (`vgpu-cfg profiles` shows NVLink), or remove `nvlink`"
        findings.refuse_vm(Code.NOT_AN_NVLINK_PEER, resolved.desired, message, remedy)
        resolved.cannot_be_placed = True
    elif not is_whole:
        part = "a MIG-backed profile" if entry.mig is not None else "a fractional profile"
        if entry.is_full_framebuffer:
            part = f"a {entry.profile.series}-series profile"
        message = f"NVLink connects C-series vGPUs that use a full GPU, but {entry.name} is {part}"
        name = entry.profile.prefix + best.name.removeprefix(best.prefix)
        findings.refuse_vm(
            Code.NVLINK_NEEDS_WHOLE, resolved.desired, message, f"use {name}, or remove `nvlink`"
        )
        resolved.cannot_be_placed = True


def _check_sizes(
    resolved: ResolvedVm,
    peers: Sequence[GpuEntry],
    catalog: Catalog,
    hosts: Sequence[Host],
    findings: Findings,
) -> None:
    """See that so many GPUs of a board can be peers of each other; a host that offers it is right."""
    sizes = Counter(gpu.nvlink for gpu in peers)
    first = {gpu.nvlink: gpu for gpu in reversed(peers)}
    for number, size in sizes.items():
        names = [profile.name for profile in first[number].profile]
        boards = [entry.board for name in names for entry in catalog.by_profile(name)]
        if any(group_of(host, name, size) for host in hosts for name in names):
            continue
        if boards and all(board.nvlink_groups and size not in board.nvlink_groups for board in boards):
            board = boards[0]
            message = (
                f"{size} {board.name} GPUs cannot all be NVLink peers; possible group sizes: {_sizes(board)}"
            )
            remedy = f"set count: {_sizes(board)}; for several groups, use a separate `nvlink` item for each"
            findings.add_vm(Code.NVLINK_GROUP_SIZE, resolved.desired, message, remedy)
            resolved.cannot_be_placed |= findings.severity_of(Code.NVLINK_GROUP_SIZE) is Severity.ERROR


def _sizes(board: Board) -> str:
    return " or ".join(map(str, board.nvlink_groups))


def _is_alone(vm: Vm, catalog: Catalog) -> bool:
    """Whether a VM has one vGPU and no group, or a part of a GPU."""
    vgpus = vm.detail.vgpus if vm.detail is not None else ()
    if any(device.group_key is not None for device in vgpus):
        return False
    entries = [entry for device in vgpus for entry in catalog.by_profile(device.profile)]
    return len(vgpus) == 1 or any(not entry.is_full_framebuffer for entry in entries)
