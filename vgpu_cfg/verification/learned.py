"""What checks of a VM find out on their way, for those that come after them."""

from __future__ import annotations

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.parsers.guest_gpus import GuestGpus
from vgpu_cfg.parsers.guest_system import Interface
from vgpu_cfg.parsers.rdma_devices import Gid, RdmaDevice


class RdmaNic(Frozen):
    """A NIC that carries RDMA: its interface, its device with the port, and what was seen of them.

    `gid` is the RoCE v2 one with the NIC's IPv4 address. `line_rate_gbps` is what the port runs at, or what
    its model can.
    """

    interface: str
    address: str = ""
    mtu: int | None = None
    device: str = ""
    port: int = 1
    gid: int | None = None
    line_rate_gbps: float | None = None


class Learned(Frozen):
    """What was seen of one guest. `gpus` is None until its driver answered."""

    gpus: GuestGpus | None = None
    interfaces: tuple[Interface, ...] = ()
    devices: tuple[RdmaDevice, ...] = ()
    gids: tuple[Gid, ...] = ()
    rdma: tuple[RdmaNic, ...] = ()

    def interface_of(self, nic: GuestNic) -> Interface | None:
        """Return the interface of a planned NIC: by MAC, name or address, or as the one of its driver."""
        for interface in self.interfaces:
            if nic.mac and interface.mac == nic.mac:
                return interface
        for interface in self.interfaces:
            if nic.name and interface.name == nic.name:
                return interface
        for interface in self.interfaces:
            if set(nic.addresses) & set(interface.addresses):
                return interface
        driven = [interface for interface in self.interfaces if nic.driver and interface.driver == nic.driver]
        return driven[0] if len(driven) == 1 and not (nic.mac or nic.name) else None
