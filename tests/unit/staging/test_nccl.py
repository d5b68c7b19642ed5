"""NCCL's settings: the program that computes them, run for real over the /sys of guests that differ."""

from __future__ import annotations

from xml.etree import ElementTree as ET

import pytest

from tests.unit.staging.sandbox import Ran, Sandbox
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.model.guests.modules import NcclModule, Wire
from vgpu_cfg.staging.modules.nccl import gpudirect_level

ROUTES = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
ens192\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0
ens192\t0000000A\t00000000\t0001\t0\t0\t100\t000000FF\t0\t0\t0
{roce}\t00006F0A\t00000000\t0001\t0\t0\t101\t00FFFFFF\t0\t0\t0
"""
ENV, TOPOLOGY = "/opt/vgpu-cfg/nccl.env", "/opt/vgpu-cfg/nccl-topo.xml"
MACS = ("b8:3f:d2:00:00:01", "b8:3f:d2:00:00:02")
ADDRESSES = ("10.111.0.11", "10.112.0.11")
NICS = tuple(GuestNic(mac=mac) for mac in MACS)
V100 = "16.0 GT/s PCIe"


@pytest.fixture
def vm(guest: Sandbox) -> Sandbox:
    """A guest with one NIC for RDMA and one GPU, whose driver lets NICs reach it."""
    guest.real("paste")
    guest.stand_in("systemctl", SYSTEMCTL)
    guest.write("/proc/net/route", ROUTES.format(roce="ens161"))
    guest.write("/sys/devices/system/node/node0/cpumap", "0000ffff\n")
    (guest.root / "sys/module/nvidia_peermem").mkdir(parents=True)
    add_gpu(guest, "0000:02:00.0")
    add_nic(guest, 0, "ens161", "0000:03:00.0")
    return guest


SYSTEMCTL = """
case " $* " in
*" enable "*) : >"$ROOT/enabled" ;;
*" is-enabled "*) [ -e "$ROOT/enabled" ] ;;
esac
"""


def add_gpu(guest: Sandbox, address: str, *, node: int = -1) -> None:
    for name, text in {"vendor": "0x10de", "class": "0x030200", "numa_node": str(node)}.items():
        guest.write(f"/sys/devices/{address}/{name}", f"{text}\n")
    link(guest, address)


def link(guest: Sandbox, address: str) -> None:
    here = guest.path(f"/sys/bus/pci/devices/{address}")
    here.parent.mkdir(parents=True, exist_ok=True)
    here.symlink_to(guest.path(f"/sys/devices/{address}"))


def add_nic(guest: Sandbox, index: int, name: str, address: str, *, shift: int = 0, node: int = -1) -> None:
    """Add a NIC with an RDMA device as a ConnectX-6 Dx shows it; `shift` moves its GIDs on."""
    rdma = f"mlx5_{index}"
    guest.nic(name, MACS[index], pci=address, rdma=rdma)
    facts = {"vendor": "0x15b3", "class": "0x020000", "numa_node": str(node)}
    for file, text in (facts | {"max_link_speed": V100, "max_link_width": "16"}).items():
        guest.write(f"/sys/devices/{address}/{file}", f"{text}\n")
    link(guest, address)
    port = f"/sys/class/infiniband/{rdma}/ports/1"
    guest.write(f"{port}/state", "4: ACTIVE\n")
    a, b, c, d = map(int, ADDRESSES[index].split("."))
    gids = [("fe80:0000:0000:0000:ba3f:d2ff:fe00:0001", kind) for kind in ("IB/RoCE v1", "RoCE v2")]
    mapped = f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}"
    gids += [(mapped, kind) for kind in ("IB/RoCE v1", "RoCE v2")]
    for at, (gid, kind) in enumerate(gids, shift):
        guest.write(f"{port}/gids/{at}", f"{gid}\n")
        guest.write(f"{port}/gid_attrs/types/{at}", f"{kind}\n")
        guest.write(f"{port}/gid_attrs/ndevs/{at}", f"{name}\n")


def module(**more: object) -> NcclModule:
    given = {"nics": NICS[:1], "address": ADDRESSES[0], "traffic_class": 106, "is_direct": True}
    return NcclModule.model_validate(given | more)


def settings(guest: Sandbox) -> dict[str, str]:
    """Source the file as a user would, and return what it sets."""
    done = guest.run(f'set -u\n. "{guest.path(ENV)}"\nenv | grep ^NCCL_\n')
    assert done.status == 0, done
    return dict(line.split("=", 1) for line in done.output.splitlines())


def remarks(guest: Sandbox) -> list[str]:
    lines = guest.read(ENV).splitlines()
    return [line.removeprefix("# ") for line in lines if line.startswith("# NCCL_")]


def program(guest: Sandbox, word: str) -> Ran:
    return guest.run(guest.read("/opt/vgpu-cfg/nccl-env"), word)


def test_it_says_what_is_there(vm: Sandbox) -> None:
    vm.bring(vm.stage(module()))
    assert settings(vm) == {
        "NCCL_SOCKET_IFNAME": "=ens161",
        "NCCL_IB_HCA": "=mlx5_0:1",
        "NCCL_IB_GID_INDEX": "3",
        "NCCL_IB_TC": "106",
        "NCCL_NET_GDR_LEVEL": "SYS",
    }
    why = (
        "NCCL_TOPO_FILE: the connections between the host's GPUs and NICs are not known before the VM starts"
    )
    assert remarks(vm) == [why]
    assert not vm.path(TOPOLOGY).exists()


def add_vlan(guest: Sandbox, name: str, lower: str, *, gid: int, address: str = ADDRESSES[0]) -> None:
    """Put a VLAN on a NIC, with a GID of its own; the NIC's own address is another network's."""
    home = guest.path(f"/sys/devices/virtual/net/{name}")
    home.mkdir(parents=True)
    (home / "address").write_text(f"{MACS[0]}\n")
    (home / f"lower_{lower}").symlink_to(guest.path(f"/sys/class/net/{lower}"))
    guest.path(f"/sys/class/net/{name}").symlink_to(home)
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    a, b, c, d = map(int, address.split("."))
    guest.write(f"{port}/gids/{gid}", f"0000:0000:0000:0000:0000:ffff:{a:02x}{b:02x}:{c:02x}{d:02x}\n")
    guest.write(f"{port}/gid_attrs/types/{gid}", "RoCE v2\n")
    guest.write(f"{port}/gid_attrs/ndevs/{gid}", f"{name}\n")


def test_an_address_on_a_vlan_in_the_guest_has_the_gid_of_the_vlan(vm: Sandbox) -> None:
    vm.write("/proc/net/route", ROUTES.format(roce="ens161.111"))
    add_vlan(vm, "ens161.111", "ens161", gid=5)
    port = "/sys/class/infiniband/mlx5_0/ports/1"
    for gid in (2, 3):  # of the NIC's own address
        vm.write(f"{port}/gids/{gid}", "0000:0000:0000:0000:0000:ffff:0a32:000b\n")
    vm.bring(vm.stage(module()))
    found = settings(vm)
    assert found["NCCL_SOCKET_IFNAME"] == "=ens161.111"
    assert (found["NCCL_IB_HCA"], found["NCCL_IB_GID_INDEX"]) == ("=mlx5_0:1", "5")
    assert not any("NCCL_IB_GID_INDEX" in remark for remark in remarks(vm))


def test_the_check_tells_what_it_says(vm: Sandbox) -> None:
    script = vm.stage(module(is_direct=False))
    vm.bring(script)
    told = "NCCL_SOCKET_IFNAME==ens161 NCCL_IB_HCA==mlx5_0:1 NCCL_IB_GID_INDEX=3 NCCL_IB_TC=106 "
    assert vm.run(script, "check").why == f"{told}NCCL_NET_GDR_LEVEL=LOC"


def test_a_gid_that_moved_makes_the_check_fail_until_the_unit_ran(vm: Sandbox) -> None:
    script = vm.stage(module())
    vm.bring(script)
    (vm.root / "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/3").write_text("IB/RoCE v1\n")
    (vm.root / "sys/class/infiniband/mlx5_0/ports/1/gid_attrs/types/2").write_text("RoCE v2\n")
    ran = vm.run(script, "check")
    assert ran.status == 1
    assert ran.why == f"{ENV} does not match the hardware: run /opt/vgpu-cfg/nccl-env apply"
    assert program(vm, "apply").status == 0
    assert vm.run(script, "check").status == 0
    assert settings(vm)["NCCL_IB_GID_INDEX"] == "2"


def test_without_an_rdma_device_only_the_interface_is_said(vm: Sandbox) -> None:
    (vm.root / "sys/class/infiniband/mlx5_0/ports/1/state").write_text("1: DOWN\n")
    vm.bring(vm.stage(module()))
    assert settings(vm) == {"NCCL_SOCKET_IFNAME": "=ens161"}
    assert remarks(vm)[0] == "NCCL_IB_HCA: no RDMA device on the training network"


def test_without_peermem_and_dma_buf_no_level_is_said(vm: Sandbox) -> None:
    (vm.root / "sys/module/nvidia_peermem").rmdir()
    vm.bring(vm.stage(module()))
    assert "NCCL_NET_GDR_LEVEL" not in settings(vm)
    assert "neither nvidia_peermem nor dma-buf is available" in remarks(vm)[0]


@pytest.mark.parametrize(
    ("driver", "release", "is_direct"),
    [
        ("NVIDIA UNIX Open Kernel Module for x86_64  580.95.05", "5.15.0-91-generic", True),
        ("NVIDIA UNIX Open Kernel Module for x86_64  580.95.05", "6.8.0-49-generic", True),
        ("NVIDIA UNIX Open Kernel Module for x86_64  580.95.05", "5.4.0-200-generic", False),
        ("NVIDIA UNIX x86_64 Kernel Module  580.95.05", "5.15.0-91-generic", False),
        ("NVIDIA UNIX Open Kernel Module for x86_64  580.95.05", "unknown", False),
    ],
)
def test_the_open_modules_dma_buf_is_as_good_as_peermem(
    vm: Sandbox, driver: str, release: str, *, is_direct: bool
) -> None:
    (vm.root / "sys/module/nvidia_peermem").rmdir()
    vm.write("/proc/driver/nvidia/version", f"NVRM version: {driver}\n")
    vm.write("/proc/sys/kernel/osrelease", f"{release}\n")
    vm.bring(vm.stage(module()))
    assert ("NCCL_NET_GDR_LEVEL" in settings(vm)) == is_direct


def test_the_gid_is_that_of_the_address_wherever_it_stands(vm: Sandbox) -> None:
    # Another IPv4 address of the same interface comes before its own.
    vm.write("/sys/class/infiniband/mlx5_0/ports/1/gids/1", "0000:0000:0000:0000:0000:ffff:0a6f:00c8\n")
    vm.bring(vm.stage(module()))
    assert settings(vm)["NCCL_IB_GID_INDEX"] == "3"


def test_gids_that_differ_are_left_to_nccl(vm: Sandbox) -> None:
    add_nic(vm, 1, "ens162", "0000:0b:00.0", shift=2)
    vm.bring(vm.stage(module(nics=NICS)))
    found = settings(vm)
    assert found["NCCL_IB_HCA"] == "=mlx5_0:1,mlx5_1:1"
    # Sockets meet on the network on which the guest's own address is.
    assert found["NCCL_SOCKET_IFNAME"] == "=ens161"
    assert "NCCL_IB_GID_INDEX" not in found
    assert remarks(vm)[0].startswith("NCCL_IB_GID_INDEX: differs between devices (3,5)")


def test_a_guest_without_a_nic_of_the_training_network(vm: Sandbox) -> None:
    vm.bring(vm.stage(module(nics=(GuestNic(mac="00:50:56:00:00:99"),), address="")))
    assert remarks(vm)[0] == "NCCL_SOCKET_IFNAME: no NIC on the training network"


def test_words_that_it_does_not_know(vm: Sandbox) -> None:
    vm.bring(vm.stage(module()))
    assert program(vm, "destroy").status == 2
    assert program(vm, "print").output == vm.read(ENV)


def test_at_boot_it_waits_for_an_address_that_comes_late(vm: Sandbox) -> None:
    """A NIC for RDMA is optional at boot, so that the network is up before its address is."""
    vm.bring(vm.stage(module()))
    wanted = vm.read(ENV)
    state = vm.path("/sys/class/infiniband/mlx5_0/ports/1/state")
    state.write_text("1: DOWN\n")
    vm.calls()
    vm.stand_in("sleep", f"[ $(wc -l <'{vm.calls_file}') -lt 3 ] || echo '4: ACTIVE' >'{state}'")
    assert vm.run(vm.read("/opt/vgpu-cfg/nccl-env"), "apply", "60").status == 0
    assert vm.calls("sleep") == ["sleep 2"] * 3
    assert vm.read(ENV) == wanted


def test_at_boot_it_does_not_wait_for_ever(vm: Sandbox) -> None:
    vm.bring(vm.stage(module()))
    vm.path("/sys/class/infiniband/mlx5_0/ports/1/state").write_text("1: DOWN\n")
    vm.stand_in("sleep")
    assert vm.run(vm.read("/opt/vgpu-cfg/nccl-env"), "apply", "60").status == 0
    assert len(vm.calls("sleep")) == 30
    assert settings(vm) == {"NCCL_SOCKET_IFNAME": "=ens161"}


# ---------------------------------------------------------------- the host's wiring

ONE_SWITCH = {"gpu_wires": (Wire(node=0, switches=(1,)),), "nic_wires": (Wire(node=0, switches=(1,)),)}


def tree(guest: Sandbox) -> ET.Element:
    return ET.fromstring(guest.read(TOPOLOGY))  # noqa: S314 - written by the program under test


def shape(element: ET.Element) -> list[object]:
    """Return the addresses of the tree, each with what hangs below it."""
    return [element.get("busid") or f"node {element.get('numaid')}", *(shape(one) for one in element)]


def test_gpu_and_nic_below_one_switch(vm: Sandbox) -> None:
    vm.bring(vm.stage(module(**ONE_SWITCH)))
    assert settings(vm)["NCCL_TOPO_FILE"] == TOPOLOGY
    assert settings(vm)["NCCL_NET_GDR_LEVEL"] == "PIX"
    assert vm.read(TOPOLOGY) == (
        '<system version="1">\n'
        '  <cpu numaid="0" affinity="0000ffff">\n'
        '    <pci busid="ffff:ff:01.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">\n'
        '      <pci busid="0000:02:00.0" class="0x030200" link_speed="" link_width="0"/>\n'
        '      <pci busid="0000:03:00.0" class="0x020000" link_speed="16.0 GT/s PCIe" link_width="16"/>\n'
        "    </pci>\n"
        "  </cpu>\n"
        "</system>\n"
    )


def add_link(guest: Sandbox, speed: str, width: str) -> None:
    """Give the GPU a link as the kernel shows it (drivers/pci/pci-sysfs.c, pcie_get_width_cap)."""
    for name, text in {"max_link_speed": speed, "max_link_width": width}.items():
        guest.write(f"/sys/devices/0000:02:00.0/{name}", f"{text}\n")


@pytest.mark.parametrize(
    ("speed", "width", "written"),
    [
        ("32.0 GT/s PCIe", "16", ("32.0 GT/s PCIe", "16")),
        ("16.0 GT/s PCIe", "8", ("16.0 GT/s PCIe", "8")),
        ("Unknown", "255", ("", "0")),
    ],
)
def test_the_link_of_a_gpu(vm: Sandbox, speed: str, width: str, written: tuple[str, str]) -> None:
    add_link(vm, speed, width)
    vm.bring(vm.stage(module(**ONE_SWITCH)))
    (gpu,) = (one for one in tree(vm).iter("pci") if one.get("busid") == "0000:02:00.0")
    assert (gpu.get("link_speed"), gpu.get("link_width")) == written


def test_a_vgpu_has_the_link_of_its_board(vm: Sandbox) -> None:
    add_link(vm, "Unknown", "255")
    wires = (Wire(node=0, rate="16.0", lanes=8),)
    vm.bring(vm.stage(module(gpu_wires=wires, nic_wires=(Wire(node=0),))))
    (gpu,) = (one for one in tree(vm).iter("pci") if one.get("busid") == "0000:02:00.0")
    assert (gpu.get("link_speed"), gpu.get("link_width")) == ("16.0 GT/s PCIe", "8")


def test_two_gpus_each_with_a_nic_of_its_own_node(vm: Sandbox) -> None:
    add_gpu(vm, "0000:13:00.0")
    add_nic(vm, 1, "ens162", "0000:1b:00.0")
    vm.write("/sys/devices/system/node/node0/cpumap", "000000ff\n")
    vm.write("/sys/devices/system/node/node1/cpumap", "0000ff00\n")
    near, far = Wire(node=0, switches=(1, 2)), Wire(node=1, switches=(3,))
    vm.bring(vm.stage(module(nics=NICS, gpu_wires=(near, far), nic_wires=(near, far))))
    assert [shape(cpu) for cpu in tree(vm)] == [
        ["node 0", ["ffff:ff:01.0", ["ffff:ff:02.0", ["0000:02:00.0"], ["0000:03:00.0"]]]],
        ["node 1", ["ffff:ff:03.0", ["0000:13:00.0"], ["0000:1b:00.0"]]],
    ]
    assert [cpu.get("affinity") for cpu in tree(vm)] == ["000000ff", "0000ff00"]


def test_where_the_guest_has_one_node_no_cpus_are_named(vm: Sandbox) -> None:
    """Which of its CPUs run on which node of the host nobody knows then."""
    vm.write("/sys/devices/system/node/node1/cpumap", "ffff0000\n")
    vm.bring(vm.stage(module(gpu_wires=(Wire(node=0),), nic_wires=(Wire(node=0),))))
    assert [(cpu.get("numaid"), cpu.get("affinity")) for cpu in tree(vm)] == [("0", "")]
    assert settings(vm)["NCCL_NET_GDR_LEVEL"] == "PHB"


def test_what_vsphere_says_of_a_virtual_node_counts(vm: Sandbox) -> None:
    vm.write("/sys/devices/system/node/node1/cpumap", "ffff0000\n")
    for address in ("0000:02:00.0", "0000:03:00.0"):
        vm.write(f"/sys/devices/{address}/numa_node", "1\n")
    vm.bring(vm.stage(module(gpu_wires=(Wire(node=0),), nic_wires=(Wire(node=0),))))
    assert [(cpu.get("numaid"), cpu.get("affinity")) for cpu in tree(vm)] == [("1", "ffff0000")]


def test_a_virtual_function_is_found_by_the_address_that_nccl_looks_for(vm: Sandbox) -> None:
    add_gpu(vm, "0000:13:00.0")
    add_nic(vm, 1, "ens162", "0000:1b:01.0")
    wire = Wire(node=0, switches=(1,))
    vm.bring(vm.stage(module(nics=NICS[1:], address=ADDRESSES[1], gpu_wires=(wire, wire), nic_wires=(wire,))))
    below = ["ffff:ff:01.0", ["0000:02:00.0"], ["0000:13:00.0"], ["0000:1b:01.0"], ["0000:1b:00.0"]]
    assert [shape(cpu) for cpu in tree(vm)] == [["node 0", below]]


def test_gpus_that_are_not_as_many_as_planned(vm: Sandbox) -> None:
    script = vm.stage(module(**ONE_SWITCH))
    vm.bring(script)
    add_gpu(vm, "0000:13:00.0")
    assert vm.run(script, "check").status == 1
    vm.bring(script)
    assert not vm.path(TOPOLOGY).exists()
    assert remarks(vm)[-1] == (
        "NCCL_TOPO_FILE: the plan describes the connections of 1 GPUs, but 2 are present"
    )
    assert settings(vm)["NCCL_NET_GDR_LEVEL"] == "SYS"


def test_a_topology_that_somebody_edited(vm: Sandbox) -> None:
    script = vm.stage(module(**ONE_SWITCH))
    vm.bring(script)
    vm.write(TOPOLOGY, "<system/>\n")
    assert vm.run(script, "check").why.startswith(f"{TOPOLOGY} does not match the hardware")
    vm.bring(script)


@pytest.mark.parametrize(
    ("gpus", "nics", "level"),
    [
        ([(0, (1,))], [(0, (1,))], "PIX"),
        ([(0, (1, 2))], [(0, (1, 3))], "PXB"),
        ([(0, (1,))], [(0, (2,))], "PHB"),
        ([(0, ())], [(0, ())], "PHB"),
        ([(0, (1,))], [(1, (2,))], "SYS"),
        ([(0, (1,)), (1, (2,))], [(0, (1,)), (1, (2,))], "PIX"),
        ([(0, (1,)), (1, (2,))], [(0, (1,))], "SYS"),
        ([], [], "SYS"),
    ],
)
def test_the_level_reaches_the_nearest_nic_of_every_gpu(
    gpus: list[tuple[int, tuple[int, ...]]], nics: list[tuple[int, tuple[int, ...]]], level: str
) -> None:
    wires = [[Wire(node=node, switches=above) for node, above in some] for some in (gpus, nics)]
    assert gpudirect_level(*wires) == level
