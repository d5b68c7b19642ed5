"""Whole answers of parsers of NICs, RDMA, topologies, and nvidia-smi: edges that no stored output has."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from vgpu_cfg.model.observed.host_facts import FirmwareValue, GpuLinks, MigInstance
from vgpu_cfg.parsers.nvidia.guest_gpus import GuestGpu, GuestGpus, ListedGpu, parse_guest_query, parse_listed
from vgpu_cfg.parsers.nvidia.smi import (
    Lanes,
    RunningVgpu,
    parse_gpu_csv,
    parse_lanes,
    parse_mig_instances,
    parse_query,
    parse_query_leniently,
    parse_vgpus,
)
from vgpu_cfg.parsers.nvidia.topology import Topology, distance, links_by_address, parse_topology
from vgpu_cfg.parsers.rdma.devices import (
    Gid,
    PcieLink,
    PortSpeed,
    RdmaDevice,
    RdmaPort,
    dropped,
    parse_devinfo,
    parse_hw_counters,
    parse_pcie_link,
    parse_port_speed,
    parse_show_gids,
    parse_statistics,
    parse_sysfs_gids,
    pause_duration,
    paused,
    risen,
    sent_by_priority,
)
from vgpu_cfg.parsers.rdma.mlxconfig import (
    FirmwareQuery,
    MstDevice,
    parse_all_firmware,
    parse_firmware,
    parse_mst_status,
)
from vgpu_cfg.parsers.rdma.perftest import Bandwidth, lacks_cuda, parse_bandwidth
from vgpu_cfg.parsers.rdma.settings import (
    PortQos,
    parse_dcb,
    parse_dcb_buffers,
    parse_qos,
    parse_rate,
    parse_traffic_class,
)

GPU = "GPU 00000000:36:00.0"
GUEST = f"""Driver Version : 580.65
{GPU}
    Product Name : A100
    MIG Mode
        Current : ENABLED
    ECC Mode
        Current : Enabled
    GPU Virtualization Mode
        Virtualization Mode : VGPU
    GRID Licensed Product
        License Status : Licensed (Expiry: 2026-1-2 3:4:5 GMT)
    FB Memory Usage
        Total : 40960 MiB
        Used : 12 MiB
    Compute Mode : Default
    Processes
        Name : lost
        GPU instance ID : N/A
            Process ID : 7
                Name : python3
                Name : again
        Process ID : 8
        Name : b c
