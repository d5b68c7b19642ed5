"""Answers about runs: history, locks, upkeep, rollback, canaries and explanations."""

from __future__ import annotations

from datetime import timedelta

from tests.unit.execution import makers
from tests.unit.render import host_reports, host_samples, samples
from tests.unit.render.display import Display
from vgpu_cfg.changes.change import DestroyVm, SetCordon
from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.changes.report import CanaryResult, LeftBehind, Outcome, OutcomeStatus, Report, Rollback
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Edit, HostRef, Subject
from vgpu_cfg.knowledge.check_pages import CheckPage, make_page
from vgpu_cfg.knowledge.faults import PastTask, count_known, explain_text
from vgpu_cfg.knowledge.verify_failures import FAILURES, Failure
from vgpu_cfg.model.choices import Occasion
from vgpu_cfg.model.locks import Lock, LockHolder, LockName, Locks
from vgpu_cfg.model.observed.inventory import Host
from vgpu_cfg.model.observed.vm import OwnerMark, PowerState, Vm
from vgpu_cfg.model.runs import RunEntry, RunResult
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.remedies.diagnosis import Diagnosis, ShownLine
from vgpu_cfg.planning.remedies.start_conditions import ConditionKind, ConditionState, StartCondition
from vgpu_cfg.render.text.check_page import render_page
from vgpu_cfg.render.text.explain import render_diagnosis, render_explanations
from vgpu_cfg.render.text.run.history import (
    render_history,
    render_locks,
    render_removed,
    render_run,
    render_run_locks,
)
from vgpu_cfg.render.text.run.summary import Drained, render_summary, render_upkeep
from vgpu_cfg.render.views.run.run_steps import RunRow, StepDone, steps_done, view_run

NOW = samples.READ_AT
SERVER = "vc01.example.com"
NOTES = ("events of vCenter before 2026-02-01 are gone",)
LOG = "~/.local/state/vgpu-cfg/journals/horovod-a100-b7996bf9-20260302T210411Z.jsonl"
CHANGE = Occasion("CHG0042", "new drivers")


# ---------------------------------------------------------------- runs of the past


def past_run(
    run: str, result: RunResult | None, *, done: int = 0, failed: int = 0, **fields: object
) -> RunRow:
    entry = RunEntry.model_validate(
        {
            "run": run,
            "at": NOW,
            "command": "apply",
            "plan": "horovod-a100",
            "digest": "b7996bf9",
            "changes": 4,
        }
        | {"result": result, "done": done, "failed": failed, "account": "VSPHERE.LOCAL\\anna"}
        | fields
    )
    ended = NOW + timedelta(seconds=754) if result else None
    return view_run(entry, NOW, ended, ("vCenter", "journal") if result else ("vCenter",))


RUNS = (
    past_run("0123456789ab", RunResult.DONE, done=4, user="anna", machine="ci-7", tasks=7, occasion=CHANGE),
    past_run("ba9876543210", RunResult.FAILED, done=2, failed=1, user="jo", machine="lab"),
    past_run("20260302T210411Z", RunResult.STOPPED, done=1),
    past_run("feedfeedfeed", RunResult.WAITING, done=3),
    past_run("aaaaaaaaaaaa", None, digest="", plan="", command="drain"),
)


def steps() -> list[StepDone]:
    plan = host_samples.two_with_one_reboot()
    report = host_reports.failed_report(plan)
    return steps_done(plan, host_reports.events(report), report)


# ---------------------------------------------------------------- locks


def lock(kind: str, label: str, run: str = "", minutes: float = 1, *, plan: str = "horovod-a100") -> Lock:
    holder = LockHolder(
        run=run or "x",
        command="apply" if plan else "drain",
        plan=plan,
        user="anna",
        machine="ci-7",
        pid=812,
        since=NOW - timedelta(hours=1),
    )
    name = LockName.model_validate({"kind": kind, "key": f"{kind}-1", "label": label})
    return Lock(
        moid="alarm-1",
        name=name,
        holder=holder if run else None,
        beat_at=NOW - timedelta(minutes=minutes),
        account="VSPHERE.LOCAL\\anna",
    )


HELD = (
    lock("plan", "horovod-a100", "0123456789ab"),
    lock("id", "horovod-a100", "0123456789ab"),
    lock("host", "esx-01", "0123456789ab"),
    lock("cluster", "gpu", "feedfeedfeed", 16, plan=""),
)
LOCKS = Locks(now=NOW, server=SERVER, held=(*HELD, lock("host", "esx-07")))


# ---------------------------------------------------------------- work on hosts, rollback, canaries


