"""NVIDIA's mst on ESXi: which NICs the firmware tools reach, and by which name.

Names are `mt`, the device id in decimal, `_pciconf` and a number; further functions of one NIC add
`.1`. Both forms of `status` are those of the MFT documentation, "mst Synopsis - VMware"; the width of
their columns, and what `start` prints, are unproven. A NIC that is passed through is not reached.
"""

from __future__ import annotations

from collections.abc import Sequence

from vgpu_cfg.lab.estates.stock import MELLANOX
from vgpu_cfg.lab.nvidia.replies import Reply, complain, say
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.host import Host, Nic

DEVICE_TYPES = {
    0x1017: "ConnectX5",
    0x1019: "ConnectX5",
    0x101B: "ConnectX6",
    0x101D: "ConnectX6DX",
    0x101F: "ConnectX6LX",
    0x1021: "ConnectX7",
    0x1023: "ConnectX8",
    0xA2D6: "BlueField2",
    0xA2DC: "BlueField3",
}


def devices(host: Host) -> dict[str, Nic]:
    """Return the NICs that the firmware tools reach, by mst's name, in the order of their addresses."""
    found: dict[str, Nic] = {}
    boards: dict[int, list[str]] = {}
    for nic in sorted(host.nics, key=lambda nic: nic.pci.pci_id):
        if nic.pci.vendor_id != MELLANOX or host.is_passed_through(nic.pci.pci_id):
            continue
        slots = boards.setdefault(nic.pci.device_id, [])
        slot = nic.pci.pci_id.rpartition(".")[0]
        if slot not in slots:
            slots.append(slot)
        suffix = f".{nic.pci.function}" if nic.pci.function else ""
        found[f"mt{nic.pci.device_id}_pciconf{slots.index(slot)}{suffix}"] = nic
    return found


def device_type(nic: Nic) -> str:
    """Return what the firmware tools call a NIC's chip."""
    return DEVICE_TYPES.get(nic.pci.device_id, "N/A")


def run_mst(lab: Simulation, host: Host, arguments: Sequence[str]) -> Reply:
    """Start mst, or tell what it reaches."""
    match list(arguments):
        case ["start"] | ["restart"]:
            return say("Loading MST modules - Success")
        case ["status"]:
            return say("MST devices:", "------------", *devices(host))
        case ["status", "-v" | "-vv"]:
            return _table(host)
        case _:
            return complain("Usage: mst {start|stop|status|restart|version}")


def _table(host: Host) -> Reply:
    rows = [
        (
            f"{device_type(nic)}(rev:0)",
            name,
            nic.pci.pci_id.removeprefix("0000:"),
            "",
            f"net-{nic.device}",
            "" if nic.pci.numa_node is None else str(nic.pci.numa_node),
        )
        for name, nic in devices(host).items()
    ]
    head = ("DEVICE_TYPE", "MST", "PCI", "RDMA", "NET", "NUMA")
    return say("PCI devices:", *(_row(row) for row in [head, *rows]))


def _row(cells: tuple[str, ...]) -> str:
    return "".join(
        f"{cell:<{width}}" for cell, width in zip(cells, (24, 23, 11, 8, 30, 0), strict=True)
    ).rstrip()
