"""Kueue's objects for a plan (kueue.x-k8s.io/v1beta1): a flavour for each kind of GPU, and queues.

A ResourceFlavor names nodes by their labels, a ClusterQueue says how much of each there is, and jobs ask for
a LocalQueue of their namespace (kueue.sigs.k8s.io, "Concepts"). Every flavour of a group lists the resources
that the group covers, in their order; a job that asks for one that is not covered waits for ever.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vgpu_cfg.model.ranges import HostList, ListedHost
from vgpu_cfg.staging.export.kubernetes_names import (
    GPU,
    GPU_PROFILE,
    PLAN,
    ROLE,
    label_value,
    object_name,
    queue_of,
)
from vgpu_cfg.staging.export.parts import Exported, real_memory_mib, yaml_of

_API = "kueue.x-k8s.io/v1beta1"


def write_kueue(host_list: HostList) -> Exported:
    """Write the flavours, a ClusterQueue and a LocalQueue, both called as the plan."""
    by_kind: dict[str, list[ListedHost]] = {}
    for host in host_list.workers:
        by_kind.setdefault(".".join(host.gpu_kinds), []).append(host)
    covered = ["cpu", "memory", GPU]
    if not all(host.cpus and host.memory_mib for host in host_list.workers):
        covered = [GPU]
    flavours = {kind: object_name(f"{host_list.plan}-{kind or 'gpu'}") for kind in by_kind}
    queue = queue_of(host_list)
    objects = [
        *(_flavour(host_list, name, kind) for kind, name in flavours.items()),
        {
            "apiVersion": _API,
            "kind": "ClusterQueue",
            "metadata": {"name": queue},
            "spec": {
                "namespaceSelector": {},
                "resourceGroups": [
                    {
                        "coveredResources": covered,
                        "flavors": [
                            {"name": flavours[kind], "resources": _quotas(hosts, covered)}
                            for kind, hosts in by_kind.items()
                        ],
                    }
                ],
            },
        },
        {
            "apiVersion": _API,
            "kind": "LocalQueue",
            "metadata": {"name": queue},
            "spec": {"clusterQueue": queue},
        },
    ]
    notes = ("kueue.yaml is for a cluster with Kueue; the LocalQueue belongs into the namespace of the jobs",)
    return Exported({"kueue.yaml": yaml_of(host_list, *objects)}, notes)


def _flavour(host_list: HostList, name: str, kind: str) -> dict[str, Any]:
    labels = {PLAN: label_value(host_list.plan), ROLE: "worker"}
    if kind:
        labels[GPU_PROFILE] = label_value(kind)
    return {
        "apiVersion": _API,
        "kind": "ResourceFlavor",
        "metadata": {"name": name},
        "spec": {"nodeLabels": labels},
    }


def _quotas(hosts: Sequence[ListedHost], covered: Sequence[str]) -> list[dict[str, str | int]]:
    amounts: dict[str, str | int] = {
        "cpu": sum(host.cpus or 0 for host in hosts),
        "memory": f"{sum(real_memory_mib(host.memory_mib or 0) for host in hosts)}Mi",
        GPU: sum(len(host.gpus) for host in hosts),
    }
    return [{"name": name, "nominalQuota": amounts[name]} for name in covered]
