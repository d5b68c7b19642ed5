"""What `nvidia-smi vgpu` tells: the types a GPU supports (-s) or can still create (-c), and the vGPUs (-q).

Source: NVIDIA Virtual GPU Software User Guide and NVIDIA AI Enterprise User Guide, chapters on
monitoring and on placement ids.
"""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.errors import UnreadableOutput
from vgpu_cfg.parsers.nvidia_tree import Node, gpu_blocks, tree_of
from vgpu_cfg.parsers.text import int_or_error

TYPES = "nvidia-smi vgpu -s"
VERBOSE_TYPES = "nvidia-smi vgpu -s -v"
VGPUS = "nvidia-smi vgpu -q"


class VgpuType(Frozen):
    """A vGPU type in detail. `name` is NVIDIA's own, as "NVIDIA A100-40C"; memory in MiB.

    `placement_size`, `supported_placements` and `creatable_placements` are printed only where the GPU is
    in mixed-size mode, or where the driver tells them for one size too.
    """

    type_id: int
    name: str
    vgpu_class: str | None = None
    gpu_instance_profile_id: int | None = None
    max_instances: int | None = None
    max_instances_per_vm: int | None = None
    is_multi_vgpu_exclusive: bool | None = None
    memory_mib: int | None = None
    placement_size: int | None = None
    supported_placements: tuple[int, ...] = ()
    creatable_placements: tuple[int, ...] = ()


class RunningVgpu(Frozen):
    """A vGPU that a running VM holds. Memory is the framebuffer, in MiB."""

    vgpu_id: int
    vm_id: str | None = None
    vm_name: str | None = None
    name: str | None = None
    type_id: int | None = None
    uuid: str | None = None
    guest_driver: str | None = None
    licence: str | None = None
    gpu_instance_id: int | None = None
    placement_id: int | None = None
    is_ecc: bool | None = None
    total_mib: int | None = None
    used_mib: int | None = None


def parse_vgpu_types(text: str) -> Mapping[str, tuple[str, ...]]:
    """Read `vgpu -s` or `vgpu -c`: the names of the types, by the GPU's address.

    A GPU in MIG mode without a GPU instance lists none under -c.
    Raises UnreadableOutput for a line that is no name.
    """
    root = tree_of(TYPES, text)
    found: dict[str, tuple[str, ...]] = {}
    for pci_id, block in gpu_blocks(TYPES, root):
        for node in block.children:
            if node.value is not None or node.children:
                raise UnreadableOutput(TYPES, "no vGPU type", line=node.line.text, number=node.line.number)
        found[pci_id] = tuple(node.key for node in block.children if node.key not in ("None", "N/A"))
    return found


def parse_verbose_types(text: str) -> Mapping[str, tuple[VgpuType, ...]]:
    """Read `vgpu -s -v` or `vgpu -c -v`, by the GPU's address.

    Raises UnreadableOutput for a type without a number or a name.
    """
    root = tree_of(VERBOSE_TYPES, text)
    return {
        pci_id: tuple(_type(node) for node in block.all("vGPU Type ID"))
        for pci_id, block in gpu_blocks(VERBOSE_TYPES, root)
    }


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


def _type(node: Node) -> VgpuType:
    name = node.text("Name")
    if name is None:
        raise UnreadableOutput(
            VERBOSE_TYPES, "a vGPU type without a name", line=node.line.text, number=node.line.number
        )
    return VgpuType(
        type_id=int_or_error(VERBOSE_TYPES, node.value or "", node.line),
        name=name,
        vgpu_class=node.text("Class"),
        gpu_instance_profile_id=node.number(VERBOSE_TYPES, "GPU Instance Profile ID"),
        max_instances=node.number(VERBOSE_TYPES, "Max Instances"),
        max_instances_per_vm=node.number(VERBOSE_TYPES, "Max Instances Per VM"),
        is_multi_vgpu_exclusive=node.switch(VERBOSE_TYPES, "Multi vGPU Exclusive"),
        memory_mib=node.number(VERBOSE_TYPES, "FB Memory"),
        placement_size=node.number(VERBOSE_TYPES, "Placement Size"),
        supported_placements=_placements(node, "Supported Placement IDs"),
        creatable_placements=_placements(node, "Creatable Placement IDs"),
    )


def _placements(node: Node, key: str) -> tuple[int, ...]:
    found = node.find(key)
    told = node.text(key)
    if found is None or told is None:
        return ()
    return tuple(int_or_error(VERBOSE_TYPES, word, found.line) for word in told.split())


def _vgpu(node: Node) -> RunningVgpu:
    return RunningVgpu(
        vgpu_id=int_or_error(VGPUS, node.value or "", node.line),
        vm_id=node.text("VM ID"),
        vm_name=node.text("VM Name"),
        name=node.text("vGPU Name"),
        type_id=node.number(VGPUS, "vGPU Type"),
        uuid=node.text("vGPU UUID"),
        guest_driver=node.text("Guest Driver Version"),
        licence=node.text("License Status"),
        gpu_instance_id=node.number(VGPUS, "GPU Instance ID"),
        placement_id=node.number(VGPUS, "Placement ID"),
        is_ecc=node.switch(VGPUS, "ECC Mode"),
        total_mib=node.number(VGPUS, "FB Memory Usage", "Total"),
        used_mib=node.number(VGPUS, "FB Memory Usage", "Used"),
    )
