"""How a guest's NICs stand in netplan's words, for cloud-init at the first boot and for /etc/netplan."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.staging import values

_DEFAULT = {4: "0.0.0.0/0", 6: "::/0"}
"""Written out, since cloud-init 22.4 does not know netplan's word `default` where it renders for others."""


def section_name(index: int) -> str:
    """Return the name of the n-th NIC's section.

    systemd-networkd takes the first of its files that matches a NIC, by name: the digits put ours before
    a template's `ens192`.
    """
    return f"00-vgpu-cfg-{index}"


def network_config(nics: Sequence[GuestNic]) -> dict[str, Any]:
    """Return netplan's `network` mapping, version 2. Raises `GuestError`."""
    sections = {section_name(index): _section(nic) for index, nic in enumerate(nics)}
    return {"version": 2, "ethernets": sections}


def match_of(nic: GuestNic) -> tuple[str, str]:
    """Return by which MAC address or, where that is not known, by which driver a NIC is found."""
    if nic.mac:
        return values.mac_address(nic.mac), ""
    if nic.driver:
        return "", values.driver_name(nic.driver)
    raise GuestError(
        "a NIC has neither a MAC address nor a driver by which the guest could find it",
        subject=nic.name or "NIC",
        remedy="give it a MAC address in the plan file",
    )


def _section(nic: GuestNic) -> dict[str, Any]:
    mac, driver = match_of(nic)
    section: dict[str, Any] = {"match": {"macaddress": mac} if mac else {"driver": driver}}
    if nic.name:
        section["set-name"] = values.interface_name(nic.name)
    section["dhcp4"] = nic.dhcp
    if nic.dhcp:
        # Clones of a template with a machine-id would all ask for the same lease.
        section["dhcp-identifier"] = "mac"
    else:
        section["dhcp6"] = False
    if nic.addresses:
        section["addresses"] = [values.cidr(one) for one in nic.addresses]
    if nic.gateway:
        gateway = values.address(nic.gateway)
        to = _DEFAULT[ipaddress.ip_address(gateway).version]
        section["routes"] = [{"to": to, "via": gateway}]
    if nic.dns:
        section["nameservers"] = {"addresses": [values.address(one) for one in nic.dns]}
    if nic.mtu is not None:
        section["mtu"] = nic.mtu
    if nic.optional:
        section["optional"] = True
    return section
