"""One model of NIC: its PCI ids, names and drivers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

MELLANOX = 0x15B3
"""The PCI vendor of every NIC here."""


@dataclass(frozen=True, slots=True)
class NicModel:
    """One model of NIC.

    `names` are its own name and those of pci.ids. `vf_device_id` is the device id of its virtual functions
    (several models share one; None: not looked up). `driver` and `rdma_driver` are ESXi's kernel modules for
    it. `line_gbps` is the speed of a port on most cards, in Gb/s; None if unknown. `unproven` gives, by the
    file's key, derived and recalled values, and their basis.
    """

    key: str
    device_id: int
    names: tuple[str, ...]
    vf_device_id: int | None
    driver: str
    rdma_driver: str
    line_gbps: int | None
    note: str
    unproven: Mapping[str, str]
    sources: Mapping[str, str]
    date: str
