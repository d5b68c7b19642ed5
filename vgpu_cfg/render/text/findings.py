"""How findings read: errors first, the code, whom it is about, what it says, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from vgpu_cfg.model.plan.change import Diagnostic, Severity
from vgpu_cfg.render.layout.lines import counted, fold

_STYLES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}
_ORDER = tuple(_STYLES)
_CODE_WIDTH = 7
_MOST_NAME_WIDTH = 14


def render_findings(findings: Sequence[Diagnostic], width: int, *, with_all: bool = False) -> list[Text]:
    """Lay out a block of findings under a heading that counts them; empty where there are none.

    Those of severity info are only counted unless `with_all`.
    """
    if not findings:
        return []
    counts = [
        counted(number, severity.value)
        for severity in _ORDER
        if (number := sum(found.severity is severity for found in findings)) or severity is not Severity.INFO
    ]
    shown = [found for found in findings if with_all or found.severity is not Severity.INFO]
    hint = "" if len(shown) == len(findings) else "  (-v shows all)"
    lines = [Text.assemble(("FINDINGS", "bold"), f"  {', '.join(counts)}", (hint, "dim"))]
    longest = max((len(found.subject.name) for found in shown), default=0)
    for found in sorted(shown, key=lambda one: _ORDER.index(one.severity)):
        lines += _finding(found, min(longest, _MOST_NAME_WIDTH), width)
    return lines


def _finding(found: Diagnostic, name_width: int, width: int) -> list[Text]:
    head = (found.code, _STYLES[found.severity], found.subject.name)
    return lay_out(head, found.message, found.remedy, name_width, width)


def lay_out(
    head: tuple[str, str, str], message_text: str, remedy_text: str, name_width: int, width: int
) -> list[Text]:
    """Lay out what was found: `head` is its code, the code's style and whom it is about."""
    code, style, name = head
    margin = " " * (2 + _CODE_WIDTH + name_width + 2)
    start = Text.assemble("  ", (f"{code:<{_CODE_WIDTH}}", style))
    message = fold(Text(message_text), width - len(margin))
    lines: list[Text] = []
    if len(name) > name_width:
        lines.append(start + Text(name))
        start = Text(margin)
    else:
        start = Text.assemble(start, f"{name:<{name_width}}  ")
    lines.append(start + message[0])
    lines += [Text(margin) + part for part in message[1:]]
    if remedy_text:
        remedy = fold(Text(f"-> {remedy_text}"), width - len(margin), hang=3)
        lines += [Text(margin) + part for part in remedy]
    return lines
