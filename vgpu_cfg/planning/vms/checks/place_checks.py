"""Checks of a VM once its host is known: server kinds, NUMA, DRS, passthrough, disk space.

Sources: NVIDIA AI Enterprise multi-node deep learning guide (servers with more than four GPUs), NVIDIA AI
Enterprise release 8 (NVSwitch), vSphere Resource Management (NUMA).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import DesiredPower, DesiredVm
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.inventory import Datastore, Host
from vgpu_cfg.model.observed.vm import AFFINITY_KEY
from vgpu_cfg.model.plan_values import NumaPolicy, Spread
from vgpu_cfg.model.wording import counted, gib, is_at_least, listed, node_list, whole_gib
from vgpu_cfg.planning.capacity.hardware import misses_nodes, nodes_of_affinity
from vgpu_cfg.planning.capacity.host_capacity import Claim
from vgpu_cfg.planning.capacity.pci_tree import is_switched
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.placement.host_state import HOST_MEMORY_SHARE, Fit, HostState
from vgpu_cfg.planning.vms.lookup.affinity import assignable_nodes, held_nodes
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm, is_outside_clusters, other_datastore
from vgpu_cfg.planning.vms.settings.cluster_rows import DRS_PLACES, drs_in_force
from vgpu_cfg.planning.vms.settings.cpu_rows import HIGH
from vgpu_cfg.planning.vms.settings.edits import current

MANY_GPUS = 4
MOST_CPUS_BESIDE_VGPU = 127
IOMMU_KEYS = (
    "vvtd.enable",
    "pciPassthru.vmiop.allowViommu",
    "pciPassthru.vmiop.enableViommu",
    "amd.iommu.supportsPcip",
)
"""Parameters with which vGPUs and more CPUs go together, from ESXi 8 on (Broadcom KB 88161)."""
VIOMMU_SINCE = (8, 0)
HOST_OWN_MIB = 8 * 1024
"""The least memory that counts as the hypervisor's own."""


def check_place(resolved: ResolvedVm, fit: Fit, host: HostState, findings: Findings) -> None:
    """Check a VM on the host that it was given."""
    vm = resolved.desired
    _check_server(vm, fit, host, findings)
    _check_iommu(resolved, host.host, findings)
    _check_mixed_size(vm, fit, host, findings)
    _check_maximum(vm, fit, host, findings)
    _check_memory(resolved, fit, host, findings)
    _check_direct_path(vm, fit, host, findings)
    _check_numa(resolved, fit, host, findings)
    if resolved.shape is not None and resolved.shape.fixed:
        fixed = ", ".join(resolved.shape.fixed)
        message = (
            f"bound to {fixed} on {host.host.name}, which prevents vMotion, HA restarts and live snapshots"
        )
        remedy = "to allow HA restarts, use a device label (Dynamic DirectPath)"
        if len(vm.gpus) > 1 and len(host.gpus) > MANY_GPUS:
            remedy = (
                f"keep fixed passthrough: {Code.MANY_GPU_SERVER} requires it for several GPUs on such a "
                "server"
            )
        findings.add_vm(Code.FIXED_PASSTHROUGH, vm, message, remedy)
        if host.host.system_id is None and resolved.existing is None:
            message = f"the system ID of {host.host.name}, which fixed passthrough requires, is unknown"
            remedy = "grant the account read access to the host's devices"
            findings.refuse_vm(Code.SYSTEM_ID_UNKNOWN, vm, message, remedy)
    if vm.place.spread is Spread.GPUS and any(not need.is_full for need in fit.variant):
        message = "ESXi selects the GPU for a vGPU and may place two of these VMs on the same one"
        remedy = "use full-framebuffer profiles, or one VM per GPU"
        findings.add_vm(Code.SPREAD_GPUS_NOT_PROMISED, vm, message, remedy)


