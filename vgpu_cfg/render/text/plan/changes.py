"""Changes of a plan on a terminal: like changes folded into one block, and the lines of each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rich.text import Text

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import Edit, Placement, edit_value
from vgpu_cfg.model.ranges import fold_names
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.described import PlanTables, topic_of
from vgpu_cfg.render.layout.lines import Column, both_ends, fold, short, table, table_rows
from vgpu_cfg.render.layout.most import USUAL, Most
from vgpu_cfg.render.views.plan import BLOCKED, Numbered, effort_of, verb_of, waits_for

TOPIC_WIDTH = 10
MOST_TOPIC_WIDTH = 40
_FAR = 30
_LEAST_ROOM = 20
"""Values that begin further right than the one get lines of their own where less than the other is left."""
_SIGN_STYLES = {"+": "green", "~": "yellow", "-": "red", "!": "magenta"}
_TABLES = PlanTables()
_GAP = 2
_PROBABLY = "probably "
_BELOW = 8
_KEYS = {"PROFILE": "gpu", "CPUS": "cpus", "MEMORY": "memory"}
_COLUMNS = {
    "STEPS": Column("STEPS", is_right=True),
    "VM": Column("VM", is_flexible=True),
    "HOST": Column("HOST", is_flexible=True),
    "GPU": Column("GPU", is_flexible=True),
    "PROFILE": Column("PROFILE", is_flexible=True),
    "CPUS": Column("CPUS"),
    "MEMORY": Column("MEMORY"),
}
Values = Mapping[str, str]
"""The table's values of a VM, by the titles of its columns."""
_FOLDED = {"vm": "VM", "host": "host"}
"""Kinds of subjects of which like ones are folded, and how they are counted."""
_NEW = "new, "
_SWITCHED = "powered on or off, "
_MOST_DIFFERENCES = 8
Difference = tuple[str, ...]
_STEP_WIDTH = 13
_MARGIN = 6


def change_lines(
    number: int,
    change: Change,
    placement: Placement | None,
    width: int,
    *,
    number_width: int = 3,
    topic_width: int = 0,
    endings: Sequence[str] = (),
) -> list[Text]:
    """Lay out one change; its number is on the first line.

    `topic_width` is the least width of the first column; `endings` are put at the ends of the rows.
    """
    sign = change.sign
    body = list(_rows_of(change, placement)) or [("set", Text(change.id))]
    topic_width = max(
        [TOPIC_WIDTH, topic_width, *(min(len(topic) + 2, MOST_TOPIC_WIDTH) for topic, _ in body)]
    )
    lines: list[Text] = []
    for index, (topic, words) in enumerate(body):
        ending = endings[index] if index < len(endings) else ""
        start = Text(f"{number if not lines else '':>{number_width}} ")
        start.append(f"{sign} ", style=_SIGN_STYLES.get(sign, ""))
        start.append(f"{topic:<{topic_width - 2}}  ")
        hang = " " * start.cell_len
        room = width - start.cell_len - (len(ending) + 2 if ending else 0)
        least = max([_LEAST_ROOM, *map(len, words.plain.split())])
        if room < least and (start.cell_len > _FAR or least <= width - number_width - 5):
            # A long path or option string would be cut to pieces in what room is left beside its name.
            lines += both_ends(start, Text(ending, "yellow"), width)
            margin = Text(" " * (number_width + 5))
            lines += [margin + part for part in fold(words, width - margin.cell_len)]
            continue
        first, *rest = fold(words, room)
        lines += both_ends(start + first, Text(ending, "yellow"), width) if ending else [start + first]
        lines += [Text(hang) + part for part in rest]
    return lines


def _rows_of(change: Change, placement: Placement | None) -> Iterator[tuple[str, Text]]:
    head = change.head(placement)
    for topic, words in (*(() if head is None else (head,)), *change.rows(placement, _TABLES)):
        yield topic, Text.assemble(*words)


@dataclass(frozen=True, slots=True)
class UnlikeVm:
    """A row: numbers of steps, names, the columns by their titles, and other differences."""

    steps: str
    names: str
    values: Values
    others: str


def is_tabled(change: Change, edit: Edit) -> bool:
    """Whether a column of the table shows an edit."""
    return change.face.equips and edit.key in _KEYS.values()


def values_of(changes: Sequence[tuple[int, Change]], placement: Placement | None) -> Values:
    """Return the possible columns for a VM."""
    values: dict[str, str] = {}
    if placement is not None:
        values["HOST"] = placement.host_name
        if placement.gpu_pci_ids:
            probably = "" if placement.is_certain else _PROBABLY
            values["GPU"] = f"{probably}{', '.join(placement.gpu_pci_ids)}"
    for title, key in _KEYS.items():
        told = [edit for _, change in changes for edit in change.edits if is_tabled(change, edit)]
        counts = Counter(edit_value(edit) for edit in told if edit.key == key)
        words = (value if count == 1 else f"{count} x {value}" for value, count in counts.items())
        if counts:
            values[title] = ", ".join(words)
    return values


