"""Labels of Kubernetes nodes, as commands of kubectl (kubernetes.io, "Labels and Selectors").

A label's key is a prefix, which is a DNS name, and a name; its value has at most 63 letters, digits, `-`,
`_` and `.`, and begins and ends with a letter or a digit. Those of NVIDIA's GPU feature discovery
(`nvidia.com/...`) are made in the cluster from what the node shows, and are left to it: these say what only
the plan knows. A node is called as its host.
"""

from __future__ import annotations

import shlex

from vgpu_cfg.model.host_list import HostList, ListedHost
from vgpu_cfg.staging.export.parts import Exported, ExportOptions, text_of

PREFIX = "vgpu-cfg"
_SIGNS = "-_."


def write_kubernetes(host_list: HostList, _options: ExportOptions) -> Exported:
    """Write a shell script that labels every node."""
    lines = [
        shlex.join(
            ["kubectl", "label", "nodes", host.host_name.lower(), "--overwrite", *_labels(host_list, host)]
        )
        for host in host_list.everyone
    ]
    notes = (
        "the nodes must have joined the cluster under their host names",
        "nvidia.com/... labels come from NVIDIA's GPU feature discovery in the cluster",
    )
    return Exported({"label-nodes.sh": "\n".join(["#!/bin/sh", "set -e", *lines, ""])}, notes)


def _labels(host_list: HostList, host: ListedHost) -> list[str]:
    worker = host in host_list.workers
    labels = {"plan": host_list.plan, "vm": host.vm, "role": "worker" if worker else "head"}
    if worker:
        labels["rank"] = str(host_list.workers.index(host))
    if host.gpus:
        labels["gpus"] = str(len(host.gpus))
        labels["gpu-profile"] = ".".join(host.gpu_kinds)
    if host.gpus and host.gpus[0].memory_mib:
        labels["gpu-memory-mib"] = str(min(gpu.memory_mib or 0 for gpu in host.gpus))
    return [f"{PREFIX}/{key}={text_of(value, _SIGNS)}" for key, value in labels.items()]
