"""Which RDMA NICs and GPUs a VM has together now, so that GPUDirect may run; no plan is asked."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.capacity.nic_functions import SRIOV
from vgpu_cfg.planning.capacity.topology import Topologies, Topology
from vgpu_cfg.planning.rdma.chain import Placed


def direct_pairs(host: Host, topology: Topology, observed: Inventory) -> Iterator[Placed]:
    """Yield each RDMA NIC that a VM has with a GPU on a host, by VM and address.

    A NIC or a GPU that vSphere chooses when the VM starts is there once it runs.
    """
    rdma = {pci_id for pci_id, _ in topology.nics()}
    for vm in sorted(observed.vms_by_host.get(host.moid, ()), key=lambda one: one.name):
        if vm.is_template or vm.detail is None:
            continue
        gpus = gpus_of(vm, host)
        for nic in sorted(nics_of(vm) & rdma) if gpus else ():
            yield Placed(vm.name, nic, gpus, vm.detail.extra_config, has_guest=vm.mark is not None)


def hosts_with_pairs(observed: Inventory, catalog: Catalog) -> tuple[str, ...]:
    """Return the moids of the hosts on which a VM has an RDMA NIC with a GPU."""
    topologies = Topologies(observed, catalog)
    return tuple(
        host.moid
        for host in observed.hosts
        if host.gpus and any(direct_pairs(host, topologies.of(host), observed))
    )


def gpus_of(vm: Vm, host: Host) -> tuple[str, ...]:
    """Return the addresses of the GPUs that a VM has or shares, as far as they are known."""
    own = {one.pci_id or one.assigned_id for one in vm.detail.passthrough_gpus} if vm.detail else set()
    return tuple(gpu.pci_id for gpu in host.gpus if vm.moid in gpu.vm_moids or gpu.pci_id in own)


def nics_of(vm: Vm) -> set[str]:
    """Return the addresses of a VM's NICs, of virtual functions those of their physical ones."""
    if vm.detail is None:
        return set()
    passed = {one.pci_id or one.assigned_id for one in vm.detail.passthrough_nics}
    return {one for one in passed | {nic.function for nic in vm.detail.own_nics if nic.kind == SRIOV} if one}
