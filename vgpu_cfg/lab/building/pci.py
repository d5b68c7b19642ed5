"""The PCI functions of hosts: host bridges, GPUs and NICs, with their ids and names."""

from __future__ import annotations

from vgpu_cfg.catalog import Board
from vgpu_cfg.lab.estates.stock import NicModel
from vgpu_cfg.lab.state.host import PciDevice

NVIDIA = 0x10DE
CLASS_3D = 0x0302
CLASS_NETWORK = 0x0200

HOST_BRIDGES = tuple(
    PciDevice(
        pci_id=f"0000:{bus:02x}:00.0",
        vendor_id=0x1022,
        device_id=0x1480,
        class_id=0x0600,
        vendor_name="Advanced Micro Devices, Inc. [AMD]",
        device_name="Starship/Matisse Root Complex",
        numa_node=node,
    )
    for node, bus in enumerate((0x00, 0x80))
)


def gpu_pci(board: Board, pci_id: str, numa_node: int) -> PciDevice:
    """Return the PCI function of a GPU, with the ids of the board's first variant."""
    ids = board.pci_ids[0]
    return PciDevice(
        pci_id=pci_id,
        vendor_id=NVIDIA,
        device_id=ids.device_id,
        subvendor_id=NVIDIA,
        subdevice_id=ids.subsystem_id or 0,
        class_id=CLASS_3D,
        vendor_name="NVIDIA Corporation",
        device_name=gpu_name(board),
        numa_node=numa_node,
        parent_bridge=_bridge_before(pci_id),
    )


def gpu_name(board: Board) -> str:
    """Return the name that the host shows of a board."""
    return f"NVIDIA {board.names[0]}"


def nic_pci(model: NicModel, pci_id: str, numa_node: int) -> PciDevice:
    """Return the PCI function of a NIC port."""
    return PciDevice(
        pci_id=pci_id,
        vendor_id=model.vendor_id,
        device_id=model.device_id,
        subvendor_id=model.vendor_id,
        subdevice_id=0x0001,
        class_id=CLASS_NETWORK,
        vendor_name="Mellanox Technologies",
        device_name=model.name,
        numa_node=numa_node,
        parent_bridge=_bridge_before(pci_id),
    )


def _bridge_before(pci_id: str) -> str:
    domain, bus, _ = pci_id.split(":")
    return f"{domain}:{int(bus, 16) - 1:02x}:00.0"
