"""Container checks of a guest: runtime, GPUs, the framework in the image, and the running worker.

Of the worker's container, locked memory, shared memory, GPUs and RDMA devices are checked.

Belief: image-id-of-a-container.
"""

from __future__ import annotations

import hashlib
import re

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.model.wording import counted
from vgpu_cfg.parsers.frameworks import ASK_TORCH, parse_mpirun, parse_torch
from vgpu_cfg.parsers.guest_system import parse_active, parse_check_build, parse_room
from vgpu_cfg.parsers.nvidia.guest_gpus import parse_listed
from vgpu_cfg.parsers.text import UnreadableOutput
from vgpu_cfg.verification.asking import Asking, Command, failed, is_absent, passed, said, skipped
from vgpu_cfg.verification.views import GuestView

CLIENTS = {"docker": "docker", "containerd": "nerdctl", "apptainer": "apptainer"}
"""The command of each runtime; nerdctl accepts docker's arguments."""

WORKER_UNIT = "vgpu-cfg-worker.service"
IMAGES_FOLDER = "/var/lib/vgpu-cfg/images"
"""The folder of Apptainer's image files, by the first 16 hex digits of their names' SHA-256."""

_NO_TOOLKIT = "could not select device driver"
"""docker's message on `--gpus` without a toolkit (moby, daemon/devices.go)."""

_WITHOUT_TOOLKIT = (
    "the NVIDIA Container Toolkit is missing, or the runtime was not restarted after its installation",
    "run `sudo vgpu-cfg-stage toolkit` in the guest to reinstall it; then `systemctl restart docker`",
)

_START_SECONDS = 180.0

CONTAINER = "vgpu-cfg-worker"
SHM = "/dev/shm"  # noqa: S108 - looked at, not written to
LEAST_SHM_MIB = 1024
"""NCCL and data loaders share memory there; docker's own 64 MiB end in bus errors."""

_SHARE = 0.95
_SIZE = re.compile(r"(\d{1,9})([kmgt])i?b?", re.IGNORECASE)
_MIB = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}


def in_image(runtime: str, image: str, words: tuple[str, ...], *, gpus: bool = True) -> tuple[str, ...]:
    """Return what runs a command once in a new container of an image that is there; nothing is pulled."""
    if runtime == "apptainer":
        digest = hashlib.sha256(image.encode()).hexdigest()[:16]
        with_gpus = ["--nv"] if gpus else []
        return ("apptainer", "exec", *with_gpus, f"{IMAGES_FOLDER}/{digest}.sif", *words)
    with_gpus = ["--gpus", "all"] if gpus else []
    return (CLIENTS[runtime], "run", "--rm", "--pull", "never", *with_gpus, image, *words)


def ask_runtime(view: GuestView) -> Asking:
    """See whether the container runtime runs."""
    containers = view.containers
    if containers is None:
        return skipped("the plan does not set up a container runtime in the guest")
    if containers.runtime == "apptainer":
        answer = yield Command(("apptainer", "--version"))
        if answer.status != 0:
            return failed(VerifyCode.RUNTIME_DOWN, said(answer), "apptainer")
        return passed(answer.stdout.strip())
    answer = yield Command(("systemctl", "is-active", containers.runtime))
    state = parse_active(answer.stdout or answer.stderr)
    if state != "active":
        return failed(VerifyCode.RUNTIME_DOWN, f"{containers.runtime} is {state}", "active")
    return passed(f"{containers.runtime} is active")