def cordon() -> SetCordon:
    return SetCordon(
        id="cordon esx-01",
        subject=Subject(kind="host", name="esx-01"),
        host=HostRef(moid="host-1", name="esx-01"),
        edits=(
            Edit(key="cordon", after="new DIMM (anna)"),
            Edit(key="cordon 0000:3b:00.0", before="ECC errors", after="swap it"),
            Edit(key="cordon 0000:af:00.0", before="ECC errors"),
        ),
        values={"vgpu_cfg.cordon": "new DIMM"},
    )


def upkeep(*, running: tuple[str, ...] = (), is_done: bool = True) -> Display:
    failed = makers.power_off("hvd-01", "vm-7")
    warning = Diagnostic(
        code="VG103",
        severity=Severity.WARNING,
        subject=Subject(kind="vm", name="hvd-02"),
        message="it has no other place",
        remedy="switch it off",
    )
    plan = samples.plan_of(cordon(), failed, name="drain", diagnostics=(warning,))
    outcomes = (
        Outcome(change_id="cordon esx-01", subject=cordon().subject, status=OutcomeStatus.DONE),
        Outcome(
            change_id=failed.id,
            subject=failed.subject,
            status=OutcomeStatus.FAILED,
            message="the guest does not shut down within 300 s",
            remedy="shut it down in its console, then type the same again",
        ),
    )
    report = Report(plan="drain", digest=plan.digest, outcomes=outcomes)
    drained = Drained(
        Host(moid="host-1", name="esx-01", inventory_path="/dc1/host/gpu/esx-01"),
        running,
        "vgpu-cfg uncordon host:esx-01",
    )
    return lambda width: render_upkeep(
        plan, report if is_done else None, width, drained=drained, journal=LOG if is_done else ""
    )


def rolled_back(rollback: Rollback) -> Display:
    plan = samples.two_new()
    first, second, *_ = plan.changes
    ended = NOW + timedelta(seconds=30)
    outcomes = (
        Outcome(
            change_id=first.id,
            subject=first.subject,
            status=OutcomeStatus.DONE,
            started_at=NOW,
            ended_at=ended,
        ),
        Outcome(
            change_id=second.id,
            subject=second.subject,
            status=OutcomeStatus.FAILED,
            message=f"{second.id}: no host is compatible",
            cause="the profile is not among those that the host can create",
            started_at=NOW,
            ended_at=ended,
        ),
    )
    report = Report(
        plan=plan.name,
        digest=plan.digest,
        outcomes=outcomes,
        occasion=CHANGE,
        rollback=rollback,
        canaries=CANARIES,
    )
    return lambda width: render_summary(
        plan,
        report,
        width,
        next_command="vgpu-cfg apply plan.yaml",
        undo_command="vgpu-cfg destroy plan.yaml",
    )


CANARIES = (
    CanaryResult(
        names=("esx-01",), others=("esx-02", "esx-03"), goes_on=True, notes=("its fans were not read",)
    ),
    CanaryResult(names=("hvd-01",), others=("hvd-02",), problems=("its GPU is missing",)),
    CanaryResult(names=("hvd-03",), others=("hvd-04",)),
)


def undone(*names: str) -> tuple[DestroyVm, ...]:
    return tuple(makers.destroy(name, f"vm-{name}") for name in names)


def kept(code: Code, name: str, remedy: str) -> Diagnostic:
    return Diagnostic(
        code=code,
        severity=Severity.WARNING,
        subject=Subject(kind="vm", name=name),
        message="its disks are not empty",
        remedy=remedy,
    )


def undo_outcome(change: DestroyVm, status: OutcomeStatus) -> Outcome:
    return Outcome(
        change_id=change.id,
        subject=change.subject,
        status=status,
        message="" if status is OutcomeStatus.DONE else f"{change.id}: it is locked",
        remedy="" if status is OutcomeStatus.DONE else "end the backup",
    )


FIRST, SECOND = undone("hvd-01", "hvd-02")
HALF = Rollback(
    changes=(FIRST, SECOND),
    outcomes=(undo_outcome(FIRST, OutcomeStatus.DONE), undo_outcome(SECOND, OutcomeStatus.FAILED)),
    kept=(
        kept(Code.NOT_UNDONE, "hvd-03", "restore the backup"),
        kept(Code.NOT_UNDONE_ON_PURPOSE, "hvd-04", ""),
    ),
    left_behind=(LeftBehind(name="the folder training"),),
)

# ---------------------------------------------------------------- explanations

VM = Vm(moid="vm-1", name="hvd-02", power_state=PowerState.OFF, mark=OwnerMark(plan="demo", vm="hvd-02"))


