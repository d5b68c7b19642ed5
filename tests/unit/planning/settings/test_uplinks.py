"""Uplinks of standard switches, and the MTU that comes with VMkernel NICs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import NIC_2, hosts, nic, view
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, ShellWrite, SwitchWrite
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.table import setting

UPLINK = setting("uplink")


def wired(*uplinks: str, mtu: int | None = None, **more: Any) -> HostView:
    """Observe a host with vSwitch0 on vmnic0, and vSwitch1 on these."""
    switches = [
        {"name": "vSwitch0", "uplinks": ["vmnic0"]},
        {"name": "vSwitch1", "uplinks": list(uplinks), "mtu": mtu},
        {"name": "dvs-1", "uplinks": ["vmnic7"], "switch_uuid": "uuid-1"},
    ]
    return view(facts={"switches": switches}, **more)


def joins(switch: str, *, mtu: int | None = None) -> DesiredHosts:
    vmknics = ({"network": "roce", "mtu": mtu},) if mtu else ()
    return hosts(nics={"match": {"vmnic": "vmnic2"}, "switch": switch}, vmknics=vmknics)


def by_esxcli(verb: str) -> EsxcliWrite:
    options = (("uplink-name", "vmnic2"), ("vswitch-name", "vSwitch1"))
    return EsxcliWrite(command=f"network.vswitch.standard.uplink.{verb}", arguments=options)


CASES = (
    Case("uplink", Situation.RIGHT, wired("vmnic2"), joins("vSwitch1"), "vSwitch1", "vmnic2"),
    Case(
        "uplink",
        Situation.RIGHT,
        wired("vmnic2", mtu=9216),
        joins("vSwitch1", mtu=9000),
        "vSwitch1 mtu 9000",
        "vmnic2",
        found="vSwitch1 mtu 9216",
    ),
    Case(
        "uplink",
        Situation.WRONG,
        wired("vmnic3"),
        joins("vSwitch1"),
        "vSwitch1",
        "vmnic2",
        found="",
        writes=(SwitchWrite(switch="vSwitch1", uplinks=("vmnic3", "vmnic2"), before=("vmnic3",)),),
    ),
    Case(
        "uplink",
        Situation.WRONG,
        wired(),
        joins("vSwitch1", mtu=9000),
        "vSwitch1 mtu 9000",
        "vmnic2",
        writes=(SwitchWrite(switch="vSwitch1", mtu=9000, uplinks=("vmnic2",)),),
    ),
    Case(
        "uplink",
        Situation.WRONG,
        wired("vmnic2", "vmnic3", mtu=1500),
        joins("vSwitch1", mtu=9000),
        "vSwitch1 mtu 9000",
        "vmnic2",
        writes=(SwitchWrite(switch="vSwitch1", mtu=9000),),
    ),
    Case(
        "uplink",
        Situation.OFF,
        wired("vmnic2", "vmnic3"),
        joins(""),
        "",
        "vmnic2",
        found="vSwitch1 mtu 1500",
        writes=(SwitchWrite(switch="vSwitch1", uplinks=("vmnic3",), before=("vmnic2", "vmnic3")),),
    ),
    Case(
        "uplink",
        Situation.PENDING,
        wired("vmnic2"),
        joins("vSwitch1"),
        "vSwitch1",
        "vmnic2",
        has_one_value=True,
    ),
    Case(
        "uplink",
        Situation.NOT_OFFERED,
        wired(),
        joins("vSwitch1"),
        "vSwitch1",
        "vmnic2",
        other=by_esxcli("add"),
    ),
    Case(
        "uplink", Situation.NOT_OFFERED, wired("vmnic2"), joins(""), "", "vmnic2", other=by_esxcli("remove")
    ),
    Case(
        "uplink",
        Situation.UNREAD,
        HostView(
            host=wired().host,
            facts=wired().facts.model_copy(
                update={"groups": frozenset(), "unread": {FactGroup.BASE: "the host is silent"}}
            ),
        ),
        joins("vSwitch1"),
        "vSwitch1",
        "vmnic2",
        unread="the host is silent",
    ),
)


def test_a_nic_of_another_switch_is_not_torn_out_of_it() -> None:
    switches = [{"name": "vSwitch0", "uplinks": ["vmnic2"]}, {"name": "vSwitch1"}]
    seen = view(facts={"switches": switches})
    objection = UPLINK.objects(seen, wish_of(UPLINK, joins("vSwitch1"), seen, "vmnic2"))
    assert objection is not None
    assert objection.code is Code.NIC_IN_USE
    assert UPLINK.objects(wired(), wish_of(UPLINK, joins("vSwitch1"), wired(), "vmnic2")) is None


@pytest.mark.parametrize("switch", ["dvs-1", "nowhere"])
def test_a_switch_that_is_no_standard_one_is_not_this_hosts_matter(switch: str) -> None:
    assert list(UPLINK.desired_settings(joins(switch), wired())) == []


def test_nothing_is_taken_out_of_a_distributed_switch() -> None:
    seen = wired(nics=(nic("vmnic7"),))
    assert list(UPLINK.desired_settings(hosts(nics={"match": {"vmnic": "vmnic7"}, "switch": ""}), seen)) == []


def test_two_nics_join_one_after_the_other() -> None:
    seen = wired(nics=(nic(), nic("vmnic3", NIC_2)))
    desired_settings = list(UPLINK.desired_settings(hosts(nics={"switch": "vSwitch1"}), seen))
    assert UPLINK.write(seen, desired_settings) == [
        SwitchWrite(switch="vSwitch1", uplinks=("vmnic2",)),
        SwitchWrite(switch="vSwitch1", uplinks=("vmnic2", "vmnic3"), before=("vmnic2",)),
    ]


def test_several_calls_of_esxcli_go_over_the_shell() -> None:
    desired = wish_of(UPLINK, joins("vSwitch1", mtu=9000), wired(), "vmnic2")
    standard = ("esxcli", "network", "vswitch", "standard")
    assert UPLINK.other_way(wired(), [desired]) == ShellWrite(
        commands=(
            (*standard, "uplink", "add", "--uplink-name=vmnic2", "--vswitch-name=vSwitch1"),
            (*standard, "set", "--vswitch-name=vSwitch1", "--mtu=9000"),
        )
    )


def test_taking_a_nic_out_says_what_hangs_on_it() -> None:
    assert (
        wish_of(UPLINK, joins(""), wired("vmnic2"), "vmnic2").cuts_off
        == "vmnic2 is the only uplink of vSwitch1"
    )


def test_the_runbook_goes_both_ways() -> None:
    seen = wired()
    how = UPLINK.how(seen, wish_of(UPLINK, joins("vSwitch1"), seen, "vmnic2"))
    options = "--uplink-name=vmnic2 --vswitch-name=vSwitch1"
    assert how.commands == (f"esxcli network vswitch standard uplink add {options}",)
    assert how.undo == (f"esxcli network vswitch standard uplink remove {options}",)
    raised = wired("vmnic2", mtu=1600)
    how = UPLINK.how(raised, wish_of(UPLINK, joins("vSwitch1", mtu=9000), raised, "vmnic2"))
    assert how.undo == ("esxcli network vswitch standard set --vswitch-name=vSwitch1 --mtu=1600",)
