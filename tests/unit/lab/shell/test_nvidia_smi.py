"""nvidia-smi: its report, its tables, and the modes that it sets."""

from __future__ import annotations

import pytest

from tests.unit.lab.shell.logged_in import GPU_0, GPU_1, Desk
from vgpu_cfg.lab.state.host import HostDriver
from vgpu_cfg.lab.state.host_defaults import restart
from vgpu_cfg.parsers.nvidia.gpu_health import parse_health
from vgpu_cfg.parsers.nvidia.smi import parse_query

CSV = "nvidia-smi --query-gpu={} --format={}"


def drive(desk: Desk, version: str) -> None:
    """Give the host another driver."""
    desk.esx.driver = HostDriver("nvd-aie", version)


def section(text: str, bus_id: str, *names: str) -> str:
    """Return the value of a line of the report, by the headings above it."""
    part = text.split(f"GPU {bus_id}\n")[1].split("\nGPU ", maxsplit=1)[0]
    *headings, last = names
    at = 0
    for depth, heading in enumerate(headings, start=1):
        at = part.index(f"{'    ' * depth}{heading}\n", at)
    line = next(line for line in part[at:].splitlines() if line.strip().startswith(f"{last} "))
    return line.split(" : ", 1)[1]


def test_the_report_has_its_colons_in_one_column(desk: Desk) -> None:
    drive(desk, "550.127.06")
    lines = desk.lines("nvidia-smi -q")
    assert lines[:6] == [
        "",
        "==============NVSMI LOG==============",
        "",
        "Timestamp                                 : Mon Jan  5 08:00:00 2026",
        "Driver Version                            : 550.127.06",
        "CUDA Version                              : Not Found",
    ]
    assert "Attached GPUs                             : 2" in lines
    assert "    MIG Mode" in lines
    assert "        Current                           : Disabled" in lines
    assert {line.index(" : ") for line in lines if " : " in line} == {41}


@pytest.mark.parametrize(
    ("driver", "column", "place"),
    [
        ("550.127.06", 41, ("Module ID",)),
        ("565.57.01", 41, ("Platform Info", "Module Id")),
        ("580.105.06", 41, ("Platform Info", "Module Id")),
        ("580.126.08", 54, ("Platform Info", "Module Id")),
    ],
)
def test_where_a_module_stands_goes_with_the_driver(
    desk: Desk, driver: str, column: int, place: tuple[str, ...]
) -> None:
    drive(desk, driver)
    desk.gpu().module_id = 7
    text = desk.tell("nvidia-smi -q")
    assert {line.index(" : ") for line in text.splitlines() if " : " in line} == {column}
    assert section(text, "00000000:21:00.0", *place) == "7"
    assert [gpu.module_id for gpu in parse_query(text).gpus] == [7, 1]


# Public reports of each version: fields in their order, and fields that only others have.
RESET = "Reset Required; Drain and Reset Recommended"
ROUTES = "Route Recovery in progress; Route Unhealthy; Access Timeout Recovery"
OF_580 = "GPU PDI; Clocks Event Reasons Counters; Channel Repair Pending; Summary; Incorrect Configuration"
ORDER = {
    "535.247.01": (
        f"Module ID; GSP Firmware Version; Virtualization Mode; {RESET}; IBMNPU; Gpu; Voltage; Fabric",
        f"Platform Info; GPU Recovery Action; GPU C2C Mode; Health; Average Power Draw; {OF_580}",
    ),
    "550.90.12": (
        f"Module ID; GPU C2C Mode; vGPU Heterogeneous Mode; {RESET}; GSP Firmware Version; Base Classcode; "
        "Gpu; GPU Memory Power Readings; Voltage; CliqueId; Health; Bandwidth; Processes",
        f"Platform Info; GPU Recovery Action; Capabilities; {ROUTES}; {OF_580}",
    ),
    "570.124.06": (
        f"Platform Info; Module Id; {RESET}; GPU Recovery Action; GSP Firmware Version; GPU; "
        f"DRAM Encryption Mode; Average Power Draw; Power Smoothing; Voltage; Bandwidth; {ROUTES}; "
        "Processes; Capabilities",
        f"Module ID; Gpu; Power Draw; Display Attached; {OF_580}",
    ),
    "580.119.02": (
        "Display Attached; GPU PDI; GPU Recovery Action; Clocks Event Reasons Counters; ECC Errors; "
        f"Channel Repair Pending; TPC Repair Pending; Retired Pages; Summary; Bandwidth; {ROUTES}; "
        "Incorrect Configuration; Processes; Capabilities",
        f"{RESET}; Voltage; Unrepairable Memory; Partition Assigned; EDPp Multiplier",
    ),
    "595.71.05": (
        "Display Attached; GPU Recovery Action; TPC Repair Pending; Unrepairable Memory; "
        "Workload Power Profiles; EDPp Multiplier; Incorrect Configuration; Partition Assigned",
        f"{RESET}; Voltage; Module ID",
    ),
}


