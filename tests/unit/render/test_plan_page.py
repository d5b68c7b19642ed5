"""A plan as a page: what becomes of whom, marked; numbers as the plan's own; names that stay text."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.plans.planned import inventory_of, plan_of
from tests.unit.render.page_data import data_in
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.changes.change import CreateVm, DestroyVm, PowerOffVm, RelocateVm
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.render.data.documents import plan_data
from vgpu_cfg.render.page.plan import render_plan_page
from vgpu_cfg.render.views.pictures.plan_picture import Mark, view_plan_picture
from vgpu_cfg.render.views.plan import plan_counts

HOSTILE = "</script><script>alert(1)</script>\"'&amp;\u202ex"


def marks_of(case: str) -> dict[str, Mark]:
    found = view_plan_picture(plan_of(case), inventory_of(case), load_catalog())
    return {mark.name: mark for mark in found.marks if mark.subject == "vm"}


@pytest.mark.parametrize(
    ("case", "kind", "mark", "words"),
    [
        ("addresses-stay-when-workers-come", CreateVm, "new", "new"),
        ("orphan-deleted-frees-its-gpu", DestroyVm, "deleted", "deleted"),
        ("moves-by-vmotion", RelocateVm, "moved", "moved by vMotion"),
        ("profile-grows-with-room", PowerOffVm, "cycled", "power cycle"),
    ],
)
def test_a_vm_is_marked_by_what_becomes_of_it(case: str, kind: type, mark: str, words: str) -> None:
    change = next(one for one in plan_of(case).changes if isinstance(one, kind))
    found = marks_of(case)[change.subject.name]
    assert (found.kind, found.words) == (mark, words)
    assert bool(found.before) == (mark != "new")
    assert bool(found.after) == (mark != "deleted")


def test_a_vm_of_which_nothing_changes_has_no_mark() -> None:
    assert plan_of("cordon-lets-run").in_sync
    assert marks_of("cordon-lets-run") == {}


def page_of(plan: Plan, case: str) -> tuple[str, dict[str, Any]]:
    told = plan_data(plan)
    page = render_plan_page(plan, told, view_plan_picture(plan, inventory_of(case), load_catalog()))
    return page, data_in(page)


def test_its_tiles_are_the_totals_of_the_text_and_its_data_are_the_json() -> None:
    case = "addresses-stay-when-workers-come"
    plan = plan_of(case)
    page, data = page_of(plan, case)
    assert data["told"] == json.loads(json.dumps(plan_data(plan)))
    tiles = re.findall(r'class="value">(.*?)</p><p class="what">(.*?)</p>', page)
    assert [" ".join(one) for one in tiles[1:]] == plan_counts(plan)[:-1]
    assert int(tiles[0][0]) == len(plan.changes)


def test_who_is_refused_stands_beside_what_blocks_it() -> None:
    case = "board-4500-two-slices"
    page, _ = page_of(plan_of(case), case)
    error = next(found for found in plan_of(case).errors if found.hindrances)
    card = page[page.index('id="refused-title"') : page.index('id="picture-title"')]
    assert error.code in card
    assert error.hindrances[0].subject in card
    fine = "moves-by-vmotion"
    assert "refused-title" not in page_of(plan_of(fine), fine)[0]


def test_a_hostile_name_is_text_in_the_page_and_whole_in_its_data() -> None:
    case = "address-of-another"
    plan = plan_of(case).model_copy(update={"name": HOSTILE})
    bad = {"subject": plan.errors[0].subject.model_copy(update={"name": HOSTILE}), "message": HOSTILE}
    plan = plan.model_copy(update={"diagnostics": (plan.errors[0].model_copy(update=bad),)})
    page, data = page_of(plan, case)
    assert page.count("<script") == page.count("</script>") == 2
    assert "alert(1)</script>" not in page
    assert "\u202e" not in page
    assert data["told"]["plan"]["name"] == HOSTILE
