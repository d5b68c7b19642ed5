"""How templates are told of a guest's NICs: checked, and as texts that the scripts' functions take."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.staging import values
from vgpu_cfg.staging.netplan import match_of


def requested_options(nic: GuestNic) -> str:
    """Say how the guest's programs find a NIC: by its name, which holds on every worker, where it has one."""
    if nic.name:
        return f"name={values.interface_name(nic.name)}"
    return f"mac={values.mac_address(nic.mac)}" if nic.mac else f"driver={values.driver_name(nic.driver)}"


@dataclass(frozen=True, slots=True)
class NicArguments:
    """A NIC by `mac` or, with that empty, by `driver`; `mtu` is "" where it is left alone."""

    mac: str
    driver: str
    name: str
    mtu: str
    addresses: tuple[str, ...]


def nic_arguments(nics: Iterable[GuestNic]) -> tuple[NicArguments, ...]:
    """Check NICs for templates. Raises `GuestError`."""
    found: list[NicArguments] = []
    for nic in nics:
        mac, driver = match_of(nic)
        name = values.interface_name(nic.name) if nic.name else ""
        mtu = "" if nic.mtu is None else str(nic.mtu)
        found.append(NicArguments(mac, driver, name, mtu, tuple(values.cidr(one) for one in nic.addresses)))
    return tuple(found)
