"""Which new VMs are alike: all that their settings, GPUs and disks follow from is the same."""

from __future__ import annotations

from collections.abc import Hashable

from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.rdma import asks_gpudirect
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm

OWN_KEYS = frozenset({"name", "line", "origin", "guest", "nics", "attributes", "managed", "defaulted"})
"""What is not looked at of a VM of the plan: what differs within a line, and what is compared by value."""

_SHARED_KEYS = tuple(key for key in DesiredVm.model_fields if key not in OWN_KEYS)


def likeness(vm: PlacedVm) -> Hashable:
    """Return what is equal where new VMs need the same edits but for their NICs, attributes and own rows.

    The values of the plan file are told by identity: VMs of one line share them. Who keeps a likeness must
    keep the VM, too.
    """
    desired, resolved = vm.desired, vm.resolved
    said = desired.__dict__
    return (
        *[id(said[key]) for key in _SHARED_KEYS],
        desired.managed,
        desired.defaulted,
        asks_gpudirect(desired),
        None if vm.nics is None else tuple(nic.kind for nic in vm.nics),
        vm.functions,
        id(resolved.base),
        id(resolved.template),
        id(resolved.datastore),
        id(resolved.known_policies),
        tuple((name, policy.id) for name, policy in resolved.policies.items()),
        resolved.cpus,
        resolved.memory_mib,
        None if vm.host is None else vm.host.cpu_mhz,
        id(vm.cluster),
        vm.hardware_version,
        vm.gpus,
        vm.gpu_notes,
        tuple(vm.device_groups.items()),
        vm.mmio_gb,
        vm.inherited_disks,
        vm.affinity,
        vm.affinity_note,
        vm.nodes,
        vm.cores_per_numa_node,
        vm.addresses is None,
    )
