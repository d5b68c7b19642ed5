"""The effects of acts outside of the plan file, on a copy of the estate."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial, reduce
from shlex import quote
from typing import TypeVar

from vgpu_cfg.catalog import Board, Catalog
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.values import Placement
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.host_facts import HostFacts, ShellFacts
from vgpu_cfg.model.observed.inventory import (
    NVIDIA_VENDOR_ID,
    Cluster,
    Connection,
    Folder,
    Gpu,
    Host,
    Inventory,
    Network,
    PciDevice,
    ProfileInfo,
)
from vgpu_cfg.model.observed.managed_object import ManagedObject
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.vgpu import Sharing, VgpuMode
from vgpu_cfg.model.wording import counted
from vgpu_cfg.planning.pool.outlook import after_plan
from vgpu_cfg.planning.upkeep.cordon import upkeep_plan
from vgpu_cfg.planning.vms.existing_vms import switch_off
from vgpu_cfg.suggestions.candidate import Effect

NEWEST_ESXI, NEWEST_HARDWARE = "8.0.3", 21
"""The release that all rules of the catalogue hold on, and its virtual hardware version."""

T = TypeVar("T", bound=ManagedObject)


def change_host(moid: str, change: Callable[[Host], Host]) -> Effect:
    """Return the effect of changing one host."""
    return lambda observed: observed.model_copy(update={"hosts": _changed(observed.hosts, moid, change)})


def set_in_host(moid: str, **update: object) -> Effect:
    """Return the effect of values that one host has then."""
    return change_host(moid, lambda host: host.model_copy(update=update))


def set_in_vm(moid: str, **update: object) -> Effect:
    """Return the effect of values that one VM or template has then."""
    return _change_vm(moid, lambda vm: vm.model_copy(update=update))


def set_in_detail(moid: str, **update: object) -> Effect:
    """Return the effect of values that are set of one VM or template then."""

    def changed(vm: Vm) -> Vm:
        detail = vm.detail.model_copy(update=update) if vm.detail is not None else None
        return vm.model_copy(update={"detail": detail})

    return _change_vm(moid, changed)


def _change_vm(moid: str, change: Callable[[Vm], Vm]) -> Effect:
    return lambda observed: observed.model_copy(update={"vms": _changed(observed.vms, moid, change)})


def change_facts(moid: str, change: Callable[[HostFacts], HostFacts]) -> Effect:
    """Return the effect of changing a host's facts that are read only if it is prepared."""

    def effect(observed: Inventory) -> Inventory:
        known = observed.facts.hosts
        return with_facts(observed, hosts={**known, moid: change(known.get(moid, HostFacts()))})

    return effect


def with_facts(observed: Inventory, **update: object) -> Inventory:
    """Return an estate with other facts that are read only if hosts are prepared."""
    return observed.model_copy(update={"facts": observed.facts.model_copy(update=update)})


def set_in_facts(moid: str, **update: object) -> Effect:
    """Return the effect of values of a host's facts that are read only if it is prepared."""
    return change_facts(moid, lambda facts: facts.model_copy(update=update))


def change_shell(moid: str, change: Callable[[ShellFacts], ShellFacts]) -> Effect:
    """Return the effect of changing the answers of a host's shell, if it was asked."""

    def changed(facts: HostFacts) -> HostFacts:
        return facts.model_copy(update={"shell": change(facts.shell)}) if facts.shell is not None else facts

    return change_facts(moid, changed)


def set_in_shell(moid: str, **update: object) -> Effect:
    """Return the effect of values that a host's shell reports then, if it was asked."""
    return change_shell(moid, lambda shell: shell.model_copy(update=update))


def set_in_cluster(moid: str, **update: object) -> Effect:
    """Return the effect of values that one cluster has then."""
    return lambda observed: observed.model_copy(
        update={"clusters": _changed(observed.clusters, moid, lambda found: found.model_copy(update=update))}
    )


def together(effects: Iterable[Effect]) -> Effect:
    """Return the effects one after the other."""
    steps = tuple(effects)
    return lambda observed: reduce(lambda estate, step: step(estate), steps, observed)


def back_in_use(moid: str) -> Effect:
    """Return the effect of a host that answers, and is in maintenance mode no more."""
    return set_in_host(moid, connection=Connection.CONNECTED, is_in_maintenance_mode=False)


