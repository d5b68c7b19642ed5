"""What became of the plans of host_samples, as render tests show it: done, failed, waiting, left standing."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from tests.unit.render import samples
from tests.unit.render.host_samples import ATS, GRAPHICS, PASSED, ref
from vgpu_cfg.changes.change import ChangeHost, EnterMaintenance, ExitMaintenance, RebootHost
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import (
    Event,
    EventKind,
    LeftBehind,
    LeftState,
    Outcome,
    OutcomeStatus,
    Report,
    SettingReading,
)
from vgpu_cfg.changes.values import SettingTarget
from vgpu_cfg.model.observed.host_facts import EstateFacts, HostFacts, HostMark
from vgpu_cfg.model.observed.inventory import Host, Inventory, VCenter


def standing_estate() -> Inventory:
    """Three hosts, of which esx-02 was left in maintenance mode by an earlier run."""
    mark = HostMark(
        plan="horovod-a100",
        since=samples.READ_AT - timedelta(minutes=53),
        maintenance=True,
        reason="reboot esx-02: pending after the reboot: ats",
        waiting={"ats": samples.READ_AT},
    )
    hosts = tuple(
        Host(
            moid=ref(name).moid,
            name=name,
            version="8.0.3",
            is_in_maintenance_mode=name == "esx-02",
        )
        for name in ("esx-01", "esx-02", "esx-04")
    )
    facts = HostFacts(boot_time=samples.READ_AT, mark=mark)
    return Inventory(
        vcenter=VCenter(address="vc01.example.com", version="8.0.3", api_version="8.0.3.0"),
        read_at=samples.READ_AT,
        hosts=hosts,
        facts=EstateFacts(hosts={ref("esx-02").moid: facts}),
    )


def reading(target: SettingTarget, **fields: Any) -> SettingReading:
    made: dict[str, Any] = {"configured": target.value, "runtime": target.value}
    return SettingReading(
        setting=target.setting, device=target.device, wanted=target.value, **(made | fields)
    )


def outcome(plan: Plan, change_id: str, status: OutcomeStatus, start: int = 0, **fields: Any) -> Outcome:
    """Make an outcome that began `start` seconds after the reading and took half a minute."""
    change = next(one for one in plan.changes if one.id == change_id)
    made: dict[str, Any] = {}
    if status in (OutcomeStatus.DONE, OutcomeStatus.FAILED):
        began = samples.READ_AT + timedelta(seconds=start)
        made = {"started_at": began, "ended_at": began + timedelta(seconds=fields.pop("seconds", 30))}
    return Outcome(change_id=change_id, subject=change.subject, status=status, **(made | fields))


def report_of(plan: Plan, outcomes: Sequence[Outcome], **fields: Any) -> Report:
    return Report(plan=plan.name, digest=plan.digest, outcomes=tuple(outcomes), **fields)


def all_done(plan: Plan) -> Report:
    """Every change done, one after the other, with what was read back."""
    outcomes: list[Outcome] = []
    start = 0
    for index, change in enumerate(plan.changes):
        fields: dict[str, Any] = {}
        if isinstance(change, ChangeHost):
            fields["readings"] = tuple(
                reading(one, runtime=one.before, waits_for="reboot") for one in change.settings
            )
        elif isinstance(change, RebootHost | ExitMaintenance):
            fields["readings"] = tuple(reading(one) for one in change.settles)
            fields["tasks"] = (f"task-{index}",)
            fields["seconds"] = 660 if isinstance(change, RebootHost) else 20
        elif isinstance(change, EnterMaintenance):
            fields["tasks"] = (f"task-{index}",)
        took = fields.get("seconds", 30)
        outcomes.append(outcome(plan, change.id, OutcomeStatus.DONE, start, **fields))
        start += took
    return report_of(plan, outcomes)


def failed_report(plan: Plan) -> Report:
    """esx-01 is done, esx-02 fails after its reboot and stays in maintenance mode."""
    done = [one for one in all_done(plan).outcomes if one.subject.name == "esx-01"]
    status = OutcomeStatus.DONE
    done += [outcome(plan, "enter maintenance esx-02", status, 830, tasks=("task-7",))]
    done += [
        outcome(plan, change.id, status, 860)
        for change in plan.changes
        if change.subject.name == "esx-02" and isinstance(change, ChangeHost)
    ]
    message = "pending after the reboot of esx-02: ats; what remains is a cold boot"
    failed = outcome(
        plan,
        "reboot esx-02",
        OutcomeStatus.FAILED,
        890,
        seconds=700,
        tasks=("task-11",),
        message=message,
        remedy="allow `cold_boot` in `disruption`, or switch the host off and on by hand; then plan again",
        readings=(
            reading(GRAPHICS),
            reading(ATS, runtime="FALSE", waits_for="cold boot"),
            reading(PASSED),
        ),
    )
    skipped = outcome(
        plan,
        "leave maintenance esx-02",
        OutcomeStatus.SKIPPED,
        message="needs 'reboot esx-02', which failed",
    )
    left = LeftBehind(name="esx-02", state=LeftState.DOWN, why=f"reboot esx-02: {message}")
    return report_of(plan, [*done, failed, skipped], left_behind=(left,))


def waiting_report(plan: Plan) -> Report:
    """The run of `with_cold_boot` up to the cold boot."""
    outcomes = []
    waiting = ("by hand esx-01: bios_sriov", "cold boot esx-02")
    for index, change in enumerate(plan.changes):
        if change.id in waiting:
            outcomes.append(outcome(plan, change.id, OutcomeStatus.SKIPPED, message="requires a manual step"))
        elif change.subject.name == "esx-01" or index > [one.id for one in plan.changes].index(waiting[1]):
            need = waiting[0] if change.subject.name == "esx-01" else waiting[1]
            message = f"waiting for {need!r}"
            outcomes.append(outcome(plan, change.id, OutcomeStatus.SKIPPED, message=message))
        else:
            outcomes.append(outcome(plan, change.id, OutcomeStatus.DONE, 60 * index))
    return report_of(plan, outcomes, waiting_for=waiting)


def events(report: Report) -> list[Event]:
    """Make the events that a run with this report would have told."""
    found = []
    for one in report.outcomes:
        common_fields: dict[str, Any] = {"change_id": one.change_id, "subject": one.subject}
        if one.started_at is None or one.ended_at is None:
            continue
        found.append(Event(at=one.started_at, kind=EventKind.STARTED, **common_fields))
        found += [
            Event(at=one.started_at, kind=EventKind.TASK, task=task, **common_fields) for task in one.tasks
        ]
        found.append(
            Event(
                at=one.ended_at,
                kind=EventKind.ENDED,
                status=one.status,
                message=one.message,
                **common_fields,
            )
        )
    return sorted(found, key=lambda event: event.at)
