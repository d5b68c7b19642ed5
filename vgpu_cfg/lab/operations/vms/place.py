"""Where a new VM goes: pool, host, datastore; and the host that the lab chooses where none is named."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.operations.refs import moid_of
from vgpu_cfg.lab.rules import hardware, refusals
from vgpu_cfg.lab.rules.gpu_load import find_slot, load_of
from vgpu_cfg.lab.rules.profiles import knows, serves_vgpus
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import vgpus_of
from vgpu_cfg.lab.state.inventory import Cluster, Datastore, Host, LabState, ResourcePool, VirtualMachine


def choose_host(
    lab: Simulation, pool: ResourcePool, store: Datastore | None, profiles: Iterable[str], version: int
) -> Host:
    """Return the host of a pool's cluster that has room for vGPUs now, or knows them at least.

    Raises NoCompatibleHost where no usable host reaches the datastore.
    """
    cluster = lab.state.get(pool.owner, Cluster)
    hosts = [lab.state.get(moid, Host) for moid in cluster.hosts]
    wanted = list(profiles)
    usable = [
        host
        for host in hosts
        if host.is_usable
        and (store is None or store.moid in host.datastores)
        and version <= hardware.max_hardware_version(host)
    ]
    if not usable:
        raise vim.fault.NoCompatibleHost(
            host=[vim.HostSystem(host.moid) for host in hosts],
            error=[refusals.host_unusable(host) or refusals.too_new(host) for host in hosts],
            msg="No host is compatible with the virtual machine.",
        )
    knowing = [host for host in usable if all(knows(host, profile) for profile in wanted)] or usable
    having_room = [host for host in knowing if _has_room(host, wanted)] or knowing
    return min(having_room, key=lambda host: len(host.vms))


def profiles_in(vm: VirtualMachine, *specs: Any) -> list[str]:
    """Return the profiles that a VM would have after a ConfigSpec."""
    wanted = dict(vgpus_of(vm.devices))
    added: list[str] = []
    for change in (change for spec in specs if spec is not None for change in spec.deviceChange or ()):
        if change.operation == "remove":
            wanted.pop(change.device.key, None)
        elif change.operation == "add":
            profile = getattr(getattr(change.device, "backing", None), "vgpu", None)
            added += [profile] if profile else []
    return [*wanted.values(), *added]


def datastore_of(lab: Simulation, path: str, host: Host | None) -> Datastore:
    """Return the datastore that a path like `[vsan] name` names. Raises InvalidDatastore."""
    name = path.partition("[")[2].partition("]")[0]
    for store in lab.state.all(Datastore):
        if store.name == name and (host is None or store.moid in host.datastores):
            return store
    raise vim.fault.InvalidDatastore(name=name, msg=f"Invalid datastore path '{path}'.")


def check_reaches(store: Datastore, host: Host, reference: Any) -> None:
    """Raise InvalidDatastore where a host does not mount a datastore."""
    if store.moid not in host.datastores or not store.accessible:
        raise vim.fault.InvalidDatastore(
            datastore=vim.Datastore(moid_of(reference)) if reference is not None else None,
            name=store.name,
            msg=f"The datastore '{store.name}' is not accessible from the host '{host.name}'.",
        )


def check_reachable(state: LabState, vm: VirtualMachine) -> None:
    """Raise where vCenter has no connection to a VM's host."""
    host = state.get(vm.host, Host)
    if host.connection != "connected":
        check_usable(host)


def check_usable(host: Host) -> None:
    """Raise where a host takes no VM: not connected, or in maintenance mode."""
    if (unusable := refusals.host_unusable(host)) is not None:
        raise unusable


def check_in_pool(host: Host, pool: ResourcePool) -> None:
    """Raise InvalidArgument where a host is not of a pool's cluster."""
    if host.parent != pool.owner:
        raise refusals.bad_argument("spec.location.host")


def _has_room(host: Host, profiles: list[str]) -> bool:
    loads = [load_of(host, gpu) for gpu in host.gpus if serves_vgpus(host, gpu)]
    return all(any(find_slot(load, profile) is not None for load in loads) for profile in profiles)
