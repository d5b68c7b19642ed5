"""The page of a check: its Markdown, laid out for a width."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console
from rich.markdown import Markdown
from rich.text import Text

from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.render.layout.lines import both_ends

if TYPE_CHECKING:
    from vgpu_cfg.knowledge.check_pages import CheckPage
    from vgpu_cfg.knowledge.verify_failures import Failure
    from vgpu_cfg.planning.findings.codes import Code

_SEVERITIES = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.INFO: "cyan"}


def render_page(check: Code | Failure, page: CheckPage, width: int) -> list[Text]:
    """Lay out a check's page: code, title, severity and basis, then its sections."""
    lines = both_ends(
        Text.assemble((page.code, "bold"), f"  {check.summary}"),
        Text.assemble((check.severity.value, _SEVERITIES[check.severity]), f", {check.basis}"),
        width,
    )
    for section in page.sections:
        lines += [Text(""), Text(section.heading, style="bold"), *_markdown(section.text, width)]
    return lines


def _markdown(text: str, width: int) -> list[Text]:
    console = Console(file=io.StringIO(), width=width - 2, highlight=False, emoji=False)
    document = Markdown(text, hyperlinks=False, code_theme="ansi_dark")
    lines = (
        Text("  ") + Text.assemble(*((part.text, part.style or "") for part in line if not part.control))
        for line in console.render_lines(document, pad=False)
    )
    # rich frames a block of code with blank lines of its own.
    gathered = [Text("")]
    for line in lines:
        if line.plain.strip() or gathered[-1].plain.strip():
            gathered.append(line)
    return gathered[1:] if gathered[-1].plain.strip() else gathered[1:-1]
