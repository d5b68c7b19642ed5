"""How the work of a plan grows with its VMs, from loading to drawing: CPU seconds, and the power of it.

*Findings* is planning where each VM has an error of its own shape, *guests* where each has a NIC with an
address of a pool and a guest that is set up; *order* is a run that hands out every change.
"""

from __future__ import annotations

import gc
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from math import log
from pathlib import Path
from statistics import linear_regression
from typing import TypeVar

from vgpu_cfg.__main__ import COLLECT_AFTER
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import Change
from vgpu_cfg.execution.run.scheduler import Scheduler
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.wording import as_json
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.ports import Clock, ReadScope
from vgpu_cfg.render.data.documents import plan_data
from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session

T = TypeVar("T")
ESTATE = "fleet-1000x8"
SIZES = (100, 1_000, 5_000, 10_000)
GUESTS = """
networks:
- {name: vm-network, subnet: 10.0.0.0/16, pool: 10.0.1.0-10.0.250.0, gateway: 10.0.0.1}
defaults:
  nics: [{network: vm-network, ip: pool}]
  guest: {by: cloud-init, users: [{name: ubuntu}]}
"""
"""What a plan file says besides for its VMs to have a NIC and a guest."""
MOST = 1.1
"""Work that grows by more than this power of the VMs is not linear; one decimal is what the clock tells."""
LEAST_SECONDS = 0.01
"""Below this much the clock tells nothing."""


def print_scale(plan_text: str, clock: Clock, sizes: Sequence[int] = SIZES) -> None:
    """Print what each size takes, and the power that fits all of them; exit where one is too large.

    What the hosts cost, whatever is planned, hides growth among few VMs: from 1,000 on it counts, too.
    """
    gc.set_threshold(COLLECT_AFTER)  # as commands do
    lab = open_lab(ESTATE, clock=VirtualClock())
    with Session(lab, "lab", LAB_USER, LAB_PASSWORD) as session:
        observed = VCenterReader(session, clock).read_inventory(
            ReadScope(template_names=frozenset({"ubuntu-22.04-efi"}))
        )
    rows = [_measured(plan_text.format(count=count), observed) for count in sizes]
    print(f"\n{'on 1,000 hosts':24}{'VMs':>7}" + "".join(f"{name:>10}" for name in rows[0]))
    for count, row in zip(sizes, rows, strict=True):
        print(f"{'':24}{count:>7,}" + "".join(f"{seconds:>10.2f}" for seconds in row.values()))
    powers = {name: list(_powers(sizes, [row[name] for row in rows])) for name in rows[0]}
    for place, words in enumerate(("grows by the power", "from 1,000 on")):
        print(f"{words:31}" + "".join(f"{found[place]:>10.2f}" for found in powers.values()))
    if worst := [name for name, found in powers.items() if round(max(found), 1) > MOST]:
        raise SystemExit(f"not linear: {', '.join(worst)}")


def _measured(text: str, observed: Inventory) -> dict[str, float]:
    """Return the CPU seconds of each part of planning this text."""
    catalog, row = load_catalog(), dict[str, float]()
    desired = _timed(row, "load", lambda: _load(text))
    plan = _timed(row, "plan", lambda: make_plan(desired, observed, catalog, PlanOptions()))
    if plan.errors:
        raise SystemExit(f"the benchmark's plan does not fit: {plan.errors[0].message}")
    wrong = [vm.model_copy(update={"cpus": 1_000 + number % 100}) for number, vm in enumerate(desired.vms)]
    refused = desired.model_copy(update={"vms": tuple(wrong)})
    found = _timed(row, "findings", lambda: make_plan(refused, observed, catalog, PlanOptions()))
    if not found.errors:
        raise SystemExit("nothing is found of VMs with a thousand CPUs")
    set_up = _load(text + GUESTS)
    _timed(row, "guests", lambda: make_plan(set_up, observed, catalog, PlanOptions()))
    _timed(row, "order", lambda: _hand_out(plan.changes))
    _timed(row, "text", lambda: render_plan(plan, 100))
    _timed(row, "all text", lambda: render_plan(plan, 100, PlanShown(with_all=True)))
    _timed(row, "JSON", lambda: as_json(plan_data(plan)))
    return row


def _powers(sizes: Sequence[int], seconds: Sequence[float]) -> Iterator[float]:
    """Yield the power of the VMs that fits all of the seconds best, and that of 1,000 VMs and more."""
    logs = [(log(size), log(max(spent, LEAST_SECONDS))) for size, spent in zip(sizes, seconds, strict=True)]
    for least in (0, 1_000):
        sizes_there, spent = zip(*(one for one in logs if one[0] >= log(max(1, least))), strict=True)
        yield linear_regression(sizes_there, spent).slope


def _hand_out(changes: Sequence[Change]) -> None:
    """Begin and end every change, as a run does."""
    scheduler, running = Scheduler(changes, parallel=8, per_host=2), deque[Change]()
    while (change := scheduler.next_change()) is not None or running:
        if change is not None:
            running.append(change)
        else:
            scheduler.succeed(running.popleft())


def _timed(row: dict[str, float], name: str, work: Callable[[], T]) -> T:
    """Do a piece of work, and keep the least CPU seconds of two times: the first may load what it needs.

    The garbage collector has just run, so that no piece pays for what others have left.
    """
    spent = []
    for _ in range(2):
        gc.collect()
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
