"""What servers take of a room, and have in them: power, heat, rack units, supplies, PCIe slots, ports."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

from vgpu_cfg.catalog.servers import GpuForm, Server

BTU_PER_HOUR_BY_WATT = 3.412142
"""The International Table BTU (ISO 31-4) in an hour."""

MEMORY_BY_FRAMEBUFFER = 2
"""A server should have so many times its GPUs' framebuffer as memory, a rule of thumb."""


@dataclass(frozen=True, slots=True)
class RoomSheet:
    """All servers of one model together. None is what is not known of it."""

    server: str
    servers: int
    watts: int | None
    btu_per_hour: int | None
    rack_units: int | None
    power_supplies: int | None
    """One power cord each."""
    gpu_slots: int
    """PCIe slots that their GPUs take, each perhaps two wide; none where GPUs are SXM modules."""
    pcie_slots: int | None
    """PCIe slots of 16 lanes, those of GPUs included."""
    switch_ports: int | None
    """Ports of the compute network, one cable each."""
    port_gbps: int | None


def room_of(server: Server, gpus: int) -> RoomSheet:
    """Return what as many servers take as have at least these GPUs."""
    count = ceil(gpus / server.gpus)
    watts = _times(count, server.max_watts)
    return RoomSheet(
        server=server.key,
        servers=count,
        watts=watts,
        btu_per_hour=None if watts is None else round(watts * BTU_PER_HOUR_BY_WATT),
        rack_units=_times(count, server.rack_units),
        power_supplies=_times(count, server.power_supplies),
        gpu_slots=count * server.gpus if server.form is GpuForm.PCIE else 0,
        pcie_slots=_times(count, server.pcie_slots),
        switch_ports=_times(count, server.compute_ports),
        port_gbps=server.port_gbps,
    )


def _times(count: int, each: int | None) -> int | None:
    return None if each is None else count * each
