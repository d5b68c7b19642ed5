"""A port that Linux's own tools set: what they show passes, what they show wrong or not at all fails."""

from __future__ import annotations

import pytest

from tests.unit.parsers.printed import printed
from tests.unit.verification.two_workers import (
    HW_COUNTERS,
    IMAGE,
    RUN_IMAGE,
    Counting,
    Scene,
    failing,
    found_in,
    make_scene,
)
from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.guests.guest import GuestReport
from vgpu_cfg.model.verification import CheckResult, CheckState
from vgpu_cfg.verification.checks.gpudirect_checks import FIND_NCCL
from vgpu_cfg.verification.checks.network_checks import rdma_mtu

PAIR = "hvd-01 -> hvd-02"
MSTCONFIG = ("mstconfig", "-d", "0000:0b:00.0", "-e", "q")
NOT_FOUND = failing("sh: 1: not found", 127)


@pytest.fixture
def scene() -> Scene:
    """The first worker has the distribution's driver: dcb and mstconfig instead of OFED's tools."""
    scene = make_scene()
    scene.answer("mlnx_qos", "-i", "ens192", by=NOT_FOUND)
    scene.answer("grep", "-s", ".", by=failing("", 1))
    shown(scene, pfc="dcb-pfc-lossless.txt", app="dcb-app-lossless.txt", buffer="dcb-buffer-lossless.txt")
    firmware(scene, "255")
    return scene


def shown(scene: Scene, **names: str) -> None:
    for kind, name in names.items():
        scene.answer("timeout", "20", "dcb", "-j", kind, "show", "dev", "ens192", by=printed(name))


def firmware(scene: Scene, mask: str) -> None:
    text = printed("mlxconfig-query-e-cx6dx.txt").splitlines()
    row = next(line for line in text if "ATS_ENABLED" in line)
    own = row.replace("ATS_ENABLED", "ROCE_CC_PRIO_MASK_P1")
    for word in ("True(1)", "False(0)"):
        own = own.replace(word, mask)
    scene.answer(*MSTCONFIG, by="\n".join([*text[: text.index(row)], own, *text[text.index(row) :]]))


def roce(scene: Scene) -> CheckResult:
    return found_in(scene.run(), "roce", "hvd-01")


def test_what_dcb_and_the_firmware_show_is_enough(scene: Scene) -> None:
    found = roce(scene)
    assert (found.state, found.observed) == (
        CheckState.PASSED,
        "trust dscp, PFC on 3, ECN on 3, tclass 106",
    )


@pytest.mark.parametrize(
    ("names", "told"),
    [({"pfc": "dcb-pfc-nothing-protected.txt"}, "ens192 has PFC on priority none, not 3"),
     ({"app": "dcb-app-nothing.txt"},
      "ens192 trusts pcp, not dscp; ens192 does not map DSCP 26 to a priority"),
     ({"buffer": "dcb-buffer-one-for-all.txt"}, "ens192 has no dedicated receive buffer for priority 3")],
)  # fmt: skip
def test_what_dcb_shows_wrong_fails(scene: Scene, names: dict[str, str], told: str) -> None:
    shown(scene, **names)
    found = roce(scene)
    assert (found.code, found.observed) == (VerifyCode.ROCE_UNSET.value, told)


def test_a_firmware_that_ignores_the_priority_fails(scene: Scene) -> None:
    firmware(scene, "0xf7")
    assert roce(scene).observed == "ens192 ignores ECN marks on priority 3"


@pytest.mark.parametrize("answer", ["nothing", "DEVICE_DEFAULT(0)"])
def test_a_firmware_that_does_not_say_is_no_pass(scene: Scene, answer: str) -> None:
    if answer == "nothing":
        scene.answer(*MSTCONFIG, by=NOT_FOUND)
    else:
        firmware(scene, answer)
    assert roce(scene).code == VerifyCode.ROCE_UNKNOWN.value


def test_a_driver_that_tells_dcb_nothing_is_no_pass(scene: Scene) -> None:
    scene.answer("timeout", "20", "dcb", "-j", "pfc", "show", "dev", "ens192", by=failing("", 124))
    found = roce(scene)
    assert found.code == VerifyCode.ROCE_UNKNOWN.value
    assert found.observed == "trust and PFC on ens192: its driver does not support dcb"


def test_ecn_that_is_off_in_the_driver_fails() -> None:
    scene = make_scene()
    files = [f"/sys/class/net/ens192/ecn/roce_{side}/enable/3" for side in ("np", "rp")]
    scene.answer("grep", "-s", ".", by=f"{files[0]}:1\n{files[1]}:0\n")
    assert roce(scene).observed == "ens192 ignores ECN marks on priority 3"


# ---------------------------------------------------------------- counters


def counting(scene: Scene, of: str, **rising: int) -> None:
    text = printed("ethtool-statistics-of-a-whole-nic.txt") + "     rx_global_pause: 0\n"
    scene.answer("ethtool", "-S", "ens192", by=Counting(text, rising), of=of)
    hardware = printed("hw-counters-of-a-busy-port.txt")
    scene.answer("sh", "-c", HW_COUNTERS, by=Counting(hardware, rising), of=of)


