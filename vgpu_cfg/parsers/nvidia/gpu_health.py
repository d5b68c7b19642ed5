"""A GPU's health from `nvidia-smi -q`: memory errors, causes of slowdown, its links, the driver's demands.

Sources: nvidia-smi manual page ("ECC Errors", "Retired pages", "Remapped Rows", "GPU Reset Status", "Clocks
Event Reasons", which drivers before R535 print as "Clocks Throttle Reasons"); NVIDIA GPU Memory Error
Management, "Row remapping": a GPU is taken out of service if a remapping failed, or waits for a reset. A vGPU
prints N/A. From R565 on the driver's demand is "GPU Recovery Action" (nvml.h, nvmlDeviceGpuRecoveryAction_t).
Fabric health: nvml.h, NVML_GPU_FABRIC_HEALTH_*, in the words of NVIDIA/k8s-test-infra issues 677 and 685.

The words of errors are NVML's own texts (nvmlErrorString) in public reports of broken GPUs of 535.247.01,
550.90.07 and 580: any field may have one. A VM on 550.127.05 cannot read its host's PCIe generation, and is
sound.

Belief: error-words-are-faults, fabric-health-words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.nvidia.smi import QUERY
from vgpu_cfg.parsers.nvidia.tree import NO_GPUS, Node, gpu_blocks, tree_of
from vgpu_cfg.parsers.text import pci_id_of, value_or_none

SOUND = "no errors, full clocks, all lanes"
"""The words for a GPU without troubles."""

SLOWDOWNS = {
    "HW Slowdown": "slowdown",
    "HW Thermal Slowdown": "thermal",
    "HW Power Brake Slowdown": "brake",
    "SW Thermal Slowdown": "thermal",
}
"""Reasons for lower clocks that need a repair, with their kind; a power cap under load, and idling, do not.
"""

_FLAGS = (
    ("remap-failed", "memory row remapping failed", ("Remapped Rows", "Remapping Failure Occurred")),
    ("remap-pending", "remapped memory rows take effect after a GPU reset", ("Remapped Rows", "Pending")),
    (
        "remap-pending",
        "retired memory pages take effect after a restart",
        ("Retired Pages", "Pending Page Blacklist"),
    ),
    ("reset", "GPU reset required", ("GPU Reset Status", "Reset Required")),
    ("reset", "drain and reset recommended", ("GPU Reset Status", "Drain and Reset Recommended")),
    (
        "remap-pending",
        "the memory channel repair takes effect after a GPU reset",
        ("ECC Errors", "Channel Repair Pending"),
    ),
    ("remap-pending", "the TPC repair takes effect after a GPU reset", ("ECC Errors", "TPC Repair Pending")),
    ("remap-failed", "unrepairable memory", ("ECC Errors", "Unrepairable Memory")),
    (
        "remap-failed",
        "the SRAM error threshold has been exceeded",
        ("ECC Errors", "Aggregate", "SRAM Threshold Exceeded"),
    ),
)
_ERRORS = re.compile(
    r"unknown error|\bis lost\b|requires? (?:a )?(?:reset|restart)|err!|access blocked|corrupt|fallen off"
    r"|not in (?:a )?ready state|interrupt request issue|version mismatch|external power|\btimeout\b",
    re.IGNORECASE,
)
_GONE = re.compile(r"\bis lost\b|fallen off", re.IGNORECASE)
_LEFT_OUT = frozenset({"Processes", "Host Max"})
"""The names of programs, and the PCIe generation that a VM cannot read."""
_LOST = re.compile(
    r"Unable to determine the device handle for GPU ?(?:\d+: )?(?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f:.]+): "
)
"""nvidia-smi's line for a GPU that it has lost, before the others or alone."""
_FABRIC_SOUND = {
    "summary": "healthy",
    "bandwidth": "full",
    "route recovery in progress": "false",
    "route unhealthy": "false",
    "access timeout recovery": "false",
    "incorrect configuration": "none",
}
_MOST_FIELDS = 3
_WIDTH = re.compile(r"(\d{1,2})x")


class Trouble(NamedTuple):
    """A trouble of a GPU: its kind, as rules name it, and its words for people."""

    kind: str
    words: str


class GpuHealth(Frozen):
    """A GPU's state. `is_told` is whether the output has any of it."""

    pci_id: str
    found: tuple[Trouble, ...] = ()
    is_told: bool = False
    capped: str = ""
    """Its power limit and the board's own, if it is below that."""

    @property
    def troubles(self) -> tuple[str, ...]:
        """Its troubles in words for people."""
        return tuple(one.words for one in self.found)


def parse_health(text: str) -> tuple[GpuHealth, ...]:
    """Read `nvidia-smi -q`, of a guest or a host, GPU by GPU.

    Raises ToolFailed if the driver is not loaded, UnreadableOutput for unknown output.
    """
    lost: list[GpuHealth] = []
    rest: list[str] = []
    for line in text.splitlines():
        found = _LOST.match(line.strip())
        pci_id = pci_id_of(found["address"]) if found is not None else None
        if pci_id is not None:
            lost.append(GpuHealth(pci_id=pci_id, found=(Trouble("lost", line.strip()),)))
        else:
            rest.append(line)
    others = "\n".join(rest)
    if lost and others.strip() in ("", NO_GPUS):
        return tuple(lost)
    blocks = gpu_blocks(QUERY, tree_of(QUERY, others))
    return (*lost, *(_health(pci_id, block) for pci_id, block in blocks))


