"""nvidia-smi inside a guest: the license of each vGPU, its kind, and the GPUs that a container sees.

Sources: NVIDIA AI Enterprise, "vGPU for Compute licensing" (section "vGPU Software Licensed Product",
`Licensed (Expiry: 2022-11-23 5:2:12 GMT)`); the states `Unlicensed (Unrestricted)` and `Unlicensed
(Restricted)` as NVIDIA's DCGM names them; nvidia-smi manual page for `-L`. That drivers before R510 print
`Licensed` without an expiry was seen in public logs.

Belief: guest-lists-container-processes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.parsers.nvidia.smi import QUERY
from vgpu_cfg.parsers.nvidia.tree import Node, gpu_blocks, raise_failure, tree_of
from vgpu_cfg.parsers.text import UnreadableOutput, lines_with_content

LIST = "nvidia-smi -L"

_LICENSED = re.compile(r"Licensed(?: \(Expiry: (?P<expiry>[^)]+)\))?")
_EXPIRY = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2}) (\d{1,2}):(\d{1,2}):(\d{1,2}) GMT")
_LISTED = re.compile(r"GPU (?P<index>\d+): (?P<name>.+?) \(UUID: (?P<uuid>[^)]+)\)")
_SLICE = re.compile(r"\s+MIG (?P<name>\S+)\s+Device\s+(?P<index>\d+): \(UUID: (?P<uuid>[^)]+)\)")


class GuestGpu(Frozen):
    """A GPU as the guest sees it.

    licence: the state as printed, None if there is no such section or it says N/A.
    expiry: the end of the licence, None if it is not printed ("Permanent" is not a moment either).
    mode: the virtualization mode: "VGPU", "Pass-Through", "None".
    is_mig: whether it is divided.
    compute_mode: its permitted use: "Default", "Exclusive_Process", "Prohibited".
    used_mib: its memory in use.
    processes: those that hold some of it, as `python3 (2211)`.
    ecc: "Enabled" or "Disabled".
    """

    pci_id: str
    name: str | None = None
    mode: str | None = None
    licence: str | None = None
    expiry: datetime | None = None
    memory_mib: int | None = None
    is_mig: bool = False
    compute_mode: str | None = None
    used_mib: int | None = None
    processes: tuple[str, ...] = ()
    ecc: str | None = None

    @property
    def is_licensed(self) -> bool:
        """Whether the state begins with "Licensed", which is the only one that is a licence."""
        return self.licence is not None and _LICENSED.match(self.licence) is not None


class GuestGpus(Frozen):
    """The content of `nvidia-smi -q` in a guest."""

    driver_version: str | None = None
    gpus: tuple[GuestGpu, ...] = ()

    @property
    def branch(self) -> str:
        """The driver's branch, as "580"; "" if the version is missing."""
        return (self.driver_version or "").partition(".")[0]


class ListedGpu(Frozen):
    """A line of `nvidia-smi -L`; `slices` are the MIG devices in it."""

    name: str
    uuid: str
    slices: tuple[str, ...] = ()


def parse_guest_query(text: str) -> GuestGpus:
    """Read `nvidia-smi -q` as a guest prints it.

    Raises ToolFailed if the driver is not loaded, UnreadableOutput for unknown output.
    """
    root = tree_of(QUERY, text)
    gpus = tuple(_gpu(pci_id, block) for pci_id, block in gpu_blocks(QUERY, root))
    return GuestGpus(driver_version=root.text("Driver Version"), gpus=gpus)


def parse_listed(text: str) -> tuple[ListedGpu, ...]:
    """Read `nvidia-smi -L`; lines of something else before the first GPU are left out.

    A container's entry point may greet before it runs the command (NGC images do).
    Raises ToolFailed where nvidia-smi failed, UnreadableOutput where no GPU is listed.
    """
    lines = lines_with_content(text)
    raise_failure(LIST, lines)
    found: list[ListedGpu] = []
    for line in lines:
        if (gpu := _LISTED.fullmatch(line.text.strip())) is not None:
            found.append(ListedGpu(name=gpu["name"], uuid=gpu["uuid"]))
        elif found and (part := _SLICE.fullmatch(line.text)) is not None:
            last = found[-1]
            found[-1] = last.model_copy(update={"slices": (*last.slices, part["name"])})
    if not found:
        failed = next((line for line in lines if "NVIDIA-SMI has failed" in line.text), lines[-1])
        raise UnreadableOutput(LIST, "no GPU listed", line=failed.text, number=failed.number)
    return tuple(found)


def _gpu(pci_id: str, block: Node) -> GuestGpu:
    licence = block.licence("vGPU Software Licensed Product", "License Status")
    if licence is None:  # R460 and before print the section under this name
        licence = block.licence("GRID Licensed Product", "License Status")
    return GuestGpu(
        pci_id=pci_id,
        name=block.text("Product Name"),
        mode=block.text("GPU Virtualization Mode", "Virtualization Mode"),
        licence=licence,
        expiry=_expiry(licence),
        memory_mib=block.number(QUERY, "FB Memory Usage", "Total"),
        is_mig=(block.text("MIG Mode", "Current") or "").casefold() == "enabled",
        compute_mode=block.text("Compute Mode"),
        used_mib=block.number(QUERY, "FB Memory Usage", "Used"),
        processes=tuple(_processes(block)),
        ecc=block.text("ECC Mode", "Current"),
    )


def _processes(block: Node) -> Iterator[str]:
    """Yield who uses the GPU. A process's lines are below `Process ID`, or on its line, by release."""
    section = block.find("Processes")
    pid = ""
    for node in _below(section) if section is not None else ():
        if node.key == "Process ID":
            pid = node.value or ""
        elif node.key == "Name" and pid:
            yield f"{node.value} ({pid})"
            pid = ""


def _below(node: Node) -> Iterator[Node]:
    for child in node.children:
        yield child
        yield from _below(child)


def _expiry(licence: str | None) -> datetime | None:
    """Read the moment after "Expiry:"; its numbers have no leading zeros."""
    state = _LICENSED.match(licence or "")
    found = _EXPIRY.fullmatch(state["expiry"] or "") if state is not None else None
    if found is None:
        return None
    try:
        year, month, day, hour, minute, second = (int(part) for part in found.groups())
        return datetime(year, month, day, hour, minute, second, tzinfo=UTC)
    except ValueError as error:
        raise UnreadableOutput(QUERY, "not a date", line=licence or "") from error
