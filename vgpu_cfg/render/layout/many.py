"""Selection from very many rows: those that need attention first, and the number of the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import TypeVar

from rich.text import Text

from vgpu_cfg.render.layout.lines import fold
from vgpu_cfg.render.layout.most import USUAL, Most

T = TypeVar("T")


def foremost(
    rows: Sequence[T], is_plain: Callable[[T], bool] = lambda _: True, most: Most = USUAL
) -> tuple[Sequence[T], Sequence[T]]:
    """Return the rows to show, and those that are only counted.

    Of more than `most.rows` those come first that are not plain; few keep their order.
    """
    if most.rows is None or len(rows) <= most.rows:
        return rows, ()
    in_order = sorted(rows, key=is_plain)
    return in_order[: most.rows], in_order[most.rows :]


def foremost_groups(
    groups: Sequence[tuple[str, Sequence[T]]], is_plain: Callable[[T], bool], most: Most = USUAL
) -> tuple[Sequence[tuple[str, Sequence[T]]], Sequence[tuple[str, Sequence[T]]]]:
    """Return the named groups whose rows are all shown, and those whose rows are only counted.

    Of more than `most.rows` rows those groups come first that have one which is not plain.
    """
    limit = most.rows
    if limit is None or sum(len(rows) for _, rows in groups) <= limit:
        return groups, ()
    in_order = sorted(groups, key=lambda group: all(map(is_plain, group[1])))
    told = 1 + sum(count < limit for count in accumulate(len(rows) for _, rows in in_order))
    return in_order[:told], in_order[told:]


def others(noun: str, states: Iterable[str], width: int, *, where: str = "-v shows all") -> list[Text]:
    """Count the rows that are not shown, by a word for each; no line if there are none."""
    counts = Counter(states)
    if not counts:
        return []
    words = ", ".join(f"{count:,} {word}" for word, count in counts.items() if word)
    said = f": {words}" if words else ""
    return fold(Text(f"and {counts.total():,} more {noun}{said} ({where})", "dim"), width, hang=2)
