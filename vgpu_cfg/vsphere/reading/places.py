"""Places in the inventory: names, paths, datacenters, clusters with their rules, and destinations of VMs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any

from pyVmomi import vim

from vgpu_cfg.model.observed.drs import ClusterRule, ClusterTies, HostGroup, VmGroup, VmHostRule, VmOverrides
from vgpu_cfg.model.observed.inventory import (
    Cluster,
    Datastore,
    Folder,
    Network,
    NetworkKind,
    ResourcePool,
)
from vgpu_cfg.model.observed.managed_object import ManagedObject, unescaped
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.planning.vms.settings.cluster_rows import DRS_LIST, HA_LIST
from vgpu_cfg.planning.vms.settings.table import overrides
from vgpu_cfg.ports import HostScope
from vgpu_cfg.vsphere.wire.collector import Item
from vgpu_cfg.vsphere.wire.leaves import leaves_of

_CLUSTER_TYPES = ("ComputeResource", "ClusterComputeResource")


class Places:
    """The tree of one reading: every object by its id, with its parent."""

    def __init__(self, items: Iterable[Item]) -> None:
        self._items: dict[str, Item] = {item.moid: item for item in items}
        self._paths: dict[str, str] = {}
        self._vm_roots = {
            root: item.moid
            for item in self._items.values()
            if item.type_name == "Datacenter" and (root := item.moid_of("vmFolder")) is not None
        }

    def of_type(self, *type_names: str) -> list[Item]:
        """List the objects of these WSDL types, in vCenter's order."""
        return [item for item in self._items.values() if item.type_name in type_names]

    def find(self, moid: str | None) -> Item | None:
        """Return an object, None where it was not read."""
        return self._items.get(moid or "")

    def name(self, item: Item) -> str:
        """Return an object's name, or its id if the name could not be read."""
        return unescaped(item.get("name", item.moid))

    def path(self, moid: str | None) -> str:
        """Return an inventory path such as "/dc1/vm/training/hvd-01"; "" if it was not read.

        A slash inside a name stays written as %2f.
        """
        if moid is None or moid not in self._items:
            return ""
        if moid not in self._paths:
            item = self._items[moid]
            self._paths[moid] = self.path_under(item.moid_of("parent"), item.get("name", moid))
        return self._paths[moid]

    def path_under(self, parent_moid: str | None, name: str) -> str:
        """Return the path of something by its parent and its name as vCenter stores it."""
        return f"{self.path(parent_moid)}/{name}"

    def datacenter(self, moid: str | None) -> str:
        """Return the name of the datacenter above an object, "" where there is none."""
        item = self.find(moid)
        while item is not None and item.type_name != "Datacenter":
            item = self.find(item.moid_of("parent"))
        return "" if item is None else self.name(item)

    def is_below_vm_folder(self, moid: str) -> bool:
        """Whether an object is a datacenter's VM folder or below it."""
        item = self.find(moid)
        while item is not None:
            if item.moid in self._vm_roots:
                return True
            item = self.find(item.moid_of("parent"))
        return False

    def is_vm_root(self, moid: str) -> bool:
        """Whether a folder is the VM folder of a datacenter."""
        return moid in self._vm_roots

    def common(self, item: Item) -> dict[str, Any]:
        """Return what every `ManagedObject` has."""
        return {"moid": item.moid, "name": self.name(item), "inventory_path": self.path(item.moid)}


def datacenters(places: Places) -> tuple[ManagedObject, ...]:
    """List the datacenters."""
    return tuple(ManagedObject(**places.common(item)) for item in places.of_type("Datacenter"))


def named_hosts(places: Places, scopes: Iterable[HostScope]) -> set[str]:
    """Return the moids of the hosts that some scopes mean, whatever the case; none where there are none."""
    wanted = list(scopes)
    hosts = places.of_type("HostSystem")
    return {host.moid for host in hosts if any(_is_in(places, host, one) for one in wanted)}


def _is_in(places: Places, host: Item, scope: HostScope) -> bool:
    name = places.name(host).casefold()
    if scope.names and not any(fnmatchcase(name, glob.casefold()) for glob in scope.names):
        return False
    if scope.cluster is None:
        return True
    cluster = places.find(host.moid_of("parent"))
    if cluster is None:
        return False
    wanted = scope.cluster.strip().rstrip("/").casefold()
    path = places.path(cluster.moid).casefold()
    # A slash asks for a path, or for the end of one; a name that holds a slash has it escaped in both.
    own = places.name(cluster).casefold()
    return f"{path}/".endswith(f"/{wanted.lstrip('/')}/") or own == wanted or fnmatchcase(own, wanted)


