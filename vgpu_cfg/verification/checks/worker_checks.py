"""What is asked of the running worker container: locked memory, shared memory, GPUs and RDMA devices."""

from __future__ import annotations

import re

from vgpu_cfg.knowledge.verify_failures import VerifyCode
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.guest_system import parse_room
from vgpu_cfg.parsers.nvidia.guest_gpus import parse_listed
from vgpu_cfg.verification.asking import Asking, Command, failed, passed, said, skipped
from vgpu_cfg.verification.checks.container_checks import CLIENTS
from vgpu_cfg.verification.views import GuestView

CONTAINER = "vgpu-cfg-worker"
SHM = "/dev/shm"  # noqa: S108 - looked at, not written to
LEAST_SHM_MIB = 1024
"""NCCL and data loaders share memory there; docker's own 64 MiB end in bus errors."""

_SHARE = 0.95
_SIZE = re.compile(r"(\d{1,9})([kmgt])i?b?", re.IGNORECASE)
_MIB = {"k": 1 / 1024, "m": 1, "g": 1024, "t": 1024 * 1024}


def ask_worker_limits(view: GuestView) -> Asking:
    """See what the worker container really has, which a new one of its image does not tell."""
    worker = view.worker
    if worker is None:
        return skipped("it runs no worker container")
    if worker.runtime == "apptainer":
        return skipped("Apptainer's containers have the guest's own limits, memory and devices")
    inside = (CLIENTS[worker.runtime], "exec", CONTAINER)
    faults: list[str] = []
    words: list[str] = []
    answer = yield Command((*inside, "sh", "-c", "ulimit -l"))
    locked = answer.stdout.strip()
    words.append(f"memlock {locked or said(answer)}")
    if worker.rdma and locked != "unlimited":
        faults.append(f"it may lock {locked or 'nobody knows how much'} KiB, which RDMA needs without limit")
    answer = yield Command((*inside, "df", "-Pk", SHM))
    try:
        size_mib = parse_room(answer.stdout)[0].size_kib / 1024
    except UnreadableOutput:
        faults.append("its /dev/shm does not tell its size")
    else:
        words.append(f"{SHM} {size_mib:.0f} MiB")
        least = _least_shm(view)
        if size_mib < least:
            faults.append(f"its /dev/shm has {size_mib:.0f} MiB of {least:.0f}")
    if worker.gpus and view.gpus:
        answer = yield Command((*inside, "nvidia-smi", "-L"))
        try:
            count = len(parse_listed(answer.stdout))
        except UnreadableOutput:
            count = 0
        words.append(f"{count} GPUs")
        if count != view.gpus:
            faults.append(f"it sees {count} of {view.gpus} GPUs")
    if worker.rdma:
        answer = yield Command((*inside, "ls", "/dev/infiniband"))
        verbs = [one for one in answer.stdout.split() if one.startswith("uverbs")]
        words.append(f"{len(verbs)} RDMA devices")
        if len(verbs) < len(view.learned.rdma) or "rdma_cm" not in answer.stdout.split():
            faults.append("it lacks devices of /dev/infiniband")
    if faults:
        return failed(VerifyCode.WORKER_SHORT, "; ".join(faults), "what the plan starts it with")
    return passed(", ".join(words))


def _least_shm(view: GuestView) -> float:
    wanted = (view.limits.shared_memory if view.limits is not None else "") or (
        view.worker.shared_memory if view.worker is not None else ""
    )
    found = _SIZE.fullmatch(wanted.strip().replace(" ", ""))
    if found is None:
        return LEAST_SHM_MIB
    return int(found[1]) * _MIB[found[2].lower()] * _SHARE
