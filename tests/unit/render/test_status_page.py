"""A status as a page: each difference with who and when; names that stay text."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from tests.plans.planned import inventory_of, plan_of
from tests.unit.render.page_data import data_in
from vgpu_cfg.changes.suggestion import Difference
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.render.data.documents import status_data
from vgpu_cfg.render.page.plan import render_status_page
from vgpu_cfg.render.views.status import view_status

HOSTILE = "</script><script>alert(1)</script>\"'&amp;\u202ex"
CASE = "profile-grows-with-room"


def page_of(*differences: Difference) -> tuple[str, dict[str, Any]]:
    view = view_status(plan_of(CASE), inventory_of(CASE), differences)
    page = render_status_page(view, status_data(view))
    return page, data_in(page)


def test_a_value_is_told_with_who_changed_it_and_when_or_why_nobody_knows() -> None:
    vm = Subject(kind="vm", name=plan_of(CASE).desired.vms[0].name)
    at = datetime(2026, 11, 20, 9, 30, tzinfo=UTC)
    page, data = page_of(
        Difference(subject=vm, what="cpus", wanted="8", found="2", by="eve", at=at),
        Difference(subject=vm, what="power", wanted="on", found=None, why_unknown="no event tells"),
    )
    assert ">eve" in page
    assert "2026-11-20 09:30 UTC" in page
    assert "no event tells" in page
    assert '<p class="value">2</p><p class="what">values differ</p>' in page
    differences = data["told"]["differences"]
    assert [one["what"] for one in differences] == ["cpus", "power"]


def test_a_plan_in_sync_says_so_once() -> None:
    view = view_status(plan_of("in-sync"), inventory_of("in-sync"))
    page = render_status_page(view, status_data(view))
    assert '<p class="value">in sync</p><p class="what"></p>' in page


def test_a_hostile_name_is_text_in_the_page_and_whole_in_its_data() -> None:
    bad = Difference(subject=Subject(kind="vm", name=HOSTILE), what=HOSTILE, found=HOSTILE, by=HOSTILE)
    page, data = page_of(bad)
    assert page.count("<script") == page.count("</script>") == 2
    assert "alert(1)</script>" not in page
    assert "\u202e" not in page
    assert HOSTILE in [one["by"] for one in data["told"]["differences"]]
