"""`nvidia-smi topo -m`: the links between GPUs and NICs, and the GPUs that NVLink joins.

Sources: nvidia-smi's own legend; NVIDIA Virtual GPU Software User Guide, appendix B.1.2. The header is
underlined with escape sequences even where no terminal reads it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.host_facts import GpuLinks
from vgpu_cfg.parsers.nvidia.tree import raise_failure
from vgpu_cfg.parsers.text import Line, UnreadableOutput, lines_of, lines_with_content, value_or_none

TOPOLOGY = "nvidia-smi topo -m"

DISTANCES = ("X", "NV", "PIX", "PXB", "PHB", "NODE", "SYS")
"""Links from nearest to farthest (the tool's legend; NVLink before PCIe as NCCL orders them)."""

_DEVICE = re.compile(
    r"GPU\d+|NIC\d+|mlx\d+_\d+|mlx\d+_bond_\d+|irdma\d+|bnxt_re\d+|qedr\d+|cxgb4_\d+|hfi1_\d+"
)
_LINK = re.compile(r"X|SYS|NODE|PHB|PXB|PIX|SOC|NV\d+|N/A")
_NVLINK = re.compile(r"NV(\d+)")
_NIC_NAME = re.compile(r"(NIC\d+)\s*:\s*(\S+)")
_MOST_TRIED = 2000
"""Sets of GPUs that are looked at from each GPU; of 16 that are all joined the first 16 are enough."""
_AFFINITIES = ("CPU Affinity", "NUMA Affinity", "GPU NUMA ID")


class Topology(Frozen):
    """The matrix: `rows` maps a device to its links by device, in the order of the header.

    `cpus` and `numa` hold the affinity columns of a GPU, as printed; a GPU whose cells are ambiguous, and one
    whose columns are absent, is not in them. `nics` maps NIC0 to mlx5_0.
    """

    devices: tuple[str, ...]
    rows: Mapping[str, Mapping[str, str]]
    cpus: Mapping[str, str] = Field(default_factory=dict)
    numa: Mapping[str, str] = Field(default_factory=dict)
    nics: Mapping[str, str] = Field(default_factory=dict)

    @property
    def gpus(self) -> tuple[str, ...]:
        """The GPUs, as GPU0."""
        return tuple(device for device in self.devices if device.startswith("GPU"))

    def nvlinks(self, device: str, other: str) -> int:
        """Count the NVLinks between two GPUs."""
        found = _NVLINK.fullmatch(self.rows[device][other])
        return int(found[1]) if found is not None else 0

    def peers(self, count: int) -> tuple[str, ...]:
        """Return so many GPUs that NVLink joins each to every other; fewer where there are no so many.

        GPUs that are joined over others are no peers: on a hybrid cube mesh, as of eight V100s, each GPU
        reaches four of the seven directly, and CUDA's peer access goes no further.
        """
        best: tuple[str, ...] = ()
        for number, gpu in enumerate(self.gpus):
            found = [gpu]
            todo: list[tuple[tuple[str, ...], tuple[str, ...]]] = [((gpu,), self.gpus[number + 1 :])]
            for _ in range(_MOST_TRIED):
                if not todo:
                    break
                held, left = todo.pop()
                if len(held) > len(found):
                    found = list(held)
                if len(found) >= count:
                    return tuple(found)
                near = [other for other in left if self.nvlinks(held[-1], other)]
                todo += [
                    ((*held, other), tuple(near[at + 1 :])) for at, other in reversed([*enumerate(near)])
                ]
            best = max(best, tuple(found), key=len)
        return best if len(best) > 1 else ()


def distance(link: str) -> int:
    """Rank a link from the matrix, 0 for the device itself; ValueError where its kind is not known."""
    kind = "NV" if _NVLINK.fullmatch(link) else link
    if kind not in DISTANCES:
        raise ValueError(f"unknown distance for {link}")
    return DISTANCES.index(kind)


def parse_topology(text: str) -> Topology:
    """Read the matrix, whatever devices and columns it has.

    Raises UnreadableOutput for a cell that is no link, and for a device without a row.
    """
    raise_failure(TOPOLOGY, lines_with_content(text))
    lines = lines_of(text)
    header = next((line for line in lines if _is_header(line)), None)
    if header is None:
        first = next(line for line in lines if not line.is_blank)
        raise UnreadableOutput(TOPOLOGY, "no header", line=first.text, number=first.number)
    devices, columns = _columns(header)
    rows: dict[str, Mapping[str, str]] = {}
    cpus: dict[str, str] = {}
    numa: dict[str, str] = {}
    rest = iter(lines[header.number :])
    for line in rest:
        words = line.text.split()
        if not words or words[0].startswith("Legend"):
            break
        device = _device_of(words, devices, rows, line)
        rows[device] = _links(words, devices, line)
        affinity = words[1 + len(devices) :]
        if len(affinity) == len(columns):
            reported = dict(zip(columns, affinity, strict=True))
            _keep(cpus, device, reported.get("CPU Affinity"))
            _keep(numa, device, reported.get("NUMA Affinity"))
    missing = [device for device in devices if device not in rows]
    if missing:
        why = f"no row for {', '.join(missing)}"
        raise UnreadableOutput(TOPOLOGY, why, line=header.text, number=header.number)
    named = (_NIC_NAME.fullmatch(line.text.strip()) for line in rest)
    nics = {found[1]: found[2] for found in named if found is not None}
    return Topology(devices=devices, rows=rows, cpus=cpus, numa=numa, nics=nics)


def links_by_address(topology: Topology, addresses: Mapping[str, str]) -> GpuLinks:
    """Return the links between GPUs with `addresses`, from GPU0 to its PCI address, in place of numbers.

    A NUMA node that is printed as a range, as where a node is cut in parts, is left out.
    Raises UnreadableOutput for a GPU without an address.
    """
    unnamed = [gpu for gpu in topology.gpus if not addresses.get(gpu)]
    if unnamed:
        raise UnreadableOutput(TOPOLOGY, f"unknown PCI address of {', '.join(unnamed)}")
    known = {gpu: addresses[gpu] for gpu in topology.gpus}
    return GpuLinks(
        links={
            address: {known[other]: topology.rows[gpu][other] for other in known if other != gpu}
            for gpu, address in known.items()
        },
        numa_nodes={
            known[gpu]: int(text) for gpu, text in topology.numa.items() if text.isdigit() and gpu in known
        },
    )


def _is_header(line: Line) -> bool:
    words = line.text.split()
    return len(words) > 0 and _DEVICE.fullmatch(words[0]) is not None and not _is_row(words)


def _is_row(words: Sequence[str]) -> bool:
    return len(words) > 1 and _LINK.fullmatch(words[1]) is not None


def _columns(header: Line) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split the header into devices and affinity columns."""
    words = header.text.split()
    count = next((at for at, word in enumerate(words) if not _DEVICE.fullmatch(word)), len(words))
    devices = tuple(words[:count])
    rest = " ".join(words[count:])
    columns = tuple(name for name in _AFFINITIES if name in rest)
    left = rest
    for name in columns:
        left = left.replace(name, "", 1)
    if left.strip() or len(set(devices)) != len(devices):
        raise UnreadableOutput(TOPOLOGY, "unknown header format", line=header.text, number=header.number)
    return devices, columns


def _device_of(words: Sequence[str], devices: Sequence[str], seen: Mapping[str, object], line: Line) -> str:
    if words[0] not in devices or words[0] in seen:
        why = "duplicate row" if words[0] in seen else "a row that is not in the header"
        raise UnreadableOutput(TOPOLOGY, why, line=line.text, number=line.number)
    return words[0]


def _links(words: Sequence[str], devices: Sequence[str], line: Line) -> Mapping[str, str]:
    cells = words[1 : 1 + len(devices)]
    bad = next((cell for cell in cells if not _LINK.fullmatch(cell)), None)
    if bad is not None or len(cells) != len(devices):
        why = f"{bad!r}: not a link" if bad is not None else f"{len(cells)} links for {len(devices)} devices"
        raise UnreadableOutput(TOPOLOGY, why, line=line.text, number=line.number)
    links = dict(zip(devices, cells, strict=True))
    if links[words[0]] != "X":
        raise UnreadableOutput(TOPOLOGY, "no X on the diagonal", line=line.text, number=line.number)
    return links


def _keep(reported: dict[str, str], device: str, text: str | None) -> None:
    value = value_or_none(text) if text is not None else None
    if value is not None:
        reported[device] = value
