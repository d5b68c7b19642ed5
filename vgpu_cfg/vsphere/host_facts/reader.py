"""Read the facts of hosts, clusters and switches: in bulk by the property collector, the rest host by host.

The round trips, whatever the number of hosts: one (and a page for each 2,000 objects) for
networks and switches, one for hosts, clusters and custom fields, one per option of vCenter. With
OWNERS one more per cluster and one for the names of profiles. Per host: see `questions`. Of a host one
question is asked after the other, of several hosts some at once.

The properties for preparing hosts are plain values here.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from pydantic import TypeAdapter
from pyVmomi import vim, vmodl

from vgpu_cfg.errors import NotRecorded, ReachError, VCenterError
from vgpu_cfg.model.observed.host_facts import (
    REMEMBERED_PREFIX,
    SHELL_GROUPS,
    ClusterFacts,
    DistributedSwitch,
    EstateFacts,
    FactGroup,
    HostAttribute,
    HostFacts,
    HostMark,
    HostSwitch,
    ServiceFact,
    Vmknic,
    parse_remembered,
)
from vgpu_cfg.model.observed.managed_object import unescaped
from vgpu_cfg.vsphere.host_facts import passes
from vgpu_cfg.vsphere.host_facts.images import read_image
from vgpu_cfg.vsphere.host_facts.questions import (
    LOST,
    QUESTIONS,
    HostQuestions,
    HostSilent,
    associated_profiles,
)
from vgpu_cfg.vsphere.wire.collector import Item, Start, collect_all, collect_from
from vgpu_cfg.vsphere.wire.faults import to_error
from vgpu_cfg.vsphere.wire.session import Session

ALL_GROUPS = frozenset(FactGroup) - SHELL_GROUPS - {FactGroup.NETWORK_USERS, FactGroup.IMAGE}
"""Every group that is read of a host through vCenter."""
ALL_FACTS = ALL_GROUPS | {FactGroup.NETWORK_USERS}
"""The facts that are read with the estate: a recording has all of them."""

_GONE = "the host is not in vCenter's inventory"
_COMPUTE_TYPES = ("ComputeResource", "ClusterComputeResource")
_NO_NETWORKS = (*_COMPUTE_TYPES, "HostSystem", "CustomFieldsManager", "LicenseManager")

_NEVER_EMPTY: Mapping[str, str] = {
    "config.service.service": "services",
    "config.firewall.ruleset": "firewall rules",
    "config.network.vnic": "VMkernel NICs",
}
"""The facts that every host has: if vCenter has none, it is unread, not empty."""

_DISCONNECTED: Mapping[str, str] = {
    "disconnected": "the host is disconnected from vCenter",
    "notResponding": "the host is not responding",
}
_TEXTS = TypeAdapter(dict[str, str])


def read_facts(session: Session, host_moids: Sequence[str], groups: frozenset[FactGroup]) -> EstateFacts:
    """Read facts of hosts and of their clusters, of vCenter's options and all distributed switches.

    BASE is always read; groups of the shell are not read and are in no answer. Of a host, `groups` names the
    groups read and `unread` the others, with the reason. An option that vCenter does not report is absent.
    Raises VCenterError where the connection or the session is lost, or the bulk reading fails.
    """
    requested = groups & ALL_GROUPS | {FactGroup.BASE}
    networks = collect_all(session, passes.NETWORK_PASS)
    starts = _starts(session, dict.fromkeys(host_moids), requested)
    hosts = collect_from(session, passes.HOST_PASS, starts)
    facts = _facts(session, host_moids, requested, [*networks, *hosts])
    users = _network_vms(session) if FactGroup.NETWORK_USERS in groups else None
    if FactGroup.IMAGE in groups:
        facts = _with_images(session, facts)
    return facts.model_copy(update={"vcenter_options": _vcenter_options(session), "network_vms": users})


def _with_images(session: Session, facts: EstateFacts) -> EstateFacts:
    """Add the images of the clusters that have one."""
    clusters = {
        moid: one.model_copy(update={"image": read_image(session, moid)}) if one.image_managed else one
        for moid, one in facts.clusters.items()
    }
    return facts.model_copy(update={"clusters": clusters})


def _network_vms(session: Session) -> dict[str, tuple[str, ...]] | None:
    """Read which VMs are on each network; None from a recording that was made before this was read."""
    try:
        items = collect_all(session, passes.NETWORK_USERS_PASS)
    except NotRecorded:
        return None
    return {item.moid: tuple(item.moids_of("vm")) for item in items}


def read_with(
    session: Session, moid: str, groups: frozenset[FactGroup], paths: Sequence[str]
) -> tuple[EstateFacts, Item | None]:
    """Read facts of one host as `read_facts` does, without vCenter's options, and the host's part of `paths`.

    Networks, switches and the host take one round trip together. The host's item holds more in addition, and
    is None if it has gone.
    """
    requested = groups & ALL_GROUPS | {FactGroup.BASE}
    starts, wanted = _starts(session, [moid], requested), passes.host_pass(tuple(paths))
    items = collect_all(session, passes.NETWORK_PASS, wanted, starts)
    return _facts(session, [moid], requested, items), next((one for one in items if one.moid == moid), None)


def _facts(
    session: Session, host_moids: Sequence[str], requested: frozenset[FactGroup], found: Sequence[Item]
) -> EstateFacts:
    """Make facts of the bulk reading, and ask the hosts for the rest."""
    networks = Networks(item for item in found if item.type_name not in _NO_NETWORKS)
    items = {item.moid: item for item in found if item.type_name in _NO_NETWORKS}
    computes = {item.moid: item for item in items.values() if item.type_name in _COMPUTE_TYPES}
    fields = _first(items, "CustomFieldsManager")
    licences = _first(items, "LicenseManager")
    attributes = attributes_by_key(fields)
    manager = None if licences is None else licences.get("licenseAssignmentManager")

    def facts_of(moid: str) -> HostFacts:
        item = items.get(moid)
        if item is None:
            return HostFacts(unread=dict.fromkeys(requested, _GONE))
        why = base_unread(item, fields)
        unread = {FactGroup.BASE: why} if why else {}
        name = unescaped(item.get("name", moid))
        answers = _ask(HostQuestions(session, item, manager, name), item, requested, unread)
        return HostFacts(
            groups=requested - unread.keys(),
            **base_facts(item, networks, attributes),
            **answers,
            unread=unread,
        )

    hosts = dict(session.each(facts_of, dict.fromkeys(host_moids)))
    if FactGroup.OWNERS in requested:
        hosts = _with_owners(session, hosts, items, computes)
    return EstateFacts(
        hosts=hosts,
        clusters={moid: cluster_facts(item) for moid, item in computes.items()},
        switches=networks.switches,
    )


def _starts(session: Session, moids: Iterable[str], requested: frozenset[FactGroup]) -> list[Start]:
    content = session.service_content
    starts = [Start(passes.HOST, moid, follow="parent", is_read=True) for moid in moids]
    if content.customFieldsManager is not None:
        starts.append(Start(passes.CUSTOM_FIELDS, str(content.customFieldsManager._moId)))
    if FactGroup.LICENCE in requested and content.licenseManager is not None:
        starts.append(Start(passes.LICENCES, str(content.licenseManager._moId)))
    return starts


def _first(items: Mapping[str, Item], type_name: str) -> Item | None:
    return next((item for item in items.values() if item.type_name == type_name), None)


def _ask(
    questions: HostQuestions, item: Item, requested: frozenset[FactGroup], unread: dict[FactGroup, str]
) -> dict[str, Any]:
    """Ask a host all groups; why one was not read goes to `unread`."""
    answers: dict[str, Any] = {}
    silent = silence(item)
    for group, question in QUESTIONS.items():
        if group not in requested:
            continue
        if silent:
            unread[group] = silent
            continue
        try:
            answers.update(question(questions))
        except LOST:
            raise
        except HostSilent as error:
            silent = unread[group] = error.message
        except ReachError as error:
            unread[group] = error.message
    return answers


def _with_owners(
    session: Session, hosts: Mapping[str, HostFacts], items: Mapping[str, Item], computes: Mapping[str, Item]
) -> dict[str, HostFacts]:
    """Add the host profiles of clusters to those of their hosts, and name them all."""

    def told_of(moid: str) -> tuple[str, ...] | VCenterError:
        try:
            return associated_profiles(session, vim.ClusterComputeResource, moid, moid)
        except LOST:
            raise
        except VCenterError as error:
            return error

    clusters = [moid for moid, item in computes.items() if item.type_name == "ClusterComputeResource"]
    of_cluster = dict(session.each(told_of, clusters))
    found = {
        moid: _owners(facts, of_cluster.get(_parent(items.get(moid)), ())) for moid, facts in hosts.items()
    }
    names = _profile_names(session, {profile for facts in found.values() for profile in facts.owners})
    return {
        moid: facts.model_copy(
            update={"owners": tuple(f"host profile {names.get(owner, owner)}" for owner in facts.owners)}
        )
        for moid, facts in found.items()
    }


def _parent(item: Item | None) -> str:
    return (None if item is None else item.moid_of("parent")) or ""


def _owners(facts: HostFacts, of_cluster: tuple[str, ...] | VCenterError) -> HostFacts:
    if FactGroup.OWNERS in facts.unread:
        return facts
    if isinstance(of_cluster, VCenterError):
        return facts.model_copy(
            update={
                "owners": (),
                "groups": facts.groups - {FactGroup.OWNERS},
                "unread": {**facts.unread, FactGroup.OWNERS: of_cluster.message},
            }
        )
    return facts.model_copy(update={"owners": tuple(dict.fromkeys([*facts.owners, *of_cluster]))})


def _profile_names(session: Session, moids: Iterable[str]) -> dict[str, str]:
    starts = [Start(passes.HOST_PROFILE, moid) for moid in sorted(moids)]
    items = collect_from(session, passes.PROFILE_PASS, starts) if starts else []
    return {item.moid: item.get("name", item.moid) for item in items}


def _vcenter_options(session: Session) -> dict[str, str]:
    """Read options of vCenter; one that it does not have or does not report is left out."""
    manager = session.service_content.setting
    found: dict[str, str] = {}
    for name in passes.VCENTER_OPTIONS if manager is not None else ():
        try:
            found.update(
                (option.key, option_text(option.value)) for option in manager.QueryOptions(name) or ()
            )
        except vim.fault.NotAuthenticated as fault:
            raise to_error(fault, "reading vCenter's options", session.address) from fault
        except vmodl.MethodFault:
            continue
    return found


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
    """Return why the bulk reading of a host is not reliable, "" if it is.

    `fields` is the manager of custom fields; without it, it is unknown whether a host carries a mark.
    """
    silent = silence(item)
    if silent:
        return f"{silent}: vCenter reports only the last known data"
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
    """Return the keys of this tool's custom fields of hosts, by their names."""
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
    """Read a mapping of texts back from JSON; empty if it is not one, as after a manual edit."""
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
    """Yield the uses of a VMkernel NIC; a selection names its candidates by keys of their own."""
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
