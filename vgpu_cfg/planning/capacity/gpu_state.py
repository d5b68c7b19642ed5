"""A vGPU's needs on a GPU, and when a GPU takes one more and where: same size, mixed sizes, MIG slices.

The needs are flattened from the catalog for the inner loops of placement.

Sources: NVIDIA AI Enterprise 5.0 User Guide (time-sliced and MIG-backed vGPUs, MIG placements), NVIDIA vGPU
Software User Guide, appendix A.3 (mixed-size placements).

Belief: one-framebuffer-size-in-same-size-mode.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import islice

from vgpu_cfg.catalog import Board, Catalog, ProfileEntry
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.planning.findings.codes import Code


@dataclass(frozen=True, slots=True)
class VgpuNeed:
    """A profile on a board, as plain numbers.

    `max_mixed` is None if mixed-size mode is not documented, `mixed_starts` None if the placements are not
    published. If `is_max_known` is false, `max_per_gpu` is a bound by the framebuffer. The `mig_*` fields are
    0 and empty for time-sliced types. Those of a VM with one `peers` number are to be joined by NVLink.
    """

    name: str
    board_key: str
    series: str
    sharing: Sharing
    framebuffer_mib: int
    size_gb: int
    max_per_gpu: int
    max_mixed: int | None = None
    mixed_starts: tuple[int, ...] | None = None
    is_full: bool = False
    mig_size: int = 0
    mig_compute: int = 0
    mig_starts: tuple[int, ...] = ()
    mig_per_instance: int = 1
    has_media_engines: bool = False
    min_esxi: str | None = None
    peers: int | None = None
    is_max_known: bool = True

    @property
    def is_mig(self) -> bool:
        """Whether it has MIG slices of its own."""
        return self.sharing is Sharing.MIG

    @property
    def share(self) -> float:
        """The part of a GPU that it takes at least, for ordering."""
        return 1.0 / self.max_per_gpu


@cache
def vgpu_need(entry: ProfileEntry) -> VgpuNeed:
    """Flatten a catalogue entry."""
    mig = entry.mig
    return VgpuNeed(
        name=entry.name,
        board_key=entry.board.key,
        series=entry.profile.series,
        sharing=entry.profile.sharing,
        framebuffer_mib=entry.framebuffer_mib,
        size_gb=entry.profile.framebuffer_gb,
        max_per_gpu=entry.max_per_gpu,
        max_mixed=entry.max_mixed,
        mixed_starts=entry.mixed_starts,
        is_full=entry.is_full_framebuffer,
        mig_size=mig.size if mig else 0,
        mig_compute=mig.compute if mig else 0,
        mig_starts=mig.starts if mig else (),
        mig_per_instance=mig.per_instance if mig else 1,
        has_media_engines=mig.has_media_engines if mig else False,
        min_esxi=mig.min_esxi if mig else None,
        is_max_known=entry.is_max_known,
    )


def needs_of(profile: str, catalog: Catalog) -> dict[str, VgpuNeed]:
    """Return a profile's needs on each board that has it, by board key; empty if none has."""
    return {entry.board.key: vgpu_need(entry) for entry in catalog.by_profile(profile)}


def make_variants(
    gpus: Sequence[GpuEntry], needs: Callable[[str], Mapping[str, VgpuNeed]]
) -> tuple[tuple[VgpuNeed, ...], ...]:
    """List the ways to give a VM its vGPUs, the plan file's first choice first.

    All vGPUs of a VM are of one board model and series, and of one profile where they are asked for alike.
    Empty where it has none, and where nothing can satisfy all of them.
    """
    wanted = [gpu for gpu in gpus if gpu.kind == "vgpu"]
    if not wanted:
        return ()
    variants: dict[tuple[VgpuNeed, ...], None] = {}
    for profile in wanted[0].profile:
        for board_key in needs(profile.name):
            variant = [_peer(needs(profile.name)[board_key], wanted[0])]
            for gpu in wanted[1:]:
                names = (profile,) if gpu.profile == wanted[0].profile else gpu.profile
                found = (needs(one.name).get(board_key) for one in names if one.series == profile.series)
                chosen = next((need for need in found if need is not None), None)
                if chosen is None:
                    break
                variant.append(_peer(chosen, gpu))
            if len(variant) == len(wanted):
                variants[tuple(variant)] = None
    return tuple(variants)


