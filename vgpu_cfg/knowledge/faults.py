"""What vCenter, ESXi and NVIDIA mean by their error texts: the likely cause, and what to do.

vCenter gives most failures of a vGPU as free text (`GenericVmConfigFault`), so texts
are matched, the telling ones before the general ones; a fault's type helps where
it says enough by itself.
"""

from __future__ import annotations

from functools import cache

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow
from vgpu_cfg.model.frozen import Frozen

__all__ = ["Confidence", "Explanation", "explain_fault", "explain_log"]


class Explanation(Frozen):
    """A known failure: `key` names it for good, `confidence` says how it is known."""

    key: str
    cause: str
    remedy: str
    confidence: Confidence


def explain_fault(text: str, fault: str = "") -> Explanation | None:
    """Return the most telling explanation of an error text, None where it is not known.

    `fault` is the name of the fault's type, such as "InsufficientGraphicsResourcesFault".
    """
    by_text = next((row for row in _rows() if row.matches(text)), None)
    by_fault = next((row for row in _rows() if fault in row.faults), None)
    # A text that is known only in general gives way to a fault that says what it is.
    found = by_fault if by_text is None or (by_text.is_general and by_fault is not None) else by_text
    return _explanation(found) if found is not None else None


def explain_log(text: str) -> tuple[Explanation, ...]:
    """Return every explanation that a pasted log gives, each once, the most telling first.

    A general one ("power on failed") is left out where a telling one is there.
    """
    found = [row for row in _rows() if row.matches(text)]
    telling = [row for row in found if not row.is_general]
    return tuple(_explanation(row) for row in telling or found)


def _explanation(row: FaultRow) -> Explanation:
    return Explanation(key=row.key, cause=row.cause, remedy=row.remedy, confidence=row.confidence)


@cache
def _rows() -> tuple[FaultRow, ...]:
    """Return all rows; they are loaded only when something has failed."""
    from vgpu_cfg.knowledge.fault_rows_fleet import FLEET_ROWS
    from vgpu_cfg.knowledge.fault_rows_vm import GENERAL_ROWS, VM_ROWS

    return (*VM_ROWS, *FLEET_ROWS, *GENERAL_ROWS)
