"""Links, clocks, logs, disks and metrics, as tools print them."""

from __future__ import annotations

import pytest

from tests.unit.parsers.kernel_log import parse_kernel_log
from tests.unit.parsers.printed import DISGUISES, printed
from vgpu_cfg.parsers.guest_system import (
    MOST_CORRECTED,
    parse_room,
    parse_time,
    parse_timedatectl,
    parse_tracking,
)
from vgpu_cfg.parsers.metrics import gpus_in_metrics, names_in_metrics, parse_up
from vgpu_cfg.parsers.nvidia.gpu_health import parse_health
from vgpu_cfg.parsers.rdma.devices import parse_pcie_link, parse_port_speed
from vgpu_cfg.parsers.rdma.perftest import lacks_cuda
from vgpu_cfg.parsers.text import ToolFailed, UnreadableOutput

SOUND = printed("guest-query-a100-whole-sound.txt")
LINK = "/sys/class/net/ens192/device/"


@pytest.mark.parametrize(
    "name",
    [
        "ib-write-bw-unsupported-memory-25.01.txt",
        "ib-write-bw-unrecognized-4.5-0.17.txt",
        "ib-write-bw-without-cuda.txt",
    ],
)
def test_each_perftest_without_cuda_says_so_in_its_own_words(name: str) -> None:
    assert lacks_cuda(printed(name))
    assert not lacks_cuda(printed("ib-write-bw-gpu-memory.txt"))


def test_a_port_tells_what_it_runs_at_and_what_it_could() -> None:
    for disguise in DISGUISES[:1]:
        port = parse_port_speed(disguise(printed("ethtool-100g.txt")))
        assert (port.gbps, port.most_gbps) == (100, 100)
    slow = parse_port_speed(printed("ethtool-100g.txt").replace("Speed: 100000", "Speed: 25000"))
    assert (slow.gbps, slow.most_gbps) == (25, 100)
    silent = parse_port_speed(printed("ethtool-virtual-not-reported.txt"))
    assert (silent.gbps, silent.most_gbps) == (None, None)
    with pytest.raises(ToolFailed):
        parse_port_speed("Cannot get device settings: No such device\n")


@pytest.mark.parametrize(
    ("now", "most", "gbps", "words"),
    [
        (("16.0 GT/s PCIe", "16"), ("16.0 GT/s PCIe", "16"), 252, "PCIe 16 GT/s x16"),
        (("8 GT/s", "8"), ("16 GT/s", "16"), 63, "PCIe 8 GT/s x8 of 16 GT/s x16"),
        (("2.5 GT/s PCIe", "4"), ("2.5 GT/s PCIe", "4"), 8, "PCIe 2.5 GT/s x4"),
        (("Unknown", "255"), ("Unknown", "255"), None, "PCIe link not reported"),
        (("Unknown speed", "0"), ("Unknown speed", "0"), None, "PCIe link not reported"),
    ],
)
def test_a_pcie_link_carries_what_its_encoding_leaves(
    now: tuple[str, str], most: tuple[str, str], gbps: int | None, words: str
) -> None:
    lines = zip(("current", "current", "max", "max"), ("speed", "width") * 2, (*now, *most), strict=True)
    link = parse_pcie_link("".join(f"{LINK}{when}_link_{what}:{value}\n" for when, what, value in lines))
    assert (round(link.gbps) if link.gbps else None, link.words) == (gbps, words)
    assert parse_pcie_link("").gbps is None


def test_clocks_are_kept_by_others_or_by_nobody() -> None:
    follows = parse_tracking(printed("chronyc-tracking-follows.txt"))
    assert (follows.is_synchronised, follows.source) == (True, "127.0.0.1")
    assert not parse_tracking(printed("chronyc-tracking-follows-nobody.txt")).is_synchronised
    own = printed("chronyc-tracking-follows.txt").replace("7F000001 (127.0.0.1)", "7F7F0101 ()")
    assert not parse_tracking(own).is_synchronised
    with pytest.raises(ToolFailed):
        parse_tracking("506 Cannot talk to daemon\n")
    assert parse_timedatectl("Timezone=Etc/UTC\nNTPSynchronized=yes\n").is_synchronised
    assert parse_time("1795425707.425589805\n") == pytest.approx(1795425707.4255898)
    with pytest.raises(UnreadableOutput):
        parse_time("Mon Nov 23\n")


