"""Which changes wait for a canary: until its own have come true, and somebody has agreed to go on."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Canary


class Canaries:
    """The canaries of a plan while it is carried out."""

    def __init__(self, canaries: Sequence[Canary] = ()) -> None:
        self._left = {canary: set(canary.first) for canary in canaries}
        self._held = {canary: frozenset(canary.held) for canary in canaries}

    def admits(self, change: Change) -> bool:
        """Whether a change may begin as far as canaries go."""
        return self.holding(change) is None

    def holding(self, change: Change) -> Canary | None:
        """Return the canary that a change waits for."""
        return next((canary for canary, held in self._held.items() if change.id in held), None)

    def preceding(self, change: Change) -> Canary | None:
        """Return the canary that a change is part of, while others wait for it."""
        return next((canary for canary in self._held if change.id in canary.first), None)

    def succeed(self, change: Change) -> None:
        """Note that a change has come true."""
        for left in self._left.values():
            left.discard(change.id)

    @property
    def done(self) -> Canary | None:
        """The first canary whose changes have all come true, and that others wait for."""
        return next((canary for canary in self._held if not self._left[canary]), None)

    def release(self, canary: Canary) -> None:
        """Let go on who waited for a canary."""
        del self._held[canary]

    def release_all(self) -> None:
        """Let nobody wait any more."""
        self._held.clear()
