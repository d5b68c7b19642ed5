"""What a plan does not know of its hosts, hosts of which the same is unknown in one row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vgpu_cfg.changes.plan import Plan, UnknownHost
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.wording import counted

_TAKES_DOWN = (Impact.HOST_MAINTENANCE, Impact.HOST_REBOOT, Impact.HOST_COLD_BOOT)


@dataclass(frozen=True, slots=True)
class UnknownRow:
    """Hosts of which the same is unknown: `settings` of each, in words, and how `many` of each host.

    `at_most` says what of it could come, of each host; `is_of_shell` that only their shells tell it.
    """

    hosts: tuple[str, ...]
    settings: tuple[str, ...]
    many: int
    at_most: str
    is_of_shell: bool
    remedy: str


def view_unknown(plan: Plan) -> tuple[UnknownRow, ...]:
    """Make the rows, in the plan's order."""
    groups: dict[tuple[object, ...], list[UnknownHost]] = {}
    for found in plan.unknown:
        groups.setdefault((*_row(found), len(found.settings)), []).append(found)
    return tuple(
        UnknownRow(
            hosts=tuple(one.host.name for one in found),
            settings=_titles(found[0]),
            many=len(found[0].settings),
            at_most=at_most(found[0]),
            is_of_shell=_is_of_shell(found[0]),
            remedy=found[0].remedy,
        )
        for found in groups.values()
    )


def _row(found: UnknownHost) -> tuple[object, ...]:
    return _titles(found), at_most(found), _is_of_shell(found), found.remedy


def _titles(found: UnknownHost) -> tuple[str, ...]:
    return tuple(dict.fromkeys(one.title for one in found.settings))


def _is_of_shell(found: UnknownHost) -> bool:
    return all(one.is_of_shell for one in found.settings)


def at_most(found: UnknownHost) -> str:
    """Say what setting all of it would disturb beyond what the plan does anyway."""
    if found.is_checked_only:
        return "only a check was asked for"
    restarts: Sequence[tuple[int, str]] = ((found.reboots, "reboot"), (found.cold_boots, "cold boot"))
    words = [counted(number, noun) for number, noun in restarts if number]
    if words:
        return f"up to {' and '.join(words)}"
    if found.impact is Impact.HOST_MAINTENANCE:
        return "up to maintenance mode"
    return "no restart beyond the plan's" if found.impact in _TAKES_DOWN else "no restart"
