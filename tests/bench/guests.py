"""What setting guests up costs: round trips and tasks per worker, and how large what a clone carries is."""

from __future__ import annotations

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tests.fakes.fake_locks import undisputed
from tests.plans.estate import PLAN_ID
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import StageGuest
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.cli.flows.flow import read_for
from vgpu_cfg.cli.flows.preparing.guest_access import GuestSecrets
from vgpu_cfg.cli.guest_logins import LabGuestShells
from vgpu_cfg.cli.labs import LabRunClock
from vgpu_cfg.execution import GuestTools, Run
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.guest.login import host_key_of, open_guest_shell
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER
from vgpu_cfg.settings.plan_keys import PlanSeeds
from vgpu_cfg.shells.keys import PlanKeyRing
from vgpu_cfg.staging.stager import Stager
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

SEED = bytes(range(32))
USER_DATA = "guestinfo.userdata"
PLAN = """
version: 1
name: bench
unpinned: true
vcenter: lab:fleet
networks:
- {{name: vm-network, subnet: 10.0.0.0/16, pool: 10.0.1.1-10.0.4.250}}
vms:
- name: "w-{{001..{count:03d}}}"
  template: ubuntu-22.04-efi
  cpus: 4
  memory: 16GiB
  gpus: [{{profile: [grid_a100d-10c, grid_a100-10c, nvidia_l40s-12c, nvidia_h100-10c]}}]
  nics: [{{network: vm-network, ip: pool}}]
  disks: [{{grow: 120GiB}}]
  guest: {{driver: {{package: "https://files.lab/nvidia-linux-grid-580_580.95.05_amd64.deb"}}}}
training: {{image: "nvcr.io/nvidia/tensorflow:21.07-tf1-py3", workers: w-*}}
"""


@dataclass(frozen=True, slots=True)
class GuestRow:
    """One line of the table: counts of all workers together; `size` is the largest user data in bytes."""

    what: str
    workers: int
    trips: int
    tasks: int
    staged: int
    modules: int
    size: int
    seconds: float


def print_guests(sizes: tuple[int, ...]) -> None:
    """Print the table."""
    heads = f"{'round trips':>13}{'tasks':>7}{'staged':>8}{'modules':>9}{'user data':>11}{'seconds':>9}"
    print(f"\n{'guests':24}{'workers':>9}{heads}")
    for count in sizes:
        for row in measure_guests(count):
            print(
                f"{row.what:24}{row.workers:>9}{row.trips:>13,}{row.tasks:>7,}{row.staged:>8}"
                f"{row.modules:>9}{row.size:>11,}{row.seconds:>9.1f}"
            )


def measure_guests(count: int) -> list[GuestRow]:
    """Make as many workers and set them up, apply again, and add one more."""
    lab = open_lab("fleet-100x8", clock=VirtualClock())
    clock, rows = LabRunClock(lab), list[GuestRow]()
    secrets = GuestSecrets(PlanSeeds(SEED), {})
    stager = Stager(SEED, {}, secrets.fingerprints)
    shells = LabGuestShells(
        PlanKeyRing(SEED),
        {},
        lambda moid, user, password, key: (
            open_guest_shell(lab, moid, user, password=password, public_key=key).execute
        ),
        lambda moid: host_key_of(lab, moid),
    )
    tools = GuestTools(stager=stager, shells=shells)
    with Session(lab, "lab:bench", LAB_USER, LAB_PASSWORD) as session:
        writer = VCenterWriter(session)

        def applied(what: str, workers: int) -> None:
            desired, reader = _desired(workers), VCenterReader(session, clock)
            trips, tasks, begun = session.round_trips, lab.counters["tasks"], time.perf_counter()
            options = secrets.in_options(PlanOptions())
            plan = make_plan(desired, read_for(desired, reader), load_catalog(), options)
            if plan.errors:
                raise SystemExit(f"the benchmark's plan does not fit: {plan.errors[0].message}")
            report = Run(plan, reader, writer, clock, locks=undisputed(), guests=tools).carry_out()
            if report.failed:
                raise SystemExit(f"{report.failed[0].change_id}: {report.failed[0].message}")
            stages = _stages(plan)
            rows.append(
                GuestRow(
                    what,
                    workers,
                    session.round_trips - trips,
                    lab.counters["tasks"] - tasks,
                    len(stages),
                    sum(len(one.modules) for one in stages),
                    max(
                        [len(stager.seed(one.spec)[USER_DATA]) for one in stages if one.with_clone], default=0
                    ),
                    time.perf_counter() - begun,
                )
            )

        applied("apply", count)
        applied("apply again", count)
        applied("one worker more", count + 1)
    return rows


def _desired(workers: int) -> DesiredPlan:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plan.yaml"
        path.write_text(PLAN.format(count=workers), encoding="utf-8")
        return load_plan(path).desired.model_copy(update={"id": PLAN_ID})


def _stages(plan: Plan) -> list[StageGuest]:
    return [one for one in plan.changes if isinstance(one, StageGuest)]