def _check_iommu(resolved: ResolvedVm, host: Host, findings: Findings) -> None:
    """Check a VM that gets a vGPU and so many CPUs that it needs a virtual IOMMU."""
    has_them = resolved.existing is not None and resolved.base.cpus >= resolved.cpus
    if (
        has_them
        or resolved.cpus <= MOST_CPUS_BESIDE_VGPU
        or not any(one.kind == "vgpu" for one in resolved.gpus)
    ):
        return
    options = {**resolved.base.extra_config, **resolved.desired.extra_config}
    known = {key.casefold() for key, value in options.items() if value.upper() == "TRUE"}
    missing = [key for key in IOMMU_KEYS if key.casefold() not in known]
    is_new = is_at_least(host.version, VIOMMU_SINCE)
    if is_new and not missing:
        return
    message = f"{resolved.cpus} virtual CPUs require IOMMU virtualization, which vGPUs do not support "
    message += "by default" if is_new else f"on ESXi {host.version} ({host.name})"
    keys = ", ".join(f'{key}: "TRUE"' for key in missing or IOMMU_KEYS)
    remedy = f"set `cpus: {MOST_CPUS_BESIDE_VGPU}` or fewer, or{'' if is_new else ' use ESXi 8 and'} set "
    findings.add_vm(Code.MANY_CPUS, resolved.desired, message, f"{remedy}extra_config: {{{keys}}}")


def check_moves(vm: PlacedVm, fit: Fit, findings: Findings) -> None:
    """Warn where DRS may choose another host for a VM that is tied to a NUMA node."""
    if vm.cluster is None or not fit.nodes or drs_in_force(vm) not in DRS_PLACES:
        return
    message = (
        f"DRS in {vm.cluster.name} may select another host at power-on or migrate the VM; {AFFINITY_KEY} is "
        "kept, but the GPU may be on a different node on that host"
    )
    # A cluster that applies no level of a single VM still knows that DRS is off for one.
    remedy = "set `drs: manual`" if vm.cluster.uses_vm_levels else 'set `drs: "off"`'
    findings.add_vm(Code.DRS_MAY_MOVE, vm.desired, message, remedy)


def check_assignable(resolved: ResolvedVm, fit: Fit, initial: HostState, findings: Findings) -> None:
    """Warn where the device that ESXi assigns may be of another NUMA node than the affinity names."""
    nodes = assignable_nodes(resolved, initial)
    if fit.nodes and resolved.desired.numa.policy is NumaPolicy.FOLLOW_GPU and len(nodes) > 1:
        known = node_list(node for node in nodes if node is not None)
        message = (
            f"ESXi may assign a device on NUMA node {known}, but {AFFINITY_KEY} is {node_list(fit.nodes)}"
        )
        remedy = "use different labels for the devices on each node, or select one with `pin`"
        findings.add_vm(Code.ASSIGNED_NODE_OPEN, resolved.desired, message, remedy)


def check_running(resolved: ResolvedVm, site: Site, findings: Findings) -> None:
    """Check a VM that runs and keeps its GPUs: whether its affinity still is that of its GPUs.

    An imported VM may have none; one that this tool created got one.
    """
    if resolved.existing is None or resolved.host is None:
        return
    vm = resolved.desired
    nodes = held_nodes(resolved) if vm.numa.policy is NumaPolicy.FOLLOW_GPU else None
    found = current(AFFINITY_KEY, resolved.base) or ""
    is_off = nodes is not None and misses_nodes(nodes_of_affinity(found), nodes, resolved.host)
    mark = resolved.existing.mark
    is_lost = mark is not None and "gpus" in mark.keys and not mark.is_imported
    if nodes and is_off and (found or is_lost) and not vm.is_managed("numa"):
        message = (
            f"its GPU is on NUMA node {node_list(nodes)} of {resolved.host.name}, but its {AFFINITY_KEY} "
            f"is {found or 'not set'}"
        )
        remedy = "set `numa: follow-gpu`, then `vgpu-cfg apply --allow-power-cycle`"
        findings.add_vm(Code.NUMA_ELSEWHERE, vm, message, remedy)
    if is_outside_clusters(resolved):
        message = f"it is on {resolved.host.name}, which is not in {listed(vm.clusters)}"
        findings.add_vm(Code.ELSEWHERE, vm, *with_way(resolved, message))
    store = other_datastore(resolved, site)
    if store is not None and resolved.move is None:
        message = f"its disks are not on {store.name}, as the plan file requires"
        findings.add_vm(Code.ELSEWHERE, vm, *with_way(resolved, message))


