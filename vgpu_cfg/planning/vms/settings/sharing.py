"""Which new VMs are alike: all that their settings, GPUs and disks follow from is the same."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import itemgetter

from vgpu_cfg.model.desired import DesiredVm, asks_gpudirect
from vgpu_cfg.planning.vms.lookup.placed import PlacedVm

OWN_KEYS = frozenset({"name", "line", "origin", "guest", "nics", "attributes"})
"""The keys that are not compared for a VM of the plan: they differ within a line."""

_shared = itemgetter(*(key for key in DesiredVm.model_fields if key not in OWN_KEYS))


@dataclass(frozen=True, slots=True)
class Numbers:
    """Numbers for what plan files say: equal values have the same one. VMs of one line share their values."""

    _by_id: dict[int, tuple[object, int]] = field(default_factory=dict)
    _by_value: dict[Hashable, int] = field(default_factory=dict)
    _by_ids: dict[tuple[int, ...], tuple[int, ...]] = field(default_factory=dict)

    def of_all(self, values: Sequence[object]) -> tuple[int, ...]:
        """Return the numbers of values, in their order."""
        ids = tuple(map(id, values))
        if ids not in self._by_ids:
            self._by_ids[ids] = tuple(self.of(value) for value in values)
        return self._by_ids[ids]

    def of(self, value: object) -> int:
        """Return the number of a value."""
        known = self._by_id.get(id(value))
        if known is None:
            content = tuple(sorted(value.items())) if isinstance(value, Mapping) else value
            number = self._by_value.setdefault((type(value), content), len(self._by_value))
            known = self._by_id[id(value)] = value, number
        return known[1]


def likeness(vm: PlacedVm, numbers: Numbers) -> Hashable:
    """Return the common key of new VMs with the same edits, except their NICs, attributes and own rows.

    Objects of vCenter are compared by identity: to keep a likeness, keep the VM, too.
    """
    desired, resolved = vm.desired, vm.resolved
    return (
        numbers.of_all(_shared(desired.__dict__)),
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
