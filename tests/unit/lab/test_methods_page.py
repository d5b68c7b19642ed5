"""The reference page of the lab's methods has those that the lab registers."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from tests.page_tables import hold_table
from vgpu_cfg.lab.simulation.operations import METHODS, OPERATIONS
from vgpu_cfg.lab.soap import dispatch

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "lab-methods.md"


def table() -> str:
    assert dispatch.MODULES
    by_type: dict[str, set[str]] = defaultdict(set)
    for name, method in (*METHODS, *OPERATIONS):
        by_type[name].add(method)
    rows = (
        f"| `{name}` | {', '.join(f'`{method}`' for method in sorted(methods))} |"
        for name, methods in sorted(by_type.items())
    )
    return "\n".join(["| Type | Methods |", "|---|---|", *rows])


def test_the_page_has_what_the_lab_registers() -> None:
    hold_table(PAGE, table())