@pytest.mark.parametrize(
    ("before", "after", "trouble"),
    [
        ("DRAM Uncorrectable                : 0", "DRAM Uncorrectable : 4", "4 errors, DRAM Uncorrectable"),
        ("Remapping Failure Occurred        : No", "Remapping Failure Occurred : Yes", "failed"),
        ("HW Power Brake Slowdown       : Not Active", "HW Power Brake Slowdown : Active", "Power Brake"),
        ("SW Thermal Slowdown           : Not Active", "SW Thermal Slowdown : Active", "SW Thermal"),
        ("Current                           : 16x", "Current : 8x", "8 of 16 lanes"),
        ("Reset Required                    : No", "Reset Required : Yes", "GPU reset required"),
        (
            "DRAM Uncorrectable                : 0",
            "DRAM Uncorrectable : Unknown Error",
            "Unknown Error (ECC Err",
        ),
        ("SRAM Correctable                  : 0", "SRAM Correctable : GPU is lost", "GPU is lost"),
        (
            "Performance State                 : P0",
            "Performance State : GPU requires reset",
            "requires reset",
        ),
        ("Performance State                 : P0", "Performance State : ERR!", "ERR! (Performance State)"),
        (
            "Replays Since Reset               : 0",
            "Replays : GPU access blocked by the operating system",
            "blocked",
        ),
    ],
)
def test_what_ails_a_gpu_is_told(before: str, after: str, trouble: str) -> None:
    assert before.split(":", maxsplit=1)[0].strip() in SOUND
    (gpu,) = parse_health(SOUND)
    assert (gpu.troubles, gpu.is_told) == ((), True)
    indent = SOUND.split(before.split(":", maxsplit=1)[0].strip())[0].rpartition("\n")[2]
    changed = "\n".join(
        f"{indent}{after}" if " ".join(line.split()) == " ".join(before.split()) else line
        for line in SOUND.split("\n")
    )
    assert changed != SOUND
    (gpu,) = parse_health(changed)
    assert any(trouble in one for one in gpu.troubles)


@pytest.mark.parametrize(
    "value",
    [
        "N/A",
        "Function Not Found",
        "Insufficient Permissions",
        "Requested functionality has been deprecated",
        "Not Supported",
        "In use by another client",
    ],
)
def test_a_value_that_is_not_available_is_no_fault(value: str) -> None:
    (gpu,) = parse_health(
        SOUND.replace("Performance State                 : P0", f"Performance State : {value}")
    )
    assert gpu.troubles == ()


def test_a_vm_that_cannot_read_its_hosts_pcie_is_sound() -> None:
    text = SOUND.replace(
        "                Current                   : 1\n", "                Host Max : Unknown Error\n"
    )
    assert text != SOUND
    assert parse_health(text)[0].troubles == ()


@pytest.mark.parametrize("action", ["Reset", "Reboot", "Drain P2P", "Drain and Reset", "GPU_RESET"])
def test_whatever_the_driver_asks_for_is_told(action: str) -> None:
    text = SOUND.replace("    PCI\n", f"    GPU Recovery Action : {action}\n    PCI\n")
    assert parse_health(text)[0].troubles == (f"the driver requests a recovery action: {action}",)
    assert parse_health(text.replace(f": {action}", ": None"))[0].troubles == ()


@pytest.mark.parametrize(
    "why", ["Unknown Error", "GPU is lost.  Reboot the system to recover this GPU", "Not Found"]
)
def test_a_gpu_that_is_lost_is_told_by_its_address(why: str) -> None:
    (gpu,) = parse_health(f"Unable to determine the device handle for GPU0000:3B:00.0: {why}\n")
    assert (gpu.pci_id, len(gpu.troubles)) == ("0000:3b:00.0", 1)


def test_broken_gpus_of_two_drivers() -> None:
    (gpu,) = parse_health(printed("health-535-not-ready.txt"))
    assert gpu.troubles == (
        "System is not in ready state (Fan Speed, Clocks/Graphics, Clocks/SM and 2 more)",
        "Unknown Error (Utilization/Encoder, Utilization/Decoder, GPU Power Readings/Power Draw)",
        "GPU reset required",
    )
    sound, ill = parse_health(printed("health-580-unhealthy-fabric.txt"))
    assert sound.troubles == ()
    assert ill.troubles == (
        "the driver requests a recovery action: Drain and Reset",
        "GPU requires reset "
        "(ECC Errors/Channel Repair Pending, ECC Errors/TPC Repair Pending, Remapped Rows)",
        "NVSwitch fabric: Summary Unhealthy",
        "NVSwitch fabric: Bandwidth Degraded",
        "NVSwitch fabric: Route Unhealthy True",
        "NVSwitch fabric: Incorrect Configuration Insufficient Nvlinks",
    )


