"""For every `raise` of the parsers a text that reaches it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from tests.unit.parsers.kernel_log import parse_kernel_log
from vgpu_cfg.parsers.allreduce import parse_nccl_tests, parse_probe
from vgpu_cfg.parsers.esxcli_xml import parse_records
from vgpu_cfg.parsers.frameworks import parse_mpirun, parse_nccl_settings, parse_torch
from vgpu_cfg.parsers.guest_system import (
    parse_active,
    parse_check_build,
    parse_interfaces,
    parse_lspci,
    parse_modules,
    parse_room,
    parse_time,
    parse_timedatectl,
    parse_tracking,
)
from vgpu_cfg.parsers.metrics import names_in_metrics, parse_up
from vgpu_cfg.parsers.nvidia.dcgm import parse_dcgm_health
from vgpu_cfg.parsers.nvidia.gpu_health import parse_health
from vgpu_cfg.parsers.nvidia.guest_gpus import parse_guest_query, parse_listed
from vgpu_cfg.parsers.nvidia.smi import (
    parse_gpu_csv,
    parse_mig_instances,
    parse_query,
    parse_vgpus,
)
from vgpu_cfg.parsers.nvidia.topology import Topology, distance, links_by_address, parse_topology
from vgpu_cfg.parsers.nvidia.tree import tree_of
from vgpu_cfg.parsers.rdma.devices import (
    parse_devinfo,
    parse_hw_counters,
    parse_pcie_link,
    parse_port_speed,
    parse_show_gids,
    parse_statistics,
    parse_sysfs_gids,
)
from vgpu_cfg.parsers.rdma.mlxconfig import parse_firmware, parse_mst_status
from vgpu_cfg.parsers.rdma.perftest import parse_bandwidth
from vgpu_cfg.parsers.rdma.settings import (
    parse_dcb,
    parse_dcb_buffers,
    parse_qos,
    parse_rate,
    parse_traffic_class,
)

Parse = Callable[[str], object]

LONG = "word " * 90
GPU = "Attached GPUs : 1\nGPU 00000000:36:00.0\n"
MLX = "Device #1:\nDevice: a\nConfigurations: Default Current Next Boot\n"
MST = "MST devices:\nDEVICE_TYPE MST PCI RDMA\n"
DCB = '{"prio_pfc": [true, false, true, false, true, false, true, false]}'
BUFFERS = '{"prio_buffer": [0,0,0,1,0,0,0,%s], "buffer_size": [%s]}'
PERFTEST = "#bytes #iterations BW peak[%s] BW average[%s] MsgRate[Mpps]\n"
RECORDS = partial(parse_records, "esxcli a b")
LIST = '<obj xsi:type="ArrayOfDataObject">%s</obj>'
UNNAMED = Topology(devices=("GPU0", "GPU1"), rows={})

REFUSED: tuple[tuple[Parse, tuple[str, ...]], ...] = (
    (
        parse_nccl_tests,
        (
            "a: Test NCCL failure b\nTest CUDA failure c\n",
            "[1,0]<stdout>: a: Test CUDA failure b\n",
            "a\n .. Test failure b\n",
            f"{LONG}end\n",
            "8 2 float sum 1 2 3 4\n16 2 float sum 1 2 x 4\n",
            "16 2 float sum 1 x x x x x x x\n",
        ),
    ),
    (
        parse_probe,
        (
            f"{LONG}end\n",
            "\nVGPU-CFG-ALLREDUCE 1\nVGPU-CFG-ALLREDUCE 2\n",
            "\na VGPU-CFG-ALLREDUCE []\n",
            'a VGPU-CFG-ALLREDUCE {"v": 2}',
            "\n\nVGPU-CFG-ALLREDUCE {",
            '\nVGPU-CFG-ALLREDUCE {"v": 1, "ranks": "x"}',
        ),
    ),
    (
        RECORDS,
        (
            LIST % "<DataObject/><Other/>",
            '<obj xsi:type="xsd:string">a</obj>',
            "<obj/>",
            '<!DOCTYPE a SYSTEM "b"><a/>',
            "<!ENTITY a>",
            "a",
            " ",
            "<?xml version='1.0'?>\n",
            "<a>",
            "<obj><a>1</a></obj><obj><a>1</a></obj>",
        ),
    ),
    (parse_torch, ("", f"{LONG}end", "torch 2.6\ncuda none\n", "torch 2.6\nnccl 1\ndistributed yes\n")),
    (parse_mpirun, ("", "bash: mpirun: command not found\n", f"first {LONG}")),
    (
        parse_nccl_settings,
        (
            "NCCL_A=1",
            "export A=1\nexport NCCL_A=a b",
            "export NCCL_A='a",
            "export NCCL_A= ",
            "export NCCL_A=a # b c",
            f" {LONG}",
        ),
    ),
    (parse_modules, ("", "nvidia 1 2\n", "\nModules a\nb c\n")),
    (parse_interfaces, ("", "{", "1", '[{"a": 1}]', '[{"ifname": 1}]', "[1]", "[" * 9000, f"first {LONG}")),
    (parse_active, ("", "System has not been booted\n", LONG)),
    (parse_check_build, ("", "bash: horovodrun: command not found\n", f"{LONG}end")),
    (parse_time, ("", "1764316800,5\n", "17643168001234\n", f"first {LONG}")),
    (parse_tracking, ("", "506 Cannot talk to daemon\n", "\nReference ID : 1 (a)\nStratum : 2\n")),
    (parse_timedatectl, ("", "NTPSynchronized\nNTP=yes\n", f"first {LONG}")),
    (parse_room, ("", "df: /a: No such file or directory\n", f"first {LONG}")),
    (parse_kernel_log, ("", "\ndmesg: read kernel buffer failed: Operation not permitted\n")),
)
"""Parsers of a guest's own tools, with texts that each one refuses."""

