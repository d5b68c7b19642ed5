"""Thousands of VMs and findings: the text sums up, and `-v` tells all."""

from __future__ import annotations

import pytest

from vgpu_cfg.model.plan.change import Diagnostic, Subject
from vgpu_cfg.model.plan.severity import Severity
from vgpu_cfg.render.layout.lines import plain
from vgpu_cfg.render.text.findings import render_findings
from vgpu_cfg.render.text.status import render_status
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
    assert plain(render_findings(warnings(count), 100, with_all=True)).count("reason") == count


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
