"""VMkernel NICs: found by their network, made with address and MTU at once, or changed in what differs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.settings.situations import Case, Situation, wish_of
from tests.unit.planning.settings.views import hosts, view
from vgpu_cfg.changes.kinds.change_host import EsxcliWrite, ShellWrite, VmknicWrite
from vgpu_cfg.model.desired import DesiredHosts
from vgpu_cfg.model.observed.host_facts import FactGroup
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.host_settings.nics.vmknics import next_vmknic
from vgpu_cfg.planning.host_settings.table import setting

VMKNIC = setting("vmknic")
ADDRESS = "10.111.0.21/24"


def has(**keys: Any) -> HostView:
    """Observe vmk0 for management and, with keys, vmk1 on roce-111."""
    management = {
        "device": "vmk0",
        "network": "Management",
        "address": "10.0.0.5/24",
        "services": ["management"],
    }
    ours = {"device": "vmk1", "network": "roce-111", "network_moid": "dvportgroup-7", **keys}
    return view(facts={"vmknics": [management, ours] if keys else [management]})


def asks(**keys: Any) -> DesiredHosts:
    return hosts(vmknics={"network": "roce-111", **keys})


def change(**keys: Any) -> tuple[VmknicWrite, ...]:
    return (VmknicWrite(device="vmk1", network_moid="dvportgroup-7", network_name="roce-111", **keys),)


ROCE = "roce-111"
BOTH = f"{ADDRESS} mtu 9000"

CASES = (
    Case(
        "vmknic", Situation.RIGHT, has(address=ADDRESS, mtu=9000), asks(address=ADDRESS, mtu=9000), BOTH, ROCE
    ),
    Case("vmknic", Situation.RIGHT, has(address="10.111.0.21"), asks(address=ADDRESS), ADDRESS, ROCE),
    Case(
        "vmknic",
        Situation.RIGHT,
        has(is_dhcp=True, address="10.111.0.77/24"),
        asks(address="dhcp"),
        "dhcp",
        ROCE,
    ),
    Case("vmknic", Situation.RIGHT, has(address=ADDRESS, mtu=9000), asks(mtu=9000), "mtu 9000", ROCE),
    Case(
        "vmknic",
        Situation.WRONG,
        has(),
        asks(address=ADDRESS, mtu=9000),
        BOTH,
        ROCE,
        found="none",
        writes=(VmknicWrite(network_name=ROCE, address=ADDRESS, mtu=9000),),
    ),
    Case(
        "vmknic",
        Situation.WRONG,
        has(address="10.111.0.9/24", mtu=9000),
        asks(address=ADDRESS, mtu=9000),
        BOTH,
        ROCE,
        writes=change(address=ADDRESS),
    ),
    Case(
        "vmknic",
        Situation.WRONG,
        has(address=ADDRESS),
        asks(addresses={"esx-01": ADDRESS}, mtu=9000),
        BOTH,
        ROCE,
        found=f"{ADDRESS} mtu 1500",
        writes=change(mtu=9000),
    ),
    Case(
        "vmknic",
        Situation.OFF,
        has(address=ADDRESS, mtu=9000),
        asks(address="dhcp", mtu=1500),
        "dhcp mtu 1500",
        ROCE,
        writes=change(address="dhcp", mtu=1500),
    ),
    Case(
        "vmknic",
        Situation.PENDING,
        has(address=ADDRESS),
        asks(address=ADDRESS),
        ADDRESS,
        ROCE,
        has_one_value=True,
    ),
    Case(
        "vmknic",
        Situation.NOT_OFFERED,
        has(address=ADDRESS),
        asks(mtu=9000),
        "mtu 9000",
        ROCE,
        other=EsxcliWrite(
            command="network.ip.interface.set", arguments=(("interface-name", "vmk1"), ("mtu", "9000"))
        ),
    ),
    Case(
        "vmknic",
        Situation.UNREAD,
        view(facts={"unread": {FactGroup.BASE: "vCenter tells only what it knew last"}}),
        asks(address=ADDRESS),
        ADDRESS,
        ROCE,
        unread="knew last",
    ),
)


def test_each_network_is_one_write() -> None:
    entry = hosts(vmknics=({"network": ROCE, "mtu": 9000}, {"network": "other", "address": "dhcp"}))
    seen = has(address=ADDRESS)
    assert VMKNIC.write(seen, list(VMKNIC.desired_settings(entry, seen))) == [
        *change(mtu=9000),
        VmknicWrite(network_name="other", address="dhcp"),
    ]


def test_a_path_of_the_plan_file_is_a_network_too() -> None:
    entry = hosts(vmknics={"network": "/dc1/network/ROCE-111", "address": ADDRESS})
    desired = wish_of(VMKNIC, entry, has(), "/dc1/network/ROCE-111")
    assert VMKNIC.write(has(), [desired]) == [VmknicWrite(network_name="ROCE-111", address=ADDRESS)]
    assert VMKNIC.read(has(address=ADDRESS), desired.device).configured == f"{ADDRESS} mtu 1500"


def test_a_host_without_an_address_of_its_own_is_asked_nothing() -> None:
    assert list(VMKNIC.desired_settings(asks(addresses={"esx-09": ADDRESS}), has())) == []


def test_without_an_address_none_is_made() -> None:
    objection = VMKNIC.objects(has(), wish_of(VMKNIC, asks(mtu=9000), has(), ROCE))
    assert objection is not None
    assert objection.code is Code.NOT_SUPPORTED
    seen = has(address=ADDRESS)
    assert VMKNIC.objects(seen, wish_of(VMKNIC, asks(mtu=9000), seen, ROCE)) is None


@pytest.mark.parametrize(
    ("keys", "is_refused"),
    [({"address": "10.0.0.6/24"}, True), ({"address": "10.0.0.5/24", "mtu": 9000}, False)],
)
def test_the_address_of_the_management_stays(keys: dict[str, Any], is_refused: bool) -> None:
    entry = hosts(vmknics={"network": "Management", **keys})
    objection = VMKNIC.objects(has(), wish_of(VMKNIC, entry, has(), "Management"))
    assert (objection is not None) is is_refused
    assert objection is None or objection.code is Code.NIC_IN_USE


def test_the_next_name_is_the_lowest_that_is_free() -> None:
    assert next_vmknic(has()) == "vmk1"
    assert next_vmknic(has(address=ADDRESS)) == "vmk2"
    assert next_vmknic(view(facts={"vmknics": [{"device": "vmk1"}]})) == "vmk0"


def test_making_one_by_esxcli_takes_three_calls() -> None:
    desired = wish_of(VMKNIC, asks(address=ADDRESS, mtu=9000), has(), ROCE)
    interface = ("esxcli", "network", "ip", "interface")
    static = ("--type=static", "--ipv4=10.111.0.21", "--netmask=255.255.255.0")
    assert VMKNIC.other_way(has(), [desired]) == ShellWrite(
        commands=(
            (*interface, "add", "--interface-name=vmk1", "--portgroup-name=roce-111"),
            (*interface, "ipv4", "set", "--interface-name=vmk1", *static),
            (*interface, "set", "--interface-name=vmk1", "--mtu=9000"),
        )
    )
    assert VMKNIC.how(has(), desired).undo == ("esxcli network ip interface remove --interface-name=vmk1",)


def test_dhcp_by_esxcli_is_one_call() -> None:
    seen = has(address=ADDRESS)
    other = VMKNIC.other_way(seen, [wish_of(VMKNIC, asks(address="dhcp"), seen, ROCE)])
    arguments = (("interface-name", "vmk1"), ("type", "dhcp"))
    assert other == EsxcliWrite(command="network.ip.interface.ipv4.set", arguments=arguments)
