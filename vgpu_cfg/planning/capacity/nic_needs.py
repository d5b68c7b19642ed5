"""Needs of a VM's NICs beyond a network, the functions that match, and their assignment.

A NIC of type passthrough needs a whole function, one of type sriov a virtual function of a physical one.
Functions are known by PCI address; for a virtual one that is the address of its physical function.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache

from vgpu_cfg.catalog.nic import MELLANOX, load_nics
from vgpu_cfg.model.observed.inventory import Host, PciDevice
from vgpu_cfg.planning.capacity.host_capacity import HostCapacity
from vgpu_cfg.planning.findings.codes import Code

_UNKNOWN_NODE, _FAR, _OFF_SWITCH = 100, 10_000, 1_000_000
"""The costs of a choice: an unknown node, another node than the GPUs', another switch."""


class NicKind(StrEnum):
    """How a function becomes a VM's."""

    PASSTHROUGH = "passthrough"
    SRIOV = "sriov"


@dataclass(frozen=True, slots=True)
class NicNeed:
    """One function for one NIC: the one at `pin`, else any that has the label and the model.

    With `near_gpu` it should be of a NUMA node of the VM's GPUs, with `must_be_near` it has to.
    `network` is the moid of the portgroup that a virtual function is put on. `allowed` holds the vendor
    and device ids that a Dynamic DirectPath device names; empty means any. `is_ethernet` excludes
    InfiniBand.
    """

    kind: NicKind
    pin: str | None = None
    label: str | None = None
    model: str | None = None
    near_gpu: bool = False
    must_be_near: bool = False
    network: str | None = None
    allowed: tuple[tuple[int, int], ...] = ()
    is_ethernet: bool = False

    @property
    def of(self) -> str:
        """The NIC itself, as a reader knows it."""
        if self.pin is not None:
            return f"a NIC at {self.pin}"
        said = [f"label {self.label!r}"] if self.label else []
        said += [f"model {self.model!r}"] if self.model else []
        return f"a NIC with {' and '.join(said)}" if said else "a NIC"

    def __str__(self) -> str:
        near = " near its GPU" if self.must_be_near else ""
        if self.kind is NicKind.PASSTHROUGH:
            return self.of + near
        is_any = self.pin is None and not self.model
        return ("a virtual function" if is_any else f"a virtual function of {self.of}") + near


@dataclass(frozen=True, slots=True)
class NicStock:
    """The NICs that a host can still give.

    `held` maps the addresses of whole functions to their holders, of this plan too. `given` counts, by
    physical function, the virtual ones that the plan gives out.
    """

    capacity: HostCapacity
    held: Mapping[str, str]
    given: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class _Option:
    """A function that could be given now."""

    pci_id: str
    node: int | None
    cost: int = 0


def is_matching(pci: PciDevice, need: NicNeed) -> bool:
    """Whether a function matches a need, free or not."""
    if need.is_ethernet and pci.is_infiniband:
        return False
    if need.pin is not None:
        return pci.pci_id == need.pin
    if not pci.is_nic or _is_virtual_function(pci):
        return False
    if need.label is not None and pci.hardware_label != need.label:
        return False
    if need.allowed and (pci.vendor_id, pci.device_id) not in need.allowed:
        return False
    names = (pci.device_name, *load_nics().names_of(pci.vendor_id, pci.device_id)) if need.model else ()
    return need.model is None or any(need.model.casefold() in name.casefold() for name in names)


def infiniband_ports(need: NicNeed, host: Host) -> list[str]:
    """Return the functions that would match a need if their link type were Ethernet."""
    ports = [pci for pci in host_functions(host) if need.is_ethernet and pci.is_infiniband]
    return [pci.pci_id for pci in ports if is_matching(pci, replace(need, is_ethernet=False))]


def host_functions(host: Host) -> list[PciDevice]:
    """Return the functions of a host that are NICs, its own too, by address."""
    found = {nic.pci_id: nic.pci for nic in host.nics if nic.pci is not None}
    found |= {device.pci_id: device for device in host.pci_devices if device.is_nic}
    return [found[pci_id] for pci_id in sorted(found)]


def choose_nics(
    needs: Sequence[NicNeed], stock: NicStock, gpu_nodes: Sequence[int | None] = ()
) -> tuple[str, ...] | None:
    """Give every need a function of its own, as near to the GPUs as can be; None where that cannot be.

    `gpu_nodes` are the nodes of the VM's GPUs, in their order: with as many NICs as GPUs, each is put next to
    a GPU of its own if possible. The same input has the same answer; a physical function that gives few
    virtual ones is taken before one that gives many.
    """
    rows = [list(_priced(index, need, needs, stock, gpu_nodes)) for index, need in enumerate(needs)]
    seats = sorted({seat for row in rows for seat, _ in row})
    chosen: dict[tuple[str, int], int] = {}
    for start in range(len(rows)):
        if not _augment(start, rows, seats, chosen):
            return None
    by_need = {need: seat[0] for seat, need in chosen.items()}
    return tuple(by_need[index] for index in range(len(rows)))


def nic_options(need: NicNeed, stock: NicStock) -> Iterator[tuple[str, int]]:
    """Yield the functions that a need could be given, by address, with how often each can be."""
    for option, copies in _options(need, stock):
        yield option.pci_id, copies


def far_nics(
    needs: Sequence[NicNeed], chosen: Sequence[str], stock: NicStock, gpu_nodes: Collection[int | None]
) -> tuple[str, ...]:
    """Return the chosen functions that should be near the GPUs and are shown not to be."""
    nodes = nodes_of(stock)
    near = set(gpu_nodes)
    return tuple(
        pci_id
        for need, pci_id in zip(needs, chosen, strict=True)
        if need.near_gpu and near and None not in near and nodes.get(pci_id) not in (None, *near)
    )


