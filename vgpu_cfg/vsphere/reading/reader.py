"""A whole reading of a vCenter in few round trips, and small readings between changes.

The round trips of a reading, after the three that open a session: one for the session's view, the first
pass over every object (one for each 2,000 objects), the second over hosts that have or may have GPUs and
over the VMs there; one, and one each, for VMs of the plan that its file does not name; then two per kind of
host and two per ESXi build. Those of facts: see `host_facts`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from vgpu_cfg.errors import VCenterError
from vgpu_cfg.model.locks import Locks
from vgpu_cfg.model.observed.cordon import MaintenanceEntry
from vgpu_cfg.model.observed.drs import ClusterTies
from vgpu_cfg.model.observed.gpu_use import UseReading
from vgpu_cfg.model.observed.host_facts import DepotLook, EstateFacts, FactGroup
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.managed_object import unescaped
from vgpu_cfg.model.observed.own_items import CustomizationSeen, HostAlarm, SeenLicence
from vgpu_cfg.model.observed.past import Past, PastScope
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.planning.findings.options import matches_any
from vgpu_cfg.ports import Clock, ReadScope
from vgpu_cfg.vsphere.history.collectors import read_origins
from vgpu_cfg.vsphere.host_facts.passes import narrowed, preparable
from vgpu_cfg.vsphere.reading import passes
from vgpu_cfg.vsphere.reading import places as reader_places
from vgpu_cfg.vsphere.reading.host_kinds import (
    KnownKinds,
    Spared,
    infer_sharing,
    managers_of,
    prefixes_of,
    read_direct_path,
    read_kinds,
    read_max_hardware_versions,
    read_system_ids,
    spared_of,
)
from vgpu_cfg.vsphere.reading.hosts import gpu_holders, lists_nvidia, make_host, mark_nics
from vgpu_cfg.vsphere.reading.locks import ALARM_INFO, alarm_starts, locks_of, read_held, read_locks
from vgpu_cfg.vsphere.reading.own_items import (
    read_alarms,
    read_customization_specs,
    read_key_providers,
    read_library_items,
    read_licences,
)
from vgpu_cfg.vsphere.reading.places import Places
from vgpu_cfg.vsphere.reading.privileges import (
    KnownRoles,
    read_defined_attributes,
    read_missing_privileges,
    type_by_moid,
    vmodl_name,
)
from vgpu_cfg.vsphere.reading.storage_policies import PolicyReader
from vgpu_cfg.vsphere.reading.tags import names_of, read_attached, read_categories
from vgpu_cfg.vsphere.reading.vms import make_detail, make_vm, owner_mark, unchanged
from vgpu_cfg.vsphere.wire.collector import (
    Item,
    Paths,
    Start,
    collect_all,
    collect_from,
    made_from,
)
from vgpu_cfg.vsphere.wire.session import Session

MOST_HOSTS_WITHOUT_LISTED_GPU = 64
"""So many hosts whose graphics list names no NVIDIA GPU are still searched for GPUs in passthrough.

