"""What the plan's VMs need of a host that would run them (`prepare: from_vms`).

Graphics type sharedDirect for GPUs that serve vGPUs as they are shared already, another MIG mode for as few
idle GPUs as the VMs need besides (`planning.hosts.mode_flips`), and passthrough for GPUs that a VM
names by address. A rule of the plan file for the same GPU comes first; a GPU that is passed through stays so.
What the RDMA of their NICs needs: `planning.rdma.derive`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Flag, auto

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.model.desired import DesiredHosts, DesiredPlan, DesiredVm
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.inventory import Gpu, Inventory
from vgpu_cfg.model.plan_file import GpuMatch, HostGpuEntry
from vgpu_cfg.model.plan_values import GpuUse
from vgpu_cfg.model.rdma import asks_rdma
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.addresses.nic_addresses import own_vms
from vgpu_cfg.planning.estate.site import find_named
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.match import gpu_rules
from vgpu_cfg.planning.host_settings.resolved_host import ResolvedHost
from vgpu_cfg.planning.hosts.mode_flips import ModeChanges
from vgpu_cfg.planning.placement.candidates import forbidden_by
from vgpu_cfg.planning.rdma.derive import with_rdma_needs


class Preparation(Flag):
    """What a host is prepared with for the plan's VMs. Nothing of it leaves the host as it is.

    `AS_SHARED` is the graphics type of GPUs that serve vGPUs in the mode which they are in, `OTHER_MODE`
    another MIG mode for idle ones, `PASSTHROUGH` what VMs name by address, `RDMA` the path of their NICs.
    """

    RDMA = auto()
    AS_SHARED = auto()
    OTHER_MODE = auto()
    PASSTHROUGH = auto()
    FOR_VGPUS = RDMA | AS_SHARED
    ALL = RDMA | AS_SHARED | OTHER_MODE | PASSTHROUGH


def derived_entry(
    resolved: ResolvedHost,
    desired: DesiredPlan,
    observed: Inventory,
    catalog: Catalog,
    findings: Findings,
    names: Collection[str] | None = None,
    preparation: Preparation = Preparation.ALL,
) -> DesiredHosts:
    """Return the entry with what the VMs need added to it; the entry itself where they need nothing.

    `names` are the VMs that are to run here, None where that is not known: all that may. Nothing is added
    but what `preparation` names. Of a VM that exists the RDMA path is not seen to: it runs, and what its
    path lacks is told (`rdma.chain`), since fixing it takes the VM down.
    """
    vms = [vm for vm in desired.vms if (names is None or vm.name in names) and may_run(vm, resolved)]
    entry = resolved.entry
    if Preparation.AS_SHARED in preparation:
        entry = _with_gpu_needs(resolved, vms, desired, observed, catalog, findings, preparation)
    asking = [vm for vm in vms if asks_rdma(vm)]
    if asking:
        there = own_vms(desired, observed)
        asking = [vm for vm in asking if vm.name not in there]
    return with_rdma_needs(entry, resolved, asking, desired, observed)


def _with_gpu_needs(
    resolved: ResolvedHost,
    vms: Sequence[DesiredVm],
    desired: DesiredPlan,
    observed: Inventory,
    catalog: Catalog,
    findings: Findings,
    preparation: Preparation,
) -> DesiredHosts:
    entry = resolved.entry
    hands_out = Preparation.PASSTHROUGH in preparation
    pinned = (gpu.pin for vm in vms for gpu in vm.gpus if gpu.pin)
    pins = set(pinned) if hands_out else set()
    sharings = _sharings(vms, resolved, catalog)
    ruled = {gpu.pci_id: rule for gpu, rule in gpu_rules(entry, resolved.view) if rule.use or rule.sharing}
    handed_out: dict[str, HostGpuEntry] = {}
    open_gpus: list[Gpu] = []
    clear: dict[str, Sharing] = {}
    for gpu in resolved.view.host.gpus:
        if gpu.pci_id in ruled:
            continue
        if gpu.pci_id in pins:
            handed_out[gpu.pci_id] = _rule(gpu, use=GpuUse.PASSTHROUGH)
            continue
        board = resolved.view.boards.get(gpu.pci_id)
        if board is None or board.key not in sharings:
            continue
        open_gpus.append(gpu)
        # What the plan file gives one GPU of the board is taken care of; the others are for the rest.
        wanted = sharings[board.key]
        if len(wanted) > 1:
            wanted = wanted - _stated_for(board, ruled, resolved) or wanted
        if len(wanted) > 1:
            _refuse_unclear(resolved, board.key, findings)
        else:
            clear[board.key] = next(iter(wanted))
    flips = ModeChanges(resolved.view, desired.identity, observed, catalog, open_gpus, ruled | handed_out)
    flips.place(vms if Preparation.OTHER_MODE in preparation else (), clear)
    rules = list(handed_out.values())
    for gpu in open_gpus:
        sharing = flips.flipped.get(gpu.pci_id)
        if sharing is not None or flips.serves(gpu.pci_id, sharings):
            rules.append(_rule(gpu, use=GpuUse.VGPU, sharing=sharing))
    _report_kept(resolved, flips, findings)
    if not rules:
        return entry
    update: dict[str, object] = {"gpus": (*rules, *entry.gpus)}
    if entry.graphics_type is None and any(rule.use is GpuUse.VGPU for rule in rules):
        update["graphics_type"] = GraphicsType.SHARED_DIRECT
    return entry.model_copy(update=update)


def _stated_for(board: Board, ruled: Mapping[str, HostGpuEntry], resolved: ResolvedHost) -> set[Sharing]:
    """Return how the rules of the plan file have GPUs of a board shared."""
    return {
        rule.sharing
        for pci_id, rule in ruled.items()
        if rule.sharing is not None and resolved.view.boards.get(pci_id) == board
    }


def may_run(vm: DesiredVm, resolved: ResolvedHost) -> bool:
    """Whether the plan file lets a VM run on a host, as far as clusters and names go."""
    cluster = resolved.view.cluster
    if vm.clusters and (cluster is None or not any(find_named(name, [cluster]) for name in vm.clusters)):
        return False
    return not forbidden_by(vm.place, resolved.view.host, cluster)


def _sharings(vms: Iterable[DesiredVm], resolved: ResolvedHost, catalog: Catalog) -> dict[str, set[Sharing]]:
    """Return by board how the VMs want its GPUs to be shared."""
    here = {board.key for board in resolved.view.boards.values()}
    found: dict[str, set[Sharing]] = {}
    for vm in vms:
        for gpu in vm.gpus:
            if gpu.kind != "vgpu":
                continue
            for profile in gpu.profile:
                for entry in catalog.by_profile(profile):
                    if entry.board.key in here:
                        found.setdefault(entry.board.key, set()).add(profile.sharing)
    return found


def _rule(gpu: Gpu, *, use: GpuUse, sharing: Sharing | None = None) -> HostGpuEntry:
    return HostGpuEntry(match=GpuMatch(pci_id=gpu.pci_id), use=use, sharing=sharing)


def _refuse_unclear(resolved: ResolvedHost, board: str, findings: Findings) -> None:
    shown = {gpu.sharing for gpu in resolved.view.host.gpus if resolved.view.boards.get(gpu.pci_id)}
    if {Sharing.MIG, Sharing.TIME_SLICED} <= shown:
        return
    message = f"the VMs want GPUs of {board} both in MIG mode and out of it"
    remedy = "say under `hosts.gpus` which GPU is shared how"
    findings.add(Code.SHARING_UNCLEAR, resolved.subject, message, remedy)


def _report_kept(resolved: ResolvedHost, flips: ModeChanges, findings: Findings) -> None:
    """Name the GPUs that would do for VMs without room, and are not touched because others may need them."""
    if not flips.lacking or not flips.kept:
        return
    names = listed(flips.lacking, shown=6)
    kept = "; ".join(f"{pci_id} {why}" for pci_id, why in sorted(flips.kept.items()))
    message = f"{names} would need more GPUs than are free as they are, and none is taken from others: {kept}"
    remedy = "say under `hosts.gpus` what each of these GPUs is for"
    findings.add(Code.SHARING_UNCLEAR, resolved.subject, message, remedy)
