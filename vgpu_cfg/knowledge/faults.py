"""What vCenter, ESXi and NVIDIA mean by their error texts: cause, how to be sure, and what to do.

vCenter gives most failures of a vGPU as free text (`GenericVmConfigFault`), so texts
are matched, the telling ones before the general ones; a fault's type helps where
it says enough by itself.
"""

from __future__ import annotations

from functools import cache

from vgpu_cfg.knowledge.fault_rows import Confidence, FaultRow
from vgpu_cfg.model.frozen import Frozen

__all__ = [
    "WHERE_TO_LOOK",
    "Confidence",
    "Explanation",
    "LogLine",
    "count_known",
    "explain_fault",
    "explain_lines",
    "explain_log",
    "explanation_of",
]

WHERE_TO_LOOK = (
    "vmware.log in the VM's folder: the lines with vmiop_log, and the last ones before the failure",
    "/var/log/vmkernel.log on the host, at the same time; dmesg | grep NVRM",
    "/etc/init.d/nvdGpuMgmtDaemon status on the host",
    "nvidia-bug-report.sh, on the host and in the guest, for NVIDIA's support",
)
"""What tells more where a text is not known."""


class Explanation(Frozen):
    """A known failure: `key` names it for good, `confidence` says how it is known.

    `check` says how to be sure, a line for each command or place. `is_general` ones say little.
    """

    key: str
    symptom: str
    cause: str
    check: tuple[str, ...]
    remedy: str
    confidence: Confidence
    is_general: bool = False


class LogLine(Frozen):
    """A line of a text that shows a known failure; `index` counts from 0."""

    index: int
    text: str
    key: str


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

    A general one ("power on failed") is left out where a telling one is there. The name of a
    fault's type in the text counts where no words of the text do.
    """
    found = [row for row in _rows() if row.matches(text)]
    telling = [row for row in found if not row.is_general]
    if not telling:
        named = [row for row in _rows() if any(fault in text for fault in row.faults)]
        telling = [row for row in named if not row.is_general]
    return tuple(_explanation(row) for row in telling or found)


def explain_lines(text: str) -> tuple[LogLine, ...]:
    """Return the lines that show a known failure, the first of each, the most telling first.

    A general one is left out where a telling one is there, as in `explain_log`.
    """
    lines = text.splitlines()
    found: list[tuple[FaultRow, LogLine]] = []
    for row in _rows():
        if not row.matches(text):  # once over a log of megabytes, not once for each of its lines
            continue
        index = next((number for number, line in enumerate(lines) if row.matches(line)), None)
        if index is not None:
            found.append((row, LogLine(index=index, text=lines[index], key=row.key)))
    telling = [line for row, line in found if not row.is_general]
    return tuple(telling or [line for _, line in found])


def explanation_of(key: str) -> Explanation | None:
    """Return the explanation with this key, None where no row has it."""
    return next((_explanation(row) for row in _rows() if row.key == key), None)


def count_known() -> int:
    """Return how many failures are known."""
    return len(_rows())


def _explanation(row: FaultRow) -> Explanation:
    return Explanation(
        key=row.key,
        symptom=row.symptom,
        cause=row.cause,
        check=row.check,
        remedy=row.remedy,
        confidence=row.confidence,
        is_general=row.is_general,
    )


@cache
def _rows() -> tuple[FaultRow, ...]:
    """Return all rows; they are loaded only when something has failed."""
    from vgpu_cfg.knowledge.fault_rows_general import GENERAL_ROWS
    from vgpu_cfg.knowledge.fault_rows_gpus import GPU_ROWS
    from vgpu_cfg.knowledge.fault_rows_guests import GUEST_ROWS
    from vgpu_cfg.knowledge.fault_rows_power_on import POWER_ON_ROWS
    from vgpu_cfg.knowledge.fault_rows_vm import VM_ROWS

    return (*POWER_ON_ROWS, *VM_ROWS, *GPU_ROWS, *GUEST_ROWS, *GENERAL_ROWS)
