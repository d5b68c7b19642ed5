"""Obstacles to a training as a whole: its workers, their connections, its image, its head."""

from __future__ import annotations

import re
from collections.abc import Sequence

from vgpu_cfg.catalog.version_pairs import Effect, contents_of, version_pair
from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.desired import DesiredPlan, DesiredTraining, DesiredVm
from vgpu_cfg.model.plan_file import GpuEntry
from vgpu_cfg.model.plan_file.guest_values import parse_elastic
from vgpu_cfg.model.wording import counted, gib, listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.guests.peers import Addresses, Team, meeting_network, planned_nics

_ELASTIC = frozenset({"torchrun", "horovod"})
"""The elastic launchers: torchrun --nnodes=MIN:MAX, horovodrun --min-np and --max-np."""
_TENSORFLOW = re.compile(r"^nvcr\.io/nvidia/tensorflow(:|@|$)")
_OF_ONE_MACHINE = {
    "NCCL_SOCKET_IFNAME": "interfaces",
    "GLOO_SOCKET_IFNAME": "interfaces",
    "HOROVOD_GLOO_IFACE": "interfaces",
    "OMPI_MCA_btl_tcp_if_include": "interfaces",
    "NCCL_IB_HCA": "RDMA devices",
    "UCX_NET_DEVICES": "RDMA devices",
    "NCCL_IB_GID_INDEX": "GID indexes",
}
"""Variables with a value that may differ from worker to worker, and the kind of names in it."""
_ONE_NAME = re.compile(r"(^|[=,])[^^,=/]*\d(:\d+)?($|,)")
"""A name that ends in a number, as devices and indexes do; prefixes, networks, and exclusions do not."""
_PYTORCH = re.compile(r"^nvcr\.io/nvidia/pytorch(:|@|$)")


def check_training(desired: DesiredPlan, team: Team, addresses: Addresses, findings: Findings) -> None:
    """Check the plan's training."""
    training = team.training
    subject = Subject(kind="plan", name=desired.name)
    _check_workers(team, subject, findings)
    _check_addresses(team, addresses, subject, findings)
    _check_image(training, subject, findings)
    _check_elastic(team, subject, findings)
    _check_head(training, subject, findings)
    _check_environment(team, subject, findings)


def _check_environment(team: Team, subject: Subject, findings: Findings) -> None:
    """Report variables that set for all workers what each worker's start script finds for itself."""
    for name, value in team.training.environment.items():
        kind = _OF_ONE_MACHINE.get(name)
        if kind is None or value.startswith("^") or not _ONE_NAME.search(value) or len(team.workers) < 2:
            continue
        message = f"`environment` sets {name}={value} for all workers, but their {kind} may differ"
        remedy = f"remove {name}: each worker finds its own; or ignore this if all are the same"
        findings.add(Code.VARIABLE_OF_ONE_MACHINE, subject, message, remedy)


def _check_workers(team: Team, subject: Subject, findings: Findings) -> None:
    if len(team.workers) == 1:
        message = "training has only one worker; the components for multiple workers are staged but not used"
        findings.add(Code.ONE_WORKER, subject, message, "add workers, or ignore this message")
    kinds: dict[str, list[str]] = {}
    for one in team.workers:
        kinds.setdefault(_gpus_of(one.vm), []).append(one.vm.name)
    if len(kinds) > 1:
        words = "; ".join(f"{listed(names)} {words}" for words, names in kinds.items())
        message = f"the workers have different GPUs ({words}), so every step waits for the slowest one"
        findings.add(Code.WORKERS_UNEQUAL, subject, message, "use the same GPUs for all workers")


def _gpus_of(vm: DesiredVm) -> str:
    words = [_gpu_text(gpu) for gpu in vm.gpus]
    kinds = dict.fromkeys(words)
    return "have " + " and ".join(f"{words.count(one)} x {one}" for one in kinds) if kinds else "have none"


def _gpu_text(gpu: GpuEntry) -> str:
    if gpu.memory is not None:
        return f"{gib(gpu.memory)} of GPU memory"
    return str(gpu.profile[0]) if gpu.kind == "vgpu" else "an entire GPU"


