"""What goes with a NIC that the host uses itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.planning.settings.views import view
from vgpu_cfg.model.observed.host_facts import DistributedSwitch
from vgpu_cfg.planning.host_settings.nics.uplinks import cut_off

SWITCHES = [
    {"name": "vSwitch0", "uplinks": ["vmnic0", "vmnic1"]},
    {"name": "dvs-a", "uplinks": ["vmnic2"], "switch_uuid": "uuid-a"},
]
VMKNICS = [
    {"device": "vmk0", "network_moid": "network-1", "services": ["management"]},
    {"device": "vmk1", "network_moid": "dvportgroup-1", "services": ["vmotion", "vsan"]},
    {"device": "vmk2", "network_moid": "dvportgroup-2", "services": ["vmotion"]},
]
ESTATE = (
    DistributedSwitch(
        moid="dvs-1", name="dvs-a", uuid="uuid-a", portgroup_vlans={"dvportgroup-1": 1, "dvportgroup-2": 2}
    ),
    DistributedSwitch(moid="dvs-2", name="dvs-b", uuid="uuid-b", portgroup_vlans={"dvportgroup-9": 9}),
)


def told(vmnic: str, switches: Any = SWITCHES, vmknics: Any = VMKNICS) -> str:
    return str(cut_off(view(facts={"switches": switches, "vmknics": vmknics}), vmnic, ESTATE))


@pytest.mark.parametrize(
    ("vmnic", "text"),
    [
        ("vmnic0", "vmnic0 is an uplink of vSwitch0; vmnic1 would remain"),
        ("vmnic2", "vmnic2 is the only uplink of dvs-a, with vmk1, vmk2 (vmotion, vsan)"),
        ("vmnic3", "None"),
    ],
)
def test_what_hangs_on_a_nic(vmnic: str, text: str) -> None:
    assert told(vmnic) == text


def test_a_standard_switch_may_carry_whatever_is_on_no_distributed_one() -> None:
    assert told("vmnic0", [{"name": "vSwitch0", "uplinks": ["vmnic0"]}]) == (
        "vmnic0 is the only uplink of vSwitch0, with vmk0 (management)"
    )


def test_without_the_estates_switches_everything_may_be_on_a_distributed_one() -> None:
    seen = view(facts={"switches": SWITCHES, "vmknics": VMKNICS})
    found = cut_off(seen, "vmnic2")
    assert found is not None
    assert found.vmknics == ("vmk0", "vmk1", "vmk2")
    assert found.services == ("management", "vmotion", "vsan")


def test_a_switch_of_nobody_carries_nothing() -> None:
    assert told("vmnic2", vmknics=[]) == "vmnic2 is the only uplink of dvs-a"
