"""Rules from VMs to hosts: their groups over the wire, and how they act at power-ons and moves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.group_rig import GroupRig, config, rig_of, single

ONE, TWO = "one.lab", "two.lab"
HOSTS = """
about: Two hosts of a cluster, and one of another.
vcenter: {settings: {vgpu.hotmigrate.enabled: true}}
clusters:
- name: gpu
  hosts:
  - {names: [one.lab, two.lab], gpus: [{board: A100, count: 2}]}
- {name: other, hosts: [{name: far.lab}]}
"""
TEN = "grid_a100-10c"


class DrsRig:
    """Two hosts and a VM `a` on the first, that is off."""

    def __init__(self, tmp_path: Path, level: str = "manual") -> None:
        self.rig: GroupRig = rig_of(HOSTS, tmp_path)
        self.rig.cluster().drs_behavior = level
        self.vm = self.rig.made("a", config(single(TEN)), host=ONE)

    @property
    def seen(self) -> Any:
        return self.rig.host(ONE).parent

    def set(self, *, groups: Any = (), rules: Any = ()) -> Any:
        """Reconfigure the cluster and return the fault, None where there is none."""
        spec = vim.cluster.ConfigSpecEx(groupSpec=list(groups), rulesSpec=list(rules))
        return self.rig.end(self.seen.ReconfigureComputeResource_Task(spec, modify=True)).error

    def tie(self, *, affine: bool = True, mandatory: bool = True, hosts: tuple[str, ...] = (TWO,)) -> None:
        to = {"affineHostGroupName" if affine else "antiAffineHostGroupName": "hosts"}
        rule = vim.cluster.VmHostRuleInfo(
            name="tie", enabled=True, mandatory=mandatory, vmGroupName="vms", **to
        )
        fault = self.set(
            groups=[group("add", vm_group(self.vm)), group("add", host_group(self.rig, *hosts))],
            rules=[vim.cluster.RuleSpec(operation="add", info=rule)],
        )
        assert fault is None, fault

    def groups(self) -> dict[str, list[str]]:
        found = self.seen.configurationEx.group
        return {
            each.name: [thing.name for thing in (each.vm if hasattr(each, "vm") else each.host)]
            for each in found
        }


def vm_group(*vms: Any) -> Any:
    return vim.cluster.VmGroup(name="vms", vm=list(vms))


def host_group(rig: GroupRig, *names: str) -> Any:
    return vim.cluster.HostGroup(name="hosts", host=[rig.host(name) for name in names])


def group(operation: str, info: Any = None, key: str | None = None) -> Any:
    return vim.cluster.GroupSpec(operation=operation, info=info, removeKey=key)


def test_groups_and_rules_read_back(tmp_path: Path) -> None:
    desk = DrsRig(tmp_path)
    assert (desk.groups(), list(desk.seen.configurationEx.rule)) == ({}, [])
    desk.tie()
    assert desk.groups() == {"vms": ["a"], "hosts": [TWO]}
    (rule,) = desk.seen.configurationEx.rule
    assert isinstance(rule, vim.cluster.VmHostRuleInfo)
    assert (rule.vmGroupName, rule.affineHostGroupName) == ("vms", "hosts")
    assert rule.antiAffineHostGroupName is None
    assert (rule.mandatory, rule.enabled) == (True, True)


def test_groups_are_edited_and_removed(tmp_path: Path) -> None:
    desk = DrsRig(tmp_path)
    desk.tie()
    assert desk.set(groups=[group("edit", host_group(desk.rig, ONE, TWO))]) is None
    assert desk.groups()["hosts"] == [ONE, TWO]
    (rule,) = desk.seen.configurationEx.rule
    rule.mandatory, rule.affineHostGroupName, rule.antiAffineHostGroupName = False, None, "hosts"
    assert desk.set(rules=[vim.cluster.RuleSpec(operation="edit", info=rule)]) is None
    (edited,) = desk.seen.configurationEx.rule
    assert (edited.key, edited.mandatory, edited.antiAffineHostGroupName) == (rule.key, False, "hosts")
    remove = vim.cluster.RuleSpec(operation="remove", removeKey=rule.key)
    assert desk.set(groups=[group("remove", key="vms"), group("remove", key="hosts")], rules=[remove]) is None
    assert (desk.groups(), list(desk.seen.configurationEx.rule)) == ({}, [])
    assert isinstance(desk.set(groups=[group("remove", key="vms")]), vmodl.fault.InvalidArgument)


def test_members_are_of_the_cluster(tmp_path: Path) -> None:
    desk = DrsRig(tmp_path)
    stranger = desk.rig.made("far", config(), host="far.lab")
    for info in (vm_group(desk.vm, stranger), host_group(desk.rig, TWO, "far.lab")):
        assert isinstance(desk.set(groups=[group("add", info)]), vmodl.fault.InvalidArgument)
    assert desk.set(groups=[group("add", vm_group(desk.vm))]) is None
    assert isinstance(desk.set(groups=[group("add", vm_group(desk.vm))]), vmodl.fault.InvalidArgument)


def test_a_rule_names_groups_of_the_right_kind(tmp_path: Path) -> None:
    desk = DrsRig(tmp_path)
    groups = [group("add", vm_group(desk.vm)), group("add", host_group(desk.rig, TWO))]
    assert desk.set(groups=groups) is None
    for vms, hosts, is_taken in (("hosts", "vms", False), ("vms", "none", False), ("vms", "hosts", True)):
        info = vim.cluster.VmHostRuleInfo(name=f"{vms}-{hosts}", vmGroupName=vms, affineHostGroupName=hosts)
        fault = desk.set(rules=[vim.cluster.RuleSpec(operation="add", info=info)])
        assert (fault is None) is is_taken


@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("mandatory", [True, False])
def test_a_named_host_is_refused_where_the_rule_must_hold(
    tmp_path: Path, affine: bool, mandatory: bool
) -> None:
    desk = DrsRig(tmp_path)
    desk.tie(affine=affine, mandatory=mandatory, hosts=(TWO,) if affine else (ONE,))
    fault = desk.rig.end(desk.vm.PowerOnVM_Task(desk.rig.host(ONE))).error
    assert (fault is None) is not mandatory
    if mandatory:
        assert isinstance(fault, vim.fault.RuleViolation)
        assert fault.rule.name == "tie"
        desk.rig.done(desk.vm.PowerOnVM_Task(desk.rig.host(TWO)))


@pytest.mark.parametrize(("level", "starts"), [("manual", False), ("fullyAutomated", True)])
def test_drs_places_by_the_rule(tmp_path: Path, level: str, starts: bool) -> None:
    desk = DrsRig(tmp_path, level)
    desk.tie()
    fault = desk.rig.end(desk.vm.PowerOnVM_Task()).error
    assert (fault is None) is starts
    assert desk.rig.where("a") == (TWO if starts else ONE)


@pytest.mark.parametrize("affine", [True, False])
def test_a_rule_that_should_hold_is_followed_where_it_can_be(tmp_path: Path, affine: bool) -> None:
    desk = DrsRig(tmp_path, "fullyAutomated")
    desk.tie(affine=affine, mandatory=False)
    desk.rig.done(desk.vm.PowerOnVM_Task())
    assert desk.rig.where("a") == (TWO if affine else ONE)


def test_without_drs_no_rule_acts(tmp_path: Path) -> None:
    desk = DrsRig(tmp_path)
    desk.tie()
    desk.rig.cluster().drs_enabled = False
    desk.rig.done(desk.vm.PowerOnVM_Task())
    assert desk.rig.where("a") == ONE


@pytest.mark.parametrize("mandatory", [True, False])
def test_a_running_vm_does_not_move_against_a_rule(tmp_path: Path, mandatory: bool) -> None:
    desk = DrsRig(tmp_path)
    desk.tie(mandatory=mandatory, hosts=(ONE,))
    desk.rig.done(desk.vm.PowerOnVM_Task())
    fault = desk.rig.end(desk.vm.MigrateVM_Task(None, desk.rig.host(TWO), "defaultPriority")).error
    assert isinstance(fault, vim.fault.RuleViolation) is mandatory
    assert desk.rig.where("a") == (ONE if mandatory else TWO)


def test_a_vm_that_is_off_moves_against_it_and_does_not_start(tmp_path: Path) -> None:
    desk = DrsRig(tmp_path)
    desk.tie(hosts=(ONE,))
    desk.rig.done(desk.vm.MigrateVM_Task(None, desk.rig.host(TWO), "defaultPriority"))
    assert isinstance(desk.rig.end(desk.vm.PowerOnVM_Task()).error, vim.fault.RuleViolation)


def test_a_vm_that_leaves_the_cluster_leaves_its_groups(tmp_path: Path) -> None:
    desk = DrsRig(tmp_path)
    desk.tie()
    far = desk.rig.host("far.lab")
    desk.rig.done(desk.vm.MigrateVM_Task(far.parent.resourcePool, far, "defaultPriority"))
    assert desk.groups()["vms"] == []
