"""Whole answers of parsers for lines that no stored output has: edges, units, and what is left out."""

from __future__ import annotations

import pytest

from tests.unit.parsers.kernel_log import parse_kernel_log
from vgpu_cfg.parsers.allreduce import AllReduce, is_direct, parse_nccl_tests, parse_probe, transports
from vgpu_cfg.parsers.esxcli_xml import parse_records
from vgpu_cfg.parsers.frameworks import Mpi, NcclSettings, parse_mpirun, parse_nccl_settings
from vgpu_cfg.parsers.guest_system import (
    PciFunction,
    Room,
    Tracking,
    bus_of,
    is_read_only,
    parse_guest_work,
    parse_interfaces,
    parse_lspci,
    parse_room,
    parse_timedatectl,
    parse_tracking,
)
from vgpu_cfg.parsers.metrics import gpus_in_metrics, names_in_metrics, parse_up
from vgpu_cfg.parsers.nvidia.gpu_health import parse_health
from vgpu_cfg.parsers.nvidia.tree import tree_of

XID = "NVRM: Xid (PCI:0000:3b:00): "


def nccl(row: str, rest: str = "") -> tuple[object, ...]:
    found = parse_nccl_tests(f"#  Rank  0 a\n#  Rank 12 b\n{rest}8 2 float sum 9 9 9 9\n{row}\n")
    return found.by, found.ranks, found.size_bytes, found.busbw_gigabytes, found.is_exact, found.is_on_gpu


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (nccl("16 4 float sum 1 2 3.5 0"), ("nccl-tests", 2, 16, 3.5, None, True)),
        (nccl("16 4 float sum 0 1 2 3.5 0 5 6 7.5 0"), ("nccl-tests", 2, 16, 3.5, None, True)),
        (nccl("16 4 float sum 0 1 2 x 0 5 6 7.5 0"), ("nccl-tests", 2, 16, 7.5, None, True)),
        (
            nccl("16 4 f sum 1 2 3.5 0", "# Out of bounds values : 0 OK\n"),
            ("nccl-tests", 2, 16, 3.5, True, True),
        ),
        (
            nccl("16 4 f sum 1 2 3 0", "# Out of bounds values : 1 OK\n"),
            ("nccl-tests", 2, 16, 3.0, False, True),
        ),
        (
            nccl("16 4 f sum 1 2 3 0", "#Out of bounds values: 0 FAILED\n"),
            ("nccl-tests", 2, 16, 3.0, False, True),
        ),
        (
            nccl("[1,0]<stdout>:16 4 f sum 1 2 3 0", "a Test failure b\n"),
            ("nccl-tests", 2, 16, 3.0, None, True),
        ),
        (
            parse_probe('x VGPU-CFG-ALLREDUCE {"v": 1, "ranks": 2, "size_bytes": 8, "busbw_gigabytes": 1.5}'),
            AllReduce(by="horovod", ranks=2, size_bytes=8, busbw_gigabytes=1.5),
        ),
        (transports("a\n"), frozenset()),
        (
            transports(
                "NCCL INFO Channel 0 : 0 -> 1 via P2P/IPC\nNCCL INFO Channel 1/0 : a via NET/IB/12/GDRDMA\n"
            ),
            {"P2P/IPC", "NET/IB/GDRDMA"},
        ),
        (is_direct("NCCL INFO Channel 0 : 0 -> 1 via SHM/direct"), None),
        (is_direct("NCCL INFO Channel 0 : 0 -> 1 [send] via NET/IB/0"), False),
        (
            is_direct("NCCL INFO Channel 0 : 0 -> 1 via NET/IB/0/GDRDMA\nNCCL INFO Channel 1 : via P2P/a"),
            True,
        ),
        (
            is_direct(
                "NCCL INFO Channel 0 : 0 -> 1 [send] via NET/IB/0\n"
                "NCCL INFO Channel 0 : 1 -> 0 [receive] via NET/IB/0/GDRDMA\n"
            ),
            True,
        ),
        (
            is_direct(
                "NCCL INFO Channel 0 : 1 -> 0 [receive] via NET/IB/0/GDRDMA\n"
                "NCCL INFO Channel 1 : 1 -> 0 [receive] via NET/IB/1\n"
            ),
            False,
        ),
    ],
)
def test_an_allreduce(found: object, expected: object) -> None:
    assert found == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("warning\nmpirun (Open MPI) 4.1.4rc1 b\n", Mpi("Open MPI", "4.1.4rc1")),
        ("a HYDRA b Intel(R) MPI", Mpi("MPICH", "")),
        ("mpiexec\nIntel(R) MPI Library\n", Mpi("Intel MPI", "")),
    ],
)
def test_whose_mpirun_it_is(text: str, expected: Mpi) -> None:
    found = parse_mpirun(text)
    assert (found, found.is_open_mpi) == (expected, expected.name == "Open MPI")


