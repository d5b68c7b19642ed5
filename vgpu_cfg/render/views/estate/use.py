"""The use of GPUs as a table: its rows, whose they are, and how they are sorted."""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_cfg.model.use_choice import UseBy, UseSort
from vgpu_cfg.planning.pool.use import UseRow


@dataclass(frozen=True, slots=True)
class UseTable:
    """Rows in the order of the GPUs, or sorted where `sort` is given."""

    rows: tuple[UseRow, ...]
    by: UseBy = UseBy.GPU
    sort: UseSort | None = None
