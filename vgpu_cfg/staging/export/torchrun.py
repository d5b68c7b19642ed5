"""torchrun's command on each worker (docs.pytorch.org, "torchrun (Elastic Launch)").

Every node runs the same command but for its rank, which only the static backend uses
(torch/distributed/run.py). With c10d the rendezvous is held at the endpoint, which must be one of the
nodes: the first worker. Without a port torchrun takes 29400.
"""

from __future__ import annotations

import shlex

from vgpu_cfg.model.host_list import HostList, ListedHost
from vgpu_cfg.staging.export.parts import Exported, ExportOptions, with_port

DEFAULT_PORT = 29400
_SCRIPT = "train.py"


def write_torchrun(host_list: HostList, options: ExportOptions) -> Exported:
    """Write one shell script for each worker; what follows its name on the command line goes to torchrun."""
    endpoint = with_port(host_list.workers[0].peer_address, options.port or DEFAULT_PORT)
    files = {
        f"torchrun-{host.host_name}.sh": _script(host_list, host, rank, endpoint)
        for rank, host in enumerate(host_list.workers)
    }
    notes = [f"start all of them at about the same time; the rendezvous is at {endpoint}"]
    if len({host.slots for host in host_list.workers}) > 1:
        notes.append("the workers have different numbers of GPUs: --nproc-per-node differs from node to node")
    return Exported(files, tuple(notes))


def _script(host_list: HostList, host: ListedHost, rank: int, endpoint: str) -> str:
    words = [
        "torchrun",
        f"--nnodes={len(host_list.workers)}",
        f"--node-rank={rank}",
        f"--nproc-per-node={host.slots}",
        f"--rdzv-id={host_list.plan}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={endpoint}",
    ]
    return f'#!/bin/sh\n[ $# -gt 0 ] || set -- {_SCRIPT}\nexec {shlex.join(words)} "$@"\n'
