"""What Kubernetes needs of a plan: labels of its nodes, values of NVIDIA's operator, queues and jobs.

A label's key is a prefix, which is a DNS name, and a name; its value has at most 63 letters, digits, `-`,
`_` and `.`, and begins and ends with a letter or a digit (kubernetes.io, "Labels and Selectors"). Those of
NVIDIA's GPU feature discovery (`nvidia.com/...`) are made in the cluster from what the node shows, and are
left to it: these say what only the plan knows. A node is called as its host.
"""

from __future__ import annotations

import shlex

from vgpu_cfg.model.ranges import HostList, ListedHost
from vgpu_cfg.staging.export.gpu_operator import write_gpu_operator
from vgpu_cfg.staging.export.kubernetes_jobs import write_jobs
from vgpu_cfg.staging.export.kubernetes_names import GPU_PROFILE, PLAN, PREFIX, ROLE, label_value
from vgpu_cfg.staging.export.kueue import write_kueue
from vgpu_cfg.staging.export.parts import Exported, ExportOptions, header


def write_kubernetes(host_list: HostList, options: ExportOptions) -> Exported:
    """Write a shell script that labels every node, the operator's values, queues and jobs."""
    lines = [
        shlex.join(
            ["kubectl", "label", "nodes", host.host_name.lower(), "--overwrite", *_labels(host_list, host)]
        )
        for host in host_list.everyone
    ]
    labels = "\n".join(["#!/bin/sh", *header(host_list), "set -e", *lines, ""])
    parts = [
        Exported(
            {"label-nodes.sh": labels}, ("the nodes must have joined the cluster under their host names",)
        ),
        write_gpu_operator(host_list),
        write_kueue(host_list),
        write_jobs(host_list, options),
    ]
    return Exported(
        {name: text for part in parts for name, text in part.files.items()},
        tuple(note for part in parts for note in part.notes),
    )


def _labels(host_list: HostList, host: ListedHost) -> list[str]:
    worker = host in host_list.workers
    labels = {
        PLAN: host_list.plan,
        f"{PREFIX}/vm": host.vm,
        ROLE: "worker" if worker else "head",
    }
    if worker:
        labels[f"{PREFIX}/rank"] = str(host_list.workers.index(host))
    if host.gpus:
        labels[f"{PREFIX}/gpus"] = str(len(host.gpus))
        labels[GPU_PROFILE] = ".".join(host.gpu_kinds)
    if host.gpus and host.gpus[0].memory_mib:
        labels[f"{PREFIX}/gpu-memory-mib"] = str(min(gpu.memory_mib or 0 for gpu in host.gpus))
    return [f"{key}={label_value(value)}" for key, value in labels.items()]
