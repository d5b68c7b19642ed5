"""A plan, or why there is none, as the comment of a merge request: short, within what one may hold.

Belief: comment-lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.suggestion import Suggestion
from vgpu_cfg.errors import DocumentError, VgpuCfgError
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.sync import is_in_sync
from vgpu_cfg.render.markdown.quoting import code, environment, inline, prose, tidy
from vgpu_cfg.render.views.plan import ChangeRow, alike, change_rows, disruption_rows, plan_counts, untouched

MOST_BYTES = 65_536
"""GitHub's limit, in characters; GitLab's is 1,048,576. Bytes are the stricter count."""

_STEPS = (500, 100, 30, 10, 3, 1, 0)
"""How many rows of each table are tried, until all of it fits."""
_LONGEST_CELL = 600
_MOST_HINDRANCES = 8
_MOST_FAULTS = 30


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a comment that may be shortened."""

    disruptions: Sequence[tuple[str, str]]
    rows: Sequence[ChangeRow]
    findings: Sequence[dict[str, object]]
    fix_lines: Sequence[str]


def render_comment(plan: Plan, *, fixes: Suggestion | None = None, command: str = "") -> str:
    """Write a plan as Markdown of at most MOST_BYTES; `command` is what to type next where it is not refused.

    Of tables that are too long the first rows are shown, and the rest is counted.
    """
    merged = [found for found in alike(plan.diagnostics) if found.severity is not Severity.INFO]
    fix = fixes.fixes[0] if fixes is not None and fixes.fixes else None
    parts = _Parts(
        disruptions=[(_cut(names), _cut(what)) for names, what in disruption_rows(plan)],
        rows=[replace(row, names=_cut(row.names), what=_cut(row.what)) for row in change_rows(plan)],
        findings=[
            {
                "code": found.code,
                "severity": found.severity.value,
                "name": _cut(found.subject.name),
                "message": _cut(found.message),
                "remedy": _cut(found.remedy),
                "hindrances": [
                    (_cut(one.subject), _cut(one.reason)) for one in found.hindrances[:_MOST_HINDRANCES]
                ],
                "more_hindrances": max(0, len(found.hindrances) - _MOST_HINDRANCES),
            }
            for found in merged
        ],
        fix_lines=[_cut(line) for line in fix.lines] if fix is not None else [],
    )
    blocked = f"{len(plan.blocked)} of {counted(len(plan.changes), 'change')} blocked" if plan.blocked else ""
    fixed = {
        "plan": plan,
        "verdict": _verdict(plan),
        "counts": ", ".join(plan_counts(plan)),
        "blocked": blocked,
        "read_at": f"{plan.read_at.astimezone():%Y-%m-%d %H:%M %Z}",
        "rest": "".join(untouched(plan)),
        "left": _cut(_left(plan)),
        "fix": fix,
        "fix_text": _fix_text(fixes),
        "finding_counts": _finding_counts(plan),
        "command": "" if plan.errors or not plan.changes else command,
        "limit": f"{MOST_BYTES:,}",
    }
    longest = max(len(parts.disruptions), len(parts.rows), len(parts.findings), len(parts.fix_lines))
    for most in (longest, *(step for step in _STEPS if step < longest)):
        text = _written(fixed, parts, most)
        if len(text.encode()) <= MOST_BYTES:
            break
    return text


def render_error_comment(error: VgpuCfgError) -> str:
    """Write why there is no plan: every fault of a file, or what could not be reached."""
    if isinstance(error, DocumentError):
        faults = [
            f"* {code(f'{fault.file}:{fault.line}')} {_fault(fault.message, fault.hint)}"
            for fault in error.faults
        ]
        shown, left = faults[:_MOST_FAULTS], len(faults) - _MOST_FAULTS
        more = [f"* and {left} more"] if left > 0 else []
        return tidy("\n".join([f"### No plan: {inline(error.message)}", "", *shown, *more]))
    lines = [f"### No plan: {inline(_cut(error.message))}", "", f"Where: {inline(_cut(error.subject))}", ""]
    return tidy("\n".join([*lines, f"Fix: {prose(_cut(error.remedy))}"]))


def _fault(message: str, hint: str) -> str:
    return prose(_cut(f"{message} ({hint})" if hint else message))


def _written(fixed: dict[str, object], parts: _Parts, most: int) -> str:
    listed = {
        "disruptions": parts.disruptions,
        "rows": parts.rows,
        "findings": parts.findings,
        "fix_lines": parts.fix_lines,
    }
    left = {f"more_{name}": max(0, len(rows) - most) for name, rows in listed.items()}
    shown = {name: rows[:most] for name, rows in listed.items()}
    template = environment().get_template("comment.md.j2")
    return tidy(template.render(**fixed, **shown, **left, is_cut=any(left.values())))


def _verdict(plan: Plan) -> str:
    errors = sum(found.severity is Severity.ERROR for found in alike(plan.diagnostics))
    if errors:
        return f"Rejected, {counted(errors, 'error')}"
    if is_in_sync(plan):
        return "In sync"
    return "Changes pending" if plan.changes else "Differences that the plan cannot fix"


def _left(plan: Plan) -> str:
    """List the manual steps of the plan, and the values it could not read."""
    words = []
    if plan.orphans:
        words.append(f"Not in the plan file: {fold_names(plan.orphans)}.")
    if plan.unknown:
        words.append(f"Partly unknown: {fold_names(one.host.name for one in plan.unknown)}.")
    return " ".join(words)


def _fix_text(fixes: Suggestion | None) -> str:
    if fixes is None or not fixes.fixes:
        return ""
    leave = "requires approval; " if fixes.fixes[0].needs_leave else ""
    others = f"; {counted(len(fixes.fixes) - 1, 'other')} in `plan`" if len(fixes.fixes) > 1 else ""
    return f"{leave}validated: no errors{others}"


def _finding_counts(plan: Plan) -> str:
    severities = [found.severity for found in alike(plan.diagnostics)]
    return ", ".join(
        counted(severities.count(severity), severity.value) for severity in Severity if severity in severities
    )


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_CELL else f"{text[: _LONGEST_CELL - 1]}…"
