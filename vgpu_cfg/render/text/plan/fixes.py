"""How fixes read: the lines to paste, what they disturb, what needs leave, and what is done outside."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from vgpu_cfg.changes.suggestion import Fix, FixKind, Suggestion
from vgpu_cfg.model.wording import counted
from vgpu_cfg.render.layout.lines import fold, hanging

_STYLES = {"+": "green", "-": "red"}
_LABEL = 5


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
        verb = "was" if found.tried == 1 else "were"
        return f"none is known: {counted(found.tried, 'plan')} {verb} tried, and none was without an error"
    return f"none was found within the limit of {counted(found.tried, 'plan')}"


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
        shown = Text(f"{margin}{edit}", style=_STYLES.get(edit[0], ""))
        depth = len(edit) - len(edit[1:].lstrip())
        yield from fold(shown, width, hang=len(margin) + depth + 4)
    told = [("disturbs", text) for text in fix.disturbs] + [("then", one.says) for one in fix.others]
    if told:
        yield Text("")
    for label, text in told:
        for line in hanging(label, text, width - len(margin), indent=0, label_width=8, style="yellow"):
            yield Text(margin) + line


def _what(fix: Fix) -> str:
    tried = "planned again with it: no errors"
    if fix.is_outside and fix.lines:
        return f"an act outside and these lines of the plan file ({tried})"
    if fix.is_outside:
        return f"outside of the plan file ({tried})"
    if fix.needs_leave and fix.lines:
        return f"only with your leave, these lines of the plan file ({tried})"
    if fix.needs_leave:
        return f"only with your leave ({tried})"
    return f"these lines of the plan file ({tried})"


def _write(command: str, is_written: str, width: int) -> list[Text]:
    margin = " " * (_LABEL + 1)
    text = f"{is_written} has these lines, your comments kept" if is_written else command
    note = "" if is_written else "   writes them, your comments kept"
    return [Text(margin) + line for line in fold(Text(text + note), width - len(margin))]
