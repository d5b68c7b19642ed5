"""How a VM fits on each of many hosts, worked out once for all that are alike, while VMs are put on them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from vgpu_cfg.planning.placement.demand import Shape
from vgpu_cfg.planning.placement.host_state import Fit, HostState


class SharedFits:
    """Hosts with a number each for what they have and hold; alike ones have the same.

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

    Where they need NICs or devices by address, which differ from host to host, each host is asked.
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
