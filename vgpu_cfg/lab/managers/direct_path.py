"""DirectPath profiles and what a host or a cluster could still give (vim `DirectPathProfileManager`).

Capacity is counted on the lab's GPUs one vGPU after the other, as power-on does. What the estate reserves
counts as unused as long as there is room for it: the lab powers nothing on from a reservation.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.gpu_load import GpuLoad, find_slot, load_of
from vgpu_cfg.lab.rules.profiles import serves_vgpus
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.state.inventory import Cluster, DirectPathProfile, Host, Managed


@answers("DirectPathProfileManager", "DirectPathProfileManagerList")
def list_profiles(context: Context, thing: Managed, *, filterSpec: Any) -> list[Any]:
    """List the profiles, those with the asked ids or names only. A filter by cluster is not played."""
    ids, names = (set(getattr(filterSpec, key, None) or ()) for key in ("ids", "names"))
    return [
        _info(profile)
        for profile in context.state.direct_path
        if (not ids or profile.id in ids) and (not names or profile.name in names)
    ]


@answers("DirectPathProfileManager", "DirectPathProfileManagerQueryCapacity")
def query_capacity(context: Context, thing: Managed, *, target: Any, querySpec: Any) -> list[Any]:
    """Count each profile that is asked for, all of them where none is, on a host or a cluster."""
    hosts = _hosts(context, target)
    if not querySpec:
        return [_capacity(profile, hosts) for profile in context.state.direct_path]
    return [_answer(context, spec, hosts) for spec in querySpec]


def _answer(context: Context, spec: Any, hosts: list[Host]) -> Any:
    manager = vim.DirectPathProfileManager
    for profile in context.state.direct_path:
        is_meant = (isinstance(spec, manager.CapacityQueryById) and spec.id == profile.id) or (
            isinstance(spec, manager.CapacityQueryByName) and spec.name == profile.name
        )
        if is_meant:
            return _capacity(profile, hosts)
    return manager.CapacityUnknown(querySpec=spec, faultList=[vmodl.fault.InvalidArgument()])


def _hosts(context: Context, target: Any) -> list[Host]:
    manager = vim.DirectPathProfileManager
    if isinstance(target, manager.TargetHost):
        return [context.state.get(target.host._moId, Host)]
    if isinstance(target, manager.TargetCluster):
        cluster = context.state.get(target.cluster._moId, Cluster)
        return [context.state.get(moid, Host) for moid in cluster.hosts]
    raise refusals.bad_argument("target")


def _info(profile: DirectPathProfile) -> Any:
    manager = vim.DirectPathProfileManager
    return manager.DirectPathProfileInfo(
        id=profile.id,
        name=profile.name,
        vendorName="NVIDIA",
        deviceConfig=manager.VmiopDirectPathConfig(vgpuProfile=profile.vgpu),
    )


def _capacity(profile: DirectPathProfile, hosts: list[Host]) -> Any:
    consumed = sum(use.profile == profile.vgpu for host in hosts for gpu in host.gpus for use in gpu.uses)
    left = sum(_room(host, profile.vgpu) for host in hosts)
    reserved = sum(profile.reserved.get(host.name, 0) for host in hosts)
    return vim.DirectPathProfileManager.CapacityInfo(
        profile=_info(profile),
        consumed=consumed,
        remaining=left,
        max=sum(_room(host, profile.vgpu, is_idle=True) for host in hosts),
        unusedReservation=min(reserved, left),
    )


def _room(host: Host, vgpu: str, *, is_idle: bool = False) -> int:
    """Count how many more of a profile a host takes, or how many it would with no VM running."""
    if host.connection != "connected":
        return 0
    count = 0
    for gpu in host.gpus:
        if not serves_vgpus(host, gpu):
            continue
        load = load_of(host, gpu)
        count += _room_of(replace(load, uses=()) if is_idle else load, vgpu)
    return count


def _room_of(load: GpuLoad, vgpu: str) -> int:
    count = 0
    while (slot := find_slot(load, vgpu)) is not None:
        load = replace(load, uses=(*load.uses, (vgpu, slot.start)))
        count += 1
    return count
