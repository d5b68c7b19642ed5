"""The fixed list of properties for reading facts, the names asked of each host, and facts in a recording.

Like the list of a whole reading it does not depend on the plan, so that a recording answers any plan. Of a
recording the hosts with facts are found, and the part of it that a question needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache

from vgpu_cfg.model.observed.host_facts import SHELL_GROUPS, EstateFacts, FactGroup, HostFacts
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.vsphere.wire.collector import Paths
from vgpu_cfg.vsphere.wire.decoding import Kept

HOST = "vim.HostSystem"
COMPUTE = "vim.ComputeResource"
CUSTOM_FIELDS = "vim.CustomFieldsManager"
LICENCES = "vim.LicenseManager"
PROFILE = "vim.profile.Profile"
HOST_PROFILE = "vim.profile.host.HostProfile"

HOST_BASE = (
    "name",
    "parent",
    "network",
    "customValue",
    "runtime.connectionState",
    "runtime.bootTime",
    "summary.rebootRequired",
    "summary.config.product.version",
    "capability.deviceRebindWithoutRebootSupported",
    "config.lockdownMode",
    "config.service.service",
    "config.firewall.ruleset",
    "config.network.vnic",
    "config.network.vswitch",
    "config.network.proxySwitch",
    "config.network.opaqueSwitch",
    # Switches name their uplinks by keys that only this list resolves.
    "config.network.pnic",
    "config.virtualNicManagerInfo.netConfig",
    "configManager.advancedOption",
    "configManager.kernelModuleSystem",
    "configManager.imageConfigManager",
)

HOST_PASS = (
    Paths(HOST, HOST_BASE),
    # API 6.9.1 and 8.0.0.0; an older server is not asked for them.
    Paths(COMPUTE, ("lifecycleManaged", "configManagerEnabled")),
    # Whole: its declared type has none of a cluster's fields, so no path into them is sure to be taken.
    Paths("vim.ClusterComputeResource", ("configurationEx",)),
    Paths(CUSTOM_FIELDS, ("field",)),
    Paths(LICENCES, ("licenseAssignmentManager",)),
)
"""Hosts with their clusters, and the data kept at vCenter itself, in one round trip."""

MELLANOX_VENDOR_ID = 0x15B3
"""PCI vendor of ConnectX and BlueField."""

_LEFT_OUT = "the recording contains no data about this host"
_FIELDS: Mapping[FactGroup, str] = {
    FactGroup.OPTIONS: "options",
    FactGroup.MODULES: "modules",
    FactGroup.KERNEL: "kernel",
    FactGroup.SOFTWARE: "software",
    FactGroup.OWNERS: "owners",
    FactGroup.LICENCE: "licence",
}
"""The field of `HostFacts` for each group that is asked host by host."""


@cache
def host_pass(paths: tuple[str, ...]) -> tuple[Paths, ...]:
    """Return the pass over hosts with more of their properties."""
    return (Paths(HOST, tuple(dict.fromkeys((*HOST_BASE, *paths)))), *HOST_PASS[1:])


_UPLINKS = (Kept("vim.dvs.HostMember.PnicSpec", ("pnicDevice",)),)
_BACKING = (Kept("vim.dvs.HostMember.PnicBacking", (), {"pnicSpec": _UPLINKS}),)
_MEMBER = (Kept("vim.dvs.HostMember.ConfigInfo", ("host",), {"backing": _BACKING}),)
_MEMBERS = {"host": (Kept("vim.dvs.HostMember", (), {"config": _MEMBER}),)}
_OF_SWITCHES = {
    "config": (
        Kept("vim.dvs.VmwareDistributedVirtualSwitch.ConfigInfo", ("maxMtu",), _MEMBERS),
        Kept("vim.DistributedVirtualSwitch.ConfigInfo", (), _MEMBERS),
    )
}
"""The rest is not made: govmomi's simulator leaves moments unset, of which it says the year 1."""

NETWORK_PASS = (
    Paths("vim.Network", ("name",)),
    Paths("vim.dvs.DistributedVirtualPortgroup", ("key", "config.defaultPortConfig")),
    # Whole, for the same reason: the MTU is a field of VMware's own switch.
    Paths("vim.DistributedVirtualSwitch", ("name", "uuid", "config", "portgroup"), _OF_SWITCHES),
)
"""Every network and distributed switch."""

NETWORK_USERS_PASS = (Paths("vim.Network", ("vm",)), Paths("vim.dvs.DistributedVirtualPortgroup", ("vm",)))
"""The VMs on every network, running or not."""

PROFILE_PASS = (Paths(PROFILE, ("name",)),)
"""The names of host profiles."""

BOOT_OPTIONS = "VMkernel.Boot."
"""With its dot, all advanced options below it (govmomi, `govc host.option.ls`)."""
SINGLE_OPTIONS = ("Net.PVRDMAVmknic",)
SINGLE_OPTIONS_9 = ("Numa.DeviceAffinity",)
"""ESXi has these from 9.0 on."""
MODULES = ("nvidia", "nmlx5_core", "nmlx5_rdma")
KERNEL_SETTINGS = ("atsSupport", "vtdAtsSupport")
"""One setting and the name it had up to ESXi 7.0 U1."""
VCENTER_OPTIONS = ("vgpu.hotmigrate.enabled",)


def preparable(inventory: Inventory) -> tuple[str, ...]:
    """Return the hosts that can be prepared: those with NVIDIA GPUs or Mellanox NICs."""
    return tuple(host.moid for host in inventory.hosts if host.gpus or _has_mellanox(host))


def narrowed(
    facts: EstateFacts, inventory: Inventory, host_moids: Sequence[str], groups: frozenset[FactGroup]
) -> EstateFacts:
    """Return the result that reading only these groups of these hosts would have had."""
    requested = groups - SHELL_GROUPS - {FactGroup.NETWORK_USERS, FactGroup.IMAGE} | {FactGroup.BASE}
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