A list of PCI functions is long. If there are more such hosts, only those are searched whose cluster has a
host that lists a GPU.
"""

EVERYTHING = ReadScope(everything=True, system_ids=True, key_providers=True)
"""The one scope of a recording: whatever is asked later, it holds the answer."""

_OF_THE_KIND = (
    "profiles",
    "device_groups",
    "direct_path",
    "max_hardware_version",
    "max_vgpus_by_hardware_version",
    "system_id",
)
"""The data read once per kind of host, and not again when one of them is read again."""


@dataclass(frozen=True, slots=True)
class _Reading:
    """A reading of the whole inventory, as far as smaller ones go by it."""

    scope: ReadScope
    places: Places
    with_gpus: Sequence[Host]
    """Hosts with GPUs as they were read, before any inference."""
    managers: Mapping[str, Item]
    """The kind of each of these hosts, by host."""


class VCenterReader:
    """An InventoryReader on a session.

    `_inventory` is the last reading, None before. `_vms` has the newest reading of each VM, which a run may
    have made since.
    """

    def __init__(self, session: Session, clock: Clock) -> None:
        self._session = session
        self._clock = clock
        self._last = _Reading(ReadScope(), Places(()), (), {})
        self._inventory: Inventory | None = None
        self._vms: dict[str, Vm] = {}
        self._kinds = KnownKinds()
        self._counters: Item | None = None
        self._roles = KnownRoles(clock)
        self._policies = PolicyReader(session)

    def read_inventory(self, scope: ReadScope) -> Inventory:
        """Read hosts, GPUs, VMs and the destinations of VMs.

        If the same was read before, VMs whose configuration has not changed are not asked for it again.
        """
        session, read_at = self._session, self._clock.now()
        beside, scope = scope, scope.model_copy(update={"locks": False, "timed": True, "roles": False})
        is_again = self._inventory is not None and scope == self._last.scope
        if not (is_again and beside.roles):
            self._roles.begin()  # else those of unchanged VMs are not read
        items, locks = self._read_all(passes.FIRST_PASS_AGAIN if is_again else passes.FIRST_PASS, beside)
        places = Places(items)
        library = read_library_items(session, scope.library_items) if scope.library_items else None
        templates = frozenset(one.template_moid for one in library or () if one.template_moid)
        same = unchanged(places.of_type("VirtualMachine"), self._vms) if is_again else None
        close = passes.with_roles(passes.CLOSE_PASS, of_vms=True) if beside.roles else passes.CLOSE_PASS
        hosts, of_hosts, details = self._read_closely(close, places, scope, templates, same)
        vms = {
            item.moid: make_vm(places, item, details.get(item.moid))
            for item in places.of_type("VirtualMachine")
        }
        vms = _with_origins(session, mark_nics(vms, hosts), scope)
        with_gpus = [host for host in hosts if host.gpus]
        managers = {host.moid: managers_of(of_hosts[host.moid]) for host in with_gpus}
        last = _Reading(scope, places, with_gpus, managers)
        complete = _complete(session, hosts, _computes(places), vms, scope)
        if scope.kinds:
            complete = _with_kinds(session, self._kinds, last, complete, vms)
        inventory = Inventory(
            vcenter=session.vcenter,
            read_at=read_at,
            datacenters=reader_places.datacenters(places),
            clusters=reader_places.clusters(places),
            hosts=tuple(complete.values()),
            vms=tuple(vms.values()),
            networks=reader_places.networks(places),
            datastores=reader_places.datastores(places),
            folders=reader_places.folders(places),
            resource_pools=reader_places.resource_pools(places),
            library_items=library,
            has_kinds=scope.kinds,
        )
        if scope.customization_specs:
            specs = read_customization_specs(session, scope.customization_specs)
            inventory = inventory.model_copy(update={"customization_specs": specs})
        if scope.key_providers:
            inventory = _with_vcenter(inventory, key_providers=read_key_providers(session))
        if scope.tag_categories:
            inventory = _with_tags(session, inventory, scope)
        if scope.storage_policies:
            inventory = _with_policies(self._policies, inventory, scope)
        self._last = last
        self._vms = vms
        self._inventory = inventory
        if locks is None:
            return inventory
        return inventory.model_copy(update={"locks": locks, "reservations": locks.reservations})

    def read_part(self, scope: ReadScope, vm_moids: Iterable[str]) -> Inventory:
        """Read some VMs, and the hosts where they were last, in one round trip; the rest is as last read.

        Hosts where a VM turns out to be take one more. All is read if `read_inventory` has read another
        scope, if this one needs more of VMs, and if a VM's host or folder is not known.
        """
        before, last, moids = self._inventory, self._last, dict.fromkeys(vm_moids)
        asks_more = scope.storage_policies or scope.tag_categories or scope.library_items
        if before is None or scope != last.scope or asks_more:
            return self.read_inventory(scope)
        read_at, known = self._clock.now(), before.host_by_moid
        were = [self._vms[moid].host_moid for moid in moids if moid in self._vms]
        likely = dict.fromkeys(moid for moid in were if moid is not None and moid in known)
        starts = [Start(passes.VM, moid) for moid in moids] + [Start(passes.HOST, moid) for moid in likely]
        found = collect_from(self._session, passes.VM_AGAIN + passes.HOST_AGAIN, starts) if starts else []
        items = [item for item in found if item.type_name == "VirtualMachine"]
        read = [item for item in found if item.type_name == "HostSystem"]
        at = {moid for item in items if (moid := item.moid_of("runtime.host"))}
        folders = {item.moid_of("parent") for item in items}
        if not (at <= known.keys() and all(map(last.places.find, folders))):
            return self.read_inventory(scope)
        read += self._items(passes.HOST_AGAIN, passes.HOST, sorted(at - likely.keys()))
        fresh = {item.moid: make_host(last.places, item) for item in read}
        seen = {item.moid: self._vm_of(item, scope.extra_config_keys) for item in items}
        kept = {moid: vm for moid, vm in self._vms.items() if moid in seen or moid not in moids}
        self._vms = {**kept, **mark_nics(seen, {**known, **fresh}.values())}
        changed = {moid: self._again(host) for moid, host in fresh.items()}
        update = {"read_at": read_at, "vms": tuple(self._vms.values())}
        self._inventory = before.with_hosts(changed).model_copy(update=update)
        return self._inventory

    def _read_all(self, wanted: Sequence[Paths], scope: ReadScope) -> tuple[list[Item], Locks | None]:
        """Read every object, the counters and roles, which are kept, and locks."""
        counters: tuple[Paths, ...] = ()
        managers: list[Start] = []
        if scope.counters:
            from vgpu_cfg.vsphere.reading.gpu_use import beside_of

            counters, managers = beside_of(self._session)
        alarms = alarm_starts(self._session) if scope.locks else []
        roots = [Start("vim.Folder", self._session.root_moid)] if scope.roles else []
        wanted = passes.with_roles(wanted, of_vms=False) if scope.roles else wanted
        paths = (*counters, *(ALARM_INFO if alarms else ()), *(passes.ROLES if roots else ()))
        found = collect_all(self._session, wanted, paths, [*managers, *alarms, *roots])
        beside = {start.moid for start in (*managers, *alarms, *roots)}
        items = [item for item in found if item.moid not in beside]
        self._roles.keep(found)
        self._counters = next((item for item in found if item.type_name == "PerformanceManager"), None)
        if not scope.locks:
            return items, None
        kept = [item for item in found if item.type_name == "Alarm"]
        return items, locks_of(self._session, kept, None if scope.timed else self._clock.now())

    def read_vms(
        self, moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
    ) -> tuple[Vm, ...]:
        """Read some VMs again, in detail, in one round trip; those that have gone are left out.

        Their storage policies take one more, if the plan names any.
        """
        return self._vms_of(self._items(passes.VM_AGAIN, passes.VM, moids), extra_config_keys)

    def read_vms_on(self, host_moid: str) -> tuple[Vm, ...]:
        """Read the VMs that are on a host now, in detail, in one round trip; none where it has gone."""
        start = Start(passes.HOST, host_moid, follow="vm")
        return self._vms_of(collect_from(self._session, passes.VM_AGAIN, [start]), frozenset())

    def _vms_of(self, items: Iterable[Item], extra_config_keys: frozenset[str]) -> tuple[Vm, ...]:
        """Make VMs of the readings; the newest reading of each goes into the result of `read_part`."""
        keys = extra_config_keys | self._last.scope.extra_config_keys
        found = mark_nics({item.moid: self._vm_of(item, keys) for item in items}, self._hosts.values())
        self._vms.update(found)
        return tuple(self._policies.with_policies(found.values()))

    def _vm_of(self, item: Item, keys: frozenset[str]) -> Vm:
        """Make a VM of its detailed reading, and of its place by the last whole reading."""
        detail = make_detail(item, keys, option_names=self._last.scope.option_names)
        return make_vm(self._last.places, item, detail)

    @property
    def _hosts(self) -> Mapping[str, Host]:
        """The hosts by moid, as they were read last."""
        return {} if self._inventory is None else self._inventory.host_by_moid

    def read_gpu_holders(self, host_moids: Iterable[str]) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Return per host, per GPU address, the moids of the VMs that hold it now."""
        items = self._items(passes.HOLDERS, passes.HOST, host_moids)
        return {item.moid: gpu_holders(item) for item in items}

    def read_vms_and_holders(
        self, moids: Iterable[str], host_moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
    ) -> tuple[tuple[Vm, ...], Mapping[str, Mapping[str, tuple[str, ...]]]]:
        """Do what `read_vms` and `read_gpu_holders` do, in one round trip for both.

        It takes none where the wait for tasks that was just over brought all of these VMs along.
        """
        moids, host_moids = tuple(dict.fromkeys(moids)), tuple(dict.fromkeys(host_moids))
        brought = None if host_moids else self._session.take_brought(moids)
        if brought is not None:
            found = [Item("VirtualMachine", moid, brought[moid]) for moid in moids]
            return self._vms_of(found, extra_config_keys), {}
        starts = [
            *(Start(passes.VM, moid) for moid in moids),
            *(Start(passes.HOST, moid) for moid in host_moids),
        ]
        if not starts:
            return (), {}
        items = collect_from(self._session, passes.VM_AGAIN + passes.HOLDERS, starts)
        vms = [item for item in items if item.type_name == "VirtualMachine"]
        holders = {item.moid: gpu_holders(item) for item in items if item.type_name == "HostSystem"}
        return self._vms_of(vms, extra_config_keys), holders

    def read_everything(self) -> tuple[Inventory, EstateFacts]:
        """Read all that a recording holds, whatever plan is made of it later."""
        from vgpu_cfg.vsphere.host_facts.reader import ALL_FACTS

        inventory = self.read_inventory(EVERYTHING)
        return inventory, self.read_facts(preparable(inventory), ALL_FACTS)

    def read_facts(self, host_moids: Sequence[str], groups: frozenset[FactGroup]) -> EstateFacts:
        """Read what preparing these hosts needs, of them and their clusters; never their shells."""
        from vgpu_cfg.vsphere.host_facts.reader import read_facts

        return read_facts(self._session, host_moids, groups)

    def read_hosts(self, moids: Iterable[str]) -> tuple[Host, ...]:
        """Read some hosts again, in one round trip; those that have gone are left out.

        The common data of a kind of hosts stay as the last `read_inventory` had them, as do names and places,
        which only that reading knows. The next one asks for them anew: single hosts are read in order to
        change them, and a driver shows in no bulk property.
        """
        self._kinds = KnownKinds()
        items = self._items(passes.HOST_AGAIN, passes.HOST, moids)
        return tuple(self._again(make_host(self._last.places, item)) for item in items)

    def read_host(self, moid: str, groups: frozenset[FactGroup]) -> tuple[Host | None, EstateFacts]:
        """Read one host again with its facts, in one round trip and what its groups ask."""
        from vgpu_cfg.vsphere.host_facts.reader import read_with

        self._kinds = KnownKinds()
        facts, item = read_with(self._session, moid, groups, passes.HOST_LIGHT + passes.HOST_DETAIL)
        return None if item is None else self._again(make_host(self._last.places, item)), facts

    def _again(self, host: Host) -> Host:
        before = self._hosts.get(host.moid)
        if before is not None:
            host = host.model_copy(update={name: getattr(before, name) for name in _OF_THE_KIND})
        return infer_sharing(host, self._vms)

    def read_ties(self, cluster_moid: str) -> ClusterTies:
        """Read the rules and VM groups of a cluster again, in one round trip; none where it has gone."""
        items = self._items(passes.TIES, passes.CLUSTER, [cluster_moid])
        return reader_places.ties(items[0]) if items else ClusterTies()

    def read_portgroups(self, switch_moid: str) -> Mapping[str, str]:
        """Read the portgroups of a distributed switch, moids by name, in one round trip."""
        start = Start(passes.SWITCH, switch_moid, follow="portgroup")
        found = collect_from(self._session, passes.PORTGROUPS, [start])
        return {unescaped(item.get("name", item.moid)): item.moid for item in found}

    def read_past(self, scope: PastScope) -> Past:
        """Read vCenter's events of some VMs, hosts and clusters."""
        from vgpu_cfg.vsphere.history.events import read_past

        return read_past(self._session, scope)

    def read_maintenance(self, host_moids: Sequence[str]) -> Mapping[str, MaintenanceEntry]:
        """Return who took hosts into maintenance mode, and by which run, as far as vCenter's events show."""
        from vgpu_cfg.vsphere.history.events import read_maintenance

        return read_maintenance(self._session, host_moids, lambda: read_held(self._session))

    def read_depots(self, wanted: Mapping[str, Sequence[str]]) -> Mapping[str, Mapping[str, DepotLook]]:
        """Return depots' content by host: a round trip for each depot of a host, and one for each host."""
        from vgpu_cfg.vsphere.host_facts.questions import read_depots

        return read_depots(self._session, wanted)

    def read_gpu_use(self, hosts: Sequence[Host], days: float | None = None) -> UseReading:
        """Read how the GPUs of hosts are used now and, with `days`, were used."""
        from vgpu_cfg.vsphere.reading.gpu_use import read_gpu_use

        return read_gpu_use(self._session, hosts, days, self._counters)

    def read_licences(self) -> Mapping[str, tuple[SeenLicence, ...]] | None:
        """Return vCenter's licenses by host, None if unknown."""
        return read_licences(self._session)

    def read_alarms(self, host_moids: Sequence[str]) -> Mapping[str, tuple[HostAlarm, ...]]:
        """Return the triggered alarms of hosts."""
        return read_alarms(self._session, host_moids)

    def read_locks(self) -> Locks | None:
        """Read the locks of runs: three round trips."""
        return read_locks(self._session)

    def read_attached_tags(self, vm_moids: Sequence[str]) -> Mapping[str, frozenset[str]]:
        """Return the ids of the tags that VMs have, of whatever category."""
        return read_attached(self._session, vm_moids)

    def read_customization(self, vm_moid: str) -> CustomizationSeen:
        """Return how far the customisation of a VM's guest is."""
        from vgpu_cfg.vsphere.history.events import read_customization

        return read_customization(self._session, vm_moid)

    def read_missing_privileges(self, needed: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[str, ...]]:
        """Return, per entity moid, those of the needed privileges that the account lacks."""
        return read_missing_privileges(self._session, needed, self._type_of, self._roles.of)

    def read_defined_attributes(self) -> frozenset[tuple[str, str]]:
        """Return the custom attributes that hosts and VMs can have, by type and name; one round trip."""
        return read_defined_attributes(self._session)

    def _type_of(self, moid: str) -> str:
        item = self._last.places.find(moid)
        return type_by_moid(moid) if item is None else vmodl_name(item.type_name)

    def _items(self, wanted: Sequence[Paths], type_name: str, moids: Iterable[str]) -> list[Item]:
        starts = [Start(type_name, moid) for moid in dict.fromkeys(moids)]
        return collect_from(self._session, wanted, starts) if starts else []

    def _read_closely(
        self,
        wanted: Sequence[Paths],
        places: Places,
        scope: ReadScope,
        templates: frozenset[str],
        same: Mapping[str, VmDetail] | None,
    ) -> tuple[list[Host], dict[str, Item], dict[str, VmDetail | None]]:
        """Return the hosts, the properties read of them, and the details of VMs, in one round trip.

        In detail are read the VMs on hosts with GPUs, on hosts that the scope names, those of the plan, and
        `templates`.
        If a host turns out to have GPUs that no list named, its VMs take one round trip more. Details are
        made page by page: a server's answer about thousands of VMs is large, the kept part is not. Those that
        are the `same`, in a reading that is made again, are not read.
        """
        items = {item.moid: item for item in places.of_type("HostSystem")}
        searched = set(_searched(places, list(items.values()), scope))
        on = {moid for moid, item in items.items() if lists_nvidia(item)}
        on.update(items if scope.everything else reader_places.named_hosts(places, scope.hosts))
        # Through its host a VM is read without being named; in a reading that is made again few are read.
        through = on if same is None else set[str]()
        details: dict[str, VmDetail | None] = {**(same or {})}
        hosts = (moid for moid in items if moid in through or moid in searched)
        vms = (
            item.moid
            for item in places.of_type("VirtualMachine")
            if item.moid not in details
            and (host := item.moid_of("runtime.host")) not in through
            and (host in on or scope.everything or item.moid in templates or _is_named(places, item, scope))
        )
        starts = chain(
            (
                Start(passes.HOST, moid, follow="vm" if moid in through else None, is_read=moid in searched)
                for moid in hosts
            ),
            (Start(passes.VM, moid) for moid in vms),
        )

        def kept(item: Item) -> Item | tuple[str, VmDetail | None]:
            if item.type_name == "HostSystem":
                return item
            self._roles.keep([item])
            return item.moid, make_detail(item, scope.extra_config_keys, option_names=scope.option_names)

        for found in made_from(self._session, wanted, starts, kept):
            if isinstance(found, Item):
                known = items[found.moid]
                items[found.moid] = Item(known.type_name, known.moid, {**known.values, **found.values})
            else:
                details[found[0]] = found[1]
        made = [make_host(places, item) for item in items.values()]
        unlisted = [host.moid for host in made if host.gpus and host.moid not in on]
        more = (Start(passes.HOST, moid, follow="vm") for moid in unlisted)
        late = made_from(self._session, wanted, more, kept) if unlisted else []
        details.update(found for found in late if not isinstance(found, Item))
        return made, items, details

    def read_kinds(self) -> tuple[Host, ...]:
        """Return the hosts as last read, with the data by kind of host and by build.

        Earlier answers of this session are not asked again.
        """
        if self._inventory is None:
            return ()
        hosts = _with_kinds(self._session, self._kinds, self._last, self._hosts, self._vms)
        self._inventory = self._inventory.with_hosts(hosts).model_copy(update={"has_kinds": True})
        return self._inventory.hosts


