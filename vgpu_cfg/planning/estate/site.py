"""The meaning of a plan file's names in one vCenter: templates, clusters, folders, networks, datastores.

A name is an inventory path (`/dc1/vm/training`), the end of one (`students/ml26`) or a bare name, which may
have a slash in it. One that fits nothing, or more than one thing, is a finding.

Of the items of content libraries only VM templates can be cloned: their content is read as of any template,
so that a plan knows it. The content of an OVF is known only when a vCenter deploys it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

from vgpu_cfg.changes.values import Subject
from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.model.desired import DesiredPlan, DesiredVm, TemplateSource
from vgpu_cfg.model.observed.inventory import (
    Cluster,
    Datastore,
    Folder,
    Host,
    Inventory,
    Network,
    NetworkKind,
)
from vgpu_cfg.model.observed.managed_object import ManagedObject, unescaped
from vgpu_cfg.model.observed.own_items import VM_TEMPLATE, LibraryItem
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings


@dataclass(frozen=True, slots=True)
class LibraryObjection:
    """Why no template comes of an item: a finding of this code."""

    code: Code
    message: str
    remedy: str


def template_of_library(
    source: TemplateSource, observed: Inventory
) -> tuple[Vm | None, LibraryObjection | None]:
    """Return the template that a source of a content library is, or why there is none."""
    wanted = (source.library or "", source.path_or_name)
    known = {(one.library, one.name): one for one in observed.library_items or ()}
    item = known.get(wanted)
    if item is None:
        message = f"cannot determine whether the library item {source} exists"
        remedy = "recordings do not include content libraries; run `plan` against the vCenter"
        return None, LibraryObjection(Code.LIBRARIES_NOT_READ, message, remedy)
    template = observed.vm_by_moid.get(item.template_moid or "")
    if template is not None and item.count == 1:
        return template, None
    return None, _objection(item)


def _objection(item: LibraryItem) -> LibraryObjection:
    if not item.has_library:
        remedy = did_you_mean(item.library, item.others, noun="libraries") or (
            "run `govc library.ls` to list them"
        )
        message = f"content library {item.library!r} not found"
        return LibraryObjection(Code.LIBRARY_ITEM_ABSENT, message, remedy)
    if not item.kind:
        remedy = did_you_mean(item.name, item.others, noun="items") or (
            "run `govc library.ls` to list the libraries"
        )
        message = f"item {item.name!r} not found in content library {item.library}"
        return LibraryObjection(Code.LIBRARY_ITEM_ABSENT, message, remedy)
    if item.count > 1:
        message = f"{item.count} items are named {item.name!r} in content libraries named {item.library!r}"
        return LibraryObjection(Code.LIBRARY_ITEM_ABSENT, message, "rename one of the libraries")
    if item.kind != VM_TEMPLATE:
        message = (
            f"item {item.library}/{item.name} is of type {item.kind}, so the hardware of its VMs is "
            "unknown until they are deployed"
        )
        remedy = (
            "deploy it once, clone that VM to the library as a VM template (or convert it to a template), "
            "and specify that template"
        )
        return LibraryObjection(Code.LIBRARY_ITEM_NO_TEMPLATE, message, remedy)
    message = f"the VM template of item {item.library}/{item.name} could not be read"
    remedy = (
        "grant the account read access to the template in the inventory, or use a template from the inventory"
    )
    return LibraryObjection(Code.LIBRARY_ITEM_NO_TEMPLATE, message, remedy)


T = TypeVar("T", bound=ManagedObject)


def find_named(name: str, objects: Sequence[T]) -> list[T]:
    """Return the objects that a name of the plan file means, whatever the case.

    A slash may be part of a name, too; in a path vCenter writes it as %2f, and either form is understood.
    An object's ID, such as dvportgroup-21, means that object if no name is alike.
    """
    wanted = name.strip().rstrip("/").casefold()
    plain = unescaped(wanted)
    named = [found for found in objects if found.name == name]
    named = named or [found for found in objects if found.name.casefold() == plain]
    if "/" not in wanted:
        return named or [found for found in objects if found.moid == name]
    paths = [found for found in objects if _is_path(wanted, found.inventory_path.casefold())]
    if paths or named:
        return [*paths, *(found for found in named if found not in paths)]
    return [found for found in objects if _is_path(plain, unescaped(found.inventory_path.casefold()))]


def _is_path(wanted: str, path: str) -> bool:
    """Whether a path is the wanted one, or ends with it where it does not begin with a slash."""
    return path == wanted if wanted.startswith("/") else path.endswith(f"/{wanted}")


class Site:
    """The objects of one datacenter, looked up by name once each."""

    def __init__(self, desired: DesiredPlan, observed: Inventory, findings: Findings) -> None:
        self._findings = findings
        self.observed = observed
        self._to_be_made = {network.name for network in desired.networks if network.switch}
        self.datacenter = datacenter_of(desired, observed)
        if self.datacenter is None:
            _refuse_datacenter(desired, observed, findings)
        self.clusters = self._own(desired, observed.clusters)
        self.folders = self._own(desired, observed.folders)
        self.pools = self._own(desired, observed.resource_pools)
        self.networks = self._own(desired, observed.networks)
        self.datastores = self._own(desired, observed.datastores)
        self.pods = list(dict.fromkeys(one.pod for one in self.datastores if one.pod is not None))
        self.vms = self._own(desired, observed.vms)
        self.templates = tuple(vm for vm in self.vms if vm.is_template)

    def _own(self, desired: DesiredPlan, objects: Sequence[T]) -> tuple[T, ...]:
        """Keep those of the datacenter; all if that is an error, so that it is the only one."""
        return tuple(objects) if self.datacenter is None else inside(desired, self.observed, objects)

    def folder_of(self, vm: DesiredVm) -> Folder | None:
        """Return the VM's folder; without a name that is the datacenter's VM folder."""
        if vm.folder is None:
            roots = [folder for folder in self.folders if folder.is_root]
            if len(roots) == 1:
                return roots[0]
            message = "the datacenter's VM folder could not be read"
            self._findings.refuse_vm(Code.FOLDER_NOT_FOUND, vm, message, "specify a folder")
            return None
        folders = [folder for folder in self.folders if not folder.is_root]
        top = self._below_root(vm.folder, folders)
        if len(top) == 1:
            return top[0]
        codes = (Code.FOLDER_NOT_FOUND, Code.FOLDER_AMBIGUOUS)
        return self._only(vm, vm.folder, folders, "VM folder", codes)

    def clusters_of(self, vm: DesiredVm) -> tuple[Cluster, ...]:
        """Return the clusters in the VM's order; without names, those with its pool, or all."""
        if not vm.clusters:
            owners = {pool.owner_moid for pool in find_named(vm.resource_pool or "", self.pools)}
            return tuple(one for one in self.clusters if one.moid in owners) or self.clusters
        codes = (Code.CLUSTER_NOT_FOUND, Code.CLUSTER_AMBIGUOUS)
        found = [self._only(vm, name, self.clusters, "cluster", codes) for name in vm.clusters]
        return tuple(dict.fromkeys(cluster for cluster in found if cluster is not None))

    def pool_of(self, vm: DesiredVm, cluster: Cluster) -> str | None:
        """Return the moid of the VM's resource pool in a cluster, its root pool without a name."""
        if vm.resource_pool is None:
            return cluster.resource_pool_moid
        pools = [pool for pool in self.pools if pool.owner_moid == cluster.moid]
        codes = (Code.POOL_NOT_FOUND, Code.POOL_AMBIGUOUS)
        pool = self._only(vm, vm.resource_pool, pools, f"resource pool in {cluster.name}", codes)
        return pool.moid if pool else None

    def datastore_of(self, vm: DesiredVm, own: Collection[str] = ()) -> Datastore | None:
        """Return the datastore that the VM names, None where it names none or it was not found.

        For a datastore cluster: the one of `own` (moids) that the VM already uses, or else the emptiest.
        """
        if vm.datastore is None:
            return None
        codes = (Code.DATASTORE_NOT_FOUND, Code.DATASTORE_AMBIGUOUS)
        if find_named(vm.datastore, self.pods) and not find_named(vm.datastore, self.datastores):
            pod = self._only(vm, vm.datastore, self.pods, "datastore cluster", codes)
            return None if pod is None else self._in_pod(vm, pod, own)
        found = self._only(vm, vm.datastore, self.datastores, "datastore", codes)
        if found is not None:
            self.check_datastore(vm, found, is_new_there=found.moid not in own)
        return found

    def check_datastore(self, vm: DesiredVm, store: Datastore, *, is_new_there: bool) -> None:
        """Refuse a datastore that no host reaches; one in maintenance mode accepts no further VMs."""
        if store.is_accessible and not (store.is_in_maintenance and is_new_there):
            return
        state = "in maintenance mode" if store.is_accessible else "not accessible"
        message = f"the datastore {store.name} is {state}"
        remedy = "check its state in vCenter, or specify another datastore"
        self._findings.refuse_vm(Code.DATASTORE_INACCESSIBLE, vm, message, remedy)

    def _in_pod(self, vm: DesiredVm, pod: ManagedObject, own: Collection[str]) -> Datastore | None:
        members = [one for one in self.datastores if one.pod == pod]
        kept = next((one for one in members if one.moid in own), None)
        if kept is not None:
            return kept
        near = {moid for host in self._hosts_of(vm) for moid in host.datastore_moids}
        usable = [one for one in members if one.is_accessible and not one.is_in_maintenance]
        if not usable:
            message = f"no datastore in the datastore cluster {pod.name} is accessible"
            remedy = "check their state in vCenter, or specify another datastore"
            self._findings.refuse_vm(Code.DATASTORE_INACCESSIBLE, vm, message, remedy)
            return None
        best = max(usable, key=lambda one: (one.moid in near, one.free_mib, one.name))
        message = (
            f"of the {len(members)} datastores in the datastore cluster {pod.name}, {best.name} is used "
            f"because it has the most free space ({best.free_mib // 1024} GiB)"
        )
        remedy = "to use another one, specify its name; Storage DRS may move the VM within the cluster later"
        self._findings.add_vm(Code.DATASTORE_CLUSTER, vm, message, remedy)
        return best

    def _hosts_of(self, vm: DesiredVm) -> list[Host]:
        clusters = {one.moid for cluster in vm.clusters for one in find_named(cluster, self.clusters)}
        return [host for host in self.observed.hosts if not clusters or host.owner_moid in clusters]

    def network_of(self, vm: DesiredVm, name: str) -> Network | None:
        """Return a network by name, None with a finding where a VM cannot use it."""
        codes = (Code.NETWORK_NOT_FOUND, Code.NETWORK_AMBIGUOUS)
        if name in self._to_be_made and not find_named(name, self.networks):
            message = f"this plan creates the network {name!r}, but a NIC can use only an existing network"
            remedy = (
                "run `apply` with --only 'host:*' to create networks and prepare hosts, then run it "
                "without --only"
            )
            self._findings.refuse_vm(Code.NETWORK_NOT_FOUND, vm, message, remedy)
            return None
        usable = [network for network in self.networks if not network.is_uplink]
        if not find_named(name, usable) and find_named(name, self.networks):
            message = f"{name} is the uplink port group of a distributed switch"
            self._findings.refuse_vm(Code.NETWORK_IS_UPLINK, vm, message, "specify a port group for VMs")
            return None
        found = self._only(vm, name, self._reached(vm, name, usable), "network", codes)
        if found is not None and found.kind is NetworkKind.OPAQUE:
            message = f"{found.name} is an opaque network, which is not supported"
            remedy = "specify a standard or distributed port group"
            self._findings.refuse_vm(Code.NETWORK_KIND, vm, message, remedy)
            return None
        return found

    def _reached(self, vm: DesiredVm, name: str, networks: Sequence[Network]) -> Sequence[Network]:
        """Of networks with the same name, keep those that a host of the VM's clusters reaches, if any."""
        if len(same := find_named(name, networks)) < 2:
            return networks
        moids = {moid for host in self._hosts_of(vm) for moid in host.network_moids}
        return [one for one in same if one.moid in moids] or same

    def template_of(self, vm: DesiredVm) -> Vm | None:
        """Return the VM's template, or the VM that it names in its place; None for one from scratch."""
        if not isinstance(vm.source, TemplateSource):
            return None
        if vm.source.library is not None:
            found, objection = template_of_library(vm.source, self.observed)
            if objection is not None:
                self._findings.refuse_vm(objection.code, vm, objection.message, objection.remedy)
            return found
        name = vm.source.path_or_name
        codes = (Code.TEMPLATE_NOT_FOUND, Code.TEMPLATE_AMBIGUOUS)
        if find_named(name, self.templates) or not (others := find_named(name, self.vms)):
            return self._only(vm, name, self.templates, "template", codes)
        found = self._only(vm, name, others, "template", codes)
        if found is not None:
            state = (
                "is powered on, so the clone boots as if after a power failure"
                if found.is_on
                else "may change"
            )
            message = f"{found.name} is a VM, not a template, and {state}"
            self._findings.add_vm(Code.NOT_A_TEMPLATE, vm, message, "convert it to a template")
        return found

    def _below_root(self, name: str, folders: Sequence[Folder]) -> list[Folder]:
        """Prefer the folder whose path below the datacenter's VM folder is the name."""
        roots = [folder.inventory_path for folder in self.folders if folder.is_root]
        paths = {f"{root}/{name}".casefold() for root in roots}
        return [folder for folder in folders if folder.inventory_path.casefold() in paths]

    def _only(
        self, vm: DesiredVm, name: str, objects: Sequence[T], noun: str, codes: tuple[Code, Code]
    ) -> T | None:
        found = find_named(name, objects)
        if len(found) == 1:
            return found[0]
        if not found:
            known = sorted({one.name for one in objects})
            named = (
                f"use an existing one: {listed(known, shown=12)}" if known else "create it in vCenter first"
            )
            remedy = did_you_mean(name, known, noun="names") or named
            if codes[0] is Code.FOLDER_NOT_FOUND and known and not remedy.startswith("did you mean"):
                remedy = f"create it in vCenter, or specify another one; {remedy}"
            self._findings.refuse_vm(codes[0], vm, f"{noun} {name!r} not found", remedy)
            return None
        self._findings.refuse_vm(
            codes[1], vm, f"{len(found)} objects are named {name!r} ({noun})", which_of(found)
        )
        return None