@pytest.mark.parametrize("driver", ORDER)
def test_each_driver_prints_its_own_fields(desk: Desk, driver: str) -> None:
    drive(desk, driver)
    block = desk.tell("nvidia-smi -q -i 0").split("\nGPU 00000000:21:00.0\n")[1]
    names = [line.split(" : ")[0].strip() for line in block.splitlines()]
    present, absent = (part.split("; ") for part in ORDER[driver])
    rest = iter(names)
    assert [name for name in present if name not in rest] == []
    assert set(absent) & set(names) == set()


@pytest.mark.parametrize(
    ("driver", "path", "value", "trouble"),
    [
        ("550.90.12", "GPU Reset Status/Reset Required", "Yes", "GPU reset required"),
        ("570.124.06", "GPU Reset Status/Reset Required", "Yes", "GPU reset required"),
        ("580.126.08", "GPU Reset Status/Reset Required", "Yes", ""),
        ("550.90.12", "GPU Recovery Action", "Reset", ""),
        (
            "570.124.06",
            "GPU Recovery Action",
            "Drain and Reset",
            "the driver requests a recovery action: Drain and Reset",
        ),
        ("595.71.05", "GPU Recovery Action", "Reboot", "the driver requests a recovery action: Reboot"),
        ("570.124.06", "Fabric/Health/Route Unhealthy", "True", "NVSwitch fabric: Route Unhealthy True"),
        ("535.247.01", "Fabric/Health/Route Unhealthy", "True", ""),
        ("595.71.05", "ECC Errors/Unrepairable Memory", "Yes", "unrepairable memory"),
        (
            "535.247.01",
            "Fan Speed",
            "System is not in ready state",
            "System is not in ready state (Fan Speed)",
        ),
    ],
)
def test_a_fault_is_read_where_its_driver_prints_it(
    desk: Desk, driver: str, path: str, value: str, trouble: str
) -> None:
    drive(desk, driver)
    desk.gpu().health[path] = value
    unsound, sound = parse_health(desk.tell("nvidia-smi -q"))
    assert unsound.troubles == ((trouble,) if trouble else ())
    assert (sound.troubles, sound.is_told) == ((), True)


def test_the_report_tells_of_each_gpu(desk: Desk) -> None:
    text = desk.tell("nvidia-smi -q")
    assert section(text, "00000000:21:00.0", "PCI", "Device Id") == "0x20F110DE"
    assert section(text, "00000000:E2:00.0", "GPU Virtualization Mode", "Host VGPU Mode") == "SR-IOV"
    assert section(text, "00000000:E2:00.0", "ECC Mode", "Pending") == "Enabled"


def test_a_gpu_that_serves_no_vgpus_says_so(desk: Desk) -> None:
    desk.gpu().graphics_type = "shared"
    text = desk.tell("nvidia-smi -q")
    assert section(text, "00000000:21:00.0", "GPU Virtualization Mode", "Virtualization Mode") == "None"
    assert section(text, "00000000:E2:00.0", "GPU Virtualization Mode", "Virtualization Mode") == "Host VGPU"


@pytest.mark.parametrize("name", ["1", GPU_1, "00000000:E2:00.0", "e2:00.0"])
def test_a_gpu_is_chosen_by_number_or_address(desk: Desk, name: str) -> None:
    assert [line for line in desk.lines(f"nvidia-smi -q -i {name}") if line.startswith("GPU 0")] == [
        "GPU 00000000:E2:00.0"
    ]