def _complete(
    session: Session,
    hosts: Sequence[Host],
    computes: Mapping[str, Item],
    vms: Mapping[str, Vm],
    scope: ReadScope,
) -> dict[str, Host]:
    """Add the answers of single hosts, and the conclusions from the VMs; return the hosts by moid."""
    direct_path = read_direct_path(session, [host for host in hosts if host.gpus])
    system_ids: Mapping[str, str] = {}
    if scope.system_ids:
        through = [host for host in hosts if any(one.passthrough_active for one in host.pci_devices)]
        system_ids = read_system_ids(session, through, computes)
    complete = {}
    for host in hosts:
        update = {"direct_path": direct_path.get(host.moid), "system_id": system_ids.get(host.moid)}
        complete[host.moid] = infer_sharing(host.model_copy(update=update), vms)
    return complete


def _with_kinds(
    session: Session, known: KnownKinds, last: _Reading, hosts: Mapping[str, Host], vms: Mapping[str, Vm]
) -> dict[str, Host]:
    """Add the data of kinds of hosts and builds that the scope needs; `known` ones are not asked."""
    scope, with_gpus, computes = last.scope, last.with_gpus, _computes(last.places)
    if scope.for_planning:
        newest = read_max_hardware_versions(session, computes, with_gpus, known)
        with_gpus = [
            host.model_copy(update={"max_hardware_version": newest.get(host.moid)}) for host in with_gpus
        ]
    on: dict[str, list[Vm]] = {}
    for vm in () if scope.kinds_of is None else vms.values():
        if vm.is_on and vm.host_moid is not None:
            on.setdefault(vm.host_moid, []).append(vm)

    def spare(alike: Sequence[Host]) -> Spared:
        wanted = scope.kinds_of
        if wanted is None or any(wanted.intersection(prefixes_of(gpu.pci)) for gpu in alike[0].gpus):
            return Spared()
        return spared_of(alike, on)

    kinds = read_kinds(
        session, with_gpus, last.managers, computes, known, spare, with_limits=scope.several_vgpus
    )
    complete = dict(hosts)
    for host in with_gpus:
        facts = kinds[host.moid]
        update = {
            "max_hardware_version": host.max_hardware_version,
            "profiles": facts.profiles,
            "device_groups": facts.device_groups,
            "max_vgpus_by_hardware_version": facts.max_vgpus_by_hardware_version,
        }
        complete[host.moid] = infer_sharing(hosts[host.moid].model_copy(update=update), vms)
    return complete


