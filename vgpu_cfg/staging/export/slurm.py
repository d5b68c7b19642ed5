"""Slurm's files for a plan (slurm.conf, gres.conf, topology.conf, plugstack.conf), and a job for sbatch.

The files are those of slurm.schedmd.com. The lines of nodes and partition are a file of their own, which
slurm.conf includes: one that is there already takes the same line. A node without RealMemory counts as one of
1 MB, and one that shows less than its line is drained, so a little is left out for what firmware and kernel
keep (parts.py, real_memory_mib).

A node's GPUs are `Gres=gpu:TYPE:COUNT`, and in gres.conf a line `NodeName= Name=gpu Type= File=` for each
type; GPUs of several types are taken to be in the order of the plan file, as the guest's /dev/nvidia0, 1, ...
follow its virtual PCI slots. With AutoDetect a type must be part of the name that the driver reports, in
small letters with `_` for blanks (gres.conf, "Type"): guests call a vGPU "GRID A100-40C" or "NVIDIA
A100-40C", by their driver, so the profile is written without the word before its first `_`.

The job trains on all workers, in the image by pyxis if the plan has one. `--container-image` and
`--container-mounts` are pyxis' (its README; plugstack.conf loads it): an image is written as
REGISTRY#IMAGE:TAG, which enroot fetches. One task per node starts torchrun there, and srun starts every rank
itself of what uses MPI.

Belief: nvidia-device-order, slurm-real-memory, slurm-autodetect-type, pyxis-options.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator

from vgpu_cfg.model.host_list import HostList, ListedHost
from vgpu_cfg.model.plan_file import split_image
from vgpu_cfg.staging.export.parts import (
    RANK,
    SETTINGS_FOLDER,
    Exported,
    ExportOptions,
    header,
    real_memory_mib,
    text_of,
)

NODES_FILE = "slurm-nodes.conf"
_SIGNS = "_.-"
_CONSTRAINED = ("Cores", "RAMSpace", "Devices")
_VENDORS = ("grid_", "nvidia_")

PLUGSTACK = "pyxis.conf"
DEFAULT_PORT = 29400


def write_slurm(host_list: HostList, _options: ExportOptions) -> Exported:
    """Write slurm.conf and its include file, gres.conf, topology.conf, and a job."""
    notes = [
        "copy all files except the job to /etc/slurm on every machine",
        f"if a slurm.conf already exists, add this line to it: include {NODES_FILE}",
        "slurmd requires the GPU device files in gres.conf: start it after the NVIDIA driver",
        "every machine requires the same /etc/munge/munge.key and the same accounts",
    ]
    if unknown := [host.vm for host in host_list.workers if not host.memory_mib]:
        notes.append(
            f"the memory of {', '.join(unknown)} is unknown: use RealMemory from `slurmd -C` on the machine"
        )
    if any(len(host.gpu_kinds) > 1 for host in host_list.workers):
        notes.append("a worker has several GPU models: compare gres.conf with the output of `nvidia-smi -L`")
    if not all(host.esxi_host for host in host_list.workers):
        notes.append("topology.conf puts VMs that have no host yet on one switch: export it again later")
    files = {
        "slurm.conf": _conf(host_list),
        NODES_FILE: _nodes(host_list),
        "gres.conf": _lines(host_list, (line for host in host_list.workers for line in _gres(host))),
        "topology.conf": _lines(host_list, _topology(host_list)),
        "cgroup.conf": _lines(host_list, (f"Constrain{what}=yes" for what in _CONSTRAINED)),
    }
    job = write_job(host_list)
    return Exported(files | dict(job.files), (*notes, *job.notes))


def partition_of(host_list: HostList) -> str:
    """Name the partition after the plan."""
    return text_of(host_list.plan, _SIGNS)


def _lines(host_list: HostList, lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in (*header(host_list), *lines))


def _conf(host_list: HostList) -> str:
    controller = host_list.head or host_list.workers[0]
    address = controller.address or controller.training_address
    lines = [
        f"ClusterName={text_of(host_list.plan.lower(), _SIGNS, longest=40)}",
        f"SlurmctldHost={controller.host_name}{f'({address})' if address else ''}",
        "SlurmUser=slurm",
        "StateSaveLocation=/var/lib/slurm/slurmctld",
        "SlurmdSpoolDir=/var/lib/slurm/slurmd",
        "AuthType=auth/munge",
        "ProctrackType=proctrack/cgroup",
        "TaskPlugin=task/cgroup,task/affinity",
        "SelectType=select/cons_tres",
        "SelectTypeParameters=CR_Core_Memory",
        "TopologyPlugin=topology/tree",
        "ReturnToService=1",
        f"include {NODES_FILE}",
    ]
    return _lines(host_list, lines)


def _nodes(host_list: HostList) -> str:
    names = ",".join(host.host_name for host in host_list.workers)
    partition = f"PartitionName={partition_of(host_list)} Nodes={names} MaxTime=INFINITE State=UP"
    return _lines(host_list, ["GresTypes=gpu", *(_node(host) for host in host_list.workers), partition])


def _node(host: ListedHost) -> str:
    words = [f"NodeName={host.host_name}"]
    if host.address:
        words.append(f"NodeAddr={host.address}")
    if host.cpus:
        words.append(f"CPUs={host.cpus}")
    cores = host.cores_per_socket
    if host.cpus and cores and host.cpus % cores == 0:
        words += [f"Sockets={host.cpus // cores}", f"CoresPerSocket={cores}", "ThreadsPerCore=1"]
    if host.memory_mib:
        words.append(f"RealMemory={real_memory_mib(host.memory_mib)}")
    kinds = [f"gpu{_typed(kind)}:{count}" for kind, count in host.gpu_kinds.items()]
    if kinds:
        words.append(f"Gres={','.join(kinds)}")
    return " ".join([*words, "State=UNKNOWN"])


def type_of(kind: str) -> str:
    """Return a GPU's type: its profile without the vendor's word, in small letters; "" where it has none."""
    word = text_of(kind.lower(), _SIGNS)
    return next((word.removeprefix(vendor) for vendor in _VENDORS if word.startswith(vendor)), word)


def _typed(kind: str) -> str:
    return f":{type_of(kind)}" if type_of(kind) else ""


def _gres(host: ListedHost) -> list[str]:
    lines = []
    numbers: dict[str, list[int]] = {}
    for number, gpu in enumerate(host.gpus):
        numbers.setdefault(gpu.kind, []).append(number)
    for kind, found in numbers.items():
        type_ = f" Type={type_of(kind)}" if type_of(kind) else ""
        lines.append(f"NodeName={host.host_name} Name=gpu{type_} File=/dev/nvidia{_numbered(found)}")
    return lines


def _numbered(numbers: list[int]) -> str:
    """Spell device numbers as Slurm does: 0, [0-3], [0,2-3]."""
    if len(numbers) == 1:
        return str(numbers[0])
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return f"[{','.join(f'{run[0]}-{run[-1]}' if len(run) > 1 else str(run[0]) for run in runs)}]"


def _topology(host_list: HostList) -> Iterator[str]:
    """Yield a switch for each ESXi host, one for each of several clusters, and one that joins all.

    Jobs are put on as few of them as can be: VMs of one host reach each other without leaving it. VMs that
    have no host yet share a switch.
    """
    clusters: dict[str, dict[str, list[str]]] = {}
    for host in host_list.workers:
        cluster = f"cluster-{host.cluster}" if host.cluster else ""
        place = host.esxi_host or (f"{cluster}-no-host-yet" if cluster else "no-host-yet")
        clusters.setdefault(_switch(cluster), {}).setdefault(_switch(place), []).append(host.host_name)
    joined: list[str] = []
    for name, places in clusters.items():
        yield from (f"SwitchName={place} Nodes={','.join(nodes)}" for place, nodes in places.items())
        has_switch = bool(name) and len(clusters) > 1
        if has_switch:
            yield f"SwitchName={name} Switches={','.join(places)}"
        joined += [name] if has_switch else places
    if len(joined) > 1:
        top = _switch(f"net-{host_list.network or host_list.plan}")
        yield f"SwitchName={top} Switches={','.join(joined)}"


def _switch(name: str) -> str:
    return text_of(name, "-_.")


def write_job(host_list: HostList) -> Exported:
    """Write the job, and what loads pyxis where the job needs it."""
    uses_mpi = host_list.framework in ("horovod", "mpi")
    workers = host_list.workers
    slots = min(host.slots for host in workers)
    gpus = min(len(host.gpus) for host in workers)
    name = text_of(host_list.plan, "_.-")
    options = [
        f"--job-name={name}",
        f"--partition={name}",
        f"--nodes={len(workers)}",
        f"--ntasks-per-node={slots if uses_mpi else 1}",
        *([f"--gres=gpu:{gpus}"] if gpus else []),
        "--mem=0",
        "--exclusive",
        "--output=%x-%j.out",
    ]
    lines = ["#!/bin/sh", *header(host_list), "# sbatch train.sbatch train.py --epochs 5"]
    lines += [f"#SBATCH {option}" for option in options]
    lines += ["set -eu", "[ $# -gt 0 ] || set -- train.py"]
    lines += [f"export {name}={shlex.quote(value)}" for name, value in sorted(host_list.environment.items())]
    srun = ["srun", "--kill-on-bad-exit=1", *_container(host_list), *(["--mpi=pmix"] if uses_mpi else [])]
    lines += _mpi(srun) if uses_mpi else _torchrun(srun, slots)
    notes = ["start it with: sbatch train.sbatch train.py"]
    if len({host.slots for host in workers}) > 1:
        notes.append("the workers have different GPU counts: the job uses the lowest count on every worker")
    files = {"train.sbatch": "".join(f"{line}\n" for line in lines)}
    if host_list.image:
        notes.append(f"the job runs in {host_list.image}: enroot and pyxis must be installed on the workers")
        files[PLUGSTACK] = _plugstack(host_list)
    return Exported(files, tuple(notes))


def _plugstack(host_list: HostList) -> str:
    lines = [
        *header(host_list),
        "# /etc/slurm/plugstack.conf.d/pyxis.conf on every machine; plugstack.conf includes the folder:",
        "# include /etc/slurm/plugstack.conf.d/*.conf",
        "# This is the path used by the `make install` of pyxis.",
        "required /usr/local/lib/slurm/spank_pyxis.so",
    ]
    return "".join(f"{line}\n" for line in lines)


def _container(host_list: HostList) -> list[str]:
    if not host_list.image:
        return []
    mounts = [f"{SETTINGS_FOLDER}:{SETTINGS_FOLDER}", *host_list.mounts]
    return [
        f"--container-image={enroot_image(host_list.image)}",
        f"--container-mounts={','.join(dict.fromkeys(mounts))}",
    ]


def enroot_image(image: str) -> str:
    """Write an image as enroot accepts it, with `#` after the registry."""
    registry, rest = split_image(image)
    return f"{registry}#{rest}" if registry else image


def _mpi(srun: list[str]) -> list[str]:
    return [f"""exec {shlex.join(srun)} sh -c '{RANK}' rank python3 "$@\""""]


def _torchrun(srun: list[str], slots: int) -> list[str]:
    started = f'set -- torchrun --node_rank="$SLURM_NODEID" "$@"; {RANK}'
    words = [
        '--nnodes="$SLURM_JOB_NUM_NODES"',
        f"--nproc_per_node={slots}",
        '--master_addr="$first"',
        f"--master_port={DEFAULT_PORT}",
    ]
    return [
        'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)',
        f"exec {shlex.join(srun)} sh -c '{started}' rank \\",
        f'    {" ".join(words)} "$@"',
    ]
