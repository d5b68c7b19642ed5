"""Findings and fixes on a terminal: code, subject and problem; the lines to paste, and their disruptions.

Below a finding are its reasons and the fix. A fix also shows required approvals, and steps outside the plan.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from rich.text import Text

from vgpu_cfg.changes.plan import Diagnostic, Hindrance
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.suggestion import Fix, FixKind, Suggestion
from vgpu_cfg.model.wording import counted
from vgpu_cfg.render.layout.lines import MAX_PROSE, abridged, abridged_runs, fold, hanging, short
from vgpu_cfg.render.layout.most import USUAL, Most
from vgpu_cfg.render.views.plan import alike

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_ORDER = tuple(_STYLES)
_CODE_WIDTH = 7
_MARGIN = 2 + _CODE_WIDTH
_IN_THE_WAY = "blocked by"
_DO = "do"
_LEAST_ROOM = 24
"""Reasons are put below their subject if less than this is left next to it."""

_FIXES_STYLES = {"+": "green", "-": "red"}
_LABEL = 5


def render_findings(findings: Sequence[Diagnostic], width: int, *, most: Most = USUAL) -> list[Text]:
    """Lay out a block of findings under a heading that counts them; empty where there are none.

    Unless all are shown, those of severity info are only counted, and of many of one code only the first.
    """
    if not findings:
        return []
    merged = alike(findings)
    counts = [
        counted(number, severity.value)
        for severity in _ORDER
        if (number := sum(found.severity is severity for found in merged)) or severity is not Severity.INFO
    ]
    shown = [found for found in merged if most.is_all or found.severity is not Severity.INFO]
    hint = "" if len(shown) == len(merged) else "  (-v shows all)"
    lines = [Text.assemble(("FINDINGS", "bold"), f"  {', '.join(counts)}", (hint, "dim"))]
    codes = [list(same) for _, same in groupby(shown, key=lambda found: (found.code, found.severity))]
    for alike_ones in codes[: most.codes]:
        code, told = alike_ones[0].code, alike_ones[: most.of_a_code]
        for found in told:
            lines += render_finding(found, width, most=most)
        if left := alike_ones[len(told) :]:
            subjects = dict.fromkeys(found.subject.name for found in left)
            where = "" if most.runs is None else f", {abridged(subjects, most.runs)}"
            more = Text(f"and {len(left):,} more of {code}{where} (-v shows all)", "dim")
            lines += [Text(" " * _MARGIN) + part for part in fold(more, width - _MARGIN)]
    if rest := codes[most.codes or len(codes) :]:
        kinds = f"{sum(map(len, rest)):,} more of {short((same[0].code for same in rest), 6)}"
        lines.append(Text(f"  and {kinds} (-v shows all)", "dim"))
    return lines


def render_finding(found: Diagnostic, width: int, *, most: Most = USUAL) -> list[Text]:
    """Lay out one finding."""
    head = (found.code, _STYLES[found.severity], abridged_runs(found.subject.name, most.runs))
    return lay_out(head, found.message, found.remedy, width, hindrances=found.hindrances, most=most)


def lay_out(
    head: tuple[str, str, str],
    message: str,
    remedy: str,
    width: int,
    *,
    hindrances: Sequence[Hindrance] = (),
    most: Most = USUAL,
) -> list[Text]:
    """Lay out a finding: `head` is its code, the code's style and its subject."""
    code, style, name = head
    room = min(width, MAX_PROSE) - _MARGIN
    margin = Text(" " * _MARGIN)
    what = fold(Text.assemble((name, "bold"), f": {message}"), room)
    lines = [Text.assemble("  ", (f"{code:<{_CODE_WIDTH}}", style)) + what[0]]
    lines += [margin + part for part in what[1:]]
    label_width = (len(_IN_THE_WAY) if hindrances else len(_DO)) + 2
    told = _hindrance_lines(hindrances, room - label_width, most)
    lines += _labelled(_IN_THE_WAY, told, label_width)
    if remedy:
        lines += _labelled(_DO, fold(Text(remedy), room - label_width), label_width)
    return lines


def _labelled(label: str, body: Sequence[Text], label_width: int) -> list[Text]:
    margin = " " * _MARGIN
    return [
        Text.assemble(margin, (f"{'' if number else label:<{label_width}}", "dim")) + part
        for number, part in enumerate(body)
    ]


