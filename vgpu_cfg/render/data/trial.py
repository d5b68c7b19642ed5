"""The JSON of a trial, and of the objects that trials have left."""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.knowledge.beliefs import load_beliefs
from vgpu_cfg.planning.doctor.trials import Left, Outline, Remaining, needs_of
from vgpu_cfg.planning.doctor.tried import Tried
from vgpu_cfg.render.data.format import FORMAT, Data


def trial_data(outline: Outline, tried: Sequence[Tried], left: Sequence[Remaining]) -> Data:
    """Return the outline of a trial, its verdicts, and the objects that remain."""
    known = load_beliefs()
    return {
        "kind": "trial",
        "format": FORMAT,
        "server": outline.server,
        "trial": outline.mark.id,
        "expires_at": outline.mark.until.isoformat(),
        "steps": list(outline.steps),
        "minutes": outline.minutes,
        "datastore_mib": outline.datastore_mib,
        "calls": dict(outline.calls),
        "remains": {"tasks": outline.tasks, "events": outline.calls.total()},
        "privileges": sorted({name for need in needs_of(outline.experiments) for name in need.privileges}),
        "beliefs": [
            {
                "id": one.belief,
                "verdict": one.verdict.value,
                "statement": known[one.belief].statement,
                "seen": one.seen,
            }
            for one in tried
        ],
        "left": [{**_left(one), "reason": reason} for one, reason in left],
    }


def clean_data(
    found: Sequence[Left], removed: Sequence[Left], left: Sequence[Remaining], server: str
) -> Data:
    """Return the objects of trials, each with whether it was removed."""
    reasons = {one.moid: reason for one, reason in left}
    gone = {one.moid for one in removed} - reasons.keys()
    return {
        "kind": "trial-clean",
        "format": FORMAT,
        "server": server,
        "objects": [
            {**_left(one), "is_removed": one.moid in gone, "reason": reasons.get(one.moid, "")}
            for one in found
        ],
    }


def _left(one: Left) -> Data:
    return {
        "kind": one.kind,
        "moid": one.moid,
        "name": one.name,
        "trial": one.mark.id,
        "expires_at": one.mark.until.isoformat(),
        "is_proven": one.is_proven,
    }
