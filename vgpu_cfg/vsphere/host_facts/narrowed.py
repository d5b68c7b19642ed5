"""Of which hosts a recording holds facts, and how what it holds is cut down to what is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.model.observed.host_facts import SHELL_GROUPS, EstateFacts, FactGroup, HostFacts
from vgpu_cfg.model.observed.inventory import Host, Inventory

MELLANOX_VENDOR_ID = 0x15B3
"""PCI vendor of ConnectX and BlueField."""

_LEFT_OUT = "the recording holds no facts of this host"
_FIELDS: Mapping[FactGroup, str] = {
    FactGroup.OPTIONS: "options",
    FactGroup.MODULES: "modules",
    FactGroup.KERNEL: "kernel",
    FactGroup.SOFTWARE: "software",
    FactGroup.OWNERS: "owners",
    FactGroup.LICENCE: "licence",
}
"""Where the answer of each group that is asked host by host stands in `HostFacts`."""


def preparable(inventory: Inventory) -> tuple[str, ...]:
    """Return the hosts that somebody may want to prepare: those with NVIDIA GPUs or Mellanox NICs."""
    return tuple(host.moid for host in inventory.hosts if host.gpus or _has_mellanox(host))


def narrowed(
    facts: EstateFacts, inventory: Inventory, host_moids: Sequence[str], groups: frozenset[FactGroup]
) -> EstateFacts:
    """Return what reading only these groups of these hosts would have told."""
    requested = groups - SHELL_GROUPS - {FactGroup.NETWORK_USERS} | {FactGroup.BASE}
    hosts = {moid: _narrowed(facts.hosts.get(moid), requested) for moid in dict.fromkeys(host_moids)}
    places = {inventory.host_by_moid[moid].compute_moid for moid in hosts if moid in inventory.host_by_moid}
    return facts.model_copy(
        update={
            "hosts": hosts,
            "network_vms": facts.network_vms if FactGroup.NETWORK_USERS in groups else None,
            "clusters": {moid: found for moid, found in facts.clusters.items() if moid in places},
        }
    )


def _has_mellanox(host: Host) -> bool:
    return any(device.vendor_id == MELLANOX_VENDOR_ID for device in host.pci_devices)


def _narrowed(facts: HostFacts | None, requested: frozenset[FactGroup]) -> HostFacts:
    if facts is None:
        return HostFacts(unread=dict.fromkeys(requested, _LEFT_OUT))
    empty = HostFacts()
    left_out = {field: getattr(empty, field) for group, field in _FIELDS.items() if group not in requested}
    return facts.model_copy(
        update={
            **left_out,
            "groups": facts.groups & requested,
            "unread": {group: why for group, why in facts.unread.items() if group in requested},
        }
    )
