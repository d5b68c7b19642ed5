"""What `nvidia-smi vgpu -q` tells of the vGPUs that run on a host.

Source: NVIDIA Virtual GPU Software User Guide and NVIDIA AI Enterprise User Guide, chapters on monitoring;
public logs of hosts for `License Status : N/A (Expiry: N/A)`.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.nvidia.tree import Node, gpu_blocks, tree_of

VGPUS = "nvidia-smi vgpu -q"


class RunningVgpu(Frozen):
    """A vGPU that a running VM holds, and the state of its licence as printed.

    `licence` is None where it is N/A, as before the guest's driver is loaded: that is no state of a licence.
    """

    vm_name: str | None = None
    licence: str | None = None


def parse_vgpus(text: str) -> Mapping[str, tuple[RunningVgpu, ...]]:
    """Read `vgpu -q`, by the GPU's address.

    Raises UnreadableOutput where a GPU shows another number of vGPUs than it counts.
    """
    root = tree_of(VGPUS, text)
    found: dict[str, tuple[RunningVgpu, ...]] = {}
    for pci_id, block in gpu_blocks(VGPUS, root):
        vgpus = tuple(_vgpu(node) for node in block.all("vGPU ID"))
        counted = block.number(VGPUS, "Active vGPUs")
        if counted != len(vgpus):
            why = f"{len(vgpus)} vGPUs shown, {counted} counted"
            raise UnreadableOutput(VGPUS, why, line=block.line.text, number=block.line.number)
        found[pci_id] = vgpus
    return found


def _vgpu(node: Node) -> RunningVgpu:
    return RunningVgpu(
        vm_name=node.text("VM Name"),
        licence=node.licence("License Status"),
    )
