"""The capacity that a power-on takes: swap on its datastore, its resource pools, vSphere HA's reserve.

Swap files fill their size on VMFS alone.

HA is played for a percentage of the cluster's memory alone; other policies and CPUs are not judged.
"""

from __future__ import annotations

from pyVmomi import vim

from vgpu_cfg.lab.rules import hardware
from vgpu_cfg.lab.rules.from_the_field import refuse
from vgpu_cfg.lab.state.inventory import Datastore, Host, LabState, ResourcePool, VirtualMachine

MIB = 2**20


def reserved_mib(state: LabState, host: Host) -> int:
    """Return the memory that the VMs which run on a host have reserved."""
    running = (state.get(moid, VirtualMachine) for moid in host.vms)
    return sum(hardware.reservation_mib(vm) for vm in running if vm.is_on)


def check(state: LabState, vm: VirtualMachine, host: Host, *, has_swap: bool = False) -> None:
    """Raise where the VM's memory is no size, or has no room beyond its host.

    `has_swap` if its swap file exists.
    """
    if vm.memory_mib % hardware.MEMORY_STEP_MIB:
        raise refuse("memory-not-of-4-mib", memory=vm.memory_mib)
    if vm.is_on:
        return
    asked = hardware.reservation_mib(vm)
    store = state.find(vm.datastore, Datastore)
    is_too_much = store is not None and store.kind == "VMFS" and vm.memory_mib - asked > store.free_mib
    if is_too_much and not has_swap:
        raise refuse("no-room-for-swap")
    _check_pools(state, vm, asked)
    _check_failover(state, host, asked)


def _check_pools(state: LabState, vm: VirtualMachine, asked: int) -> None:
    pool = state.find(vm.resource_pool, ResourcePool)
    while pool is not None:
        limit, memory = -1, pool.memory
        if memory is not None:
            limit = -1 if memory.limit is None else memory.limit
            if memory.expandableReservation is False:
                own = memory.reservation or 0
                limit = own if limit < 0 else min(own, limit)
        left = limit - _reserved_below(state, pool)
        if limit >= 0 and left < asked:
            raise refuse("pool-limit", unreserved=left * MIB, requested=asked * MIB)
        pool = state.find(pool.parent, ResourcePool)


def _reserved_below(state: LabState, pool: ResourcePool) -> int:
    vms = (state.get(moid, VirtualMachine) for moid in pool.vms)
    below = sum(_reserved_below(state, state.get(moid, ResourcePool)) for moid in pool.pools)
    return below + sum(hardware.reservation_mib(vm) for vm in vms if vm.is_on)


def _check_failover(state: LabState, host: Host, asked: int) -> None:
    cluster = state.cluster_of(host)
    policy = getattr(cluster.das, "admissionControlPolicy", None)
    kind = vim.cluster.FailoverResourcesAdmissionControlPolicy
    if not cluster.ha_enabled or not isinstance(policy, kind) or not cluster.das.admissionControlEnabled:
        return
    hosts = [state.get(moid, Host) for moid in cluster.hosts]
    total = sum(one.memory_mib - hardware.HOST_OWN_MIB for one in hosts if one.is_usable)
    kept = total * policy.memoryFailoverResourcesPercent // 100
    if sum(reserved_mib(state, one) for one in hosts) + asked > total - kept:
        raise refuse("failover-capacity")