@pytest.mark.parametrize(
    ("of", "counter", "code", "told"),
    [("hvd-02", "out_of_sequence", "VG689", "out_of_sequence 7 on hvd-02"),
     ("hvd-01", "packet_seq_err", "VG689", "packet_seq_err 7 on hvd-01"),
     ("hvd-01", "local_ack_timeout_err", "VG689", "local_ack_timeout_err 7 on hvd-01"),
     ("hvd-02", "rx_discards_phy", "VG689", "rx_discards_phy 7 on hvd-02"),
     ("hvd-02", "rx_prio3_discards", "VG689", "rx_prio3_discards 7 on hvd-02"),
     ("hvd-02", "rx_global_pause", "VG690", "rx_global_pause 7 on hvd-02: the whole link was paused")],
)  # fmt: skip
def test_each_kind_of_loss_is_told(of: str, counter: str, code: str, told: str) -> None:
    scene = make_scene()
    counting(scene, of, **{counter: 7})
    found = found_in(scene.run(), "congestion", PAIR)
    assert (found.state, found.code, found.observed) == (CheckState.FAILED, code, told)


def test_a_switch_that_marks_anew_is_seen_at_the_receiver() -> None:
    scene = make_scene()
    counting(scene, "hvd-02", rx_prio0_bytes=9_000_000_000)
    found = found_in(scene.run(), "congestion", PAIR)
    assert found.observed == "hvd-02 received 100% on priority 0"


def test_pauses_and_marks_are_no_loss() -> None:
    scene = make_scene()
    counting(
        scene, "hvd-01", rx_prio3_pause=5, tx_prio3_bytes=9_000_000_000, np_cnp_sent=3, rnr_nak_retry_err=1
    )
    found = found_in(scene.run(), "congestion", PAIR)
    assert found.state is CheckState.PASSED
    assert found.measured["source_rx_prio3_pause"] == 5
    assert "3 CNPs sent" in found.observed


def test_nics_that_count_nothing_are_not_called_lossless() -> None:
    scene = make_scene()
    for name in ("hvd-01", "hvd-02"):
        scene.answer("ethtool", "-S", "ens192", by=failing("no stats available", 94), of=name)
        scene.answer("sh", "-c", HW_COUNTERS, by=failing("", 2), of=name)
    found = found_in(scene.run(), "congestion", PAIR)
    assert found.state is CheckState.UNPROVEN
    assert "packet loss is unknown" in found.why


def test_a_slow_pair_says_that_packets_were_lost() -> None:
    scene = make_scene()
    counting(scene, "hvd-02", out_of_sequence=40)
    slow = printed("ib-write-bw-by-time.txt").replace("94.80", "61.30")
    scene.answer("timeout", by=slow)
    found = found_in(scene.run(), "bandwidth", PAIR)
    assert found.meaning == "packets were lost on the path: out_of_sequence 40 on hvd-02"


# ---------------------------------------------------------------- staging


def test_what_staging_warned_of_is_shown() -> None:
    scene = make_scene()
    report = GuestReport.model_validate_json(
        str(scene.guest("hvd-01").answers["cat", "/var/lib/vgpu-cfg/report.json"])
    )
    modules = tuple(
        one.model_copy(update={"state": "warned", "why": "lldpad is running"}) if one.name == "roce" else one
        for one in report.modules
    )
    text = report.model_copy(update={"modules": modules}).model_dump_json()
    scene.answer("cat", "/var/lib/vgpu-cfg/report.json", by=text)
    assert found_in(scene.run(), "staged", "hvd-01").observed == "16 modules; warns: roce (lldpad is running)"


# ---------------------------------------------------------------- dma-buf


OPEN = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {}  Release Build  (dvs-builder@U22)\n"
IN_IMAGE = (*RUN_IMAGE, IMAGE, "sh", "-c", FIND_NCCL)
WITHOUT_PEERMEM = "\n".join(
    line for line in printed("lsmod-with-peermem.txt").splitlines() if "peermem" not in line
)


def by_dma_buf(driver: str = "580.95.05", kernel: str = "6.8.0-49-generic", nccl: str = "") -> CheckResult:
    scene = make_scene()
    scene.answer("lsmod", by=WITHOUT_PEERMEM)
    scene.answer("cat", "/proc/driver/nvidia/version", by=OPEN.format(driver))
    scene.answer("uname", "-r", by=f"{kernel}\n")
    scene.answer(*IN_IMAGE, by=nccl or failing("", 1))
    return found_in(scene.run(), "peermem", "hvd-01")


def test_dma_buf_takes_driver_kernel_and_the_images_nccl() -> None:
    """What the library of nvidia-nccl-cu12 2.18.1 and nvidia-nccl-cu11 2.13.4 say of themselves."""
    found = by_dma_buf(nccl="DMABUF_ENABLE\nNCCL version 2.18.1\n")
    assert found.state is CheckState.PASSED
    assert found.observed == "dma-buf: the open driver on kernel 6.8.0-49-generic, NCCL 2.18.1"


def test_an_nccl_that_knows_no_dma_buf_fails() -> None:
    found = by_dma_buf(nccl="NCCL version 2.10.3\n")
    assert (found.code, found.observed) == ("VG668", f"NCCL 2.10.3 in {IMAGE} does not support dma-buf")


def test_an_image_that_does_not_tell_its_nccl_is_no_pass() -> None:
    assert by_dma_buf().state is CheckState.UNPROVEN


@pytest.mark.parametrize(("driver", "kernel"), [("510.47.03", "6.8.0"), ("580.95.05", "5.11.22")])
def test_an_old_driver_or_kernel_has_no_dma_buf(driver: str, kernel: str) -> None:
    assert by_dma_buf(driver, kernel, "DMABUF_ENABLE\nNCCL version 2.18.1\n").code == "VG668"


def test_the_rdma_mtu_is_the_largest_that_fits_a_packet() -> None:
    assert [rdma_mtu(mtu) for mtu in (9000, 4191, 1500, 300)] == [4096, 2048, 1024, 256]
