"""Ports of the lab's guests: dcb shows what the real one shows of such a port, and NICs count what moves."""

from __future__ import annotations

import json

import pytest

from tests.unit.lab.guest.guest_rig import GuestRig, module
from tests.unit.parsers.printed import printed
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.parsers.guest_system import bus_of
from vgpu_cfg.parsers.rdma.devices import parse_hw_counters, parse_statistics
from vgpu_cfg.parsers.rdma.settings import parse_dcb, parse_dcb_buffers


@pytest.fixture
def rig() -> GuestRig:
    return GuestRig()


def roce(rig: GuestRig) -> dict[str, object]:
    nic = {"mac": rig.mac(), "driver": "", "name": "", "addresses": [], "mtu": 9000}
    return module("roce", nics=[nic], trust="dscp", dscp=26, priority=3, owns_port=True)


def asked(rig: GuestRig, vm: VirtualMachine, line: str) -> str:
    return rig.shell(vm).execute(line)[1]


def interface_of(rig: GuestRig, vm: VirtualMachine) -> str:
    return asked(rig, vm, "ls /sys/class/net").split()[-1]


@pytest.mark.parametrize(("kind", "name"), [("pfc", "pfc-lossless"), ("buffer", "buffer-lossless")])
def test_dcb_shows_what_the_real_one_does(rig: GuestRig, kind: str, name: str) -> None:
    rig.staged(roce(rig))
    vm = rig.vm("a")
    interface = interface_of(rig, vm)
    shown = asked(rig, vm, f"timeout 20 dcb -j {kind} show dev {interface}")
    assert json.loads(shown) == json.loads(printed(f"dcb-{name}.txt"))


def test_a_port_of_the_distributions_driver_is_lossless_and_seen_to_be(rig: GuestRig) -> None:
    guest = rig.staged(roce(rig))
    assert (guest.ofed, rig.states()["roce"]) == ("inbox", "done")
    vm = rig.vm("a")
    interface = interface_of(rig, vm)
    pfc, app, buffers = (
        asked(rig, vm, f"dcb -j {kind} show dev {interface}") for kind in ("pfc", "app", "buffer")
    )
    seen = parse_dcb(pfc, app)
    assert (seen.trust, seen.protected, seen.priority_of) == ("dscp", frozenset({3}), {26: 3})
    assert parse_dcb_buffers(buffers, 3) == (frozenset(), 131008)
    driver = asked(rig, vm, f"ethtool -i {interface}")
    address = bus_of(driver)
    assert "ROCE_CC_PRIO_MASK_P1" in asked(rig, vm, f"mstconfig -d {address} -e q")


def test_a_system_without_dcb_is_warned_of(rig: GuestRig) -> None:
    for template in rig.lab.state.all(VirtualMachine):
        guest_of(template).os = "ubuntu-20.04"
    guest = rig.staged(roce(rig))
    assert (rig.states()["roce"], rig.report()["state"]) == ("warned", "done")
    assert rig.why("roce").endswith(
        "configuring it requires mlnx_qos (OFED) or dcb (iproute2 5.11 or later), and neither is installed"
    )
    assert guest.roce[rig.mac()].trust == "pcp"


def test_counters_have_the_names_of_mlx5s(rig: GuestRig) -> None:
    rig.staged(roce(rig))
    vm = rig.vm("a")
    interface = interface_of(rig, vm)
    own = parse_statistics(asked(rig, vm, f"ethtool -S {interface}"))
    recorded = parse_statistics(printed("ethtool-statistics-of-a-whole-nic.txt"))
    assert {name for name in own if "prio3" in name} & set(recorded) >= {"rx_prio3_bytes", "tx_prio3_pause"}
    line = "sh -c 'grep -s . /sys/class/infiniband/*/ports/*/hw_counters/*'"
    hardware = parse_hw_counters(asked(rig, vm, line))
    assert set(hardware) <= set(parse_hw_counters(printed("hw-counters-of-a-busy-port.txt")))
