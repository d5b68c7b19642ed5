"""Labels of Kubernetes nodes, as commands of kubectl (kubernetes.io, "Labels and Selectors").

A label's key is a prefix, which is a DNS name, and a name; its value has at most 63 letters, digits, `-`,
`_` and `.`, and begins and ends with a letter or a digit. Those of NVIDIA's GPU feature discovery
(`nvidia.com/...`) are made in the cluster from what the node shows, and are left to it: these say what only
the plan knows. A node is called as its host.
"""

from __future__ import annotations

import shlex

from vgpu_cfg.model.host_list import HandOver, HandOverHost
from vgpu_cfg.staging.export.parts import Handed, HandOverOptions, words_of

PREFIX = "vgpu-cfg"
_SIGNS = "-_."


def write_kubernetes(hand_over: HandOver, _options: HandOverOptions) -> Handed:
    """Write a shell script that labels every node."""
    lines = [
        shlex.join(
            ["kubectl", "label", "nodes", host.host_name.lower(), "--overwrite", *_labels(hand_over, host)]
        )
        for host in hand_over.everybody
    ]
    notes = (
        "the nodes must have joined the cluster under their host names",
        "nvidia.com/... labels come from NVIDIA's GPU feature discovery in the cluster",
    )
    return Handed({"label-nodes.sh": "\n".join(["#!/bin/sh", "set -e", *lines, ""])}, notes)


def _labels(hand_over: HandOver, host: HandOverHost) -> list[str]:
    worker = host in hand_over.workers
    labels = {"plan": hand_over.plan, "vm": host.vm, "role": "worker" if worker else "head"}
    if worker:
        labels["rank"] = str(hand_over.workers.index(host))
    if host.gpus:
        labels["gpus"] = str(len(host.gpus))
        labels["gpu-profile"] = ".".join(host.gpu_kinds)
    if host.gpus and host.gpus[0].memory_mib:
        labels["gpu-memory-mib"] = str(min(gpu.memory_mib or 0 for gpu in host.gpus))
    return [f"{PREFIX}/{key}={words_of(value, _SIGNS)}" for key, value in labels.items()]
