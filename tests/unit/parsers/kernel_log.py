"""The kernel log as verify reads it: with the faults of the machine that `explain` knows."""

from __future__ import annotations

from vgpu_cfg.knowledge.faults import is_machine_fault
from vgpu_cfg.parsers import guest_system


def parse_kernel_log(text: str) -> guest_system.KernelLog:
    """Read `dmesg` as verify does."""
    return guest_system.parse_kernel_log(text, is_machine_fault)
