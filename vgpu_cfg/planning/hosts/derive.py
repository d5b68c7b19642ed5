"""The needs of the plan's VMs of their host (`prepare: from_vms`), and the GPUs that change their MIG mode.

They are: graphics type sharedDirect for GPUs that serve vGPUs in their present sharing, another MIG mode for
as few idle GPUs as the VMs need in addition, and passthrough for GPUs that a VM names by address. A rule of
the plan file for the same GPU comes first; a passthrough GPU stays so. For the needs of their NICs' RDMA:
`planning.rdma.derive`.

To count the GPUs that change their MIG mode, the VMs are put on the GPUs in the right sharing mode, with
their present load. If one finds no room there, one more idle GPU changes its mode. That GPUs are filled in
this order is a way to count, not a promise of ESXi's placement of a VM.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Flag, auto

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.model.desired import DesiredHosts, DesiredPlan, DesiredVm, asks_rdma
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.inventory import Gpu, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_file import GpuEntry, GpuMatch, HostGpuEntry
from vgpu_cfg.model.plan_values import GpuUse
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.addresses import own_vms
from vgpu_cfg.planning.capacity.gpu_state import GpuState, VgpuNeed
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.estate.site import find_named
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.match import gpu_rules
from vgpu_cfg.planning.host_settings.resolved_host import ResolvedHost
from vgpu_cfg.planning.placement.candidates import forbidden_by
from vgpu_cfg.planning.rdma.derive import with_rdma_needs
from vgpu_cfg.planning.vms.lookup.wanted import chosen_profiles

_FIXED_BY_PLAN = (Code.NO_HOST_DRIVER, Code.NOT_SHARED_DIRECT)
"""The settings that the plan itself makes on a host that it prepares."""


class Preparation(Flag):
    """The preparations of a host for the plan's VMs. Without any, the host stays unchanged.

    `AS_SHARED` is the graphics type of GPUs that serve vGPUs in their present mode, `OTHER_MODE` another MIG
    mode for idle ones, `PASSTHROUGH` the VMs' addressed devices, `RDMA` the path of their NICs.
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
    """Return the entry with the VMs' needs added; the entry itself if they need nothing.

    `names` are the VMs that are to run here, None if unknown: all that may. Only `preparation` is added. The
    RDMA path of an existing VM is not prepared: it runs, and missing parts of its path are reported
    (`rdma.chain`), since fixing it takes the VM down.
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
    message = f"the VMs require {board} GPUs both with and without MIG mode"
    remedy = "under `hosts.gpus`, specify how each GPU is shared"
    findings.add(Code.SHARING_UNCLEAR, resolved.subject, message, remedy)


def _report_kept(resolved: ResolvedHost, flips: ModeChanges, findings: Findings) -> None:
    """Name the GPUs that would do for VMs without room, and are not touched because others may need them."""
    if not flips.lacking or not flips.kept:
        return
    names = listed(flips.lacking, shown=6)
    kept = "; ".join(f"{pci_id} {why}" for pci_id, why in sorted(flips.kept.items()))
    message = f"not enough GPUs are free for {names}; these GPUs are not reassigned: {kept}"
    remedy = "under `hosts.gpus`, specify `use` for each of these GPUs"
    findings.add(Code.SHARING_UNCLEAR, resolved.subject, message, remedy)


class ModeChanges:
    """Counts on the GPUs of one host. `open_gpus` are those that no rule of the plan file speaks of.

    `flipped` are the GPUs that change, with their new mode; `lacking` the VMs that found no room, and `kept`
    the GPUs that would have done, with why they were left alone.
    """

    def __init__(
        self,
        view: HostView,
        plan: PlanIdentity,
        observed: Inventory,
        catalog: Catalog,
        open_gpus: Iterable[Gpu],
        ruled: Mapping[str, HostGpuEntry],
    ) -> None:
        self.flipped: dict[str, Sharing] = {}
        self.lacking: list[str] = []
        self.kept: dict[str, str] = {}
        self._view = view
        self._reader = CapacityReader(observed, catalog)
        here = observed.vms_by_host.get(view.host.moid, ())
        self._own = {vm.name: vm for vm in here if vm.is_of(plan)}
        self._open = {gpu.pci_id: gpu for gpu in open_gpus}
        self._ruled = ruled
        self._states: dict[str, GpuState] = {}
        self._claimed: list[str] = []
        self._refused: set[tuple[VgpuProfile, ...]] = set()

    def place(self, vms: Iterable[DesiredVm], clear: Mapping[str, Sharing]) -> None:
        """Put VMs on the host; GPUs of the boards (keys) in `clear` may change to the mode that is given."""
        coming = [vm for vm in vms if not _stays(self._own.get(vm.name), vm)]
        without = frozenset(one.moid for vm in coming if (one := self._own.get(vm.name)) is not None)
        capacity = self._reader.read(self._view.host, without=without)
        self._claimed = [claim.profile for claim in capacity.claims if claim.vm not in self._own]
        self._states = {gpu.pci_id: self._prepared(gpu) for gpu in capacity.gpus}
        for vm in coming:
            if not all(self._take(vm.name, one, clear) for one in vm.gpus if one.kind == "vgpu"):
                self.lacking.append(vm.name)

    def serves(self, pci_id: str, sharings: Mapping[str, Collection[Sharing]]) -> bool:
        """Whether a GPU serves vGPUs of the VMs in its present sharing mode, as far as reported."""
        if self._is_handed_out(pci_id):
            return False
        state = self._states[pci_id]
        wanted = sharings.get(state.board_key or "", ())
        return state.shared_as in wanted or (state.shared_as is None and Sharing.TIME_SLICED in wanted)

    def _prepared(self, gpu: GpuState) -> GpuState:
        """Return a GPU as the plan's other settings will have it."""
        state = gpu.copy()
        rule = self._ruled.get(gpu.pci_id)
        if rule is not None:
            if rule.use in (GpuUse.PASSTHROUGH, GpuUse.LEAVE):
                state.obstacle = state.obstacle or Code.GPU_IN_PASSTHROUGH
            elif rule.use is GpuUse.VGPU and state.obstacle is Code.GPU_IN_PASSTHROUGH:
                state.obstacle = None
            state.sharing = rule.sharing or state.sharing
        elif self._is_handed_out(gpu.pci_id):
            state.obstacle = Code.GPU_IN_PASSTHROUGH
        if state.obstacle in _FIXED_BY_PLAN:
            state.obstacle = None
        return state

    def _is_handed_out(self, pci_id: str) -> bool:
        device = self._view.device(pci_id)
        return device is not None and (device.passthrough_active or device.passthrough_enabled)

    def _take(self, vm: str, wanted: GpuEntry, clear: Mapping[str, Sharing]) -> bool:
        """Find room for one vGPU: on the GPUs as shared, else on one more that changes its mode.

        GPUs only fill: once refused, always refused.
        """
        if wanted.profile in self._refused:
            return False
        needs = [need for profile in wanted.profile for need in self._reader.needs(profile.name).values()]
        for need in needs:
            for state in self._states.values():
                # A GPU that nobody tells the mode of is taken to be in MIG mode only where it is put there.
                is_stated = state.shared_as is not None or not need.is_mig
                if is_stated and state.refuse(need) is None:
                    state.take(need, vm)
                    return True
        if any(clear.get(need.board_key) is need.sharing and self._flip(vm, need) for need in needs):
            return True
        self._refused.add(wanted.profile)
        return False

    def _flip(self, vm: str, need: VgpuNeed) -> bool:
        for pci_id in sorted(self._open, key=lambda one: not self._waits_for(one, need.sharing)):
            state = self._states[pci_id]
            if state.board_key != need.board_key or pci_id in self.flipped:
                continue
            if state.shared_as is need.sharing and not self._is_handed_out(pci_id):
                continue  # it is in this mode, and full
            if why := self._why_kept(pci_id, need):
                self.kept[pci_id] = why
                continue
            changed = state.copy()
            changed.sharing = need.sharing
            if changed.refuse(need) is None:
                changed.take(need, vm)
                self._states[pci_id] = changed
                self.flipped[pci_id] = need.sharing
                return True
        return False

    def _waits_for(self, pci_id: str, sharing: Sharing) -> bool:
        """Whether a GPU was given the mode already, and a restart has yet to bring it."""
        shell = self._view.facts.shell
        facts = shell.gpus.get(pci_id) if shell is not None else None
        return facts is not None and facts.mig_pending is (sharing is Sharing.MIG)

    def _why_kept(self, pci_id: str, need: VgpuNeed) -> str:
        """Say why a GPU must not change its mode; empty where it may."""
        state = self._states[pci_id]
        if self._is_handed_out(pci_id):
            return "is in passthrough mode"
        if state.held or self._open[pci_id].vm_moids:
            return "is in use in another mode"
        others = any(
            key != pci_id
            and (one.board_key, one.shared_as, one.obstacle)
            == (state.board_key, state.shared_as, state.obstacle)
            for key, one in self._states.items()
        )
        if not others and any(
            known.sharing is not need.sharing
            for profile in self._claimed
            if (known := self._reader.needs(profile).get(need.board_key)) is not None
        ):
            return "is the only one left for powered-off VMs outside the plan"
        return ""


def _stays(existing: Vm | None, wanted: DesiredVm) -> bool:
    """Whether a VM runs with the vGPUs that it is to have: it holds them already."""
    if existing is None or not existing.is_on or existing.detail is None:
        return False
    vgpus = [one for one in wanted.gpus if one.kind == "vgpu"]
    return bool(chosen_profiles(vgpus, existing.detail)) or not (vgpus or existing.detail.vgpus)