def with_way(resolved: ResolvedVm, message: str) -> tuple[str, str]:
    """Return the findings on a misplaced VM, with its way to the plan file's place."""
    move = resolved.possible_move
    if resolved.why_stays or move is None:
        why = f"; it is not moved: {resolved.why_stays}" if resolved.why_stays else ""
        return message + why, "move it manually"
    if move.why_cold:
        return (
            f"{message}; it can be moved only while powered off: {move.why_cold}",
            "to allow the move, add --allow-move --allow-power-cycle; or move it manually",
        )
    perhaps = "" if move.is_known else " (and --allow-power-cycle, if vCenter cannot migrate its vGPU live)"
    return message, f"to allow the move, add --allow-move{perhaps}; or move it manually"


def check_datastores(resolved_vms: Iterable[ResolvedVm], findings: Findings) -> None:
    """See that the new VMs' disks would fit if they were filled."""
    needed: dict[str, int] = {}
    users: dict[str, list[ResolvedVm]] = {}
    stores: dict[str, Datastore] = {}
    for resolved in resolved_vms:
        if resolved.existing is not None or resolved.datastore is None:
            continue
        store = resolved.datastore
        stores[store.moid] = store
        size = sum(disk.size_mib for disk in resolved.desired.disks if disk.kind == "new")
        inherited = [disk.capacity_mib for disk in sorted(resolved.base.disks, key=lambda disk: disk.key)]
        growth = [disk.size_mib for disk in resolved.desired.disks if disk.kind == "grow"]
        if inherited and growth:
            inherited[0] = max(inherited[0], growth[0])
        needed[store.moid] = (
            needed.get(store.moid, 0) + size + (0 if resolved.desired.is_linked else sum(inherited))
        )
        users.setdefault(store.moid, []).append(resolved)
    for moid, store in stores.items():
        _check_swap(store, users[moid], findings)
        if store.capacity_mib and needed[moid] > store.free_mib:
            message = (
                f"the new disks on {store.name} could grow to {gib(needed[moid])}, but only "
                f"{gib(store.free_mib)} is free"
            )
            for resolved in users[moid]:
                remedy = "free up space, or specify another datastore"
                findings.add_vm(Code.DATASTORE_SPACE, resolved.desired, message, remedy)


def _check_swap(store: Datastore, users: Sequence[ResolvedVm], findings: Findings) -> None:
    """Check the swap files of unreserved memory, which a power-on creates; VMFS alone fills them."""
    if store.kind.casefold() not in ("vmfs", "") or not store.capacity_mib:
        return
    swaps = {one.name: one.memory_mib - _reserved(one) for one in users if _starts(one)}
    if sum(swaps.values()) <= store.free_mib:
        return
    message = (
        f"powering on requires {gib(sum(swaps.values()))} for swap files on {store.name}, but only "
        f"{gib(store.free_mib)} is free"
    )
    for one in users:
        if swaps.get(one.name):
            remedy = "free up space, specify another datastore, or reduce `memory`"
            findings.add_vm(Code.NO_ROOM_FOR_SWAP, one.desired, message, remedy)


def _starts(resolved: ResolvedVm) -> bool:
    return resolved.desired.power is not DesiredPower.OFF


def _reserved(resolved: ResolvedVm) -> int:
    """Return the memory that a VM will reserve: all of it for functions of its host."""
    is_whole = bool(resolved.gpus) or any(nic.function is not None for nic in resolved.desired.nics)
    is_whole |= resolved.desired.latency_sensitivity == HIGH or resolved.base.memory_reservation_locked
    return resolved.memory_mib if is_whole else min(resolved.base.memory_reservation_mib, resolved.memory_mib)


def _is_started(resolved: ResolvedVm) -> bool:
    """Whether the plan powers the VM on, which is off or new."""
    return _starts(resolved) and not (resolved.existing and resolved.existing.is_on)


def check_pools(resolved_vms: Sequence[ResolvedVm], site: Site, findings: Findings) -> None:
    """Check the memory that resource pools let their VMs reserve."""
    of_pool: dict[str, list[ResolvedVm]] = {}
    owners = {cluster.moid: cluster for cluster in site.clusters}
    for one in resolved_vms:
        if one.desired.resource_pool is None or one.host is None or not _is_started(one):
            continue
        cluster = owners.get(one.host.owner_moid)
        in_cluster = site.pool_of(one.desired, cluster) if cluster is not None else None
        of_pool.setdefault(one.base.resource_pool_moid if one.existing else in_cluster or "", []).append(one)
    for pool in site.pools:
        new, room = of_pool.get(pool.moid, ()), pool.unreserved_mib
        asked = sum(map(_reserved, new))
        if room is None or asked <= room:
            continue
        message = (
            f"the resource pool {pool.name} has {whole_gib(room)} of memory left to reserve, but "
            f"{gib(asked)} must be reserved"
        )
        remedy = "use less `memory` or another `resource_pool`, or raise the pool's limit or reservation"
        for one in new:
            findings.add_vm(Code.FAILOVER_CAPACITY, one.desired, message, remedy)


