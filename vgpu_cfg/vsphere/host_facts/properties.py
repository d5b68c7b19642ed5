"""What properties of hosts, clusters and switches say about preparing hosts, as plain values."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from pydantic import TypeAdapter
from pyVmomi import vim

from vgpu_cfg.model.observed.host_facts import (
    ClusterFacts,
    DistributedSwitch,
    HostAttribute,
    HostMark,
    HostSwitch,
    ServiceFact,
    Vmknic,
)
from vgpu_cfg.model.observed.names import unescaped
from vgpu_cfg.model.observed.remembered import REMEMBERED_PREFIX, parse_remembered
from vgpu_cfg.vsphere.wire.collector import Item
from vgpu_cfg.vsphere.wire.faults import to_error

_NEVER_EMPTY: Mapping[str, str] = {
    "config.service.service": "services",
    "config.firewall.ruleset": "firewall rules",
    "config.network.vnic": "VMkernel NICs",
}
"""What every host has: where vCenter tells nothing of it, it is unread, not empty."""

_DISCONNECTED: Mapping[str, str] = {
    "disconnected": "the host is disconnected from vCenter",
    "notResponding": "the host does not respond",
}
_TEXTS = TypeAdapter(dict[str, str])


class Networks:
    """Every network and distributed switch of one reading, as VMkernel NICs and uplinks name them."""

    def __init__(self, items: Iterable[Item]) -> None:
        found = list(items)
        self.switches = tuple(_switch(item, found) for item in found if "config" in item.values)
        self._names = {item.moid: unescaped(item.get("name", item.moid)) for item in found}
        self._by_key = {item.get("key"): item.moid for item in found if item.get("key")}

    def by_key(self, key: str | None) -> str:
        """Return the distributed portgroup of a key, "" where none is known."""
        return self._by_key.get(key or "", "")

    def by_name(self, name: str, among: Iterable[str]) -> str:
        """Return that of some networks that has a name, "" where none has."""
        return next((moid for moid in among if self._names.get(moid) == name), "")

    def name(self, moid: str) -> str:
        """Return a network's name, "" where it is not known."""
        return self._names.get(moid, "")


def base_facts(item: Item, networks: Networks, attributes: Mapping[int, str]) -> dict[str, Any]:
    """Return the fields of `HostFacts` that come with the bulk reading.

    `attributes` maps the keys of custom fields to those that are this tool's.
    """
    uplinks = _device_by_key(item)
    kept = {
        attributes[entry.key]: str(getattr(entry, "value", ""))
        for entry in item.get("customValue") or ()
        if entry.key in attributes
    }
    return {
        "boot_time": _utc(item.get("runtime.bootTime")),
        "reboot_required": bool(item.get("summary.rebootRequired", False)),
        "lockdown": str(item.get("config.lockdownMode", "")),
        "rebind_without_reboot": bool(item.get("capability.deviceRebindWithoutRebootSupported", False)),
        "services": {
            service.key: ServiceFact(running=bool(service.running), policy=str(service.policy or ""))
            for service in item.get("config.service.service") or ()
        },
        "rulesets": {
            ruleset.key: bool(ruleset.enabled) for ruleset in item.get("config.firewall.ruleset") or ()
        },
        "vmknics": tuple(_vmknic(nic, item, networks) for nic in _nics(item)),
        "switches": tuple(_switches(item, uplinks)),
        "mark": HostMark.parse(kept.get(HostAttribute.MARK, "")),
        "done": _texts(kept.get(HostAttribute.DONE, "")),
        "vmnics": _texts(kept.get(HostAttribute.VMNICS, "")),
        "remembered": parse_remembered(
            item.moid, {name: text for name, text in kept.items() if name.startswith(REMEMBERED_PREFIX)}
        ),
    }


def base_unread(item: Item, fields: Item | None) -> str:
    """Return why what the bulk reading tells of a host must not be relied on, "" where it may.

    `fields` is the manager of custom fields, without which nobody knows whether a host carries a mark.
    """
    silent = silence(item)
    if silent:
        return f"{silent}: vCenter tells only what it knew last"
    if fields is None:
        return "this vCenter does not report its custom attributes"
    for owner, path in ((fields, "field"), (item, "customValue")):
        if path in owner.faults:
            return to_error(owner.faults[path], "reading custom attributes").message
    lacks = {path: name for path, name in _NEVER_EMPTY.items() if path not in item.values}
    for path, name in lacks.items():
        if path in item.faults:
            return to_error(item.faults[path], f"reading the host's {name}").message
    return f"vCenter does not report the host's {', '.join(lacks.values())}" if lacks else ""


def silence(item: Item) -> str:
    """Return why a host cannot be asked anything, "" where it can."""
    state = str(item.get("runtime.connectionState", "notResponding"))
    return "" if state == "connected" else _DISCONNECTED.get(state, f"the host is {state}")


def attributes_by_key(fields: Item | None) -> dict[int, str]:
    """Return which keys of custom fields stand for this tool's attributes of hosts, by their names."""
    names = {attribute.value for attribute in HostAttribute}
    return {
        definition.key: str(definition.name)
        for definition in (fields.get("field") if fields is not None else None) or ()
        if definition.name in names or definition.name.startswith(REMEMBERED_PREFIX)
    }


def cluster_facts(item: Item) -> ClusterFacts:
    """Return the facts of a cluster, or of the place of a single host, which has fewer."""
    configuration = item.get("configurationEx")
    drs = getattr(configuration, "drsConfig", None)
    return ClusterFacts(
        drs_overrides=dict(_overrides(configuration, drs)),
        drs_options={option.key: option_text(option.value) for option in getattr(drs, "option", None) or ()},
        image_managed=item.get("lifecycleManaged"),
        config_managed=item.get("configManagerEnabled"),
    )


