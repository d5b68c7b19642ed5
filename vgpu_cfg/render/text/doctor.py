"""The health of an estate on one screen: a paragraph for each kind of ailment, the worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from rich.text import Text

from vgpu_cfg.knowledge.beliefs import load_beliefs
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.verdicts import Verdict
from vgpu_cfg.model.wording import counted, listed
from vgpu_cfg.planning.doctor.ailments import Group, Level
from vgpu_cfg.planning.doctor.examine import Health
from vgpu_cfg.render.layout.lines import both_ends, fold, hanging
from vgpu_cfg.render.layout.most import MOST_LINES

STYLES = {
    Level.BROKEN: "bold red",
    Level.RISK: "bold yellow",
    Level.WASTE: "bold cyan",
    Level.WAITING: "bold cyan",
}
_SHOWN = 3
_VERDICTS = {
    Verdict.HOLDS: "vgpu-cfg assumptions hold",
    Verdict.FAILS: "do not hold",
    Verdict.OPEN: "could not be tested",
}


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
    room = MOST_LINES - len(lines) - min(len(unread), _SHOWN) - len(beliefs)
    lines += render_groups(health.groups, room, width, with_all=with_all)
    return [*lines, *([Text("")] if unread else []), *(unread if with_all else unread[:_SHOWN]), *beliefs]


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
    lines = [Text(""), *hanging("BELIEFS", words, width, indent=0, label_width=7)]
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
        text += f"; also {listed(fold_names(more).split(', '), shown=_SHOWN)}"
    yield from fold(Text(f"        {text}"), width, hang=8)
    yield from _command(found[0].command, width)


def _command(command: str, width: int) -> list[Text]:
    return fold(Text(f"        $ {command}", style="dim"), width, hang=10) if command else []
