"""A job for sbatch that trains on all workers, in the image by pyxis where the plan has one.

`--container-image` and `--container-mounts` are pyxis' (its README; plugstack.conf loads it): an image stands
as REGISTRY#IMAGE:TAG, which enroot fetches. One task per node starts torchrun there, and srun starts every
rank itself of what uses MPI.
"""

from __future__ import annotations

import shlex

from vgpu_cfg.model.ranges import HostList
from vgpu_cfg.staging.export.parts import RANK, SETTINGS_FOLDER, Exported, header, text_of

PLUGSTACK = "pyxis.conf"
DEFAULT_PORT = 29400


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
        notes.append("the workers have different numbers of GPUs: the job takes of each what the least has")
    files = {"train.sbatch": "".join(f"{line}\n" for line in lines)}
    if host_list.image:
        notes.append(f"the job runs in {host_list.image}: enroot and pyxis must be on the workers")
        files[PLUGSTACK] = _plugstack(host_list)
    return Exported(files, tuple(notes))


def _plugstack(host_list: HostList) -> str:
    lines = [
        *header(host_list),
        "# /etc/slurm/plugstack.conf.d/pyxis.conf on every machine; plugstack.conf includes the folder:",
        "# include /etc/slurm/plugstack.conf.d/*.conf",
        "# The path is that of pyxis' own `make install`.",
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
    """Write an image as enroot takes it: what names a registry is parted from the rest by `#`.

    The first part is a registry where it has a dot or a port or is localhost, as for docker.
    """
    first, slash, rest = image.partition("/")
    is_registry = bool(slash) and ("." in first or ":" in first or first == "localhost")
    return f"{first}#{rest}" if is_registry else image


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
