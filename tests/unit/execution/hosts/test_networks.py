from __future__ import annotations

from typing import Any

import pytest

from tests.unit.execution.host_makers import enter, estate, in_order, leave, only, run
from tests.unit.execution.makers import statuses
from vgpu_cfg.changes.change import ChangeNetwork, SetClusterOption, SetVCenterOption
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.errors import NotPermitted
from vgpu_cfg.model.observed.host_facts import DistributedSwitch
from vgpu_cfg.model.observed.inventory import Network

TIMEOUT = "VgpuMMAutomationTimeoutSecs"
HOT = "vgpu.hotmigrate.enabled"
MAKE = MakeSwitch(datacenter_moid="datacenter-1", name="dvs-roce", mtu=9000)
EDIT = EditSwitch(switch_name="dvs-roce", mtu=9000, members={"host-1": ("vmnic2",)})
SET = SetPortgroup(switch_name="dvs-roce", name="roce-111", vlan=111)


def cluster_option(value: str | None) -> SetClusterOption:
    return SetClusterOption(
        id="set drs",
        subject=Subject(kind="cluster", name="gpu"),
        cluster_moid="domain-c1",
        option=TIMEOUT,
        value=value,
    )


def vcenter_option() -> SetVCenterOption:
    return SetVCenterOption(
        id="set vcenter", subject=Subject(kind="plan", name="demo"), option=HOT, value=True
    )


def network(what: Any, name: str = "") -> ChangeNetwork:
    return ChangeNetwork(id=name or what.kind, subject=Subject(kind="network", name="dvs-roce"), network=what)


def with_switch(server: Any, **fields: Any) -> None:
    made = {"moid": "dvs-7", "name": "dvs-roce", "mtu": 1500, **fields}
    server.switches["dvs-7"] = DistributedSwitch(**made)


def test_a_cluster_option_is_set_removed_and_left_alone() -> None:
    server = estate()
    assert statuses(run(server, cluster_option("-1"))[0]) == {"set drs": "done"}
    assert server.drs_options == {TIMEOUT: "-1"}
    assert statuses(run(server, cluster_option("-1"))[0]) == {"set drs": "not_needed"}
    assert statuses(run(server, cluster_option(None))[0]) == {"set drs": "done"}
    assert server.drs_options == {}
    assert statuses(run(server, cluster_option(None))[0]) == {"set drs": "not_needed"}


def test_a_cluster_that_was_not_read_is_set_without_proof() -> None:
    server = estate()
    report, _ = run(server, cluster_option("-1"), access=None)
    assert statuses(report) == {"set drs": "done"}


def test_a_vcenter_option_is_set_and_left_alone() -> None:
    server = estate(vcenter_options={HOT: "false"})
    assert statuses(run(server, vcenter_option())[0]) == {"set vcenter": "done"}
    assert server.vcenter_options == {HOT: "true"}
    assert statuses(run(server, vcenter_option())[0]) == {"set vcenter": "not_needed"}
    assert len(server.asked()) == 1


@pytest.mark.parametrize("change", [cluster_option("-1"), vcenter_option(), network(MAKE), network(SET)])
def test_what_vcenter_does_not_show_afterwards_is_not_confirmed(change: Any) -> None:
    server = estate(blocked=True, vcenter_options={HOT: "false"})
    with_switch(server, name="other" if change.id == "make_switch" else "dvs-roce")
    report, _ = run(server, change)
    told = only(report).message
    assert told.startswith("the task did not change ")
    assert told.endswith(f" as planned ({change.id})")


def test_a_refusal_fails_in_vcenters_words() -> None:
    server = estate(refused={("set_vcenter_option", 1): NotPermitted("you may not")})
    assert only(run(server, vcenter_option())[0]).message == "you may not"


def test_a_switch_that_this_run_makes_is_found_by_its_name() -> None:
    server = estate()
    changes = in_order(network(MAKE), network(EDIT), network(SET))
    report, _ = run(server, *changes)
    assert set(statuses(report).values()) == {"done"}
    switch = server.switches["dvs-1"]
    assert (switch.mtu, switch.members) == (9000, {"host-1": ("vmnic2",)})
    assert switch.portgroup_vlans == {"dvportgroup-1": 111}
    report, _ = run(server, *changes)
    assert set(statuses(report).values()) == {"not_needed"}
    assert len(server.asked("change_network")) == 3


def test_a_switch_that_came_to_be_otherwise_is_planned_anew() -> None:
    server = estate()
    with_switch(server)
    report, _ = run(server, network(MAKE))
    assert "a switch named dvs-roce now exists with a different MTU" in only(report).message


@pytest.mark.parametrize("what", [EDIT, SET])
def test_a_switch_that_was_never_made_is_told(what: Any) -> None:
    server = estate()
    assert "the switch dvs-roce was not created" in only(run(server, network(what))[0]).message
    assert server.asked() == []


def test_a_portgroup_that_is_there_gets_another_vlan_and_no_twin() -> None:
    server = estate(networks={"dvportgroup-9": Network(moid="dvportgroup-9", name="roce-111")})
    with_switch(server, portgroup_vlans={"dvportgroup-9": 5})
    assert statuses(run(server, network(SET))[0]) == {"set_portgroup": "done"}
    assert server.switches["dvs-7"].portgroup_vlans == {"dvportgroup-9": 111}
    named = SET.model_copy(update={"portgroup_moid": "dvportgroup-9"})
    assert statuses(run(server, network(named))[0]) == {"set_portgroup": "not_needed"}


def test_hosts_and_networks_go_together_in_one_plan() -> None:
    server = estate()
    report, _ = run(server, *in_order(network(MAKE), enter(), leave()))
    assert set(statuses(report).values()) == {"done"}
