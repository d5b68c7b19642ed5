"""Which changes may not begin now because the window of their hosts would close before they end."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, EnterMaintenance, PowerOffVm, RelocateVm

_Bound = tuple[str, int]
"""A window as the plan file has it, and how many seconds are thought to be needed within it."""


class Windows:
    """The windows that a plan's changes are bound to.

    A host counts from the first change that takes something from it: VMs that are switched off for it. One
    that has begun, or is `down` already (a moid), is finished whatever the hour: to leave it helps nobody.
    """

    def __init__(self, changes: Sequence[Change], down: Collection[str]) -> None:
        self._bound: dict[str, tuple[_Bound, ...]] = {}
        self._host: dict[str, str] = {}
        self._begun: set[str] = set(down)
        by_id = {change.id: change for change in changes}
        for change in changes:
            if isinstance(change, RelocateVm | PowerOffVm):
                self._bind(change, [(window, change.takes_seconds) for window in change.windows])
            elif isinstance(change, EnterMaintenance) and change.window and not change.is_held:
                before = (by_id[need] for need in change.needs if need in by_id)
                bound: list[Change] = [change, *of_kind(before, PowerOffVm)]
                for one in bound:
                    self._bind(one, [(change.window, change.takes_seconds)])
                    self._host[one.id] = change.host.moid

    def why_not(self, change: Change, now: datetime) -> str:
        """Say why a change may not begin at a moment; empty where it may, and then it counts as begun."""
        host = self._host.get(change.id)
        if host in self._begun:
            return ""
        reasons = (_why_not(text, seconds, now) for text, seconds in self._bound.get(change.id, ()))
        why = next((reason for reason in reasons if reason), "")
        if host is not None and not why:
            self._begun.add(host)
        return why

    def _bind(self, change: Change, bounds: Iterable[_Bound]) -> None:
        self._bound[change.id] = (*self._bound.get(change.id, ()), *bounds)


def _why_not(text: str, seconds: int, now: datetime) -> str:
    from vgpu_cfg.planning.hosts.window import parse_window

    left = parse_window(text).seconds_left(now)
    if left is None:
        return f"the window {text} is closed now"
    if left < seconds:
        return f"it takes about {_minutes(seconds)}, and the window {text} closes in {_minutes(left)}"
    return ""


def _minutes(seconds: float) -> str:
    return f"{seconds / 60:.0f} min"
