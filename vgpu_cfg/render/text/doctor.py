"""An estate's health on a terminal: ailments by kind, everything of vgpu-cfg there, and trials of beliefs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence

from rich.text import Text

from vgpu_cfg.knowledge.beliefs import load_beliefs
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.verdicts import Verdict
from vgpu_cfg.model.wording import age, counted, listed
from vgpu_cfg.planning.doctor.ailments import Group, Level
from vgpu_cfg.planning.doctor.examine import Health
from vgpu_cfg.planning.doctor.ours import Ours, PlanRow, Ran
from vgpu_cfg.planning.doctor.trials import Left, Outline
from vgpu_cfg.planning.doctor.tried import Tried
from vgpu_cfg.render.layout.lines import Cell, Column, both_ends, fold, hanging, size, table
from vgpu_cfg.render.layout.most import MOST_LINES
from vgpu_cfg.render.text.run.history import render_history
from vgpu_cfg.render.views.run.run_steps import view_run

STYLES = {
    Level.BROKEN: "bold red",
    Level.RISK: "bold yellow",
    Level.WASTE: "bold cyan",
    Level.WAITING: "bold cyan",
}
_SHOWN_SUBJECTS = 3
_VERDICTS = {
    Verdict.HOLDS: "confirmed",
    Verdict.FAILS: "wrong",
    Verdict.OPEN: "could not be tested",
}
_PLANS = (
    Column("PLAN", is_flexible=True),
    Column("VCENTER", is_flexible=True),
    Column("VMS", is_right=True),
    Column("ON", is_right=True),
    Column("HOSTS", is_right=True, drop=1),
    Column("STATE", is_flexible=True),
    Column("LAST RUN", is_flexible=True),
    Column("FOLDER", is_flexible=True, drop=2),
)
_FEW = (6, 3, 2, 1)
"""Rows of plans and runs on the first screen, the first number that fits; findings get the rest of it."""
NOTE = (
    "STATE checks only devices against the owner marks. To check everything, run `vgpu-cfg status` with the "
    "plan file. If that is lost, `vgpu-cfg export` with --vm writes it again."
)
_VERDICT_STYLES = {Verdict.FAILS: "bold red", Verdict.HOLDS: "green", Verdict.OPEN: "dim"}
_CALLS = (Column("DOES", is_flexible=True), Column("CALLS", is_flexible=True))
_LEFT = (Column("OBJECT"), Column("TRIAL"), Column("EXPIRES", drop=1), Column("ACTION", is_flexible=True))


def render_health(health: Health, server: str, width: int, *, with_all: bool = False) -> list[Text]:
    """Lay out the health; without `with_all` it fits one screen, however large the estate is."""
    seen = f"{counted(health.hosts, 'host')}, {counted(health.gpus, 'GPU')}, {counted(health.vms, 'GPU VM')}"
    lines = both_ends(Text(f"health of {server}", style="bold"), Text(seen, style="dim"), width)
    unread = [
        line for text in health.unread for line in hanging("UNREAD", text, width, indent=0, label_width=7)
    ]
    beliefs = [*_licences(health, width), *_beliefs(health, width, with_all=with_all)]
    if not health.ailments:
        return [*lines, Text(""), Text("No problems visible to this account."), *unread, *beliefs]
    counts = (f"{health.count(level)} {level.value}" for level in Level if health.count(level))
    lines += [Text(""), Text(", ".join(counts))]
    room = MOST_LINES - len(lines) - min(len(unread), _SHOWN_SUBJECTS) - len(beliefs)
    lines += render_groups(health.groups, room, width, with_all=with_all)
    return [
        *lines,
        *([Text("")] if unread else []),
        *(unread if with_all else unread[:_SHOWN_SUBJECTS]),
        *beliefs,
    ]


def render_groups(groups: Sequence[Group], room: int, width: int, *, with_all: bool) -> list[Text]:
    """Lay out as many kinds as have room with their objects and commands, and the others on a line each."""
    told = [[Text(""), *_group(group, width, with_all=with_all)] for group in groups]
    brief = [_line(group, width) for group in groups]
    count = len(told)
    while count and not with_all and sum(map(len, (*told[:count], *brief[count:]))) > room - 2:
        count -= 1
    lines = [line for paragraph in told[:count] for line in paragraph]
    if count < len(told):
        lines += [Text(""), *(line for short in brief[count:] for line in short)]
        lines.append(Text("-v shows all objects with their commands.", style="dim"))
    return lines


def _licences(health: Health, width: int) -> list[Text]:
    """Count the licenses of each pool that are needed."""
    words = [f"{use.pool.product} {use.needed} of {use.pool.count} needed" for use in health.licences]
    return [Text(""), *hanging("LICENSES", ", ".join(words), width, indent=0, label_width=8)] if words else []


def _beliefs(health: Health, width: int, *, with_all: bool) -> list[Text]:
    """List the beliefs that the reading confirms or contradicts, with the consequence of a wrong one."""
    known = load_beliefs()
    counts = Counter(one.verdict for one in health.tried)
    words = ", ".join(f"{counts[verdict]} {text}" for verdict, text in _VERDICTS.items())
    lines = [
        Text(""),
        *hanging("BELIEFS", f"vgpu-cfg's assumptions: {words}", width, indent=0, label_width=7),
    ]
    for one in health.tried:
        belief = known[one.belief]
        if one.verdict is Verdict.FAILS:
            text = f"does not hold: {belief.statement} Observed: {one.seen}. {belief.if_wrong}"
            lines += fold(Text(f"        {text}", style="red"), width, hang=10)
        elif with_all:
            seen = f" ({one.seen})" if one.seen else ""
            lines += fold(Text(f"        {one.verdict.value}: {belief.statement}{seen}"), width, hang=10)
    return lines


def _line(group: Group, width: int) -> list[Text]:
    """Name a kind and its first objects in short."""
    level = group.kind.level
    names = fold_names(sorted({one.name for one in group.ailments})).split(", ")
    text = f"{group.kind.summary}: {listed(names, shown=1)}"
    return hanging(level.value.upper(), text, width, indent=0, label_width=7, style=STYLES[level])


def _group(group: Group, width: int, *, with_all: bool) -> Iterator[Text]:
    kind, found = group.kind, group.ailments
    count = f" ({len(found)})" if len(found) > 1 else ""
    title = Text(f"{kind.summary}{count}: ", style="bold").append(kind.cost, "not bold")
    yield from hanging(
        kind.level.value.upper(), title, width, indent=0, label_width=7, style=STYLES[kind.level]
    )
    if with_all:
        for one in found:
            owner = f" ({one.owner})" if one.owner else ""
            yield from fold(Text(f"        {one.name}{owner}: {one.says}"), width, hang=10)
            yield from _command(one.command, width)
        return
    by_text: dict[str, list[str]] = {}
    for one in found:
        by_text.setdefault(one.says, []).append(one.name)
    first, *others = by_text.items()
    names = fold_names(first[1])
    more = [name for _, each in others for name in each]
    text = f"{names}: {first[0]}" if first[0] else names
    if more:
        text += f"; also {listed(fold_names(more).split(', '), shown=_SHOWN_SUBJECTS)}"
    yield from fold(Text(f"        {text}"), width, hang=8)
    yield from _command(found[0].command, width)


def _command(command: str, width: int) -> list[Text]:
    return fold(Text(f"        $ {command}", style="dim"), width, hang=10) if command else []


def render_ours(ours: Ours, width: int, *, next_command: str, with_all: bool = False) -> list[Text]:
    """Lay all of it out; without `with_all` it fits one screen, however large the estate is."""
    notes = [line for text in ours.notes for line in hanging("NOTE", text, width, indent=0, label_width=7)]
    if ours.is_nothing:
        said = (
            f"Nothing at {ours.server} belongs to vgpu-cfg: no plans, locks, cordons, reservations, or runs."
        )
        lines = hanging("NOTHING", said, width, indent=0, label_width=7)
        return [*lines, *hanging("NEXT", next_command, width, indent=0, label_width=7), *notes]
    vms = sum(row.vms for row in ours.plans)
    seen = f"{counted(len(ours.plans), 'plan')}, {counted(vms, 'VM')} in plans, {ours.now:%Y-%m-%d %H:%M} UTC"
    lines = both_ends(Text(f"vgpu-cfg at {ours.server}", "bold"), Text(seen, "dim"), width)
    counts = [f"{ours.count(level)} {level.value}" for level in Level if ours.count(level)]
    lines.append(Text(", ".join(counts) or "no action required, and nothing is waiting"))
    if with_all:
        groups = render_groups(ours.groups, 0, width, with_all=True)
        return [*lines, *groups, *_rest(ours, width, None), *notes]
    for few in _FEW:
        rest = [*_rest(ours, width, few), *notes[:few]]
        groups = render_groups(ours.groups, MOST_LINES - len(lines) - len(rest), width, with_all=False)
        if len(lines) + len(groups) + len(rest) <= MOST_LINES:
            break
    return [*lines, *groups, *rest]


def _rest(ours: Ours, width: int, few: int | None) -> list[Text]:
    """Lay out plans, reservations and runs: a few of each, or all, the others counted."""
    lines: list[Text] = []
    if ours.plans:
        plans = ours.plans[:few]
        lines += [Text(""), *table(_PLANS, [_cells(row, ours) for row in plans], width)]
        lines += _more(len(ours.plans) - len(plans), "plan")
        lines += hanging("NOTE", NOTE, width, indent=0, label_width=7, style="dim")
    if ours.reserved:
        reserved = ours.reserved[:few]
        lines.append(Text(""))
        for one in reserved:
            lines += hanging("HELD", one, width, indent=0, label_width=7)
        lines += _more(len(ours.reserved) - len(reserved), "reservation")
    if ours.runs:
        runs = ours.runs[:few]
        rows = [view_run(run.entry, run.began_at, run.ended_at, ()) for run in runs]
        lines += [Text(""), *render_history(rows, width, server="last 7 days", notes=())]
        lines += _more(len(ours.runs) - len(runs), "run")
    return lines


def _more(count: int, noun: str) -> Sequence[Text]:
    return (
        [Text(f"and {count} more {noun}{'' if count == 1 else 's'} (-v shows all)", "dim")] if count else []
    )


def _cells(row: PlanRow, ours: Ours) -> list[Cell]:
    style = "green" if row.level is None else STYLES[row.level]
    return [
        row.name,
        row.server,
        str(row.vms),
        str(row.on),
        str(row.hosts),
        Text(row.state, style),
        _last(row.last, ours),
        ", ".join(row.folders),
    ]


def _last(run: Ran | None, ours: Ours) -> str:
    if run is None:
        return "not in the last 30 days"
    row = view_run(run.entry, run.began_at, run.ended_at, ())
    return f"{row.command} {row.result or 'end unknown'}, {age((ours.now - run.at).total_seconds())} ago"


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
        "SPACE": f"up to {size(outline.datastore_mib)} on the datastore",
        "TIME": f"up to {outline.minutes} minutes, including cleanup",
        "REMAINS": f"{counted(outline.tasks, 'task')} and about {events} in vCenter's lists",
        "ROLE": f"vgpu-cfg privileges --trial {steps}",
        "REMOVES": "all objects at the end, after an error and on Ctrl-C; if vgpu-cfg is killed, run "
        "`vgpu-cfg trial --clean`",
    }
    lines = both_ends(title, Text(steps, style="dim"), width)
    lines += [Text(""), *table(_CALLS, rows, width), Text("")]
    shown = facts if outline.calls else ("TIME", "ROLE")
    for label in shown:
        lines += hanging(label, facts[label], width, indent=2, label_width=7)
    return lines


def render_tried(tried: Sequence[Tried], width: int) -> Iterator[Text]:
    """Show the verdict on each belief that was tried, and count the others."""
    known = load_beliefs()
    counts = Counter(one.verdict for one in tried)
    yield Text("")
    for verdict in (Verdict.FAILS, Verdict.HOLDS, Verdict.OPEN):
        yield Text(f"{verdict.value}: {counts[verdict]}", style=_VERDICT_STYLES[verdict])
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
    return "kept: not expired" if one.is_proven else "kept: only its name identifies it as a trial object"
