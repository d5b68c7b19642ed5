"""What each display should read like, kept as text files beside this one, 80 and 100 wide.

`REWRITE_TRANSCRIPTS=1` writes them anew; read the difference before keeping it.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from pathlib import Path

from rich.text import Span, Text

from tests.unit.execution import makers
from tests.unit.render import (
    estate_displays,
    guest_samples,
    host_reports,
    host_samples,
    plan_displays,
    pool_displays,
    run_displays,
    samples,
    work_displays,
)
from tests.unit.render.display import Display
from tests.unit.render.documents import DOCUMENTS as WRITTEN
from tests.unit.render.settings_samples import VIEWS, lookup
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import ManualStep
from vgpu_cfg.changes.plan import Diagnostic, Hindrance, Plan
from vgpu_cfg.changes.report import Event, Outcome, OutcomeStatus, Report
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import DesiredHosts, DesiredPlan
from vgpu_cfg.model.observed.vm import PowerState
from vgpu_cfg.model.plan_file import AccessEntry
from vgpu_cfg.render.layout.console import make_console
from vgpu_cfg.render.markdown.runbook import render_as_run, render_runbook
from vgpu_cfg.render.text.estate.inventory import render_inventory
from vgpu_cfg.render.text.estate.profiles import render_profiles
from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan
from vgpu_cfg.render.text.run.progress import PlainDisplay
from vgpu_cfg.render.text.run.summary import render_summary
from vgpu_cfg.render.text.status import render_status
from vgpu_cfg.render.views.estate.inventory import view_inventory
from vgpu_cfg.render.views.status import view_status

FOLDER = Path(__file__).with_name("transcripts")
WIDTHS = (80, 100)
APPLY = PlanShown(next_command="vgpu-cfg apply plan.yaml")
FULL = Diagnostic(
    code="VG103",
    severity=Severity.ERROR,
    subject=Subject(kind="vm", name="hvd-03"),
    message="grid_a100-40c cannot be placed",
    remedy="free a GPU, or ask for a smaller profile",
    hindrances=(
        Hindrance(subject="esx-01", reason="0000:3b:00.0 is full (1 × grid_a100-40c: hvd-01)"),
        Hindrance(subject="esx-01", reason="0000:af:00.0 is full (1 × grid_a100-40c: hvd-02)"),
        Hindrance(subject="esx-{02..04}", reason="has L40S"),
    ),
)


def outcome(
    plan: Plan, index: int, status: OutcomeStatus, seconds: float = 30.0, **fields: object
) -> Outcome:
    change = plan.changes[index]
    began = samples.READ_AT
    return Outcome.model_validate(
        {
            "change_id": change.id,
            "subject": change.subject,
            "status": status,
            "started_at": began,
            "ended_at": began.fromtimestamp(began.timestamp() + seconds, tz=began.tzinfo),
            **fields,
        }
    )


def done(width: int) -> list[Text]:
    plan = samples.two_new()
    ids = ("vm-11", "vm-11", "vm-12", "vm-12")
    report = Report(
        plan=plan.name,
        digest=plan.digest,
        outcomes=tuple(
            outcome(
                plan, index, OutcomeStatus.DONE, 30.0 * (index + 1), tasks=(f"task-{index}",), vm_moid=moid
            )
            for index, moid in enumerate(ids)
        ),
    )
    after = samples.estate(samples.own_vm("vm-11", "hvd-01", 0), samples.own_vm("vm-12", "hvd-02", 1))
    return render_summary(
        plan,
        report,
        width,
        after=after,
        journal="~/.local/state/vgpu-cfg/journals/horovod-a100-b7996bf9-20260302T210411Z.jsonl",
        check_command="vgpu-cfg plan plan.yaml",
    )


def failed(width: int) -> list[Text]:
    server = makers.estate()
    server.failures["power_on_vm", 1] = (
        "GenericVmConfigFault",
        "Module 'DevicePowerOn' power on failed. Could not initialize plugin 'libnvidia-vgx.so' for vGPU"
        " 'grid_a100-40c'",
    )
    changes = (
        makers.create("hvd-01"),
        makers.create("hvd-02", host="host-2"),
        makers.power_on("hvd-01"),
        makers.create("hvd-03", needs=("power on hvd-01",)),
        makers.power_on("hvd-03"),
        ManualStep(
            id="bios esx-02",
            subject=Subject(kind="host", name="esx-02"),
            text="in BIOS: Integrated Devices > SR-IOV Global Enable = Enabled",
            proof="nvidia-smi -q: Host VGPU Mode : SR-IOV",
        ),
    )
    report, _ = makers.run(server, *changes)
    return render_summary(makers.plan_of(*changes), report, width, next_command="vgpu-cfg apply plan.yaml")


def destroyed(width: int) -> list[Text]:
    server = makers.estate()
    makers.add_own_vm(server, "hvd-01", "vm-7", power_state=PowerState.ON)
    changes = (
        makers.power_off("hvd-01", "vm-7"),
        makers.destroy("hvd-01", "vm-7", needs=("power off hvd-01",)),
        makers.destroy("hvd-02", "vm-8"),
    )
    report, _ = makers.run(server, *changes)
    after = samples.estate()
    return render_summary(
        makers.plan_of(*changes), report, width, after=after, check_command="vgpu-cfg status plan.yaml"
    )


def log(width: int) -> list[Text]:
    server = makers.estate(choices=["0000:af:00.0", "0000:af:00.0"], drops=frozenset({"firmware"}))
    server.failures["create_vm", 2] = ("DuplicateName", "The name 'hvd-02' already exists.")
    changes = (
        makers.create("hvd-01"),
        makers.create("hvd-02"),
        makers.power_on("hvd-01", pin=makers.pin()),
        makers.power_on("hvd-02"),
    )
    _, events = makers.run(server, *changes)
    return logged(makers.plan_of(*changes), events, width)


def logged(plan: Plan, events: list[Event], width: int) -> list[Text]:
    stream = io.StringIO()
    with PlainDisplay(make_console(stream, width=width), plan) as display:
        for event in events:
            display(event)
    return [Text(line) for line in stream.getvalue().splitlines()]


def status(width: int) -> list[Text]:
    names = ("hvd-01", "hvd-02", "hvd-03")
    plan = samples.everything().model_copy(
        update={
            "desired": DesiredPlan(
                name="horovod-a100", vcenter="prod", vms=tuple(samples.desired_vm(name) for name in names)
            )
        }
    )
    observed = samples.estate(
        samples.own_vm("vm-12", "hvd-02", 0),
        samples.own_vm("vm-13", "hvd-03", 1, is_on=False),
        samples.own_vm("vm-19", "hvd-09", 1, is_on=False),
    )
    return render_status(view_status(plan, observed), width)


def inventory(width: int) -> list[Text]:
    observed = samples.estate(
        *(samples.vm(f"vm-2{number}", f"train-{number}", "grid_a100-10c") for number in (1, 2, 3)),
        samples.vm("vm-24", "student-1", "grid_a100-1-5c"),
        samples.vm("vm-25", "desk-7", "grid_a100-8q", is_on=False),
        gpus=samples.shared(),
    )
    return render_inventory(view_inventory(observed, load_catalog()), width)


def inventory_all(width: int) -> list[Text]:
    observed = samples.estate(samples.vm("vm-11", "desk-7", "grid_a100-8q"))
    return render_inventory(view_inventory(observed, load_catalog()), width, with_all=True)


def refused(width: int) -> list[Text]:
    return render_plan(samples.plan_of(diagnostics=(FULL,)), width, APPLY)


def hosts_result(plan: Plan, report: Report) -> Display:
    entry = DesiredHosts(access=AccessEntry(ssh="open-and-close"))
    desired = DesiredPlan(name=plan.name, vcenter="prod", hosts=(entry,))
    made = plan.model_copy(update={"desired": desired})
    return lambda width: render_summary(
        made,
        report,
        width,
        next_command="vgpu-cfg apply plan.yaml",
        check_command="vgpu-cfg plan plan.yaml",
    )


def hosts_status(width: int) -> list[Text]:
    plan = host_samples.left_standing()
    checked = host_samples.checked_only().diagnostics
    differing = [
        found.model_copy(update={"subject": host_samples.host_subject("esx-04")}) for found in checked
    ]
    plan = plan.model_copy(update={"diagnostics": (*plan.diagnostics, *differing)})
    return render_status(view_status(plan, host_reports.standing_estate()), width)


TWO = host_samples.two_with_one_reboot()
COLD = host_samples.with_cold_boot()


def shown_plan(plan: Plan, *, with_all: bool = False) -> Display:
    shown = PlanShown(next_command="vgpu-cfg apply plan.yaml", with_all=with_all)
    return lambda width: render_plan(plan, width, shown)


def guests_result(width: int) -> list[Text]:
    plan, report, after = guest_samples.done()
    return render_summary(
        plan,
        report,
        width,
        after=after,
        check_command="vgpu-cfg plan plan.yaml",
        prove_command="vgpu-cfg verify plan.yaml",
    )


def guests_status(width: int) -> list[Text]:
    return render_status(view_status(*guest_samples.in_trouble()), width)


CASES: dict[str, Display] = {
    "hosts-one-reboot": shown_plan(TWO),
    "hosts-one-reboot-all": shown_plan(TWO, with_all=True),
    "hosts-cold-boot": shown_plan(COLD),
    "hosts-many": shown_plan(host_samples.many_hosts(24)),
    "hosts-everything": shown_plan(host_samples.everything()),
    "hosts-before-vms": shown_plan(host_samples.vms_after_hosts()),
    "hosts-checked": shown_plan(host_samples.checked_only()),
    "hosts-in-sync": shown_plan(samples.plan_of(hosts_in_sync=("esx-01", "esx-02"), in_sync=("hvd-01",))),
    "hosts-left-standing": shown_plan(host_samples.left_standing()),
    "run-hosts-done": hosts_result(TWO, host_reports.all_done(TWO)),
    "run-hosts-failed": hosts_result(TWO, host_reports.failed_report(TWO)),
    "run-hosts-waiting": hosts_result(COLD, host_reports.waiting_report(COLD)),
    "run-hosts-log": lambda width: logged(TWO, host_reports.events(host_reports.failed_report(TWO)), width),
    "status-hosts": hosts_status,
    "guests-new": shown_plan(guest_samples.all_new()),
    "guests-changed": shown_plan(guest_samples.one_added()),
    "guests-status": guests_status,
    "run-guests-done": guests_result,
    "plan-two-new": lambda width: render_plan(samples.two_new(), width, APPLY),
    "plan-everything": lambda width: render_plan(samples.everything(), width, APPLY),
    "plan-many": lambda width: render_plan(samples.many_new(40), width, APPLY),
    "plan-in-sync": lambda width: render_plan(samples.plan_of(in_sync=("hvd-01", "hvd-02")), width, APPLY),
    "plan-refused": refused,
    "run-done": done,
    "run-failed": failed,
    "run-destroyed": destroyed,
    "run-log": log,
    "status": status,
    "inventory": inventory,
    "inventory-all": inventory_all,
    "profiles": lambda width: render_profiles(load_catalog().board("grid_a100").profiles, width),
}
DISPLAYS: dict[str, Display] = {
    **plan_displays.DISPLAYS,
    **pool_displays.DISPLAYS,
    **run_displays.DISPLAYS,
    **estate_displays.DISPLAYS,
    **work_displays.DISPLAYS,
}
"""What is also looked at where there is much room, and in its colors."""


DOCUMENTS: dict[str, Callable[[], str]] = {
    "runbook-one-reboot.md": lambda: render_runbook(TWO, lookup, views=VIEWS),
    "runbook-cold-boot.md": lambda: render_runbook(COLD, lookup, apply_command="vgpu-cfg apply plan.yaml"),
    "runbook-everything.md": lambda: render_runbook(host_samples.everything(), lookup),
    "runbook-vms.md": lambda: render_runbook(samples.everything(), lookup),
    "runbook-guests.md": lambda: render_runbook(guest_samples.all_new(), lookup),
    "as-run-failed.md": lambda: render_as_run(
        TWO,
        host_reports.events(host_reports.failed_report(TWO)),
        host_reports.failed_report(TWO),
        by="anna on ops-1",
    ),
    "as-run-waiting.md": lambda: render_as_run(
        COLD,
        host_reports.events(host_reports.waiting_report(COLD)),
        host_reports.waiting_report(COLD),
    ),
    "as-run-broken-off.md": lambda: render_as_run(
        TWO, host_reports.events(host_reports.failed_report(TWO))[:7], None
    ),
    **WRITTEN,
}


WIDTHS_OF: dict[str, tuple[int, ...]] = {
    **dict.fromkeys(CASES, WIDTHS),
    **dict.fromkeys(DISPLAYS, (80, 160)),
    **dict.fromkeys(plan_displays.CASES, (100,)),
}


def document_of(case: str) -> Path:
    return FOLDER / "documents" / case


def path_of(case: str, width: int) -> Path:
    return FOLDER / f"{case}-{width}.txt"


def styles_of(case: str) -> Path:
    return FOLDER / "styles" / f"{case}.txt"


def styled(lines: list[Text]) -> str:
    """Return what has a style, each piece once, in the order in which it comes."""
    pieces = [
        f"{span.style}: {line.plain[span.start : span.end].strip()}"
        for line in lines
        for span in (Span(0, len(line), str(line.style)), *line.spans)
        if str(span.style)
    ]
    return "".join(f"{piece}\n" for piece in dict.fromkeys(pieces))
