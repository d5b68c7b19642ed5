"""Options of DRS and of vCenter: set where they differ, taken out again, refused where they cannot be."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from tests.unit.planning.settings.views import hosts
from vgpu_cfg.changes.change import SetClusterOption, SetVCenterOption
from vgpu_cfg.model.desired import DesiredHosts, DesiredPlan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.host_settings.cluster import plan_cluster_options

EVACUATE = "VgpuMMAutomationTimeoutSecs"
HOT = "vgpu.hotmigrate.enabled"


def estate(drs: dict[str, str] | None = None, hot: str | None = "false", **more: Any) -> Inventory:
    """Observe one cluster `gpu` with one host. `drs` None: the cluster's options were not read."""
    facts = {
        "clusters": {"domain-c1": {"drs_options": drs}} if drs is not None else {},
        "vcenter_options": {HOT: hot} if hot is not None else {},
    }
    row = {
        "vcenter": {"address": "vc.example", "name": "vc", "version": more.pop("version", "8.0.3")},
        "read_at": datetime(2026, 11, 20, tzinfo=UTC),
        "clusters": [{"moid": "domain-c1", "name": "gpu", "host_moids": ["host-1"], **more}],
        "hosts": [{"moid": "host-1", "name": "esx-01", "cluster_moid": "domain-c1"}],
        "facts": facts,
    }
    return Inventory.model_validate(row)


def asks(**options: Any) -> DesiredHosts:
    return hosts(cluster_options=options)


def planned(
    observed: Inventory, *entries: DesiredHosts, **more: Any
) -> tuple[list[SetClusterOption | SetVCenterOption], list[str]]:
    """Plan, and return changes and the codes of findings."""
    desired = DesiredPlan.model_validate({"name": "demo", "vcenter": "vc.example", "hosts": entries, **more})
    findings = Findings.for_plan(desired)
    changes = plan_cluster_options(desired, observed, findings)
    return changes, [one.code for one in findings.diagnostics()]


@pytest.mark.parametrize(
    ("before", "options", "option", "value"),
    [
        ({}, {"evacuate_vgpu": True}, EVACUATE, "-1"),
        ({EVACUATE: "60"}, {"evacuate_vgpu": True}, EVACUATE, "-1"),
        ({EVACUATE: "-1"}, {"evacuate_vgpu": False}, EVACUATE, None),
        ({}, {"drs": {"LBMaxVmotionPerHost": "1"}}, "LBMaxVmotionPerHost", "1"),
        ({"LBMaxVmotionPerHost": "1"}, {"drs": {"LBMaxVmotionPerHost": ""}}, "LBMaxVmotionPerHost", None),
    ],
)
def test_an_option_that_differs_is_set_or_taken_out(
    before: dict[str, str], options: dict[str, Any], option: str, value: str | None
) -> None:
    changes, codes = planned(estate(before), asks(**options))
    (change,) = changes
    assert isinstance(change, SetClusterOption)
    assert (change.cluster_moid, change.option, change.value) == ("domain-c1", option, value)
    assert change.id == f"set {option} on gpu"
    assert (change.edits[0].before, change.edits[0].after) == (before.get(option), value)
    assert codes == []


@pytest.mark.parametrize(
    ("before", "options"),
    [
        ({EVACUATE: "-1"}, {"evacuate_vgpu": True}),
        ({}, {"evacuate_vgpu": False}),
        ({"X": "1"}, {"drs": {"X": "1"}}),
        ({}, {"drs": {"X": ""}}),
        ({EVACUATE: "-1", "X": "1"}, {}),
    ],
)
def test_an_option_that_is_right_is_left_alone(before: dict[str, str], options: dict[str, Any]) -> None:
    assert planned(estate(before), asks(**options)) == ([], [])


@pytest.mark.parametrize(("found", "wanted"), [("false", True), ("true", False)])
def test_hot_migration_is_vcenters_own(found: str, wanted: bool) -> None:
    changes, codes = planned(estate({}, found), asks(hot_migrate=wanted))
    (change,) = changes
    assert isinstance(change, SetVCenterOption)
    assert (change.option, change.value) == (HOT, wanted)
    assert codes == []


@pytest.mark.parametrize(("found", "wanted"), [("true", True), ("False", False)])
def test_hot_migration_that_is_right_is_left_alone(found: str, wanted: bool) -> None:
    assert planned(estate({}, found), asks(hot_migrate=wanted)) == ([], [])


@pytest.mark.parametrize(("version", "code"), [("7.0.2", "VG528"), ("7.0.3", None)])
def test_evacuation_came_with_7_0_u3(version: str, code: str | None) -> None:
    changes, codes = planned(estate({}, version=version), asks(evacuate_vgpu=True))
    assert codes == ([code] if code else [])
    assert bool(changes) is (code is None)


def test_a_host_that_is_only_checked_is_told_of() -> None:
    entry = hosts(mode="check", cluster_options={"evacuate_vgpu": True, "hot_migrate": True})
    assert planned(estate({}), entry) == ([], ["VG508", "VG508"])


def test_what_was_not_read_is_an_error() -> None:
    assert planned(estate(None, None), asks(evacuate_vgpu=True, hot_migrate=True)) == ([], ["VG509", "VG509"])


def test_a_host_that_stands_alone_has_no_drs() -> None:
    observed = estate({}, is_standalone=True)
    assert planned(observed, asks(evacuate_vgpu=True)) == ([], ["VG528"])
    assert planned(observed, asks(evacuate_vgpu=False)) == ([], [])


def test_entries_that_disagree_are_refused() -> None:
    yes, no = (hosts(cluster_options={"evacuate_vgpu": one, "hot_migrate": one}) for one in (True, False))
    changes, codes = planned(estate({}), yes, no)
    assert codes == ["VG507", "VG507"]
    assert [change.id for change in changes] == [f"set {EVACUATE} on gpu"]


def test_entries_that_agree_are_one_change() -> None:
    entry = asks(evacuate_vgpu=True)
    changes, codes = planned(estate({}), entry, entry)
    assert (len(changes), codes) == (1, [])


def test_a_protected_cluster_is_left_alone() -> None:
    assert planned(estate({}), asks(evacuate_vgpu=True), protect={"clusters": ["gp*"]}) == ([], [])
