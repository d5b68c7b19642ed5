"""Two workers that are as planned: everything is asked, in the order in which one thing rests on another."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from tests.unit.parsers.printed import printed
from tests.unit.verification.two_workers import found_in, make_scene
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.inventory import Inventory, VCenter
from vgpu_cfg.model.verification import CheckState
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.verification import CHECKS, Choice
from vgpu_cfg.verification.run import rounds
from vgpu_cfg.verification.table import needed_for


def test_every_check_is_made_and_none_fails() -> None:
    report = make_scene().run()
    assert [one for one in report.results if one.state in (CheckState.FAILED, CheckState.NOT_ASKED)] == []
    assert {one.check for one in report.results} == {check.key for check in CHECKS if not check.watches}
    assert report.passes


def test_what_was_seen_is_told() -> None:
    report = make_scene().run()
    seen = {one.check: one.observed for one in report.results if one.subject.name == "hvd-01"}
    assert seen["licence"] == "Licensed until 2026-12-03 05:02 UTC"
    assert seen["gid"] == "mlx5_0 index 3 (10.111.0.11)"
    assert seen["rdma"] == "mlx5_0 on ens192, 100 Gb/s"
    assert seen["ats"] == "0000:0b:00.0 ATSCtl: Enable+"
    assert seen["roce"] == "trust dscp, PFC on 3, ECN on 3, tclass 106"
    pair = found_in(report, "bandwidth-gpu", "hvd-01 -> hvd-02")
    assert (pair.observed, pair.expected) == ("94.1 Gb/s", "at least 85.0 of 100 Gb/s")
    assert {name: value for name, value in pair.measured.items() if "_prio" not in name and value} == {
        "gbps": 94.1,
        "line_rate_gbps": 100.0,
        "share": 0.941,
    }
    assert found_in(report, "congestion", "hvd-01 -> hvd-02").observed == (
        "no packet loss; priority 3: paused 8 times, sent 0 pauses; 0 packets with ECN marks, 0 CNPs sent"
    )
    together = found_in(report, "allreduce", "hvd-01, hvd-02")
    assert together.observed == "11.2 GB/s bus bandwidth (by horovod), 2 ranks, NET/IB/GDRDMA"
    assert together.expected == "at least 10.5 of 12.5 GB/s, correct"


def test_a_server_is_started_on_one_side_and_stopped_whatever_it_said() -> None:
    scene = make_scene()
    scene.run(Choice(only=("bandwidth",)))
    target = [words for words in scene.guest("hvd-02").asked if words[0] in ("systemd-run", "systemctl")]
    start = target[-2]
    assert start[:4] == ("systemd-run", "--quiet", "--collect", "--unit=vgpu-cfg-verify-18515")
    server = start[start.index("ib_write_bw") :]
    assert server == (
        *("ib_write_bw", "-d", "mlx5_0", "-i", "1", "-x", "3", "-R", "-T", "106", "-F", "--report_gbits"),
        *("-D", "5", "-p", "18515"),
    )
    assert target[-1] == ("systemctl", "stop", "vgpu-cfg-verify-18515")
    (client,) = [words for words in scene.guest("hvd-01").asked if words[0] == "timeout"]
    assert client[3:] == (*server, "10.111.0.12")


def test_the_probe_is_put_on_every_worker_and_taken_away() -> None:
    scene = make_scene()
    scene.run(Choice(only=("allreduce",)))
    for name in ("hvd-01", "hvd-02"):
        assert "VGPU-CFG-ALLREDUCE" in scene.guest(name).files["/opt/vgpu-cfg/verify-allreduce.py"]
        assert scene.guest(name).asked[-1] == ("rm", "-f", "/opt/vgpu-cfg/verify-allreduce.py")
        compile(scene.guest(name).files["/opt/vgpu-cfg/verify-allreduce.py"], "probe", "exec")


def test_nccl_tests_measure_where_the_image_has_them() -> None:
    from tests.unit.parsers.printed import printed
    from tests.unit.verification.two_workers import IMAGE, RUN_IMAGE

    scene = make_scene()
    scene.answer(*RUN_IMAGE, IMAGE, "sh", by="/usr/local/bin/all_reduce_perf\n")
    scene.answer("env", "NCCL_DEBUG=INFO", "/usr/local/bin/train", by=printed("nccl-tests-two-ranks.txt"))
    report = scene.run()
    together = found_in(report, "allreduce", "hvd-01, hvd-02")
    assert together.observed == "11.2 GB/s bus bandwidth (by nccl-tests), 2 ranks, NET/IB/GDRDMA"
    assert scene.guest("hvd-02").files == {}


def test_quick_leaves_out_what_measures() -> None:
    scene = make_scene()
    report = scene.run(Choice(is_quick=True))
    assert not {one.check for one in report.results} & {"bandwidth", "bandwidth-gpu", "allreduce"}
    assert not scene.guest("hvd-02").was_asked("systemd-run")
    assert report.is_quick
    assert report.passes


def test_only_what_is_chosen_is_told_and_what_it_rests_on_is_asked() -> None:
    scene = make_scene()
    report = scene.run(Choice(only=("licence",)))
    assert {one.check for one in report.results} == {"licence", "host-licence"}
    assert {words[0] for words in scene.guest().asked} == {"uname", "cat", "nvidia-smi"}


def test_what_an_unchosen_check_finds_wrong_is_told_all_the_same() -> None:
    scene = make_scene()
    scene.answer("nvidia-smi", "-q", by="NVIDIA-SMI has failed because it couldn't communicate\n")
    report = scene.run(Choice(only=("licence",)))
    assert [(one.check, one.state) for one in report.results if one.subject.name == "hvd-01"] == [
        ("driver", CheckState.FAILED),
        ("licence", CheckState.NOT_ASKED),
    ]


def test_a_check_rests_on_earlier_ones_only() -> None:
    keys = [check.key for check in CHECKS]
    assert len(set(keys)) == len(keys)
    for place, check in enumerate(CHECKS):
        assert set(check.rests_on) <= set(keys[:place])
    assert needed_for(["ats"]) == {"ats", "rdma", "nics", "reached"}


def test_pairs_meet_in_rounds_and_each_pair_once() -> None:
    for count in range(9):
        met = [pair for one in rounds(count) for pair in one]
        assert sorted(met) == [(one, two) for one in range(count) for two in range(one + 1, count)]
        assert all(len({member for pair in one for member in pair}) == 2 * len(one) for one in rounds(count))


def test_shells_are_opened_once_and_closed() -> None:
    scene = make_scene(3)
    scene.run()
    assert sorted(scene.guests.connected) == ["hvd-01", "hvd-02", "hvd-03"]
    assert [guest.closed for guest in scene.guests.guests.values()] == [1, 1, 1]


def test_pairs_of_one_round_use_ports_of_their_own() -> None:
    scene = make_scene(4)
    scene.run(Choice(only=("bandwidth",)))
    ports = {
        words[words.index("-p") + 1]
        for guest in scene.guests.guests.values()
        for words in guest.asked
        if words[0] == "timeout"
    }
    assert ports == {"18515", "18516"}


def test_a_virtual_function_without_ats_of_its_own_is_left_to_the_bandwidth() -> None:
    scene = make_scene()
    text = printed("lspci-two-functions-one-ats-off.txt")
    scene.answer("lspci", "-vvv", "-s", "0000:0b:00.0", by=text[text.index("0000:13:00.0 ") :])
    found = found_in(scene.run(), "ats", "hvd-01")
    assert found.state is CheckState.SKIPPED
    assert "virtual functions" in found.why


@pytest.mark.parametrize(
    ("default", "own", "state"),
    [("shared", "sharedDirect", "passed"), ("sharedDirect", "shared", "failed"), ("shared", None, "skipped")],
)
def test_a_gpus_own_graphics_type_counts_as_it_does_in_planning(
    default: str, own: str | None, state: str
) -> None:
    scene = make_scene()
    view = scene.hosts[0]
    gpu = view.host.gpus[0].model_copy(update={"graphics_type": own and GraphicsType(own)})
    host = view.host.model_copy(update={"graphics_type": GraphicsType(default), "gpus": (gpu,)})
    scene.hosts[0] = replace(view, host=host)
    found = found_in(scene.run(Choice(only=("graphics",))), "graphics", view.name)
    assert found.state == state
    now = datetime(2026, 11, 20, tzinfo=UTC)
    observed = Inventory(vcenter=VCenter(address="vc"), read_at=now, hosts=(host,))
    (planned,) = CapacityReader(observed, load_catalog()).read(host).gpus
    assert (planned.obstacle == "VG502") is (state == "failed")