def _peer(need: VgpuNeed, gpu: GpuEntry) -> VgpuNeed:
    return need if gpu.nvlink is None else replace(need, peers=gpu.nvlink)


_MOST_ARRANGEMENTS = 500

_BIG_INSTANCE = 4
"""Compute slices of the instance whose only legal start is the easiest to lose."""


@dataclass(frozen=True, slots=True)
class Held:
    """A vGPU, or a whole GPU (`need` None), that a VM holds.

    `start` is its place in memory slices (MIG) or GB (mixed sizes), as ESXi probably chose it, None if it
    needs none. `is_planned` marks this plan's own new VMs.
    """

    vm: str
    need: VgpuNeed | None
    start: int | None = None
    is_planned: bool = False
    line: str = ""


@dataclass(slots=True)
class GpuState:
    """A GPU while vGPUs are put on it. Mutable, and cheap to copy.

    `sharing` is None if unknown: then the first vGPU decides. `obstacle` is why it accepts no vGPU at all;
    one that `is_cordoned` could, but must not. `mixes_series` is true from ESXi 8.0 U2 on. `claims` are
    powered-off VMs outside the plan that would need it, for display alone.
    """

    pci_id: str
    board: Board | None
    sharing: Sharing | None = None
    mode: VgpuMode = VgpuMode.SAME_SIZE
    node: int | None = None
    obstacle: Code | None = None
    mixes_series: bool = True
    held: list[Held] = field(default_factory=list)
    is_cordoned: bool = False
    is_set_to_mixed: bool = False

    @property
    def board_key(self) -> str | None:
        """The catalogue's key of its board."""
        return self.board.key if self.board else None

    @property
    def shared_as(self) -> Sharing | None:
        """How it is shared now: as its mode says, else as the vGPUs on it do."""
        if self.sharing is not None:
            return self.sharing
        return next((held.need.sharing for held in self.held if held.need is not None), None)

    @property
    def free_framebuffer_mib(self) -> int:
        """Framebuffer that no vGPU holds, whether or not any profile can use it."""
        if self.board is None or any(held.need is None for held in self.held):
            return 0
        used = sum(held.need.framebuffer_mib for held in self.held if held.need is not None)
        return max(0, self.board.framebuffer_mib - used)

    @property
    def locked_size_gb(self) -> int | None:
        """The one size it takes in same-size mode, None where any goes."""
        if self.mode is not VgpuMode.SAME_SIZE or self.shared_as is Sharing.MIG:
            return None
        return next((held.need.size_gb for held in self.held if held.need is not None), None)

    @property
    def is_idle(self) -> bool:
        """Whether it could serve vGPUs and holds none."""
        return self.obstacle is None and not self.held and not self.is_cordoned

    @property
    def has_4g_start(self) -> bool:
        """Whether an instance of four compute slices could still start on it, in MIG mode."""
        if self.board is None or self.board.mig is None or self.shared_as is not Sharing.MIG:
            return False
        if self.obstacle is not None or any(held.need is None for held in self.held):
            return False
        used = {held.start: held.need for held in self.held if held.need is not None}
        compute = sum(need.mig_compute for need in used.values())
        taken = {
            slice_
            for start, need in used.items()
            if start is not None
            for slice_ in range(start, start + need.mig_size)
        }
        return any(
            compute + profile.compute <= self.board.mig.compute_slices
            and any(taken.isdisjoint(range(start, start + profile.size)) for start in profile.starts)
            for profile in self.board.mig.profiles.values()
            if profile.compute == _BIG_INSTANCE
        )

    def copy(self) -> GpuState:
        """Return a twin that can be changed by itself."""
        return GpuState(
            self.pci_id,
            self.board,
            self.sharing,
            self.mode,
            self.node,
            self.obstacle,
            self.mixes_series,
            list(self.held),
            self.is_cordoned,
            self.is_set_to_mixed,
        )

    def signature(self) -> tuple[object, ...]:
        """Return the properties that distinguish its room from another GPU's."""
        held = sorted((_name(one), -1 if one.start is None else one.start, one.line) for one in self.held)
        return (*self._traits, tuple(held))

    def exact_signature(self) -> tuple[object, ...]:
        """Return the properties that distinguish it from another host's GPU: its vGPUs without holders."""
        return (*self._traits, tuple((one.need, one.start, one.line) for one in self.held))

    @property
    def _traits(self) -> tuple[object, ...]:
        traits = (self.board_key, self.sharing, self.mode, self.node, self.obstacle, self.mixes_series)
        return (*traits, self.is_cordoned)

    def refuse(self, need: VgpuNeed) -> Code | None:
        """Say why it must not take one more such vGPU, None where it may: that it is cordoned comes last."""
        code = self._refuse(need)
        return Code.GPU_CORDONED if code is None and self.is_cordoned else code

    def _refuse(self, need: VgpuNeed) -> Code | None:
        """Say why it cannot take one more such vGPU, None where it can."""
        if self.board_key != need.board_key:
            return Code.NO_SUCH_BOARD
        if self.obstacle is not None:
            return self.obstacle
        shared_as = self.shared_as
        if shared_as is not None and shared_as is not need.sharing:
            return Code.GPU_IN_MIG_MODE if shared_as is Sharing.MIG else Code.GPU_NOT_IN_MIG_MODE
        if need.is_mig:
            return None if self.mig_start(need) is not None else Code.NO_MIG_SLICE
        if self.mode is VgpuMode.MIXED_SIZE:
            return self._refuse_mixed(need)
        return self._refuse_same_size(need)

    def take(self, need: VgpuNeed, vm: str, *, is_planned: bool = True, line: str = "") -> Held:
        """Put a vGPU on it, which `refuse` must have allowed; return the new holding."""
        start = None
        if need.is_mig:
            start = self.mig_start(need)
        elif self.mode is VgpuMode.MIXED_SIZE:
            start = next(iter(self.free_mixed_starts(need)), None)
        held = Held(vm, need, start, is_planned, line)
        self.held.append(held)
        return held

    def room(self, need: VgpuNeed) -> int:
        """Count how many more such vGPUs it takes."""
        trial, count = self.copy(), 0
        while trial.refuse(need) is None:
            trial.take(need, "")
            count += 1
        return count

    def _refuse_same_size(self, need: VgpuNeed) -> Code | None:
        most = need.max_per_gpu
        for held in self.held:
            if held.need is None:
                return Code.GPU_FULL
            if held.need.framebuffer_mib != need.framebuffer_mib:
                return self._full_or(Code.SAME_SIZE_LOCK, need)
            if held.need.series != need.series and not self.mixes_series:
                return Code.CLASSES_CANNOT_SHARE
            most = min(most, held.need.max_per_gpu)
        return Code.GPU_FULL if len(self.held) >= most else None

    def _refuse_mixed(self, need: VgpuNeed) -> Code | None:
        if need.max_mixed is None:
            return Code.MIXED_SIZE_NOT_SUPPORTED
        alike = 0
        for held in self.held:
            if held.need is None:
                return Code.GPU_FULL
            if held.need.series != need.series and not self.mixes_series:
                return Code.CLASSES_CANNOT_SHARE
            alike += held.need.size_gb == need.size_gb
        if alike >= need.max_mixed:
            return self._full_or(Code.MIXED_SIZE_NO_ROOM, need)
        if need.mixed_starts is None:
            return Code.GPU_FULL if self.free_framebuffer_mib < need.framebuffer_mib else None
        return None if self.free_mixed_starts(need) else Code.MIXED_SIZE_NO_ROOM

    def _full_or(self, code: Code, need: VgpuNeed) -> Code:
        return Code.GPU_FULL if self.free_framebuffer_mib < need.framebuffer_mib else code

    def free_mixed_starts(self, need: VgpuNeed) -> tuple[int, ...]:
        """List the GB at which a vGPU of this size may start now, in mixed-size mode."""
        taken = [
            (held.start, held.start + held.need.size_gb)
            for held in self.held
            if held.need is not None and held.start is not None
        ]
        return tuple(
            start
            for start in need.mixed_starts or ()
            if all(start + need.size_gb <= low or start >= high for low, high in taken)
        )

    def mig_start(self, need: VgpuNeed) -> int | None:
        """Return where a MIG-backed vGPU would start, None where it cannot.

        vSphere puts the first 3g at slice 4 so that 0-3 stay free for a 4g (field report by
        Frank Denneman); the others follow from the high end, which keeps that true.
        """
        if (joined := self._shared_instance(need)) is not None:
            return joined
        return next(iter(self.free_mig_starts(need)), None)

    def free_mig_starts(self, need: VgpuNeed) -> tuple[int, ...]:
        """List where a new GPU instance of this profile may start, the preferred one first."""
        geometry = self.board.mig if self.board else None
        if geometry is None or not self._has_compute_for(need, geometry.compute_slices):
            return ()
        taken = {
            slice_
            for held in self.held
            if held.need is not None and held.start is not None
            for slice_ in range(held.start, held.start + held.need.mig_size)
        }
        return tuple(
            start
            for start in sorted(need.mig_starts, reverse=True)
            if taken.isdisjoint(range(start, start + need.mig_size))
        )

    def _has_compute_for(self, need: VgpuNeed, compute_slices: int) -> bool:
        instances: dict[int, int] = {}
        alike = 0
        for held in self.held:
            if held.need is None:
                return False
            if held.start is not None:
                instances[held.start] = held.need.mig_compute
            alike += held.need.name == need.name
            if need.has_media_engines and held.need.has_media_engines:
                return False
        return alike < need.max_per_gpu and sum(instances.values()) + need.mig_compute <= compute_slices

    def _shared_instance(self, need: VgpuNeed) -> int | None:
        """Find an instance that vGPUs of this profile share by turns and that has room for one more."""
        if need.mig_per_instance == 1:
            return None
        counts: dict[int, int] = {}
        for held in self.held:
            if held.need is not None and held.need.name == need.name and held.start is not None:
                counts[held.start] = counts.get(held.start, 0) + 1
        return next((start for start, count in sorted(counts.items()) if count < need.mig_per_instance), None)


