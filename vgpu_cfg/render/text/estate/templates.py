"""Templates and software stacks on a terminal: a table each, then missing requirements or open questions.

The table of a template shows its content, then the plan's missing requirements. The stacks of VMs next to a
driver branch are a table per VM, then the open questions.
"""

from __future__ import annotations

from rich.text import Text

from vgpu_cfg.model.guest_looks import (
    BranchPlan,
    BranchVerdict,
    FitsBranch,
    TemplateLook,
    TemplateLooks,
    TemplateState,
    VmStack,
)
from vgpu_cfg.render.layout.lines import Cell, Column, fold, table_rows

_WORDS = {
    TemplateState.HAS: ("has", "green"),
    TemplateState.LACKS: ("LACKS", "bold red"),
    TemplateState.UNKNOWN: ("unknown", "yellow"),
    TemplateState.NOT_ASKED: ("not checked", "dim"),
}
_COLUMNS = (Column(""), Column(""), Column("FOUND", is_flexible=True), Column("", is_flexible=True))

_STYLES = {FitsBranch.YES: "green", FitsBranch.NO: "bold red", FitsBranch.UNKNOWN: "yellow"}
_BRANCHES_COLUMNS = (
    Column("COMPONENT"),
    Column("FOUND", is_flexible=True),
    Column("TODAY"),
    Column("THEN"),
    Column("WHY", is_flexible=True),
)


def render_template_looks(found: TemplateLooks, width: int) -> list[Text]:
    """Lay out the content found in each template."""
    lines: list[Text] = []
    for look in found.looks:
        lines += [Text(""), *_look(look, width)]
    for name in found.left_over:
        text = f"{name} could not be deleted. Delete it manually; it does not belong to the plan."
        lines += [Text(""), *fold(Text(text, "bold red"), width)]
    return lines


def _look(look: TemplateLook, width: int) -> list[Text]:
    head = Text.assemble("TEMPLATE ", (look.template, "bold"), f"  for {look.vms}, checked in {look.clone}")
    lines = fold(head, width, hang=2)
    if look.silent:
        lines += fold(Text(f"  could not inspect the guest: {look.silent}", "yellow"), width, hang=2)
    rows: list[list[Cell]] = [[row.name, Text(*_WORDS[row.state]), row.found, row.why] for row in look.rows]
    lines += [line for row in table_rows(_COLUMNS, rows, width, indent=2) for line in row]
    if look.lacks:
        said = f"The plan requires components that are missing from the template: {', '.join(look.lacks)}."
        return [*lines, *fold(Text(said, "bold red"), width)]
    return lines


def render_branch_plan(found: BranchPlan, width: int) -> list[Text]:
    """Lay out the matrix; unknown values are listed with the question to ask, once each."""
    title = f" on {found.server}, to driver R{found.branch}, {found.begun:%Y-%m-%d %H:%M}"
    lines = [Text.assemble((found.plan, "bold"), title)]
    lines += [line for text in found.about for line in _folded(text, width)]
    for stack in found.stacks:
        lines += [Text(""), Text.assemble((stack.vm, "bold"), f"  {stack.host or 'not on a host yet'}")]
        if stack.unread:
            lines += _folded(f"guest not inspected: {stack.unread}", width)
        lines += [
            line for row in table_rows(_BRANCHES_COLUMNS, _rows(stack), width, indent=2) for line in row
        ]
        for number, step in enumerate(stack.order, start=1):
            lines += _folded(f"{number}. {step}", width)
    asked = _questions(found)
    if asked:
        lines += [Text(""), Text("QUESTIONS TO CLARIFY", style="bold")]
        lines += [line for text in asked for line in _folded(text, width)]
    return [*lines, Text(""), *_end(found, width)]


def _end(found: BranchPlan, width: int) -> list[Text]:
    if found.lacks:
        return fold(Text(f"Not compatible: {', '.join(found.lacks)}.", "bold red"), width)
    return fold(
        Text("No vendor document rules out a component. Unknown does not mean supported.", "yellow"), width
    )


def _folded(text: str, width: int) -> list[Text]:
    return [Text.assemble("  ", line) for line in fold(Text(text), width - 2, hang=2)]


def _rows(stack: VmStack) -> list[list[Cell]]:
    return [
        [part.name, part.found or "unknown", _sign(part.today), _sign(part.target), part.target.why]
        for part in stack.parts
    ]


def _sign(verdict: BranchVerdict) -> Text:
    return Text(verdict.fits.value, _STYLES[verdict.fits])


def _questions(found: BranchPlan) -> list[str]:
    """Return the questions for unknown values, each once."""
    return list(
        dict.fromkeys(
            f"{part.name}: {part.target.ask}"
            for stack in found.stacks
            for part in stack.parts
            if part.target.fits is FitsBranch.UNKNOWN
        )
    )
