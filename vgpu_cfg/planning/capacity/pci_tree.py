"""PCI functions on a host and in a VM: their distance from each other, and the 64-bit MMIO space they need.

The distance follows from the bridges above two functions and from their NUMA nodes. vSphere names the bridge
above each function (HostPciDevice.parentBridge), so that the tree is known as far up as the host lists its
bridges. The words are those of nvidia-smi's legend for `topo -m`.

For the 64-bit MMIO space of a VM with GPUs there are a rule and a table. The rule (Frank Denneman): sum the
framebuffers, round up to a power of two, take the next power of two. The table (NVIDIA AI Enterprise Infra
6.x, vGPU C-Series): so much per GPU of a board. They agree but for the V100 with 16 GB, so the larger one
holds. Every vGPU counts as its whole board, since the device shows the whole BAR.

Belief: parent-bridge-is-an-address, root-ports-share-a-bus.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import ceil

from vgpu_cfg.catalog import Board
from vgpu_cfg.model.observed.inventory import Host, PciDevice

PIX, PXB, PHB, NODE, SYS = "PIX", "PXB", "PHB", "NODE", "SYS"

USE_KEY = "pciPassthru.use64bitMMIO"
SIZE_KEY = "pciPassthru.64bitMMIOSizeGB"
UNKNOWN_BOARD_GB = 512
"""VMware's own controllers give this to every VM with a passed-through device (vm-operator)."""


_NVSWITCH_ON_PCI = frozenset({"Volta", "Ampere", "Hopper"})
"""Architectures whose NVSwitches are PCI functions of the host; NVLink switches of later ones are not."""


def is_switched(host: Host, board: Board | None) -> bool:
    """Whether NVSwitch joins a host's GPUs of this board.

    The host's list of PCI functions decides; where it lists no bridges, the board's usual form does. Four
    SXM GPUs of one server are joined without NVSwitch (Dell XE8640, HGX A100 4-GPU).
    """
    if board is None or not board.is_nvswitch:
        return False
    return board.architecture not in _NVSWITCH_ON_PCI or host.has_nvswitch is not False


class PciTree:
    """The bridges of one host."""

    def __init__(self, host: Host) -> None:
        listed = (*host.pci_devices, *(gpu.pci for gpu in host.gpus))
        nics = (nic.pci for nic in host.nics if nic.pci is not None)
        self._devices: Mapping[str, PciDevice] = {device.pci_id: device for device in (*nics, *listed)}

    def chain(self, pci_id: str) -> tuple[str, ...]:
        """Name the bridges above a function, the nearest first; empty if the host reports none."""
        found: list[str] = []
        device = self._devices.get(pci_id)
        while device is not None and device.parent_bridge and device.parent_bridge not in found:
            found.append(device.parent_bridge)
            device = self._devices.get(device.parent_bridge)
        return tuple(found)

    def root(self, pci_id: str) -> str | None:
        """Return the bus of the root port above a function, None where it is not known.

        Root ports of one PCIe host bridge are on one bus: its root complex. A bridge that the host does not
        list itself may have others above it, so nothing follows from it.
        """
        chain = self.chain(pci_id)
        if not chain or chain[-1] not in self._devices:
            return None
        return chain[-1].rpartition(":")[0]

    def is_one_root(self, one: str, other: str) -> bool | None:
        """Whether two functions are of one root complex; None where that is not known."""
        if _slot(one) == _slot(other) or set(self.chain(one)) & set(self.chain(other)):
            return True
        roots = (self.root(one), self.root(other))
        return None if None in roots else roots[0] == roots[1]

    def distance(self, one: str, other: str, nodes: tuple[int | None, int | None]) -> str | None:
        """Return the word for the path between two functions on these NUMA nodes, None if unknown.

        NODE also where only the node is known: they may be nearer.
        """
        if _slot(one) == _slot(other):
            return PIX
        chains = (self.chain(one), self.chain(other))
        common = next((bridge for bridge in chains[0] if bridge in chains[1]), None)
        if common is not None:
            # A PCIe switch is one bridge above and one for each port: one step below it is one switch.
            return PIX if max(chain.index(common) for chain in chains) <= 1 else PXB
        if None not in nodes and nodes[0] != nodes[1]:
            return SYS
        if self.is_one_root(one, other):
            return PHB
        return None if None in nodes else NODE


def _slot(pci_id: str) -> str:
    """Return the address without its function: the ports of a card share it."""
    return pci_id.rpartition(".")[0]


def mmio_size_gb(boards: Iterable[Board | None]) -> int | None:
    """Return the GB for a VM with one device of each of these boards; None where it needs no setting.

    A board that is not known counts for what VMware gives every such VM.
    """
    known: list[Board] = []
    least = 0
    for board in boards:
        if board is None:
            least = UNKNOWN_BOARD_GB
        elif board.mmio_gb is not None:
            known.append(board)
    if not known:
        return least or None
    framebuffer_gb = ceil(sum(board.framebuffer_mib for board in known) / 1024)
    by_rule = 2 * _power_of_two(framebuffer_gb)
    by_table = _power_of_two(sum(board.mmio_gb or 0 for board in known))
    return max(by_rule, by_table, least)


def _power_of_two(number: int) -> int:
    return 1 << (number - 1).bit_length()
