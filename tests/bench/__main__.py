"""Read, plan, apply and apply again, for VMs by the thousand and for bare hosts of the lab; start-up times.

Counts (round trips, tasks) are the same everywhere; seconds belong to the machine. The lab
answers in this process on a virtual clock, so that what is measured is this tool and the
lab's own work, not the wait for a vCenter.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from tests.bench.changes import print_changes
from tests.bench.far import print_far
from tests.bench.guests import print_guests
from tests.bench.hosts import print_hosts
from tests.bench.makers import KINDS, MAKERS, print_exact_fits
from tests.bench.placement import print_placement
from tests.bench.preparing import print_preparing
from tests.bench.reading import print_readings
from tests.bench.scale import print_scale
from tests.bench.start_up import print_start_up
from tests.fakes.fake_locks import undisputed
from tests.plans.estate import PLAN_ID
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import OutcomeStatus
from vgpu_cfg.cli.labs import LabRunClock
from vgpu_cfg.execution import Run, RunOptions
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.simulation.clock import VirtualClock, as_datetime
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.vgpu import VgpuProfile
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.planning.pool.shapes import CurrentHosts
from vgpu_cfg.ports import ReadScope
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

T = TypeVar("T")
FAR = 0.05
"""Seconds that a call takes besides to a vCenter far away."""
PROFILE = VgpuProfile.parse("grid_a100-10c")
HOSTS = 100
GPUS_PER_HOST = 8
PLACEMENTS = [(25, 125), (50, 250), (100, 500), (200, 1000), (100, 2000), (100, 4000)]
EXACT_FITS = [(24, range(1, 11)), (100, range(1, 11))]
"""Hosts and the seeds of their instances."""
PREPARED = [(10, 50), (100, 500)]
READ = ("fleet-10x8-100vms", "fleet-100x8-1000vms", "fleet-1000x8-10000vms", "fleet-50x8+950-10000vms")
"""The estates that are read."""
PLAN = """
version: 1
name: bench
vcenter: lab:fleet
vms:
- name: "b-{{0001..{count:04d}}}"
  template: ubuntu-22.04-efi
  cpus: 4
  memory: 16GiB
  gpus: [{{profile: [grid_a100d-10c, grid_a100-10c, nvidia_l40s-12c, nvidia_h100-10c]}}]
"""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `trips` and `tasks` are counts of one run."""

    what: str
    vms: int
    trips: int
    tasks: int
    seconds: float
    lab_seconds: float = 0.0


class Distant:
    """A lab that is some way off: each call takes so many seconds of its time besides."""

    def __init__(self, lab: Lab, seconds: float) -> None:
        self._lab = lab
        self._seconds = seconds

    def exchange(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes
    ) -> tuple[int, Mapping[str, str], bytes]:
        assert isinstance(self._lab.clock, VirtualClock)
        self._lab.clock.advance(self._seconds)
        return self._lab.exchange(method, path, headers, body)

    def close(self) -> None:
        self._lab.close()


class LabTime:
    """The lab's own time, as the clock of a run: so what a run waits for passes there."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.pause = LabRunClock(lab).pause

    def now(self) -> datetime:
        return as_datetime(self._lab.clock.now())


class BenchClock:
    """Tells the time; nothing here waits for it."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def pause(self, seconds: float) -> None:
        del seconds


