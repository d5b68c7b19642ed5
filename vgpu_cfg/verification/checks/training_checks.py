"""Checks of all workers together: alike in driver, image and setup, and an exact allreduce at line speed.

The allreduce is started as training is, by `train` on the first VM, with the framework that the plan trains
by. If MPI starts it and the image holds nccl-tests, `all_reduce_perf` measures; else a small program of this
tool, which needs Horovod or PyTorch only, is put on every worker and removed again.

Belief: guest-sees-ecc-but-no-power-limit.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import assert_never

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.verification import Thresholds
from vgpu_cfg.model.wording import counted
from vgpu_cfg.parsers.allreduce import AllReduce, is_direct, parse_nccl_tests, parse_probe, transports
from vgpu_cfg.parsers.text import UnreadableOutput
from vgpu_cfg.ports import ShellResult
from vgpu_cfg.verification.asking import (
    TIMED_OUT,
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
from vgpu_cfg.verification.checks.container_checks import CLIENTS, CONTAINER, IMAGES_FOLDER, in_image
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
        return skipped("this run does not verify all workers", is_asked=True)
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
            counted(result.ranks, "rank") + " participated",
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


_ALONE = "only one worker, so nothing to compare"


def ask_same_driver(view: TrainingView) -> Asking:
    """See whether all workers have one driver: NCCL, CUDA and the framework see one version or fail oddly."""
    yield from ()
    seen = {
        one.name: one.learned.gpus.driver_version or "unknown" for one in view.trained if one.learned.gpus
    }
    if len(view.trained) < 2:
        return skipped(_ALONE)
    if not any(worker.gpus for worker in view.trained):
        return skipped("no worker has a GPU")
    if len(set(seen.values())) > 1:
        return failed(VerifyCode.DRIVERS_DIFFER, _by_value(seen), "the same version on all workers")
    version = next(iter(seen.values()))
    if len(seen) < len(view.trained) or version == "unknown":
        return unproven("not every worker reports its driver version")
    return passed(version)


def ask_addresses(view: TrainingView) -> Asking:
    """See that no two machines have one address or one MAC on the NICs of the plan."""
    yield from ()
    owners: dict[str, list[str]] = {}
    for one in list({one.name: one for one in (view.launcher, *view.workers)}.values()):
        planned = (one.learned.interface_of(nic) for nic in one.nics)
        for seen in (interface for interface in planned if interface is not None):
            for value in (*(address.partition("/")[0] for address in seen.addresses), seen.mac):
                owners.setdefault(value, []).append(one.name)
    if not owners:
        return skipped("the plan does not configure their NICs")
    twice = [f"{value} on {', '.join(names)}" for value, names in owners.items() if value and len(names) > 1]
    if twice:
        return failed(
            VerifyCode.OTHER_MACHINE, "; ".join(twice), "each IP and MAC address on only one machine"
        )
    return passed(f"{len(owners)} unique IP and MAC addresses")


def ask_same_setup(view: TrainingView) -> Asking:
    """See whether NICs of one model have one firmware, and GPUs of one name one mode of ECC."""
    yield from ()
    if len(view.trained) < 2:
        return skipped(_ALONE)
    seen: dict[str, dict[str, str]] = {}
    for worker in view.trained:
        own = {nic.device for nic in worker.learned.rdma}
        for device in worker.learned.devices:
            if device.name in own and device.firmware:
                kind = f"firmware of NICs {device.part_id or 'of an unknown model'}"
                seen.setdefault(kind, {})[f"{worker.name} {device.name}"] = device.firmware
        for gpu in worker.learned.gpus.gpus if worker.learned.gpus is not None else ():
            if gpu.ecc is not None:
                seen.setdefault(f"ECC of {gpu.name}", {})[f"{worker.name} {gpu.pci_id}"] = gpu.ecc
    differing = [
        f"{kind}: {_by_value(values)}" for kind, values in seen.items() if len(set(values.values())) > 1
    ]
    if differing:
        return failed(VerifyCode.WORKERS_DIFFER, "; ".join(differing), "the same on all workers")
    if not seen:
        return skipped("no worker reports NIC firmware or ECC state", is_asked=True)
    return passed("; ".join(f"{kind}: {next(iter(values.values()))}" for kind, values in seen.items()))


HOST_FILE = "/opt/vgpu-cfg/hostfile"


def ask_names(view: TrainingView) -> Asking:
    """See whether the host file has all workers, and their names lead over the planned network on each."""
    module = view.launcher.launcher
    if module is None:
        return skipped("no launcher is configured for these workers")
    answer = yield Command(("cat", HOST_FILE), on=view.launcher.name)
    if answer.status == 0:
        listed = {line.split()[0] for line in answer.stdout.splitlines() if line.split("#")[0].strip()}
        absent = [worker.name for worker in module.workers if worker.name not in listed]
        if absent:
            return failed(
                VerifyCode.GUEST_UNSTAGED,
                f"the host file on {view.launcher.name} does not list {', '.join(absent)}",
                f"{counted(len(module.workers), 'worker')} in {HOST_FILE}",
                meaning="training silently starts without them",
                remedy=f"run `sudo vgpu-cfg-stage launcher` in {view.launcher.name} to rewrite it",
            )
    wrong: list[str] = []
    count = 0
    for machine in {one.name: one for one in (view.launcher, *view.workers)}.values():
        for peer in machine.mesh.peers if machine.mesh is not None else ():
            if not peer.names or not peer.addresses:
                continue
            answer = yield Command(("getent", "ahosts", peer.names[0]), on=machine.name)
            found = dict.fromkeys(line.split()[0] for line in answer.stdout.splitlines() if line.strip())
            count += 1
            first = next(iter(found), "")
            is_wrong = found and not found.keys() & set(peer.addresses)
            told = ", ".join(sorted(found))
            if peer.vm == machine.name:
                # Debian maps the own name to 127.0.1.1 (Debian Reference, "The hostname resolution").
                is_wrong, told = first.startswith(("127.", "::1")), first
            if answer.status == 0 and is_wrong:
                wrong.append(
                    f"on {machine.name}, the name {peer.names[0]} resolves to {told}, not {peer.addresses[0]}"
                )
    if wrong:
        return failed(
            VerifyCode.OTHER_MACHINE,
            "; ".join(wrong),
            "the addresses in the plan",
            meaning="/etc/hosts or DNS directs training to another network or machine; Gloo and MPI "
            "advertise the address that a worker's own name resolves to",
            remedy="run `sudo vgpu-cfg-stage hosts` in that guest to rewrite /etc/hosts; then check its DNS",
        )
    return passed(f"{counted(count, 'name')}, {counted(len(module.workers), 'worker')} in the host file")


def ask_same_image(view: TrainingView) -> Asking:
    """See whether the image is the same content on all workers, and whether their containers run it."""
    ids: dict[str, str] = {}
    old: list[str] = []
    for worker in view.workers:
        image = worker.image
        if image is None:
            continue
        if image.runtime == "apptainer":
            name = hashlib.sha256(image.image.encode()).hexdigest()[:16]
            answer = yield Command(
                ("sha256sum", f"{IMAGES_FOLDER}/{name}.sif"), on=worker.name, timeout_seconds=600
            )
            ids[worker.name] = answer.stdout.partition(" ")[0] if answer.status == 0 else ""
            continue
        client = CLIENTS[image.runtime]
        words = (client, "image", "inspect", "--format", "{{.Id}}", image.image)
        answer = yield Command(words, on=worker.name)
        if answer.status != 0:
            return failed(
                VerifyCode.IMAGES_DIFFER, f"{worker.name}: {said(answer)}", f"{image.image} on all workers"
            )
        ids[worker.name] = answer.stdout.strip()
        if worker.worker is not None and image.runtime == "docker":
            words = (client, "container", "inspect", "--format", "{{.Image}}", CONTAINER)
            answer = yield Command(words, on=worker.name)
            if answer.status == 0 and answer.stdout.strip() not in ("", ids[worker.name]):
                old.append(worker.name)
    if any(not one for one in ids.values()):
        return unproven("the image file could not be read on every worker")
    if not ids:
        return skipped("no worker has a training image")
    if len(set(ids.values())) > 1:
        apptainer = any(one.image is not None and one.image.runtime == "apptainer" for one in view.workers)
        if apptainer:
            return unproven("the Apptainer image files differ, because each worker built its own")
        return failed(VerifyCode.IMAGES_DIFFER, _by_value(ids), "the same content on all workers")
    if old:
        return failed(
            VerifyCode.IMAGES_DIFFER,
            f"an older image is in use in the container on {', '.join(old)}",
            "the image currently on the worker",
            meaning="the container was started before the image was pulled again",
            remedy="`systemctl restart vgpu-cfg-worker` in the guest",
        )
    return passed(_short(next(iter(ids.values()))))


def ask_shared_folder(view: TrainingView) -> Asking:
    """See whether all machines see one folder: each writes a file into it, each reads all of them."""
    machines = list({one.name: one for one in (view.launcher, *view.workers)}.values())
    sharing = [one for one in machines if one.shared_folder is not None]
    if not sharing:
        return skipped("the plan has no shared folder")
    path = next(one.shared_folder.path for one in sharing if one.shared_folder is not None).rstrip("/")
    stamp = f"{view.launcher.now:%Y%m%d%H%M%S%f}"
    files = {one.name: f"{path}/.vgpu-cfg-verify-{stamp}-{one.name}" for one in sharing}
    faults: list[str] = []
    written: list[GuestView] = []
    try:
        for one in sharing:
            module = one.shared_folder
            if module is not None and module.role == "client":
                # Whoever looks into a folder of a server that is gone waits for ever: here it has an end.
                words = ("timeout", "--kill-after=5", "30", "ls", f"{path}/")
                answer = yield Command(words, on=one.name, timeout_seconds=60)
                if answer.status == TIMED_OUT:
                    faults.append(f"{one.name} receives no response from the server that exports {path}")
                    continue
                mounted = yield Command(("findmnt", "-n", "-o", "FSTYPE,SOURCE", "-T", path), on=one.name)
                if answer.status != 0 or "nfs" not in mounted.stdout:
                    faults.append(f"{one.name} has not mounted {path}")
                    continue
                export = _export_of(mounted.stdout)
                if module.server and export and export.strip("[]") != module.server:
                    faults.append(
                        f"{one.name} has mounted it from a different server, {export}, not {module.server}"
                    )
                    continue
            written.append(one)
            words = ("sh", "-c", 'printf "%s" "$0" > "$1"', one.name, files[one.name])
            answer = yield Command(words, on=one.name, timeout_seconds=60)
            if answer.status != 0:
                faults.append(f"{one.name} cannot write: {said(answer)}")
        for one in sharing if not faults else ():
            answer = yield Command(("cat", *files.values()), on=one.name, timeout_seconds=60)
            if answer.stdout != "".join(files):
                faults.append(f"{one.name} does not see the files written by other machines")
    finally:
        for one in written:
            yield Command(("rm", "-f", files[one.name]), on=one.name, timeout_seconds=60, is_cleanup=True)
    told = counted(len(sharing), "machine")
    if faults:
        return failed(
            VerifyCode.NOT_SHARED,
            "; ".join(faults),
            f"{path}, the same on {told}",
        )
    return passed(f"{path}: {told} can read and write")


def _export_of(text: str) -> str:
    """Return the server of the last NFS mount that `findmnt -o FSTYPE,SOURCE` lists, "" if it lists none.

    With systemd's automount the line before is that of autofs, whose source is no server.
    """
    rows = [line.split() for line in text.splitlines()]
    sources = [row[1] for row in rows if len(row) > 1 and row[0].startswith("nfs")]
    return sources[-1].rpartition(":")[0] if sources else ""


def _by_value(seen: Mapping[str, str]) -> str:
    values: dict[str, list[str]] = {}
    for name, value in seen.items():
        values.setdefault(value, []).append(name)
    return "; ".join(f"{_short(value) or 'unknown'} on {_names(names)}" for value, names in values.items())


def _names(names: Iterable[str]) -> str:
    return ", ".join(names)


def _short(value: str) -> str:
    digest = value.removeprefix("sha256:")
    return f"{digest[:12]}" if len(digest) == 64 else value