def test_settings_of_nccl_and_why_some_are_left_out() -> None:
    text = (
        "# a comment\n# NCCL_A: no NIC\n\n  \nexport NCCL_B='a b'\nexport NCCL_C=\nexport "
        "NCCL_D=''\nexport E1=x\n"
    )
    assert parse_nccl_settings(text) == NcclSettings(
        variables={"NCCL_B": "a b", "NCCL_C": "", "NCCL_D": "", "E1": "x"}, remarks={"NCCL_A": "no NIC"}
    )


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("<obj><A> 1 </A><B><C>2</C><D/></B><A>3</A></obj>", ({"A": "1, 3", "B.C": "2", "B.D": ""},)),
        ('<obj xsi:type="ArrayOfDataObject"/>', ()),
        (
            "<obj><DataObject><A>1</A></DataObject><DataObject><A>2</A></DataObject></obj>",
            ({"A": "1"}, {"A": "2"}),
        ),
        ("<obj><DataObject><A>1</A></DataObject><B>2</B></obj>", ({"DataObject.A": "1", "B": "2"},)),
        (
            "<response a='b'>&lt;?xml a?>&lt;obj>&lt;A>&quot;&apos;&lt;/A>&lt;/obj></response>",
            ({"A": "\"'"},),
        ),
        ("<?xml a?> <reflect:response><obj><A>1</A></obj></reflect:response>", ({"A": "1"},)),
    ],
)
def test_records_of_esxcli(response: str, expected: tuple[dict[str, str], ...]) -> None:
    assert parse_records("esxcli a", response) == expected


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        (bus_of("driver: mlx5_core\nbus-info:  0000:3B:00.0\n"), "0000:3b:00.0"),
        (bus_of("bus-info: \nsupports: a\n"), None),
        (bus_of("driver: virtio\nbus-info: vmbus\n"), None),
        (
            parse_tracking("Reference ID    : 7F7F0101 ()\nLeap status : Normal\n"),
            Tracking(is_synchronised=False),
        ),
        (
            parse_tracking("Reference ID : 00000000 ()\nLeap status : Normal\n"),
            Tracking(is_synchronised=False),
        ),
        (parse_tracking("Leap status     : Normal\n"), Tracking(is_synchronised=True)),
        (
            parse_tracking("Reference ID : A1B2 (ntp (a))\nLeap status : Not synchronised\n"),
            Tracking(is_synchronised=False, source="ntp (a"),
        ),
        (parse_timedatectl("NTP=no\nNTPSynchronized=no\n"), Tracking(is_synchronised=False)),
        (parse_timedatectl("\nNTPSynchronized=yes\nNTPSynchronized=no\n"), Tracking(is_synchronised=True)),
        (is_read_only("a / ext4 rw,relatime 0 0\n"), False),
        (is_read_only("a /b ext4 ro 0 0\n"), False),
        (is_read_only("a / ext4 rw\na / ext4 a,ro\n"), True),
        (is_read_only("a / ext4 ro\na / ext4 rw\n"), False),
        (is_read_only("a / ext4\n"), False),
        (
            parse_guest_work("/bin/find\ncontainer a\ncontainer a b c\nx container d e\n"),
            ("container a (b)",),
        ),
        (parse_guest_work("/proc/7/fd/1\n /proc/8/environ \n/proc/9/other\nfind\n"), None),
    ],
)
def test_a_guest(found: object, expected: object) -> None:
    assert found == expected


def test_rooms_and_how_much_of_them_is_free() -> None:
    text = (
        "Filesystem 1024-blocks Used Available Capacity Mounted on\n/a b 2097152 1 1048576 "
        "50% /\nc 0 0 -5 - /d e\n"
    )
    first, second = parse_room(text + "/a b 2097152 1 1048576 50% /\n")
    assert first == Room(path="/", size_kib=2097152, free_kib=1048576)
    assert (first.free_share, first.words) == (0.5, "/ 1.0 of 2.0 GiB free")
    assert second == Room(path="/d e", size_kib=0, free_kib=-5)
    assert (second.free_share, second.words) == (1.0, "/d e 0.0 of 0.0 GiB free")
    assert Room(path="/", size_kib=4, free_kib=-2).free_share == 0


