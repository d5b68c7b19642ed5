"""The differences of all cases: each edit once, hosts first, and nothing of what is in sync."""

from __future__ import annotations

import pytest

from tests.fakes.vm_settings import with_settings
from tests.plans.by_table import by_table
from tests.plans.planned import plan_of
from vgpu_cfg.changes.kinds.create_vm import THE_VM
from vgpu_cfg.changes.suggestion import Difference
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.observed.vm import VmDetail
from vgpu_cfg.planning.drift import CONNECTION, SEE_FINDINGS, differences_of
from vgpu_cfg.planning.vms.compare import goes_along
from vgpu_cfg.planning.vms.settings.edits import current
from vgpu_cfg.planning.vms.settings.setting import FoundVm
from vgpu_cfg.planning.vms.settings.table import VM_SETTINGS


@by_table()
def test_differences_are_those_of_the_plan(case: str) -> None:
    plan = plan_of(case)
    found = differences_of(plan)
    subjects = {(one.subject.kind, one.subject.name) for one in found}
    words = [(one.subject.kind, one.subject.name, one.what, one.wanted, one.found) for one in found]
    assert len({*words}) == len(words)
    places = {vm.name: index for index, vm in enumerate(plan.desired.vms)}
    order = [(one.subject.kind != "host", places.get(one.subject.name, len(places))) for one in found]
    assert order == sorted(order)
    differing = {(one.subject.kind, one.subject.name) for one in found if one.found != SEE_FINDINGS}
    assert {name for kind, name in differing if kind == "vm"}.isdisjoint(plan.in_sync)
    assert {name for kind, name in differing if kind == "host"}.isdisjoint(plan.hosts_in_sync)
    for name in plan.orphans:
        subject = Subject(kind="vm", name=name)
        assert Difference(subject=subject, what=THE_VM, found="not in the plan file") in found
    for one in plan.errors:
        if one.subject.kind in ("vm", "host"):
            assert (one.subject.kind, one.subject.name) in subjects
    assert {one.what for one in found if one.found == SEE_FINDINGS} <= {one.code for one in plan.diagnostics}
    assert all(one.wanted == "" for one in found if one.found == SEE_FINDINGS)


@by_table()
def test_each_edit_of_a_vm_or_a_host_that_is_there_is_one(case: str) -> None:
    plan = plan_of(case)
    found = {(one.subject, one.what, one.wanted, one.found): one.sets for one in differences_of(plan)}
    lost = {one.host.name for one in plan.lost_hosts}
    made = {change.makes.name for change in plan.changes if change.makes is not None}
    for change in (part for whole in plan.changes for part in whole.parts()):
        name = change.subject.name
        if change.subject.kind not in ("vm", "host") or name in lost or (name in made and not change.makes):
            continue
        for edit in change.differing:
            if edit.before != edit.after and not goes_along(edit):
                words = (change.subject, edit.key, edit.after, edit.before)
                alike = [one for one in change.differing if (one.key, one.after, one.before) == words[1:]]
                assert found[words] in [one.sets for one in alike]
    for gone in plan.lost_hosts:
        subject = Subject(kind="host", name=gone.host.name, moid=gone.host.moid)
        (words,) = [one for one in found if one[:3] == (subject, CONNECTION, "connected")]
        assert gone.connection.words in (words[3] or "")


OTHERS: dict[str, bool | int | str] = {
    "boot_delay": 5,
    "cpu_hot_add": True,
    "memory_hot_add": True,
    "latency_sensitivity": "high",
}


@pytest.mark.parametrize("key", OTHERS)
def test_a_value_is_said_where_neither_a_plain_vm_nor_the_template_has_it(key: str) -> None:
    row = next(row for row in VM_SETTINGS if row.key == key)
    assert row.in_file is not None
    assert row.unset is not None
    plain, other = VmDetail(), with_settings(VmDetail(), {key: OTHERS[key]})
    unset, own = row.in_file(row.unset), row.in_file(OTHERS[key])
    said = [row.said(FoundVm(vm, template)) for vm in (plain, other) for template in (None, plain, other)]
    assert said == [None, None, unset, own, own, own]


def test_the_exact_name_of_a_pair_comes_first() -> None:
    detail = VmDetail(extra_config={"SVGA.present": "TRUE", "svga.present": "FALSE"})
    assert (current("svga.present", detail), current("SVGA.Present", detail)) == ("FALSE", "TRUE")
    assert current("svga", detail) is None
