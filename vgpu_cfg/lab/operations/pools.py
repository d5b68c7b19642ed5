"""Resource pools made, named, destroyed, and given shares, which nothing in the lab judges, and limits."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.refusals import refuse
from vgpu_cfg.lab.simulation.operations import operation
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import merged
from vgpu_cfg.lab.state.inventory import Cluster, LabState, ResourcePool, VirtualMachine


@operation("ResourcePool", "CreateResourcePool")
def create_pool(lab: Simulation, pool: ResourcePool, *, name: str, spec: Any) -> ResourcePool:
    """Make a resource pool below another. Raises DuplicateName, NotSupported without DRS."""
    cluster = lab.state.get(pool.owner, Cluster)
    if not cluster.drs_enabled and not cluster.is_standalone:
        raise refuse("pool-without-drs")
    _check_name(lab.state, pool, name)
    made = ResourcePool(moid=lab.state.new_moid("resgroup"), name=name, parent=pool.moid, owner=pool.owner)
    _apply(made, spec)
    pool.pools.append(made.moid)
    lab.state.touch(pool)
    return lab.state.add(made)


@operation("ResourcePool", "UpdateConfig")
def update_pool(lab: Simulation, pool: ResourcePool, *, name: str | None, config: Any) -> None:
    """Name a pool, and set what of its allocations a spec sets. Raises DuplicateName.

    A cluster's own pool keeps its name, and is refused with InvalidArgument, which is assumed.
    """
    above = lab.state.find(pool.parent, ResourcePool)
    if name and name != pool.name:
        if above is None:
            raise refusals.bad_argument("name")
        _check_name(lab.state, above, name)
        pool.name = name
    _apply(pool, config)
    lab.state.touch(pool)


def _check_name(state: LabState, above: ResourcePool, name: str) -> None:
    for moid in above.pools:
        if state.objects[moid].name == name:
            raise refusals.duplicate_name(name, vim.ResourcePool(moid))


def _apply(pool: ResourcePool, spec: Any) -> None:
    if spec is None:
        return
    new = vim.ResourceAllocationInfo()
    if spec.cpuAllocation is not None:
        pool.cpu = merged(pool.cpu or new, spec.cpuAllocation)
    if spec.memoryAllocation is not None:
        pool.memory = merged(pool.memory or new, spec.memoryAllocation)


@operation("ResourcePool", "DestroyChildren")
def destroy_children(lab: Simulation, pool: ResourcePool) -> None:
    """Destroy all pools below another; their content goes to it."""
    for moid in list(pool.pools):
        child = lab.state.get(moid, ResourcePool)
        destroy_children(lab, child)
        destroy_pool(lab, child)


def destroy_pool(lab: Simulation, pool: ResourcePool) -> None:
    """Destroy a pool; its content goes to the pool above it."""
    above = lab.state.get(pool.parent, ResourcePool)
    above.pools.remove(pool.moid)
    for moid in pool.vms:
        lab.state.get(moid, VirtualMachine).resource_pool = above.moid
        lab.state.touch(lab.state.objects[moid])
    for moid in pool.pools:
        lab.state.objects[moid].parent = above.moid
        lab.state.touch(lab.state.objects[moid])
    above.vms |= pool.vms
    above.pools += pool.pools
    lab.state.touch(above)
    lab.state.remove(pool)