def updated(host: Host, known: Iterable[str]) -> Host:
    """Return a host with the newest ESXi, which knows more of the profiles of its boards."""
    names = tuple(dict.fromkeys((*host.creatable_profiles, *known)))
    profiles = {one.name: one for one in host.profiles or ()}
    return host.model_copy(
        update={
            "version": NEWEST_ESXI,
            "max_hardware_version": NEWEST_HARDWARE,
            "max_vgpus_by_hardware_version": {},
            "creatable_profiles": names,
            "profiles": tuple(profiles.get(name) or ProfileInfo(name=name) for name in names),
        }
    )


def carried_out(changes: Sequence[Change], catalog: Catalog, placements: Sequence[Placement] = ()) -> Effect:
    """Return the effect of changes of VMs, on the GPUs that they are expected to have then."""

    def effect(observed: Inventory) -> Inventory:
        plan = upkeep_plan("fix", observed, changes).model_copy(update={"placements": tuple(placements)})
        then = after_plan(plan, observed, catalog)
        before = observed.host_by_moid
        hosts = (offering_all(host) if _is_freed(before[host.moid], host) else host for host in then.hosts)
        return then.model_copy(update={"hosts": tuple(hosts)})

    return effect


def _is_freed(before: Host, after: Host) -> bool:
    held = zip(before.gpus, after.gpus, strict=True)
    return any({*one.vm_moids} - {*other.vm_moids} for one, other in held)


def gone(vm: Vm, catalog: Catalog) -> Effect:
    """Return the effect of a VM that is there no more."""

    def effect(observed: Inventory) -> Inventory:
        return observed.model_copy(update={"vms": tuple(one for one in observed.vms if one.moid != vm.moid)})

    return together((carried_out([switch_off(vm)], catalog), effect))


def offering_all(host: Host) -> Host:
    """Let a host with a free GPU create its driver's profiles, as far as known."""
    names = tuple(one.name for one in host.profiles or ())
    if not names:
        return host
    return host.model_copy(
        update={"creatable_profiles": tuple(dict.fromkeys((*host.creatable_profiles, *names)))}
    )


_ADDED = "+"
"""The prefix of the made-up moids of missing hosts; vCenter's have none."""


def is_added(host_moid: str) -> bool:
    """Whether a host is one that an act only thinks of."""
    return _ADDED in host_moid


def words_of_hosts(count: int, like: str) -> str:
    """Return the act of adding hosts like one, in words."""
    return f"add {counted(count, 'host')} like {like}, without VMs"


def more_hosts(like: Host, count: int) -> Effect:
    """More hosts in the cluster of one, with its hardware and settings, and with nothing on them.

    They are numbered in their names, after those that were added before.
    """

    def effect(observed: Inventory) -> Inventory:
        facts = observed.facts.hosts
        after = sum(is_added(host.moid) for host in observed.hosts)
        made = tuple(_emptied(like, number) for number in range(after + 1, after + count + 1))
        moids = tuple(host.moid for host in made)
        if like.moid in facts:
            own = facts[like.moid].model_copy(update={"mark": None, "done": {}})
            facts = {**facts, **dict.fromkeys(moids, own)}
        clusters = _changed(observed.clusters, like.cluster_moid, partial(_joined, like=like, moids=moids))
        hosts = (*observed.hosts, *made)
        return with_facts(observed.model_copy(update={"hosts": hosts, "clusters": clusters}), hosts=facts)

    return effect


def _joined(cluster: Cluster, *, like: Host, moids: Sequence[str]) -> Cluster:
    groups = tuple(
        group.model_copy(update={"host_moids": (*group.host_moids, *moids)})
        if like.moid in group.host_moids
        else group
        for group in cluster.host_groups
    )
    return cluster.model_copy(update={"host_moids": (*cluster.host_moids, *moids), "host_groups": groups})


def _emptied(like: Host, number: int) -> Host:
    gpus = tuple(gpu.model_copy(update={"vm_moids": ()}) for gpu in like.gpus)
    name, dot, domain = like.name.partition(".")
    return offering_all(
        like.model_copy(
            update={
                "moid": f"{like.moid}{_ADDED}{number}",
                "name": f"{name}-new{number}{dot}{domain}",
                "inventory_path": f"{like.inventory_path}-new{number}",
                "gpus": gpus,
                "connection": Connection.CONNECTED,
                "is_in_maintenance_mode": False,
                "system_id": f"{like.system_id}+{number}" if like.system_id else None,
            }
        )
    )


