"""How findings read: errors first, the code, whom it is about, what it says, and what to do."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from vgpu_cfg.model.change import Diagnostic, Severity
from vgpu_cfg.render.layout import counted, fold

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
    name = found.subject.name
    margin = " " * (2 + _CODE_WIDTH + name_width + 2)
    head = Text.assemble("  ", (f"{found.code:<{_CODE_WIDTH}}", _STYLES[found.severity]))
    message = fold(Text(found.message), width - len(margin))
    lines: list[Text] = []
    if len(name) > name_width:
        lines.append(head + Text(name))
        head = Text(margin)
    else:
        head = Text.assemble(head, f"{name:<{name_width}}  ")
    lines.append(head + message[0])
    lines += [Text(margin) + part for part in message[1:]]
    if found.remedy:
        remedy = fold(Text(f"-> {found.remedy}"), width - len(margin), hang=3)
        lines += [Text(margin) + part for part in remedy]
    return lines
