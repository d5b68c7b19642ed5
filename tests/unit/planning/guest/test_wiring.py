"""How a VM's devices hang in its host: said where no choice of ESXi's makes a difference, else left out."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plans.estate import make_inventory
from tests.unit.planning.desired_plans import vm
from vgpu_cfg.model.guests.modules import NcclModule, Wire
from vgpu_cfg.planning.guests.wiring import NO_WIRING, Wiring, wiring_of

NIC = "0000:2a:00.0"
FAR_NIC = "0000:aa:00.0"
ROCE = {"network": "roce-111", "rdma": "gpudirect", "function": {"kind": "passthrough"}}
ONE_SWITCH = {"20:01.0": None, "21:00.0": "20:01.0", "22:00.0": "21:00.0", "22:01.0": "21:00.0"}
"""A root port, the upstream port of a switch, and two ports of it."""
BELOW = ({"board": "A100", "pci": "23:00.0", "bridge": "22:00.0"}, "22:01.0")
FAR = {"board": "A100", "pci": "a3:00.0", "node": 1}
PROFILE = "grid_a100-40c"
OF_A100: dict[str, Any] = {"rate": "16.0", "lanes": 16}


def of(
    *gpus: dict[str, Any],
    wanted: Any = (PROFILE,),
    nics: tuple[str, ...] = (NIC,),
    bridges: dict[str, str | None] | None = None,
    nic_bridge: str | None = None,
    node: int | None = 0,
) -> Wiring:
    row = {
        "gpus": list(gpus),
        "nics": [
            {"vmnic": "vmnic2", "pci": NIC, "node": node, "bridge": nic_bridge},
            {"vmnic": "vmnic4", "pci": FAR_NIC, "node": 1},
        ],
        "bridges": bridges or {},
    }
    host = make_inventory({"hosts": {"esx-01": row}}).hosts[0]
    entries = tuple({"pin": one} if ":" in one else {"profile": (one,)} for one in wanted)
    return wiring_of(vm("a", gpus=entries, nics=(ROCE,) * len(nics)), host, nics)


def test_the_only_gpu_below_the_switch_of_the_nic() -> None:
    gpu, port = BELOW
    found = of(gpu, bridges=ONE_SWITCH, nic_bridge=port)
    assert found == Wiring((Wire(node=0, switches=(1,), **OF_A100),), (Wire(node=0, switches=(1,)),))


def test_ports_of_a_switch_are_no_switches() -> None:
    """Of a device right below a root port nothing but its node is told."""
    gpu = {"board": "A100", "pci": "23:00.0", "bridge": "20:01.0"}
    assert of(gpu, bridges={"20:01.0": None}) == Wiring((Wire(node=0, **OF_A100),), (Wire(node=0),))


def test_hosts_that_are_wired_alike_are_told_alike() -> None:
    """A VM that moves between them keeps its settings: addresses and the numbers of nodes do not count."""
    gpu, port = BELOW
    one = of(gpu, bridges=ONE_SWITCH, nic_bridge=port)
    there = {"40:01.0": None, "41:00.0": "40:01.0", "42:00.0": "41:00.0", "42:01.0": "41:00.0"}
    other = of(
        {"board": "A100", "pci": "43:00.0", "bridge": "42:01.0", "node": 1},
        bridges=there, nic_bridge="42:00.0", node=1,
    )  # fmt: skip
    assert one == other != NO_WIRING


def test_only_a_host_that_is_wired_otherwise_outdates_the_settings() -> None:
    gpu, port = BELOW
    digests = [
        NcclModule(gpu_wires=one.gpus, nic_wires=one.nics).digest
        for one in (
            of(gpu, bridges=ONE_SWITCH, nic_bridge=port),
            of(gpu, bridges=ONE_SWITCH, nic_bridge="22:00.0"),
            of(gpu, bridges=ONE_SWITCH),
        )
    ]
    assert digests[0] == digests[1] != digests[2]


def test_which_of_two_gpus_makes_no_difference() -> None:
    near = [{"board": "A100", "pci": f"{bus}:00.0"} for bus in ("23", "24")]
    assert of(*near) == Wiring((Wire(node=0, **OF_A100),), (Wire(node=0),))


def test_boards_with_different_links_have_none() -> None:
    """The V100 has PCIe 3.0; which GPU ESXi chooses is not known."""
    a100, v100 = ({"board": board, "pci": f"{bus}:00.0"} for board, bus in (("A100", "23"), ("V100", "24")))
    assert of(a100, v100) == Wiring((Wire(node=0),), (Wire(node=0),))
    assert of(v100).gpus == (Wire(node=0, rate="8.0", lanes=16),)


def test_which_of_two_gpus_makes_a_difference() -> None:
    assert of({"board": "A100", "pci": "23:00.0"}, FAR) == NO_WIRING


def test_gpus_that_are_pinned_are_known() -> None:
    gpus = [
        {"board": "A100", "pci": f"0000:{bus}:00.0", "node": node, "passthrough": True}
        for node, bus in enumerate(("23", "a3"))
    ]
    found = of(*gpus, wanted=("0000:23:00.0", "0000:a3:00.0"), nics=(NIC, FAR_NIC))
    assert found == Wiring((Wire(node=0), Wire(node=1)), (Wire(node=0), Wire(node=1)))


def test_a_gpu_that_is_passed_through_is_no_choice_for_a_vgpu() -> None:
    found = of({"board": "A100", "pci": "23:00.0"}, FAR | {"passthrough": True})
    assert found == Wiring((Wire(node=0, **OF_A100),), (Wire(node=0),))


@pytest.mark.parametrize("unknown", [{"node": None}, {"nics": ("",)}])
def test_a_nic_of_which_nobody_tells_the_place(unknown: dict[str, Any]) -> None:
    assert of({"board": "A100", "pci": "23:00.0"}, **unknown) == NO_WIRING


def test_more_choices_than_are_looked_at() -> None:
    gpus = [{"board": "A100", "pci": f"{bus:02x}:00.0", "node": bus % 2} for bus in range(0x30, 0x32)]
    assert of(*gpus, wanted=(PROFILE,) * 13) == NO_WIRING
