"""How a guest's NICs stand in NetworkManager's keyfiles, where there is no netplan (nm-settings(5))."""

from __future__ import annotations

import ipaddress
import uuid

from vgpu_cfg.model.guests.base import GuestNic
from vgpu_cfg.staging import values
from vgpu_cfg.staging.netplan import match_of

_PROFILES = uuid.UUID("c0b9a4de-5a3b-5f53-8b7e-6a1d0f1c2e77")


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
