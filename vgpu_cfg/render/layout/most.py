"""How many rows of each list are shown: usually, with `-v`, and for hundreds of hosts, a screen at most."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.text import Text

MOST_LINES = 50
"""The first screen of anything about hundreds of hosts is no longer; `-v` and the page show the rest."""
MANY = 32


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
