"""Containment in the inventory, by its tree."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.lab.state.inventory import Cluster, Datacenter, Folder, Host, LabState, Managed, ResourcePool


def below(state: LabState, container: Managed, *, recursive: bool) -> Iterator[Managed]:
    """Yield what lies in a container, depth first, each object once."""
    seen: set[str] = {container.moid}
    stack = list(reversed(children_of(container)))
    while stack:
        moid = stack.pop()
        thing = state.objects.get(moid)
        if thing is None or moid in seen:
            continue
        seen.add(moid)
        yield thing
        if recursive:
            stack.extend(reversed(children_of(thing)))


def children_of(thing: Managed) -> list[str]:
    """Return the moids of what an object contains, as the inventory tree has it."""
    match thing:
        case Folder():
            return list(thing.children)
        case Datacenter():
            return [thing.vm_folder, thing.host_folder, thing.datastore_folder, thing.network_folder]
        case Cluster():
            return [*thing.hosts, thing.resource_pool]
        case ResourcePool():
            return [*thing.pools, *thing.vms]
        case Host():
            return list(thing.vms)
        case _:
            return []
