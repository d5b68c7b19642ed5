"""The profiles that serve a request for GPU memory, in the order in which they are tried."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.addresses import own_vms
from vgpu_cfg.planning.placement.demand import Shape, Variant
from vgpu_cfg.planning.placement.host_state import Fit, HostState
from vgpu_cfg.planning.placement.patterns import SharedFits


def with_choices(desired: DesiredPlan, observed: Inventory, catalog: Catalog) -> DesiredPlan:
    """Return the plan with the profiles of this estate that serve each request for GPU memory.

    The smallest comes first; of a line with VMs that exist, the one that most of them have. Profiles of any
    VM of the estate are included, so that one that exists keeps its own even if the catalog lacks it.
    """
    if not any(gpu.memory for vm in desired.vms for gpu in vm.gpus):
        return desired
    choices = _Choices(desired, observed, catalog)
    return desired.model_copy(update={"vms": tuple(map(choices.with_profiles, desired.vms))})


def with_profiles(gpu: GpuEntry, observed: Inventory, catalog: Catalog) -> GpuEntry:
    """Return one GPU of no VM with the profiles of this estate that serve its request for memory."""
    return _Choices(DesiredPlan(name="", vcenter=""), observed, catalog).of_gpu(gpu)


def profiles_of(observed: Inventory, catalog: Catalog) -> list[VgpuProfile]:
    """Return the plain C-series profiles of an estate's boards and host drivers, and those that VMs have."""
    boards = {
        board.key: board
        for host in observed.hosts
        for gpu in host.gpus
        if (board := catalog.of_device(gpu.pci)) is not None
    }
    found = {entry.profile: None for board in boards.values() for entry in board.profiles}
    offered = {
        name
        for host in observed.hosts
        for name in (*host.creatable_profiles, *(profile.name for profile in host.profiles or ()))
    }
    held = {vgpu.profile for vm in observed.vms if vm.detail for vgpu in vm.detail.vgpus}
    for name in sorted(offered | held):
        with suppress(ValueError):
            found[VgpuProfile.parse(name)] = None
    return [one for one in found if one.series == "C" and (not one.suffix or one.name in held)]


def why_chosen(shape: Shape, fit: Fit, hosts: Sequence[HostState]) -> str:
    """Say why a VM gets these vGPUs: they are the smallest that serve, or the smaller ones have no place.

    `hosts` are without the plan's VMs. Hosts of a later cluster do not count.
    """
    ranks = dict(shape.hosts)
    near = tuple((index, rank) for index, rank in shape.hosts if rank <= ranks[fit.host])
    smaller = [one for one in shape.variants if one[0].size_gb < fit.variant[0].size_gb]
    smaller = [one for one in smaller if any(_gives(hosts[index], one) for index, _ in near)]
    if not smaller:
        return "the smallest"
    if fit.variant == shape.variants[0]:
        return "like other VMs in this item"
    shared = SharedFits(hosts)
    fitting = [one for one in smaller if shared.of(replace(shape, hosts=near, variants=(one,))).is_anywhere]
    names = listed(dict.fromkeys(one[0].name for one in fitting or smaller), shown=3)
    return f"{names} cannot serve all VMs" if fitting else f"no capacity for {names}"


def _gives(host: HostState, variant: Variant) -> bool:
    has_board = any(gpu.board_key == variant[0].board_key for gpu in host.gpus)
    return has_board and host.refuse_variant(variant) is None


@dataclass(slots=True)
class _Choices:
    """The profiles of an estate, and the choices for the requests of a plan, each made once.

    `held` counts the vGPUs of the VMs that exist by line and profile.
    """

    desired: DesiredPlan
    observed: Inventory
    catalog: Catalog
    profiles: Sequence[VgpuProfile] = field(init=False)
    held: Mapping[str, Counter[str]] = field(init=False)
    _boards: dict[str, frozenset[str]] = field(default_factory=dict)
    _known: dict[tuple[str, tuple[GpuEntry, ...]], tuple[GpuEntry, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.profiles = sorted(profiles_of(self.observed, self.catalog), key=self._size)
        own = own_vms(self.desired, self.observed)
        self.held = {vm.line: Counter[str]() for vm in self.desired.vms}
        for vm in self.desired.vms:
            detail = own[vm.name].detail if vm.name in own else None
            self.held[vm.line].update(one.profile for one in (detail.vgpus if detail else ()))

    def with_profiles(self, vm: DesiredVm) -> DesiredVm:
        """Return a VM with the profiles that serve; VMs of a line with the same request share them."""
        if not any(gpu.memory for gpu in vm.gpus):
            return vm
        key = (vm.line, vm.gpus)
        if key not in self._known:
            self._known[key] = tuple(self.of_gpu(gpu, self.held[vm.line]) for gpu in vm.gpus)
        return vm.model_copy(update={"gpus": self._known[key]})

    def of_gpu(self, gpu: GpuEntry, held: Mapping[str, int] = MappingProxyType({})) -> GpuEntry:
        """Return a GPU with the profiles that serve; those that a line has, `held`, come first."""
        if gpu.memory is None:
            return gpu
        serving = [profile for profile in self.profiles if self._serves(profile, gpu)]
        serving.sort(key=lambda one: -held.get(one.name, 0))
        return gpu.model_copy(update={"profile": tuple(serving)})

    def _serves(self, profile: VgpuProfile, gpu: GpuEntry) -> bool:
        if not gpu.is_served_by(profile):
            return False
        entries = self.catalog.by_profile(profile)
        boards = {entry.board.key for entry in entries}
        # Nothing is known against a profile that the catalog lacks: a VM keeps it.
        if entries and gpu.any_of and not any(boards & self._boards_of(word) for word in gpu.any_of):
            return False
        is_whole = any(entry.is_full_framebuffer and entry.mig is None for entry in entries)
        is_peer = any(entry.is_nvlink_p2p for entry in entries)
        has_uvm = profile.sharing is Sharing.MIG or is_whole
        return (has_uvm or not gpu.uvm) and (is_peer or gpu.nvlink is None)

    def _boards_of(self, word: str) -> frozenset[str]:
        if word not in self._boards:
            self._boards[word] = frozenset(board.key for board in self.catalog.matching(word))
        return self._boards[word]

    def _size(self, profile: VgpuProfile) -> tuple[int, bool, float, str]:
        """Return a key that sorts by memory, time-sliced before MIG-backed, and by the share of a GPU."""
        share = min((1 / entry.max_per_gpu for entry in self.catalog.by_profile(profile)), default=1.0)
        return profile.framebuffer_gb, profile.sharing is Sharing.MIG, share, profile.name
