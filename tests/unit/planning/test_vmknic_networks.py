"""VMkernel NICs tied to their networks: by id, and after the changes that make them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from vgpu_cfg.changes.change import Change, ChangeHost, ChangeNetwork
from vgpu_cfg.changes.kinds.change_host import SwitchWrite, VmknicWrite
from vgpu_cfg.changes.kinds.change_network import EditSwitch, MakeSwitch, SetPortgroup
from vgpu_cfg.changes.values import HostRef, Subject
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.networks.compare import tie_vmknics

MAKE = MakeSwitch(datacenter_moid="datacenter-1", name="dvs-roce")
EDIT = EditSwitch(switch_name="dvs-roce", mtu=9000)
SET = SetPortgroup(switch_name="dvs-roce", name="roce-111", vlan=111)
OTHERS = (
    EditSwitch(switch_name="dvs-other", mtu=9000),
    SetPortgroup(switch_name="dvs-other", name="other", vlan=5),
)


def estate(*networks: dict[str, Any], seen: tuple[str, ...] = ()) -> Inventory:
    row = {
        "vcenter": {"address": "vc.example"},
        "read_at": datetime(2026, 11, 20, tzinfo=UTC),
        "hosts": [{"moid": "host-1", "name": "esx-01", "network_moids": seen}],
        "networks": networks,
        "facts": {"switches": [{"moid": "dvs-1", "name": "dvs-roce", "uuid": "u1"}]},
    }
    return Inventory.model_validate(row)


def distributed(moid: str = "dvportgroup-1", **more: Any) -> dict[str, Any]:
    path = f"/dc1/network/{moid}"
    named = {"moid": moid, "name": "roce-111", "inventory_path": path}
    return {**named, "kind": "distributed", "switch_uuid": "u1", **more}


def standard() -> dict[str, Any]:
    return {
        "moid": "network-1",
        "name": "roce-111",
        "inventory_path": "/dc1/network/x",
        "kind": "standard",
    }


def network(wanted: Any) -> ChangeNetwork:
    subject = Subject(kind="network", name="n")
    name = getattr(wanted, "name", wanted.kind)
    return ChangeNetwork(id=f"{wanted.kind} {name}", subject=subject, network=wanted)


def on_host(write: Any, **more: Any) -> ChangeHost:
    subject = Subject(kind="host", name="esx-01", moid="host-1")
    host = HostRef(name="esx-01", moid="host-1")
    return ChangeHost(id="vmknic", subject=subject, host=host, write=write, settings=(), **more)


def tied(observed: Inventory, write: Any, *networks: Any, **more: Any) -> ChangeHost:
    changes: list[Change] = [*(network(one) for one in networks), on_host(write, **more)]
    found = tie_vmknics(changes, observed)
    assert found[:-1] == changes[:-1]
    assert tie_vmknics(found, observed) == found
    assert isinstance(found[-1], ChangeHost)
    return found[-1]


NEW = VmknicWrite(network_name="roce-111", address="dhcp")


def test_one_on_a_network_that_the_plan_makes_comes_after_it() -> None:
    found = tied(estate(), NEW, MAKE, EDIT, SET, *OTHERS)
    assert found.needs == ("set_portgroup roce-111",)
    assert found.write == NEW


def test_one_on_a_network_that_is_there_gets_its_id_and_waits_for_its_switch() -> None:
    found = tied(estate(distributed()), NEW, EDIT, *OTHERS, needs=("first",))
    assert found.needs == ("first", "edit_switch edit_switch")
    assert isinstance(found.write, VmknicWrite)
    assert found.write.network_moid == "dvportgroup-1"


def test_one_whose_network_lacks_nothing_waits_for_nothing() -> None:
    found = tied(estate(distributed()), NEW, *OTHERS)
    assert found.needs == ()


def test_one_that_is_changed_waits_for_its_switch_too() -> None:
    write = VmknicWrite(device="vmk1", network_moid="dvportgroup-1", network_name="roce-111", mtu=9000)
    found = tied(estate(distributed()), write, EDIT, SET)
    assert set(found.needs) == {"edit_switch edit_switch", "set_portgroup roce-111"}
    assert found.write == write


@pytest.mark.parametrize(
    ("networks", "seen", "moid"),
    [
        ((standard(),), ("network-1",), ""),
        ((standard(), distributed()), ("network-1",), ""),
        ((standard(), distributed()), ("dvportgroup-1",), "dvportgroup-1"),
        ((standard(), distributed()), (), "dvportgroup-1"),
        ((distributed("dvportgroup-8"), distributed("dvportgroup-9")), ("dvportgroup-9",), "dvportgroup-9"),
        ((distributed(is_uplink=True),), (), ""),
    ],
)
def test_what_the_host_sees_is_meant_first(networks: Any, seen: tuple[str, ...], moid: str) -> None:
    found = tied(estate(*networks, seen=seen), NEW)
    assert isinstance(found.write, VmknicWrite)
    assert found.write.network_moid == moid


def test_other_changes_are_left_alone() -> None:
    write = SwitchWrite(switch="vSwitch0", mtu=9000)
    assert tied(estate(distributed()), write, EDIT, SET) == on_host(write)
