"""One change on a terminal: its sign and verb, then one line per subject, like GPU, CPU, NIC, options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.text import Text

from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.values import Placement
from vgpu_cfg.planning.described import PlanTables
from vgpu_cfg.render.layout.lines import both_ends, fold

TOPIC_WIDTH = 10
MOST_TOPIC_WIDTH = 40
_FAR = 30
_LEAST_ROOM = 20
"""Values that begin further right than the one get lines of their own where less than the other is left."""
_SIGN_STYLES = {"+": "green", "~": "yellow", "-": "red", "!": "magenta"}
_TABLES = PlanTables()


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
