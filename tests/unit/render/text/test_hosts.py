from __future__ import annotations

import io
from datetime import timedelta
from typing import TYPE_CHECKING

from rich.console import Console

from tests.plans.planned import plan_of
from tests.unit.render import host_reports, host_samples, samples
from vgpu_cfg.changes.change import ChangeHost
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.report import Event, EventKind, LeftBehind, OutcomeStatus, Report
from vgpu_cfg.changes.values import Impact, SettingTarget
from vgpu_cfg.model.observed.inventory import Host, Inventory, VCenter
from vgpu_cfg.render.layout.console import make_console, plain
from vgpu_cfg.render.text.plan.whole import PlanShown, render_plan
from vgpu_cfg.render.text.run.progress import LiveDisplay, PlainDisplay
from vgpu_cfg.render.text.run.summary import render_summary
from vgpu_cfg.render.views.plan import effort_of, host_efforts, plan_counts, waits_for
from vgpu_cfg.render.views.run.run_steps import host_rows, reading_text, standing_text
from vgpu_cfg.render.views.status import view_hosts

if TYPE_CHECKING:
    import pytest

APPLY = PlanShown(next_command="vgpu-cfg apply plan.yaml")
TWO = host_samples.two_with_one_reboot()
COLD = host_samples.with_cold_boot()


def text_of(plan: Plan, width: int = 100) -> str:
    return plain(render_plan(plan, width, APPLY))


# ------------------------------------------------------------- plan


def test_what_is_disturbed_comes_first_and_names_who_must_move() -> None:
    lines = text_of(TWO).splitlines()
    assert lines[2] == "DISRUPTION"
    assert lines[3].split(maxsplit=1) == [
        "esx-01",
        "maintenance mode, 1 reboot  migrates jump-01, ntp-02, wiki-01",
    ]
    assert "  one host at a time" in lines


def test_a_plan_without_host_changes_says_nothing_of_hosts() -> None:
    text = text_of(samples.two_new())
    assert "HOST esx" not in text
    assert "at a time" not in text
    assert "exit code 7" not in text


def test_the_command_that_approves_comes_last_if_it_is_all_that_lacks() -> None:
    shown = PlanShown("vgpu-cfg apply plan.yaml", approved_command="vgpu-cfg plan plan.yaml --delete a-2")
    last = {
        case: render_plan(plan_of(case), 100, shown)[-1].plain
        for case in ("orphan-stays", "cordon-starts-nothing", "only-one-size-of-two-starts")
    }
    assert last == {
        "orphan-stays": "NEXT   vgpu-cfg plan plan.yaml --delete a-2",
        "cordon-starts-nothing": "NEXT   vgpu-cfg plan plan.yaml --delete a-2",
        "only-one-size-of-two-starts": "NEXT   vgpu-cfg apply plan.yaml",
    }
    assert not any("NEXT" in line.plain for line in render_plan(plan_of("orphan-stays"), 100))


def test_how_many_at_once_is_said_only_where_several_go_down() -> None:
    single = samples.plan_of(*host_samples.one_reboot("esx-01"))
    assert "at a time" not in text_of(single)
    assert "up to 2 hosts at a time" in text_of(host_samples.many_hosts(3))


def test_hosts_with_the_same_disruption_share_a_row() -> None:
    changes = (*host_samples.one_reboot("esx-01"), *host_samples.one_reboot("esx-02"))
    assert "  esx-{01..02}  maintenance mode, 1 reboot" in text_of(samples.plan_of(*changes))


def test_like_hosts_are_told_once_and_others_in_full() -> None:
    text = text_of(TWO)
    assert "HOST esx-02  as esx-01, but:" in text
    assert text.count("kernel atsSupport") == 1
    other = samples.plan_of(*host_samples.one_reboot("esx-01"), *host_samples.cold_boot("esx-02"))
    assert "as esx-01" not in text_of(other)


def test_a_step_by_hand_whose_text_names_its_host_does_not_keep_hosts_apart() -> None:
    changes = (*host_samples.cold_boot("esx-01"), *host_samples.cold_boot("esx-02"))
    assert "HOST esx-02  as esx-01" in text_of(samples.plan_of(*changes))


def test_settings_of_one_write_stand_under_one_number() -> None:
    both = host_samples.write("esx-01", host_samples.GRAPHICS, host_samples.ATS)
    lines = text_of(samples.plan_of(both)).splitlines()
    at = next(index for index, line in enumerate(lines) if line.startswith("  1 ~ graphics type"))
    assert lines[at + 1].startswith("    ~ kernel atsSupport")


def test_a_derived_value_has_its_star_and_a_stated_one_has_none() -> None:
    text = text_of(TWO)
    assert "shared -> sharedDirect*" in text
    assert "FALSE -> TRUE*" not in text
    assert "* default" in text.splitlines()[0]


def test_a_value_that_was_not_read_is_no_new_one() -> None:
    unread = SettingTarget(setting="mig", device=samples.GPUS[0], value="on")
    assert "~ MIG mode 0000:3b:00.0  -> on" in text_of(samples.plan_of(host_samples.write("esx-01", unread)))


