"""A guest's NICs as files and texts: in netplan's format, in NetworkManager's keyfiles, and for templates.

netplan's format is for cloud-init at the first boot and for /etc/netplan. The keyfiles are for guests without
netplan (nm-settings(5)). For templates NICs are checked, and are texts that the scripts' functions accept.
"""

from __future__ import annotations

import ipaddress
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_cfg.errors import GuestError
from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.staging import values

_DEFAULT = {4: "0.0.0.0/0", 6: "::/0"}
"""Written out, since cloud-init 22.4 does not know netplan's word `default` where it renders for others."""

_PROFILES = uuid.UUID("c0b9a4de-5a3b-5f53-8b7e-6a1d0f1c2e77")


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
    """Return the MAC address or, if that is not known, the driver that identifies a NIC."""
    if nic.mac:
        return values.mac_address(nic.mac), ""
    if nic.driver:
        return "", values.driver_name(nic.driver)
    raise GuestError(
        "a NIC has neither a MAC address nor a driver to identify it in the guest",
        subject=nic.name or "NIC",
        remedy="set its MAC address in the plan file",
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


def keyfile(nic: GuestNic, index: int) -> str:
    """Return the profile of the n-th NIC; its priority puts it before others. Raises `GuestError`."""
    mac, driver = match_of(nic)
    name = f"vgpu-cfg-{index}"
    ethernet = {}
    if mac:
        ethernet["mac-address"] = mac.upper()
    if nic.mtu is not None:
        ethernet["mtu"] = str(nic.mtu)
    sections: dict[str, dict[str, str]] = {
        "connection": {
            "id": name,
            "uuid": str(uuid.uuid5(_PROFILES, f"{index} {mac} {driver}")),
            "type": "ethernet",
            "autoconnect-priority": "100",
        },
        "match": {} if mac else {"driver": f"{driver};"},
        "ethernet": ethernet,
        "ipv4": _family(nic, 4),
        "ipv6": _family(nic, 6),
    }
    blocks = [
        "\n".join([f"[{title}]", *(f"{key}={value}" for key, value in lines.items())])
        for title, lines in sections.items()
        if lines
    ]
    return "\n\n".join(blocks) + "\n"


def link_file(nic: GuestNic) -> str:
    """Return the systemd.link that gives the NIC its name at the next boot."""
    mac, driver = match_of(nic)
    match = f"MACAddress={mac}" if mac else f"Driver={driver}"
    return f"[Match]\n{match}\n\n[Link]\nName={values.interface_name(nic.name)}\n"


def _family(nic: GuestNic, version: int) -> dict[str, str]:
    addresses = [
        one for one in map(values.cidr, nic.addresses) if ipaddress.ip_interface(one).version == version
    ]
    lines: dict[str, str] = {}
    if nic.dhcp:
        lines["method"] = "auto"
        if version == 4:
            # Clones of a template with a machine-id would all ask for the same lease.
            lines["dhcp-client-id"] = "mac"
    elif addresses:
        lines["method"] = "manual"
    else:
        # RoCE's GIDs come from addresses, the link-local one of IPv6 among them.
        lines["method"] = "disabled" if version == 4 else "link-local"
    for number, one in enumerate(addresses, start=1):
        lines[f"address{number}"] = one
    if nic.gateway:
        gateway = values.address(nic.gateway)
        if ipaddress.ip_address(gateway).version == version:
            lines["gateway"] = gateway
    dns = [one for one in map(values.address, nic.dns) if ipaddress.ip_address(one).version == version]
    if dns:
        lines["dns"] = "".join(f"{one};" for one in dns)
    if nic.optional and lines["method"] != "disabled":
        lines["may-fail"] = "true"
    return lines


def requested_options(nic: GuestNic) -> str:
    """Return how the guest's programs find a NIC: by its name, the same on every worker, if it has one."""
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