def ask_container_gpus(view: GuestView) -> Asking:
    """See whether a container of the plan's image sees all GPUs of the guest."""
    if view.image is None or not view.gpus:
        return skipped("no training image" if view.image is None else "the VM has no GPU")
    image = view.image
    command = in_image(image.runtime, image.image, ("nvidia-smi", "-L"))
    answer = yield Command(command, timeout_seconds=_START_SECONDS)
    expected = f"{view.gpus} in {image.image}"
    try:
        listed = parse_listed(answer.stdout)
    except UnreadableOutput as error:
        seen = said(answer) if answer.status != 0 else error.message
        meaning, remedy = ("", "") if _NO_TOOLKIT not in seen else _WITHOUT_TOOLKIT
        return failed(VerifyCode.NO_GPU_IN_CONTAINER, seen, expected, meaning=meaning, remedy=remedy)
    if len(listed) < view.gpus:
        return failed(VerifyCode.NO_GPU_IN_CONTAINER, counted(len(listed), "GPU"), expected)
    return passed(f"{len(listed)}: {listed[0].name}", expected)


def ask_horovod(view: GuestView) -> Asking:
    """See whether the image holds Horovod, with NCCL where there are GPUs."""
    image = view.image
    if image is None or image.framework != "horovod":
        return skipped("training does not use Horovod")
    command = in_image(image.runtime, image.image, ("horovodrun", "--check-build"), gpus=bool(view.gpus))
    answer = yield Command(command, timeout_seconds=_START_SECONDS)
    expected = "Horovod with a framework and NCCL" if view.gpus else "Horovod with a framework"
    try:
        built = parse_check_build(answer.stdout)
    except UnreadableOutput:
        observed = f"horovodrun is not installed in {image.image}" if is_absent(answer) else said(answer)
        return failed(VerifyCode.NO_HOROVOD, observed, expected)
    lacking = [
        word
        for word, is_there in (
            ("a framework", built.frameworks),
            ("a controller", built.controllers),
            ("NCCL", not view.gpus or "NCCL" in built.operations),
        )
        if not is_there
    ]
    parts = ", ".join((*built.frameworks, *built.operations)) or "none"
    if lacking:
        return failed(
            VerifyCode.NO_HOROVOD, f"Horovod {built.version} without {' and '.join(lacking)}", expected
        )
    return passed(f"Horovod {built.version}: {parts}", expected)


def ask_framework(view: GuestView) -> Asking:
    """Check that the training environment has PyTorch, or Open MPI, if the plan trains with these."""
    framework = view.framework
    if framework == "torchrun":
        return (yield from _ask_torch(view))
    if framework == "mpi":
        return (yield from _ask_mpi(view))
    return skipped("training uses neither torchrun nor MPI")


def _ask_torch(view: GuestView) -> Asking:
    where = view.image.image if view.image is not None else "the guest"
    expected = "torchrun, and PyTorch with CUDA and NCCL" if view.gpus else "torchrun and PyTorch"
    answer = yield _within(view, ("sh", "-c", f"command -v torchrun >&2 && exec python3 -c '{ASK_TORCH}'"))
    try:
        found = parse_torch(answer.stdout)
    except UnreadableOutput:
        lacks = "torchrun" if "torchrun" not in answer.stderr else "PyTorch"
        seen = said(answer) if lacks == "PyTorch" else f"{lacks} is not installed in {where}"
        return failed(VerifyCode.NO_FRAMEWORK, seen, expected)
    words = f"PyTorch {found.version}, CUDA {found.cuda or 'none'}, NCCL {found.nccl or 'none'}"
    has_all = found.is_distributed and (not view.gpus or (found.cuda and found.nccl))
    if not has_all:
        return failed(VerifyCode.NO_FRAMEWORK, words, expected)
    return passed(words, expected)


def _ask_mpi(view: GuestView) -> Asking:
    where = view.image.image if view.image is not None else "the guest"
    expected = "Open MPI"
    answer = yield _within(view, ("mpirun", "--version"))
    try:
        found = parse_mpirun(answer.stdout + answer.stderr)
    except UnreadableOutput:
        seen = f"mpirun is not installed in {where}" if is_absent(answer) else said(answer)
        return failed(VerifyCode.NO_FRAMEWORK, seen, expected)
    if not found.is_open_mpi:
        return failed(VerifyCode.NO_FRAMEWORK, f"{found.name}, which `train` does not support", expected)
    return passed(f"{found.name} {found.version}", expected)