def with_boards(host: Host, board: Board, count: int, sharing: Sharing, mode: VgpuMode) -> Host:
    """Return a host that has these boards in place of its own GPUs, spread over its NUMA nodes."""
    ids = board.pci_ids[0]
    nodes: list[int | None] = [*(node.node_id for node in host.numa_nodes)] or [None]
    gpus = []
    for number in range(count):
        pci = PciDevice(
            pci_id=f"0000:{0x81 + number:02x}:00.0",
            vendor_id=NVIDIA_VENDOR_ID,
            device_id=ids.device_id,
            subdevice_id=ids.subsystem_id or 0,
            class_id=0x0302,
            vendor_name="NVIDIA Corporation",
            device_name=board.name,
            passthrough_capable=True,
            numa_node=nodes[number * len(nodes) // count],
        )
        gpus.append(
            Gpu(
                pci=pci,
                name=board.name,
                memory_mib=board.framebuffer_mib,
                sharing=sharing,
                vgpu_mode=mode,
            )
        )
    is_mig = sharing is Sharing.MIG
    names = [one.name for one in board.profiles if (one.profile.sharing is Sharing.MIG) is is_mig]
    others = tuple(device for device in host.pci_devices if not device.is_gpu)
    kept = {device.pci_id for device in others}
    numa = tuple(
        node.model_copy(
            update={
                "pci_ids": node.pci_ids & kept | {gpu.pci_id for gpu in gpus if gpu.numa_node == node.node_id}
            }
        )
        for node in host.numa_nodes
    )
    fitted = host.model_copy(
        update={
            "gpus": tuple(gpus),
            "pci_devices": (*others, *(gpu.pci for gpu in gpus)),
            "numa_nodes": numa,
            "creatable_profiles": (),
        }
    )
    return served_by_driver(fitted, names)


def served_by_driver(host: Host, names: Iterable[str]) -> Host:
    """Return a host whose GPUs NVIDIA's driver serves, of graphics type Shared Direct."""
    gpus = tuple(
        gpu.model_copy(
            update={
                "graphics_type": GraphicsType.SHARED_DIRECT,
                "configured_graphics_type": GraphicsType.SHARED_DIRECT,
                "vgpu_mode": gpu.vgpu_mode or VgpuMode.SAME_SIZE,
                "sharing": gpu.sharing or Sharing.TIME_SLICED,
            }
        )
        for gpu in host.gpus
    )
    offered = tuple(dict.fromkeys((*host.creatable_profiles, *names)))
    return host.model_copy(
        update={
            "gpus": gpus,
            "graphics_type": GraphicsType.SHARED_DIRECT,
            "creatable_profiles": offered,
            "profiles": tuple(ProfileInfo(name=name) for name in offered),
        }
    )


def with_folders(paths: Iterable[str], root: Folder) -> Effect:
    """Return the effect of VM folders that were made, by their inventory paths."""
    made = tuple(
        Folder(
            moid=f"folder-new-{path}",
            name=path.rpartition("/")[2],
            inventory_path=path,
            datacenter=root.datacenter,
        )
        for path in paths
    )
    return lambda observed: observed.model_copy(update={"folders": (*observed.folders, *made)})


def with_network(network: Network, hosts: Iterable[Host]) -> Effect:
    """Return the effect of a network on hosts, made where it is not there."""
    moids = {host.moid for host in hosts}

    def effect(observed: Inventory) -> Inventory:
        is_known = any(one.moid == network.moid for one in observed.networks)
        changed = tuple(
            host.model_copy(update={"network_moids": host.network_moids | {network.moid}})
            if host.moid in moids
            else host
            for host in observed.hosts
        )
        networks = observed.networks if is_known else (*observed.networks, network)
        return observed.model_copy(update={"networks": networks, "hosts": changed})

    return effect


def path_of(found: Vm | Host) -> str:
    """Return what govc calls a VM or a host, quoted for a shell."""
    return quote(found.inventory_path or found.name)


def _changed(items: tuple[T, ...], moid: str | None, change: Callable[[T], T]) -> tuple[T, ...]:
    return tuple(change(one) if one.moid == moid else one for one in items)
