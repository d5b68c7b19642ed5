"""VMs that are unlike are a table: what differs has a column, and what has none stands beside or below."""

from __future__ import annotations

from vgpu_cfg.render.layout.console import plain
from vgpu_cfg.render.text.plan.changes import UnlikeVm, render_unlike

ROWS = [
    UnlikeVm("3-4", "bio-02", {"HOST": "esx-01", "GPU": "probably 0000:21:00.0", "CPUS": "8"}, ""),
    UnlikeVm(
        "5-6", "chem-{01..02}", {"HOST": "esx-02", "GPU": "0000:e2:00.0"}, "nodeAffinity 1*, folder lab"
    ),
]


def test_what_else_differs_stands_beside_where_there_is_room() -> None:
    assert plain(render_unlike(ROWS, 100)) == (
        "  STEPS  VM             HOST    GPU                    CPUS  OTHER\n"
        "    3-4  bio-02         esx-01  probably 0000:21:00.0  8\n"
        "    5-6  chem-{01..02}  esx-02  0000:e2:00.0                 nodeAffinity 1*, folder lab\n"
    )


def test_and_below_where_there_is_none() -> None:
    assert plain(render_unlike(ROWS, 70)) == (
        "  STEPS  VM             HOST    GPU                    CPUS\n"
        "    3-4  bio-02         esx-01  probably 0000:21:00.0  8\n"
        "    5-6  chem-{01..02}  esx-02  0000:e2:00.0\n"
        "        nodeAffinity 1*, folder lab\n"
    )


def test_the_heading_says_once_that_no_gpu_is_certain() -> None:
    assert plain(render_unlike(ROWS[:1], 70)) == (
        "  STEPS  VM      HOST    LIKELY GPU    CPUS\n    3-4  bio-02  esx-01  0000:21:00.0  8\n"
    )
