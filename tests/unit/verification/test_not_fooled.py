"""What looks like success and is none: silence, half of the truth, and guests that paint on the terminal."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.verification.cases import RATE, TRAIN
from tests.unit.verification.two_workers import (
    FACTS,
    GPU,
    IMAGE,
    PROBE,
    RUN_IMAGE,
    VIA,
    Scene,
    failing,
    host_view,
    make_scene,
)
from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.verification import CheckResult, CheckState, Thresholds
from vgpu_cfg.model.wording import shown
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification import Choice
from vgpu_cfg.verification.checks.network_checks import rdma_mtu
from vgpu_cfg.verification.checks.training_checks import TrainingView
from vgpu_cfg.verification.learned import RdmaNic
from vgpu_cfg.verification.views import WantedVm

SENT = "hvd-01:310:355 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[0] [send] via NET/IB/0(0)\n"
RECEIVED = "hvd-01:310:355 [0] NCCL INFO Channel 00/0 : 1[0] -> 0[0] [receive] via NET/IB/0(0)"
UNCHECKED = """\
#  Rank  0 Group  0 Pid   4242 on hvd-01 device  0
#  Rank  1 Group  0 Pid   4242 on hvd-02 device  0
   268435456  67108864  float  sum  -1  23012.3  11.67  11.67  N/A  23012.3  11.67  11.67  N/A