def check_failover(resolved_vms: Sequence[ResolvedVm], site: Site, findings: Findings) -> None:
    """Check the memory that vSphere HA's admission control reserves; for other VMs, the read values apply."""
    observed = site.observed
    for cluster in (one for one in site.clusters if one.failover_percent):
        new = [
            one
            for one in resolved_vms
            if one.host is not None and one.host.owner_moid == cluster.moid and _is_started(one)
        ]
        asked = sum(map(_reserved, new))
        if not asked:
            continue
        usable = [host for host in observed.hosts if host.owner_moid == cluster.moid and host.is_usable]
        total = sum(
            min(int(HOST_MEMORY_SHARE * host.memory_mib), host.memory_mib - HOST_OWN_MIB) for host in usable
        )
        there = [vm.detail for vm in observed.vms if vm.is_on and vm.host_moid in cluster.host_moids]
        held = sum(one.reserved_mib for one in there if one is not None)
        room = total * (100 - cluster.failover_percent) // 100 - held
        if asked > room:
            message = (
                f"vSphere HA in {cluster.name} reserves {cluster.failover_percent} % of the memory: "
                f"{gib(asked)} must be reserved, but only {whole_gib(max(room, 0))} is available"
            )
            remedy = (
                "use less `memory`, fewer VMs, or a smaller percentage under vSphere HA > Admission Control"
            )
            for one in new:
                findings.add_vm(Code.FAILOVER_CAPACITY, one.desired, message, remedy)


def check_own_cores(resolved_vms: Iterable[ResolvedVm], findings: Findings) -> None:
    """Refuse VMs of one host that together need more cores of their own than it has; one is checked apart."""
    wanting: dict[str, list[ResolvedVm]] = {}
    for resolved in resolved_vms:
        is_high = resolved.manages("latency_sensitivity") and resolved.desired.latency_sensitivity == HIGH
        if resolved.host is not None and is_high and _starts(resolved):
            wanting.setdefault(resolved.host.moid, []).append(resolved)
    for together in wanting.values():
        host = together[0].host
        cpus = sum(resolved.cpus for resolved in together)
        if host is None or len(together) == 1 or cpus <= host.cores:
            continue
        names = listed((resolved.name for resolved in together), shown=6)
        message = (
            f"`latency_sensitivity: high` requires a core for each of the {cpus} CPUs in {names}; "
            f"{host.name} has {counted(host.cores, 'core')}"
        )
        remedy = "use fewer `cpus`, or set `place: {spread: hosts}` or `latency_sensitivity: normal`"
        for resolved in together:
            findings.add_vm(Code.LATENCY_NEEDS_CPU, resolved.desired, message, remedy)


def check_host(
    host: Host, claims: Sequence[Claim], users: Sequence[str], unread: Sequence[str], findings: Findings
) -> None:
    """Report facts worth knowing of a host that VMs of the plan go to."""
    subject = Subject(kind="host", name=host.name, moid=host.moid)
    if claims and users:
        off = [f"{claim.vm} ({claim.profile})" for claim in claims]
        message = (
            f"powered-off VMs outside the plan need the host's GPUs, which vCenter does not reserve: "
            f"{listed(off)}"
        )
        findings.add(Code.POWERED_OFF_CLAIM, subject, message, "inform the VMs' owners, or use another host")
    for name in unread:
        message = f"{name} uses a GPU, but its devices could not be read; the GPU is counted as full"
        findings.add(Code.HOLDER_UNKNOWN, subject, message, "grant the account read access to the VM")
    for gpu in host.gpus:
        configured = gpu.configured_graphics_type
        if configured is None or gpu.graphics_type is None or configured is gpu.graphics_type:
            continue
        if GraphicsType.SHARED_DIRECT in (configured, gpu.graphics_type):
            message = f"GPU {gpu.pci_id} is {gpu.graphics_type}, but will be {configured} after Xorg restarts"
            remedy = "restart the host's Xorg service, or restore the setting"
            findings.add(Code.RESTART_PENDING, subject, message, remedy)