def refuse_nics(
    needs: Sequence[NicNeed], stock: NicStock, gpu_nodes: Sequence[int | None] = ()
) -> Code | None:
    """Say why a host cannot give these functions, None where it can."""
    if choose_nics(needs, stock, gpu_nodes) is not None:
        return None
    for need in needs:
        matching = [pci for pci in host_functions(stock.capacity.host) if is_matching(pci, need)]
        if not matching:
            return Code.NIC_INFINIBAND if infiniband_ports(need, stock.capacity.host) else Code.NIC_ABSENT
        if not any(_is_ready(pci, need, stock) for pci in matching):
            return Code.NIC_NOT_READY
    for need in needs:
        if not list(_options(need, stock)):
            return Code.NIC_TAKEN
    relaxed = [replace(need, must_be_near=False) for need in needs]
    return Code.NIC_FAR if choose_nics(relaxed, stock, gpu_nodes) is not None else Code.NIC_TAKEN


def nodes_of(stock: NicStock) -> dict[str, int | None]:
    """Return the NUMA node of each function, None where the host does not report it."""
    return {pci.pci_id: pci.numa_node for pci in host_functions(stock.capacity.host)}


def holders_of(need: NicNeed, stock: NicStock) -> dict[str, tuple[str, ...]]:
    """Return the holders of functions that match a need, by address; without the plan's own virtual ones."""
    pools = {pool.pci.pci_id: pool for pool in stock.capacity.functions}
    found: dict[str, tuple[str, ...]] = {}
    for pci in host_functions(stock.capacity.host):
        if not is_matching(pci, need):
            continue
        if need.kind is NicKind.SRIOV and pci.pci_id in pools:
            found[pci.pci_id] = pools[pci.pci_id].holders
        elif need.kind is NicKind.PASSTHROUGH and pci.pci_id in stock.held:
            found[pci.pci_id] = (stock.held[pci.pci_id],)
    return found


def _is_ready(pci: PciDevice, need: NicNeed, stock: NicStock) -> bool:
    if need.kind is NicKind.PASSTHROUGH:
        return pci.passthrough_active
    return any(pool.pci.pci_id == pci.pci_id and pool.total for pool in stock.capacity.functions)


def _options(need: NicNeed, stock: NicStock) -> Iterator[tuple[_Option, int]]:
    """Yield the functions that satisfy a need, with how often each can."""
    if need.kind is NicKind.PASSTHROUGH:
        for slot in stock.capacity.slots:
            pci = slot.pci
            if pci.passthrough_active and pci.pci_id not in stock.held and is_matching(pci, need):
                yield _Option(pci.pci_id, pci.numa_node), 1
        return
    for pool in stock.capacity.functions:
        free = pool.free - stock.given.get(pool.pci.pci_id, 0)
        if free > 0 and is_matching(pool.pci, need):
            is_off = need.network is not None and need.network not in (pool.networks or {need.network})
            used = pool.total - free
            cost = used + (_OFF_SWITCH if is_off else 0)
            yield _Option(pool.pci.pci_id, pool.pci.numa_node, cost), free


def _priced(
    index: int,
    need: NicNeed,
    needs: Sequence[NicNeed],
    stock: NicStock,
    gpu_nodes: Sequence[int | None],
) -> Iterator[tuple[tuple[str, int], int]]:
    """Yield the seats that a need could take, each with its price."""
    ordinal = sum(other.near_gpu for other in needs[:index])
    for option, copies in _options(need, stock):
        price = option.cost + _distance(need, option.node, gpu_nodes, ordinal)
        if need.must_be_near and gpu_nodes and price % _OFF_SWITCH >= _FAR:
            continue
        for copy in range(min(copies, len(needs))):
            yield (option.pci_id, copy), price + copy


def _distance(need: NicNeed, node: int | None, gpu_nodes: Sequence[int | None], ordinal: int) -> int:
    if not need.near_gpu or not gpu_nodes:
        return 0
    if node is None or (node not in gpu_nodes and None in gpu_nodes):
        return _UNKNOWN_NODE
    if node not in gpu_nodes:
        return _FAR
    return 0 if gpu_nodes[ordinal % len(gpu_nodes)] == node else 50


def _augment(
    start: int,
    rows: Sequence[Sequence[tuple[tuple[str, int], int]]],
    seats: Sequence[tuple[str, int]],
    chosen: dict[tuple[str, int], int],
) -> bool:
    """Seat one more need by the cheapest chain of changes (successive shortest paths)."""
    prices = [dict(row) for row in rows]
    best: dict[tuple[str, int], int] = dict(prices[start])
    came: dict[tuple[str, int], int] = dict.fromkeys(best, start)
    changed = True
    while changed:
        changed = False
        for seat in seats:
            if seat not in best or seat not in chosen:
                continue
            mover = chosen[seat]
            freed = best[seat] - prices[mover][seat]
            for other, price in prices[mover].items():
                if other != seat and freed + price < best.get(other, freed + price + 1):
                    best[other], came[other] = freed + price, mover
                    changed = True
    free = [seat for seat in seats if seat in best and seat not in chosen]
    if not free:
        return False
    own = {need: taken for taken, need in chosen.items()}
    last: tuple[str, int] | None = min(free, key=lambda one: (best[one], one))
    while last is not None:
        mover = came[last]
        chosen[last] = mover
        last = own.get(mover)
    return True


def _is_virtual_function(pci: PciDevice) -> bool:
    return pci.vendor_id == MELLANOX and pci.device_id in _virtual_ids()


@cache
def _virtual_ids() -> frozenset[int]:
    return frozenset(model.vf_device_id for model in load_nics().models if model.vf_device_id is not None)