DEVICES: tuple[tuple[Parse, tuple[str, ...]], ...] = (
    (parse_lspci, ("\nlspci: Unknown option\n", "pcilib: a\n", "\n  Control: a\n", "\nx0:00.0 A: b\n")),
    (names_in_metrics, ("", "# HELP a\n", f"- first {LONG}")),
    (parse_up, ("", "{", "[]", '{"data": {}}', '{"data": {"result": [{"metric": {}, "value": []}]}}')),
    (parse_up, ('{"data": {"result": [{"metric": {"instance": 1}, "value": [1]}]}}', f"first {LONG}")),
    (parse_health, ("", "NVIDIA-SMI has failed because it cannot talk\n", "Timestamp : a\n")),
    (
        parse_guest_query,
        (
            "No devices were found\n",
            f"{GPU}    FB Memory Usage\n        Total : many MiB\n",
            f"{GPU}    vGPU Software Licensed Product\n"
            "        License Status : Licensed (Expiry: 2022-13-23 5:2:12 GMT)\n",
        ),
    ),
    (parse_listed, ("", "No devices found.\n", "a\nb\n", "greeting\n\n a NVIDIA-SMI has failed b\nend\n")),
    (
        parse_query,
        (
            "\nNo devices were found\n",
            "\nUnable to determine a\n",
            "\n\nTimestamp : a\n",
            f"{GPU}GPU 00000000:36:00.0\n",
            "Timestamp : a\nGPU 36\n",
            "Attached GPUs : 1\nGPU 00000000:36:00.0\nGPU 00000000:37:00.0\n",
            f"{GPU}    MIG Mode\n        Current : Perhaps\n",
            "GPU 36\n",
            f"{GPU}    Module ID : 0xg\n",
            "Attached GPUs : one\nGPU 00000000:36:00.0\n",
        ),
    ),
    (lambda text: tree_of("a tool", text).switch("a tool", "A"), ("\nA : Perhaps\n", "A : 1")),
    (
        parse_gpu_csv,
        (
            "",
            "Field a is not a valid field to query.\n",
            'a, b\n"c, d\n',
            "a, a\nb, c\n",
            "\na,\n1, 2\n",
            "a, b\n\n1, 2, 3\n",
            "pci.bus_id\n36\n",
            'a, b\n"c\nd", e\n',
        ),
    ),
    (
        parse_vgpus,
        (
            f"{GPU}    Active vGPUs : 2\n    vGPU ID : 1\n",
            f"\n{GPU}    vGPU ID : 1\n",
            "Insufficient Permissions\n",
        ),
    ),
    (
        parse_mig_instances,
        (
            "",
            "ERROR: a\n",
            "\n+-----+\n| |\n",
            "+-----+\n\n| 0 MIG a 1 2 |\n",
            f"| 0 MIG a 1 2 {'1' * 19}:1 |",
            "| ² MIG a 1 2 1:1 |",
        ),
    ),
)
"""Parsers of lspci, of metrics, and of NVIDIA's tools."""

