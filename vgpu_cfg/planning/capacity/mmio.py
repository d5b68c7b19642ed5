"""How much 64-bit MMIO space a VM with GPUs needs.

The rule (Frank Denneman): sum the framebuffers, round up to a power of two, take the
next power of two. The table (NVIDIA AI Enterprise Infra 6.x, vGPU C-Series): so much
per GPU of a board. They agree but for the V100 with 16 GB, so the larger one holds.
Every vGPU counts as its whole board, since the device shows the whole BAR.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil

from vgpu_cfg.catalog import Board

USE_KEY = "pciPassthru.use64bitMMIO"
SIZE_KEY = "pciPassthru.64bitMMIOSizeGB"
UNKNOWN_BOARD_GB = 512
"""VMware's own controllers give this to every VM with a passed-through device (vm-operator)."""


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