"""


def _result(scene: Scene, check: str, subject: str = "") -> CheckResult:
    found = [one for one in scene.run().results if one.check == check and subject in ("", one.subject.name)]
    return found[0]


def _allreduce(by: str) -> CheckResult:
    scene = make_scene()
    scene.answer(*TRAIN, by=by)
    return _result(scene, "allreduce")


@pytest.mark.parametrize(
    ("mtu", "wanted"),
    [(9000, 4096), (4192, 4096), (4191, 2048), (4160, 2048), (1500, 1024), (1120, 1024), (1119, 512)],
)
def test_the_rdma_mtu_is_what_the_kernel_makes_of_an_interfaces(mtu: int, wanted: int) -> None:
    assert rdma_mtu(mtu) == wanted


def test_an_allreduce_on_cpus_proves_nothing_of_gpus() -> None:
    found = _allreduce(VIA + PROBE.replace('"is_on_gpu": true', '"is_on_gpu": false'))
    assert (found.state, found.code) == (CheckState.FAILED, VerifyCode.ALLREDUCE_FAILED)
    assert "on CPUs" in found.observed


def test_a_head_without_gpus_takes_nothing_from_what_workers_must_reach() -> None:
    scene = make_scene()
    report = scene.run()
    assert report.passes
    workers = tuple(scene.views.values())
    nic = RdmaNic(interface="ens192", line_rate_gbps=100)
    able = tuple(one.knowing(one.learned.model_copy(update={"rdma": (nic,)})) for one in workers)
    head = replace(workers[0], name="head", gpus=0, gpudirect=False)
    view = TrainingView(workers[0], (head, *able))
    assert view.trained == able
    assert view.line_rate_gbps == 100


def test_sums_that_nobody_checked_are_not_exact() -> None:
    scene = make_scene()
    scene.answer(*RUN_IMAGE, IMAGE, "sh", by="/usr/local/bin/all_reduce_perf\n")
    scene.answer(*TRAIN, by=VIA + UNCHECKED)
    found = _result(scene, "allreduce")
    assert (found.state, found.code) == (CheckState.FAILED, VerifyCode.ALLREDUCE_FAILED)


def test_one_channel_past_gpu_memory_is_one_too_many() -> None:
    found = _allreduce(f"{RECEIVED}/GDRDMA\n{RECEIVED}\n{PROBE}")
    assert found.code == VerifyCode.NO_GPUDIRECT


def test_sending_by_way_of_host_memory_is_nccls_own_choice() -> None:
    assert _allreduce(f"{SENT}{RECEIVED}/GDRDMA\n{PROBE}").state is CheckState.PASSED


@pytest.mark.parametrize(
    "said", ["Unexpected CM event bl blka 8\n Unable to perform rdma_client function", "Couldn't connect"]
)
def test_a_server_that_does_not_listen_yet_is_asked_again(said: str) -> None:
    scene = make_scene()
    healthy = scene.guest().answers[RATE]
    tries: list[int] = []

    def slow(words: tuple[str, ...]) -> str | ShellResult:
        tries.append(1)
        assert callable(healthy)
        return failing(said) if len(tries) == 1 else healthy(words)

    scene.guest().answers[RATE] = slow
    assert _result(scene, "bandwidth").state is CheckState.PASSED
    assert len(tries) > 1


def test_a_staging_of_an_earlier_plan_is_none_of_this_one() -> None:
    scene = make_scene()
    modules = [
        {"name": "driver", "state": "done", "digest": "0123456789"},
        {"name": "launcher-of-old", "state": "done", "digest": "0123456789"},
    ]
    report = json.dumps({"spec": "0123456789", "state": "done", "modules": modules})
    scene.answer("cat", "/var/lib/vgpu-cfg/report.json", by=report)
    found = _result(scene, "staged", "hvd-01")
    assert (found.code, found.observed) == (VerifyCode.GUEST_UNSTAGED, "staged from an earlier plan: driver")


def test_what_the_plan_asks_for_no_more_does_not_make_a_staging_old() -> None:
    scene = make_scene()
    modules = [{"name": "traffic", "state": "done", "digest": "0123456789"}]
    report = json.dumps({"spec": "0123456789", "state": "done", "modules": modules})
    scene.answer("cat", "/var/lib/vgpu-cfg/report.json", by=report)
    assert _result(scene, "staged", "hvd-01").state is CheckState.PASSED


@pytest.mark.parametrize("said", ["\x1b[2J\x1b[31mall is well", "a\rb\x07\u202e" + "x" * 100_000])
def test_what_a_guest_says_cannot_paint_over_the_table(said: str) -> None:
    scene = make_scene()
    module = {"name": "driver", "state": "failed", "why": said}
    report = json.dumps({"spec": "", "state": "failed", "modules": [module]})
    scene.answer("cat", "/var/lib/vgpu-cfg/report.json", by=report)
    for found in scene.run().results:
        told = f"{found.observed}{found.meaning}{found.remedy}{found.why}{found.expected}"
        assert shown(told).isprintable()
        assert len(found.observed) <= 2000


def test_a_host_that_does_not_trust_dscp_protects_nothing_that_guests_mark() -> None:
    scene = make_scene()
    vm = WantedVm("hvd-01", {}, ("sriov",), gpudirect=True)
    modules = {"nmlx5_core": "pfctx=0x08 pfcrx=0x08", "nmlx5_rdma": "pcp_force=3 dscp_force=26"}
    facts = FACTS.model_copy(update={"modules": modules})
    scene.hosts[0] = replace(host_view(), vms=(vm,), facts=facts)
    found = _result(scene, "host-roce")
    assert (found.code, found.observed) == (VerifyCode.HOST_ROCE, "nmlx5_core trust_state not set")


def test_gpus_that_are_shared_on_purpose_pass_and_their_tenants_are_named() -> None:
    scene = make_scene()
    scene.hosts = [replace(scene.hosts[0], tenants={GPU: ("desktop-07",)})]
    refused = _result(scene, "tenants")
    assert (refused.code, refused.state) == (VerifyCode.GPU_TAKEN, CheckState.FAILED)
    choice = Choice(thresholds=Thresholds(shared_gpus=True))
    (found,) = [one for one in scene.run(choice).results if one.check == "tenants"]
    assert (found.state, found.observed) == (CheckState.PASSED, f"desktop-07 on {GPU}")