@pytest.mark.parametrize("name", ["2", "0000:ff:00.0", "nonsense", "0,7"])
def test_a_gpu_that_is_not_there_is_not_found(desk: Desk, name: str) -> None:
    assert desk.run_line(f"nvidia-smi -i {name} -q") == (6, "No devices were found\n", "")


def test_a_gpu_that_is_passed_through_is_not_there(desk: Desk) -> None:
    desk.pass_through(GPU_0)
    assert desk.tell(CSV.format("index,pci.bus_id", "csv,noheader")) == "0, 00000000:E2:00.0\n"


def test_without_a_gpu_there_is_no_driver_to_talk_to(desk: Desk) -> None:
    desk.pass_through(GPU_0)
    desk.pass_through(GPU_1)
    status, out, err = desk.run_line("nvidia-smi -q")
    assert (status, err) == (9, "")
    assert out.startswith("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.")


def test_the_graphics_driver_has_no_compute_boards(desk: Desk) -> None:
    desk.esx.driver = HostDriver(kind="vgpu")
    assert desk.run_line("nvidia-smi")[0] == 9
    desk.gpu().board = "L40S"
    assert len(desk.lines("nvidia-smi -L")) == 1


def test_fields_come_as_csv(desk: Desk) -> None:
    assert desk.tell(CSV.format("pci.bus_id,mig.mode.current,mig.mode.pending,memory.total", "csv")) == (
        "pci.bus_id, mig.mode.current, mig.mode.pending, memory.total [MiB]\n"
        "00000000:21:00.0, Disabled, Disabled, 40960 MiB\n"
        "00000000:E2:00.0, Disabled, Disabled, 40960 MiB\n"
    )
    assert (
        desk.tell("nvidia-smi -i 1 --query-gpu=index,memory.used --format=csv,noheader,nounits") == "1, 0\n"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (CSV.format("nonsense", "csv"), 'Field "nonsense" is not a valid field to query.'),
        (CSV.format("index", "json"), '"--format=" has to contain "csv".'),
        ("nvidia-smi -i", "Invalid combination of input arguments."),
        ("nvidia-smi --nonsense", "Invalid combination of input arguments."),
        ("nvidia-smi vgpu -s -lgip", "Invalid combination of input arguments."),
        ("nvidia-smi mig -q", "Invalid combination of input arguments."),
        ("nvidia-smi -i 0 -mig 2", "Invalid combination of input arguments."),
    ],
)
def test_bad_arguments_are_refused(desk: Desk, line: str, said: str) -> None:
    status, out, _ = desk.run_line(line)
    assert status == 2
    assert out.startswith(said)


def test_the_summary_has_a_row_of_three_lines_per_gpu(desk: Desk) -> None:
    lines = desk.lines("nvidia-smi")
    framed = [line for line in lines if line.startswith(("|", "+"))]
    assert {len(line) for line in framed} == {79}
    assert "|   1  NVIDIA A100 PCI...  On   | 00000000:E2:00.0 Off |                    0 |" in lines
    assert "|                               |                      |             Disabled |" in lines


def test_gpus_are_listed_with_their_uuids(desk: Desk) -> None:
    first, second = desk.lines("nvidia-smi -L")
    assert first.startswith("GPU 0: NVIDIA A100 PCIe 40GB (UUID: GPU-")
    uuid = second.rpartition("UUID: ")[2].rstrip(")")
    assert desk.tell(f"nvidia-smi -i {uuid} --query-gpu=index --format=csv,noheader") == "1\n"


def test_the_matrix_tells_links_and_nodes(desk: Desk) -> None:
    assert desk.lines("nvidia-smi topo -m")[:4] == [
        "\tGPU0\tGPU1\tNIC0\tNIC1\tNIC2\tNIC3\tCPU Affinity\tNUMA Affinity\tGPU NUMA ID",
        "GPU0\t X \tSYS\tNODE\tNODE\tNODE\tSYS\t0-63\t0\tN/A",
        "GPU1\tSYS\t X \tSYS\tSYS\tSYS\tNODE\t64-127\t1\tN/A",
        "NIC0\tNODE\tSYS\t X \tPIX\tNODE\tSYS\t\t\t",
    ]


