"""The answers of several contexts or plans as rows for readers, with their sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpu_cfg.errors import VgpuCfgError
from vgpu_cfg.planning.pool.summary import PoolRow


@dataclass(frozen=True, slots=True)
class OneOfSeveral:
    """A context or plan: the summable part of its answer, or why there is none.

    `error` is None, too, if this program itself has failed.
    """

    name: str
    server: str
    figures: Mapping[str, int] = field(default_factory=dict)
    error: VgpuCfgError | None = None
    exit_code: int = 0


@dataclass(frozen=True, slots=True)
class Several:
    """All of them. `noun` says what each is, `pool` is that of all together where GPUs were asked for."""

    noun: str
    command: str
    rows: tuple[OneOfSeveral, ...]
    pool: tuple[PoolRow, ...] = ()

    @property
    def answered(self) -> tuple[OneOfSeveral, ...]:
        """Those that have figures."""
        return tuple(row for row in self.rows if row.figures)

    @property
    def total(self) -> dict[str, int]:
        """The sums over all that answered."""
        keys = dict.fromkeys(key for row in self.rows for key in row.figures)
        return {key: sum(row.figures.get(key, 0) for row in self.rows) for key in keys}