def test_a_setting_is_told_what_brings_it_into_force_the_next_restart_first() -> None:
    first = host_samples.reboot("esx-01", host_samples.ATS)
    second = host_samples.reboot("esx-01", host_samples.ATS, host_samples.GRAPHICS)
    later = [(4, first), (6, second)]
    assert waits_for(host_samples.ATS, later) == "reboot"
    assert waits_for(host_samples.ATS, later, is_numbered=True) == "reboot 4"
    assert waits_for(host_samples.GRAPHICS, later, is_numbered=True) == "reboot 6"
    assert waits_for(host_samples.PASSED, later) == ""


def test_a_proof_without_a_shutdown_before_it_is_no_cold_boot() -> None:
    step = host_samples.cold_boot_step("esx-02")
    assert waits_for(host_samples.FIRMWARE, [(1, step)]) == ""


def test_settings_that_are_right_are_counted_or_listed() -> None:
    assert "3 more settings are correct (-v)" in text_of(TWO)
    shown = plain(render_plan(TWO, 100, PlanShown(with_all=True)))
    assert "right: assignment_policy performance" in shown
    assert "(-v)" not in shown


def test_what_is_done_to_hosts_is_counted() -> None:
    assert plan_counts(COLD) == [
        "1 VM powered on or off",
        "1 power cycle",
        "5 host settings",
        "1 reboot",
        "1 cold boot",
        "2 manual steps",
        "about 8 tasks",
    ]


def test_a_host_that_waits_to_be_switched_on_costs_a_cold_boot() -> None:
    step = host_samples.cold_boot_step("esx-02")
    (effort,) = host_efforts((step,)).values()
    assert (effort.cold_boots, effort.by_hand) == (1, (1,))


def test_a_setting_done_by_hand_is_counted_and_not_told_as_right() -> None:
    step = host_samples.by_hand_step("esx-01")
    target = SettingTarget(setting="bios_sriov", value="on", before="off")
    step = step.model_copy(update={"proves": (target,)})
    leave = host_samples.leave("esx-01", target, host_samples.RIGHT[0])
    effort = effort_of("esx-01", [(1, step), (2, leave)], (step, leave))
    assert effort.settings == 1
    assert effort.right == (host_samples.RIGHT[0],)


def test_the_next_command_says_where_it_stops() -> None:
    assert "stops at 1, 13 with exit code 7 and prints the next command" in text_of(COLD, 120)


def test_a_checked_host_that_differs_is_not_called_in_sync() -> None:
    text = text_of(host_samples.checked_only(), 120)
    assert "esx-02 is out of compliance" in text
    assert "0 changes" in text


def test_a_long_value_is_never_cut_to_pieces() -> None:
    path = "/vmfs/volumes/vsan/images/NVD-AIE-800_580.95.02-1OEM.800.1.0.20613240_24.zip"
    target = SettingTarget(setting="driver of the host that has a long name", value=path, before="none")
    assert path in text_of(samples.plan_of(host_samples.write("esx-01", target)), 90)


# ------------------------------------------------------------- run


def test_a_host_that_failed_says_why_it_is_still_down() -> None:
    report = host_reports.failed_report(TWO)
    ready, failed = host_rows(TWO, report)
    assert (ready.state, ready.standing) == ("ready", "")
    assert (failed.state, failed.standing) == ("failed", "reboot esx-02 failed")
    assert [one.setting for one in failed.unsettled] == ["ats"]
    assert "In maintenance mode: esx-02 (reboot esx-02 failed)." in standing_text(TWO, report, (failed,))


def test_a_reading_after_the_run_goes_before_what_was_done() -> None:
    moid = host_samples.ref("esx-02").moid

    def after(*, is_down: bool) -> Inventory:
        host = Host(moid=moid, name="esx-02", version="8.0.3", is_in_maintenance_mode=is_down)
        vcenter = VCenter(address="vc01", version="8.0.3", api_version="8.0.3.0")
        return Inventory(vcenter=vcenter, read_at=samples.READ_AT, hosts=(host,))

    failed = host_reports.failed_report(TWO)
    assert host_rows(TWO, failed, after(is_down=False))[1].standing == ""
    done = host_reports.all_done(TWO)
    assert host_rows(TWO, done, after(is_down=True))[1].standing != ""


def test_a_run_that_took_no_host_down_does_not_speak_of_maintenance_mode() -> None:
    change = host_samples.write("esx-01", host_samples.ATS, impact=Impact.NONE)
    plan = samples.plan_of(change)
    report = host_reports.report_of(plan, [host_reports.outcome(plan, change.id, OutcomeStatus.DONE)])
    assert standing_text(plan, report, host_rows(plan, report)) == ""
    done = host_reports.all_done(TWO)
    assert standing_text(TWO, done, host_rows(TWO, done)) == "No host in maintenance mode."


