"""Launchers' files for a plan: torchrun's commands, host files of Horovod and Open MPI, and TF_CONFIG.

torchrun (docs.pytorch.org, "torchrun (Elastic Launch)"): every node has its rank, and the first one is the
master: with c10d a rank would be given by chance, and the master's address be what its host name resolves to
(torch/distributed/run.py). Options are written with underscores, which torchrun accepts in every version;
with hyphens only since 2.0. The command that starts a rank on the worker with NCCL's settings starts
torchrun, whose processes inherit them.

Host files have a line `NAME slots=N` for each worker. Horovod reads the first word and the text after the
first `=`, so a line may hold nothing else (horovod/runner/common/util/hosts.py, parse_host_files, 0.28.1);
Open MPI accepts comments too, which are omitted for that reason (docs.open-mpi.org, "Scheduling processes
across hosts").

TF_CONFIG is one JSON for each worker, for TensorFlow's MultiWorkerMirroredStrategy
(tf.distribute.cluster_resolver.TFConfigClusterResolver): `cluster.worker` lists `host:port` of all, the same
everywhere, and `task` identifies the reader. Worker 0 is the chief.
"""

from __future__ import annotations

import json
import shlex

from vgpu_cfg.model.host_list import HostList, ListedHost
from vgpu_cfg.staging.export.parts import RANK, Exported, ExportOptions, header, with_port

TORCHRUN_PORT = 29400
_SCRIPT = "train.py"


def write_torchrun(host_list: HostList, options: ExportOptions) -> Exported:
    """Write one shell script for each worker; what follows its name on the command line goes to torchrun."""
    first, port = host_list.workers[0].peer_address, options.port or TORCHRUN_PORT
    files = {
        f"torchrun-{host.host_name}.sh": _script(host_list, host, rank, first, port)
        for rank, host in enumerate(host_list.workers)
    }
    notes = [f"start all of them at about the same time; they connect to {with_port(first, port)}"]
    if len({host.slots for host in host_list.workers}) > 1:
        notes.append("the workers have different GPU counts: --nproc_per_node differs between nodes")
    return Exported(files, tuple(notes))


def _script(host_list: HostList, host: ListedHost, rank: int, first: str, port: int) -> str:
    words = [
        "torchrun",
        f"--nnodes={len(host_list.workers)}",
        f"--node_rank={rank}",
        f"--nproc_per_node={host.slots}",
        f"--master_addr={first}",
        f"--master_port={port}",
    ]
    lines = [
        "#!/bin/sh",
        *header(host_list),
        f"[ $# -gt 0 ] || set -- {_SCRIPT}",
        *(f"export {name}={shlex.quote(value)}" for name, value in sorted(host_list.environment.items())),
        f'set -- {shlex.join(words)} "$@"',
        RANK,
    ]
    return "".join(f"{line}\n" for line in lines)


def write_horovod(host_list: HostList, _options: ExportOptions) -> Exported:
    """Write the host file for `horovodrun --hostfile`."""
    port = f" -p {host_list.mesh_port}" if host_list.mesh_port is not None else ""
    command = f"horovodrun -np {host_list.processes} --hostfile hostfile{port} python train.py"
    return Exported({"hostfile": _lines(host_list)}, (f"use it with: {command}",))


def write_mpi(host_list: HostList, _options: ExportOptions) -> Exported:
    """Write the host file for `mpirun --hostfile`."""
    port = f" --mca plm_rsh_args '-p {host_list.mesh_port}'" if host_list.mesh_port is not None else ""
    command = f"mpirun -np {host_list.processes} --hostfile hostfile{port} python train.py"
    return Exported({"hostfile": _lines(host_list)}, (f"use it with: {command}",))


def _lines(host_list: HostList) -> str:
    return "".join(f"{host.host_name} slots={host.slots}\n" for host in host_list.workers)


TF_CONFIG_PORT = 12345
"""TensorFlow names no default; this is the port of its documents' examples."""


def write_tf_config(host_list: HostList, options: ExportOptions) -> Exported:
    """Write what each worker's environment variable TF_CONFIG holds."""
    port = options.port or TF_CONFIG_PORT
    workers = [with_port(host.peer_address, port) for host in host_list.workers]
    files = {
        f"tf-config-{host.host_name}.json": json.dumps(
            {"cluster": {"worker": workers}, "task": {"type": "worker", "index": index}}
        )
        + "\n"
        for index, host in enumerate(host_list.workers)
    }
    first = next(iter(files))
    return Exported(
        files,
        (
            f'on {host_list.workers[0].host_name}: export TF_CONFIG="$(cat {first})"',
            "one process per VM, with access to all of the VM's GPUs",
        ),
    )
