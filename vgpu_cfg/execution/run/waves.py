"""Which hosts of a wave are down, whether another may go down, and what is dropped when a wave stops.

A host counts as down from the first change that takes something from it, the switching off of the
plan's own VMs included, until it has left maintenance mode. One that waits for a manual step, or has
failed, stays down. So does from the beginning a host that was in maintenance mode before the run. One that
somebody else holds there (`is_held`) takes nobody's place. One that is switched off, and of which the plan
asks nothing but to be switched on by hand, counts in every wave.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, EnterMaintenance, ExitMaintenance, ManualStep, PowerOffVm
from vgpu_cfg.changes.values import Impact

Place = tuple[str, str]
"""A wave, "" for all of them, and the moid of one of its hosts."""


class Waves:
    """The hosts of a plan's waves, as its changes begin and end; `down` are moids of those that are down."""

    def __init__(self, changes: Sequence[Change], down: Collection[str] = ()) -> None:
        by_id = {change.id: change for change in changes}
        self._enters: dict[Place, EnterMaintenance] = {}
        self._limit: dict[str, int] = {}
        self._takes_down: dict[str, Place] = {}
        self._gives_back: dict[str, Place] = {}
        self._down: dict[Place, str] = {}
        for change in changes:
            if isinstance(change, EnterMaintenance):
                place = (change.wave, change.host.moid)
                self._enters[place] = change
                if change.is_held:
                    continue
                if change.host.moid in down:
                    self._down[place] = change.host.name
                least = self._limit.get(change.wave, change.max_down)
                self._limit[change.wave] = max(1, min(least, change.max_down))
                before = (by_id[need] for need in change.needs if need in by_id)
                offs = [one.id for one in of_kind(before, PowerOffVm)]
                self._takes_down.update(dict.fromkeys((change.id, *offs), place))
        entered = {moid for _, moid in self._enters}
        for change in changes:
            if _is_off(change) and change.host_moid is not None and change.host_moid not in entered:
                self._down["", change.host_moid] = change.subject.name
                self._gives_back[change.id] = ("", change.host_moid)
            if isinstance(change, ExitMaintenance):
                place = (change.wave, change.host.moid)
                self._gives_back[change.id] = place
                if place not in self._enters:
                    self._down[place] = change.host.name

    @property
    def hosts_down(self) -> tuple[str, ...]:
        """The names of the hosts that are down now."""
        return tuple(self._down.values())

    @property
    def moids_down(self) -> frozenset[str]:
        """The moids of the hosts that are down now."""
        return frozenset(moid for _, moid in self._down)

    def admits(self, change: Change) -> bool:
        """Whether a change may begin: it takes no host down, or one that is down, or there is room for it."""
        place = self._takes_down.get(change.id)
        if place is None or place in self._down:
            return True
        return sum(wave in ("", place[0]) for wave, _ in self._down) < self._limit[place[0]]

    def begin(self, change: Change) -> None:
        """Note that a change begins."""
        place = self._takes_down.get(change.id)
        if place is not None:
            self._down[place] = self._enters[place].host.name

    def succeed(self, change: Change) -> None:
        """Note that a change has come true."""
        place = self._gives_back.get(change.id)
        if place is not None:
            self._down.pop(place, None)

    def put_off(self, change: Change) -> None:
        """Note that the first change of a host did not begin after all: nobody has taken it down."""
        place = self._takes_down.get(change.id)
        if place is not None:
            self._down.pop(place, None)

    def drop(self, change: Change) -> None:
        """Note that a change will not begin: a host that nobody takes down any more leaves its place."""
        if isinstance(change, EnterMaintenance):
            self._down.pop((change.wave, change.host.moid), None)

    def not_begun(self, change: Change) -> tuple[Change, ...]:
        """Return the entries into maintenance mode of other hosts of a change's wave that have not begun."""
        wave = getattr(change, "wave", "")
        return tuple(
            enter
            for place, enter in self._enters.items()
            if wave and place[0] == wave and place not in self._down
        )

    def is_for(self, change: Change, enters: Sequence[Change]) -> bool:
        """Whether a change only clears the way for one of these entries: own VMs that are switched off."""
        place = self._takes_down.get(change.id)
        return isinstance(change, PowerOffVm) and place is not None and self._enters[place] in enters


def _is_off(change: Change) -> bool:
    return isinstance(change, ManualStep) and change.impact is Impact.HOST_COLD_BOOT