Places = frozenset[tuple[int, int]]
"""The places of GPU instances: (first memory slice, number of slices) of each."""


def arrange(gpu: GpuState, holders: Iterable[Held], reported: Places | None = None) -> Iterator[GpuState]:
    """Yield possible placements of these vGPUs on an empty GPU, the likeliest first, a bounded number.

    vCenter does not report the place of a running vGPU on its GPU; `reported` are the places of the GPU's
    instances if its host was asked: then all of them are used, and no others. Large vGPUs are placed first.
    """
    order = sorted(holders, key=lambda held: (-_size(held), held.vm))
    found = islice(_arrangements(gpu, order, reported), _MOST_ARRANGEMENTS)
    yield from (state for state in found if reported is None or _places(state) == reported)


def _places(gpu: GpuState) -> Places:
    return frozenset((held.start, _size(held)) for held in gpu.held if held.start is not None)


def _name(held: Held) -> str:
    return held.need.name if held.need else ""


def _size(held: Held) -> int:
    return (held.need.mig_size or held.need.size_gb) if held.need else 0


def _arrangements(gpu: GpuState, order: list[Held], reported: Places | None) -> Iterator[GpuState]:
    if not order:
        yield gpu
        return
    held, rest = order[0], order[1:]
    need = held.need
    if need is None or gpu.refuse(need) is not None:
        return
    for start in _starts(gpu, need):
        if reported is not None and (start, need.mig_size) not in reported:
            continue
        trial = gpu.copy()
        trial.held.append(Held(held.vm, need, start, held.is_planned, held.line))
        yield from _arrangements(trial, rest, reported)


def _starts(gpu: GpuState, need: VgpuNeed) -> tuple[int | None, ...]:
    if need.is_mig:
        joined = gpu.mig_start(need)
        free = gpu.free_mig_starts(need)
        return free if joined is None or joined in free else (joined, *free)
    if gpu.mode is VgpuMode.MIXED_SIZE and need.mixed_starts is not None:
        return gpu.free_mixed_starts(need)
    return (None,)


BEFORE_SRIOV = ("", "Volta", "Turing")
"""The architectures of boards whose vGPUs need no SR-IOV."""


def lacks_functions(gpus: Collection[GpuState]) -> bool:
    """Whether all GPUs of a host are idle, and one needs SR-IOV: if none can be shared, that may be off."""
    boards = [gpu.board for gpu in gpus if gpu.is_idle]
    is_needed = any(board is not None and board.architecture not in BEFORE_SRIOV for board in boards)
    return is_needed and len(boards) == len(gpus)
