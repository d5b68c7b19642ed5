"""Checks of a VM's GPUs in their host's topology: NVLink's requirements, distance from NICs, needless spans.

Sources: NVIDIA AI Enterprise 5.0 User Guide, chapter 4 (a GPU and its NIC belong on one NUMA node and one
PCIe root complex); nvidia-smi topo -m against vSphere's HostNumaNode. For NVLink: NVIDIA AI Enterprise
multi-node deep learning guide (Linux, one VM, whole GPUs); Infra 6.x, vGPU (C-Series) (the types that can be
peers); Infra 8 (NVSwitch, multi-vGPU); Infra 9 (peer-to-peer); field reports by Frank Denneman (groups by
bridges and partitions, the cost of a lone member).

Belief: numa-info-counts-like-nvidia-smi, groups-need-version-20, esxi-before-8-ignores-nvlink,
nvlink-off-for-a-lone-member, bridge-sizes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from vgpu_cfg.catalog import Board, Catalog, ProfileEntry
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import ScratchSource
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.plan_values import NumaPolicy
from vgpu_cfg.model.wording import counted, is_at_least, listed, node_list
from vgpu_cfg.planning.capacity.hardware import NodeState
from vgpu_cfg.planning.capacity.host_capacity import PassthroughSlot
from vgpu_cfg.planning.capacity.nic_needs import far_nics
from vgpu_cfg.planning.capacity.pci_tree import SYS, is_switched
from vgpu_cfg.planning.capacity.topology import (
    Disagreement,
    GroupWithoutLink,
    Link,
    LinkAcrossBoards,
    NodeDisagrees,
    Topology,
    group_of,
    has_group_api,
)
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.vms.lookup.guest_system import is_linux
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm


def check_topology(topology: Topology, findings: Findings) -> None:
    """Report disagreements of nvidia-smi and vCenter on a host that the plan uses."""
    host = topology.host
    subject = Subject(kind="host", name=host.name, moid=host.moid)
    for one in topology.disagreements:
        code, message, remedy = disagreement_text(one)
        findings.add(code, subject, message, remedy)


def disagreement_text(one: Disagreement) -> tuple[Code, str, str]:
    """Return code, message and remedy of a disagreement."""
    match one:
        case NodeDisagrees():
            message = (
                f"vCenter reports that GPU {one.gpu} is on NUMA node {one.vcenter}, but `nvidia-smi topo "
                f"-m` shows node {one.shell}; vCenter's value is used"
            )
            return Code.NODES_DISAGREE, message, "compare with `esxcli hardware pci list` on the host"
        case GroupWithoutLink():
            shown = f"connects at most {one.largest}" if one.largest else "does not connect any"
            message = (
                f"vCenter offers {one.group}, but according to `nvidia-smi topo -m`, NVLink {shown} of "
                "these GPUs"
            )
            remedy = (
                "check the bridges and the VMs that use the GPUs: NVLink is off for a GPU that is used "
                "individually"
            )
            return Code.NVLINK_NOT_SHOWN, message, remedy
        case LinkAcrossBoards():
            message = (
                f"`nvidia-smi topo -m` shows NVLink between {listed(one.gpus, shown=8)}, but vCenter "
                f"reports different boards: {listed(one.boards)}"
            )
            remedy = "all vGPUs in a VM must be on the same board model; check which GPUs the bridge connects"
            return Code.NVLINK_ACROSS_BOARDS, message, remedy


@dataclass(slots=True)
class _Pair:
    """A NIC, and GPUs that the VM has or may be given that are equally far from it."""

    nic: str
    gpus: list[str]
    link: Link
    is_chosen: bool

    @property
    def text(self) -> str:
        shown = listed(self.gpus, shown=8)
        if len(self.gpus) > 1:
            return f"its GPUs {shown}" if self.is_chosen else f"GPUs that ESXi may select, {shown},"
        return f"its GPU {shown}" if self.is_chosen else f"a GPU that ESXi may select, {shown},"


def check_nics_near(
    resolved: ResolvedVm,
    fit: Fit,
    states: tuple[HostState, HostState],
    topology: Topology,
    findings: Findings,
) -> None:
    """Report a GPU and NIC of one VM on different NUMA nodes or root complexes, with a better choice.

    `states` is the host before and after placement. NICs for which the plan has `near: any` are not checked.
    Nor are those that the plan chose and that are on no node of the GPUs, and GPUs of other nodes that ESXi
    may choose: `check_functions` reports these.
    """
    initial, final = states
    needs = resolved.shape.nics if resolved.shape is not None else ()
    nics = [nic for need, nic in zip(needs, fit.nics, strict=True) if need.near_gpu]
    if not nics:
        return
    nodes = final.gpu_nodes(fit.gpus, fit.slots)
    named = {need.pin for need in needs if need.pin is not None}
    reported = set(far_nics(needs, fit.nics, final.stock, nodes)) - named
    gpus = _gpus_of(resolved, fit, initial, set(nodes))
    if not gpus:
        return
    pairs: dict[tuple[str, int, int | None, bool], _Pair] = {}
    ways = [(gpu, *_nearest(gpu, nics, topology)) for gpu in gpus]
    ways = [(gpu, nic, link) for gpu, nic, link in ways if _is_far(gpu, nic, link, topology)]
    met = {nic for _, nic, _ in ways}
    lonely = [(*_nearest(nic, list(gpus), topology), nic) for nic in nics if nic not in met]
    ways += [(gpu, nic, link) for gpu, link, nic in lonely if link is not None and link.word == SYS]
    for gpu, nic, link in ways:
        if link is None or nic in reported:
            continue
        key = (nic, link.rank, topology.numa_node(gpu), gpus[gpu])
        pair = pairs.setdefault(key, _Pair(nic, [], link, gpus[gpu]))
        pair.gpus.append(gpu)
    for pair in pairs.values():
        _report(resolved, pair, final, topology, findings)


def check_one_node(resolved: ResolvedVm, fit: Fit, initial: HostState, findings: Findings) -> None:
    """Report a VM that spans NUMA nodes although GPUs of one node would do.

    Fractions of GPUs are excluded, since ESXi spreads those by its assignment policy.
    """
    if resolved.desired.numa.policy is not NumaPolicy.FOLLOW_GPU or len(fit.nodes) < 2:
        return
    held = {initial.gpus[index].node for index in fit.gpus}
    held |= {slot.pci.numa_node for slot in initial.slots if slot.pci.pci_id in fit.slots and slot.pci.is_gpu}
    if len(held) < 2 or any(need.max_per_gpu > 1 for need in fit.variant):
        return
    for node in initial.nodes:
        gpus = _gpus_on(node, resolved, fit, initial)
        if gpus is None:
            continue
        message = (
            f"it spans NUMA nodes {node_list(fit.nodes)} of {initial.host.name}, although "
            f"{listed(gpus, shown=8)} on node {node.node_id} would be sufficient"
        )
        remedy = (
            "select them with `pin`"
            if fit.slots
            else "keep the plan's other VMs off these GPUs; see `place.hosts`"
        )
        findings.add_vm(Code.ONE_NODE_WOULD_DO, resolved.desired, message, remedy)
        return


def _gpus_of(resolved: ResolvedVm, fit: Fit, initial: HostState, nodes: set[int | None]) -> dict[str, bool]:
    """Name the GPUs that the VM has or may be given, with whether it is these; of the planned nodes only."""
    choosable = resolved.choosable
    is_open = len(choosable) > len(set(fit.gpus))
    near = {gpu.pci_id for gpu in initial.gpus if gpu.node in nodes}
    found = {pci_id: not is_open for pci_id in choosable if pci_id in near}
    return found | dict.fromkeys(fit.slots, True)


def _nearest(one: str, others: Sequence[str], topology: Topology) -> tuple[str, Link | None]:
    """Return the nearest of some functions; no link if all distances are unknown."""
    known = [(link.rank, other, link) for other in others if (link := topology.distance(one, other))]
    if not known:
        return "", None
    _, other, link = min(known, key=lambda row: row[:2])
    return other, link


def _is_far(gpu: str, nic: str, link: Link | None, topology: Topology) -> bool:
    return link is not None and (link.word == SYS or topology.is_one_root(gpu, nic) is False)


def _report(
    resolved: ResolvedVm, pair: _Pair, host: HostState, topology: Topology, findings: Findings
) -> None:
    nic = pair.nic
    if pair.link.word == SYS:
        nodes = topology.numa_node(nic), topology.numa_node(pair.gpus[0])
        is_at = "are on node" if len(pair.gpus) > 1 else "is on node"
        where = f"NUMA node {nodes[0]} of {host.host.name}"
        message = f"its NIC {nic} is on {where}, but {pair.text} {is_at} {nodes[1]}"
        severity = None
    else:
        message = (
            f"its NIC {nic} and {pair.text} are on different root complexes of {host.host.name}, with no "
            "direct path"
        )
        severity = Severity.INFO
    findings.add_vm(Code.GPU_FAR_FROM_NIC, resolved.desired, message, _better(pair, host, topology), severity)


def _better(pair: _Pair, host: HostState, topology: Topology) -> str:
    """Name the nearer one: a NIC for the GPU, else a GPU for the NIC."""
    gpu, nic, link = pair.gpus[0], pair.nic, pair.link
    nics = [
        f"{near.pci_id} ({near.device})" if near.device else near.pci_id
        for near in topology.nics_near(gpu)
        if near.link.rank < link.rank and near.pci_id != nic and _is_free(near.pci_id, host)
    ]
    if nics:
        return f"use a NIC near the GPU: {listed(nics)}"
    gpus = [
        one.pci_id
        for one in host.host.gpus
        if one.pci_id not in pair.gpus
        and _is_free(one.pci_id, host)
        and (way := topology.distance(one.pci_id, nic)) is not None
        and way.rank < link.rank
    ]
    if gpus and not pair.is_chosen:
        return f"use passthrough with a GPU near the NIC: {listed(gpus)}"
    if gpus:
        return f"use a GPU near the NIC: {listed(gpus)}"
    return "this host has no closer free NIC or GPU; GPUDirect over this path is slow or unavailable"


def _is_free(pci_id: str, host: HostState) -> bool:
    """Whether a function is unused once the plan is carried out, also by the VM itself."""
    state = next((gpu for gpu in host.gpus if gpu.pci_id == pci_id), None)
    return pci_id not in host.holders and not (state is not None and state.held)


def _gpus_on(node: NodeState, resolved: ResolvedVm, fit: Fit, initial: HostState) -> list[str] | None:
    """Return GPUs of a node that the VM could have in place of its own, None where it has not enough."""
    if node.level(resolved.cpus, resolved.memory_mib) > 1:
        return None
    found: list[str] = []
    left = [gpu.copy() for gpu in initial.gpus if gpu.node == node.node_id]
    for need in fit.variant:
        gpu = next((one for one in left if one.refuse(need) is None), None)
        if gpu is None:
            return None
        gpu.take(need, resolved.name)
        found.append(gpu.pci_id)
    chosen = [slot for slot in initial.slots if slot.pci.pci_id in fit.slots and slot.pci.is_gpu]
    free = [slot for slot in initial.slots if _is_open(slot, node, initial)]
    for kind, count in Counter(_kind(slot) for slot in chosen).items():
        same = [slot.pci.pci_id for slot in free if _kind(slot) == kind]
        if len(same) < count:
            return None
        found += same[:count]
    return list(dict.fromkeys(found))


def _is_open(slot: PassthroughSlot, node: NodeState, initial: HostState) -> bool:
    return (
        slot.pci.numa_node == node.node_id
        and slot.pci.passthrough_active
        and slot.pci.pci_id not in initial.holders
    )


def _kind(slot: PassthroughSlot) -> tuple[int, int, int]:
    return (slot.pci.vendor_id, slot.pci.device_id, slot.pci.subsystem_id)


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
                f"several {entry.name} in one VM are documented only for KVM hosts; on ESXi, NVLink "
                f"requires Fabric Manager from NVIDIA AI Enterprise Infra 8.2, which 9.0 does not include"
            )
            remedy = "use the host driver from Infra 8.2, and ask NVIDIA whether this is supported"
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
            f"device groups require vSphere 8, so on {host.name}, ESXi selects {len(set(fit.gpus))} of "
            f"{counted(len(choosable), 'GPU')}, which NVLink may not connect"
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
        message = f"NVLink supports only Linux guests, but the VM's guest ID is {guest_id}"
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
        message = f"{entry.name} belongs to the {board.name}, and vGPUs on that board cannot be NVLink peers"
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
