"""A plan file's names for a VM's surroundings: the bare name if it is unique, else the path."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from vgpu_cfg.documents import did_you_mean
from vgpu_cfg.errors import Ambiguous, NotFound
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Cluster, Folder, Inventory, NetworkKind
from vgpu_cfg.model.observed.managed_object import ManagedObject
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.estate.site import Site, find_named
from vgpu_cfg.planning.findings.collection import Findings


class Names:
    """The names of one datacenter's things, each looked up as a plan file's name would be."""

    def __init__(self, observed: Inventory, datacenter: str | None) -> None:
        self.observed = observed
        stand_in = DesiredPlan(name="export", vcenter=observed.vcenter.address, datacenter=datacenter)
        self.site = Site(stand_in, observed, Findings())
        usable = [one for one in self.site.networks if not one.is_uplink]
        self.networks: Mapping[str, str] = {
            one.portgroup_key or one.moid: name
            for one in usable
            if one.kind is not NetworkKind.OPAQUE and (name := _shortest(one, usable))
        }
        macs = Counter(
            nic.mac.casefold() for vm in observed.vms if vm.detail is not None for nic in vm.detail.nics
        )
        self.shared_macs = frozenset(mac for mac, count in macs.items() if count > 1)
        self._folders = {folder.moid: folder for folder in self.site.folders}
        self._roots = [folder.inventory_path for folder in self.site.folders if folder.is_root]

    def template(self, name: str) -> Vm:
        """Return the template of a name. Raises NotFound or Ambiguous, with the one that was meant."""
        templates = self.site.templates
        found = find_named(name, templates)
        if len(found) == 1:
            return found[0]
        if found:
            paths = " or ".join(one.inventory_path for one in found)
            raise Ambiguous(f"{len(found)} templates are named {name}", remedy=f"specify its path: {paths}")
        remedy = did_you_mean(name, (one.name for one in templates), noun="templates")
        raise NotFound(f"template {name!r} not found", remedy=remedy)

    def folder_of(self, vm: Vm) -> str | None:
        """Return the path of a VM's folder below the datacenter's VM folder; "" for that itself.

        None where it is in no folder of the datacenter.
        """
        folder = self._folders.get(vm.folder_moid or "")
        return None if folder is None else self.path_of(folder)

    def path_of(self, folder: Folder) -> str:
        """Return the path of a folder below the datacenter's VM folder."""
        for root in self._roots:
            if folder.inventory_path.startswith(f"{root}/"):
                return folder.inventory_path[len(root) + 1 :]
        return "" if folder.is_root else folder.inventory_path or folder.name

    def cluster_name(self, cluster: Cluster) -> str | None:
        """Return how a cluster is named."""
        return _shortest(cluster, self.site.clusters)

    def datastore_of(self, vm: Vm) -> str | None:
        """Return the first datastore of a VM, None where none was read."""
        known = {one.moid: one for one in self.site.datastores}
        moids = vm.detail.datastore_moids if vm.detail is not None else ()
        found = next((known[moid] for moid in moids if moid in known), None)
        return None if found is None else _shortest(found, self.site.datastores)

    def pool_of(self, vm: Vm, cluster: Cluster) -> str | None:
        """Return the resource pool of a VM, None for the root pool and for one that was not read."""
        moid = vm.detail.resource_pool_moid if vm.detail is not None else ""
        pools = [pool for pool in self.site.pools if pool.owner_moid == cluster.moid]
        found = next((pool for pool in pools if pool.moid == moid), None)
        is_root = moid in ("", cluster.resource_pool_moid)
        return None if found is None or is_root else _shortest(found, pools)


def _shortest(wanted: ManagedObject, objects: Sequence[ManagedObject]) -> str | None:
    """Return the shortest text that means this and nothing else; None where a plan file has none.

    Braces would be ranges there.
    """
    for name in (wanted.name, wanted.inventory_path):
        if name and "{" not in name and find_named(name, objects) == [wanted]:
            return name
    return None
