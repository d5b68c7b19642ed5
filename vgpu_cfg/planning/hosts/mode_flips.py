"""How many GPUs of a host change their MIG mode for the plan's VMs: as few as these need, and only idle ones.

The VMs are put on the GPUs that are shared as they want already, with what those hold now. Where one finds
no room there, one more idle GPU changes its mode. That GPUs are filled in this order is a way to count, not
a promise of where ESXi puts a VM.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.observed.inventory import Gpu, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.plan_file import GpuEntry, HostGpuEntry
from vgpu_cfg.model.plan_values import GpuUse
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile
from vgpu_cfg.planning.capacity.gpu_state import GpuState
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.capacity.vgpu_need import VgpuNeed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.host_settings.entry import HostView

_FIXED_BY_PLAN = (Code.NO_HOST_DRIVER, Code.NOT_SHARED_DIRECT)
"""What the plan itself sees to on a host that it prepares."""


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
        """Whether a GPU serves vGPUs of the VMs as it is shared now, as far as that is told."""
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
        """Find room for one vGPU: as the GPUs are, else on one more that changes its mode.

        GPUs only fill: what was refused once is refused ever after.
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
            return "is passed through"
        if state.shared_as is need.sharing:
            return "is in use"
        if state.held or self._open[pci_id].vm_moids:
            return "is in use as it is"
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
            return "is the last one that VMs of others, which are switched off, can use"
        return ""


def _stays(existing: Vm | None, wanted: DesiredVm) -> bool:
    """Whether a VM runs with the vGPUs that it is to have: it holds them already."""
    if existing is None or not existing.is_on or existing.detail is None:
        return False
    held = sorted(one.profile for one in existing.detail.vgpus)
    return held == sorted(one.profile[0].name for one in wanted.gpus if one.kind == "vgpu")