def troubles_of(gpus: Iterable[GpuHealth]) -> str:
    """Return the troubles of GPUs, each by its address; "" for none."""
    return "; ".join(f"{one.pci_id}: {', '.join(one.troubles)}" for one in gpus if one.troubles)


def _health(pci_id: str, block: Node) -> GpuHealth:
    troubles = [
        *_demand(block),
        *_errors(block),
        *_memory(block),
        *_flags(block),
        *_slowdowns(block),
        *_link(block),
        *_fabric(block),
    ]
    told = (
        block.text("ECC Errors", "Volatile", "DRAM Uncorrectable"),
        block.text("Remapped Rows", "Pending"),
        _reasons(block) and next(iter(_values(_reasons(block))), None),
    )
    return GpuHealth(pci_id=pci_id, found=tuple(troubles), is_told=any(told), capped=_capped(block))


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


def _memory(block: Node) -> Iterator[Trouble]:
    """Yield uncorrectable errors since the driver was loaded; older ones were dealt with then."""
    errors = block.find("ECC Errors", "Volatile")
    for node in errors.children if errors is not None else ():
        value = value_or_none(node.value or "")
        if "uncorrectable" in node.key.casefold() and value is not None and value.isdigit() and int(value):
            yield Trouble("ecc", f"{int(value)} errors, {node.key}")
    older = block.find("ECC Errors", "Volatile", "Double Bit", "Total")  # Volta and before
    value = value_or_none(older.value or "") if older is not None else None
    if value is not None and value.isdigit() and int(value):
        yield Trouble("ecc", f"{int(value)} errors, Double Bit")


def _flags(block: Node) -> Iterator[Trouble]:
    for kind, words, path in _FLAGS:
        if (block.text(*path) or "").casefold() == "yes":
            yield Trouble(kind, words)


def is_error(value: str) -> bool:
    """Whether a value is the driver's error in place of a reading; one that is not available is no error."""
    return _ERRORS.search(value) is not None


def _demand(block: Node) -> Iterator[Trouble]:
    """Yield the action that the driver asks for, whatever it is called."""
    action = block.text("GPU Recovery Action")
    if action is not None and action.casefold() not in ("none", "not supported") and not is_error(action):
        yield Trouble("reset", f"the driver requests a recovery action: {action}")


def _errors(block: Node) -> Iterator[Trouble]:
    """Yield each error that replaces readings, with the first fields that have it."""
    fields: dict[str, list[str]] = {}
    for path, value in _read(block):
        if is_error(value):
            fields.setdefault(value, []).append(path)
    for value, paths in fields.items():
        more = len(paths) - _MOST_FIELDS
        words = f"{value} ({', '.join(paths[:_MOST_FIELDS])}{f' and {more} more' if more > 0 else ''})"
        yield Trouble("lost" if _GONE.search(value) else "error", words)


def _read(node: Node) -> Iterator[tuple[str, str]]:
    for child in node.children:
        if child.key in _LEFT_OUT:
            continue
        if child.value:
            yield child.key, child.value
        for path, value in _read(child):
            yield f"{child.key}/{path}", value


def _fabric(block: Node) -> Iterator[Trouble]:
    """Yield a GPU that has not joined NVSwitches' fabric, without which CUDA does not start on it."""
    health = block.find("Fabric", "Health")
    for node in health.children if health is not None else ():
        value, sound = value_or_none(node.value or ""), _FABRIC_SOUND.get(node.key.casefold())
        if value is not None and sound is not None and value.casefold() not in (sound, "not supported"):
            yield Trouble("fabric", f"NVSwitch fabric: {node.key} {value}")
    state = block.text("Fabric", "State")
    status = block.text("Fabric", "Status")
    if state is not None and state.casefold() not in ("completed", "not supported"):
        yield Trouble("fabric", f"not joined to the NVSwitch fabric: {state}")
    elif status is not None and status.casefold() != "success":
        yield Trouble("fabric", f"not joined to the NVSwitch fabric: {status}")


def _reasons(block: Node) -> Node | None:
    return block.find("Clocks Event Reasons") or block.find("Clocks Throttle Reasons")


def _values(node: Node | None) -> Iterator[Node]:
    for child in node.children if node is not None else ():
        if value_or_none(child.value or "") is not None:
            yield child
        yield from _values(child)


def _slowdowns(block: Node) -> Iterator[Trouble]:
    for node in _values(_reasons(block)):
        if node.key in SLOWDOWNS and (node.value or "").casefold() == "active":
            yield Trouble(SLOWDOWNS[node.key], f"{node.key} is active")


def _link(block: Node) -> Iterator[Trouble]:
    """Yield a link with fewer lanes than it could have; a slower one may be a GPU that saves power."""
    most = _WIDTH.fullmatch(block.text("PCI", "GPU Link Info", "Link Width", "Max") or "")
    now = _WIDTH.fullmatch(block.text("PCI", "GPU Link Info", "Link Width", "Current") or "")
    if most is not None and now is not None and int(now[1]) < int(most[1]):
        yield Trouble("lanes", f"the PCIe link has {now[1]} of {most[1]} lanes")
