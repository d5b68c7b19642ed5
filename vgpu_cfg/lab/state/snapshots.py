"""Snapshots taken of a VM: its settings then, and their order. The content of disks is not kept."""

from __future__ import annotations

import copy

from vgpu_cfg.lab.state.inventory import LabState
from vgpu_cfg.lab.state.vm import Snapshot, VirtualMachine

_KEPT = (
    "cpus", "cores_per_socket", "memory_mib", "memory_reservation_mib", "memory_reservation_locked",
    "cpu_reservation_mhz", "latency_sensitivity", "cpu_hot_add", "memory_hot_add", "firmware", "secure_boot",
    "boot_delay_ms", "hardware_version", "guest_id", "annotation", "extra_config", "extra", "device_groups",
    "home_policy", "disk_policies",
)  # fmt: skip
"""The parts of a VM that a snapshot keeps, next to its devices."""


def take_snapshot(
    state: LabState,
    vm: VirtualMachine,
    name: str,
    at: float,
    description: str = "",
    *,
    with_memory: bool = False,
) -> Snapshot:
    """Add a snapshot, which the VM then follows."""
    made = Snapshot(
        moid=state.new_moid("snapshot"),
        name=name,
        parent=vm.moid,
        number=1 + max((state.get(moid, Snapshot).number for moid in vm.snapshots), default=0),
        created=at,
        description=description,
        previous=vm.current_snapshot,
        kept={name: copy.copy(getattr(vm, name)) for name in _KEPT} | {"made_devices": dict(vm.devices)},
        was_on=with_memory and vm.is_on,
    )
    state.add(made)
    vm.snapshots.append(made.moid)
    vm.current_snapshot = made.moid
    return made
