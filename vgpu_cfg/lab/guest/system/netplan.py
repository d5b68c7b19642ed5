"""Netplan's documents (version 2) as settings of NICs: matched by MAC, driver or name.

Only settings that the lab's guests have are read: ethernets with addresses, DHCP, MTU, routes and names. A
key that netplan does not know is refused, as netplan does.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_interface
from typing import Any

from vgpu_cfg.lab.guest.system.guestinfo import BadDocumentError, check_keys, mapping
from vgpu_cfg.lab.guest.system.nics import SeenNic, find_nic
from vgpu_cfg.lab.state.guest import NicSetting

TOP = frozenset({"version", "renderer", "ethernets"})
OF_DEVICE = frozenset(
    {
        "match", "set-name", "addresses", "dhcp4", "dhcp6", "mtu", "gateway4", "routes", "nameservers",
        "optional", "accept-ra", "link-local", "wakeonlan", "macaddress", "dhcp4-overrides",
        "dhcp6-overrides", "dhcp-identifier", "critical", "renderer", "optional-addresses",
    }
)  # fmt: skip
OF_MATCH = frozenset({"macaddress", "driver", "name"})


def settings_of(document: Any, seen: list[SeenNic]) -> dict[str, NicSetting]:
    """Return the settings by MAC. Raises BadDocumentError; a NIC that is not there is left out."""
    plan = mapping(document, "network")
    check_keys(plan, TOP, "network")
    if plan.get("version") != 2:
        raise BadDocumentError("network: version is not 2")
    found: dict[str, NicSetting] = {}
    for name, part in mapping(plan.get("ethernets", {}), "ethernets").items():
        device = mapping(part, name)
        check_keys(device, OF_DEVICE, name)
        nic = _matched(name, device, seen)
        setting = _setting(name, device)
        if nic is not None:
            found[nic.mac] = setting
    return found


def _matched(name: str, device: Mapping[str, Any], seen: list[SeenNic]) -> SeenNic | None:
    match = device.get("match")
    if match is None:
        return find_nic(seen, name=name)
    parts = mapping(match, f"{name}.match")
    check_keys(parts, OF_MATCH, f"{name}.match")
    if not parts:
        raise BadDocumentError(f"{name}.match is empty")
    driver = parts.get("driver", "")
    return find_nic(
        seen,
        mac=str(parts.get("macaddress", "")),
        driver=str(driver[0] if isinstance(driver, list) and driver else driver),
        name=str(parts.get("name", "")),
    )


def _setting(name: str, device: Mapping[str, Any]) -> NicSetting:
    addresses = device.get("addresses", [])
    if not isinstance(addresses, list):
        raise BadDocumentError(f"{name}.addresses is not a list")
    for address in addresses:
        try:
            ip_interface(str(address))
        except ValueError as error:
            raise BadDocumentError(f"{name}: {address!r} is not an address with a prefix length") from error
        if "/" not in str(address):
            raise BadDocumentError(f"{name}: {address!r} has no prefix length")
    mtu = device.get("mtu")
    if mtu is not None and (not isinstance(mtu, int) or mtu < 68):
        raise BadDocumentError(f"{name}.mtu is {mtu!r}")
    return NicSetting(
        name=str(device.get("set-name", "")),
        addresses=tuple(str(address) for address in addresses),
        dhcp=bool(device.get("dhcp4", False)),
        mtu=mtu,
        gateway=_gateway(device),
        dns=tuple(str(each) for each in (device.get("nameservers") or {}).get("addresses", ())),
    )


def _gateway(device: Mapping[str, Any]) -> str:
    for route in device.get("routes") or ():
        if isinstance(route, dict) and str(route.get("to")) in ("default", "0.0.0.0/0"):
            return str(route.get("via", ""))
    return str(device.get("gateway4", ""))
