"""Thousands of VMs and findings: the text sums up, and `-v` tells all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.execution import makers
from vgpu_cfg.changes.plan import Diagnostic
from vgpu_cfg.changes.report import Outcome, OutcomeStatus, Report, SettingReading
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.render.layout.lines import plain
from vgpu_cfg.render.layout.most import ALL, MOST_LINES
from vgpu_cfg.render.text.estate.inventory import render_inventory
from vgpu_cfg.render.text.plan.findings import render_findings
from vgpu_cfg.render.text.run.summary import render_hosts, render_summary
from vgpu_cfg.render.text.status import render_status
from vgpu_cfg.render.views.estate.inventory import GpuRow, HostRow, InventoryView
from vgpu_cfg.render.views.run.run_steps import HostResult
from vgpu_cfg.render.views.status import StatusView, VmRow


def warnings(count: int) -> list[Diagnostic]:
    return [
        Diagnostic(
            code="VG303",
            severity=Severity.WARNING,
            subject=Subject(kind="vm", name=f"a-{number}"),
            message=f"reason {number}",
        )
        for number in range(count)
    ]


@pytest.mark.parametrize(("count", "told", "rest"), [(16, 16, ""), (1_016, 16, "and 1,000 more of VG303")])
def test_of_many_findings_of_a_code_the_first_are_told(count: int, told: int, rest: str) -> None:
    text = plain(render_findings(warnings(count), 100))
    assert (text.count("reason"), "more of" in text) == (told, bool(rest))
    assert rest in text
    assert f"{count} warnings" in text
    assert plain(render_findings(warnings(count), 100, most=ALL)).count("reason") == count


def state(count: int, *off: int) -> StatusView:
    rows = tuple(
        VmRow(f"a-{number:05}", f"vm-{number}", "poweredOff" if number in off else "poweredOn", "esx-01",
              ("0000:21:00.0",), (0,), ("grid_a100-10c",), "0", ("power",) if number in off else ())
        for number in range(count)
    )  # fmt: skip
    return StatusView("demo", "lab", "", "", rows, (), is_in_sync=not off)


def test_up_to_a_hundred_vms_have_a_row_each() -> None:
    text = plain(render_status(state(100), 100))
    assert (text.count("a-0"), "more VMs" in text) == (100, False)


def test_of_more_vms_those_that_differ_are_told_and_the_others_counted() -> None:
    view = state(10_000, 9_998)
    text = plain(render_status(view, 100))
    assert text.count("a-0") == 100
    assert "a-09998" in text
    assert "and 9,900 more VMs: 9,900 on (-v shows all)" in text
    assert plain(render_status(view, 100, with_all=True)).count("a-0") == 10_000


GPU = GpuRow("", "0000:21:00.0", "A100", "A100", 81_920, 0, "same size", (), 81_920, {}, "8 x 10c", "")


def estate(hosts: int, *bad: int) -> InventoryView:
    gpus = tuple(
        replace(GPU, host=f"esx-{number:04}", obstacle="not shared" if number in bad else "")
        for number in range(hosts)
        for _ in range(8)
    )
    rows = tuple(
        HostRow(f"esx-{number:04}", "gpu", "8.0.3", "", "", "ok", "sharedDirect", "", 64, 1_024, 2, 8, 3, 4)
        for number in range(hosts)
    )
    return InventoryView("lab", "8.0.3", "8.0.3.0", "", rows, (), gpus, (), (), (), ())


def test_an_inventory_of_a_thousand_hosts_is_a_screen_of_those_to_look_at_and_counts_the_others() -> None:
    lines = render_inventory(estate(1_000, 998), 100)
    text = plain(lines)
    assert len(lines) <= MOST_LINES
    assert "and 988 more hosts: 988 ok (-v shows all)" in text
    assert text.count("not shared") == 8  # of the 999th host, which is to be looked at
    assert "and 7,984 more GPUs of 998 hosts: 7,984 free (-v shows all)" in text
    whole = plain(render_inventory(estate(1_000, 998), 100, with_all=True))
    assert (whole.count("0000:21:00.0"), "-v shows all" in whole) == (8_000, False)


def test_an_inventory_of_a_hundred_gpus_tells_of_each() -> None:
    text = plain(render_inventory(estate(12), 100))
    assert (text.count("0000:21:00.0"), "-v shows all" in text) == (96, False)


def run_of(count: int, *failing: int) -> str:
    changes = [makers.power_on(f"a-{number:05}") for number in range(count)]
    outcomes = tuple(
        Outcome(
            change_id=change.id,
            subject=change.subject,
            status=OutcomeStatus.FAILED if number in failing else OutcomeStatus.DONE,
        )
        for number, change in enumerate(changes)
    )
    return plain(
        render_summary(makers.plan_of(*changes), Report(plan="p", digest="", outcomes=outcomes), 100)
    )


def test_the_end_of_a_run_has_a_row_for_a_hundred_vms_and_counts_the_others() -> None:
    table, _, failures = run_of(5_000, 4_998).partition("FAILED  step")
    assert table.count("a-0") == 100
    assert "a-04998" in table
    assert "a-04998" in failures
    assert "and 4,900 more VMs: 4,900 done (in the journal)" in table
    assert run_of(100).count("a-0") == 100


def hosts_of_a_run(count: int, *unlike: HostResult) -> str:
    rows = [HostResult(f"esx-{number:04}", "", "ready", 3, 1, 0, "", 60.0, ()) for number in range(count)]
    return plain(render_hosts([*rows, *unlike], 100))


def test_the_end_of_a_run_has_a_row_for_a_hundred_hosts_and_counts_the_others() -> None:
    unread = SettingReading(setting="ECC", wanted="on", configured="off", differs=True)
    like = HostResult("bad-1", "", "failed", 0, 0, 0, "", 60.0, ())
    others = (like, replace(like, name="bad-2", state="ready", readings=(unread,)))
    text = hosts_of_a_run(
        1_000, *others, replace(like, name="bad-3", state="ready", standing="it is left so")
    )
    assert (text.count("esx-0"), text.count("bad-")) == (97, 3)
    assert "and 903 more hosts: 903 ready (in the journal)" in text
    assert "~ ECC" in text
    assert (hosts_of_a_run(100).count("esx-0"), "more hosts" in hosts_of_a_run(100)) == (100, False)
