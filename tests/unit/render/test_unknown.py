"""What is not known reads alike in the plan, in status and in the runbook, and counts nowhere."""

from __future__ import annotations

import pytest

from tests.plans.planned import inventory_of, plan_of
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.planning.host_settings.table import setting
from vgpu_cfg.planning.sync import is_in_sync, is_known
from vgpu_cfg.render.data.documents import plan_data, status_data
from vgpu_cfg.render.layout.console import plain
from vgpu_cfg.render.markdown.runbook import render_runbook
from vgpu_cfg.render.text.plan.whole import render_plan, render_unknown
from vgpu_cfg.render.text.status import render_status
from vgpu_cfg.render.views.plan import view_unknown
from vgpu_cfg.render.views.status import view_status

ONLY_UNKNOWN = "host-shell-closed-and-nothing-else"
WITH_CHANGES = "host-shell-closed"


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_the_block_fits_its_width(width: int) -> None:
    lines = plain(render_unknown(view_unknown(plan_of(ONLY_UNKNOWN)), width)).splitlines()
    assert max(map(len, lines)) <= width
    assert words("\n".join(lines)) == (
        "UNKNOWN 4 settings of esx-01, readable only over SSH: MIG mode, ECC; up to 1 reboot if they "
        "differ; to read values over SSH, use `plan --open-shell` or `apply`"
    )


def test_a_plan_that_knows_all_has_no_such_block() -> None:
    plan = plan_of("host-in-sync")
    assert render_unknown(view_unknown(plan), 80) == []
    assert is_known(plan)


def test_unknown_is_no_difference() -> None:
    plan = plan_of(ONLY_UNKNOWN)
    assert (is_in_sync(plan), is_known(plan)) == (True, False)
    text = plain(render_plan(plan, 100))
    assert "dc1: in sync, 1 host partly unknown, 0 changes," in words(text)
    assert "DISRUPTION" not in text
    assert "TOTAL" not in text
    document = plan_data(plan)
    assert (document["is_in_sync"], document["is_known"]) == (True, False)
    (host,) = document["plan"]["unknown"]
    assert (host["reboots"], host["impact"]) == (1, "host-reboot")
    assert [(one["setting"], one["wanted"]) for one in host["settings"]][:2] == [
        ("mig", "disabled"),
        ("mig", "disabled"),
    ]


def test_disruption_and_total_tell_of_changes_alone() -> None:
    with_all, without = plan_of(WITH_CHANGES), plan_of(WITH_CHANGES).model_copy(update={"unknown": ()})
    assert with_all.digest == without.digest
    block = plain(render_unknown(view_unknown(with_all), 100)).strip()
    told = plain(render_plan(with_all, 100))
    assert block in told
    assert words(told.replace(block, "")) == words(plain(render_plan(without, 100)))


def test_settings_without_an_api_are_listed_with_the_reason() -> None:
    told = words(plain(render_plan(plan_of(WITH_CHANGES), 100)))
    assert "SSH esx-01: required for MIG mode; the vSphere API cannot set it" in told
    assert "SSH" not in plain(render_plan(plan_of("host-graphics-type-on"), 100))


def test_status_names_it_too() -> None:
    view = view_status(plan_of(ONLY_UNKNOWN), inventory_of(ONLY_UNKNOWN))
    text = plain(render_status(view, 100))
    assert "in sync except for 1 partly unknown host" in text
    assert "UNKNOWN 4 settings of esx-01" in text
    document = status_data(view)
    assert document["is_known"] is False
    assert list(document["hosts"][0]["unknown"]) == [
        "MIG mode 0000:21:00.0",
        "MIG mode 0000:e2:00.0",
        "ECC 0000:21:00.0",
        "ECC 0000:e2:00.0",
    ]


def test_the_runbook_finds_it_out_first() -> None:
    text = render_runbook(plan_of(WITH_CHANGES), setting)
    assert "- [ ] check the unknown settings of esx-01: [check first](#check-first)\n- [ ] 1. " in text
    assert "| ECC 0000:21:00.0 | enabled | readable only with nvidia-smi" in text
    assert "nvidia-smi -i 0000:21:00.0 -q | grep -A 2 -i 'ecc mode'" in text
    assert text.index("## Check first") < text.index("## Disruption")
    assert "check first" not in render_runbook(known(plan_of(WITH_CHANGES)), setting).casefold()


def known(plan: Plan) -> Plan:
    return plan.model_copy(update={"unknown": ()})