def check_boards(host: Host, unknown: Sequence[str], findings: Findings) -> None:
    """Report GPUs whose board the catalogue lacks: nothing can be put on them."""
    subject = Subject(kind="host", name=host.name, moid=host.moid)
    for pci_id in unknown:
        gpu = host.gpu(pci_id)
        ids = f"{gpu.pci.vendor_id:04x}:{gpu.pci.device_id:04x}" if gpu else "unknown IDs"
        message = f"GPU {pci_id} ({ids}) uses a board that is not in the catalog; the GPU is ignored"
        remedy = "add a board file to profiles/ (see profiles/README.md)"
        findings.add(Code.BOARD_UNKNOWN, subject, message, remedy)


def check_spread(residents: Mapping[tuple[str, str], Sequence[ResolvedVm]], findings: Findings) -> None:
    """Report VMs of a line that should run apart and share a host; `residents` is by line and host name."""
    used: dict[str, list[str]] = {}
    alone: dict[str, list[ResolvedVm]] = {}
    for (line, host_name), resolved_vms in residents.items():
        used.setdefault(line, []).append(host_name)
        place = resolved_vms[0].desired.place
        if "{" not in line and (place.spread is Spread.HOSTS or place.max_per_host):
            alone.setdefault(host_name, []).extend(resolved_vms)
        if place.max_hosts and len(used[line]) > place.max_hosts:
            allowed = listed(used[line][: place.max_hosts])
            message = f"it is on {host_name}, but `max_hosts` limits these VMs to {allowed}"
            for resolved in resolved_vms:
                way = with_way(resolved, message) if _has_way(resolved) else (message, "move them manually")
                findings.add_vm(Code.SPREAD_UNMET, resolved.desired, *way)
        most = 1 if place.spread is Spread.HOSTS else place.max_per_host or len(resolved_vms)
        if len(resolved_vms) <= most:
            continue
        names = _names(resolved_vms)
        is_must = any(resolved.desired.place.must for resolved in resolved_vms)
        message = (
            f"{names} should run on different hosts but are all on {host_name}"
            if most == 1
            else f"{host_name} should have no more than {most} of these VMs: {names}"
        )
        severity = None if is_must else Severity.INFO
        movable = [one for one in resolved_vms if _has_way(one)]
        by_hand = message, "move one manually, or specify more hosts"
        for resolved in movable or resolved_vms:
            way = with_way(resolved, message) if movable else by_hand
            findings.add_vm(Code.SPREAD_UNMET, resolved.desired, *way, severity)
    for host_name, resolved_vms in alone.items():
        if len(resolved_vms) > 1:
            _report_alone(host_name, resolved_vms, findings)


def _report_alone(host_name: str, resolved_vms: Sequence[ResolvedVm], findings: Findings) -> None:
    """Report VMs on one host that ask to be apart, each in an item of its own."""
    names = _names(resolved_vms)
    message = f"`place` separates only VMs of one item, and {names} are each an item, all on {host_name}"
    remedy = "list them as one item, such as `name: train-{1..2}`, or set `place.hosts` for each"
    for resolved in resolved_vms:
        # What is there already stays in sync: nothing could be changed about it.
        severity = None if resolved.existing is None else Severity.INFO
        findings.add_vm(Code.SPREAD_UNMET, resolved.desired, message, remedy, severity)


def _names(resolved_vms: Iterable[ResolvedVm]) -> str:
    return listed((resolved.name for resolved in resolved_vms), shown=6)


def _has_way(resolved: ResolvedVm) -> bool:
    """Whether a VM is in excess at its place, and has another, or something that keeps it."""
    return resolved.possible_move is not None or bool(resolved.why_stays)


