"""Training check of all workers together: an allreduce over all of their GPUs, exact and as fast as the line.

It is started as training is, by `train` on the first VM, with the framework that the plan trains by. If MPI
starts it and the image holds nccl-tests, `all_reduce_perf` measures; else a small program of this tool, which
needs Horovod or PyTorch only, is put on every worker and removed again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from importlib import resources
from typing import assert_never

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.verification import Thresholds
from vgpu_cfg.parsers.allreduce import AllReduce, is_direct, parse_nccl_tests, parse_probe, transports
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.asking import (
    Asking,
    Command,
    Step,
    Verdict,
    WriteFile,
    failed,
    is_absent,
    passed,
    said,
    skipped,
    unproven,
)
from vgpu_cfg.verification.checks.container_checks import in_image
from vgpu_cfg.verification.views import GuestView

TRAIN = "/usr/local/bin/train"
PROBE_FILE = "/opt/vgpu-cfg/verify-allreduce.py"
"""In the folder that every worker container mounts read-only at the same path."""

_FOR_NCCL_TESTS = "command -v all_reduce_perf && command -v mpirun"
_FOR_THEM_BY_HOROVOD = rf"{_FOR_NCCL_TESTS} && horovodrun --check-build | grep '\[X\] MPI'"
"""`train --mpi` starts them, which wants Open MPI and a Horovod that was built with it."""

_HAS_TORCH = "python3 -c 'import torch.distributed as found; print(found.is_available())'"

HOROVOD_PROBE = "allreduce_probe.txt"
TORCH_PROBE = "allreduce_torch_probe.txt"

NCCL_TESTS = ("all_reduce_perf", "-b", "256M", "-e", "256M", "-n", "20", "-g", "1")
_LIMIT_SECONDS = 600.0
_BY_RDMA = "NET/IB"
"""How NCCL calls RDMA, of InfiniBand and RoCE alike; its plugins add to it, as in NET/IBext_v8."""

_GIGABITS = 8


@dataclass(frozen=True, slots=True)
class TrainingView:
    """The workers, and the VM from which training starts."""

    launcher: GuestView
    workers: tuple[GuestView, ...]
    thresholds: Thresholds = field(default_factory=Thresholds)

    @property
    def name(self) -> str:
        """How they are called together."""
        return ", ".join(worker.name for worker in self.workers)

    @property
    def trained(self) -> tuple[GuestView, ...]:
        """The workers that compute: a head that only starts the others has no GPU where they have."""
        return tuple(worker for worker in self.workers if worker.gpus) or self.workers

    @property
    def ranks(self) -> int:
        """How many processes take part: the slots of all workers."""
        module = self.launcher.launcher
        return sum(worker.slots for worker in module.workers) if module is not None else 0

    @property
    def line_rate_gbps(self) -> float | None:
        """The combined rate of the slowest worker's RDMA NICs; None if one worker's is unknown."""
        rates = [sum(nic.line_rate_gbps or 0 for nic in worker.learned.rdma) for worker in self.trained]
        return min(rates) if rates and all(rates) else None


def ask_allreduce(view: TrainingView) -> Asking:
    """Sum a vector over all GPUs: see that every number is right, and how fast it went."""
    module = view.launcher.launcher
    if module is None:
        return skipped("the plan does not start training")
    if module.framework == "none":
        return skipped("training in the plan runs one command per worker, without a framework")
    if len(module.workers) > len(view.workers):
        return skipped("this run does not verify all of the workers", is_asked=True)
    if view.ranks < 2:
        return skipped("only one process, so no allreduce")
    match module.framework:
        case "horovod":
            if (yield from _holds(view, _FOR_THEM_BY_HOROVOD, "all_reduce_perf")):
                return (yield from _by_nccl_tests(view, "--mpi"))
            return (yield from _by_probe(view, HOROVOD_PROBE))
        case "torchrun":
            return (yield from _by_probe(view, TORCH_PROBE))
        case "mpi":
            if (yield from _holds(view, _FOR_NCCL_TESTS, "all_reduce_perf")):
                return (yield from _by_nccl_tests(view))
            if (yield from _holds(view, _HAS_TORCH, "True")):
                return (yield from _by_probe(view, TORCH_PROBE))
            return unproven(
                "no MPI allreduce test is available: install nccl-tests (all_reduce_perf, built with "
                "MPI) or PyTorch"
            )
        case _ as never:
            assert_never(never)


def _holds(view: TrainingView, words: str, sign: str) -> Generator[Step, ShellResult, bool]:
    """Whether what trains prints a sign for a line of sh, in the image or on the guest itself."""
    image = view.launcher.image
    line = ("sh", "-c", words)
    command = in_image(image.runtime, image.image, line, gpus=False) if image is not None else line
    answer = yield Command(command, timeout_seconds=180)
    return answer.status == 0 and sign in answer.stdout


def _by_nccl_tests(view: TrainingView, *options: str) -> Asking:
    answer = yield _train((*options, "--", *NCCL_TESTS))
    return _read_sum(view, answer, parse_nccl_tests)


def _by_probe(view: TrainingView, probe: str) -> Asking:
    source = resources.files("vgpu_cfg.verification.checks").joinpath(probe)
    machines = dict.fromkeys([view.launcher.name, *(worker.name for worker in view.workers)])
    text = source.read_text(encoding="utf-8")
    try:
        for machine in machines:
            yield WriteFile(PROBE_FILE, text, on=machine)
        answer = yield _train(("--", "python3", PROBE_FILE))
    finally:
        for machine in machines:
            yield Command(("rm", "-f", PROBE_FILE), on=machine, is_cleanup=True)
    return _read_sum(view, answer, parse_probe)


def _train(words: tuple[str, ...]) -> Command:
    return Command(("env", "NCCL_DEBUG=INFO", TRAIN, *words), timeout_seconds=_LIMIT_SECONDS)


def _read_sum(view: TrainingView, answer: ShellResult, parse: Callable[[str], AllReduce]) -> Verdict:
    """Read the result; check that it is exact, whole, on GPUs and as fast as the line."""
    if is_absent(answer):
        return failed(VerifyCode.ALLREDUCE_FAILED, f"{TRAIN} does not exist", "the command `train`")
    try:
        result = parse(answer.stdout)
    except UnreadableOutput as error:
        seen = said(answer) if answer.status != 0 else error.message
        return failed(VerifyCode.ALLREDUCE_FAILED, seen, "an allreduce that completes")
    return _assess(view, result, answer.stdout + answer.stderr)


def _assess(view: TrainingView, result: AllReduce, text: str) -> Verdict:
    ways = ", ".join(sorted(way for way in transports(text) if way.startswith("NET")))
    words = (
        f"{result.busbw_gigabytes:.1f} GB/s bus bandwidth (by {result.by}), {result.ranks} ranks, "
        f"{ways or 'transport unknown'}"
    )
    measured = {"busbw_gigabytes": result.busbw_gigabytes, "ranks": float(result.ranks)}
    if result.ranks != view.ranks:
        return failed(
            VerifyCode.ALLREDUCE_FAILED,
            f"{result.ranks} ranks participated",
            f"{view.ranks}",
            remedy="check the host file and GPUs of each worker; nccl-tests must be built with MPI",
        )
    if result.is_exact is False:
        return failed(VerifyCode.ALLREDUCE_WRONG, words, "correct sums", measured=measured)
    if result.is_exact is None:
        return failed(VerifyCode.ALLREDUCE_FAILED, f"{words}, but the sums were not checked", "correct sums")
    if result.is_on_gpu is False and any(worker.gpus for worker in view.trained):
        return failed(
            VerifyCode.ALLREDUCE_FAILED,
            f"{words}, on CPUs",
            "sums on the GPUs",
            remedy="check whether the image's framework was built for GPUs and with which CUDA version",
        )
    reached = transports(text)
    has_gpus = any(worker.gpus for worker in view.trained)
    if has_gpus and (not reached or (len(view.trained) > 1 and not ways)):
        return failed(VerifyCode.NO_TRANSPORT, words, "a transport reported by NCCL", measured=measured)
    has_rdma = bool(view.trained) and all(worker.learned.rdma for worker in view.trained)
    if (
        has_gpus
        and has_rdma
        and len(view.trained) > 1
        and not all(way.startswith(_BY_RDMA) for way in ways.split(", "))
    ):
        return failed(VerifyCode.NO_TRANSPORT, words, f"only {_BY_RDMA}", measured=measured)
    gpudirect = bool(view.trained) and all(worker.gpudirect for worker in view.trained)
    if gpudirect and len(view.trained) > 1 and is_direct(text) is not True:
        # Belief: nccl-receives-with-gdrdma.
        return failed(VerifyCode.NO_GPUDIRECT, words, "NET/IB/GDRDMA", measured=measured)
    line = view.line_rate_gbps
    if line is None:
        if not any(worker.rdma_nics for worker in view.trained):
            return passed(words, "correct sums; no RDMA line rate to compare with", measured=measured)
        return unproven(f"{words}, correct; the line rate is unknown", measured=measured)
    least = view.thresholds.busbw * line / _GIGABITS
    measured["share"] = round(result.busbw_gigabytes * _GIGABITS / line, 3)
    expected = f"at least {least:.1f} of {line / _GIGABITS:g} GB/s, correct"
    if result.busbw_gigabytes < least:
        return failed(VerifyCode.ALLREDUCE_SLOW, words, expected, measured=measured)
    return passed(words, expected, measured=measured)
