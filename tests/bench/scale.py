"""How the work of loading and planning grows with the VMs: CPU seconds, and the exponent of their growth."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from math import log
from pathlib import Path
from typing import TypeVar

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.ports import Clock, ReadScope
from vgpu_cfg.render.text.plan.whole import render_plan
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session

T = TypeVar("T")
ESTATE = "fleet-1000x8"
SIZES = (1_000, 2_000, 4_000)
MOST = 1.1
"""Work that grows by more than this power of the VMs is not linear."""


def print_scale(plan_text: str, clock: Clock, sizes: Sequence[int] = SIZES) -> None:
    """Print what each size takes, and the exponents over all of them; exit where one is above 1.1."""
    lab = open_lab(ESTATE, clock=VirtualClock())
    with Session(lab, "lab", LAB_USER, LAB_PASSWORD) as session:
        observed = VCenterReader(session, clock).read_inventory(
            ReadScope(template_names=frozenset({"ubuntu-22.04-efi"}))
        )
    catalog = load_catalog()
    rows: list[dict[str, float]] = []
    for count in sizes:
        row: dict[str, float] = {}
        desired = _timed(row, "load", lambda: _load(plan_text.format(count=count)))  # noqa: B023 - called at once
        plan = _timed(row, "plan", lambda: make_plan(desired, observed, catalog, PlanOptions()))  # noqa: B023 - called at once
        _timed(row, "render", lambda: render_plan(plan, 100))  # noqa: B023 - called at once
        rows.append(row)
    print(f"\n{'on 1,000 hosts':24}{'VMs':>7}" + "".join(f"{name:>10}" for name in rows[0]))
    for count, row in zip(sizes, rows, strict=True):
        print(f"{'':24}{count:>7,}" + "".join(f"{seconds:>10.2f}" for seconds in row.values()))
    grown = log(sizes[-1] / sizes[0])
    powers = {name: log(rows[-1][name] / rows[0][name]) / grown for name in rows[0]}
    print(f"{'grows by the power':31}" + "".join(f"{power:>10.2f}" for power in powers.values()))
    if worst := [name for name, power in powers.items() if power > MOST]:
        raise SystemExit(f"not linear: {', '.join(worst)}")


def _timed(row: dict[str, float], name: str, work: Callable[[], T]) -> T:
    """Do a piece of work, and keep the least CPU seconds of two times: the first may load what it needs."""
    spent = []
    for _ in range(2):
        begun = time.process_time()
        made = work()
        spent.append(time.process_time() - begun)
    row[name] = min(spent)
    return made


def _load(text: str) -> DesiredPlan:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.yaml"
        path.write_text(text, encoding="utf-8")
        return load_plan(path).desired
