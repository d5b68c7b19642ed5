"""The bridges above a host's PCI functions, and the resulting distance of two functions.

Root ports have no parent and share a bus if they share a host bridge, as in recorded hosts; a switch is one
bridge here, while a real one is an upstream port and a downstream port for each device.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from vgpu_cfg.lab.state.host import Host, PciDevice

AMD, BROADCOM = 0x1022, 0x1000
CLASS_BRIDGE = 0x0604


@dataclass(frozen=True, slots=True)
class Slot:
    """A function's slot: below a switch (`sw0`, `sw0/a` for one below another), or at a root.

    Without a switch it has a root port of its own, without a root a host bridge of its own.
    """

    switch: str = ""
    root: str = ""


@dataclass(slots=True)
class Bridges:
    """The bridges of one host being made. `complain` gets the fault of the function at an index."""

    taken: set[str]
    complain: Callable[[int, str], None]
    made: dict[str, PciDevice] = field(default_factory=dict)
    switches: dict[str, tuple[PciDevice, str]] = field(default_factory=dict)
    roots: dict[str, str] = field(default_factory=dict)

    def above(self, index: int, device: PciDevice, slot: Slot) -> PciDevice:
        """Return a function with the address of the bridge above it, whose chain is made as needed."""
        if slot.switch:
            bridge = self._switch(index, slot.switch, slot.root, device.numa_node)
        elif slot.root:
            bridge = self._root_port(slot.root, device.numa_node)
        else:
            return replace(device, parent_bridge=self._own_port(device))
        return replace(device, parent_bridge=bridge.pci_id)

    def _own_port(self, device: PciDevice) -> str:
        """Return the address of a function's own root port: one bus before it, shared by its other ports."""
        domain, bus, _ = device.pci_id.split(":")
        before = f"{domain}:{max(int(bus, 16) - 1, 0):02x}"
        address = next(
            at for slot in range(32) if (at := f"{before}:{slot:02x}.0") in self.made or at not in self.taken
        )
        if address not in self.made:
            self._keep(_root_port(address, device.numa_node))
        return address

    def _switch(self, index: int, path: str, root: str, node: int | None) -> PciDevice:
        known = self.switches.get(path)
        if known is not None:
            bridge, of = known
            if of != root:
                self.complain(index, f"the PCIe switch {path!r} is at another root already")
            if bridge.numa_node != node:
                self.complain(index, f"the PCIe switch {path!r} is on another NUMA node already")
            return bridge
        above, _, _ = path.rpartition("/")
        parent = (
            self._switch(index, above, root, node)
            if above
            else self._root_port(root or f"switch {path}", node)
        )
        bridge = PciDevice(
            pci_id=f"{self._free_bus()}:00.0",
            vendor_id=BROADCOM,
            device_id=0xC030,
            class_id=CLASS_BRIDGE,
            vendor_name="Broadcom / LSI",
            device_name="PEX890xx PCIe Gen 5 Switch",
            numa_node=node,
            parent_bridge=parent.pci_id,
        )
        self.switches[path] = bridge, root
        return self._keep(bridge)

    def _root_port(self, root: str, node: int | None) -> PciDevice:
        if root not in self.roots:
            self.roots[root] = self._free_bus()
        bus = self.roots[root]
        ports = (f"{bus}:{slot:02x}.0" for slot in range(1, 32))
        return self._keep(_root_port(next(at for at in ports if at not in self.taken), node))

    def _free_bus(self) -> str:
        used = {address.rpartition(":")[0] for address in self.taken} | set(self.roots.values())
        return next(at for bus in range(2, 256) if (at := f"0000:{bus:02x}") not in used)

    def _keep(self, bridge: PciDevice) -> PciDevice:
        self.taken.add(bridge.pci_id)
        self.made[bridge.pci_id] = bridge
        return bridge


def _root_port(address: str, node: int | None) -> PciDevice:
    return PciDevice(
        pci_id=address,
        vendor_id=AMD,
        device_id=0x1483,
        class_id=CLASS_BRIDGE,
        vendor_name="Advanced Micro Devices, Inc. [AMD]",
        device_name="Starship/Matisse GPP Bridge",
        numa_node=node,
    )


def bridges_above(host: Host, device: PciDevice) -> list[str]:
    """Return the addresses of the bridges above a function, the nearest first."""
    parents: Mapping[str, str | None] = {one.pci_id: one.parent_bridge for one in host.pci_devices()}
    chain: list[str] = []
    at = device.parent_bridge
    while at is not None and at not in chain:
        chain.append(at)
        at = parents.get(at)
    return chain


def link(host: Host, one: PciDevice, other: PciDevice) -> str:
    """Return how two functions are joined in the words of nvidia-smi's legend: PIX, PXB, PHB, NODE, SYS."""
    here, there = bridges_above(host, one), bridges_above(host, other)
    if here[:1] == there[:1] and here:
        return "PIX"
    if set(here) & set(there):
        return "PXB"
    if here and there and _bus(here) == _bus(there):
        return "PHB"
    return "NODE" if one.numa_node == other.numa_node else "SYS"


def _bus(chain: Sequence[str]) -> str:
    return chain[-1].rpartition(":")[0]