def _with_origins(session: Session, vms: dict[str, Vm], scope: ReadScope) -> dict[str, Vm]:
    """Say who made those VMs that carry the plan's mark and that the plan does not name."""
    moids = [
        vm.moid
        for vm in vms.values()
        if vm.mark is not None
        and scope.plan is not None
        and vm.mark.is_named(scope.plan)
        and not scope.vm_names & {vm.name, vm.mark.vm}
        and not vm.is_template
    ]
    if not moids:
        return vms
    origins = read_origins(session, moids)
    return {
        moid: vm.model_copy(update={"origin": origins[moid]}) if moid in origins else vm
        for moid, vm in vms.items()
    }


def _with_policies(policies: PolicyReader, inventory: Inventory, scope: ReadScope) -> Inventory:
    """Add the storage policies, and which of them the plan's own VMs have."""
    found = policies.read(scope.storage_policies, inventory.datastores)
    inventory = _with_vcenter(inventory, storage_policies=found)
    own = [
        vm
        for vm in inventory.vms
        if not vm.is_template and scope.vm_names & {vm.name, vm.mark.vm if vm.mark is not None else ""}
    ]
    known = {vm.moid: vm for vm in policies.with_policies(own)}
    return inventory.model_copy(update={"vms": tuple(known.get(vm.moid, vm) for vm in inventory.vms)})


