"""How the PCI ids of a board are listed."""

from __future__ import annotations

from vgpu_cfg.catalog import NVIDIA, Board


def pci_text(board: Board) -> str:
    """List a board's PCI ids as `lspci -nn` does: "10de:20f1, 10de:25b6/14a9"."""
    words = []
    for pci in board.pci_ids:
        subsystem = f"/{pci.subsystem_id:04x}" if pci.subsystem_id is not None else ""
        words.append(f"{NVIDIA:04x}:{pci.device_id:04x}{subsystem}")
    return ", ".join(dict.fromkeys(words))
