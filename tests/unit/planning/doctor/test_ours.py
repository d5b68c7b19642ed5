"""Everything of vgpu-cfg at a vCenter: it agrees with doctor, and what waits or failed is named."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any

import pytest

from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.cli.flows.doctor_flow import read_to_examine
from vgpu_cfg.lab import estate_names
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.locks import SILENT_AFTER, KeptFreeze, Lock, LockHolder, LockName, Locks
from vgpu_cfg.model.observed.cordon import Cordon, MaintenanceEntry
from vgpu_cfg.model.observed.drs import ClusterRule
from vgpu_cfg.model.observed.host_facts import HostFacts, HostMark
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.observed.vm import OwnerMark, PowerState
from vgpu_cfg.model.reservations import KeptReservation, Reservation, Reservations, ReservedGpus
from vgpu_cfg.model.runs import RunEntry, RunResult
from vgpu_cfg.planning.doctor.ailments import Ailment, Kind
from vgpu_cfg.planning.doctor.examine import examine
from vgpu_cfg.planning.doctor.ours import Ours, Ran, look_around, together
from vgpu_cfg.render.text.doctor import render_ours
from vgpu_cfg.settings.connection import resolve_connection
from vgpu_cfg.settings.flags import ConnectionFlags

NOW = datetime(2026, 6, 1, 12, tzinfo=UTC)
ID = "3f0c9a7e-52d1-4b86-9e24-000000000001"
LEFT = (
    *(Kind.MAINTENANCE, Kind.UNFINISHED, Kind.LOCK, Kind.FREEZE),
    *(Kind.RESERVATION, Kind.CORDON, Kind.COPIED_MARK),
)


@cache
def read(estate: str) -> Inventory:
    return read_to_examine(resolve_connection(ConnectionFlags(server=f"lab:{estate}")))


def planted(observed: Inventory) -> Inventory:
    """Leave something of every kind behind, on hosts with GPUs and without."""
    marks: tuple[dict[str, Any], ...] = (
        {},
        {"mark": HostMark(plan="train", id=ID, since=NOW, maintenance=True), "is_in_maintenance_mode": True},
        {"cordons": (Cordon(attribute="a", reason="fans", since=NOW - timedelta(days=3)),)},
        {"is_in_maintenance_mode": True},
    )
    hosts = tuple(
        host.model_copy(update=marks[number % len(marks)]) for number, host in enumerate(observed.hosts)
    )
    lost = {
        host.moid: HostFacts(entered=MaintenanceEntry(at=NOW, by="jo", plan="old")) for host in hosts[3::4]
    }
    held = [
        Lock(
            moid=f"alarm-{number}",
            name=LockName(kind="plan", key=plan),
            holder=LockHolder(run=f"r{number}", plan=plan, user="jo", machine="m", since=NOW),
            beat_at=NOW - ago,
        )
        for number, (plan, ago) in enumerate({"silent": SILENT_AFTER, "alive": timedelta(minutes=1)}.items())
    ]
    holds = (ReservedGpus(cluster="c", board="A100", gpus=1),)
    over = Reservation(plan="course", begins=NOW - timedelta(days=9), ends=NOW, holds=holds)
    kept = KeptReservation(moid="alarm-9", name="course", reservation=over)
    vms = tuple(
        vm.model_copy(update={"mark": OwnerMark(plan="train", vm=vm.name, id=ID, instance_uuid=uuid)})
        for number, vm in enumerate(observed.vms)
        for uuid in [vm.instance_uuid.lower() if number % 2 else "another"]
    )
    facts = observed.facts.model_copy(update={"hosts": {**observed.facts.hosts, **lost}})
    update = {
        "hosts": hosts,
        "vms": vms,
        "facts": facts,
        "locks": Locks(now=NOW, held=tuple(held), freezes=(KeptFreeze(moid="alarm-8", freeze=None),)),
        "reservations": Reservations(now=NOW, kept=(kept,)),
    }
    return observed.model_copy(update=update)


def ours_of(observed: Inventory, *runs: Ran) -> Ours:
    return look_around(observed, load_catalog(), runs, ("--server", "vc01"), ())


@pytest.mark.sampled(3)
@pytest.mark.parametrize("estate", [name for name in estate_names() if not name.startswith("fleet")])
def test_doctor_and_status_agree_on_every_estate(estate: str) -> None:
    observed = planted(read(estate))
    everything = examine(observed, load_catalog(), ("--server", "vc01")).ailments
    by_doctor = {(one.kind, one.subject, one.command) for one in everything if one.kind in LEFT}
    found = ours_of(observed)
    by_status = {(one.kind, one.subject, one.command) for one in found.ailments if one.kind in LEFT}
    assert by_status == by_doctor
    expected = {
        Kind.LOCK,
        Kind.FREEZE,
        Kind.RESERVATION,
        *([Kind.UNFINISHED] if len(observed.hosts) > 1 else []),
    }
    assert expected <= {one.kind for one in found.ailments}
    assert [one.subject for one in found.ailments if one.kind is Kind.RUNNING] == ["plan:alive"]


def ran(result: RunResult | None, *windows: str, **expires: date) -> Ran:
    entry = RunEntry(run="r1", at=NOW, command="apply", plan="train", plan_id=ID, result=result, user="jo")
    return Ran(entry, NOW - timedelta(hours=5), NOW - timedelta(hours=4), windows, expires)


@pytest.mark.parametrize(
    ("run", "kind", "state"),
    [
        (ran(RunResult.DONE), None, "no difference visible"),
        (ran(RunResult.FAILED), Kind.INCOMPLETE, "partly applied"),
        (ran(RunResult.STOPPED), Kind.INCOMPLETE, "partly applied"),
        (ran(None), Kind.INCOMPLETE, "partly applied"),
        (ran(RunResult.WAITING), Kind.STEP, "waits for a manual step"),
        (ran(RunResult.WAITING, "Sat 22:00-04:00 UTC: closed"), Kind.WINDOW, "waits for a window"),
        (ran(RunResult.DONE, db=date(2026, 5, 31)), Kind.EXPIRED, "VMs expired"),
        (ran(RunResult.DONE, db=date(2026, 6, 1)), Kind.EXPIRES, "VMs expire soon"),
        (ran(RunResult.DONE, db=date(2026, 6, 8)), Kind.EXPIRES, "VMs expire soon"),
        (ran(RunResult.DONE, db=date(2026, 6, 9)), None, "no difference visible"),
    ],
)
def test_the_last_run_says_how_a_plan_stands(run: Ran, kind: Kind | None, state: str) -> None:
    observed = read("mixed-fleet").model_copy(update={"locks": Locks(now=NOW)})
    vm = next(one for one in observed.vms if not one.is_template)
    mark = OwnerMark(plan="train", vm="db", id=ID, instance_uuid=vm.instance_uuid.lower())
    update = {"mark": mark, "power_state": PowerState.ON}
    observed = observed.model_copy(update={"vms": (vm.model_copy(update=update),)})
    done = ours_of(observed, run, ran(RunResult.FAILED))
    assert [one.kind for one in done.ailments] == ([kind] if kind else [])
    (row,) = done.plans
    assert (row.state, row.vms, PlanIdentity(name=row.name, id=row.id).id) == (state, 1, ID)


def test_what_cannot_be_told_is_said() -> None:
    observed = planted(read("mixed-fleet")).model_copy(update={"locks": None, "reservations": None})
    notes = ours_of(observed).notes
    assert "locks and reservations could not be read" in notes
    assert any("only from the plan file" in one for one in notes)


def many(times: int, *, several: bool) -> Ours:
    """Blow an estate up to hundreds of hosts."""
    base = ours_of(planted(read("mixed-fleet")), ran(RunResult.FAILED))
    blown = [
        Ailment(one.kind, f"{one.subject}-{number}", f"{one.says} {number}", one.command, one.owner)
        for one in base.ailments
        for number in range(times)
    ]
    runs, plans = base.runs * times, base.plans * times
    whole = Ours("vc01", NOW, tuple(blown), plans, runs, ("course: 1 GPU",) * times, ("unread",) * times)
    return together([whole, whole]) if several else whole


@pytest.mark.sampled(3)
@pytest.mark.parametrize("several", [False, True])
@pytest.mark.parametrize("width", [80, 100, 160])
def test_hundreds_of_hosts_fit_one_screen(width: int, several: bool) -> None:
    ours = many(60, several=several)
    assert len(ours.ailments) >= 300
    assert len(render_ours(ours, width, next_command="")) <= 50
    assert len(render_ours(ours, width, next_command="", with_all=True)) > 300


def test_a_rule_outlives_the_vms_of_its_plan() -> None:
    observed = read("two-a100")
    first, *others = observed.clusters
    rules = tuple(
        ClusterRule(key=7, name=name, kind="affinity", is_enabled=True, is_mandatory=True, vm_moids=())
        for name in ("vgpu-cfg:gone:apart", "made by hand")
    )
    clusters = (first.model_copy(update={"rules": rules}), *others)
    found = ours_of(observed.model_copy(update={"clusters": clusters})).ailments
    (left,) = (one for one in found if one.kind is Kind.RULE_LEFT)
    assert (left.subject, left.owner) == (f"cluster:{first.name}", "plan gone")
    assert left.says == "rule vgpu-cfg:gone:apart"
    assert left.command == f"govc cluster.rule.info -cluster {first.name} -name vgpu-cfg:gone:apart"
