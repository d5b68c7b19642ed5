"""Each assertion holds and fails where it should, and a failure says what a person needs."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT
from tests.testing.conftest import SITE
from vgpu_cfg import testing
from vgpu_cfg.testing import (
    LabEstate,
    PlanFile,
    RecordedVCenter,
    Site,
    assert_changes,
    assert_finding,
    assert_fits,
    assert_in_sync,
    assert_no_disruption,
    assert_no_findings,
    assert_placed,
    assert_unchanged,
    plan_json,
)

Assertion = Callable[[PlanFile, Site], None]

HOLDS: dict[str, Assertion] = {
    "fits": assert_fits,
    "no disruption": assert_no_disruption,
    "no findings": assert_no_findings,
    "placed": partial(assert_placed, vm="notebook-*", host="esx-a100-02.lab"),
    "changes": partial(assert_changes, count=10),
}
FAILS: dict[str, tuple[Assertion, str]] = {
    "in sync": (assert_in_sync, "it is not in sync"),
    "placed": (
        partial(assert_placed, vm="train-*", host="esx-a100-01*"),
        "it does not place train-02 on esx-a100-01",
    ),
    "placed none": (partial(assert_placed, vm="web-*", host="*"), "no VM web-* can be placed"),
    "changes": (partial(assert_changes, count=9), "it makes 10 changes, not 9"),
    "finding": (partial(assert_finding, code="VG103"), "it has no finding VG103"),
}
REFUSED: dict[str, Assertion] = {
    "fits": assert_fits,
    "in sync": assert_in_sync,
    "no disruption": assert_no_disruption,
    "no findings": assert_no_findings,
    "placed": partial(assert_placed, vm="train-01", host="*"),
    "changes": partial(assert_changes, count=0),
    "unchanged": assert_unchanged,
}


@pytest.mark.parametrize("name", HOLDS)
def test_it_holds(name: str, plan: PlanFile, site: RecordedVCenter) -> None:
    HOLDS[name](plan, site)


def test_the_page_has_every_name_and_no_other() -> None:
    page = (ROOT / "docs/reference/pytest.md").read_text(encoding="utf-8").partition("## Assertions")[2]
    assert sorted(re.findall(r"^\| `(\w+)", page, re.MULTILINE)) == sorted(testing.__all__)


def test_what_is_not_named_is_unchanged(plan: PlanFile, site: RecordedVCenter) -> None:
    assert_unchanged(plan, site, "research-*", "esx-*")
    with pytest.raises(AssertionError, match="it changes unexpected objects\n\n  create train-01"):
        assert_unchanged(plan, site, "train-01")
    with pytest.raises(AssertionError, match="no object is named esx-typo"):
        assert_unchanged(plan, site, "research-*", "esx-typo")


@pytest.mark.parametrize("name", FAILS)
def test_it_fails_and_says_why(name: str, plan: PlanFile, site: RecordedVCenter) -> None:
    assertion, told = FAILS[name]
    with pytest.raises(AssertionError) as failure:
        assertion(plan, site)
    first, blank, *rest = str(failure.value).splitlines()
    assert first.startswith(f"{SITE / 'plan.yaml'} on vcenter.json.gz: {told}")
    assert (blank, bool(rest)) == ("", True)


@pytest.mark.parametrize("name", REFUSED)
def test_no_assertion_holds_of_a_plan_that_is_refused(name: str, too_many: PlanFile, full: LabEstate) -> None:
    with pytest.raises(AssertionError, match="VG103"):
        REFUSED[name](too_many, full)


def test_what_does_not_fit_shows_what_is_in_the_way(too_many: PlanFile, full: LabEstate) -> None:
    assert_finding(too_many, full, "VG103", "quarter-*")
    with pytest.raises(AssertionError) as failure:
        assert_fits(too_many, full)
    told = str(failure.value)
    assert "blocked by  esx-one-01.lab  0000:21:00.0 is full" in told
    assert "\nFIX " in told


def test_what_no_assertion_asks_is_asked_of_the_json(plan: PlanFile, site: RecordedVCenter) -> None:
    made = plan_json(plan, site)["plan"]
    assert [change["kind"] for change in made["changes"]].count("create_vm") == 5
    assert (plan.name, plan.vms[:2]) == ("training", ("train-01", "train-02"))


def test_a_lab_is_applied_to_and_emptied_again(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    text = (SITE.parent / "full-vgpu.yaml").read_text(encoding="utf-8")
    path.write_text(text.replace("vcenter: lab:", "vcenter: nowhere.example.com # "), encoding="utf-8")
    plan, lab = PlanFile(path), LabEstate("two-a100", tmp_path / "state")
    lab.apply(plan)
    assert_in_sync(plan, lab)
    assert_changes(plan, lab, 0)
    lab.destroy(plan)
    with pytest.raises(AssertionError, match="not in sync"):
        assert_in_sync(plan, lab)
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["plan.yaml"]


def test_a_run_that_is_refused_fails_with_the_errors(too_many: PlanFile, full: LabEstate) -> None:
    with pytest.raises(AssertionError, match="VG103"):
        full.apply(too_many)


def test_a_power_cycle_is_a_disruption(tmp_path: Path) -> None:
    path = tmp_path / "plan.yaml"
    text = (SITE.parent / "full-vgpu.yaml").read_text(encoding="utf-8")
    path.write_text(text, encoding="utf-8")
    lab = LabEstate("two-a100", tmp_path / "state")
    before = PlanFile(path)
    lab.apply(before)
    assert_no_disruption(before, lab)
    path.write_text(text.replace("cpus: 16", "cpus: 10"), encoding="utf-8")
    with pytest.raises(AssertionError, match="power cycle"):
        assert_no_disruption(PlanFile(path), lab)


def test_a_link_that_others_lose_is_a_disruption(tmp_path: Path) -> None:
    estate = tmp_path / "e.yaml"
    estate.write_text(
        "about: a switch that others use\n"
        "switches: [{name: dvs, mtu: 1500}]\n"
        "networks: [{name: prod, switch: dvs}, {name: roce, switch: dvs}]\n"
        "clusters: [{name: gpu, drs: manual, hosts: [{name: e1.lab, nics: [{switch: dvs}]}]}]\n"
        "vms: [{name: erp, networks: [prod]}]\n",
        encoding="utf-8",
    )
    plan = tmp_path / "p.yaml"
    head = f"version: 1\nname: mtu\nvcenter: lab:{estate}\n"
    plan.write_text(f"{head}networks: [{{name: roce, switch: dvs, mtu: 9000}}]\n", encoding="utf-8")
    with pytest.raises(AssertionError, match="link down and up"):
        assert_no_disruption(PlanFile(plan), LabEstate(str(estate), tmp_path / "state"))


def test_settings_of_the_user_are_out_of_sight(
    plan: PlanFile, site: RecordedVCenter, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "config.yaml"
    broken.write_text("{", encoding="utf-8")
    monkeypatch.setenv("VGPU_CFG_CONFIG", str(broken))
    monkeypatch.setenv("VGPU_CFG_SERVER", "vc01.example.com")
    monkeypatch.setenv("VGPU_CFG_DATACENTER", "elsewhere")
    assert_fits(PlanFile(plan.path, variable_files=[SITE / "site.yaml"]), RecordedVCenter(site.path))
    LabEstate("one-a100", tmp_path / "state")
    assert os.environ["VGPU_CFG_SERVER"] == "vc01.example.com"


def test_what_cannot_be_read_is_told_as_the_command_line_tells_it(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=r"plan\.yaml:11:10: unknown variable 'network'"):
        PlanFile(SITE / "plan.yaml")
    with pytest.raises(AssertionError, match="not a valid recording"):
        RecordedVCenter(SITE / "plan.yaml")
    with pytest.raises(AssertionError, match="did you mean 'two-a100'"):
        LabEstate("two-a10", tmp_path)
