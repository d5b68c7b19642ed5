"""A host's topology as rows for readers: whom NVLink joins, which NICs are near, what sources disagree on."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vgpu_cfg.planning.capacity.topology import Source, Topology
from vgpu_cfg.planning.vms.checks.topology_checks import disagreement_text


@dataclass(frozen=True, slots=True)
class NvlinkRow:
    """The NVLink domain of a GPU: `kind` is "bridge" or "nvswitch", `peers` are the other GPUs.

    `source` is "nvidia-smi", "board" or "guess"; a guess is not certain.
    """

    kind: str
    peers: tuple[str, ...]
    source: str
    is_certain: bool


@dataclass(frozen=True, slots=True)
class NearNicRow:
    """A NIC that is nearest to a GPU; `device` is empty for one that is passed through.

    `distance` is nvidia-smi's word: PIX, PXB, PHB or NODE.
    """

    pci_id: str
    device: str
    distance: str
    source: str


@dataclass(frozen=True, slots=True)
class DisagreementRow:
    """What vCenter and the host's shell tell differently."""

    host: str
    code: str
    message: str


def nvlink_row(topology: Topology, pci_id: str) -> NvlinkRow | None:
    """Return the NVLink domain of a GPU, None where none is known."""
    domain = topology.domain(pci_id)
    if domain is None:
        return None
    peers = tuple(sorted(domain.gpus - {pci_id}))
    return NvlinkRow(domain.kind, peers, domain.source.value, domain.is_certain)


def near_nic_rows(topology: Topology, pci_id: str) -> tuple[NearNicRow, ...]:
    """List the NICs nearest to a GPU."""
    return tuple(
        NearNicRow(nic.pci_id, nic.device, nic.link.word, nic.link.source.value)
        for nic in topology.nics_near(pci_id)
    )


def disagreement_rows(topologies: Iterable[Topology]) -> tuple[DisagreementRow, ...]:
    """List what sources tell differently of some hosts."""
    return tuple(
        DisagreementRow(topology.host.name, code.value, message)
        for topology in topologies
        for code, message, _ in map(disagreement_text, topology.disagreements)
    )


def nvlink_text(row: NvlinkRow | None, module: int | None) -> str:
    """Say whom NVLink joins: "with 61:00.0", "NVSwitch of 8 GPUs, module 3", "perhaps with 61:00.0"."""
    words = [] if module is None else [f"module {module}"]
    if row is None:
        return words[0] if words else ""
    if row.kind == "nvswitch":
        return ", ".join([f"NVSwitch of {len(row.peers) + 1} GPUs", *words])
    maybe = "" if row.source != Source.GUESS else "perhaps "
    return ", ".join([f"{maybe}with {', '.join(map(short, row.peers))}", *words])


def nic_text(rows: Iterable[NearNicRow]) -> str:
    """Say which NICs are nearest: "vmnic4, vmnic5 (PIX)"; one that is passed through by its address."""
    found = list(rows)
    if not found:
        return ""
    names = ", ".join(row.device or short(row.pci_id) for row in found)
    return f"{names} ({found[0].distance})"


def short(pci_id: str) -> str:
    """Leave out the PCI domain where it is the first."""
    return pci_id.removeprefix("0000:")