def render_unlike(rows: Sequence[UnlikeVm], width: int) -> list[Text]:
    """Lay out the table; other differences are next to a row, or below it if there is no room."""
    titles = ("STEPS", "VM", *(title for title in _COLUMNS if any(title in row.values for row in rows)))
    cells = [[row.steps, row.names, *(row.values.get(title, "") for title in titles[2:])] for row in rows]
    columns = [_COLUMNS[title] for title in titles]
    gpus = [row.values.get("GPU", _PROBABLY) for row in rows]
    if "GPU" in titles and all(words.startswith(_PROBABLY) for words in gpus):
        columns[titles.index("GPU")] = Column("LIKELY GPU", is_flexible=True)
        cells = [[word.removeprefix(_PROBABLY) for word in own] for own in cells]
    others = max((len(row.others) for row in rows), default=0)
    is_beside = bool(others) and _width_of(table(columns, cells, width)) + _GAP + others <= width
    if is_beside:
        columns.append(Column("OTHER"))
        cells = [[*own, row.others] for own, row in zip(cells, rows, strict=True)]
    heading, *body = table_rows(columns, cells, width)
    lines = list(heading)
    for own, row in zip(body, rows, strict=True):
        lines += own
        lines += [] if is_beside else _below(row.others, width)
    return lines


def _width_of(lines: Sequence[Text]) -> int:
    return max((line.cell_len for line in lines), default=0)


def _below(words: str, width: int) -> Iterator[Text]:
    margin = " " * _BELOW
    for part in fold(Text(words), width - len(margin)) if words else ():
        yield Text(margin) + part


@dataclass(slots=True)
class Block:
    """The changes of one subject, each with its number in the plan, and where a VM is expected to sit.

    `after` numbers the changes of other subjects that must come before. `is_blocked` if an error blocks some
    of them.
    """

    kind: str
    name: str
    changes: list[tuple[int, Change]] = field(default_factory=list)
    placement: Placement | None = None
    after: list[int] = field(default_factory=list)
    is_blocked: bool = False

    @property
    def numbers(self) -> str:
        """The numbers of its changes: "9-10"."""
        first, last = self.changes[0][0], self.changes[-1][0]
        if first == last:
            return str(first)
        if last - first + 1 == len(self.changes):
            return f"{first}-{last}"
        return ",".join(str(number) for number, _ in self.changes)


@dataclass(slots=True)
class Follower:
    """VMs or hosts that are treated like `leader`, each with what differs, in the plan's order."""

    leader: Block
    blocks: list[tuple[Block, Difference]] = field(default_factory=list)


@dataclass(slots=True)
class _Group:
    """VMs or hosts that differ from their leader in the same way."""

    blocks: list[Block]
    difference: Difference
    values: Values

    @property
    def numbers(self) -> str:
        """The numbers of their changes, the first one's where they are several."""
        return self.blocks[0].numbers if len(self.blocks) == 1 else f"{self.blocks[0].changes[0][0]}.."


def make_blocks(plan: Plan) -> list[Block]:
    """Gather changes by subject, in the order in which subjects first appear."""
    placements = {placement.vm: placement for placement in plan.placements}
    blocks: dict[tuple[str, str], Block] = {}
    for number, change in enumerate(plan.changes, 1):
        key = (change.subject.kind, change.subject.name)
        if key not in blocks:
            blocks[key] = Block(*key, placement=placements.get(key[1]) if key[0] == "vm" else None)
        blocks[key].changes.append((number, change))
        blocks[key].is_blocked |= change.id in plan.blocked
    numbers = {change.id: number for number, change in enumerate(plan.changes, 1)}
    for block in blocks.values():
        own = {number for number, _ in block.changes}
        needs = {numbers[need] for _, change in block.changes for need in change.needs if need in numbers}
        block.after = sorted(needs - own)
    return _hosts_before_their_vms(list(blocks.values()))


def _hosts_before_their_vms(blocks: list[Block]) -> list[Block]:
    """Show VMs that are only switched off for a host, and on again, after that host."""
    order: dict[int, float] = {}
    for index, block in enumerate(blocks):
        order[index] = index
        if block.kind == "vm" and _verb(block) == _SWITCHED:
            own = {number for number, _ in block.changes}
            hosts = [at for at, other in enumerate(blocks) if other.kind == "host" and own & {*other.after}]
            order[index] = max([index, *hosts]) + (0.5 if hosts else 0)
    return [blocks[index] for index in sorted(order, key=lambda index: order[index])]


