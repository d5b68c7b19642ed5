"""In how many stretches a host's settings are written, and what restarts lie between them.

A setting that needs another one in force, which itself needs a reboot, is written after
that reboot: the longest such chain is the number of restarts, and no setting costs one more. What
a reboot drops is written after the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from vgpu_cfg.model.plan.change import Impact
from vgpu_cfg.planning.host_settings.case import Gap, GapKind
from vgpu_cfg.planning.host_settings.entry import HostSetting, HostView, Reading, Wish, needs_of

_NEEDS_EMPTY_HOST = (Impact.HOST_MAINTENANCE, Impact.HOST_REBOOT, Impact.HOST_COLD_BOOT)


@dataclass(slots=True)
class Stretches:
    """What is written between restarts, in order; restart i comes after stretch i.

    `cold` says of each restart whether it must be a cold boot. `services` are restarted at
    the end, for what no reboot brings anyway.
    """

    gaps: list[list[Gap]] = field(default_factory=lambda: [[]])
    cold: list[bool] = field(default_factory=list)
    services: dict[str, list[Gap]] = field(default_factory=dict)

    @property
    def restarts(self) -> int:
        """How often the host restarts."""
        return len(self.cold)

    @property
    def everything(self) -> list[Gap]:
        """All gaps, in the order in which they are met."""
        return [gap for stretch in self.gaps for gap in stretch]

    @property
    def needs_empty_host(self) -> bool:
        """Whether the host must be in maintenance mode meanwhile."""
        return any(gap.impact in _NEEDS_EMPTY_HOST for gap in self.everything)

    @property
    def touches_graphics(self) -> bool:
        """Whether a service is restarted that VMs with GPUs do not survive."""
        return bool(self.services)


def make_stretches(
    view: HostView, gaps: Sequence[Gap], right: Sequence[tuple[HostSetting, Wish, Reading]]
) -> Stretches:
    """Put gaps into stretches; settings that are right and would be dropped by a reboot come last."""
    order = _in_order(gaps)
    level: dict[str, int] = {}
    for gap in order:
        least = 0
        for other in order:
            if other.wish.id not in level or other.wish.id == gap.wish.id:
                continue
            if other.setting.key in needs_of(gap.setting, gap.wish) and _is_related(other.wish, gap.wish):
                # What is written already is brought by the same restart as what it needs.
                waits = other.restarts and not gap.is_written
                least = max(least, level[other.wish.id] + waits)
            elif other.setting.key in gap.setting.after and _is_related(other.wish, gap.wish):
                least = max(least, level[other.wish.id])
        level[gap.wish.id] = least
    restarts = max((level[gap.wish.id] + 1 for gap in gaps if gap.restarts), default=0)
    found = Stretches(gaps=[[] for _ in range(restarts + 1)], cold=[False] * restarts)
    for gap in order:
        is_dropped = restarts > 0 and gap.setting.is_dropped_by_reboot(view, gap.wish)
        place = restarts if is_dropped else level[gap.wish.id]
        found.gaps[place].append(gap)
        if gap.impact is Impact.HOST_COLD_BOOT:
            found.cold[place] = True
        if gap.impact is Impact.SERVICE_RESTART and place == restarts:
            found.services.setdefault(gap.setting.service, []).append(gap)
    if restarts:
        found.gaps[-1] += [
            Gap(setting, wish, reading, GapKind.DROPPED, setting.impact(view, wish))
            for setting, wish, reading in right
            if setting.is_dropped_by_reboot(view, wish)
        ]
    return found


def _in_order(gaps: Sequence[Gap]) -> list[Gap]:
    """Sort so that whatever a setting needs or comes after stands before it; else as the table has it."""
    left = list(gaps)
    found: list[Gap] = []
    while left:
        ready = next((gap for gap in left if not _waits(gap, left)), left[0])
        left.remove(ready)
        found.append(ready)
    return found


def _waits(gap: Gap, others: Sequence[Gap]) -> bool:
    return any(other is not gap and waits_for(gap, other) for other in others)


def waits_for(gap: Gap, other: Gap) -> bool:
    """Whether one setting is written after another one."""
    keys = (*needs_of(gap.setting, gap.wish), *gap.setting.after)
    return other.setting.key in keys and _is_related(other.wish, gap.wish)


def make_calls(gaps: Sequence[Gap]) -> list[tuple[str, list[Gap]]]:
    """Put the gaps of one group (HostSetting.group) into one call each, in an order that their needs allow.

    A group comes in two calls only where something between needs one part of it and precedes the other.
    """
    calls: list[tuple[str, list[Gap]]] = []
    for gap in gaps:
        group = gap.setting.group
        at = next((i for i in reversed(range(len(calls))) if calls[i][0] == group), None)
        if at is None:
            calls.append((group, [gap]))
            continue
        later = [one for _, call in calls[at + 1 :] for one in call]
        if not _waits(gap, later):
            calls[at][1].append(gap)
        elif any(_waits(one, calls[at][1]) for one in later):
            calls.append((group, [gap]))
        else:
            calls.append((group, [*calls.pop(at)[1], gap]))
    return calls


def _is_related(one: Wish, other: Wish) -> bool:
    """Whether two settings are of the same device, or one of them of the whole host."""
    first, second = one.device.split(" ")[0], other.device.split(" ")[0]
    return not first or not second or first == second
