"""What the plan's VMs need of a host that would run them (`prepare: from_vms`).

Graphics type sharedDirect for vGPUs, MIG mode where every profile for a board is MIG-backed, and
passthrough for GPUs that a VM names by address. A rule of the plan file for the same GPU comes first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.model.desired import DesiredPassthrough, DesiredPlan, DesiredVgpu, DesiredVm
from vgpu_cfg.model.desired_hosts import DesiredDeviceMatch, DesiredHostGpu, DesiredHosts, GpuUse
from vgpu_cfg.model.inventory import Gpu, GraphicsType
from vgpu_cfg.model.vgpu import Sharing
from vgpu_cfg.planning.checks import Code
from vgpu_cfg.planning.findings import Findings
from vgpu_cfg.planning.hosts.case import HostCase
from vgpu_cfg.planning.options import matches_any
from vgpu_cfg.planning.settings.match import gpu_rules
from vgpu_cfg.planning.site import find_named


def derived_entry(case: HostCase, desired: DesiredPlan, catalog: Catalog, findings: Findings) -> DesiredHosts:
    """Return the entry with what the VMs need added to it; the entry itself where they need nothing."""
    entry = case.entry
    vms = [vm for vm in desired.vms if _may_run(vm, case)]
    pins = {gpu.pci_id for vm in vms for gpu in vm.gpus if isinstance(gpu, DesiredPassthrough)}
    sharings = _sharings(vms, case, catalog)
    ruled = {gpu.pci_id: rule for gpu, rule in gpu_rules(entry, case.view) if rule.use or rule.sharing}
    rules: list[DesiredHostGpu] = []
    for gpu in case.view.host.gpus:
        if gpu.pci_id in ruled:
            continue
        if gpu.pci_id in pins:
            rules.append(_rule(gpu, use=GpuUse.PASSTHROUGH))
            continue
        board = case.view.boards.get(gpu.pci_id)
        wanted = sharings.get(board.key, set()) if board is not None else set()
        if len(wanted) > 1:
            # What the plan file gives one GPU of the board is taken care of; the others are for the rest.
            wanted = wanted - _stated_for(board, ruled, case) or wanted
        if len(wanted) > 1:
            _refuse_unclear(case, board.key if board is not None else "", findings)
        elif wanted and gpu.sharing not in (None, *wanted):
            rules.append(_rule(gpu, use=GpuUse.VGPU, sharing=next(iter(wanted))))
        elif wanted == {Sharing.MIG} and gpu.sharing is None:
            rules.append(_rule(gpu, use=GpuUse.VGPU, sharing=Sharing.MIG))
        elif wanted:
            rules.append(_rule(gpu, use=GpuUse.VGPU))
    if not rules:
        return entry
    update: dict[str, object] = {"gpus": (*rules, *entry.gpus)}
    if entry.graphics_type is None and any(rule.use is GpuUse.VGPU for rule in rules):
        update["graphics_type"] = GraphicsType.SHARED_DIRECT
    return entry.model_copy(update=update)


def _stated_for(board: Board | None, ruled: Mapping[str, DesiredHostGpu], case: HostCase) -> set[Sharing]:
    """Return how the rules of the plan file have GPUs of a board shared."""
    return {
        rule.sharing
        for pci_id, rule in ruled.items()
        if rule.sharing is not None and case.view.boards.get(pci_id) == board
    }


def _may_run(vm: DesiredVm, case: HostCase) -> bool:
    cluster = case.view.cluster
    if vm.clusters and (cluster is None or not any(find_named(name, [cluster]) for name in vm.clusters)):
        return False
    return not vm.place.hosts or matches_any(case.name, vm.place.hosts)


def _sharings(vms: Iterable[DesiredVm], case: HostCase, catalog: Catalog) -> dict[str, set[Sharing]]:
    """Return by board how the VMs want its GPUs to be shared."""
    here = {board.key for board in case.view.boards.values()}
    found: dict[str, set[Sharing]] = {}
    for vm in vms:
        for gpu in vm.gpus:
            if not isinstance(gpu, DesiredVgpu):
                continue
            for profile in gpu.profiles:
                for entry in catalog.by_profile(profile):
                    if entry.board.key in here:
                        found.setdefault(entry.board.key, set()).add(profile.sharing)
    return found


def _rule(gpu: Gpu, *, use: GpuUse, sharing: Sharing | None = None) -> DesiredHostGpu:
    return DesiredHostGpu(match=DesiredDeviceMatch(pci_id=gpu.pci_id), use=use, sharing=sharing)


def _refuse_unclear(case: HostCase, board: str, findings: Findings) -> None:
    shown = {gpu.sharing for gpu in case.view.host.gpus if case.view.boards.get(gpu.pci_id)}
    if {Sharing.MIG, Sharing.TIME_SLICED} <= shown:
        return
    message = f"the VMs want GPUs of {board} both in MIG mode and out of it"
    remedy = "say under `hosts.gpus` which GPU is shared how"
    findings.add(Code.SHARING_UNCLEAR, case.subject, message, remedy)
