"""DRS rules as they are written, and as they act at a power-on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from pyVmomi import vim, vmodl

from tests.unit.lab.rig import Rig, estate_of
from vgpu_cfg.lab.state.inventory import Cluster, VmOverride

TWO_HOSTS = """
about: two hosts
clusters:
- name: gpu
  hosts:
  - names: [esx-1, esx-2]
    memory: 512GiB
    gpus: [{board: A100, count: 2}]
folders: [training]
templates:
- {name: ubuntu-22.04-efi}
"""


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(estate_of(TWO_HOSTS, tmp_path))


def rule_spec(rig: Rig, *names: str, operation: str = "add", **fields: Any) -> Any:
    info = vim.cluster.AntiAffinityRuleSpec(
        vm=[vim.VirtualMachine(rig.vm(name).moid) for name in names], enabled=True, **fields
    )
    return vim.cluster.ConfigSpecEx(rulesSpec=[vim.cluster.RuleSpec(operation=operation, info=info)])


def set_rules(rig: Rig, spec: Any) -> Any:
    return rig.run(rig.find(Cluster), "ReconfigureComputeResource_Task", spec=spec, modify=True)


def test_rules_are_added_edited_and_removed(rig: Rig) -> None:
    for name in "abc":
        rig.clone(name)
    set_rules(rig, rule_spec(rig, "a", "b", name="spread"))
    (rule,) = rig.find(Cluster).rules
    assert (rule.key, rule.name, rule.kind) == (1, "spread", "anti_affinity")
    assert isinstance(set_rules(rig, rule_spec(rig, "a", "b", name="spread")).fault, vim.fault.DuplicateName)
    set_rules(rig, rule_spec(rig, "a", "b", "c", name="spread", operation="edit", key=1, mandatory=True))
    (rule,) = rig.find(Cluster).rules
    assert (len(rule.vms), rule.mandatory) == (3, True)
    remove = vim.cluster.ConfigSpecEx(rulesSpec=[vim.cluster.RuleSpec(operation="remove", removeKey=1)])
    assert set_rules(rig, remove).state == "success"
    assert rig.find(Cluster).rules == []
    assert isinstance(set_rules(rig, remove).fault, vmodl.fault.InvalidArgument)


def test_a_rule_goes_with_its_last_vm(rig: Rig) -> None:
    for name in "ab":
        rig.clone(name)
    set_rules(rig, rule_spec(rig, "a", "b", name="spread"))
    rig.done(rig.vm("a"), "Destroy_Task")
    assert [len(rule.vms) for rule in rig.find(Cluster).rules] == [1]
    rig.done(rig.vm("b"), "Destroy_Task")
    assert rig.find(Cluster).rules == []


def test_one_vm_makes_no_rule(rig: Rig) -> None:
    rig.clone("a")
    fault = set_rules(rig, rule_spec(rig, "a", name="spread")).fault
    assert isinstance(fault, vmodl.fault.InvalidArgument)


def test_a_mandatory_rule_keeps_vms_apart(rig: Rig) -> None:
    for name in ("a", "b", "c"):
        rig.clone(name, "grid_a100-10c", host="esx-1")
    set_rules(rig, rule_spec(rig, "a", "b", "c", name="spread", mandatory=True))
    rig.done(rig.vm("a"), "PowerOnVM_Task")
    fault = rig.refused(rig.vm("b"), "PowerOnVM_Task")
    assert isinstance(fault, vim.fault.RuleViolation)
    assert fault.rule.name == "spread"
    rig.find(Cluster).rules[0].enabled = False
    rig.done(rig.vm("b"), "PowerOnVM_Task")


@pytest.mark.parametrize(
    ("level", "override", "host"),
    [
        ("manual", None, "esx-1"),
        ("partiallyAutomated", None, "esx-2"),
        ("fullyAutomated", None, "esx-2"),
        ("fullyAutomated", VmOverride(drs_behavior="manual"), "esx-1"),
        ("fullyAutomated", VmOverride(drs_enabled=False), "esx-1"),
        ("manual", VmOverride(drs_behavior="partiallyAutomated"), "esx-2"),
    ],
)
def test_drs_chooses_the_host_at_power_on_unless_it_is_manual(
    rig: Rig, level: str, override: VmOverride | None, host: str
) -> None:
    cluster = rig.find(Cluster)
    cluster.drs_behavior = level
    rig.done(rig.clone("a", "grid_a100-10c", host="esx-1"), "PowerOnVM_Task", host=host_ref(rig, "esx-1"))
    vm = rig.clone("b", "grid_a100-10c", host="esx-1")
    if override is not None:
        cluster.overrides[vm.moid] = override
    rig.done(vm, "PowerOnVM_Task")
    assert vm.host == rig.host(host).moid


def test_drs_leaves_a_host_alone_that_is_named(rig: Rig) -> None:
    rig.find(Cluster).drs_behavior = "fullyAutomated"
    for name in ("a", "b"):
        vm = rig.clone(name, "grid_a100-10c", host="esx-1")
        rig.done(vm, "PowerOnVM_Task", host=host_ref(rig, "esx-1"))
        assert vm.host == rig.host("esx-1").moid


def host_ref(rig: Rig, name: str) -> Any:
    return vim.HostSystem(rig.host(name).moid)


def test_where_the_lab_chooses_it_obeys(rig: Rig) -> None:
    for name in ("a", "b", "c"):
        rig.clone(name, "grid_a100-10c")
    set_rules(rig, rule_spec(rig, "a", "b", "c", name="spread", mandatory=True))
    for name in ("a", "b"):
        rig.done(rig.vm(name), "PowerOnVM_Task")
    assert rig.vm("a").host != rig.vm("b").host
    assert isinstance(rig.refused(rig.vm("c"), "PowerOnVM_Task"), vim.fault.RuleViolation)


def test_a_rule_that_only_should_hold_gives_way(rig: Rig) -> None:
    for name in ("a", "b", "c"):
        rig.clone(name, "grid_a100-10c")
    set_rules(rig, rule_spec(rig, "a", "b", "c", name="spread"))
    for name in ("a", "b", "c"):
        rig.done(rig.vm(name), "PowerOnVM_Task")
    assert rig.vm("a").host != rig.vm("b").host


def test_groups_tie_vms_to_hosts(rig: Rig) -> None:
    vm = rig.clone("a", "grid_a100-10c")
    vms = vim.cluster.VmGroup(name="vms", vm=[vim.VirtualMachine(vm.moid)])
    hosts = vim.cluster.HostGroup(name="hosts", host=[vim.HostSystem(rig.host("esx-2").moid)])
    info = vim.cluster.VmHostRuleInfo(
        name="tie", enabled=True, mandatory=True, vmGroupName="vms", affineHostGroupName="hosts"
    )
    spec = vim.cluster.ConfigSpecEx(
        groupSpec=[vim.cluster.GroupSpec(operation="add", info=group) for group in (vms, hosts)],
        rulesSpec=[vim.cluster.RuleSpec(operation="add", info=info)],
    )
    assert set_rules(rig, spec).state == "success"
    rig.done(vm, "PowerOnVM_Task")
    assert vm.host == rig.host("esx-2").moid


def test_a_destroyed_vm_leaves_its_rules(rig: Rig) -> None:
    for name in "ab":
        rig.clone(name)
    set_rules(rig, rule_spec(rig, "a", "b", name="spread"))
    rig.done(rig.vm("a"), "Destroy_Task")
    assert rig.find(Cluster).rules[0].vms == (rig.vm("b").moid,)


def test_where_the_lab_chooses_it_finds_the_host_with_room(rig: Rig) -> None:
    for number in range(4):
        rig.running(f"vm{number}", "grid_a100-40c")
    assert sorted(len(gpu.uses) for name in ("esx-1", "esx-2") for gpu in rig.host(name).gpus) == [1, 1, 1, 1]
    fault = rig.refused(rig.clone("vm4", "grid_a100-40c"), "PowerOnVM_Task")
    assert isinstance(fault, vim.fault.InsufficientGraphicsResourcesFault)


def test_a_vm_put_on_a_host_stays_there(rig: Rig) -> None:
    for name in ("a", "b"):
        rig.running(name, "grid_a100-40c", host="esx-1")
    fault = rig.refused(rig.clone("c", "grid_a100-40c", host="esx-1"), "PowerOnVM_Task")
    assert isinstance(fault, vim.fault.InsufficientGraphicsResourcesFault)
