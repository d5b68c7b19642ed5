"""What vCenter knows of a guest from its tools (vim `GuestInfo`), as plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vgpu_cfg.model.observed.vm import GuestNicSeen, GuestSeen
from vgpu_cfg.vsphere.wire.collector import Item

TOOLS_RUNNING = "guestToolsRunning"
"""vim `VirtualMachineToolsRunningStatus`; the other states are that they do not run, or run scripts."""

_GONE = frozenset({"deprecated", "duplicate", "inaccessible", "invalid"})
"""vim `NetIpConfigInfoIpAddressStatus` of addresses that the guest does not use."""


def guest_seen(item: Item) -> GuestSeen | None:
    """Make what is known of a VM's guest; None where vCenter tells nothing at all."""
    status = item.get("guest.toolsRunningStatus")
    if status is None and item.get("guest.net") is None and item.get("guest.hostName") is None:
        return None
    return GuestSeen.one_of_many(
        tools_running=str(status) == TOOLS_RUNNING,
        host_name=item.get("guest.hostName") or "",
        address=item.get("guest.ipAddress") or "",
        nics=tuple(_nics(item.get("guest.net") or ())),
    )


def _nics(nets: Iterable[Any]) -> Iterable[GuestNicSeen]:
    """Yield the guest's NICs; one without a MAC address is none of the VM's, such as docker0."""
    for net in nets:
        if net.macAddress:
            yield GuestNicSeen.one_of_many(
                mac=net.macAddress.casefold(), addresses=tuple(_addresses(net)), network=net.network or ""
            )


def _addresses(net: Any) -> Iterable[str]:
    """Yield the addresses in use, with their prefix lengths; plain ones where the tools tell no more."""
    config = getattr(net, "ipConfig", None)
    if config is None:
        yield from net.ipAddress or ()
        return
    for one in config.ipAddress or ():
        if one.state not in _GONE:
            yield f"{one.ipAddress}/{one.prefixLength}"
