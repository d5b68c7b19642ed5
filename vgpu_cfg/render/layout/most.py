"""How many rows of each list of a plan are shown: usually, with `-v`, and for hundreds of hosts."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Most:
    """The most rows of each list; None shows all of them.

    `hosts` and `others` that are disrupted, `followers` of a host or VM, findings `of_a_code`, `hindrances`
    of a finding, `codes` of findings, `blocks` of changes, `lines` of a block, `canaries`, VMs that a host's
    row names as `moved`, and `runs` of names.
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

    @property
    def is_all(self) -> bool:
        """Whether nothing is left out."""
        return self == ALL


USUAL = Most()
ALL = Most(hosts=None, followers=None, of_a_code=None, hindrances=None)
LESS = (
    Most(16, 8, 2, 2, 2, codes=3, blocks=2, lines=6, canaries=1, moved=0, runs=4),
    Most(4, 3, 1, 1, 1, codes=2, blocks=1, lines=5, canaries=1, moved=0, runs=3),
    Most(2, 1, 0, 1, 0, codes=1, blocks=1, lines=4, canaries=1, moved=0, runs=2),
)
"""For a plan for hundreds of hosts that fills more than a screen: the first that fits."""


def usual(*, with_all: bool) -> Most:
    """Return all rows, or the usual number of them."""
    return ALL if with_all else USUAL
