"""Rows of DISRUPTION: all that a plan stops, restarts, moves, deletes or cuts off, for every output.

A plan's unknown settings of hosts, hosts with the same unknowns in one row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from vgpu_cfg.changes.plan import Plan, UnknownHost
from vgpu_cfg.changes.reach import Experience
from vgpu_cfg.changes.values import Impact, Subject
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted, duration
from vgpu_cfg.render.views.plan.whole import BLOCKED, host_efforts

_IMPACT_WORDS = {
    Impact.SERVICE_RESTART: "service restart",
    Impact.VMOTION: "vMotion",
    Impact.POWER_CYCLE: "power cycle",
    Impact.HOST_MAINTENANCE: "maintenance mode",
    Impact.HOST_REBOOT: "host reboot",
    Impact.HOST_COLD_BOOT: "host cold boot",
}
_SHOWN_WITH_CHANGES = frozenset({Experience.VMOTION, Experience.POWERED_OFF})
"""The row of the host, or of the change itself, says these."""
_NOUNS = {"host": "host", "vm": "VM", "disk": "disk", "device": "device"}

_TAKES_DOWN = (Impact.HOST_MAINTENANCE, Impact.HOST_REBOOT, Impact.HOST_COLD_BOOT)


@dataclass(frozen=True, slots=True)
class DisruptionRow:
    """The subjects of a disruption. `more` is its cause, and the number of hosts and VMs."""

    what: str
    names: tuple[str, ...]
    more: str = ""
    is_blocked: bool = False


def disruption_rows(plan: Plan) -> Iterator[tuple[str, str]]:
    """Yield the disrupted subjects, folded, and the disruption; hosts first."""
    efforts = [effort for effort in host_efforts(plan.changes).values() if effort.text]
    by_words: dict[str, list[str]] = {}
    for effort in efforts:
        words = [effort.text]
        words += [f"migrates {fold_names(effort.moved)}"] * bool(effort.moved)
        words += [f"powers off {fold_names(effort.switched_off)}"] * bool(effort.switched_off)
        by_words.setdefault("; ".join(words), []).append(effort.name)
    yield from ((fold_names(names), what) for what, names in by_words.items())
    for row in other_disruptions(plan, {name for effort in efforts for name in effort.switched_off}):
        what = " ".join(part for part in (row.what, row.more) if part)
        yield fold_names(row.names), f"{what}, {BLOCKED}" if row.is_blocked else what


def other_disruptions(plan: Plan, reported: set[str]) -> list[DisruptionRow]:
    """Group all subjects except hosts by disruption, and by whether it is blocked.

    `reported` are VMs that a host's row names.
    """
    removed = {change.subject.name for change in plan.changes if change.deletes}
    blocked = {change.subject.name for change in plan.changes if change.id in plan.blocked}
    impacts: dict[str, set[Impact]] = {}
    by_words: dict[tuple[str, bool], list[str]] = {}
    for change in plan.changes:
        name = change.subject.name
        if change.deletes:
            by_words.setdefault(("deletion", name in blocked), []).append(name)
        elif change.subject.kind == "host" or change.impact is Impact.NONE or name in removed:
            continue
        elif not (name in reported and (change.starts or change.stops)):
            impacts.setdefault(name, set()).add(change.impact)
    stuns = {one.moves.name: one.timing.stun_ms for one in plan.changes if one.moves}
    for name, found in impacts.items():
        words = ", ".join(word for impact, word in _IMPACT_WORDS.items() if impact in found)
        if Impact.VMOTION in found and (stun := stuns.get(name)) is not None:
            words += f", {duration(stun / 1000)}"
        by_words.setdefault((words, name in blocked), []).append(name)
    own = [DisruptionRow(what, tuple(names), is_blocked=is_so) for (what, is_so), names in by_words.items()]
    return [*own, *_shared(plan)]


def _shared(plan: Plan) -> Iterator[DisruptionRow]:
    """Group the disrupted subjects that have no changes of their own."""
    groups: dict[tuple[str, str, str, bool, bool], dict[Subject, None]] = {}
    for one in plan.disturbed:
        if one.experience not in _SHOWN_WITH_CHANGES:
            key = (one.experience.value, one.through, one.note, one.is_own, one.change in plan.blocked)
            groups.setdefault(key, {})[one.subject] = None
    for (what, through, note, is_own, is_blocked), subjects in groups.items():
        kinds = Counter(subject.kind for subject in subjects)
        counts = [counted(kinds[kind], noun) for kind, noun in _NOUNS.items() if kinds[kind]]
        whose = "of this plan" if is_own else "not of this plan"
        number = f"{' and '.join(counts)} {whose}" if counts else ""
        more = ", ".join(part for part in (f"through {through}" if through else "", number, note) if part)
        in_order = sorted(subjects, key=lambda subject: subject.kind)
        yield DisruptionRow(what, tuple(one.name for one in in_order), f"({more})", is_blocked)


@dataclass(frozen=True, slots=True)
class UnknownRow:
    """Hosts with the same unknowns: `settings` of each, in words, and how `many` of each host.

    `at_most` is the greatest effect on each host; `is_of_shell` is whether only their shells show the values.
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
    """List the disruptions of setting all of it, beyond the plan's own."""
    if found.is_checked_only:
        return "check only"
    restarts: Sequence[tuple[int, str]] = ((found.reboots, "reboot"), (found.cold_boots, "cold boot"))
    words = [counted(number, noun) for number, noun in restarts if number]
    if words:
        return f"up to {' and '.join(words)}"
    if found.impact is Impact.HOST_MAINTENANCE:
        return "up to maintenance mode"
    return "no additional restart" if found.impact in _TAKES_DOWN else "no restart"