@pytest.mark.parametrize(
    ("section", "limit", "capped"),
    [
        ("GPU Power Readings", "Current Power Limit : 150.00 W", "power limit 150 W, default 250 W"),
        ("Power Readings", "Enforced Power Limit : 150.00 W", "power limit 150 W, default 250 W"),
        ("Power Readings", "Power Limit : 150.00 W", "power limit 150 W, default 250 W"),
        ("GPU Power Readings", "Current Power Limit : 250.00 W", ""),
        ("GPU Power Readings", "Current Power Limit : N/A", ""),
    ],
)
def test_a_power_limit_below_the_boards_own_is_told(section: str, limit: str, capped: str) -> None:
    power = f"    {section}\n        {limit}\n        Default Power Limit : 250.00 W\n    Processes"
    (gpu,) = parse_health(SOUND.replace("    Processes", power, 1))
    assert gpu.capped == capped


def test_older_drivers_and_vgpus_are_understood() -> None:
    older = SOUND.replace("Clocks Event Reasons", "Clocks Throttle Reasons")
    (gpu,) = parse_health(
        older.replace("HW Slowdown                       : Not Active", "HW Slowdown : Active")
    )
    assert gpu.troubles == ("HW Slowdown is active",)
    (vgpu,) = parse_health(printed("guest-query-a100-40c-licensed.txt"))
    assert (vgpu.troubles, vgpu.is_told) == ((), False)


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: Xid (PCI:0000:02:01): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
        "NVRM: Xid (PCI:0000:02:01): 95, pid=1, Uncontained ECC error",
        "NVRM: Xid (PCI:0000:02:01): 4711, a number of tomorrow",
        "NVRM: Xid (PCI:0000:02:01): 149, NETIR_LINK_EVT Fatal XC0 i0 Link 00 (0x025001c6 0x00000000)",
        "pcieport 0000:00:15.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
        "mlx5_core 0000:0b:00.0: poll_health:800:(pid 0): device's health compromised - reached miss count",
        "mlx5_core 0000:0b:00.0: Port module event[error]: module 0, Cable error, High Temperature",
        "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:",
        "NVRM: BAR1 is 0M @ 0x0 (PCI:0000:02:01.0)",
        "NVRM: Xid (0000:02:01): 79, GPU has fallen off the bus.",
        "mlx5_core 0000:0b:00.0: temp_warn:193:(pid 0): High temperature on sensors with bit set 0 1",
        "mlx5_core 0000:03:00.0: wait_func:1151:(pid 1): CREATE_CQ(0x400) timeout. "
        "Will cause a leak of a command resource",
        "NVRM: Xid (PCI:0000:02:01 GPU-I:05): 94, pid=7194, Contained: CE User Channel (0x9). RST: No",
        "NVRM: Xid (PCI:0000:02:01 GPU-I:05 GPU-CI:00): 94, Contained: SM (0x1).",
        "nvrm: xid (pci:0000:02:01): 119, timeout waiting for rpc from gsp!",
        "NVRM: Xid (PCI:0000:02:01): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Reboot)",
        "NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062)",
        "NVRM: GPU 0000:02:01.0: rm_init_adapter failed, device minor number 0",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 22013, Fatal, Link 27 Minion Link DLREQ interrupt",
        "mlx5_core 0000:0b:00.0: print_health_info:431:(pid 0): Health issue observed, firmware error, "
        "severity(3) ERROR:",
        "mlx5_core 0000:0b:00.0: poll_health:791:(pid 0): Fatal error 1 detected",
        "mlx5_core 0000:0b:00.0: PORT MODULE EVENT: module 0, Cable error, No EEPROM/retry timeout",
        "mlx5_core 0000:0b:00.0 ens192: TX timeout detected",
        "NETDEV WATCHDOG: CPU: 3: transmit queue 0 timed out 5432 ms",
        "pcieport 0000:00:15.0: DPC: containment event, status:0x1f01 source:0x0000",
        "nvidia 0000:02:01.0: Unable to change power state from D3cold to D0, device inaccessible",
        "nvidia 0000:02:01.0: can't change power state from D3cold to D0 (config space inaccessible)",
        "DMAR: [DMA Write NO_PASID] Request device [02:01.0] fault addr 0xfed00000 [fault reason 0x05] no",
        "mlx5_core 0000:0b:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0010 address=0xfea0]",
        "EDAC MC0: 1 UE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 page:0x1 offset:0x0)",
        "{1}[Hardware Error]: event severity: recoverable",
        "pci 0000:02:01.0: BAR 1: failed to assign [mem size 0x1000000000 64bit pref]",
        "blk_update_request: I/O error, dev sda, sector 4096 op 0x0:(READ)",
        "EXT4-fs error (device sda1): ext4_find_entry:1455: inode #2: comm ls: reading directory",
    ],
)
def test_lines_of_failing_hardware_are_found(line: str) -> None:
    sound = printed("dmesg-sound.txt")
    assert parse_kernel_log(sound).troubles == ()
    assert parse_kernel_log(sound).of_programs == (31,)
    assert parse_kernel_log(f"{sound}[ 6000.000001] {line}\n").troubles == (line,)
    assert parse_kernel_log(f"{sound}[Mon Nov 23 09:00:00 2026] {line}\n").troubles == (line,)