@pytest.mark.parametrize(
    ("lines", "troubles", "programs"),
    [
        ([f"[  1.5] {XID}79, a"], (f"{XID}79, a",), ()),
        ([f"{XID}{number}, a" for number in (13, 31, 43, 45, 13)], (), (13, 31, 43, 45)),
        ([f"{XID}13, a", f"{XID}48, b", f"{XID}48, b"], (f"{XID}48, b",), (13,)),
        (["NVRM: GPU has fallen off the bus"], ("NVRM: GPU has fallen off the bus",), ()),
        (["NVRM: RmInitAdapter failed!"], ("NVRM: RmInitAdapter failed!",), ()),
        (["a PCIe Bus Error: severity=Uncorrected (b)"], ("a PCIe Bus Error: severity=Uncorrected (b)",), ()),
        ([f"{n} PCIe Bus Error: severity=Corrected" for n in range(10)], (), ()),
        (
            [f"{n} PCIe Bus Error: severity=Corrected" for n in range(11)],
            ("11 times 10 PCIe Bus Error: severity=Corrected",),
            (),
        ),
        (["blk_update_request: I/O error, dev sda"], ("blk_update_request: I/O error, dev sda",), ()),
        (["mlx5_core 0: High Temperature"], ("mlx5_core 0: High Temperature",), ()),
        (["sound", "EXT4-fs error a"], ("EXT4-fs error a",), ()),
    ],
)
def test_what_the_kernel_logs(lines: list[str], troubles: tuple[str, ...], programs: tuple[int, ...]) -> None:
    found = parse_kernel_log("\n".join(lines))
    assert (found.troubles, found.of_programs) == (troubles, programs)
    assert {one.number for one in found.xids} >= set(programs)


def test_interfaces() -> None:
    (first, second, third) = parse_interfaces(
        '[{"ifname": "a", "address": "AA:B", "mtu": 9000, "operstate": "UP", "addr_info": ['
        '{"family": "inet", "local": "1.2.3.4", "prefixlen": 24}, '
        '{"family": "inet6", "local": "b"}, {}]}, {},'
        '{"ifname": "b", "operstate": "UNKNOWN", "flags": ["LOWER_UP"]}, {"ifname": "c", "flags": ["UP"]}]'
    )
    assert (first.mac, first.mtu, first.is_up, first.addresses) == ("aa:b", 9000, True, ("1.2.3.4/24",))
    assert (second.mac, second.mtu, second.is_up, second.addresses) == ("", None, True, ())
    assert third.is_up is False
    assert (first.has_ipv6, third.has_ipv6) == (True, False)


def test_functions_of_lspci() -> None:
    text = (
        "3B:00.0 3D controller: NVIDIA a: b\n\tATSCtl:\tEnable+, a\n\tKernel driver in use: nvidia\n"
        "0001:3c:00.1 A: b\n\tATSCtl: Enable-\n\tKernel driver in use:\n\tCapabilities: <access "
        "denied>\n0d:00.0 C: d\n"
    )
    assert parse_lspci(text) == (
        PciFunction(
            pci_id="0000:3b:00.0", kind="3D controller", name="NVIDIA a: b", ats=True, driver="nvidia"
        ),
        PciFunction(pci_id="0001:3c:00.1", kind="A", name="b", ats=False, is_readable=False),
        PciFunction(pci_id="0000:0d:00.0", kind="C", name="d"),
    )
    assert parse_lspci("\n") == ()


def test_metrics() -> None:
    text = (
        '# a 1\nDCGM_A{gpu="0",b="c"} 1\n DCGM_B{gpu="1"} 2 1764\nOTHER{gpu="2"} 3\nDCGM_C '
        '4\nDCGM_D{agpu="5"} 1\nx\n'
    )
    assert gpus_in_metrics(text) == {"0", "1"}
    assert names_in_metrics(text) == {"DCGM_A", "DCGM_B", "OTHER", "DCGM_C", "DCGM_D"}
    rows = ",".join(
        f'{{"metric": {{"instance": "{key}"}}, "value": [0, {value}]}}'
        for key, value in (("a", '"1"'), ("b", '"0"'), ("c", "1"))
    )
    assert parse_up(f'{{"data": {{"result": [{rows}]}}}}') == {"a": True, "b": False, "c": True}