def condition(says: str, verdict: ConditionState) -> StartCondition:
    return StartCondition(about=ConditionKind.MMIO, verdict=verdict, says=says)


WRONG = condition("64-bit MMIO is off, and 64 GiB are needed", ConditionState.WRONG)
RIGHT = condition("firmware EFI", ConditionState.RIGHT)
UNKNOWN = condition("the host's license is not read", ConditionState.UNKNOWN)
LOG_TEXT = """\
2026-03-02T21:04:11.000Z In(05) vmx - vmiop_log: (0x0): Guest VM is using the wrong plugin
Module 'DevicePowerOn' power on failed.
"""
EXPLAINED = explain_text(LOG_TEXT)
TASK = PastTask(
    task="task-12",
    operation="VirtualMachine.powerOn",
    user="VSPHERE.LOCAL\\anna",
    ended_at=NOW,
    fault="GenericVmConfigFault",
    error="Module 'DevicePowerOn' power on failed.",
)
FOUND = Diagnosis(
    vm=VM,
    host="esx-01",
    failed=TASK,
    reconfigured=PastTask(task="task-9", operation="VirtualMachine.reconfigure", ended_at=NOW),
    log_path="[vsan] hvd-02/vmware.log",
    lines=(ShownLine(place="vmware.log:812", at=NOW, text="Failed to start the plugin"),),
    explanation=EXPLAINED[0].explanation,
    causes=(WRONG,),
    others=(condition("the VM has no reservation", ConditionState.WRONG),),
    ruled_out=(RIGHT,),
    unknown=(UNKNOWN,),
    notes=("the log was read from its end only",),
    next_command="vgpu-cfg plan plan.yaml",
    next_reason="shows the change",
)


def told(**fields: object) -> Display:
    found = FOUND.model_copy(update=fields)
    return lambda width: render_diagnosis(found, width)


PAGE = """# VG103 No place

## What it means
No host has a **free** GPU, see `vgpu-cfg fit`:

```console
$ vgpu-cfg fit grid_a100-40c
```

## What to do
1. Free a GPU.
2. Ask for less.
"""

PAGES: list[tuple[Code | Failure, CheckPage]] = [
    (Code("VG103"), make_page("VG103", PAGE)),
    (next(iter(FAILURES.values())), make_page("VV001", PAGE)),
]
DISPLAYS: dict[str, Display] = {
    "history": lambda width: render_history(RUNS, width, server=SERVER, notes=NOTES),
    "history-none": lambda width: render_history((), width, server="", notes=NOTES),
    "history-run": lambda width: render_run(RUNS[0], steps(), width, notes=NOTES, journal=LOG),
    "history-run-alone": lambda width: render_run(RUNS[-1], None, width, notes=(), journal=""),
    "locks": lambda width: render_locks(LOCKS, width, server=SERVER),
    "locks-none": lambda width: render_locks(Locks(now=NOW), width, server=SERVER),
    "locks-of-a-run": lambda width: [
        *render_run_locks(LOCKS, "0123456789ab", width),
        *render_run_locks(LOCKS, "feedfeedfeed", width),
    ],
    "locks-removed": lambda width: [*render_removed(HELD[:3], width), *render_removed((), width)],
    "upkeep": upkeep(),
    "upkeep-running": upkeep(running=("hvd-02", "desk-7")),
    "upkeep-nothing": upkeep(is_done=False),
    "run-rolled-back": rolled_back(HALF),
    "run-rolled-back-whole": rolled_back(
        Rollback(changes=(FIRST,), outcomes=(undo_outcome(FIRST, OutcomeStatus.DONE),))
    ),
    "run-rollback-stopped": rolled_back(HALF.model_copy(update={"is_interrupted": True, "kept": ()})),
    "run-rollback-nothing": rolled_back(Rollback()),
    "run-rollback-kept": rolled_back(Rollback(kept=HALF.kept)),
    "run-rollback-not-made": rolled_back(Rollback(why_not="vCenter does not answer")),
    "explain-known": lambda width: render_explanations(EXPLAINED, width, known=count_known()),
    "explain-unknown": lambda width: render_explanations((), width, known=123),
    "explain-vm": told(),
    "explain-vm-by-its-words": told(causes=(), lines=()),
    "explain-vm-not-now": told(causes=(), others=()),
    "explain-vm-not-known": told(causes=(), explanation=None, log_path="", lines=(), notes=()),
    "explain-vm-no-failure": told(causes=(), failed=None, explanation=None, host="", reconfigured=None),
    "check-page": lambda width: [line for check, page in PAGES for line in render_page(check, page, width)],
}