def _hindrance_lines(hindrances: Sequence[Hindrance], room: int, most: Most) -> list[Text]:
    """Lay out a table of subjects and reasons; a repeated first column is shown once."""
    shown = hindrances[: most.hindrances]
    longest = max((len(one.subject) for one in shown), default=0)
    is_beside = room - longest - 2 >= _LEAST_ROOM
    lines: list[Text] = []
    for subject, same in groupby(shown, key=lambda one: one.subject):
        reasons = [reason for one in same for reason in _reason_lines(one, room, longest if is_beside else 0)]
        if is_beside:
            starts = [subject, *[""] * (len(reasons) - 1)]
            lines += [
                Text(f"{start:<{longest}}  ") + reason for start, reason in zip(starts, reasons, strict=True)
            ]
        else:
            lines += [*fold(Text(subject), room), *(Text("  ") + reason for reason in reasons)]
    if left := len(hindrances) - len(shown):
        lines.append(Text(f"and {left} more (-v shows all)", "dim"))
    return lines


def _reason_lines(one: Hindrance, room: int, beside: int) -> list[Text]:
    return fold(Text(one.reason), room - beside - 2, hang=2)


def render_fixes(found: Suggestion, width: int, *, command: str, is_written: str = "") -> list[Text]:
    """Lay out what helps, the best first; `command` writes the edited file, `is_written` names one that was.

    Empty where nothing was tried.
    """
    if not found.tried:
        return []
    if not found.fixes:
        return [Text(""), *hanging("FIX", _none(found), width, indent=0, label_width=_LABEL, style="bold")]
    lines: list[Text] = []
    for number, fix in enumerate(found.fixes):
        lines += [Text(""), *_fix(fix, width, is_first=not number)]
    with_text = next((fix for fix in found.fixes if fix.text), None)
    if with_text is not None:
        lines += [Text(""), *_write(command, is_written, width)]
    return lines


def _none(found: Suggestion) -> str:
    if found.is_complete:
        return f"No automatic fix found ({counted(found.tried, 'plan')} tried)"
    stopped = f"the search stopped at its limit of {counted(found.tried, 'plan')} for a site of this size"
    return f"No automatic fix found: {stopped}. Follow the findings above"


def _fix(fix: Fix, width: int, *, is_first: bool) -> Iterator[Text]:
    label = "FIX" if is_first else "OR"
    yield from hanging(label, _what(fix), width, indent=0, label_width=_LABEL, style="bold green")
    margin = " " * (_LABEL + 1)
    for part in fix.parts:
        if part.kind is FixKind.FILE:
            continue
        head = {FixKind.LEAVE: "accept", FixKind.FLAG: "flag", FixKind.OUTSIDE: "outside"}[part.kind]
        for line in hanging(head, part.says, width - len(margin), indent=0, label_width=8):
            yield Text(margin) + line
        for command in part.lines:
            for line in hanging("", command, width - len(margin), indent=0, label_width=8):
                yield Text(margin) + line
    if fix.lines:
        yield Text("")
    for edit in fix.lines:
        shown = Text(f"{margin}{edit}", style=_FIXES_STYLES.get(edit[0], ""))
        depth = len(edit) - len(edit[1:].lstrip())
        yield from fold(shown, width, hang=len(margin) + depth + 4)
    told = [("disrupts", text) for text in fix.disturbs] + [("then", one.says) for one in fix.others]
    if told:
        yield Text("")
    for label, text in told:
        for line in hanging(label, text, width - len(margin), indent=0, label_width=8, style="yellow"):
            yield Text(margin) + line


def _what(fix: Fix) -> str:
    tried = "validated: no errors"
    if fix.is_outside and fix.lines:
        return f"A change outside the plan file, and this edit to the plan file ({tried}):"
    if fix.is_outside:
        return f"A change outside the plan file ({tried}):"
    if fix.needs_leave and fix.lines:
        return f"Edit the plan file (requires approval; {tried}):"
    if fix.needs_leave:
        return f"Requires approval ({tried}):"
    return f"Edit the plan file ({tried}):"


def _write(command: str, is_written: str, width: int) -> list[Text]:
    margin = " " * (_LABEL + 1)
    text = f"{is_written} contains these lines and keeps your comments" if is_written else command
    note = "" if is_written else "   writes these lines and keeps your comments"
    return [Text(margin) + line for line in fold(Text(text + note), width - len(margin))]