def _overrides(configuration: Any, drs: Any) -> Iterable[tuple[str, str]]:
    """Yield what DRS does with single VMs; a level of their own counts only where the cluster lets it."""
    has_levels = getattr(drs, "enableVmBehaviorOverrides", None) is not False
    for entry in getattr(configuration, "drsVmConfig", None) or ():
        if entry.enabled is False:
            yield str(entry.key._moId), "disabled"
        elif entry.behavior is not None and has_levels:
            yield str(entry.key._moId), str(entry.behavior)


def option_text(value: object) -> str:
    """Return an option's value as a text: truth values as XML has them, "true" and "false"."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _utc(moment: datetime | None) -> datetime | None:
    """Return a moment with Python's own zone: pyvmomi's is a type of its own."""
    return None if moment is None else moment.astimezone(UTC)


def _texts(text: str) -> dict[str, str]:
    """Read a mapping of texts back from JSON; empty where it is none, as after somebody edited it."""
    try:
        return _TEXTS.validate_json(text)
    except ValueError:
        return {}


def _device_by_key(item: Item) -> dict[str, str]:
    return {nic.key: nic.device for nic in item.get("config.network.pnic") or () if nic.key}


def _nics(item: Item) -> Iterable[Any]:
    """Yield the VMkernel NICs, and the tunnel endpoints of opaque switches that are not among them."""
    seen: set[str] = set()
    opaque = (nic for switch in item.get("config.network.opaqueSwitch") or () for nic in switch.vtep or ())
    for nic in chain(item.get("config.network.vnic") or (), opaque):
        if nic.device not in seen:
            seen.add(nic.device)
            yield nic


def _vmknic(nic: Any, item: Item, networks: Networks) -> Vmknic:
    port = nic.spec.distributedVirtualPort
    standard = nic.portgroup or nic.spec.portgroup or ""
    moid = (
        networks.by_name(standard, item.moids_of("network"))
        if port is None
        else networks.by_key(port.portgroupKey)
    )
    address = nic.spec.ip
    return Vmknic(
        device=nic.device,
        network=standard if port is None else networks.name(moid),
        network_moid=moid,
        address="" if address is None else _cidr(address.ipAddress, address.subnetMask),
        is_dhcp=address is not None and bool(address.dhcp),
        mtu=nic.spec.mtu or 1500,
        services=tuple(_services(nic.device, item)),
    )


def _services(device: str, item: Item) -> Iterable[str]:
    """Yield what a VMkernel NIC is used for; a selection names its candidates by keys of their own."""
    for config in item.get("config.virtualNicManagerInfo.netConfig") or ():
        devices = {str(nic.key): nic.device for nic in config.candidateVnic or ()}
        if device in (devices.get(str(key)) for key in config.selectedVnic or ()):
            yield str(config.nicType)


def _cidr(address: str | None, mask: str | None) -> str:
    """Return an address with the length of its prefix; bare where the mask says nothing."""
    try:
        return ipaddress.ip_interface(f"{address}/{mask}").with_prefixlen
    except ValueError:
        return address or ""


def _switches(item: Item, devices: Mapping[str, str]) -> Iterable[HostSwitch]:
    for switch in item.get("config.network.vswitch") or ():
        yield HostSwitch(name=switch.name, mtu=switch.mtu or None, uplinks=_uplinks(switch, devices))
    for switch in item.get("config.network.proxySwitch") or ():
        yield HostSwitch(
            name=unescaped(switch.dvsName),
            mtu=switch.mtu or None,
            uplinks=_uplinks(switch, devices),
            switch_uuid=switch.dvsUuid,
        )
    # Somebody else's, such as NSX: vCenter tells its name and its NICs, and changes neither.
    for switch in item.get("config.network.opaqueSwitch") or ():
        yield HostSwitch(name=switch.name or switch.key, uplinks=_uplinks(switch, devices))


def _uplinks(switch: Any, devices: Mapping[str, str]) -> tuple[str, ...]:
    # A NIC that the list lacks stands with its key, `key-vim.host.PhysicalNic-vmnic0`.
    return tuple(devices.get(str(key), str(key).rpartition("-")[2]) for key in switch.pnic or ())


def _switch(item: Item, items: Iterable[Item]) -> DistributedSwitch:
    config = item.get("config")
    own = set(item.moids_of("portgroup"))
    return DistributedSwitch(
        moid=item.moid,
        name=unescaped(item.get("name", item.moid)),
        uuid=item.get("uuid", ""),
        mtu=getattr(config, "maxMtu", None) or None,
        members={
            str(member.config.host._moId): _member_uplinks(member.config)
            for member in config.host or ()
            if member.config.host is not None
        },
        portgroup_vlans={
            found.moid: _vlan(found.get("config.defaultPortConfig"))
            for found in items
            if found.moid in own and "config.defaultPortConfig" in found.values
        },
    )


def _member_uplinks(config: Any) -> tuple[str, ...]:
    return tuple(spec.pnicDevice for spec in getattr(config.backing, "pnicSpec", None) or ())


def _vlan(settings: Any) -> int | None:
    """Return a portgroup's VLAN, 0 for none; None for a trunk or a private VLAN."""
    vlan = getattr(settings, "vlan", None)
    if isinstance(vlan, vim.dvs.VmwareDistributedVirtualSwitch.VlanIdSpec):
        return int(vlan.vlanId)
    return None