def test_the_matrix_shows_nvlink(desk: Desk) -> None:
    desk.gpu(GPU_0).nvlink_peers, desk.gpu(GPU_1).nvlink_peers = (GPU_1,), (GPU_0,)
    assert desk.lines("nvidia-smi topo -m")[1].split("\t")[2] == "NV12"


class TestMigMode:
    def test_an_a100_waits_for_a_reboot(self, desk: Desk) -> None:
        assert desk.lines("nvidia-smi -i 0 -mig 1") == [
            "Warning: MIG mode is in pending enable state for GPU 00000000:21:00.0:Not Supported",
            "Reboot the system or try nvidia-smi --gpu-reset "
            "to make MIG mode effective on GPU 00000000:21:00.0",
            "All done.",
        ]
        assert (desk.gpu().mig_enabled, desk.gpu().mig_pending) == (False, True)
        assert not desk.gpu(GPU_1).mig_pending
        assert section(desk.tell("nvidia-smi -q"), "00000000:21:00.0", "MIG Mode", "Pending") == "Enabled"
        restart(desk.esx, cold=False)
        assert section(desk.tell("nvidia-smi -q"), "00000000:21:00.0", "MIG Mode", "Current") == "Enabled"

    def test_what_is_so_already_is_confirmed(self, desk: Desk) -> None:
        assert desk.lines("nvidia-smi -i 0 -mig 0") == [
            "Disabled MIG Mode for GPU 00000000:21:00.0",
            "All done.",
        ]

    def test_what_waited_is_taken_back(self, desk: Desk) -> None:
        desk.tell("nvidia-smi -i 0 -mig 1")
        desk.tell("nvidia-smi -i 0 -mig 0")
        assert not desk.gpu().mig_pending

    def test_an_h100_takes_it_at_once(self) -> None:
        desk = Desk("hgx-h100")
        (line, _) = desk.lines("nvidia-smi -i 0 -mig 1")
        assert line.startswith("Enabled MIG Mode for GPU 00000000:")
        assert desk.esx.gpus[0].mig_enabled
        restart(desk.esx, cold=False)
        assert not desk.esx.gpus[0].mig_enabled

    def test_a_gpu_in_use_keeps_waiting(self) -> None:
        desk = Desk()
        desk.running("busy", "grid_a100-40c")
        pci_id = desk.gpu_of(desk.vm("busy"))[0]
        out = desk.tell(f"nvidia-smi -i {pci_id} -mig 1")
        assert ":In use by another client\n" in out
        assert "Please first kill all processes" in out
        assert (desk.gpu(pci_id).mig_enabled, desk.gpu(pci_id).mig_pending) == (False, True)

    def test_a_board_without_mig_is_left_alone(self) -> None:
        desk = Desk("bare")
        host = next(host for host in desk.lab.state.all(type(desk.esx)) if host.name == "esx-r12-03.lab")
        gpu = host.gpus[0]
        desk.esx.gpus, desk.esx.driver = [gpu], Desk().esx.driver
        assert desk.lines("nvidia-smi -mig 1") == [
            "Unable to enable MIG Mode for GPU 00000000:21:00.0: Not Supported",
            "Treating as warning and moving on.",
            "All done.",
        ]
        assert not gpu.mig_pending
        assert section(desk.tell("nvidia-smi -q"), "00000000:21:00.0", "MIG Mode", "Current") == "N/A"
        assert desk.run_line("nvidia-smi mig -lgip") == (6, "No MIG-supported devices found.\n", "")


class TestEcc:
    def test_it_waits_for_a_reboot(self, desk: Desk) -> None:
        assert desk.lines("nvidia-smi -i 1 -e 0") == [
            "Disabled ECC support for GPU 00000000:E2:00.0.",
            "All done.",
            "Reboot required.",
        ]
        assert (desk.gpu(GPU_1).ecc_enabled, desk.gpu(GPU_1).ecc_pending) == (True, False)
        restart(desk.esx, cold=False)
        assert desk.tell("nvidia-smi -i 1 --query-gpu=ecc.mode.current --format=csv,noheader") == "Disabled\n"

    def test_what_is_so_already_needs_none(self, desk: Desk) -> None:
        assert desk.lines("nvidia-smi -i 1 -e 1") == [
            "Enabled ECC support for GPU 00000000:E2:00.0.",
            "All done.",
        ]
