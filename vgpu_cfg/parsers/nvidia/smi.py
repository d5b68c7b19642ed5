"""Output of nvidia-smi: the driver and every GPU, running vGPUs, GPU instances, and NVLinks with traffic.

    -q, --query-gpu --format=csv    the driver and every GPU
    vgpu -q                         the vGPUs that run on a host
    mig -lgi                        the existing GPU instances, and their placement
    nvlink --status                 the NVLinks of each GPU that carry traffic

ECC's section is "Ecc Mode" up to R510 and "ECC Mode" after it. The number of a module is printed as "Module
ID" on its own in reports of R525 to R560, and as "Module Id" under "Platform Info" in those of 565.57.01,
570.124.06, 575.57.08, 580.119.02 and 580.173.02. A GPU that is on no baseboard has 1. For NVLinks there is a
line for each GPU, then `Link 0: 25 GB/s`, or `Link 0: <inactive>` for one that is down. A vGPU without NVLink
lists none.

Sources: NVIDIA AI Enterprise User Guide and Virtual GPU Software User Guide, chapters on nvidia-smi and on
monitoring; NVIDIA AI Enterprise User Guide, chapter on MIG-backed vGPUs; NVIDIA Multi-Instance GPU User
Guide; the nvidia-smi manual page, also "nvlink"; public logs of hosts for `License Status : N/A (Expiry:
N/A)`; public outputs of A100 and H100 for NVLinks.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator, Mapping

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.host_facts import GpuShellFacts, MigInstance
from vgpu_cfg.parsers.nvidia.tree import Node, gpu_blocks, raise_failure, tree_of
from vgpu_cfg.parsers.text import Line, UnreadableOutput, lines_with_content, pci_id_or_error, value_or_none

QUERY = "nvidia-smi -q"
CSV = "nvidia-smi --query-gpu --format=csv"

BUS_ID_FIELDS = frozenset({"pci.bus_id", "gpu_bus_id"})
"""Two names of one field; as a header both print `pci.bus_id`."""

VGPUS = "nvidia-smi vgpu -q"

INSTANCES = "nvidia-smi mig -lgi"

_RULE = re.compile(r"[+|]?[-=+]{5,}[+|]?")
_INSTANCE = re.compile(r"\|\s*(?P<gpu>\d+)\s+MIG\s+\S+\s+\d+\s+\d+\s+(?P<start>\d+):(?P<size>\d+)\s*\|")
_HEADS = ("GPU instances", "GPU ", "ID ")
_NONE = ("No MIG-enabled devices found", "No MIG-supported devices found", "No GPU instances found")

_GPU = re.compile(r"GPU (?P<gpu>\d{1,3}): .*")
_LINK = re.compile(r"Link \d{1,3}: (?P<state>.*)")


class SmiGpu(Frozen):
    """One GPU of `nvidia-smi -q`; None if it prints N/A or has no such line.

    `host_vgpu_mode` is "SR-IOV" or "Non SR-IOV", `module_id` numbers the module on an HGX board.
    """

    pci_id: str
    mig_current: bool | None = None
    mig_pending: bool | None = None
    ecc_current: bool | None = None
    ecc_pending: bool | None = None
    host_vgpu_mode: str | None = None
    # Belief: module-id-key.
    module_id: int | None = None

    @property
    def facts(self) -> GpuShellFacts:
        """The values for preparing a host."""
        return GpuShellFacts(
            mig_current=self.mig_current,
            mig_pending=self.mig_pending,
            ecc_current=self.ecc_current,
            ecc_pending=self.ecc_pending,
            host_vgpu_mode=self.host_vgpu_mode,
            module_id=self.module_id,
        )


class SmiReport(Frozen):
    """What `nvidia-smi -q` tells. `attached` counts all GPUs, also those that `-i` left out.

    `unreadable` maps the address of a GPU that could not be read to the reason.
    """

    driver_version: str | None = None
    attached: int | None = None
    gpus: tuple[SmiGpu, ...] = ()
    unreadable: Mapping[str, str] = Field(default_factory=dict)

    def gpu(self, pci_id: str) -> SmiGpu | None:
        """Return the GPU at an address."""
        return next((gpu for gpu in self.gpus if gpu.pci_id == pci_id), None)


def parse_query(text: str) -> SmiReport:
    """Read `nvidia-smi -q`, with or without `-i`.

    Raises ToolFailed where the driver is absent, UnreadableOutput for anything that is not understood.
    """
    report = parse_query_leniently(text)
    if report.unreadable:
        raise UnreadableOutput(QUERY, next(iter(report.unreadable.values())))
    return report


def parse_query_leniently(text: str) -> SmiReport:
    """Read `nvidia-smi -q`; a GPU that cannot be parsed is in `unreadable`, the others are read.

    Raises as `parse_query` if the GPUs cannot be separated.
    """
    root = tree_of(QUERY, text)
    gpus: list[SmiGpu] = []
    unreadable: dict[str, str] = {}
    blocks = gpu_blocks(QUERY, root)
    for pci_id, block in blocks:
        try:
            gpus.append(_gpu(pci_id, block))
        except UnreadableOutput as error:
            unreadable[pci_id] = error.message.removeprefix(f"{QUERY}: ")
    attached = root.number(QUERY, "Attached GPUs")
    if attached is not None and attached < len(blocks):
        raise UnreadableOutput(QUERY, f"{len(blocks)} GPU sections, but {attached} attached GPUs")
    return SmiReport(
        driver_version=root.text("Driver Version"),
        attached=attached,
        gpus=tuple(gpus),
        unreadable=unreadable,
    )


def parse_gpu_csv(text: str) -> tuple[Mapping[str, str | None], ...]:
    """Read `--query-gpu=... --format=csv`, one mapping per GPU, from field to value.

    A unit that a header carries ("memory.total [MiB]") is dropped from the name. Values that the tool does
    not have ("[N/A]") are None, addresses are normalised.
    Raises UnreadableOutput where a row has other cells than the header.
    """
    lines = lines_with_content(text)
    raise_failure(CSV, lines)
    rows: Iterator[list[str]] = csv.reader((line.text for line in lines), skipinitialspace=True, strict=True)
    names: tuple[str, ...] = ()
    found: list[Mapping[str, str | None]] = []
    for line in lines:
        try:
            cells = tuple(cell.strip() for cell in next(rows))
        except (csv.Error, StopIteration) as error:
            raise UnreadableOutput(CSV, "not CSV", line=line.text, number=line.number) from error
        if line is lines[0]:
            names = tuple(cell.split(" [")[0] for cell in cells)
            if len(set(names)) != len(names) or not all(names):
                raise UnreadableOutput(CSV, "no header", line=line.text, number=line.number)
            continue
        if len(cells) != len(names):
            why = f"{len(cells)} columns, but {len(names)} were expected"
            raise UnreadableOutput(CSV, why, line=line.text, number=line.number)
        row = {name: value_or_none(cell) for name, cell in zip(names, cells, strict=True)}
        for name in BUS_ID_FIELDS & row.keys():
            address = row[name]
            row[name] = pci_id_or_error(CSV, address, line) if address is not None else None
        found.append(row)
    return tuple(found)


def _gpu(pci_id: str, block: Node) -> SmiGpu:
    # Belief: sriov-mode-follows-bios.
    return SmiGpu(
        pci_id=pci_id,
        mig_current=block.switch(QUERY, "MIG Mode", "Current"),
        mig_pending=block.switch(QUERY, "MIG Mode", "Pending"),
        ecc_current=block.switch(QUERY, "ECC Mode", "Current"),
        ecc_pending=block.switch(QUERY, "ECC Mode", "Pending"),
        host_vgpu_mode=block.text("GPU Virtualization Mode", "Host VGPU Mode"),
        module_id=_module_id(block),
    )


def _module_id(block: Node) -> int | None:
    newer = block.number(QUERY, "Platform Info", "Module Id")
    return newer if newer is not None else block.number(QUERY, "Module ID")


class RunningVgpu(Frozen):
    """A vGPU that a running VM holds, and the state of its licence as printed.

    `licence` is None where it is N/A, as before the guest's driver is loaded: that is no state of a licence.
    """

    vm_name: str | None = None
    licence: str | None = None


def parse_vgpus(text: str) -> Mapping[str, tuple[RunningVgpu, ...]]:
    """Read `vgpu -q`, by the GPU's address.

    Raises UnreadableOutput where a GPU shows another number of vGPUs than it counts.
    """
    root = tree_of(VGPUS, text)
    found: dict[str, tuple[RunningVgpu, ...]] = {}
    for pci_id, block in gpu_blocks(VGPUS, root):
        vgpus = tuple(_vgpu(node) for node in block.all("vGPU ID"))
        counted = block.number(VGPUS, "Active vGPUs")
        if counted != len(vgpus):
            why = f"{len(vgpus)} vGPUs listed, but {counted} reported as active"
            raise UnreadableOutput(VGPUS, why, line=block.line.text, number=block.line.number)
        found[pci_id] = vgpus
    return found


def _vgpu(node: Node) -> RunningVgpu:
    return RunningVgpu(
        vm_name=node.text("VM Name"),
        licence=node.licence("License Status"),
    )


def parse_mig_instances(text: str) -> Mapping[int, tuple[MigInstance, ...]]:
    """Read `mig -lgi`, by nvidia-smi's numbers of the GPUs; empty where there are none, as where MIG is off.

    Raises ToolFailed where the tool failed, UnreadableOutput for a row that is not understood.
    """
    found: dict[int, tuple[MigInstance, ...]] = {}
    for line in _rows(text):
        row = _INSTANCE.fullmatch(line.text.strip())
        if row is None:
            raise UnreadableOutput(INSTANCES, "not a GPU instance", line=line.text, number=line.number)
        gpu, start, size = (_int(row[name], line) for name in ("gpu", "start", "size"))
        found[gpu] = (*found.get(gpu, ()), MigInstance(start=start, size=size))
    return found


def _rows(text: str) -> tuple[Line, ...]:
    """Return the rows between the rules; none where the tool says that there are none."""
    lines = lines_with_content(text)
    if lines and lines[0].text.strip().startswith(_NONE):
        return ()
    raise_failure(INSTANCES, lines)
    rows: list[Line] = []
    for line in lines:
        shown = line.text.strip()
        inner = shown.strip("|").strip()
        is_frame = bool(_RULE.fullmatch(shown)) or not inner or inner.startswith(_HEADS)
        if not is_frame and not shown.startswith("Warning:"):
            rows.append(line)
    if not rows:
        raise UnreadableOutput(INSTANCES, "no table", line=lines[0].text, number=lines[0].number)
    return tuple(rows)


def _int(digits: str, line: Line) -> int:
    if len(digits) > 18 or not digits.isascii():
        raise UnreadableOutput(INSTANCES, "not a number", line=line.text, number=line.number)
    return int(digits)


class Lanes(Frozen):
    """The links of one GPU: how many carry traffic, and how many do not."""

    gpu: int
    active: int = 0
    inactive: int = 0


def parse_lanes(text: str) -> tuple[Lanes, ...]:
    """Read the links of each GPU that is listed; other lines are left out."""
    found: list[Lanes] = []
    for line in lines_with_content(text):
        words = line.text.strip()
        if (gpu := _GPU.fullmatch(words)) is not None:
            found.append(Lanes(gpu=int(gpu["gpu"])))
        elif found and (link := _LINK.fullmatch(words)) is not None:
            last = found[-1]
            is_down = "inactive" in link["state"].casefold()
            more = {"inactive": last.inactive + 1} if is_down else {"active": last.active + 1}
            found[-1] = last.model_copy(update=more)
    return tuple(found)