def fold_blocks(blocks: Iterable[Block]) -> list[Block | Follower]:
    """Fold hosts and VMs that undergo the same changes with few differences under the first of them."""
    folded: list[Block | Follower] = []
    followers: dict[tuple[object, ...], Follower] = {}
    for block in blocks:
        shape = (block.is_blocked, *_shape(block))
        known = followers.get(shape) if block.kind in _FOLDED else None
        difference = _difference(known.leader, block) if known else ()
        if known and block.after and block.after != known.leader.after:
            difference += (_after(block),)
        if known is None or len(difference) > _MOST_DIFFERENCES:
            folded.append(block)
            followers.setdefault(shape, Follower(block))
            continue
        if not known.blocks:
            folded.insert(folded.index(known.leader) + 1, known)
        known.blocks.append((block, difference))
    return folded


def render_block(block: Block, width: int, *, most: Most = USUAL) -> list[Text]:
    """Lay out one subject's changes under its heading."""
    number_width = max(3, len(str(block.changes[-1][0])) + 1)
    lines = both_ends(_heading(block), Text(_effort(block), "dim"), width)
    if block.kind == "host":
        return lines + host_lines(block.changes, width, number_width, most=most)
    for number, change in block.changes:
        lines += change_lines(number, change, block.placement, width, number_width=number_width)
    return lines


def render_followers(follower: Follower, width: int, *, most: Most = USUAL) -> list[Text]:
    """Lay out the hosts or VMs that are like their leader; equal differences share a line."""
    noun = _FOLDED[follower.leader.kind]
    groups: list[_Group] = []
    for block, difference in follower.blocks:
        values = _values(block)
        if groups and (groups[-1].difference, groups[-1].values) == (difference, values):
            groups[-1].blocks.append(block)
        else:
            groups.append(_Group([block], difference, values))
    names = fold_names(block.name for block, _ in follower.blocks)
    words = _verb(follower.leader)
    own = _values(follower.leader)
    is_same = all(not group.difference and group.values == own for group in groups)
    title = f"  {words}as {follower.leader.name}{'' if is_same else ', but:'}"
    effort = f"{_effort(follower.leader)} each" if len(follower.blocks) > 1 else _effort(follower.leader)
    if len(names) > width // 2:
        names = f"{len(follower.blocks)} more"
    mark = ("  ", (BLOCKED, "bold red")) if follower.leader.is_blocked else ()
    heading = Text.assemble((f"{noun.upper()} {names}", "bold"), *mark, title)
    lines = both_ends(heading, Text(effort, "dim"), width)
    if is_same:
        return lines
    shown = groups[: most.followers]
    if noun == "VM":
        titles = {*(("HOST", "GPU") if words == _NEW else ()), *_unlike_titles(own, shown)}
        lines += render_unlike([_unlike(group, titles) for group in shown], width)
    else:
        name_width = min(28, max(len(_names(group.blocks)) for group in shown))
        for group in shown:
            lines += _follower_lines(group, name_width, width)
    if len(shown) < len(groups):
        rest = sum(len(group.blocks) for group in groups[len(shown) :])
        lines.append(Text(f"  and {counted(rest, f'more {noun}')} (-v shows all)", "dim"))
    return lines


def _values(block: Block) -> Values:
    """Return the table's values of a VM; none for one whose guest alone is staged, and for a host."""
    if block.kind != "vm" or all(change.staged for _, change in block.changes):
        return {}
    return values_of(block.changes, block.placement)


def _unlike_titles(leader: Values, groups: Sequence[_Group]) -> set[str]:
    titles = {title for group in groups for title in {**leader, **group.values}}
    return {
        title for title in titles if any(group.values.get(title) != leader.get(title) for group in groups)
    }


def _unlike(group: _Group, titles: Collection[str]) -> UnlikeVm:
    shown = {title: value for title, value in group.values.items() if title in titles}
    return UnlikeVm(group.numbers, _names(group.blocks), shown, ", ".join(group.difference))


def _follower_lines(group: _Group, name_width: int, width: int) -> list[Text]:
    head = f"{group.numbers:>7}  {_names(group.blocks):<{name_width}}  "
    first, *rest = fold(Text(", ".join(group.difference) or "no differences"), max(30, width - len(head)))
    return [Text(head) + first, *(Text(" " * len(head)) + part for part in rest)]


def _names(blocks: Sequence[Block]) -> str:
    return fold_names(block.name for block in blocks)


def _heading(block: Block) -> Text:
    heading = _plain_heading(block)
    return Text.assemble(heading, "  ", (BLOCKED, "bold red")) if block.is_blocked else heading