def main(arguments: Sequence[str]) -> int:
    """Run the benchmark and print its tables."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=__doc__)
    parser.add_argument("--vms", type=int, nargs="*", default=[10, 100, 1000])
    parser.add_argument("--quick", action="store_true", help="10 VMs and 4 hosts only, and no large estate")
    parser.add_argument("--start-up", action="store_true", help="only what a command takes until it answers")
    parser.add_argument("--scale", action="store_true", help="only how reading, loading and planning grow")
    parser.add_argument("--far", action="store_true", help="only what commands wait for a vCenter far away")
    fits = "only placing VMs that fit exactly, of these makers"
    parser.add_argument("--exact-fits", nargs="*", choices=[*KINDS, *MAKERS], help=fits)
    chosen = parser.parse_args(arguments)
    if chosen.exact_fits is not None:
        print_exact_fits(chosen.exact_fits or tuple(KINDS), EXACT_FITS)
        return 0
    if chosen.far:
        print_far()
        return 0
    if chosen.start_up:
        print_start_up()
        return 0
    if chosen.scale:
        print_changes()
        print_readings(READ)
        print_scale(PLAN, BenchClock())
        return 0
    print_plans([10] if chosen.quick else chosen.vms)
    print_hosts((4,) if chosen.quick else (4, 40))
    print_guests((2,) if chosen.quick else (2, 20))
    print_placement([(10, 50)] if chosen.quick else PLACEMENTS)
    print_preparing([(10, 50)] if chosen.quick else PREPARED)
    if not chosen.quick:
        hosts, vms = 1000, 10_000
        _, seconds = timed(lambda: open_lab(f"fleet-{hosts}x8-{vms}vms", clock=VirtualClock()))
        print(f"\nlab: start an estate of {hosts:,} hosts and {vms:,} VMs{seconds:>13.2f} s")
    print_changes()
    print_readings(READ[:1] if chosen.quick else READ)
    print_start_up()
    return 0


def print_plans(sizes: Sequence[int]) -> None:
    """Print what plans cost, and how long their runs take near to a vCenter and far from it."""
    print(f"{'':24}{'VMs':>7}{'round trips':>13}{'tasks':>8}{'seconds':>10}")
    applied: list[Row] = []
    for count in sizes:
        rows = measure(count)
        applied += (row for row in rows if row.what == "apply")
        for row in rows:
            print(f"{row.what:24}{row.vms:>7,}{row.trips:>13,}{row.tasks:>8,}{row.seconds:>10.2f}")
    print(f"\n{'apply':24}{'VMs':>7}{'at 0 ms, min':>14}{'at 50 ms, min':>15}{'ratio':>7}")
    for near in applied:
        (far,) = (row for row in measure(near.vms, delay=FAR) if row.what == "apply")
        ratio = far.lab_seconds / near.lab_seconds
        minutes = near.lab_seconds / 60, far.lab_seconds / 60
        print(f"{'':24}{near.vms:>7,}{minutes[0]:>14.1f}{minutes[1]:>15.1f}{ratio:>7.2f}")


def measure(count: int, delay: float = 0.0) -> list[Row]:
    """Measure one size of plan on a fresh fleet that is so many seconds away."""
    lab = open_lab(f"fleet-{HOSTS}x{GPUS_PER_HOST}", clock=VirtualClock())
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.yaml"
        path.write_text(PLAN.format(count=count), encoding="utf-8")
        desired = load_plan(path).desired.model_copy(update={"id": PLAN_ID})
    catalog = load_catalog()
    rows = []
    clock = LabTime(lab)
    with Session(Distant(lab, delay), "lab:fleet", LAB_USER, LAB_PASSWORD) as session:
        reader, writer = VCenterReader(session, BenchClock()), VCenterWriter(session)

        def counted(what: str, work: Callable[[], T]) -> T:
            trips, tasks, begun = session.round_trips, lab.counters["tasks"], lab.clock.now()
            result, seconds = timed(work)
            trips, tasks = session.round_trips - trips, lab.counters["tasks"] - tasks
            rows.append(Row(what, count, trips, tasks, seconds, lab.clock.now() - begun))
            return result

        def look() -> Plan:
            # As another command reads, which knows nothing yet.
            found = VCenterReader(session, BenchClock()).read_inventory(scope_of(desired))
            return make_plan(desired, found, catalog, PlanOptions())

        observed = counted("read", lambda: reader.read_inventory(scope_of(desired)))
        counted(
            "fit",
            lambda: CurrentHosts(
                VCenterReader(session, BenchClock()).read_inventory(ReadScope()), catalog
            ).fit_gpu(GpuEntry(profile=(PROFILE,)), every),
        )
        plan = counted("plan", lambda: make_plan(desired, observed, catalog, PlanOptions()))
        if plan.errors:
            raise SystemExit(f"the benchmark's plan does not fit: {plan.errors[0].message}")
        report = counted(
            "apply",
            lambda: Run(
                plan,
                reader,
                writer,
                clock,
                locks=undisputed(),
                options=RunOptions(),
            ).carry_out(),
        )
        undone = [found for found in report.outcomes if found.status is not OutcomeStatus.DONE]
        if undone:
            raise SystemExit(f"{undone[0].change_id}: {undone[0].message}")
        again = counted("apply again", look)
        if again.changes:
            raise SystemExit(f"a second plan is not empty: {again.changes[0].id}")
        counted("read again", lambda: reader.read_inventory(scope_of(desired)))
    return rows


def every(host: str) -> bool:
    """Want every host."""
    return bool(host)


def scope_of(desired: DesiredPlan) -> ReadScope:
    """Say what a reading for the benchmark's plan covers."""
    return ReadScope(
        plan=desired.identity,
        vm_names=frozenset(vm.name for vm in desired.vms),
        template_names=frozenset({"ubuntu-22.04-efi"}),
    )


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """Return what the work returns, and the seconds it took."""
    begun = time.perf_counter()
    result = work()
    return result, time.perf_counter() - begun


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