def test_a_host_left_down_is_told_once() -> None:
    report = host_reports.failed_report(TWO)
    text = plain(render_summary(TWO, report, 100))
    assert "LEFT" not in text
    half_made = LeftBehind(name="hvd-01", state="made, not whole")
    other = report.model_copy(update={"left_behind": (*report.left_behind, half_made)})
    assert "LEFT   hvd-01: made, not whole" in plain(render_summary(TWO, other, 100))


def test_a_journal_tells_which_host_was_left_down() -> None:
    report = host_reports.failed_report(TWO)
    assert Report.model_validate_json(report.model_dump_json()) == report
    (text,) = report.model_dump(mode="json")["left_behind"]
    assert text.startswith("esx-02: in maintenance mode: reboot esx-02: pending")


def test_a_step_that_nothing_proves_tells_how_to_acknowledge_it_on_one_line() -> None:
    report = host_reports.waiting_report(COLD)
    text = plain(render_summary(COLD, report, 80, next_command="vgpu-cfg apply a-long-name-of-a-plan.yaml"))
    command = "vgpu-cfg apply a-long-name-of-a-plan.yaml --done 'by hand esx-01: bios_sriov'"
    assert any(line.endswith(command) for line in text.splitlines())
    assert text.count("--done") == 1


def test_a_reading_says_what_is_configured_in_force_and_awaited() -> None:
    ats = host_samples.ATS
    assert reading_text(host_reports.reading(ats)) == "ats TRUE"
    waiting = host_reports.reading(ats, runtime="FALSE", waits_for="reboot")
    assert reading_text(waiting) == "ats TRUE, active FALSE: pending reboot"
    unread = host_reports.reading(ats, configured=None, runtime=None)
    assert reading_text(unread) == "ats: expected TRUE, but it could not be read"


# ------------------------------------------------------------- progress


def event(change: ChangeHost, kind: EventKind, seconds: int, **fields: object) -> Event:
    at = samples.READ_AT + timedelta(seconds=seconds)
    made = {"at": at, "kind": kind, "change_id": change.id, "subject": change.subject, **fields}
    return Event.model_validate(made)


def test_a_long_wait_is_logged_once_a_minute() -> None:
    change = host_samples.write("esx-01", host_samples.ATS)
    stream = io.StringIO()
    with PlainDisplay(make_console(stream, width=100), samples.plan_of(change)) as display:
        display(event(change, EventKind.STARTED, 0))
        for seconds in (30, 59, 61, 90, 122):
            display(event(change, EventKind.PROGRESS, seconds, message="not back yet"))
    lines = [line.split("]", 1)[1].strip() for line in stream.getvalue().splitlines()]
    assert lines == [
        "start   set ats on esx-01",
        "wait    set ats on esx-01: not back yet  1 min 1 s",
        "wait    set ats on esx-01: not back yet  2 min 2 s",
    ]


def test_the_bar_of_a_host_tells_its_step_and_for_how_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    reboot = TWO.changes[4]
    clock = iter(range(0, 100_000, 60))
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=True, width=120, color_system=None, legacy_windows=False)
    with LiveDisplay(console, TWO, auto_refresh=False, get_time=lambda: float(next(clock))) as display:
        for one in host_reports.events(host_reports.all_done(TWO)):
            if one.change_id == reboot.id and one.kind is EventKind.ENDED:
                break
            display(one)
    assert "5/6 reboot esx-01" in stream.getvalue()
    assert "min" in stream.getvalue().split("5/6 reboot esx-01")[-1]


# ------------------------------------------------------------- status


def test_a_host_that_stands_is_never_in_sync() -> None:
    rows = view_hosts(samples.plan_of(hosts_in_sync=("esx-02",)), host_reports.standing_estate())
    assert [(row.name, row.is_in_sync, row.plan) for row in rows] == [("esx-02", False, "horovod-a100")]


def test_what_is_configured_and_awaits_its_reboot_is_pending_and_not_drift() -> None:
    chain = host_samples.chained(
        host_samples.enter("esx-01"),
        host_samples.reboot("esx-01", host_samples.ATS),
        host_samples.leave("esx-01", host_samples.ATS),
    )
    (row,) = view_hosts(samples.plan_of(*chain), samples.estate())
    assert row.pending == ("ats TRUE",)
    assert row.drift == ()
    assert not row.is_in_sync


def test_what_a_reboot_would_drop_is_no_drift() -> None:
    mig = SettingTarget(setting="mig", device=samples.GPUS[0], value="on", before="on")
    (row,) = view_hosts(samples.plan_of(host_samples.write("esx-01", mig)), samples.estate())
    assert row.drift == ()


def test_a_refused_host_points_to_its_findings() -> None:
    refused = host_samples.finding("VG512", "esx-05", "train-9 runs there with a vGPU")
    (row,) = view_hosts(samples.plan_of(diagnostics=(refused,)), samples.estate())
    assert row.drift == ("see the findings",)


def test_reports_without_hosts_stay_as_they_were() -> None:
    plan = samples.two_new()
    report = Report(plan=plan.name, digest=plan.digest)
    assert host_rows(plan, report) == ()
    assert standing_text(plan, report, ()) == ""
