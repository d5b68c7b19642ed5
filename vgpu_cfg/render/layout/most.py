"""Rows of long lists to show, and the number of the others: usually, with `-v`, and at most a screen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TypeVar

from rich.text import Text

from vgpu_cfg.render.layout.lines import fold

MOST_LINES = 50
"""The first screen of anything about hundreds of hosts is no longer; `-v` and the page show the rest."""
MANY = 32
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Most:
    """The most rows of each list; None shows all of them.

    `hosts` and `others` that are disrupted, `followers` of a host or VM, findings `of_a_code`, `hindrances`
    of a finding, `codes` of findings, `blocks` of changes, `lines` of a block, `canaries`, VMs that a host's
    row names as `moved`, `runs` of names, and `rows` of any other table.
    """

    hosts: int | None = 16
    others: int | None = None
    followers: int | None = 16
    of_a_code: int | None = 16
    hindrances: int | None = 6
    codes: int | None = None
    blocks: int | None = None
    lines: int | None = None
    canaries: int | None = None
    moved: int | None = None
    runs: int | None = None
    rows: int | None = 100

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self == ALL


USUAL = Most()
ALL = Most(hosts=None, followers=None, of_a_code=None, hindrances=None, rows=None)
LESS = (
    Most(16, 8, 2, 2, 2, codes=3, blocks=2, lines=6, canaries=1, moved=0, runs=4, rows=12),
    Most(4, 3, 1, 1, 1, codes=2, blocks=1, lines=5, canaries=1, moved=0, runs=3, rows=5),
    Most(2, 1, 0, 1, 0, codes=1, blocks=1, lines=4, canaries=1, moved=0, runs=2, rows=2),
)
"""For hundreds of hosts that fill more than a screen: the first that fits."""


def usual(*, with_all: bool) -> Most:
    """Return all rows, or the usual number of them."""
    return ALL if with_all else USUAL


def first_screen(render: Callable[[Most], list[Text]], subjects: int, *, with_all: bool) -> list[Text]:
    """Lay out as usual or with all rows; for many `subjects` (hosts or VMs), as many as fit on a screen."""
    lines = render(usual(with_all=with_all))
    for most in LESS if subjects > MANY and not with_all else ():
        if len(lines) > MOST_LINES:
            lines = render(most)
    return lines


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
