"""An estate as it was read, with what several rules work out of it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.observed.host_facts import HostFacts
from vgpu_cfg.model.observed.inventory import Cluster, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm, VmDetail
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader, HostCapacity
from vgpu_cfg.planning.capacity.topology import Topologies
from vgpu_cfg.planning.pool.gpus import PooledGpu, PoolReader
from vgpu_cfg.planning.pool.use import owner_of
from vgpu_cfg.planning.remedies.start_conditions import StartCondition, check_conditions


@dataclass
class Patient:
    """One reading; `server` are the words that name the vCenter to a command."""

    observed: Inventory
    catalog: Catalog
    server: Sequence[str] = ()
    reader: CapacityReader = field(init=False)
    topologies: Topologies = field(init=False)
    _capacities: dict[str, HostCapacity] = field(default_factory=dict)
    _conditions: dict[str, tuple[StartCondition, ...]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.reader = CapacityReader(self.observed, self.catalog)
        self.topologies = Topologies(self.observed, self.catalog)

    @cached_property
    def gpu_hosts(self) -> tuple[Host, ...]:
        """The hosts with GPUs."""
        return tuple(host for host in self.observed.hosts if host.gpus)

    @cached_property
    def gpus(self) -> tuple[tuple[Host, PooledGpu], ...]:
        """Every GPU with its host."""
        reader = PoolReader(self.observed, self.catalog)
        return tuple((host, gpu) for host in self.gpu_hosts for gpu in reader.gpus(self.capacity(host)))

    @cached_property
    def gpu_vms(self) -> tuple[tuple[Vm, VmDetail, Host], ...]:
        """The VMs with a vGPU or a passed-through GPU, each with its host; no templates."""
        return tuple(self._gpu_vms())

    def _gpu_vms(self) -> Iterator[tuple[Vm, VmDetail, Host]]:
        for vm in self.observed.vms:
            host = self.observed.host_by_moid.get(vm.host_moid or "")
            if vm.is_template or vm.detail is None or host is None:
                continue
            if vm.detail.vgpus or vm.detail.passthrough_gpus:
                yield vm, vm.detail, host

    @cached_property
    def hosts_by_cluster(self) -> Mapping[str, tuple[Host, ...]]:
        """The hosts with GPUs by the moid of their cluster, or of their own compute resource."""
        found: dict[str, list[Host]] = {}
        for host in self.gpu_hosts:
            found.setdefault(host.owner_moid, []).append(host)
        return {moid: tuple(hosts) for moid, hosts in found.items()}

    def clusters(self) -> Iterator[tuple[Cluster, tuple[Host, ...]]]:
        """Yield the clusters that have hosts with GPUs, each with those."""
        for moid, hosts in self.hosts_by_cluster.items():
            cluster = self.observed.cluster_by_moid.get(moid)
            if cluster is not None and not cluster.is_standalone:
                yield cluster, hosts

    def capacity(self, host: Host) -> HostCapacity:
        """Return the capacity of a host, read once; it must not be changed."""
        if host.moid not in self._capacities:
            self._capacities[host.moid] = self.reader.read(host)
        return self._capacities[host.moid]

    def conditions(self, vm: Vm) -> tuple[StartCondition, ...]:
        """Return the conditions of a VM's start, checked once."""
        if vm.moid not in self._conditions:
            found = check_conditions(vm, self.observed, self.catalog, self.reader)
            self._conditions[vm.moid] = found
        return self._conditions[vm.moid]

    def facts(self, host: Host) -> HostFacts:
        """Return the facts of a host, in addition to the inventory."""
        return self.observed.facts.hosts.get(host.moid, HostFacts())

    def holds_gpu(self, vm: Vm) -> bool:
        """Whether its host lists the VM at one of its GPUs."""
        host = self.observed.host_by_moid.get(vm.host_moid or "")
        return host is not None and any(vm.moid in gpu.vm_moids for gpu in host.gpus)

    def type_(self, *words: str) -> str:
        """Return a command of this program for this vCenter."""
        return shlex.join(["vgpu-cfg", *words, *self.server])


def owner_name(vm: Vm) -> str:
    """Return whose VM it is: the attribute's owner, or its plan; empty if neither is known."""
    return owner_of(vm) or (f"plan {vm.mark.plan}" if vm.mark is not None else "")


def path_of(vm: Vm) -> str:
    """Return a VM's inventory path as a shell takes it."""
    return shlex.quote(vm.inventory_path or vm.name)
