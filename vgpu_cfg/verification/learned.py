"""What checks of a VM find out on their way, for those that come after them."""

from __future__ import annotations

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.parsers.guest_system import Interface
from vgpu_cfg.parsers.nvidia.guest_gpus import GuestGpus
from vgpu_cfg.parsers.rdma.devices import Gid, RdmaDevice


class RdmaNic(Frozen):
    """A NIC that carries RDMA: its interface, its device with the port, and what was seen of them.

    `gid` is the RoCE v2 one with the NIC's IPv4 address. `port_rate_gbps` is what the port says it runs at,
    `model_rate_gbps` what a port of its model runs at. `line_rate_gbps` is what it shall run at, as far as
    that is known: measurements are compared with it, not with what the port says.
    """

    interface: str
    address: str = ""
    mtu: int | None = None
    device: str = ""
    port: int = 1
    gid: int | None = None
    port_rate_gbps: float | None = None
    model_rate_gbps: float | None = None
    line_rate_gbps: float | None = None


class Learned(Frozen):
    """What was seen of one guest. `gpus` is None until its driver answered; `boot_id` tells it apart."""

    gpus: GuestGpus | None = None
    interfaces: tuple[Interface, ...] = ()
    devices: tuple[RdmaDevice, ...] = ()
    gids: tuple[Gid, ...] = ()
    rdma: tuple[RdmaNic, ...] = ()
    boot_id: str = ""

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
