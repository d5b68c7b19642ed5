"""nvidia-smi topo -m: how the GPUs and RDMA NICs of a host are joined, and on which node each GPU lies.

Columns are parted by tabs, as nvidia-smi does it. ESXi's own matrix is recorded nowhere: that it has NICs,
and by the names of their RDMA devices, is unproven. How many NVLinks a pair has is by generation (12 for
Ampere, 18 from Hopper on, 6 before), which is wrong for bridged boards with fewer. The legend is shortened.
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.lab.nvidia.gpus import board_of, visible
from vgpu_cfg.lab.nvidia.replies import Reply, say
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state import pcie
from vgpu_cfg.lab.state.host import Gpu, Host, Nic

LINKS = {"Volta": 6, "Turing": 6, "Ampere": 12, "Hopper": 18, "Blackwell": 18}
LEGEND = (
    "Legend:",
    "",
    "  X    = Self",
    "  SYS  = between NUMA nodes",
    "  NODE = within a NUMA node, between host bridges",
    "  PHB  = over a host bridge",
    "  PXB  = over several PCIe bridges",
    "  PIX  = over one PCIe bridge at most",
    "  NV#  = so many NVLinks",
)


def matrix(lab: Simulation, host: Host, gpus: Sequence[Gpu]) -> Reply:
    """Return the whole matrix; a selection of GPUs does not narrow it."""
    seen = visible(host)
    nics = [nic for nic in host.nics if nic.rdma_device and not host.is_passed_through(nic.pci.pci_id)]
    devices: list[Gpu | Nic] = [*seen, *nics]
    names = [f"GPU{number}" for number in range(len(seen))] + [f"NIC{number}" for number in range(len(nics))]
    head = ["", *names, "CPU Affinity", "NUMA Affinity", "GPU NUMA ID"]
    rows = [
        [name, *(_link(host, device, other) for other in devices), *_affinity(host, device)]
        for name, device in zip(names, devices, strict=True)
    ]
    named = [f"  NIC{number}: {nic.rdma_device}" for number, nic in enumerate(nics)]
    tail = ["", "NIC Legend:", "", *named] if named else []
    return say(*("\t".join(row) for row in [head, *rows]), "", *LEGEND, *tail)


def _link(host: Host, one: Gpu | Nic, other: Gpu | Nic) -> str:
    if one is other:
        return " X "
    if isinstance(one, Gpu) and isinstance(other, Gpu) and _is_joined(one, other):
        return f"NV{LINKS.get(board_of(one).architecture, 4)}"
    return pcie.link(host, one.pci, other.pci)


def _is_joined(gpu: Gpu, other: Gpu) -> bool:
    return (gpu.nvswitch and other.nvswitch) or other.pci_id in gpu.nvlink_peers


def _affinity(host: Host, device: Gpu | Nic) -> list[str]:
    if not isinstance(device, Gpu):
        return ["", "", ""]
    return [_threads(host, device), "N/A" if device.numa_node is None else str(device.numa_node), "N/A"]


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