def _with_tags(session: Session, inventory: Inventory, scope: ReadScope) -> Inventory:
    """Read the categories that the scope names, and the tags of its VMs."""
    categories = read_categories(session, scope.tag_categories)
    named = [vm.moid for vm in inventory.vms if vm.detail is not None and _is_of_plan(vm, scope)]
    attached = read_attached(session, named)
    vms = dict(inventory.vm_by_moid)
    for moid, ids in attached.items():
        detail = vms[moid].detail
        if detail is not None:
            tagged = detail.model_copy(update={"tags": names_of(ids, categories)})
            vms[moid] = vms[moid].model_copy(update={"detail": tagged})
    return inventory.model_copy(update={"tag_categories": categories, "vms": tuple(vms.values())})


def _with_vcenter(inventory: Inventory, **update: object) -> Inventory:
    return inventory.model_copy(update={"vcenter": inventory.vcenter.model_copy(update=update)})


class RecordedReader:
    """An InventoryReader on a recording: it asks for the one fixed set of reads and answers all from it.

    The account's privileges are not recorded, so it lacks nothing here.
    """

    def __init__(self, session: Session, clock: Clock) -> None:
        self._reader = VCenterReader(session, clock)
        self._inventory: Inventory | None = None
        self._facts: EstateFacts | None = None
        self._keys: frozenset[str] = frozenset()
        self._has_names = False

    def read_inventory(self, scope: ReadScope) -> Inventory:
        """Read the recorded inventory; of the scope only the extraConfig keys and their names count."""
        is_held = scope.extra_config_keys <= self._keys and scope.option_names <= self._has_names
        if self._inventory is None or not is_held:
            self._keys |= scope.extra_config_keys
            self._has_names |= scope.option_names
            update = {"extra_config_keys": self._keys, "option_names": self._has_names}
            whole = EVERYTHING.model_copy(update=update)
            self._inventory = self._reader.read_inventory(whole)
        return self._inventory

    def read_kinds(self) -> tuple[Host, ...]:
        """Return the hosts as they were recorded."""
        return self.read_inventory(ReadScope()).hosts

    def read_part(self, scope: ReadScope, vm_moids: Iterable[str]) -> Inventory:  # noqa: ARG002 - nothing has changed
        """Return the recorded inventory."""
        return self.read_inventory(scope)

    def read_vms(
        self, moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
    ) -> tuple[Vm, ...]:
        """Return VMs as they were recorded."""
        inventory = self.read_inventory(ReadScope(extra_config_keys=extra_config_keys))
        wanted = dict.fromkeys(moids)
        return tuple(inventory.vm_by_moid[moid] for moid in wanted if moid in inventory.vm_by_moid)

    def read_vms_on(self, host_moid: str) -> tuple[Vm, ...]:
        """Return the VMs that were on a host when it was recorded."""
        return tuple(self.read_inventory(ReadScope()).vms_by_host.get(host_moid, ()))

    def read_gpu_holders(self, host_moids: Iterable[str]) -> Mapping[str, Mapping[str, tuple[str, ...]]]:
        """Return who held which GPU when it was recorded."""
        inventory = self.read_inventory(ReadScope())
        return {
            moid: {gpu.pci_id: gpu.vm_moids for gpu in inventory.host_by_moid[moid].gpus}
            for moid in dict.fromkeys(host_moids)
            if moid in inventory.host_by_moid
        }

    def read_vms_and_holders(
        self, moids: Iterable[str], host_moids: Iterable[str], extra_config_keys: frozenset[str] = frozenset()
    ) -> tuple[tuple[Vm, ...], Mapping[str, Mapping[str, tuple[str, ...]]]]:
        """Return VMs, and who held which GPU, as they were recorded."""
        return self.read_vms(moids, extra_config_keys), self.read_gpu_holders(host_moids)

    def read_facts(self, host_moids: Sequence[str], groups: frozenset[FactGroup]) -> EstateFacts:
        """Return the recorded data of the hosts; for one that was left out, that it was.

        Raises NotRecorded where the recording is older than facts are.
        """
        from vgpu_cfg.vsphere.host_facts.reader import ALL_FACTS

        inventory = self.read_inventory(ReadScope())
        if self._facts is None:
            self._facts = self._reader.read_facts(preparable(inventory), ALL_FACTS)
        return narrowed(self._facts, inventory, host_moids, groups)

    def read_hosts(self, moids: Iterable[str]) -> tuple[Host, ...]:
        """Return hosts as they were recorded."""
        known = self.read_inventory(ReadScope()).host_by_moid
        return tuple(known[moid] for moid in dict.fromkeys(moids) if moid in known)

    def read_host(self, moid: str, groups: frozenset[FactGroup]) -> tuple[Host | None, EstateFacts]:
        """Return a host and its facts as they were recorded."""
        return next(iter(self.read_hosts([moid])), None), self.read_facts([moid], groups)

    def read_portgroups(self, switch_moid: str) -> Mapping[str, str]:  # noqa: ARG002 - nobody makes any there
        """Return nothing: a recording lacks the lookups for a portgroup that a run has just made."""
        return {}

    def read_ties(self, cluster_moid: str) -> ClusterTies:
        """Return the rules and VM groups of a cluster as they were recorded."""
        cluster = self.read_inventory(ReadScope()).cluster_by_moid.get(cluster_moid)
        if cluster is None:
            return ClusterTies()
        return ClusterTies(rules=cluster.rules, host_rules=cluster.host_rules, vm_groups=cluster.vm_groups)

    def read_past(self, scope: PastScope) -> Past:  # noqa: ARG002 - a recording has no events
        """Return nothing: a recording holds no events."""
        from vgpu_cfg.vsphere.history.events import NOT_RECORDED

        return Past(unread=NOT_RECORDED)

    def read_maintenance(self, host_moids: Sequence[str]) -> Mapping[str, MaintenanceEntry]:  # noqa: ARG002 - a recording has no events
        """Return nothing: a recording holds no events."""
        return {}

    def read_depots(self, wanted: Mapping[str, Sequence[str]]) -> Mapping[str, Mapping[str, DepotLook]]:  # noqa: ARG002 - a recording has no depots
        """Return nothing: no host is there to ask."""
        return {}

    def read_gpu_use(self, hosts: Sequence[Host], days: float | None = None) -> UseReading:  # noqa: ARG002 - a recording has no counters
        """Return nothing: a recording holds no performance counters."""
        from vgpu_cfg.vsphere.reading.gpu_use import NOT_RECORDED

        return UseReading(unread=NOT_RECORDED)

    def read_licences(self) -> Mapping[str, tuple[SeenLicence, ...]] | None:
        """Return the licenses as they were recorded; None in a recording that holds none."""
        with suppress(VCenterError):
            return self._reader.read_licences()
        return None

    def read_alarms(self, host_moids: Sequence[str]) -> Mapping[str, tuple[HostAlarm, ...]]:  # noqa: ARG002 - a recording has no alarms
        """Return nothing: a recording holds no alarms."""
        return {}

    def read_locks(self) -> Locks | None:
        """Return nothing: a recording does not show the runs of its time."""
        return None

    def read_attached_tags(self, vm_moids: Sequence[str]) -> Mapping[str, frozenset[str]]:  # noqa: ARG002 - a recording has no tags
        """Return nothing: a recording holds no answer of the REST side."""
        return {}

    def read_customization(self, vm_moid: str) -> CustomizationSeen:  # noqa: ARG002 - a recording has no events
        """Return an unread history: a recording holds no events."""
        return CustomizationSeen()

    def read_missing_privileges(self, needed: Mapping[str, Sequence[str]]) -> Mapping[str, tuple[str, ...]]:  # noqa: ARG002 - a recording has no account
        """Return nothing: a recording says nothing of privileges."""
        return {}

    def read_defined_attributes(self) -> frozenset[tuple[str, str]]:
        """Return nothing: a recording has no definitions."""
        return frozenset()


