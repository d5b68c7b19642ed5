"""Which allreduce is run by which framework, and what of a framework must be there first."""

from __future__ import annotations

import pytest

from tests.unit.verification.two_workers import (
    IMAGE,
    RUN_IMAGE,
    TABLE,
    VIA,
    Scene,
    failing,
    trains_by,
)
from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.plan_file.training_entries import Framework
from vgpu_cfg.model.verification import CheckResult, CheckState
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification import Choice

TRAIN = ("env", "NCCL_DEBUG=INFO", "/usr/local/bin/train")
IN_IMAGE = (*RUN_IMAGE, "--gpus", "all", IMAGE)


def results(scene: Scene, check: str) -> list[CheckResult]:
    return [one for one in scene.run(Choice(only=("allreduce", "framework"))).results if one.check == check]


def asked(scene: Scene) -> list[str]:
    return [" ".join(words) for words in scene.guest().asked]


def test_torchrun_sums_by_pytorch() -> None:
    scene = trains_by("torchrun")
    (found,) = results(scene, "allreduce")
    assert found.state is CheckState.PASSED, found
    assert "by torch" in found.observed
    probe = scene.guest("hvd-02").files["/opt/vgpu-cfg/verify-allreduce.py"]
    compile(probe, "probe", "exec")
    assert "horovod" not in probe
    assert not [line for line in asked(scene) if "horovodrun" in line or "all_reduce_perf" in line]


def test_mpi_sums_by_nccl_tests_where_they_are() -> None:
    scene = trains_by("mpi")
    scene.answer(*RUN_IMAGE, IMAGE, "sh", by="/usr/bin/all_reduce_perf\n/usr/bin/mpirun\n")
    scene.answer(*TRAIN, by=VIA + TABLE)
    (found,) = results(scene, "allreduce")
    assert found.state is CheckState.PASSED, found
    assert "by nccl-tests" in found.observed
    assert not [line for line in asked(scene) if "--mpi" in line]


def test_mpi_sums_by_pytorch_without_them() -> None:
    scene = trains_by("mpi")

    def has_torch(words: tuple[str, ...]) -> ShellResult:
        return ShellResult(status=0, stdout="True\n") if "torch" in words[-1] else failing("", 1)

    scene.answer(*RUN_IMAGE, IMAGE, "sh", by=has_torch)
    (found,) = results(scene, "allreduce")
    assert found.state is CheckState.PASSED, found
    assert "by torch" in found.observed


def test_with_neither_nothing_is_proven_and_it_says_what_to_install() -> None:
    (found,) = results(trains_by("mpi"), "allreduce")
    assert found.state is CheckState.UNPROVEN, found
    assert "nccl-tests" in found.why


def test_one_command_on_each_worker_sums_nothing() -> None:
    (found,) = results(trains_by("none"), "allreduce")
    assert found.state is CheckState.SKIPPED


@pytest.mark.parametrize(
    ("framework", "words"),
    [("torchrun", "PyTorch 2.6.0+cu126, CUDA 12.6, NCCL 2.21.5"), ("mpi", "Open MPI 4.1.7")],
)
def test_what_it_trains_by_is_told(framework: Framework, words: str) -> None:
    found = results(trains_by(framework), "framework")
    assert [one.observed for one in found] == [words, words]


@pytest.mark.parametrize("framework", ["horovod", "none"])
def test_other_frameworks_are_not_asked_for_it(framework: Framework) -> None:
    assert {one.state for one in results(trains_by(framework), "framework")} == {CheckState.SKIPPED}


@pytest.mark.parametrize(
    ("framework", "words", "printed", "told"),
    [
        ("torchrun", ("sh",), failing("", 127), "torchrun is not installed in nvcr.io/"),
        (
            "torchrun",
            ("sh",),
            failing("/usr/bin/torchrun\nModuleNotFoundError: No module named 'torch'", 1),
            "No module named 'torch'",
        ),
        ("torchrun", ("sh",), "torch 2.6.0\ncuda none\nnccl none\ndistributed yes\n", "CUDA none"),
        ("mpi", ("mpirun",), failing("", 127), "mpirun is not installed in nvcr.io/"),
        ("mpi", ("mpirun",), "HYDRA build details:\n    Version:   4.0.2\n", "MPICH"),
    ],
    ids=["no torchrun", "no torch", "for CPUs", "no mpirun", "MPICH"],
)
def test_without_it_training_is_not_tried(
    framework: Framework, words: tuple[str, ...], printed: object, told: str
) -> None:
    scene = trains_by(framework)
    scene.answer(*IN_IMAGE, *words, by=printed)  # type: ignore[arg-type]  # a table's answer
    first, _ = results(scene, "framework")
    assert (first.state, first.code) == (CheckState.FAILED, VerifyCode.NO_FRAMEWORK)
    assert told in first.observed
    (whole,) = results(scene, "allreduce")
    assert whole.state is CheckState.NOT_ASKED
