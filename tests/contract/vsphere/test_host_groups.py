"""DRS groups and the rules from VMs to hosts, as both vCenters keep them, and as govc makes them by hand."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Any

import pytest
from pyVmomi import vim

from tests.contract.conftest import Govc
from tests.contract.test_govc import MakeGovc, served
from tests.contract.vcenters import Desk, VCenter, fresh
from vgpu_cfg.changes.change import RemoveRule, RemoveVmGroup, SetHostRule
from vgpu_cfg.changes.values import Subject, VmRef
from vgpu_cfg.model.observed.inventory import Cluster
from vgpu_cfg.planning.described import PlanTables
from vgpu_cfg.ports import TaskState

CLUSTER = Subject(kind="cluster", name="gpu")


@pytest.fixture
def desk(vcenter: VCenter) -> Iterator[Desk]:
    with vcenter.desk() as desk:
        yield desk


def cluster_of(desk: Desk) -> Cluster:
    return next(one for one in desk.inventory().clusters if not one.is_standalone)


def vms_of(desk: Desk, cluster: Cluster) -> list[str]:
    """Return what can be in a group; the lab's template stands for a VM, as vCenter lets it."""
    return [vm.moid for vm in desk.inventory().vms if vm.host_moid in cluster.host_moids][:2]


def reconfigure(desk: Desk, cluster: Cluster, **spec: Any) -> None:
    entity = vim.ClusterComputeResource(cluster.moid, desk.session.stub)
    task = entity.ReconfigureComputeResource_Task(vim.cluster.ConfigSpecEx(**spec), True)
    assert desk.done(str(task._moId)).state is TaskState.SUCCESS


def make_host_group(desk: Desk, cluster: Cluster, name: str) -> None:
    hosts = [vim.HostSystem(moid) for moid in cluster.host_moids[:1]]
    info = vim.cluster.HostGroup(name=name, host=hosts)
    reconfigure(desk, cluster, groupSpec=[vim.cluster.GroupSpec(operation="add", info=info)])


def host_rule(cluster: Cluster, name: str, host_group: str, **more: Any) -> SetHostRule:
    row = {
        "id": name,
        "subject": CLUSTER,
        "cluster_moid": cluster.moid,
        "rule_name": f"{name}:hosts",
        "vm_group": name,
        "host_group": host_group,
        "vms": (),
    }
    return SetHostRule.model_validate(row | more)


def test_a_group_and_its_rule_are_made_in_one_task_edited_and_removed(desk: Desk) -> None:
    cluster = cluster_of(desk)
    even, name = fresh("even"), fresh("vgpu-cfg:demo:hvd-{01..02}")
    make_host_group(desk, cluster, even)
    vms = vms_of(desk, cluster)
    before = desk.session.round_trips
    task = desk.writer.set_host_rule(host_rule(cluster, name, even), vms[:1])
    assert desk.session.round_trips == before + 1
    assert desk.done(task).state is TaskState.SUCCESS
    found = cluster_of(desk)
    group, host_group = found.vm_group(name), found.host_group(even.upper())
    assert group is not None
    assert host_group is not None
    assert (group.vm_moids, host_group.host_moids) == (tuple(vms[:1]), cluster.host_moids[:1])
    (rule,) = [one for one in found.host_rules if one.name == f"{name}:hosts"]
    assert (rule.is_enabled, rule.is_mandatory, rule.vm_group, rule.host_group, rule.avoided_group) == (
        True,
        True,
        name,
        even,
        "",
    )
    edit = host_rule(cluster, name, even, rule_key=rule.key, has_group=True, is_mandatory=False)
    assert desk.done(desk.writer.set_host_rule(edit, vms)).state is TaskState.SUCCESS
    found = cluster_of(desk)
    group = found.vm_group(name)
    assert group is not None
    assert group.vm_moids == tuple(vms)
    (rule,) = [one for one in found.host_rules if one.name == f"{name}:hosts"]
    assert not rule.is_mandatory
    removal = RemoveRule(
        id="r", subject=CLUSTER, cluster_moid=cluster.moid, rule_name=rule.name, rule_key=rule.key
    )
    assert desk.done(desk.writer.remove_rule(removal)).state is TaskState.SUCCESS
    away = RemoveVmGroup(id="g", subject=CLUSTER, cluster_moid=cluster.moid, group_name=name)
    assert desk.done(desk.writer.remove_vm_group(away)).state is TaskState.SUCCESS
    found = cluster_of(desk)
    assert found.vm_group(name) is None
    assert rule.name not in {one.name for one in found.host_rules}
    assert found.host_group(even) is not None


def test_reading_groups_takes_no_further_round_trip(desk: Desk) -> None:
    cluster = cluster_of(desk)
    desk.inventory()
    before = desk.session.round_trips
    desk.inventory()
    without = desk.session.round_trips - before
    make_host_group(desk, cluster, fresh("even"))
    before = desk.session.round_trips
    desk.inventory()
    assert desk.session.round_trips - before == without


def test_the_runbooks_commands_make_the_same_by_hand(govc: MakeGovc) -> None:
    with served("two-a100") as server:
        run = govc(server)
        run("cluster.group.create", "-cluster", "gpu", "-name", "even", "-host", "esx-a100-01.lab")
        vms = (VmRef(name="ubuntu-22.04-efi"),)
        change = host_rule(Cluster(moid="c", name="gpu"), "vgpu-cfg:demo:a", "even", vms=vms)
        type_in(run, change)
        assert run("cluster.group.ls", "-cluster", "gpu", "-name", "vgpu-cfg:demo:a").split() == [
            "ubuntu-22.04-efi"
        ]
        assert "vgpu-cfg:demo:a:hosts" in run("cluster.rule.ls", "-cluster", "gpu")
        edit = change.model_copy(update={"rule_key": 1, "has_group": True, "is_mandatory": False})
        type_in(run, edit)
        told = run("cluster.rule.info", "-cluster", "gpu", "-name", "vgpu-cfg:demo:a:hosts")
        assert "affineHostGroupName even" in told
        removal = RemoveRule(
            id="r", subject=CLUSTER, cluster_moid="c", rule_name=change.rule_name, rule_key=1
        )
        type_in(run, removal)
        away = RemoveVmGroup(id="g", subject=CLUSTER, cluster_moid="c", group_name=change.vm_group)
        type_in(run, away)
        assert run("cluster.group.ls", "-cluster", "gpu").split() == ["even"]


def type_in(run: Govc, change: SetHostRule | RemoveRule | RemoveVmGroup) -> None:
    """Run the commands of a change's runbook, as somebody would who has no vgpu-cfg at hand."""
    for part in change.by_hand(PlanTables()):
        for line in (*part.commands, *part.verify):
            word, *rest = shlex.split(line)
            assert word == "govc"
            run(*rest)
