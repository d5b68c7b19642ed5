"""What differs between a case's plan and its table, told so that it can be pasted into the table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tests.plans.short_form import (
    Finding,
    changes_of,
    contest_of,
    departures_of,
    edits_of,
    findings_of,
    is_ordinary,
    lines_of,
    placed_of,
    started_of,
)
from tests.plans.tables import Row, members_of
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.documents import dump
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.render.views.plan import canary_text, view_unknown

Edits = dict[str, dict[str, Any]]
"""By change, and by key: its text, or several; None where the change must not have such an edit."""


def differences(expected: Row, plan: Plan, observed: Inventory) -> str:
    """Return what was found where it is not as expected, in the words of a table; nothing where all is."""
    return "\n".join(dump({key: found}) for key, found in _differing(expected, plan, observed))


def _differing(expected: Row, plan: Plan, observed: Inventory) -> Iterator[tuple[str, Any]]:
    findings = findings_of(plan)
    if not _are_told(expected.get("findings") or [], findings):
        yield "findings", [{one.head: f"{one.message} -> {one.remedy}"} for one in findings]
    if "placed" in expected and (expected["placed"] or {}) != (placed := placed_of(plan)):
        yield "placed", placed
    if "blocked" in expected and expected["blocked"] != (blocked := blocked_of(plan)):
        yield "blocked", blocked
    for key, names in names_of(plan).items():
        if (expected.get(key) or "") != names:
            yield key, names
    if not ("changes" in expected or plan.errors or is_ordinary(plan, observed)) or (
        "changes" in expected and _heads(expected["changes"]) != [str(line) for line in lines_of(plan)]
    ):
        yield "changes", [str(line) for line in lines_of(plan)]
    told = _told(expected, plan)
    edits = _found(plan, told)
    if edits != told and not (plan.errors and not told):
        yield "edits", edits


def names_of(plan: Plan) -> dict[str, str]:
    """What a plan says of VMs and hosts by their names alone."""
    return {
        "started": started_of(plan),
        "in_sync": fold_names(plan.in_sync),
        "hosts_in_sync": fold_names(plan.hosts_in_sync),
        "orphans": fold_names(plan.orphans),
        "one_by_one": "; ".join(map(contest_of, plan.contests)),
        "canary": "; ".join(map(canary_text, plan.canaries)),
        "unknown": "; ".join(
            f"{fold_names(row.hosts)}: {', '.join(row.settings)}, {row.at_most}" for row in view_unknown(plan)
        ),
    }


def blocked_of(plan: Plan) -> str:
    """What the changes are about that an error stands against."""
    names = (change.subject.name for change in plan.changes if change.id in plan.blocked)
    return fold_names(sorted(dict.fromkeys(names)))


def _are_told(told: Sequence[Any], found: Sequence[Finding]) -> bool:
    rows = [(row, None) if isinstance(row, str) else next(iter(row.items())) for row in told]
    return [head for head, _ in rows] == [one.head for one in found] and all(
        words is None or one.says(words) for (_, words), one in zip(rows, found, strict=True)
    )


def _heads(rows: Any) -> list[str]:
    return [row if isinstance(row, str) else next(iter(row)) for row in rows or ()]


def _told(expected: Row, plan: Plan) -> Edits:
    """Return the edits that a case states, by the ids of changes."""
    by_line = {str(line): line.changes for line in lines_of(plan)}
    told: Edits = {}
    for row in expected.get("changes") or ():
        for head, edits in [] if isinstance(row, str) else row.items():
            told |= {change.id: edits for change in by_line.get(head, ())}
    ids = {change.id for change in changes_of(plan)}
    for name, edits in (expected.get("edits") or {}).items():
        told |= dict.fromkeys([name] if name in ids else members_of(name), edits)
    return told


def _found(plan: Plan, told: Edits) -> Edits:
    """Return the edits that differ from the ordinary, and those that the case speaks of."""
    found: Edits = {}
    for change in changes_of(plan):
        own = edits_of(change)
        keys = [*departures_of(change), *told.get(change.id, {})]
        if texts := {key: _one(own.get(key)) for key in own | dict.fromkeys(keys) if key in keys}:
            found[change.id] = texts
    return found


def _one(texts: Sequence[str] | None) -> Any:
    if texts is None:
        return None
    if len(texts) > 2 and len(set(texts)) == 1:
        return f"{len(texts)} × {texts[0]}"
    return texts[0] if len(texts) == 1 else list(texts)
