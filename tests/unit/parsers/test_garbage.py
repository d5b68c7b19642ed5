"""Whatever is printed, a parser answers with values or with UnreadableOutput, and with nothing else."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.parsers.kernel_log import parse_kernel_log
from tests.unit.parsers.printed import OUTPUTS, printed
from vgpu_cfg.parsers.allreduce import parse_nccl_tests, parse_probe, transports
from vgpu_cfg.parsers.esxcli_xml import parse_records
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
from vgpu_cfg.parsers.metrics import gpus_in_metrics, names_in_metrics, parse_up
from vgpu_cfg.parsers.nvidia.gpu_health import parse_health
from vgpu_cfg.parsers.nvidia.guest_gpus import parse_guest_query, parse_listed
from vgpu_cfg.parsers.nvidia.smi import (
    parse_gpu_csv,
    parse_lanes,
    parse_mig_instances,
    parse_query,
    parse_query_leniently,
    parse_vgpus,
)
from vgpu_cfg.parsers.nvidia.topology import parse_topology
from vgpu_cfg.parsers.rdma.devices import (
    parse_devinfo,
    parse_hw_counters,
    parse_pcie_link,
    parse_port_speed,
    parse_show_gids,
    parse_statistics,
    parse_sysfs_gids,
)
from vgpu_cfg.parsers.rdma.mlxconfig import parse_all_firmware, parse_firmware, parse_mst_status
from vgpu_cfg.parsers.rdma.perftest import parse_bandwidth
from vgpu_cfg.parsers.rdma.settings import (
    parse_dcb,
    parse_dcb_buffers,
    parse_qos,
    parse_rate,
    parse_traffic_class,
)
from vgpu_cfg.parsers.text import UnreadableOutput

PARSERS: tuple[Callable[[str], object], ...] = (
    parse_all_firmware,
    parse_firmware,
    parse_gpu_csv,
    parse_mig_instances,
    parse_mst_status,
    parse_query,
    parse_query_leniently,
    parse_topology,
    parse_vgpus,
    parse_active,
    parse_bandwidth,
    parse_check_build,
    parse_devinfo,
    parse_guest_query,
    parse_interfaces,
    parse_listed,
    parse_lspci,
    parse_modules,
    parse_nccl_tests,
    parse_probe,
    parse_qos,
    parse_rate,
    parse_show_gids,
    parse_sysfs_gids,
    parse_traffic_class,
    parse_hw_counters,
    parse_statistics,
    lambda text: parse_dcb(text, text),
    lambda text: parse_dcb_buffers(text, 3),
    parse_health,
    parse_lanes,
    parse_kernel_log,
    parse_pcie_link,
    parse_port_speed,
    parse_room,
    parse_time,
    parse_timedatectl,
    parse_tracking,
    parse_up,
    gpus_in_metrics,
    names_in_metrics,
    transports,
    lambda text: parse_records("esxcli", text),
)
NAMES = sorted(path.name for path in OUTPUTS.iterdir() if path.suffix in (".txt", ".xml"))
# Pieces that the formats are made of, so that garbage gets past the first line.
PIECES = st.sampled_from(
    (
        *("GPU 00000000:36:00.0", " : ", "\n", "    ", "|", "MIG 1g.5gb", "---", "X", "NV12", "GPU0", "\t"),
        *(
            "Configurations:",
            "Default",
            "Next Boot",
            "True(1)",
            "-E- ",
            "²",
            "0x",
            "9" * 30,
            "DEVICE_TYPE MST PCI",
        ),
        *("hca_id: mlx5_0", "port: 1", "state: PORT_ACTIVE (4)", "VGPU-CFG-ALLREDUCE ", "0b:00.0 A: B"),
        *("ATSCtl: Enable+", "#bytes #iterations BW peak[Gb/sec] BW average[Gb/sec]", "1 2 3 4 5", "v2"),
        *("<obj>", "</obj>", "&lt;", '"', ",", "\x1b[4m", "\r", "\0"),
        *("Active vGPUs : 1", "vGPU ID : ²", "Attached GPUs : 1"),
    )
)
GARBAGE = st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=30).map("".join))


def read(parse: Callable[[str], object], text: str) -> None:
    with contextlib.suppress(UnreadableOutput):
        parse(text)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("parse", PARSERS)
@settings(max_examples=60)
@given(GARBAGE)
def test_garbage(parse: Callable[[str], object], text: str) -> None:
    read(parse, text)


@pytest.mark.parametrize("name", NAMES)
def test_the_output_of_another_tool(name: str) -> None:
    for parse in PARSERS:
        read(parse, printed(name))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", NAMES)
@settings(max_examples=20)
@given(st.data())
def test_an_output_that_was_cut_or_damaged(name: str, data: st.DataObject) -> None:
    text = printed(name)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 12)))
    damaged = text[:start] + data.draw(st.text(max_size=4)) + text[end:]
    for parse in PARSERS:
        read(parse, damaged)
        read(parse, text[:end])
