"""The JSON of several contexts' or plans' answers: each answer unchanged, the failures, and the sums."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from vgpu_cfg.render.data.error import error_data
from vgpu_cfg.render.data.format import FORMAT, Data
from vgpu_cfg.render.views.several import Several


def several_data(view: Several, answers: Sequence[Data | None]) -> Data:
    """Return the rows with the documents that they are about, in the same order."""
    return {
        "kind": f"{view.noun}s",
        "format": FORMAT,
        "command": view.command,
        f"{view.noun}s": [
            {
                "name": row.name,
                "server": row.server,
                "exit_code": row.exit_code,
                "answer": answer,
                "error": error_data(row.error) if row.error is not None else None,
            }
            for row, answer in zip(view.rows, answers, strict=True)
        ],
        "total": view.total,
        "pool": [asdict(row) | {"mode": str(row.mode)} for row in view.pool],
    }
