"""A host's topology as rows for readers: NVLink peers, nearby NICs, disagreements of sources, and the wiring.

The wiring is that of a host's GPUs and NICs, with the ATS chain of VMs that have both. Unreported values stay
unknown: a function without a bridge has none here, and no link is invented.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from vgpu_cfg.model.observed.host_facts import HostFacts
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.planning.capacity.topology import Source, Topologies, Topology
from vgpu_cfg.planning.host_settings.entry import HostView
from vgpu_cfg.planning.rdma.chain import ats_chain, direct_pairs, gpus_of, nics_of
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
    """Disagreements between vCenter and the host's shell."""

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
    """List the disagreements of sources about some hosts."""
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


@dataclass(frozen=True, slots=True)
class WiredRow:
    """A GPU or a NIC and the bridges above it. `kind` is "gpu" or "nic", `bridges` the nearest first.

    `has_root` is whether the last bridge is the root port; else the part above it is unknown. `nvlink` is
    None for a NIC, and if NVLink joins a GPU to no known one. `vms` have it now.
    """

    host: str
    pci_id: str
    kind: str
    name: str
    numa_node: int | None
    bridges: tuple[str, ...]
    has_root: bool
    nvlink: NvlinkRow | None
    vms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AtsLinkRow:
    """A link of an ATS chain; `state` is "on", "off", "pending" or "unknown"."""

    link: str
    state: str
    why: str
    remedy: str


@dataclass(frozen=True, slots=True)
class AtsRow:
    """The ATS chain between a VM's NIC and its GPUs."""

    vm: str
    host: str
    nic: str
    gpus: tuple[str, ...]
    links: tuple[AtsLinkRow, ...]


def wired_rows(host: Host, topology: Topology, observed: Inventory) -> Iterator[WiredRow]:
    """Yield the GPUs and RDMA NICs of a host, by address."""
    vms = [vm for vm in observed.vms_by_host.get(host.moid, ()) if not vm.is_template]
    gpus = {vm.name: gpus_of(vm, host) for vm in vms}
    nics = {vm.name: nics_of(vm) for vm in vms}
    names = {gpu.pci_id: gpu.name for gpu in host.gpus}
    found = [(gpu.pci_id, "gpu") for gpu in host.gpus] + [(pci_id, "nic") for pci_id, _ in topology.nics()]
    vmnics = dict(topology.nics())
    for pci_id, kind in sorted(found):
        device = host.device(pci_id)
        model = device.device_name if device is not None else ""
        nic = " ".join(word for word in (vmnics.get(pci_id, ""), model) if word)
        holders = gpus if kind == "gpu" else nics
        yield WiredRow(
            host=host.name,
            pci_id=pci_id,
            kind=kind,
            name=names[pci_id] if kind == "gpu" else nic,
            numa_node=topology.numa_node(pci_id),
            bridges=topology.bridges(pci_id),
            has_root=topology.has_root(pci_id),
            nvlink=nvlink_row(topology, pci_id) if kind == "gpu" else None,
            vms=tuple(sorted(name for name, held in holders.items() if pci_id in held)),
        )


def ats_rows(host: Host, topologies: Topologies, observed: Inventory) -> Iterator[AtsRow]:
    """Yield the chain of each RDMA NIC of a VM that also has a GPU, in its current state."""
    view = HostView(host=host, facts=observed.facts.hosts.get(host.moid, HostFacts()))
    topology = topologies.of(host)
    for placed in direct_pairs(host, topology, observed):
        links = ats_chain(placed, view, topology, ())
        rows = tuple(AtsLinkRow(one.link, one.state.value, one.text, one.remedy) for one in links)
        yield AtsRow(placed.vm, host.name, placed.nic, placed.gpus, rows)


def above_text(row: WiredRow) -> str:
    """Return the bridges above a function, such as "22:00.0 < 20:01.0 (root port)"."""
    if not row.bridges:
        return "unknown"
    chain = " < ".join(map(short, row.bridges))
    return f"{chain} (root port)" if row.has_root else f"{chain} < unknown"


def ats_text(links: Iterable[AtsLinkRow]) -> str:
    """Say the state of each link: "kernel on, vm options OFF"."""
    return ", ".join(f"{one.link} {one.state.upper() if one.state == 'off' else one.state}" for one in links)