def _check_server(vm: DesiredVm, fit: Fit, host: HostState, findings: Findings) -> None:
    if not fit.slots and len(fit.gpus) <= 1:
        return
    passed = [slot for slot in host.slots if slot.pci.pci_id in fit.slots and slot.pci.is_gpu]
    count = len(fit.gpus) + len(passed)
    gpus = {gpu.pci_id for gpu in host.gpus} | {slot.pci.pci_id for slot in host.slots if slot.pci.is_gpu}
    dynamic = len(passed) - len([gpu for gpu in vm.gpus if gpu.kind == "passthrough"])
    if count > 1 and len(gpus) > MANY_GPUS and (fit.gpus or dynamic > 0):
        _check_many(vm, fit, host, len(gpus), findings)
    chosen = [slot.board for slot in host.slots if slot.pci.pci_id in fit.slots]
    if any(is_switched(host.host, board) for board in chosen):
        is_new = is_at_least(host.host.version, (9,)) and bool(host.host.version)
        message = f"{host.host.name} is an NVSwitch system, which does not support GPU passthrough"
        if is_new:
            message += " (NVIDIA AI Enterprise documents up to Infra 8; later ones do not mention this)"
        remedy = "use full-framebuffer vGPUs"
        if is_new:
            findings.add_vm(Code.NVSWITCH_PASSTHROUGH, vm, message, remedy, Severity.WARNING)
        else:
            findings.refuse_vm(Code.NVSWITCH_PASSTHROUGH, vm, message, remedy)


def _check_many(vm: DesiredVm, fit: Fit, host: HostState, count: int, findings: Findings) -> None:
    """Hold the guide's rule against several GPUs of a large server, unless a device group is asked for.

    The guide is of the time before device groups (vSphere 7); the documents of those name no such limit.
    """
    guide = (
        f"{host.host.name} has {count} GPUs; on servers with more than {MANY_GPUS}, NVIDIA's guide allows "
        "multiple GPUs per VM only with fixed passthrough on the recommended NUMA node"
    )
    boards = [host.gpus[index].board for index in fit.gpus]
    is_group = bool(fit.groups) and all(gpu.nvlink is not None for gpu in vm.gpus)
    if is_group and all(is_switched(host.host, board) for board in boards):
        message = f"{guide}; NVIDIA's NVSwitch documentation requires a device group instead"
        findings.add_vm(Code.MANY_GPU_SERVER, vm, message, severity=Severity.INFO)
    elif is_group:
        message = f"{guide}; for vSphere 8, NVIDIA AI Enterprise documents device groups without this limit"
        remedy = "check with `nvidia-smi topo -m` in the guest that NVLink connects the GPUs"
        findings.add_vm(Code.MANY_GPU_SERVER, vm, message, remedy, Severity.WARNING)
    else:
        can_join = boards and all(board is not None and board.nvlink_p2p_profile for board in boards)
        is_new = can_join and is_at_least(host.host.version, (8,))
        desired = "`nvlink: true`" if is_new else f"checks: {{{Code.MANY_GPU_SERVER}: warning}}"
        remedy = f"select the GPUs with `pin`, or, on vSphere 8 and later, set {desired}"
        findings.add_vm(Code.MANY_GPU_SERVER, vm, guide, remedy)


def _check_mixed_size(vm: DesiredVm, fit: Fit, host: HostState, findings: Findings) -> None:
    for need, index in zip(fit.variant, fit.gpus, strict=True):
        gpu = host.gpus[index]
        if not need.is_mig and gpu.mode == "mixed_size" and need.mixed_starts is None:
            message = (
                f"the placements of {need.name} on a GPU in mixed-size mode are not published; only its "
                "size was considered"
            )
            remedy = "compare with `nvidia-smi vgpu -s -v` on the host"
            findings.add_vm(Code.MIXED_SIZE_UNKNOWN, vm, message, remedy)
            return


def _check_maximum(vm: DesiredVm, fit: Fit, host: HostState, findings: Findings) -> None:
    """Warn if a GPU has more vGPUs than known to be allowed: the framebuffer alone was counted."""
    for need, index in zip(fit.variant, fit.gpus, strict=True):
        alike = sum(held.need is not None and held.need.name == need.name for held in host.gpus[index].held)
        if not need.is_max_known and alike > 1:
            message = (
                f"the maximum number of {need.name} per GPU is not published; the plan puts {alike} "
                f"on one GPU, and its framebuffer has room for {need.max_per_gpu}"
            )
            remedy = "compare with `Max Instances` in the output of `nvidia-smi vgpu -s -v` on the host"
            findings.add_vm(Code.PROFILE_MAXIMUM_UNKNOWN, vm, message, remedy)
            return


