"""Changes at a site between two readings: hosts, GPUs, drivers, NICs, VMs on GPU hosts, networks.

Values are compared and not answers: the order of a list, free space or a VM's CPU use is no change. Values
missing in one of the readings are no change either.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from vgpu_cfg.changes.values import Edit
from vgpu_cfg.model.observed.inventory import Cluster, Datastore, Gpu, Host, HostNic, Inventory, Network
from vgpu_cfg.model.observed.managed_object import ManagedObject
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.wording import as_counted
from vgpu_cfg.planning.host_settings.gpus.driver import driver_facts

_Thing = TypeVar("_Thing")
_Object = TypeVar("_Object", bound=ManagedObject)

_Key = Callable[[ManagedObject], object]

Values = Mapping[str, object]
"""The compared values of an object, by words for people; None is "unknown"."""


class Fate(StrEnum):
    """The fate of an object since the first reading."""

    CAME = "came"
    WENT = "went"
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class SiteChange:
    """A thing that came, went or changed.

    `kind` is "vCenter", "cluster", "host", "GPU", "NIC", "VM", "network" or "datastore"; `edits` are the
    values that differ, none for what came or went.
    """

    kind: str
    name: str
    fate: Fate
    edits: tuple[Edit, ...] = ()


def compare_sites(before: Inventory, after: Inventory) -> tuple[SiteChange, ...]:
    """List what changed, the largest things first, each kind by name."""
    is_one = before.vcenter.instance_uuid == after.vcenter.instance_uuid
    keys = _OF_ONE_VCENTER if is_one else _OF_ANOTHER
    hosts = _Pairs.of_objects(before.hosts, after.hosts, keys)
    clusters = _Pairs.of_objects(_clusters(before), _clusters(after), keys)
    changes = [
        *_changed("vCenter", after.vcenter.address, _vcenter(before), _vcenter(after)),
        *clusters.changes("cluster", _cluster, _cluster),
        *hosts.changes("host", lambda host: _host(host, before), lambda host: _host(host, after)),
    ]
    for was, now in hosts.both:
        gpus = _Pairs.by_key({gpu.pci_id: gpu for gpu in was.gpus}, {gpu.pci_id: gpu for gpu in now.gpus})
        changes += gpus.changes("GPU", _gpu, _gpu, f"{now.name} ")
        nics = _Pairs.by_key({nic.device: nic for nic in was.nics}, {nic.device: nic for nic in now.nics})
        changes += nics.changes("NIC", _nic, _nic, f"{now.name} ")
    vms = _Pairs.by_key(_vms_by_id(before), _vms_by_id(after)).only(
        lambda was, now: _is_of_gpus(was, before) or _is_of_gpus(now, after)
    )
    changes += vms.changes("VM", lambda vm: _vm(vm, before), lambda vm: _vm(vm, after))
    networks = _Pairs.of_objects(before.networks, after.networks, keys)
    changes += networks.changes("network", _network, _network)
    datastores = _Pairs.of_objects(before.datastores, after.datastores, keys)
    changes += datastores.changes("datastore", _datastore, _datastore)
    return tuple(changes)


@dataclass(frozen=True, slots=True)
class _Pairs(Generic[_Thing]):
    """The objects of two readings, matched, each with the name it is known by."""

    went: tuple[tuple[str, _Thing], ...]
    came: tuple[tuple[str, _Thing], ...]
    named: tuple[tuple[str, _Thing, _Thing], ...]

    @classmethod
    def by_key(cls, before: Mapping[str, _Thing], after: Mapping[str, _Thing]) -> _Pairs[_Thing]:
        """Pair the objects with the same key."""
        return cls(
            went=tuple((_name(key, thing), thing) for key, thing in before.items() if key not in after),
            came=tuple((_name(key, thing), thing) for key, thing in after.items() if key not in before),
            named=tuple(
                (_name(key, thing), before[key], thing) for key, thing in after.items() if key in before
            ),
        )

    @classmethod
    def of_objects(
        cls, before: Iterable[_Object], after: Iterable[_Object], keys: Sequence[_Key]
    ) -> _Pairs[_Object]:
        """Pair the objects with the same first key, the rest by the second, and so on."""
        left, found = list(before), list(after)
        named: list[tuple[str, _Object, _Object]] = []
        for key in keys:
            known = {key(one): one for one in left}
            pairs = [(known.pop(key(now)), now) for now in found if key(now) in known]
            named += [(now.name, was, now) for was, now in pairs]
            gone = {id(one) for pair in pairs for one in pair}
            left = [one for one in left if id(one) not in gone]
            found = [one for one in found if id(one) not in gone]
        went = tuple((one.name, one) for one in left)
        return _Pairs(went, tuple((one.name, one) for one in found), tuple(named))

    @property
    def both(self) -> list[tuple[_Thing, _Thing]]:
        """The objects in both readings, by name."""
        return [(was, now) for _, was, now in sorted(self.named, key=lambda row: as_counted(row[0]))]

    def only(self, matters: Callable[[_Thing, _Thing], bool]) -> _Pairs[_Thing]:
        """Return those that matter in one of the readings."""
        return _Pairs(
            tuple(row for row in self.went if matters(row[1], row[1])),
            tuple(row for row in self.came if matters(row[1], row[1])),
            tuple(row for row in self.named if matters(row[1], row[2])),
        )

    def changes(
        self,
        kind: str,
        values_before: Callable[[_Thing], Values],
        values_after: Callable[[_Thing], Values],
        prefix: str = "",
    ) -> list[SiteChange]:
        """List what came, went and changed, by name."""
        found = [SiteChange(kind, prefix + name, Fate.WENT) for name, _ in self.went]
        found += [SiteChange(kind, prefix + name, Fate.CAME) for name, _ in self.came]
        for name, was, now in self.named:
            found += _changed(kind, prefix + name, values_before(was), values_after(now))
        return sorted(found, key=lambda change: as_counted(change.name))


def _name(key: str, thing: object) -> str:
    return thing.name if isinstance(thing, ManagedObject) else key


def _place(thing: ManagedObject) -> str:
    return thing.inventory_path or thing.name


_OF_ONE_VCENTER: tuple[_Key, ...] = (
    lambda thing: (thing.moid, _place(thing)),
    lambda thing: thing.moid,
    _place,
    lambda thing: thing.name,
)
"""By what an object is known again: one that was removed and added anew has another id."""

_OF_ANOTHER: tuple[_Key, ...] = (_place, lambda thing: thing.name)


def _changed(kind: str, name: str, before: Values, after: Values) -> list[SiteChange]:
    edits = tuple(
        Edit(key=key, before=_text(before[key]), after=_text(value))
        for key, value in after.items()
        if None not in (value, before[key]) and value != before[key]
    )
    return [SiteChange(kind, name, Fate.CHANGED, edits)] if edits else []


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return ("none" if value == "" else str(value)) if not isinstance(value, tuple) else _listed(value)


def _listed(values: tuple[object, ...]) -> str:
    return ", ".join(map(str, values)) or "none"


def _clusters(site: Inventory) -> list[Cluster]:
    return [cluster for cluster in site.clusters if not cluster.is_standalone]


def _vms_by_id(site: Inventory) -> dict[str, Vm]:
    return {vm.instance_uuid or vm.moid: vm for vm in site.vms}


def _is_of_gpus(vm: Vm, site: Inventory) -> bool:
    """Whether a VM is on a host with GPUs, or may be cloned to one."""
    host = site.host_by_moid.get(vm.host_moid or "")
    return vm.is_template or (host is not None and bool(host.gpus))


def _vcenter(site: Inventory) -> Values:
    server = site.vcenter
    return {"id": server.instance_uuid or None, "version": server.version, "build": server.build}


def _cluster(cluster: Cluster) -> Values:
    return {"name": cluster.name, "DRS": cluster.drs_enabled, "HA": cluster.ha_enabled}


def _host(host: Host, site: Inventory) -> Values:
    cluster = site.cluster_by_moid.get(host.cluster_moid or "")
    facts = site.facts.hosts.get(host.moid)
    driver = driver_facts(facts.software).version if facts is not None and facts.software else None
    return {
        "name": host.name,
        "cluster": cluster.name if cluster is not None else "",
        "ESXi": host.version,
        "build": host.build,
        "model": host.model,
        "connection": host.connection.value,
        "maintenance mode": host.is_in_maintenance_mode,
        "cores": host.cores,
        "memory MiB": host.memory_mib,
        "NUMA nodes": len(host.numa_nodes),
        "NVIDIA driver": driver,
        "graphics type": _word(host.graphics_type),
        "assignment policy": _word(host.assignment_policy),
        "profiles": len(host.profiles) if host.profiles is not None else None,
    }


def _gpu(gpu: Gpu) -> Values:
    return {
        "name": gpu.name,
        "graphics type": _word(gpu.graphics_type),
        "vGPU mode": _word(gpu.vgpu_mode),
        "sharing": _word(gpu.sharing),
        "passthrough": gpu.is_passthrough,
        "NUMA node": gpu.numa_node,
    }


def _nic(nic: HostNic) -> Values:
    return {"driver": nic.driver, "speed Mbit/s": nic.speed_mbps, "address": nic.pci_id}


def _vm(vm: Vm, site: Inventory) -> Values:
    host = site.host_by_moid.get(vm.host_moid or "")
    detail = vm.detail
    values: dict[str, object] = {
        "name": vm.name,
        "host": host.name if host is not None else "",
        "power": vm.power_state.value,
        "plan": vm.mark.plan if vm.mark is not None else "",
    }
    return values | {
        "cpus": detail.cpus if detail is not None else None,
        "memory MiB": detail.memory_mib if detail is not None else None,
        "vGPUs": tuple(sorted(vgpu.profile for vgpu in detail.vgpus)) if detail is not None else None,
        "whole GPUs": len(detail.passthrough_gpus) if detail is not None else None,
    }


def _network(network: Network) -> Values:
    return {"name": network.name, "kind": network.kind.value}


def _datastore(datastore: Datastore) -> Values:
    return {"name": datastore.name, "kind": datastore.kind, "accessible": datastore.is_accessible}


def _word(value: StrEnum | None) -> str | None:
    return value.value.replace("_", " ") if value is not None else None
