"""Whether a VM that exists is elsewhere than the plan file says: its cluster, its host, its datastore."""

from __future__ import annotations

from vgpu_cfg.model.observed.inventory import Datastore, Inventory
from vgpu_cfg.planning.estate.site import Site
from vgpu_cfg.planning.placement.candidates import forbidden_by
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm


def is_elsewhere(resolved: ResolvedVm, observed: Inventory, site: Site) -> bool:
    """Whether the plan file states a place that the VM is not at."""
    if other_datastore(resolved, site) is not None or is_outside_clusters(resolved):
        return True
    host = resolved.host
    if host is None or "place" in resolved.desired.ignore:
        return False
    cluster = observed.cluster_of(host)
    return bool(forbidden_by(resolved.desired.place, host, cluster))


def is_outside_clusters(resolved: ResolvedVm) -> bool:
    """Whether a VM runs in none of the clusters that the plan file names for it."""
    host = resolved.host
    if host is None or not resolved.desired.clusters or not resolved.clusters:
        return False
    return host.owner_moid not in {cluster.moid for cluster in resolved.clusters}


def other_datastore(resolved: ResolvedVm, site: Site) -> Datastore | None:
    """Return the datastore that the plan file states where the VM lies on another, None where it does not."""
    vm, own = resolved.desired, resolved.own_datastores
    if not vm.is_managed("datastore") or not own:
        return None
    found = site.datastore_of(vm, own)
    return None if found is None or found.moid in own else found