def _check_memory(resolved: ResolvedVm, fit: Fit, host: HostState, findings: Findings) -> None:
    """Report a VM with less memory than framebuffer: training loads and checkpoints through memory."""
    if resolved.desired.guest is None:
        return
    boards = {slot.pci.pci_id: slot.board for slot in host.slots if not slot.is_nic}
    whole = [board for pci_id in fit.slots if (board := boards.get(pci_id)) is not None]
    framebuffer_mib = sum(need.framebuffer_mib for need in fit.variant)
    framebuffer_mib += sum(board.framebuffer_mib for board in whole)
    if resolved.memory_mib < framebuffer_mib:
        message = f"the VM has {gib(resolved.memory_mib)} of memory, but its GPUs have {gib(framebuffer_mib)}"
        remedy = (
            f"set memory: {whole_gib(framebuffer_mib)}, or ignore this finding if no workload uses "
            "that much GPU memory"
        )
        findings.add_vm(Code.MEMORY_BELOW_FRAMEBUFFER, resolved.desired, message, remedy)


def _check_direct_path(vm: DesiredVm, fit: Fit, host: HostState, findings: Findings) -> None:
    """Warn where vCenter counts fewer vGPUs of a profile left on the host than the plan puts there."""
    if not host.host.direct_path:
        return
    planned = Counter(
        held.need.name for gpu in host.gpus for held in gpu.held if held.is_planned and held.need is not None
    )
    for one in host.host.direct_path:
        left = max(0, one.remaining - one.unused_reservation)
        is_own = any(need.name == one.vgpu_profile for need in fit.variant)
        if is_own and planned[one.vgpu_profile] > left:
            reserved = f", {one.unused_reservation} of them reserved" if one.unused_reservation else ""
            message = (
                f"vCenter reports {counted(one.remaining, 'available unit')} of DirectPath profile "
                f"{one.name} on "
                f"{host.host.name}{reserved}, but the plan places {planned[one.vgpu_profile]} × "
                f"{one.vgpu_profile} there"
            )
            remedy = "free some units, release a reservation, or specify other hosts"
            findings.add_vm(Code.DIRECT_PATH_SHORT, vm, message, remedy)


def _check_numa(resolved: ResolvedVm, fit: Fit, host: HostState, findings: Findings) -> None:
    vm = resolved.desired
    if vm.numa.policy is NumaPolicy.OFF:
        return
    wants_node = vm.numa.policy is NumaPolicy.FOLLOW_GPU and (fit.gpus or fit.slots)
    if wants_node and not fit.nodes:
        message = (
            f"{host.host.name} does not report the NUMA nodes of its GPUs; the VM is not bound to a node"
        )
        remedy = (
            "check `esxcli hardware pci list`; some BIOS versions do not report nodes. Then set `numa: "
            "[NODE]`"
        )
        findings.add_vm(Code.NUMA_UNKNOWN, vm, message, remedy)
    far = {host.gpus[index].node for index in fit.gpus} - {None, *fit.nodes}
    if vm.numa.nodes and far:
        message = (
            f"its GPU is probably on NUMA node {node_list(node for node in far if node is not None)} of "
            f"{host.host.name}, but the plan file binds it to {node_list(fit.nodes)}"
        )
        findings.add_vm(Code.NUMA_ELSEWHERE, vm, message, "set `numa: follow-gpu`, or the GPU's node")
    size = f"{counted(resolved.cpus, 'CPU')} and {gib(resolved.memory_mib)}" if fit.numa_level else ""
    nodes = [node for node in host.nodes if node.node_id in fit.nodes]
    if fit.numa_level == 2:
        room = listed(
            f"node {node.node_id} has {counted(node.cores, 'core')} and {whole_gib(node.usable_mib)} of "
            "usable memory"
            for node in nodes
        )
        message = f"{size} do not fit on NUMA node {node_list(fit.nodes)} of {host.host.name}: {room}"
        remedy = "use a smaller VM, set `numa: off`, or specify more nodes"
        findings.add_vm(Code.NUMA_TOO_SMALL, vm, message, remedy)
    elif fit.numa_level == 1:
        message = (
            f"NUMA node {node_list(fit.nodes)} of {host.host.name} is used by other VMs: {size} exceed the "
            "remaining capacity"
        )
        findings.add_vm(
            Code.NUMA_TAKEN, vm, message, "make the VMs smaller, or let them share cores with other VMs"
        )
    if len(fit.nodes) > 1 and resolved.cpus % len(fit.nodes):
        message = f"{resolved.cpus} CPUs cannot be divided evenly among NUMA nodes {node_list(fit.nodes)}"
        findings.add_vm(Code.NUMA_UNEVEN, vm, message, f"use a multiple of {len(fit.nodes)}")