def _searched(places: Places, items: Sequence[Item], scope: ReadScope) -> list[str]:
    """Return the hosts whose PCI functions are read."""
    listed = {item.moid for item in items if lists_nvidia(item)}
    others = [
        item
        for item in items
        if item.moid not in listed
        and (scope.datacenter is None or places.datacenter(item.moid) == scope.datacenter)
    ]
    if not scope.everything and len(others) > MOST_HOSTS_WITHOUT_LISTED_GPU:
        clusters = {item.moid_of("parent") for item in items if item.moid in listed}
        others = [item for item in others if item.moid_of("parent") in clusters]
    also = {item.moid for item in others}
    return [item.moid for item in items if item.moid in listed or item.moid in also]


def _is_named(places: Places, item: Item, scope: ReadScope) -> bool:
    """Whether the scope names a VM by its mark, its name or its path."""
    mark = owner_mark(item) if scope.plan is not None else None
    if mark is not None and scope.plan is not None and mark.is_named(scope.plan):
        return True
    names = scope.vm_names | scope.template_names
    if places.name(item) in names:
        return True
    path = places.path(item.moid)
    if any("/" in name and (path == name or path.endswith(f"/{name.lstrip('/')}")) for name in names):
        return True
    if scope.vm_globs and not matches_any(places.name(item), scope.vm_globs):
        return False
    return bool(scope.vm_globs) or _is_below(path, scope.folder_globs)


def _is_of_plan(vm: Vm, scope: ReadScope) -> bool:
    """Whether a VM is one of the scope's plan, by its mark or by its name."""
    is_marked = vm.mark is not None and scope.plan is not None and vm.mark.is_named(scope.plan)
    return not vm.is_template and (is_marked or vm.name in scope.vm_names)


def _is_below(path: str, folder_globs: Sequence[str]) -> bool:
    """Whether any folder on a VM's path is meant, wherever the datacenter's VM folder is among them."""
    if not folder_globs:
        return False
    folders = path.split("/")[:-1]
    places = range(len(folders) + 1)
    parts = ("/".join(folders[first:last]) for first in places for last in places[first + 1 :])
    return any(matches_any(part, folder_globs) for part in parts)


def _computes(places: Places) -> Mapping[str, Item]:
    return {item.moid: item for item in places.of_type("ComputeResource", "ClusterComputeResource")}
