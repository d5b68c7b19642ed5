"""The names that labels, queues and jobs in Kubernetes refer to each other by."""

from __future__ import annotations

from vgpu_cfg.model.host_list import HostList
from vgpu_cfg.staging.export.parts import text_of

PREFIX = "vgpu-cfg"
PLAN, ROLE, GPU_PROFILE = f"{PREFIX}/plan", f"{PREFIX}/role", f"{PREFIX}/gpu-profile"
"""Keys of node labels."""
CLUSTER, ESXI_HOST, HOSTNAME = f"{PREFIX}/cluster", f"{PREFIX}/esxi-host", "kubernetes.io/hostname"
"""Keys of node labels that say where a node is, from the widest to the narrowest; every node has the last."""
GPU = "nvidia.com/gpu"
"""The resource by which NVIDIA's device plugin counts GPUs."""
QUEUE = "kueue.x-k8s.io/queue-name"
"""The label by which a job asks for a LocalQueue of Kueue."""
PREFERRED_TOPOLOGY = "kueue.x-k8s.io/podset-preferred-topology"
"""The annotation by which pods ask to be close together, up to a node label."""


def label_value(text: str) -> str:
    """Make the value of a label."""
    return text_of(text, "-_.")


def object_name(text: str, *, longest: int = 50) -> str:
    """Make the name of an object: small letters, digits and hyphens, as of a DNS label (RFC 1123)."""
    return text_of(text.lower(), "-", longest=longest) or "plan"


def queue_of(host_list: HostList) -> str:
    """Name the plan's queue."""
    return object_name(host_list.plan)
