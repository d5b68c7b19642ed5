"""nvidia-smi topo -m: how the GPUs of a host are joined, and on which node each lies.

Columns are parted by tabs, as nvidia-smi does it. ESXi's own matrix is recorded nowhere: that it has
GPUs only, and no NICs, is unproven. How many NVLinks a pair has is by generation (12 for Ampere, 18
from Hopper on, 6 before), which is wrong for bridged boards with fewer. The legend is shortened.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vgpu_cfg.lab.host_state import Gpu, Host
from vgpu_cfg.lab.shell.gpus import board_of, visible
from vgpu_cfg.lab.shell.replies import Reply, say

if TYPE_CHECKING:
    from vgpu_cfg.lab.vcenter import Lab

LINKS = {"Volta": 6, "Turing": 6, "Ampere": 12, "Hopper": 18, "Blackwell": 18}
LEGEND = (
    "Legend:",
    "",
    "  X    = Self",
    "  SYS  = between NUMA nodes",
    "  NODE = within a NUMA node, between host bridges",
    "  NV#  = so many NVLinks",
)


def matrix(lab: Lab, host: Host, gpus: Sequence[Gpu]) -> Reply:
    """Return the whole matrix; a selection of GPUs does not narrow it."""
    seen = visible(host)
    head = [
        "",
        *(f"GPU{number}" for number in range(len(seen))),
        "CPU Affinity",
        "NUMA Affinity",
        "GPU NUMA ID",
    ]
    rows = [
        [f"GPU{number}", *(_link(gpu, other) for other in seen), _threads(host, gpu), _node(gpu), "N/A"]
        for number, gpu in enumerate(seen)
    ]
    return say(*("\t".join(row) for row in [head, *rows]), "", *LEGEND)


def _link(gpu: Gpu, other: Gpu) -> str:
    if gpu is other:
        return " X "
    if (gpu.nvswitch and other.nvswitch) or other.pci_id in gpu.nvlink_peers:
        return f"NV{LINKS.get(board_of(gpu).architecture, 4)}"
    return "NODE" if gpu.numa_node == other.numa_node else "SYS"


def _node(gpu: Gpu) -> str:
    return "N/A" if gpu.numa_node is None else str(gpu.numa_node)


def _threads(host: Host, gpu: Gpu) -> str:
    """Return the hardware threads of a GPU's node, as the API numbers them."""
    per_core = 2 if host.hyperthreading else 1
    first = 0
    for node in host.numa_nodes:
        count = node.cores * per_core
        if node.node_id == gpu.numa_node:
            return f"{first}-{first + count - 1}"
        first += count
    return "N/A"
