"""What preparing hosts costs in round trips: one entry of the example on 4 and on 40 bare hosts."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from tests.fakes.fake_locks import undisputed
from tests.plans.estate import PLAN_ID
from vgpu_cfg import documents
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.cli.compose import Estate
from vgpu_cfg.cli.flows.flow import read_for
from vgpu_cfg.cli.flows.preparing.host_facts import host_tools, with_facts, with_shell_facts
from vgpu_cfg.cli.guest_logins import DirectChannel
from vgpu_cfg.cli.labs import LabRunClock
from vgpu_cfg.execution import HostTools, Run
from vgpu_cfg.lab import open_lab
from vgpu_cfg.lab.estates.files import read_estate
from vgpu_cfg.lab.shell.shell import open_shell
from vgpu_cfg.lab.simulation.clock import VirtualClock
from vgpu_cfg.lab.vcenter import Lab
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.plan_file import AccessEntry
from vgpu_cfg.plan_loading import load_plan
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.planner import make_plan
from vgpu_cfg.settings.connection import LAB_PASSWORD, LAB_USER
from vgpu_cfg.settings.secrets import SecretStore
from vgpu_cfg.shells.esxi.shell import EsxiShell
from vgpu_cfg.vsphere.reading.reader import VCenterReader
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.alarms import VCenterLocks
from vgpu_cfg.vsphere.writing.host_writer import VCenterHostWriter
from vgpu_cfg.vsphere.writing.run_log import VCenterRunLog
from vgpu_cfg.vsphere.writing.writer import VCenterWriter

T = TypeVar("T")
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "prepare-hosts.yaml"
FIRST_NAMES, SECOND_ENTRY = '["esx-r12-01.lab", "esx-r12-02.lab"]', "- names: ["


@dataclass(frozen=True, slots=True)
class HostRow:
    """One line of the table: counts of all hosts together."""

    what: str
    hosts: int
    trips: int
    commands: int
    tasks: int
    seconds: float


class CountedShells:
    """Logs in to the lab's hosts without a wire, and counts the commands that are run there."""

    def __init__(self, lab: Lab) -> None:
        self.commands = 0
        self._lab = lab

    def connect(self, host_name: str, access: AccessEntry) -> EsxiShell:
        """Log in."""
        shell = open_shell(self._lab, host_name, access.user, password=LAB_PASSWORD)

        def run(line: str, _stdin: bytes) -> tuple[int, str, str]:
            self.commands += 1
            return shell.execute(line)

        return EsxiShell(DirectChannel(run), host_name)


def print_hosts(sizes: tuple[int, ...]) -> None:
    """Print the table, per host."""
    print(f"\n{'per host':24}{'hosts':>7}{'round trips':>13}{'commands':>10}{'tasks':>7}{'seconds':>10}")
    for count in sizes:
        for row in measure_hosts(count):
            each = (row.trips / count, row.commands / count, row.tasks / count, row.seconds / count)
            trips, commands, tasks, seconds = each
            print(f"{row.what:24}{count:>7}{trips:>13.1f}{commands:>10.1f}{tasks:>7.1f}{seconds:>10.3f}")


def measure_hosts(count: int) -> list[HostRow]:
    """Take as many bare hosts through the example's first entry, two at a time."""
    with tempfile.TemporaryDirectory() as folder:
        lab, desired = _made(count, Path(folder))
    rows: list[HostRow] = []
    shells, clock = CountedShells(lab), LabRunClock(lab)
    catalog, options = load_catalog(), PlanOptions()
    with Session(lab, "lab:bench", LAB_USER, LAB_PASSWORD) as session:
        reader = VCenterReader(session, clock)
        estate = Estate(
            reader,
            VCenterWriter(session),
            VCenterHostWriter(session),
            clock,
            lambda _secrets: shells,
            VCenterRunLog(session),
            VCenterLocks(session),
            is_lab=True,
        )

        def counted(what: str, work: Callable[[], T]) -> T:
            before = session.round_trips, shells.commands, lab.counters["tasks"]
            begun = time.perf_counter()
            result = work()
            seconds = time.perf_counter() - begun
            after = session.round_trips, shells.commands, lab.counters["tasks"]
            trips, commands, tasks = (now - then for now, then in zip(after, before, strict=True))
            rows.append(HostRow(what, count, trips, commands, tasks, seconds))
            return result

        def planned(observed: Inventory) -> Plan:
            return make_plan(desired, observed, catalog, options)

        def look(reader: VCenterReader) -> Inventory:
            return with_facts(desired, read_for(desired, reader), reader, options)

        def look_closely(tools: HostTools) -> Inventory:
            # As another command reads, which knows nothing yet.
            return with_shell_facts(desired, look(VCenterReader(session, clock)), tools, options)

        observed = counted("plan", lambda: look(reader))
        locks, secrets = undisputed(), SecretStore({}, Path(folder))
        with host_tools(desired, observed, estate, options, locks, secrets) as tools:
            observed = counted("plan --open-shell", lambda: look_closely(tools))
            plan = planned(observed)
            if plan.errors:
                raise SystemExit(f"the benchmark's plan does not fit: {plan.errors[0].message}")
            report = counted(
                "apply", lambda: Run(plan, reader, estate.writer, clock, locks=locks, hosts=tools).carry_out()
            )
            if report.failed:
                raise SystemExit(f"{report.failed[0].change_id}: {report.failed[0].message}")
            again = planned(counted("apply again", lambda: look_closely(tools)))
        if again.changes:
            raise SystemExit(f"a second plan is not empty: {again.changes[0].id}")
    return rows


def _made(count: int, folder: Path) -> tuple[Lab, DesiredPlan]:
    estate, plan = write_bare(count, folder)
    return open_lab(estate, clock=VirtualClock()), load_plan(plan).desired.model_copy(update={"id": PLAN_ID})


def write_bare(count: int, folder: Path) -> tuple[Path, Path]:
    """Write a cluster of hosts like the first of lab:bare, and the example's first entry for all of them."""
    names = tuple(f"esx-b-{number:02d}.lab" for number in range(1, count + 1))
    bare = read_estate("bare").estate
    cluster = bare.clusters[0]
    host = cluster.hosts[0].model_dump(mode="json", exclude_unset=True) | {"names": list(names)}
    estate = folder / "bench.yaml"
    clusters = [{"name": cluster.name, "drs": cluster.drs, "hosts": [host]}]
    estate.write_text(documents.dump({"about": "Bare hosts.", "clusters": clusters}), encoding="utf-8")
    head, _, _ = EXAMPLE.read_text(encoding="utf-8").rpartition(SECOND_ENTRY)
    plan = folder / "plan.yaml"
    plan.write_text(head.replace(FIRST_NAMES, '["esx-b-*.lab"]'), encoding="utf-8")
    return estate, plan
