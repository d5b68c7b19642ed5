"""The answer to how many more fit, with the question.

The use of GPUs as a table: its rows, their owners, and their order.

Cordons as rows: of which host or GPU, reason, author and time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from vgpu_cfg.changes.plan import LostHost
from vgpu_cfg.model.choices import UseBy, UseSort
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.planning.pool.fit import next_step
from vgpu_cfg.planning.pool.gpus import PooledGpu
from vgpu_cfg.planning.pool.shapes import Fits
from vgpu_cfg.planning.pool.use import UseRow


@dataclass(frozen=True, slots=True)
class FitView:
    """The question, of which server, and the answer; `gpus` are those of the hosts by moid.

    `left_out` are requested hosts that accept no VM; `lost` do not respond, and have VMs of the requested
    line of the plan; `now` is the time by vCenter's clock. `added` are names of assumed hosts, by their
    words, `as_it_is` how many fit without these.
    """

    server: str
    read_at: str
    request: str
    fits: Fits
    clusters: Mapping[str, str]
    gpus: Mapping[str, Sequence[PooledGpu]]
    left_out: Sequence[Host] = ()
    lost: Sequence[LostHost] = ()
    added: Mapping[str, Sequence[str]] = field(default_factory=dict)
    as_it_is: int | None = None
    now: datetime | None = None

    @property
    def next_step(self) -> str:
        """Ways to make room, if nothing fits."""
        return next_step(self.fits.hosts)


@dataclass(frozen=True, slots=True)
class UseTable:
    """Rows in the order of the GPUs, or sorted where `sort` is given."""

    rows: tuple[UseRow, ...]
    by: UseBy = UseBy.GPU
    sort: UseSort | None = None


@dataclass(frozen=True, slots=True)
class CordonRow:
    """A cordon; `gpu` is empty if it is of the host, `by` and `since` if unknown."""

    host: str
    gpu: str
    reason: str
    by: str
    since: str


def cordon_rows(hosts: Iterable[Host]) -> tuple[CordonRow, ...]:
    """Make a row of each cordon, in the hosts' order."""
    return tuple(
        CordonRow(
            host=host.name,
            gpu=cordon.pci_id,
            reason=cordon.reason,
            by=cordon.by,
            since=cordon.since.isoformat() if cordon.since is not None else "",
        )
        for host in hosts
        for cordon in host.cordons
    )