@pytest.mark.parametrize(
    "line",
    [
        "mlx5_core 0000:0b:00.0: Port module event: module 0, Cable plugged",
        "mlx5_core 0000:0b:00.0: Port module event: module 0, Cable unplugged",
        "mlx5_core 0000:0b:00.0: print_health_info:431:(pid 0): Health issue observed, x, severity(6) INFO:",
        "nvidia-nvswitch0: SXid (PCI:0000:c1:00.0): 20009, Non-fatal, Link 05 RX Short Error Rate",
        "EDAC MC0: 1 CE memory read error on CPU_SrcID#0_MC#0_Chan#1_DIMM#0 (channel:1 page:0x1 offset:0x0)",
        "mce: [Hardware Error]: Machine check events logged",
        "{1}[Hardware Error]: event severity: corrected",
        "NVRM: Xid (PCI:0000:02:01): 145, RLW_SRC_TRACK Nonfatal XC1 i0 Link 17 (0x04084507 0x00000004)",
        "DMAR: IOMMU enabled",
        "AMD-Vi: Interrupt remapping enabled",
    ],
)
def test_lines_of_sound_machines_are_left_out(line: str) -> None:
    assert parse_kernel_log(f"[1.0] {line}\n").troubles == ()


def test_a_gpu_that_has_recovered_is_sound() -> None:
    asks = "NVRM: Xid (PCI:0000:{}): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Reboot)"
    over = "NVRM: Xid (PCI:0000:02:01): 154, GPU recovery action changed from 0x2 (Reboot) to 0x0 (None)"
    log = [asks.format("02:01"), asks.format("02:02"), over]
    assert parse_kernel_log("\n".join(log)).troubles == (asks.format("02:02"),)


def test_a_bar_that_is_placed_at_the_second_attempt_is_no_fault() -> None:
    bar = "pci 0000:02:01.0: BAR 1 [mem size 0x1000000000 64bit pref]: can't assign; no space"
    assert parse_kernel_log(bar).troubles == (bar,)
    placed = "pci 0000:02:01.0: BAR 1 [mem 0x5000000000-0x5fffffffff 64bit pref]: assigned"
    assert parse_kernel_log(f"{bar}\n{placed}").troubles == ()
    assert parse_kernel_log(f"{bar}\n{placed.replace('02:01', '02:02')}").troubles == (bar,)
    older = "pci 0000:02:01.0: BAR 1: no space for [mem size 0x1000000000 64bit pref]"
    assert parse_kernel_log(older).troubles == (older,)
    placed = "pci 0000:02:01.0: BAR 1: assigned [mem 0x5000000000-0x5fffffffff 64bit pref]"
    assert parse_kernel_log(f"{older}\n{placed}").troubles == ()
    small = "pci 0000:00:16.0: BAR 4 [io  size 0x0020]: failed to assign"
    assert parse_kernel_log(small).troubles == ()


def test_a_few_corrected_errors_are_chance() -> None:
    line = "[1.0] pcieport 0000:00:15.0: PCIe Bus Error: severity=Corrected, type=Physical Layer\n"
    assert parse_kernel_log(line * MOST_CORRECTED).troubles == ()
    assert len(parse_kernel_log(line * (MOST_CORRECTED + 1)).troubles) == 1
    with pytest.raises(ToolFailed):
        parse_kernel_log("dmesg: read kernel buffer failed: Operation not permitted\n")


def test_disks_tell_their_room() -> None:
    root, shm = parse_room(printed("df-posix.txt"))
    assert (root.path, shm.path, shm.free_share) == ("/", "/dev/shm", 1.0)
    assert root.words.endswith("GiB free")


def test_metrics_tell_of_gpus_and_targets() -> None:
    assert gpus_in_metrics(printed("metrics-dcgm.txt")) == {"0"}
    assert gpus_in_metrics(printed("metrics-node.txt")) == frozenset()
    assert "node_uname_info" in names_in_metrics(printed("metrics-node.txt"))
    with pytest.raises(UnreadableOutput):
        names_in_metrics("<html>\n")
    answer = '{"data": {"result": [{"metric": {"instance": "a:9100"}, "value": [1.0, "0"]}]}}'
    assert parse_up(answer) == {"a:9100": False}
    with pytest.raises(UnreadableOutput):
        parse_up('{"status": "error"}')