def folders(places: Places) -> tuple[Folder, ...]:
    """List the folders that hold VMs."""
    return tuple(
        Folder(
            **places.common(item),
            datacenter=places.datacenter(item.moid),
            is_root=places.is_vm_root(item.moid),
        )
        for item in places.of_type("Folder")
        if places.is_below_vm_folder(item.moid)
    )


def resource_pools(places: Places) -> tuple[ResourcePool, ...]:
    """List the resource pools; a vApp is none."""
    return tuple(
        ResourcePool(
            **places.common(item), owner_moid=item.moid_of("owner") or "", unreserved_mib=_unreserved(item)
        )
        for item in places.of_type("ResourcePool")
    )


def _unreserved(pool: Item) -> int | None:
    """Return the memory that VMs in a resource pool can still reserve, within its limit and its parents'.

    vSphere API, ResourcePoolResourceUsage: `maxUsage` is bound by these limits.
    """
    free, most, used = (
        pool.get(f"runtime.memory.{name}", -1) for name in ("unreservedForVm", "maxUsage", "reservationUsed")
    )
    return None if -1 in (free, most, used) else max(0, min(free, most - used)) >> 20


def datastores(places: Places) -> tuple[Datastore, ...]:
    """List the datastores."""
    return tuple(
        Datastore(
            **places.common(item),
            kind=item.get("summary.type", ""),
            pod=_pod(places, item),
            free_mib=item.get("summary.freeSpace", 0) >> 20,
            capacity_mib=item.get("summary.capacity", 0) >> 20,
            is_accessible=item.get("summary.accessible", False),
            is_in_maintenance=item.get("summary.maintenanceMode", "normal") != "normal",
        )
        for item in places.of_type("Datastore")
    )


def _pod(places: Places, item: Item) -> ManagedObject | None:
    """Return the datastore cluster of a datastore: a folder of the type StoragePod."""
    parent = places.find(item.moid_of("parent"))
    is_pod = parent is not None and parent.type_name == "StoragePod"
    return ManagedObject(**places.common(parent)) if parent is not None and is_pod else None


def networks(places: Places) -> tuple[Network, ...]:
    """List the portgroups; distributed ones with the data for a vNIC's backing."""
    switches = {
        item.moid: item
        for item in places.of_type("DistributedVirtualSwitch", "VmwareDistributedVirtualSwitch")
    }
    uplinks = {moid for switch in switches.values() for moid in switch.moids_of("config.uplinkPortgroup")}
    found = []
    for item in places.of_type("Network", "DistributedVirtualPortgroup", "OpaqueNetwork"):
        switch = switches.get(item.moid_of("config.distributedVirtualSwitch") or "")
        found.append(
            Network(
                **places.common(item),
                kind=_NETWORK_KINDS[item.type_name],
                portgroup_key=item.get("key"),
                switch_uuid=None if switch is None else switch.get("uuid"),
                switch_name="" if switch is None else places.name(switch),
                is_uplink=item.moid in uplinks or item.get("config.uplink", False),
            )
        )
    return tuple(found)


_NETWORK_KINDS: Mapping[str, NetworkKind] = {
    "Network": NetworkKind.STANDARD,
    "DistributedVirtualPortgroup": NetworkKind.DISTRIBUTED,
    "OpaqueNetwork": NetworkKind.OPAQUE,
}


def clusters(places: Places) -> tuple[Cluster, ...]:
    """List the clusters, and the single hosts outside of one."""
    return tuple(_cluster(places, item) for item in places.of_type(*_CLUSTER_TYPES))