def references(objects: Sequence[ManagedObject]) -> list[str]:
    """Return how a plan file refers to each of several objects: its path, or its ID if paths are the same."""
    paths = Counter(one.inventory_path for one in objects)
    return [one.moid if not (path := one.inventory_path) or paths[path] > 1 else path for one in objects]


def which_of(objects: Sequence[ManagedObject]) -> str:
    """Return the remedy for a name that several objects have."""
    told = references(objects)
    what = "path" if all("/" in one for one in told) else "path or ID"
    switches = [one.switch_name if isinstance(one, Network) else "" for one in objects]
    on = [f"{name} (on {switch})" if switch else name for name, switch in zip(told, switches, strict=True)]
    return f"specify its {what}: {listed(on, shown=6)}"


def check_networks(desired: DesiredPlan, site: Site, findings: Findings) -> None:
    """See that every network of `networks` exists once, but for those that are made or are mere cabling."""
    for network in desired.networks:
        if network.switch is not None or network.is_physical:
            continue
        subject = Subject(kind="network", name=network.name)
        found = find_named(network.name, site.networks)
        if not found:
            remedy = did_you_mean(network.name, (one.name for one in site.networks), noun="networks")
            message = f"network {network.name!r} not found"
            findings.add(Code.NETWORK_NOT_FOUND, subject, message, remedy)
        elif len(found) > 1:
            message = f"{len(found)} networks are named {network.name!r}"
            findings.add(Code.NETWORK_AMBIGUOUS, subject, message, which_of(found))


