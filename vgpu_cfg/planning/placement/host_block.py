"""One host's possible content in an integer program: hosts whose blocks differ in amounts only are of a kind.

A host's program consists of its block alone, numbered from 0, so that two hosts with the same choices have
the same columns and rows whatever their names; their free memory, cores and NICs are amounts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vgpu_cfg.planning.placement.demand import Shape, Variant
from vgpu_cfg.planning.placement.seats import Seats

Term = tuple[int, float]
"""A column and its weight in a sum."""
BlockKey = tuple[object, ...]
"""The key of a kind of hosts: all of a block but amounts and the GPUs' places on the host."""


@dataclass(frozen=True, slots=True)
class Choice:
    """So many VMs of a shape, by its number, with one of its variants, on these nodes; a column.

    is_small: a NUMA node is too small for the VM, an amount in which hosts of a kind may differ.
    """

    number: int
    variant: int
    seats: Seats
    column: int
    shape: Shape = field(compare=False)
    is_small: bool = field(compare=False)

    @property
    def needs(self) -> Variant:
        """The vGPUs of one VM."""
        return self.shape.needs(self.variant)

    def term(self, weight: float = 1.0) -> Term:
        """Return the part of these VMs in a sum, of so much each."""
        return self.column, float(weight)


@dataclass(frozen=True, slots=True)
class GpuClass:
    """GPUs of a host that are alike, with a column for each of their patterns."""

    gpus: tuple[int, ...]
    patterns: tuple[tuple[int, ...], ...]
    columns: tuple[int, ...]


@dataclass(slots=True)
class HostBlock:
    """The columns, each from 0 to `most`, and the rows, each a sum that is no more than a number.

    sets: the sets of GPUs that could become NVLink peers, each with its column.
    over: the column of missing memory, 0 except while VMs are shared out.
    uses: the column that is 1 if the host gets GPU VMs, None if it is not needed.
    """

    most: list[int] = field(default_factory=list)
    costs: list[float] = field(default_factory=list)
    rows: list[tuple[tuple[Term, ...], int]] = field(default_factory=list)
    choices: list[Choice] = field(default_factory=list)
    gpu_classes: list[GpuClass] = field(default_factory=list)
    sets: list[tuple[frozenset[int], int]] = field(default_factory=list)
    over: int = 0
    uses: int | None = None

    def column(self, most: int, cost: float = 0.0) -> int:
        """Add a column, and return its number."""
        self.most.append(most)
        self.costs.append(cost)
        return len(self.most) - 1

    def row(self, terms: Sequence[Term], most: int) -> None:
        """Require that a sum is no more than a number; a repeated column counts twice."""
        self.rows.append((tuple(terms), most))

    def key(self) -> BlockKey:
        """Return the common key of hosts of a kind: all but the amounts, except how many GPUs are alike.

        Hosts whose GPUs other VMs hold differently have room that cannot be summed: counts of them together
        could rarely be filled in.
        """
        return (
            tuple(self.costs),
            tuple(terms for terms, _ in self.rows),
            tuple(self.choices),
            tuple((len(one.gpus), one.patterns) for one in self.gpu_classes),
            self.uses,
        )

    def joined_with(self, others: Sequence[HostBlock]) -> HostBlock:
        """Return a block with the amounts of this one and others of its kind together."""
        blocks = [self, *others]
        return replace(
            self,
            most=[sum(amounts) for amounts in zip(*(one.most for one in blocks), strict=True)],
            rows=[
                (rows[0][0], sum(most for _, most in rows))
                for rows in zip(*(one.rows for one in blocks), strict=True)
            ],
        )