NETWORK: tuple[tuple[Parse, tuple[str, ...]], ...] = (
    (
        parse_topology,
        (
            "",
            "Failed to a\n",
            "\n\nfirst\nsecond\n",
            "\n\tGPU0\tGPU1\tColour\n",
            "\tGPU0\tGPU0\n",
            "\tGPU0\tGPU1\nGPU0 X NV1\nGPU0 X NV1\n",
            "\tGPU0\tGPU1\n\nGPU0 X NV1\n",
            "\tGPU0\tGPU1\nGPU0 X NV1\nGPU2 X NV1\n",
            "\tGPU0\tGPU1\nGPU0 X\n",
            "\tGPU0\tGPU1\nGPU0 X NVX\n",
            "\tGPU0\tGPU1\nGPU0 NV1 X\n",
        ),
    ),
    (lambda text: links_by_address(UNNAMED, {"GPU1": text}), ("", "0000:36:00.0")),
    (distance, ("SOC", "NV1x", "N/A")),
    (parse_statistics, ("Cannot get stats strings\n\nlast line\n", "\nno such a\n")),
    (parse_hw_counters, ("a\n", "\n/sys/class/infiniband/a/ports/1/hw_counters/b:c\n")),
    (
        parse_devinfo,
        ("", "\nfw_ver: 1\n", "\na\n", "hca_id: a\n\nport: x\n", "hca_id: a\nport: 1\nactive_mtu: x (5)\n"),
    ),
    (parse_devinfo, ("hca_id: a\nvendor_part_id: x\n",)),
    (
        parse_show_gids,
        (
            "\na 1 2 fe80::1 1.2.3.4\n",
            "a v2\n",
            "a 1 2 fe80::1 1.2.3.4 v2 b c\n",
            "a x 2 fe80::1 v2\n",
            "a 1 x fe80::1 v2\n",
        ),
    ),
    (parse_sysfs_gids, ("\nfirst\nsecond\n", "/sys/class/infiniband/a/ports/1/other/1:a\n")),
    (parse_port_speed, ("", "\nnetlink error: No such device\n")),
    (parse_pcie_link, ("\ngrep: a\nb\n", "/a/other_link_speed:1\n")),
    (
        parse_firmware,
        (
            "",
            "Device #1:\nDevice: a\nConfigurations: Default\nA 1\nDevice #2:\nConfigurations: Default\nA 1\n",
            "\n-E- Failed to open the device\n",
            f"{MLX}A 1 2 3\n\nA 1 2 3\n",
            f"\n{MLX}",
            "Device #1:\nColour: a\n",
            "\nConfigurations: Default Default\n",
            "Configurations:\n",
            "Configurations: Default Other\n",
            f"{MLX}A 1 2\n",
            f"{MLX}- 1 2 3\n",
            "Configurations: Current\nA 1 2\n",
        ),
    ),
    (
        parse_mst_status,
        (
            "",
            "a\nb\n",
            "\n-E- No devices\n",
            f"{MST}-E- a\n",
            f"{MST}\nA mt4125_pciconf0 36:00\n",
            f"{MST}A mt4125_pciconf0 36:0.0\n",
        ),
    ),
    (
        parse_bandwidth,
        (
            "",
            "first\nlast\n",
            "a\n\n  Couldn't connect to b\nUnable to c\n",
            "Device not recognized to implement inline feature\nlast\n",
            "Device not recognized to implement inline feature\nPort number 2\n",
            PERFTEST % ("MB/sec", "MB/sec"),
            f"{PERFTEST % ('Gb/sec', 'Gb/sec')}1 2 3 4\n",
            f"1 2 3 4 5\n{PERFTEST % ('Gb/sec', 'Gb/sec')}1 2 3 ² 5\n",
        ),
    ),
    (
        parse_qos,
        (
            "",
            "Netdevice a\n\nlast line\n",
            "Traceback\nErrorName: a\n",
            "Error: a\n",
            "usage: a\n",
            "Interface a\n",
            "\nPriority trust state: dscp\n",
            "enabled 0 0 0 1 0 0 0 0\n",
            "Priority trust state:\nenabled 0 0 0 1 0 0 0 0\n",
        ),
    ),
    (
        lambda text: parse_dcb(text, "{}"),
        ("", "[" * 9000, "[]", "{}", '{"prio_pfc": [true]}', DCB.replace("true", "1"), f"first {LONG}"),
    ),
    (
        lambda text: parse_dcb(DCB, text),
        ('{"dscp_prio": 1}', '{"dscp_prio": [[1]]}', '{"dscp_prio": [[true, 1]]}', '{"dscp_prio": [1]}'),
    ),
    (
        lambda text: parse_dcb_buffers(text, 3),
        (
            '{"prio_buffer": [1]}',
            '{"prio_buffer": [1], "buffer_size": [1, 2]}',
            BUFFERS % ("0", "1"),
            BUFFERS % ('"a"', "1, 2"),
            BUFFERS % ("0", "1, true"),
            (BUFFERS % ("0", "1, 2")).replace("1,0,", "-1,0,"),
        ),
    ),
    (parse_traffic_class, ("\n a \nb\n", "tclass=x")),
    (parse_rate, ("", "100 Mb/sec\n", "first 100 Gb/sec\nlast", f"first {LONG}")),
    (parse_dcgm_health, ("", "{}", '{"body": {"Overall Health": {}}}', "Error: no host engine")),
)
"""Parsers of topologies, RDMA devices and their settings."""

ALL = (*REFUSED, *DEVICES, *NETWORK)
