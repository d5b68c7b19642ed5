"""What is told of very many rows: those that are to be looked at first, and how many others there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from rich.text import Text

from vgpu_cfg.render.layout.lines import fold

T = TypeVar("T")
MOST_ROWS = 100
"""Rows that a table has without `-v`."""


def foremost(
    rows: Sequence[T], is_plain: Callable[[T], bool], *, with_all: bool = False
) -> tuple[Sequence[T], Sequence[T]]:
    """Return the rows that are told, and those that are only counted.

    Of more than a hundred those come first that are not plain; few keep their order.
    """
    if len(rows) <= MOST_ROWS or with_all:
        return rows, ()
    in_order = sorted(rows, key=is_plain)
    return in_order[:MOST_ROWS], in_order[MOST_ROWS:]


def others(noun: str, states: Iterable[str], width: int, *, where: str = "-v shows all") -> list[Text]:
    """Count the rows that are not told, by a word for each; no line where there are none."""
    counts = Counter(states)
    if not counts:
        return []
    words = ", ".join(f"{count:,} {word}" for word, count in counts.items() if word)
    said = f": {words}" if words else ""
    return fold(Text(f"and {counts.total():,} more {noun}{said} ({where})", "dim"), width, hang=2)