GPU = "GPU 00000000:36:00.0\n"
HEALTH: tuple[tuple[tuple[str, ...], tuple[str, ...], bool, str], ...] = (
    (("Remapped Rows", " Remapping Failure Occurred : Yes"), ("memory row remapping failed",), False, ""),
    (("Remapped Rows", " Pending : Yes"), ("remapped memory rows take effect after a GPU reset",), True, ""),
    (("Remapped Rows", " Pending : No"), (), True, ""),
    (
        ("Retired Pages", " Pending Page Blacklist : Yes"),
        ("retired memory pages take effect after a restart",),
        False,
        "",
    ),
    (("GPU Reset Status", " Reset Required : Yes"), ("GPU reset required",), False, ""),
    (("ECC Errors", " Volatile", "  DRAM Uncorrectable : 2"), ("2 errors, DRAM Uncorrectable",), True, ""),
    (
        ("ECC Errors", " Volatile", "  SRAM uncorrectable Parity : 1", "  b : 2"),
        ("1 errors, SRAM uncorrectable Parity",),
        False,
        "",
    ),
    (("ECC Errors", " Volatile", "  DRAM Uncorrectable : 0", "  SRAM Correctable : 3"), (), True, ""),
    (("ECC Errors", " Volatile", "  DRAM Uncorrectable : N/A", "  a Uncorrectable : x"), (), False, ""),
    (("ECC Errors", " Aggregate", "  DRAM Uncorrectable : 2"), (), False, ""),
    (("ECC Errors", " Volatile", "  Double Bit", "   Total : 4"), ("4 errors, Double Bit",), False, ""),
    (("ECC Errors", " Volatile", "  Double Bit", "   Total : 0"), (), False, ""),
    (("ECC Errors", " Volatile", "  Single Bit", "   Total : 4"), (), False, ""),
    (("Clocks Event Reasons", " HW Slowdown : Active"), ("HW Slowdown is active",), True, ""),
    (
        ("Clocks Throttle Reasons", " SW Thermal Slowdown : ACTIVE"),
        ("SW Thermal Slowdown is active",),
        True,
        "",
    ),
    (
        ("Clocks Event Reasons", " A : N/A", "  HW Power Brake Slowdown : Active"),
        ("HW Power Brake Slowdown is active",),
        True,
        "",
    ),
    (("Clocks Event Reasons", " HW Slowdown : Not Active", " Idle : Active"), (), True, ""),
    (("Clocks Event Reasons", " HW Slowdown : N/A"), (), False, ""),
    (
        ("PCI", " GPU Link Info", "  Link Width", "   Max : 16x", "   Current : 8x"),
        ("the PCIe link has 8 of 16 lanes",),
        False,
        "",
    ),
    (("PCI", " GPU Link Info", "  Link Width", "   Max : 16x", "   Current : 16x"), (), False, ""),
    (("PCI", " GPU Link Info", "  Link Width", "   Max : N/A", "   Current : 8x"), (), False, ""),
    (
        ("Fabric", " State : In Progress"),
        ("not joined to the NVSwitch fabric: In Progress",),
        False,
        "",
    ),
    (
        ("Fabric", " State : Completed", " Status : Failure"),
        ("not joined to the NVSwitch fabric: Failure",),
        False,
        "",
    ),
    (("Fabric", " State : completed", " Status : SUCCESS"), (), False, ""),
    (("Fabric", " State : Not Supported"), (), False, ""),
    (("Fabric", " State : N/A", " Status : N/A"), (), False, ""),
    (
        (
            "GPU Power Readings",
            " Current Power Limit : 300.50 W",
            " Power Limit : 100 W",
            " Default Power Limit : 400.00 W",
        ),
        (),
        False,
        "power limit 300.5 W, default 400 W",
    ),
    (
        ("GPU Power Readings", " Power Limit : 300 W", " Default Power Limit : 400 W"),
        (),
        False,
        "power limit 300 W, default 400 W",
    ),
    (
        (
            "Power Readings",
            " Enforced Power Limit : 200 W",
            " Power Limit : 300 W",
            " Default Power Limit : 400 W",
        ),
        (),
        False,
        "power limit 200 W, default 400 W",
    ),
    (
        ("Power Readings", " Power Limit : 300 W", " Default Power Limit : 400 W"),
        (),
        False,
        "power limit 300 W, default 400 W",
    ),
    (("Power Readings", " Power Limit : 400 W", " Default Power Limit : 400 W"), (), False, ""),
    (("Power Readings", " Power Limit : 300 W", " Default Power Limit : N/A"), (), False, ""),
    (("Power Readings", " Power Limit : 300", " Default Power Limit : 400 W"), (), False, ""),
)


@pytest.mark.parametrize(("lines", "troubles", "is_told", "capped"), HEALTH)
def test_the_health_of_a_gpu(
    lines: tuple[str, ...], troubles: tuple[str, ...], is_told: bool, capped: str
) -> None:
    (found,) = parse_health(GPU + "\n".join(f"    {line}" for line in lines))
    assert (found.pci_id, found.troubles, found.is_told, found.capped) == (
        "0000:36:00.0",
        troubles,
        is_told,
        capped,
    )


@pytest.mark.parametrize(
    ("word", "is_on"),
    [
        *((word, True) for word in ("Enabled", "TRUE", "Yes", "Supported")),
        *((word, False) for word in ("Disabled", "FALSE", "No", "Not Supported")),
        ("N/A", None),
    ],
)
def test_a_switch_of_nvidia_smi(word: str, is_on: bool | None) -> None:
    assert tree_of("a", f"A\n  B : {word}\n").switch("a", "a", "b") is is_on
    assert tree_of("a", f"A\n  B : {word}\n").switch("a", "b") is None
