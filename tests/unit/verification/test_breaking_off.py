"""A run that is broken off, or whose connection breaks, leaves nothing running on any machine."""

from __future__ import annotations

import pytest

from tests.unit.verification.two_workers import found_in, make_scene
from vgpu_cfg.errors import GuestError
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification import Choice

STOP = ("systemctl", "stop", "vgpu-cfg-verify-18515")


def test_ctrl_c_while_measuring_stops_the_server_first() -> None:
    scene = make_scene()

    def interrupted(_: tuple[str, ...]) -> ShellResult:
        raise KeyboardInterrupt

    scene.answer("timeout", by=interrupted)
    with pytest.raises(KeyboardInterrupt):
        scene.run(Choice(only=("bandwidth",)))
    assert scene.guest("hvd-02").asked[-1] == STOP
    assert [guest.closed for guest in scene.guests.guests.values()] == [1, 1]


def test_a_connection_that_breaks_while_measuring_stops_the_server_too() -> None:
    scene = make_scene()
    scene.answer(
        "timeout", by=GuestError("the connection broke", subject="hvd-01", remedy="run the command again")
    )
    result = found_in(scene.run(Choice(only=("bandwidth",))), "bandwidth", "hvd-01 -> hvd-02")
    assert (result.code, result.observed, result.remedy) == (
        "VG657",
        "the connection broke",
        "run the command again",
    )
    assert STOP in scene.guest("hvd-02").asked


def test_a_probe_is_taken_away_where_training_fails() -> None:
    scene = make_scene()
    scene.answer(
        "env", by=GuestError("the connection broke", subject="hvd-01", remedy="run the command again")
    )
    scene.run(Choice(only=("allreduce",)))
    for name in ("hvd-01", "hvd-02"):
        assert scene.guest(name).asked[-1] == ("rm", "-f", "/opt/vgpu-cfg/verify-allreduce.py")


@pytest.mark.parametrize(
    ("check", "work", "cleanup"),
    [
        ("bandwidth", "timeout", ("systemctl", "stop")),
        ("allreduce", "env", ("rm", "-f")),
        ("shared-folder", "sh", ("rm", "-f")),
    ],
)
def test_a_cleanup_that_fails_too_does_not_hide_the_reason(
    check: str, work: str, cleanup: tuple[str, ...]
) -> None:
    scene = make_scene()
    for name, guest in scene.guests.guests.items():
        guest.answers = {words: one for words, one in guest.answers.items() if words[0] != work}
        for words, message in (((work,), "the connection broke"), (cleanup, "still broken")):
            scene.answer(*words, by=GuestError(message, subject=name, remedy="run again"), of=name)
    report = scene.run(Choice(only=(check,)))
    assert {one.observed for one in report.results if one.check == check} == {"the connection broke"}
    assert any(guest.was_asked(*cleanup) for guest in scene.guests.guests.values())


def test_a_server_that_is_not_up_yet_is_tried_again() -> None:
    from tests.unit.parsers.printed import printed

    scene = make_scene()
    answers = [printed("ib-write-bw-nobody-listens.txt")] * 2 + [printed("ib-write-bw-by-time.txt")] * 9
    scene.answer("timeout", by=lambda _: answers.pop(0))
    report = scene.run(Choice(only=("bandwidth",)))
    assert found_in(report, "bandwidth", "hvd-01 -> hvd-02").observed == "94.8 Gb/s"
    assert scene.pauses == [1, 1, 1, 1]  # three tries there, one back


@pytest.mark.parametrize(
    "said",
    [
        "ib_write_bw: unrecognized option '--use_cuda=0'\n",
        "ib-write-bw-by-time.txt",
        "ib-write-bw-unrecognized-4.5-0.17.txt",
        "ib-write-bw-unsupported-memory-25.01.txt",
    ],
)
def test_a_perftest_without_cuda_is_not_taken_for_gpu_memory(said: str) -> None:
    from tests.unit.parsers.printed import printed

    scene = make_scene()
    host = printed("ib-write-bw-by-time.txt")
    cuda = printed(said) if said.endswith(".txt") else said
    scene.answer("timeout", by=lambda words: cuda if "--use_cuda=0" in words else host)
    result = found_in(scene.run(), "bandwidth-gpu", "hvd-01 -> hvd-02")
    assert "built without CUDA" in result.why