def datacenter_of(desired: DesiredPlan, observed: Inventory) -> ManagedObject | None:
    """Return the datacenter that the plan names, or the only one; None if that is not exactly one."""
    known = observed.datacenters
    found = known if desired.datacenter is None else find_named(desired.datacenter, known)
    return found[0] if len(found) == 1 else None


def inside(desired: DesiredPlan, observed: Inventory, objects: Sequence[T]) -> tuple[T, ...]:
    """Keep the objects in the plan's datacenter: an object whose place is unread is outside.

    A plan that names no datacenter has all objects if vCenter shows none, or several: then an error is found.
    """
    datacenter = datacenter_of(desired, observed)
    if datacenter is None:
        return () if desired.datacenter is not None else tuple(objects)
    path = f"{datacenter.inventory_path or f'/{datacenter.name}'}/"
    return tuple(one for one in objects if one.inventory_path.startswith(path))


def with_own_networks(desired: DesiredPlan, observed: Inventory) -> Inventory:
    """Return the inventory with the networks and distributed switches of the plan's datacenter only.

    A switch is where its portgroups are: each has one for its uplinks at least.
    """
    networks = inside(desired, observed, observed.networks)
    if len(networks) == len(observed.networks):
        return observed
    others = {one.moid for one in observed.networks} - {one.moid for one in networks}
    own = {one.switch_uuid for one in networks}
    switches = (
        one for one in observed.facts.switches if one.uuid in own and others.isdisjoint(one.portgroup_vlans)
    )
    facts = observed.facts.model_copy(update={"switches": tuple(switches)})
    return observed.model_copy(update={"networks": networks, "facts": facts})


def _refuse_datacenter(desired: DesiredPlan, observed: Inventory, findings: Findings) -> None:
    subject = Subject(kind="plan", name=desired.name)
    known = observed.datacenters
    if desired.datacenter is None:
        if known:
            remedy = "set vcenter: {server: …, datacenter: …}; available: " + listed(
                (one.name for one in known), shown=8
            )
            message = f"the vCenter has {len(known)} datacenters, but the plan does not specify one"
            findings.add(Code.DATACENTER_NOT_NAMED, subject, message, remedy)
        return
    found = find_named(desired.datacenter, known)
    remedy = did_you_mean(desired.datacenter, (one.name for one in known), noun="datacenters")
    code = Code.DATACENTER_NOT_NAMED if found else Code.DATACENTER_NOT_FOUND
    message = f"{len(found) or 'no'} datacenters are named {desired.datacenter!r}"
    findings.add(code, subject, message, remedy)
