"""A trial as text: its outline, its verdicts, and the objects that trials have left."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from rich.text import Text

from vgpu_cfg.knowledge.beliefs import load_beliefs
from vgpu_cfg.model.verdicts import Verdict
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.doctor.trials import Left, Outline
from vgpu_cfg.planning.doctor.tried import Tried
from vgpu_cfg.render.layout.lines import Column, both_ends, fold, hanging, size, table

_STYLES = {Verdict.FAILS: "bold red", Verdict.HOLDS: "green", Verdict.OPEN: "dim"}
_CALLS = (Column("DOES", is_flexible=True), Column("CALLS", is_flexible=True))
_LEFT = (Column("OBJECT"), Column("TRIAL"), Column("EXPIRES", drop=1), Column("ACTION", is_flexible=True))


def render_outline(outline: Outline, width: int) -> list[Text]:
    """Show every call that changes something, and the cost for the site."""
    steps = ",".join(outline.steps)
    title = Text(f"trial {outline.mark.id} of {outline.server}", style="bold")
    rows = [
        (one.does, ", ".join(f"{method} {count}" for method, count in one.calls.items()))
        for one in outline.experiments
    ]
    events = counted(outline.calls.total(), "event")
    facts = {
        "NAMES": f"every object's name begins with {outline.mark.start}",
        "SPACE": f"{size(outline.datastore_mib)} on the datastore at most",
        "TIME": f"{outline.minutes} minutes at most, including cleanup",
        "REMAINS": f"{counted(outline.tasks, 'task')} and about {events} in vCenter's lists",
        "ROLE": f"vgpu-cfg privileges --trial {steps}",
        "REMOVES": "all objects at the end, after an error and on Ctrl-C; if vgpu-cfg is killed, run "
        "`vgpu-cfg trial --clean`",
    }
    lines = both_ends(title, Text(steps, style="dim"), width)
    lines += [Text(""), *table(_CALLS, rows, width), Text("")]
    for label, text in facts.items():
        lines += hanging(label, text, width, indent=2, label_width=7)
    return lines


def render_tried(tried: Sequence[Tried], width: int) -> Iterator[Text]:
    """Show the verdict on each belief that was tried, and count the others."""
    known = load_beliefs()
    counts = Counter(one.verdict for one in tried)
    yield Text("")
    for verdict in (Verdict.FAILS, Verdict.HOLDS, Verdict.OPEN):
        yield Text(f"{verdict.value}: {counts[verdict]}", style=_STYLES[verdict])
        for one in tried:
            if one.verdict is verdict and one.seen:
                belief = known[one.belief]
                wrong = f" {belief.if_wrong}" if verdict is Verdict.FAILS else ""
                yield from fold(Text(f"  {belief.statement} ({one.seen}){wrong}"), width, hang=4)


def render_left(found: Sequence[Left], due: Collection[Left], width: int) -> list[Text]:
    """List the objects of trials, with what `trial --clean` does about each."""
    if not found:
        return [Text("No trial objects remain.")]
    rows = [
        (f"{one.kind} {one.name}", one.mark.id, f"{one.mark.until:%F %R} UTC", _fate(one, due))
        for one in found
    ]
    return table(_LEFT, rows, width)


def _fate(one: Left, due: Collection[Left]) -> str:
    if one in due:
        return "removes it"
    return (
        "keeps it: not expired"
        if one.is_proven
        else ("keeps it: only its name identifies it as a trial object")
    )