def _cluster(places: Places, item: Item) -> Cluster:
    config = item.get("configurationEx")
    drs = getattr(config, "drsConfig", None)
    ha = getattr(config, "dasConfig", None)
    return Cluster(
        **places.common(item),
        datacenter=places.datacenter(item.moid),
        resource_pool_moid=item.moid_of("resourcePool") or "",
        host_moids=item.moids_of("host"),
        is_standalone=item.type_name == "ComputeResource",
        drs_enabled=bool(getattr(drs, "enabled", False)),
        drs_behavior=str(getattr(drs, "defaultVmBehavior", None) or ""),
        uses_vm_levels=getattr(drs, "enableVmBehaviorOverrides", None) is not False,
        ha_enabled=bool(getattr(ha, "enabled", False)),
        failover_percent=_failover_percent(ha),
        rules=tuple(_rules(getattr(config, "rule", None) or ())),
        vm_groups=tuple(_vm_groups(getattr(config, "group", None) or ())),
        host_groups=tuple(_host_groups(getattr(config, "group", None) or ())),
        host_rules=tuple(_host_rules(getattr(config, "rule", None) or ())),
        vm_overrides=vm_overrides(config),
    )


def _failover_percent(ha: Any) -> int:
    """Return the percentage of memory that vSphere HA's admission control keeps, 0 for none."""
    is_on = bool(getattr(ha, "enabled", False) and getattr(ha, "admissionControlEnabled", False))
    kept = getattr(getattr(ha, "admissionControlPolicy", None), "memoryFailoverResourcesPercent", 0)
    return int(kept or 0) if is_on else 0


def ties(item: Item) -> ClusterTies:
    """Return the rules and VM groups of a cluster."""
    config = item.get("configurationEx")
    rules, groups = (getattr(config, name, None) or () for name in ("rule", "group"))
    return ClusterTies(
        rules=tuple(_rules(rules)), host_rules=tuple(_host_rules(rules)), vm_groups=tuple(_vm_groups(groups))
    )


def _rules(found: Iterable[Any]) -> Iterable[ClusterRule]:
    for rule in found:
        match rule:
            case vim.cluster.AffinityRuleSpec():
                kind = "affinity"
            case vim.cluster.AntiAffinityRuleSpec():
                kind = "anti_affinity"
            case _:
                continue
        yield ClusterRule(
            key=rule.key,
            name=rule.name,
            kind=kind,
            is_enabled=bool(rule.enabled),
            is_mandatory=bool(rule.mandatory),
            vm_moids=tuple(str(vm._moId) for vm in rule.vm),
        )


def _host_rules(found: Iterable[Any]) -> Iterable[VmHostRule]:
    for rule in found:
        if isinstance(rule, vim.cluster.VmHostRuleInfo):
            yield VmHostRule(
                key=rule.key or 0,
                name=rule.name or "",
                is_enabled=bool(rule.enabled),
                is_mandatory=bool(rule.mandatory),
                vm_group=rule.vmGroupName or "",
                host_group=rule.affineHostGroupName or "",
                avoided_group=rule.antiAffineHostGroupName or "",
            )


def _vm_groups(found: Iterable[Any]) -> Iterable[VmGroup]:
    for group in found:
        if isinstance(group, vim.cluster.VmGroup):
            yield VmGroup(name=group.name, vm_moids=tuple(str(vm._moId) for vm in group.vm))


def _host_groups(found: Iterable[Any]) -> Iterable[HostGroup]:
    for group in found:
        if isinstance(group, vim.cluster.HostGroup):
            yield HostGroup(name=group.name, host_moids=tuple(str(host._moId) for host in group.host))


def vm_overrides(configuration: Any) -> tuple[VmOverrides, ...]:
    """Return a cluster's settings for single VMs, as far as the VMs' table has them.

    Source: vSphere API reference, ClusterConfigInfoEx.drsVmConfig and dasVmConfig.
    """
    leaves: dict[str, dict[str, SettingValue]] = {}
    for name in (DRS_LIST, HA_LIST):
        for moid, entry in override_entries(configuration, name):
            found = leaves.setdefault(moid, {})
            found |= {f"{name}.{path}": value for path, value in leaves_of(entry)}
            # Only where it says so is DRS off for the VM (vSphere API reference, ClusterDrsVmConfigInfo).
            if name == DRS_LIST:
                found.setdefault(f"{name}.enabled", True)
    said = {moid: tuple(overrides(found)) for moid, found in leaves.items()}
    return tuple(VmOverrides(vm_moid=moid, settings=settings) for moid, settings in said.items() if settings)


def override_entries(configuration: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Yield the entries of one of a cluster's lists, each with the moid of its VM."""
    for entry in getattr(configuration, name, None) or ():
        yield str(entry.key._moId), entry