def _check_addresses(team: Team, addresses: Addresses, subject: Subject, findings: Findings) -> None:
    members = team.everyone
    if len(members) < 2:
        return
    nics = [planned_nics(one.vm, addresses) for one in members]
    if meeting_network(team.training, nics) is not None:
        _check_rendezvous(team, subject, findings)
        return
    unknown = [one.vm.name for one in members if not one.address]
    if unknown:
        message = (
            f"the plan does not include an address at which the other VMs can connect to {listed(unknown)}"
        )
    else:
        message = "the plan does not include a network on which all training VMs have an address"
    remedy = (
        "add a network with `subnet` and `pool` to `networks`, and `nics: [{network: NAME, ip: pool}]` to "
        "each worker; DHCP addresses are not known in advance"
    )
    findings.add(Code.NO_MEETING_NETWORK, subject, message, remedy)


def _check_rendezvous(team: Team, subject: Subject, findings: Findings) -> None:
    """Report processes that will not meet by an address on the network of the training."""
    unknown = [one.vm.name for one in team.workers if not one.training_address]
    if not unknown or len(team.workers) < 2 or not team.training.rdma_network:
        return
    network = team.training.rdma_network
    message = (
        f"the plan does not include an address for {listed(unknown)} on {network}; processes use the "
        "workers' names on another network"
    )
    remedy = (
        f"set `ip: pool` or a fixed `ip` on the NIC on {network}; DHCP addresses are not known in advance"
    )
    findings.add(Code.RENDEZVOUS_ELSEWHERE, subject, message, remedy)


def _check_image(training: DesiredTraining, subject: Subject, findings: Findings) -> None:
    if training.framework == "horovod" and _PYTORCH.search(training.image or ""):
        message = f"{training.image} is NVIDIA's PyTorch image, which does not include Horovod"
        remedy = "use a TensorFlow image with Horovod or your own image, or set `framework: torchrun`"
        findings.add(Code.IMAGE_WITHOUT_HOROVOD, subject, message, remedy)
    torch = contents_of(training.image or "").torch
    if training.framework == "horovod" and torch:
        message = f"{training.image} is PyTorch's own image, which does not include Horovod"
        row = version_pair("PyTorch", Effect.EXCLUDES, "Horovod").at(torch)
        if row is not None:
            message += f"; Horovod {row.needs_until} does not compile with PyTorch {row.since} and later"
        findings.add(
            Code.IMAGE_WITHOUT_HOROVOD, subject, message, "use your own image, or `framework: torchrun`"
        )
    if training.framework == "torchrun" and _TENSORFLOW.search(training.image or ""):
        message = f"{training.image} is NVIDIA's TensorFlow image, which does not include PyTorch"
        remedy = "use a PyTorch image such as nvcr.io/nvidia/pytorch, or another `framework`"
        findings.add(Code.IMAGE_WITHOUT_TORCH, subject, message, remedy)


def _check_elastic(team: Team, subject: Subject, findings: Findings) -> None:
    training = team.training
    if not training.elastic:
        return
    if training.framework not in _ELASTIC:
        message = f"`elastic: {training.elastic}` is not supported by `framework: {training.framework}`"
        remedy = "set framework: torchrun or horovod, or remove `elastic`"
        findings.add(Code.NOT_ELASTIC, subject, message, remedy)
        return
    _, most = parse_elastic(training.elastic)
    if most > len(team.workers):
        there = counted(len(team.workers), "worker")
        message = (
            f"`elastic` allows {most} workers, but only {there} exist; torchrun waits 30 seconds for more"
        )
        findings.add(
            Code.ELASTIC_BEYOND, subject, message, f"set at most {len(team.workers)}, or add workers"
        )


def _check_head(training: DesiredTraining, subject: Subject, findings: Findings) -> None:
    wanted: Sequence[str] = [
        *(["shared_folder"] if training.shared_folder is not None else []),
        *(["monitoring"] if training.monitoring is not None else []),
    ]
    if wanted and training.head is None:
        keys = " and ".join(f"`{key}`" for key in wanted)
        message = f"training requests {keys}, which require a head, but none is specified"
        remedy = "set `training.head` to a VM, or remove them"
        findings.add(Code.HEAD_ABSENT, subject, message, remedy)
    elif training.head is not None and training.shared_folder is None and not training.mounts:
        count = counted(len(training.workers), "worker")
        message = f"no folder is shared or mounted, so you must copy data and code to {count} individually"
        remedy = "set training: {shared_folder: {}}, or mount a shared folder with `mounts`"
        findings.add(Code.NO_SHARED_FOLDER, subject, message, remedy)
