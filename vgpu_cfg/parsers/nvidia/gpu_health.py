"""A GPU's health from `nvidia-smi -q`: memory errors, causes of slowdown, its PCIe link.

Sources: nvidia-smi manual page ("ECC Errors", "Retired pages", "Remapped Rows", "GPU Reset Status", "Clocks
Event Reasons", which drivers before R535 print as "Clocks Throttle Reasons"); NVIDIA GPU Memory Error
Management, "Row remapping": a GPU is taken out of service if a remapping failed, or waits for a reset. A vGPU
prints N/A.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.nvidia.smi import QUERY
from vgpu_cfg.parsers.nvidia.tree import Node, gpu_blocks, tree_of
from vgpu_cfg.parsers.text import value_or_none

SLOWDOWNS = ("HW Slowdown", "HW Thermal Slowdown", "HW Power Brake Slowdown", "SW Thermal Slowdown")
"""Reasons for lower clocks that need a repair; a power cap under load, and idling, do not."""

_FLAGS = (
    ("memory row remapping failed", ("Remapped Rows", "Remapping Failure Occurred")),
    ("remapped memory rows are pending a reset", ("Remapped Rows", "Pending")),
    ("retired memory pages are pending a restart", ("Retired Pages", "Pending Page Blacklist")),
    ("GPU reset required", ("GPU Reset Status", "Reset Required")),
)
_WIDTH = re.compile(r"(\d{1,2})x")


class GpuHealth(Frozen):
    """A GPU's state. `troubles` are words for people; `is_told` is whether the output has any of it."""

    pci_id: str
    troubles: tuple[str, ...] = ()
    is_told: bool = False
    capped: str = ""
    """Its power limit and the board's own, if it is below that."""


def parse_health(text: str) -> tuple[GpuHealth, ...]:
    """Read `nvidia-smi -q`, of a guest or a host, GPU by GPU.

    Raises ToolFailed if the driver is not loaded, UnreadableOutput for unknown output.
    """
    root = tree_of(QUERY, text)
    return tuple(_health(pci_id, block) for pci_id, block in gpu_blocks(QUERY, root))


def _health(pci_id: str, block: Node) -> GpuHealth:
    troubles = [*_memory(block), *_flags(block), *_slowdowns(block), *_link(block), *_fabric(block)]
    told = (
        block.text("ECC Errors", "Volatile", "DRAM Uncorrectable"),
        block.text("Remapped Rows", "Pending"),
        _reasons(block) and next(iter(_values(_reasons(block))), None),
    )
    return GpuHealth(pci_id=pci_id, troubles=tuple(troubles), is_told=any(told), capped=_capped(block))


_WATTS = re.compile(r"(\d{1,5}(?:\.\d{1,3})?) W")
# Belief: power-limit-names.
_LIMITS = (
    ("GPU Power Readings", "Current Power Limit"),
    ("GPU Power Readings", "Power Limit"),
    ("Power Readings", "Enforced Power Limit"),
    ("Power Readings", "Power Limit"),
)
"""The places of the limit in effect by release, the newest first (reports of R460 to R580)."""


def _capped(block: Node) -> str:
    limit = next((found for path in _LIMITS if (found := _watts(block, *path)) is not None), None)
    own = _watts(block, "GPU Power Readings", "Default Power Limit")
    own = own if own is not None else _watts(block, "Power Readings", "Default Power Limit")
    if limit is None or own is None or limit >= own:
        return ""
    return f"power limit {limit:g} W, default {own:g} W"


def _watts(block: Node, *path: str) -> float | None:
    found = _WATTS.fullmatch(block.text(*path) or "")
    return float(found[1]) if found is not None else None


def _memory(block: Node) -> Iterator[str]:
    """Yield uncorrectable errors since the driver was loaded; older ones were dealt with then."""
    errors = block.find("ECC Errors", "Volatile")
    for node in errors.children if errors is not None else ():
        value = value_or_none(node.value or "")
        if "uncorrectable" in node.key.casefold() and value is not None and value.isdigit() and int(value):
            yield f"{int(value)} errors, {node.key}"
    older = block.find("ECC Errors", "Volatile", "Double Bit", "Total")  # Volta and before
    value = value_or_none(older.value or "") if older is not None else None
    if value is not None and value.isdigit() and int(value):
        yield f"{int(value)} errors, Double Bit"


def _flags(block: Node) -> Iterator[str]:
    for words, path in _FLAGS:
        if (block.text(*path) or "").casefold() == "yes":
            yield words


def _fabric(block: Node) -> Iterator[str]:
    """Yield a GPU that has not joined NVSwitches' fabric, without which CUDA does not start on it."""
    state = block.text("Fabric", "State")
    status = block.text("Fabric", "Status")
    if state is not None and state.casefold() not in ("completed", "not supported"):
        yield f"not joined to the NVSwitch fabric: {state}"
    elif status is not None and status.casefold() != "success":
        yield f"not joined to the NVSwitch fabric: {status}"


def _reasons(block: Node) -> Node | None:
    return block.find("Clocks Event Reasons") or block.find("Clocks Throttle Reasons")


def _values(node: Node | None) -> Iterator[Node]:
    for child in node.children if node is not None else ():
        if value_or_none(child.value or "") is not None:
            yield child
        yield from _values(child)


def _slowdowns(block: Node) -> Iterator[str]:
    for node in _values(_reasons(block)):
        if node.key in SLOWDOWNS and (node.value or "").casefold() == "active":
            yield f"{node.key} is active"


def _link(block: Node) -> Iterator[str]:
    """Yield a link with fewer lanes than it could have; a slower one may be a GPU that saves power."""
    most = _WIDTH.fullmatch(block.text("PCI", "GPU Link Info", "Link Width", "Max") or "")
    now = _WIDTH.fullmatch(block.text("PCI", "GPU Link Info", "Link Width", "Current") or "")
    if most is not None and now is not None and int(now[1]) < int(most[1]):
        yield f"the PCIe link has {now[1]} of {most[1]} lanes"