def _plain_heading(block: Block) -> Text:
    after = f", {_after(block)}" if block.after else ""
    if block.kind == "plan" and all(change.face.is_of_vcenter for _, change in block.changes):
        return Text.assemble(("VCENTER", "bold"), after)
    if block.kind == "host":
        words = effort_of(block.name, block.changes, ()).text
        return Text.assemble((f"HOST {block.name}", "bold"), f"  {words}" if words else "", after)
    if block.kind != "vm":
        return Text.assemble((f"{block.kind.upper()} {block.name}", "bold"), after)
    words = _verb(block).removesuffix(", ").removesuffix(" ")
    where = ""
    if block.placement is not None and any(change.makes for _, change in block.changes):
        where = f" on {block.placement.host_name}"
    return Text.assemble(("VM ", "bold"), (block.name, "bold"), f"  {words}{where}{after}")


def _after(block: Block) -> str:
    return f"after {short(str(number) for number in block.after)}"


def _verb(block: Block) -> str:
    if block.kind != "vm":
        return ""
    verb = verb_of([change for _, change in block.changes])
    return f"{'changed' if verb == 'manual' else verb}, "


def _effort(block: Block) -> str:
    if block.kind == "host":
        settings = effort_of(block.name, block.changes, ()).settings
        return counted(settings, "setting") if settings else ""
    tasks = sum(change.face.is_task for _, change in block.changes)
    return counted(tasks, "task") if tasks else ""


def _shape(block: Block) -> tuple[object, ...]:
    name = block.name if block.kind == "host" else ""
    return tuple(change.shape(name) for _, change in block.changes)


def _difference(leader: Block, block: Block) -> Difference:
    """List the differences from the leader, in words, beyond a table of VMs; both have one shape."""
    if leader.kind == "host":
        return host_difference(leader.changes, block.changes)
    words: list[str] = []
    for (_, theirs), (_, ours) in zip(leader.changes, block.changes, strict=True):
        words += ours.differs_from(theirs)
        for before, after in zip(theirs.compared, ours.compared, strict=True):
            is_told = is_tabled(ours, after) or ours.is_in_head(after)
            if not is_told and _without_note(before) != _without_note(after):
                topic, name = topic_of(after)
                words.append(f"{name or topic} {edit_value(after)}")
    return tuple(dict.fromkeys(words))


def _without_note(edit: Edit) -> tuple[object, ...]:
    return (edit.key, edit.before, edit.after, edit.is_default)


def host_lines(changes: Numbered, width: int, number_width: int, *, most: Most = USUAL) -> list[Text]:
    """Lay out a host's changes; each setting's line ends with what brings it into force."""
    keys = [edit.key for _, change in changes if change.writes for edit in change.edits]
    topic_width = min(MOST_TOPIC_WIDTH, max((len(key) + 2 for key in keys), default=0))
    lines: list[Text] = []
    restarts = sum(change.restarts_host for _, change in changes)
    for index, (number, change) in enumerate(changes):
        endings: tuple[str, ...] = ()
        if len(change.edits) == len(change.writes):
            later = changes[index + 1 :]
            endings = tuple(waits_for(target, later, is_numbered=restarts > 1) for target in change.writes)
        lines += change_lines(
            number,
            change,
            None,
            width,
            number_width=number_width,
            topic_width=topic_width if change.writes else _STEP_WIDTH,
            endings=endings,
        )
    return lines + _right(changes, width, with_all=most.is_all)


def _right(changes: Numbered, width: int, *, with_all: bool) -> list[Text]:
    right = effort_of("", changes, ()).right
    if not right:
        return []
    margin = " " * _MARGIN
    if not with_all:
        verb = "is" if len(right) == 1 else "are"
        return [Text(f"{margin}{counted(len(right), 'more setting')} {verb} correct (-v)", "dim")]
    words = Text("right: " + ", ".join(f"{target.id} {target.value}" for target in right), "dim")
    return [Text(margin) + part for part in fold(words, width - _MARGIN, hang=2)]


def host_difference(leader: Numbered, follower: Numbered) -> tuple[str, ...]:
    """List the differences between two hosts of one shape: moved VMs, and values before and after."""
    words: list[str] = []
    for (_, theirs), (_, ours) in zip(leader, follower, strict=True):
        words += ours.differs_from(theirs)
        words += [
            _edit_text(after)
            for before, after in zip(theirs.edits, ours.edits, strict=True)
            if (before.before, before.after, before.is_default)
            != (after.before, after.after, after.is_default)
        ]
    return tuple(dict.fromkeys(words))


def _edit_text(edit: Edit) -> str:
    return f"{edit.key} {edit_value(edit) if edit.before is None else f'{edit.before} -> {edit_value(edit)}'}"
