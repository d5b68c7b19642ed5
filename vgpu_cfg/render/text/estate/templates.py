"""How it reads on a terminal what templates have: a table each, and what the plan asks for in vain."""

from __future__ import annotations

from rich.text import Text

from vgpu_cfg.model.template_look import TemplateLook, TemplateLooks, TemplateState
from vgpu_cfg.render.layout.lines import Cell, Column, fold, table_rows

_WORDS = {
    TemplateState.HAS: ("has", "green"),
    TemplateState.LACKS: ("LACKS", "bold red"),
    TemplateState.UNKNOWN: ("unknown", "yellow"),
    TemplateState.NOT_ASKED: ("not asked", "dim"),
}
_COLUMNS = (Column(""), Column(""), Column("FOUND", is_flexible=True), Column("", is_flexible=True))


def render_template_looks(found: TemplateLooks, width: int) -> list[Text]:
    """Lay out what was seen of each template."""
    lines: list[Text] = []
    for look in found.looks:
        lines += [Text(""), *_look(look, width)]
    for name in found.left_over:
        text = f"{name} could not be deleted: delete it by hand, it is no VM of the plan."
        lines += [Text(""), *fold(Text(text, "bold red"), width)]
    return lines


def _look(look: TemplateLook, width: int) -> list[Text]:
    head = Text.assemble("TEMPLATE ", (look.template, "bold"), f"  for {look.vms}, seen in {look.clone}")
    lines = fold(head, width, hang=2)
    if look.silent:
        lines += fold(Text(f"  nobody could look inside: {look.silent}", "yellow"), width, hang=2)
    rows: list[list[Cell]] = [[row.name, Text(*_WORDS[row.state]), row.found, row.why] for row in look.rows]
    lines += [line for row in table_rows(_COLUMNS, rows, width, indent=2) for line in row]
    if look.lacks:
        said = f"The plan asks for what it lacks: {', '.join(look.lacks)}."
        return [*lines, *fold(Text(said, "bold red"), width)]
    return lines
