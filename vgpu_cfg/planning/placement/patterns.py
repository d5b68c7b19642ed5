"""The remaining room of GPUs and hosts: the largest sets of vGPUs, their order, and the fits of a VM.

How a VM fits on each of many hosts is worked out once for all that are alike, while VMs are put on them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from vgpu_cfg.planning.capacity.gpu_state import GpuState, VgpuNeed
from vgpu_cfg.planning.placement.demand import Shape
from vgpu_cfg.planning.placement.host_state import Fit, HostState


@dataclass(frozen=True, slots=True)
class PatternItem:
    """A kind of vGPU that is to be placed. With a `line`, no GPU takes two of them."""

    need: VgpuNeed
    line: str = ""


@dataclass(slots=True)
class PatternBook:
    """The patterns of GPUs for some items, each found once for GPUs that are alike.

    A pattern counts each item; those that are part of a larger one are left out. `is_whole` turns
    false where there were too many to look at them all.
    """

    items: Sequence[PatternItem]
    most_states: int = 20_000
    is_whole: bool = True
    _known: dict[tuple[object, ...], tuple[tuple[int, ...], ...]] = field(default_factory=dict)

    def of(self, gpu: GpuState) -> tuple[tuple[int, ...], ...]:
        """Return the patterns of a GPU; empty where it takes none of the items."""
        key = gpu.signature()
        if key not in self._known:
            self._known[key] = self._find(gpu)
        return self._known[key]

    def _find(self, gpu: GpuState) -> tuple[tuple[int, ...], ...]:
        none = (0,) * len(self.items)
        seen = {(gpu.signature(), none)}
        queue = [(gpu, none)]
        ends: dict[tuple[int, ...], None] = {}
        while queue:
            at, counts = queue.pop()
            is_end = True
            for index, item in enumerate(self.items):
                if not takes(at, item):
                    continue
                is_end = False
                after = at.copy()
                after.take(item.need, "", line=item.line)
                more = (*counts[:index], counts[index] + 1, *counts[index + 1 :])
                state = (after.signature(), more)
                if state not in seen:
                    seen.add(state)
                    queue.append((after, more))
            if is_end:
                ends[counts] = None
            if len(seen) > self.most_states:
                self.is_whole = False
                ends |= dict.fromkeys(counts for _, counts in queue)
                break
        return tuple(sorted((one for one in ends if any(one) and _is_largest(one, ends)), reverse=True))


def takes(gpu: GpuState, item: PatternItem) -> bool:
    """Whether a GPU takes one more of an item."""
    if gpu.refuse(item.need) is not None:
        return False
    return not item.line or all(held.line != item.line for held in gpu.held)


def stack(gpu: GpuState, vgpus: Sequence[tuple[VgpuNeed, str, str]]) -> GpuState | None:
    """Put vGPUs (need, VM, line) on a GPU in some order that they can start in; None where there is none."""
    seen: set[tuple[object, ...]] = set()

    def descend(at: GpuState, left: tuple[int, ...]) -> GpuState | None:
        if not left:
            return at
        key = (at.signature(), tuple(sorted(vgpus[index][0].name for index in left)))
        if key in seen:
            return None
        seen.add(key)
        tried: set[str] = set()
        for index in left:
            need, vm, line = vgpus[index]
            if need.name in tried or at.refuse(need) is not None:
                continue
            tried.add(need.name)
            after = at.copy()
            after.take(need, vm, line=line)
            if (found := descend(after, tuple(one for one in left if one != index))) is not None:
                return found
        return None

    order = sorted(range(len(vgpus)), key=lambda index: -vgpus[index][0].framebuffer_mib)
    return descend(gpu, tuple(order))


def _is_largest(counts: tuple[int, ...], among: dict[tuple[int, ...], None]) -> bool:
    return not any(
        other != counts and all(one <= more for one, more in zip(counts, other, strict=True))
        for other in among
    )


class SharedFits:
    """Hosts with a number each for their capacity and load; similar ones have the same.

    Two hosts that were alike still are once each has taken a VM of one shape and line the way it fits best.
    """

    def __init__(self, hosts: Sequence[HostState]) -> None:
        self.hosts = hosts
        self._numbers: dict[Hashable, int] = {}
        self._asked = 0
        self.kinds = [self.number(host.signature()) for host in hosts]

    def number(self, kind: Hashable) -> int:
        """Return the number of a kind of host."""
        return self._numbers.setdefault(kind, len(self._numbers))

    def of(self, shape: Shape) -> ShapeFits:
        """Begin to ask for VMs of one shape."""
        self._asked += 1
        return ShapeFits(self, shape, self._asked)


@dataclass(slots=True)
class ShapeFits:
    """How VMs of one shape fit, by host; `asked` is a number of its own.

    If they need NICs or devices by address, which differ from host to host, each host is asked.
    """

    shared: SharedFits
    shape: Shape
    asked: int
    _known: dict[int, Fit | None] = field(default_factory=dict)

    def on(self, index: int) -> Fit | None:
        """Return the best way to put such a VM on a host, None where there is none."""
        host = self.shared.hosts[index]
        if self._is_own:
            return host.fit(self.shape)
        kind = self.shared.kinds[index]
        if kind not in self._known:
            self._known[kind] = host.fit(self.shape)
        fit = self._known[kind]
        return fit if fit is None or fit.host == index else replace(fit, host=index)

    @property
    def is_anywhere(self) -> bool:
        """Whether one of the shape's hosts has room for such a VM."""
        return any(self.on(index) is not None for index, _ in self.shape.hosts)

    def took(self, index: int, line: str) -> None:
        """Note that a host has taken such a VM of a line, as `on` said."""
        taken = (self.asked, index if self._is_own else None, line)
        self.shared.kinds[index] = self.shared.number((self.shared.kinds[index], taken))

    @property
    def _is_own(self) -> bool:
        return bool(self.shape.nics or self.shape.fixed or self.shape.dynamic)