"""


def test_a_gpu_of_a_guest() -> None:
    found = parse_guest_query(GUEST)
    assert found == GuestGpus(
        driver_version="580.65",
        gpus=(
            GuestGpu(
                pci_id="0000:36:00.0",
                name="A100",
                mode="VGPU",
                licence="Licensed (Expiry: 2026-1-2 3:4:5 GMT)",
                expiry=datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
                memory_mib=40960,
                is_mig=True,
                compute_mode="Default",
                used_mib=12,
                processes=("python3 (7)", "b c (8)"),
                ecc="Enabled",
            ),
        ),
    )
    assert (found.branch, GuestGpus().branch, found.gpus[0].is_licensed) == ("580", "", True)
    both = GUEST.replace(
        "    GRID", "    vGPU Software Licensed Product\n        License Status : Unlicensed\n    GRID"
    )
    (gpu,) = parse_guest_query(both).gpus
    assert (gpu.licence, gpu.expiry, gpu.is_licensed) == ("Unlicensed", None, False)
    (gpu,) = parse_guest_query(f"{GPU}\n    MIG Mode\n        Current : Disabled\n").gpus
    assert gpu == GuestGpu(pci_id="0000:36:00.0")
    assert not gpu.is_licensed


def test_listed_gpus() -> None:
    text = (
        "greeting\n MIG a Device 0: (UUID: b)\nGPU 0: A (B) (UUID: GPU-1)\n  MIG 1g.5gb     "
        "Device  0: (UUID: MIG-1)\n"
    )
    assert parse_listed(f"{text}  MIG 2g Device 1: (UUID: c)\nGPU 1: B (UUID: GPU-2)\n") == (
        ListedGpu(name="A (B)", uuid="GPU-1", slices=("1g.5gb", "2g")),
        ListedGpu(name="B", uuid="GPU-2"),
    )


def test_cells_of_nvidia_smi() -> None:
    text = 'gpu_bus_id, memory.total [MiB], name\n00000000:3B:00.0, [N/A], "A, b"\n[N/A], 1, c\n'
    assert parse_gpu_csv(text) == (
        {"gpu_bus_id": "0000:3b:00.0", "memory.total": None, "name": "A, b"},
        {"gpu_bus_id": None, "memory.total": "1", "name": "c"},
    )


def test_gpus_of_a_host() -> None:
    text = (
        f"Driver Version : 1\nAttached GPUs : 3\n{GPU}\n    MIG Mode\n        Current : Enabled\n"
        f"        Pending : Disabled\n"
        "    Ecc Mode\n        Current : Disabled\n        Pending : Enabled\n    Module ID : 0x3\n"
        "    GPU Virtualization Mode\n        Host VGPU Mode : SR-IOV\n"
        "GPU 00000000:37:00.0\n    Module ID : 5\n    Platform Info\n        Module Id : 4\n"
        "GPU 00000000:38:00.0\n    ECC Mode\n        Current : Perhaps\n"
    )
    found = parse_query_leniently(text)
    assert (found.driver_version, found.attached) == ("1", 3)
    assert found.unreadable == {"0000:38:00.0": "not on or off: 'Current : Perhaps'"}
    first, second = found.gpus
    assert tuple(first.model_dump().values()) == ("0000:36:00.0", True, False, False, True, "SR-IOV", 3)
    assert first.facts.model_dump(include={*first.model_dump()} - {"pci_id"}) == first.model_dump(
        exclude={"pci_id"}
    )
    assert (second.module_id, found.gpu("0000:37:00.0"), found.gpu("0000:38:00.0")) == (4, second, None)
    assert parse_query(f"Attached GPUs : 1\n{GPU}\n").attached == 1
    assert parse_query(f"{GPU}\n").attached is None


def test_vgpus_of_a_host() -> None:
    text = (
        f"{GPU}\n    Active vGPUs : 2\n    vGPU ID : 1\n        VM Name : a\n        License "
        f"Status : N/A (Expiry: N/A)\n"
    )
    text += "    vGPU ID : 2\n        License Status : Licensed\nGPU 00000000:37:00.0\n    Active vGPUs : 0\n"
    assert parse_vgpus(text) == {
        "0000:36:00.0": (RunningVgpu(vm_name="a"), RunningVgpu(licence="Licensed")),
        "0000:37:00.0": (),
    }


def test_mig_instances() -> None:
    text = (
        "Warning: a\n+-----+\n| GPU instances: |\n| GPU Name |\n| ID b |\n|=====|\n| |\n"
        "| 0 MIG 1g.5gb 19 7 4:1 |\n|-----|\n| 0 MIG 2g 14 3 0:2 |\n| 1 MIG 3g 9 2 0:4 |\n"
    )
    assert parse_mig_instances(text) == {
        0: (MigInstance(start=4, size=1), MigInstance(start=0, size=2)),
        1: (MigInstance(start=0, size=4),),
    }
    for word in (
        "No MIG-enabled devices found.",
        " No MIG-supported devices found",
        "No GPU instances found: a",
    ):
        assert parse_mig_instances(word) == {}


def test_lanes_of_nvlink() -> None:
    text = (
        "Link 0: 1\nGPU 0: a (UUID: b)\n\t Link 0: 25 GB/s\n\t Link 1: <Inactive>\n\t Link "
        "2: 1\n a\nGPU 12: c\n"
    )
    assert parse_lanes(text) == (Lanes(gpu=0, active=2, inactive=1), Lanes(gpu=12))


MATRIX = """\x1b[4mGPU0 GPU1 NIC0 CPU Affinity NUMA Affinity\x1b[0m
GPU0 X NV12 SYS 0-31 0
GPU1 NV12 X PHB 32-63 0-1
NIC0 SYS PHB X

Legend:
NIC Legend:
  NIC0: mlx5_0
"""


def test_a_topology() -> None:
    found = parse_topology(MATRIX)
    assert found == Topology(
        devices=("GPU0", "GPU1", "NIC0"),
        rows={
            "GPU0": {"GPU0": "X", "GPU1": "NV12", "NIC0": "SYS"},
            "GPU1": {"GPU0": "NV12", "GPU1": "X", "NIC0": "PHB"},
            "NIC0": {"GPU0": "SYS", "GPU1": "PHB", "NIC0": "X"},
        },
        cpus={"GPU0": "0-31", "GPU1": "32-63"},
        numa={"GPU0": "0", "GPU1": "0-1"},
        nics={"NIC0": "mlx5_0"},
    )
    assert (found.gpus, found.nvlinks("GPU0", "GPU1"), found.nvlinks("GPU0", "NIC0")) == (
        ("GPU0", "GPU1"),
        12,
        0,
    )
    assert links_by_address(found, {"GPU0": "a", "GPU1": "b", "GPU2": "c"}) == GpuLinks(
        links={"a": {"b": "NV12"}, "b": {"a": "NV12"}}, numa_nodes={"a": 0}
    )
    assert [distance(link) for link in ("X", "NV4", "PIX", "PXB", "PHB", "NODE", "SYS")] == [*range(7)]


def mesh(count: int, *pairs: tuple[int, int]) -> Topology:
    names = [f"GPU{number}" for number in range(count)]
    joined = {frozenset(pair) for pair in pairs}
    rows = {
        f"GPU{one}": {
            f"GPU{other}": "X" if one == other else "NV1" if frozenset((one, other)) in joined else "SYS"
            for other in range(count)
        }
        for one in range(count)
    }
    return Topology(devices=tuple(names), rows=rows)


@pytest.mark.parametrize(
    ("topology", "count", "peers"),
    [
        (mesh(4), 2, ()),
        (mesh(4, (2, 3)), 2, (2, 3)),
        (mesh(4, (0, 1), (1, 2), (2, 3)), 3, (0, 1)),
        (mesh(5, (0, 1), (1, 2), (2, 3), (3, 4), (2, 4)), 3, (2, 3, 4)),
        (mesh(4, (0, 1), (0, 2), (1, 2), (1, 3)), 2, (0, 1)),
        (mesh(4, (0, 1), (0, 2), (0, 3), (2, 3)), 4, (0, 2, 3)),
    ],
)
def test_peers_are_all_joined(topology: Topology, count: int, peers: tuple[int, ...]) -> None:
    assert topology.peers(count) == tuple(f"GPU{number}" for number in peers)


def test_rdma_devices() -> None:
    text = (
        "Failed to open\nhca_id: a\n transport: b\n fw_ver: 1.2\n vendor_part_id: 4125\n x\n port: 1\n"
        "  state: PORT_ACTIVE (4)\n  active_mtu: 4096 (5)\n  link_layer: Ethernet\n  fw_ver: 9\n port: 2\n"
        "  state: PORT_DOWN\nhca_id: c\n"
    )
    ports = (
        RdmaPort(number=1, state="PORT_ACTIVE", link_layer="Ethernet", active_mtu=4096),
        RdmaPort(number=2, state="PORT_DOWN"),
    )
    assert parse_devinfo(text) == (
        RdmaDevice(name="a", firmware="1.2", part_id=4125, ports=ports),
        RdmaDevice(name="c"),
    )
    assert [port.is_active for port in ports] == [True, False]
    assert parse_devinfo("hca_id: a\nNo IB devices found\n") == ()


def test_gids() -> None:
    text = (
        "DEV PORT INDEX GID IPv4 VER DEV\n--- --- ---\n-----\nmlx5_0 1 3 "
        "0000:0000:0000:0000:0000:FFFF:0A00:0001 10.0.0.1 V2 ens1\n"
        "mlx5_0 1 0 fe80::1 v1\nn_gids_found=2\n"
    )
    assert parse_show_gids(text) == (
        Gid(
            device="mlx5_0",
            port=1,
            index=3,
            gid="0000:0000:0000:0000:0000:ffff:0a00:0001",
            version=2,
            netdev="ens1",
            ipv4="10.0.0.1",
        ),
        Gid(device="mlx5_0", port=1, index=0, gid="fe80::1", version=1),
    )
    root = "/sys/class/infiniband/mlx5_0/ports/1"
    rows = (
        *(
            "gids/3:0000:0000:0000:0000:0000:FFFF:0A00:0001",
            "gid_attrs/types/3:RoCE v2",
            "gid_attrs/ndevs/3:ens1",
        ),
        *("gids/0:fe80::1", "gid_attrs/types/0:IB/RoCE v1", "gids/1:fe80::2", "gid_attrs/types/2:RoCE v2"),
        *(
            "gids/4:0000:0000:0000:0000:0000:0000:0000:0000",
            "gid_attrs/types/4:RoCE v2",
            "gids/5:x",
            "gid_attrs/types/5:v2",
        ),
    )
    found = parse_sysfs_gids("\n".join(f"{root}/{row}" for row in rows))
    assert found[:2] == parse_show_gids(text)[::-1]
    assert found[2:] == (Gid(device="mlx5_0", port=1, index=5, gid="x", version=2),)


def test_a_port_and_its_link() -> None:
    text = (
        "Settings for a:\n\tSupported link modes: 1000baseT/Full\n\t 25000baseCR/Full "
        "100000baseCR4\n\tb: 400000baseX\n"
    )
    assert parse_port_speed(f"{text}\tSpeed: 25000Mb/s\n") == PortSpeed(gbps=25, most_gbps=100)
    assert parse_port_speed("Settings for a:\n\tSpeed: Unknown!\n") == PortSpeed()
    rows = (
        "current_link_speed:16.0 GT/s PCIe",
        "current_link_width:8",
        "max_link_speed:32.0 GT/s",
        "max_link_width:16",
    )
    found = parse_pcie_link("\n".join(f"/sys/{row}" for row in rows))
    assert found == PcieLink(speed=16, width=8, most_speed=32, most_width=16)
    assert found.words == "PCIe 16 GT/s x8 of 32 GT/s x16"
    for width in ("0", "255", "1234", "x", "", "²"):
        assert parse_pcie_link(f"current_link_width:{width}\nmax_link_speed: Unknown\n") == PcieLink()


@pytest.mark.parametrize(
    ("link", "gbps", "words"),
    [
        (PcieLink(speed=5, width=2), 8.0, "PCIe 5 GT/s x2"),
        (PcieLink(speed=6, width=65), 384.0, "PCIe 6 GT/s x65"),
        (PcieLink(speed=40, width=1), 37.8125, "PCIe 40 GT/s x1"),
        (PcieLink(speed=64, width=4, most_speed=64, most_width=4), 242.0, "PCIe 64 GT/s x4"),
        (PcieLink(speed=8, width=8, most_width=16), 63.01538461538462, "PCIe 8 GT/s x8 of 0 GT/s x16"),
        (PcieLink(speed=8), None, "PCIe link not reported"),
        (PcieLink(width=8), None, "PCIe link not reported"),
    ],
)
def test_the_capacity_of_a_link(link: PcieLink, gbps: float | None, words: str) -> None:
    assert (link.gbps, link.words) == (gbps, words)


def test_firmware() -> None:
    text = (
        "\nDevice #1:\n-----\nDevice type: a\nName: N/A\nDescription: b c\nDevice: mt1\n"
        "Configurations: Default Current Next Boot\n"
        "* A True(1) False(0) N/A\nRO B[0..7] _256KB(1) 8 8\nThe '*' shows c\nThe 'RO' shows d\n"
        "Device Firmware does not support reading e\nFailed to query the f\n"
        "-E- g\nnot a parameter\nDevice #2:\nPCI device: mt2\nConfigurations: New\nC 0x1\n"
    )
    first, second = parse_all_firmware(text)
    assert first == FirmwareQuery(
        device="mt1",
        description="b c",
        parameters={
            "A": FirmwareValue(default="True", current="False"),
            "B[0..7]": FirmwareValue(default="_256KB", current="8", next_boot="8"),
        },
        is_partial=True,
    )
    assert second == FirmwareQuery(device="mt2", parameters={"C": FirmwareValue()})
    assert parse_firmware("Name: a\nConfigurations: Next Boot\nC 0x1(2)\n") == FirmwareQuery(
        name="a", parameters={"C": FirmwareValue(next_boot="0x1")}
    )


def test_devices_of_mst() -> None:
    text = (
        "MST modules:\nDEVICE_TYPE MST PCI RDMA\n------\nConnectX3(rev:1) mt4099_pci_cr0 0b:00.0\n"
        "ConnectX3(rev:1) mt4099_pciconf0 0b:00.0 a b\n----\nConnectX6 /dev/mst/mt4125_pciconf1 "
        "0001:3B:00.0\n"
        "ConnectX3 mt4099_pci_cr1 0B:00.0\n"
    )
    assert parse_mst_status(text) == (
        MstDevice(name="mt4099_pciconf0", pci_id="0000:0b:00.0"),
        MstDevice(name="/dev/mst/mt4125_pciconf1", pci_id="0001:3b:00.0"),
    )
    assert parse_mst_status("a\nPCI devices:\n") == parse_mst_status("MST devices\n") == ()


TABLE = "#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec] MsgRate[Mpps]\n"


def test_bandwidths() -> None:
    assert parse_bandwidth(f"1 2 3 9 5\n{TABLE}8 5 0 1.5 2\nwarning\n\t16 5 0.00 2.5 2.0 7\n") == Bandwidth(
        average_gbps=2.5
    )
    text = f"Couldn't a\n allocated GPU buffer b\n{TABLE}8 5 0 1.5 2\n"
    assert parse_bandwidth(text) == Bandwidth(average_gbps=1.5, used_gpu=True)
    for word in ("'--use_cuda=0'", ": use_cuda"):
        assert lacks_cuda(f"a unrecognized option{' ' if word[0] != ':' else ''}{word} b")
    assert lacks_cuda("b not supported CUDA")
    assert lacks_cuda("a Unsupported memory type")
    assert not lacks_cuda("unrecognized option '--report'")


def test_settings_of_a_port() -> None:
    text = (
        "DCBX mode: OS\nPriority trust state: dscp\nprio:0 dscp:07,06,123,\nprio:3 dscp:26\nprio:8 dscp:1\n"
        "PFC configuration:\n priority 0 1 2 3 4 5 6 7\n enabled 1 0 0 1 0 0 0 0\n enabled 0 1 0 0 0 0 0 0\n"
    )
    assert parse_qos(text) == PortQos(
        trust="dscp", protected=frozenset({0, 3}), priority_of={7: 0, 6: 0, 26: 3}
    )
    pfc = '{"prio_pfc": [false, false, false, true, false, false, false, false]}'
    assert parse_dcb(pfc, "{}") == PortQos(trust="pcp", protected=frozenset({3}), priority_of={})
    assert parse_dcb(pfc, '{"dscp_prio": [[26, 3], [1, 0]]}') == PortQos(
        trust="dscp", protected=frozenset({3}), priority_of={26: 3, 1: 0}
    )
    buffers = '{"prio_buffer": [0, 1, 0, 1, 0, 0, 0, 1], "buffer_size": [10, 20]}'
    assert [parse_dcb_buffers(buffers, at) for at in (0, 3)] == [
        (frozenset({2, 4, 5, 6}), 10),
        (frozenset({1, 7}), 20),
    ]
    assert [
        parse_traffic_class(text) for text in ("", "a\nGlobal tclass=106\n", "tclass=0", "tclass=-1")
    ] == [
        None,
        106,
        0,
        None,
    ]
    assert (parse_rate("100 Gb/sec (4X EDR)\n"), parse_rate("2.5 Gb/sec")) == (100, 2.5)


def test_counters() -> None:
    text = (
        "NIC statistics:\n     a[0]: 1\n     rx_prio3 b: 2\n  2c: 3\n     d: x\n     e: "
        "18446744073709551615\n"
    )
    assert parse_statistics(text) == {"a[0]": 1, "rx_prio3 b": 2, "e": 2**64 - 1}
    assert (
        parse_statistics("\n  no stats available\n")
        == parse_statistics("NIC statistics:\n")
        == parse_statistics("")
        == {}
    )
    root = "/sys/class/infiniband/a/ports/1/hw_counters"
    assert parse_hw_counters(f"{root}/b:1\n\n {root}/c:20 \n") == {"b": 1, "c": 20}
    assert risen({"a": 1, "b": 2, "c": 3, "d": 4}, {"a": 3, "b": 2, "c": 1, "e": 5}) == {"a": 2, "b": 0}
    assert sent_by_priority(
        {"tx_prio0_bytes": 1, "tx_prio7_bytes": 2, "tx_prio8_bytes": 3, "rx_prio1_bytes": 4}, "tx"
    ) == {
        0: 1,
        7: 2,
    }
    assert sent_by_priority({"rx_prio1_bytes": 4}, "rx") == {1: 4}
    assert (paused(3), pause_duration(3)) == (("rx_prio3_pause", "tx_prio3_pause"), "rx_prio3_pause_duration")
    assert dropped(3) == ("rx_discards_phy", "tx_discards_phy", "rx_prio3_discards", "rx_prio3_buf_discard")
