"""What guests print of NICs and RDMA: lspci, ibv_devinfo, GID tables, mlnx_qos, ip."""

from __future__ import annotations

import pytest

from tests.unit.parsers.printed import printed
from vgpu_cfg.parsers.guest_system import parse_interfaces, parse_lspci
from vgpu_cfg.parsers.rdma.devices import parse_devinfo, parse_show_gids, parse_sysfs_gids
from vgpu_cfg.parsers.rdma.settings import parse_qos, parse_rate, parse_traffic_class
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput


def test_ats_is_on_where_its_control_says_enable_plus() -> None:
    (found,) = parse_lspci(printed("lspci-ats-on-tabs.txt"))
    assert (found.pci_id, found.kind, found.ats) == ("0000:0b:00.0", "Ethernet controller", True)
    assert (found.driver, found.is_readable) == ("mlx5_core", True)


def test_ats_off_is_not_ats_absent() -> None:
    off, absent = parse_lspci(printed("lspci-two-functions-one-ats-off.txt"))
    assert (off.ats, absent.ats) == (False, None)
    assert absent.pci_id == "0000:13:00.0"


def test_capabilities_may_be_kept_from_the_asker() -> None:
    (found,) = parse_lspci(printed("lspci-access-denied.txt"))
    assert (found.ats, found.is_readable) == (None, False)


def test_no_function_that_matches_is_an_empty_answer() -> None:
    assert parse_lspci("") == ()
    with pytest.raises(ToolFailed, match="-s: Invalid"):
        parse_lspci("lspci: -s: Invalid slot number\n")


def test_ports_tell_their_state_link_layer_and_mtu() -> None:
    up, down = parse_devinfo(printed("ibv-devinfo-one-up-one-down.txt"))
    assert (up.name, up.part_id, up.firmware) == ("mlx5_0", 4125, "22.38.1900")
    (port,) = up.ports
    assert (port.number, port.is_active, port.link_layer, port.active_mtu) == (1, True, "Ethernet", 4096)
    assert (down.ports[0].state, down.ports[0].active_mtu) == ("PORT_DOWN", 1024)


def test_devices_of_other_containers_are_passed_over() -> None:
    (found,) = parse_devinfo(printed("ibv-devinfo-failed-to-open-others.txt"))
    assert (found.name, found.ports[0].link_layer) == ("mlx4_2", "InfiniBand")


def test_no_device_is_an_answer_and_garbage_is_none() -> None:
    assert parse_devinfo(printed("ibv-devinfo-none.txt")) == ()
    with pytest.raises(UnreadableOutput):
        parse_devinfo("libibverbs: Warning: no userspace device-specific driver found\n")


def test_gids_of_both_versions_are_told_apart() -> None:
    gids = parse_show_gids(printed("show-gids-tabs.txt"))
    assert [(gid.index, gid.version, gid.ipv4) for gid in gids] == [
        (0, 1, None),
        (1, 2, None),
        (2, 1, "10.111.0.11"),
        (3, 2, "10.111.0.11"),
    ]
    assert {gid.netdev for gid in gids} == {"ens192"}


def test_an_index_need_not_begin_at_0_and_an_interface_may_be_absent() -> None:
    first, second, third = parse_show_gids(printed("show-gids-without-an-interface.txt"))
    assert (first.index, second.index, second.ipv4) == (4, 7, "10.152.0.12")
    assert (third.device, third.netdev) == ("mlx5_1", "")


def test_sysfs_tells_the_same_table() -> None:
    assert parse_sysfs_gids(printed("sysfs-gids-unused-places.txt")) == parse_show_gids(
        printed("show-gids-tabs.txt")
    )


def test_qos_of_a_port_that_trusts_dscp() -> None:
    found = parse_qos(printed("mlnx-qos-dscp-with-buffers.txt"))
    assert (found.trust, sorted(found.protected)) == ("dscp", [3])
    assert (found.priority_of[26], found.priority_of[0], len(found.priority_of)) == (3, 0, 64)


def test_qos_of_a_port_that_protects_nothing() -> None:
    found = parse_qos(printed("mlnx-qos-pcp-nothing-protected.txt"))
    assert (found.trust, found.protected, found.priority_of) == ("pcp", frozenset(), {})


def test_qos_without_its_parts_is_an_error() -> None:
    with pytest.raises(UnreadableOutput, match="no trust state"):
        parse_qos("DCBX mode: OS controlled\n")
    with pytest.raises(ToolFailed, match="ens9"):
        parse_qos("Netdevice ens9 does not exist!\n")


@pytest.mark.parametrize(
    ("text", "expected"), [("Global tclass=106\n", 106), ("", None), ("Global tclass=-1\n", None)]
)
def test_a_traffic_class_may_be_unset(text: str, expected: int | None) -> None:
    assert parse_traffic_class(text) == expected


def test_rates_are_in_gigabits() -> None:
    assert parse_rate("100 Gb/sec (4X EDR)\n") == 100
    assert parse_rate("2.5 Gb/sec (1X SDR)") == 2.5
    with pytest.raises(UnreadableOutput):
        parse_rate("fast")


def test_interfaces_tell_mac_mtu_state_and_ipv4() -> None:
    _, control, rdma, down = parse_interfaces(printed("ip-address-two-up-one-down.txt"))
    assert (control.name, control.mac, control.addresses) == (
        "ens160",
        "00:50:56:aa:00:01",
        ("192.168.10.21/24",),
    )
    assert (rdma.mtu, rdma.is_up, down.is_up) == (9000, True, False)


@pytest.mark.parametrize("text", ["", "{}garbage", '["a"]', '{"a": 1}', "[" * 100_000])
def test_what_is_no_json_of_interfaces_is_an_error(text: str) -> None:
    with pytest.raises(UnreadableOutput):
        parse_interfaces(text)