def _within(view: GuestView, words: tuple[str, ...]) -> Command:
    """Run something where training runs: in a new container of the image, else on the guest itself."""
    image = view.image
    line = in_image(image.runtime, image.image, words, gpus=bool(view.gpus)) if image is not None else words
    return Command(line, timeout_seconds=_START_SECONDS)


def ask_worker(view: GuestView) -> Asking:
    """See whether the worker container runs."""
    if view.worker is None:
        return skipped("the VM is not running a worker container")
    answer = yield Command(("systemctl", "is-active", WORKER_UNIT))
    state = parse_active(answer.stdout or answer.stderr)
    if state != "active":
        return failed(VerifyCode.WORKER_DOWN, f"{WORKER_UNIT} is {state}", "active")
    answer = yield Command(("systemctl", "is-enabled", WORKER_UNIT))
    boots = answer.stdout.strip()
    if boots.startswith(("disabled", "masked")):
        verb = "unmask" if boots == "masked" else "enable"
        return failed(
            VerifyCode.WORKER_DOWN,
            f"{WORKER_UNIT} is running but {boots}",
            "active and enabled at boot",
            meaning="the worker container will not start when the guest reboots",
            remedy=f"run `systemctl {verb} {WORKER_UNIT}` in the guest",
        )
    return passed("active")


def ask_worker_limits(view: GuestView) -> Asking:
    """Check the worker container's actual settings, which a new one of its image does not show."""
    worker = view.worker
    if worker is None:
        return skipped("the VM is not running a worker container")
    if worker.runtime == "apptainer":
        return skipped("Apptainer containers use the guest's own limits, memory, and devices")
    inside = (CLIENTS[worker.runtime], "exec", CONTAINER)
    faults: list[str] = []
    words: list[str] = []
    answer = yield Command((*inside, "sh", "-c", "ulimit -l"))
    locked = answer.stdout.strip()
    words.append(f"memlock {locked or said(answer)}")
    if worker.rdma and locked != "unlimited":
        faults.append(
            f"memory locking is limited to {locked or 'an unknown number of'} KiB, but must be unlimited for "
            "RDMA"
        )
    answer = yield Command((*inside, "df", "-Pk", SHM))
    try:
        size_mib = parse_room(answer.stdout)[0].size_kib / 1024
    except UnreadableOutput:
        faults.append("the size of /dev/shm is unknown")
    else:
        words.append(f"{SHM} {size_mib:.0f} MiB")
        least = _least_shm(view)
        if size_mib < least:
            faults.append(f"its /dev/shm is {size_mib:.0f} MiB, but {least:.0f} MiB are required")
    if worker.gpus and view.gpus:
        answer = yield Command((*inside, "nvidia-smi", "-L"))
        try:
            count = len(parse_listed(answer.stdout))
        except UnreadableOutput:
            count = 0
        words.append(counted(count, "GPU"))
        if count != view.gpus:
            faults.append(f"only {count} of {view.gpus} GPUs visible")
    if worker.rdma:
        answer = yield Command((*inside, "ls", "/dev/infiniband"))
        verbs = [one for one in answer.stdout.split() if one.startswith("uverbs")]
        words.append(counted(len(verbs), "RDMA device"))
        if len(verbs) < len(view.learned.rdma) or "rdma_cm" not in answer.stdout.split():
            faults.append("devices are missing from /dev/infiniband")
    if faults:
        return failed(VerifyCode.WORKER_SHORT, "; ".join(faults), "the settings in the plan")
    return passed(", ".join(words))


def _least_shm(view: GuestView) -> float:
    wanted = (view.limits.shared_memory if view.limits is not None else "") or (
        view.worker.shared_memory if view.worker is not None else ""
    )
    found = _SIZE.fullmatch(wanted.strip().replace(" ", ""))
    if found is None:
        return LEAST_SHM_MIB
    return int(found[1]) * _MIB[found[2].lower()] * _SHARE
