"""How a VmSpec is said in vSphere's words: one ConfigSpec that carries everything a VM needs.

All that the API takes at once goes at once: a clone that carries its devices, reservation
and firmware is one task where one setting after the other would be ten.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pyVmomi import vim

from vgpu_cfg.model.change import CloneFrom, CreateVm
from vgpu_cfg.model.vm_spec import VmSpec
from vgpu_cfg.vsphere.devices import device_groups, device_specs
from vgpu_cfg.vsphere.reader_places import escaped

SCRATCH_FIRMWARE = "efi"
LINKED_CLONE = "createNewChildDiskBacking"


NUMA_AND_GROUPS_SINCE = "8.0.0.1"
"""The API version that brought device groups, virtual NUMA nodes and a node for each device."""


@dataclass(frozen=True, slots=True)
class Current:
    """What a VM has now, as far as a spec must know: its devices and its memory."""

    devices: Sequence[Any] = ()
    memory_mib: int | None = None


def config_spec(spec: VmSpec, current: Current, vm: str) -> Any:
    """Return the ConfigSpec that reconfigures a VM.

    The hardware version is no part of it: only a clone, a creation or an upgrade sets that.
    """
    config = vim.vm.ConfigSpec(
        changeVersion=spec.change_version,
        guestId=spec.guest_id,
        firmware=spec.firmware,
        numCPUs=spec.cpus,
        numCoresPerSocket=spec.cores_per_socket,
        memoryMB=spec.memory_mib,
        extraConfig=extra_config(spec.extra_config),
        deviceChange=device_specs(spec.devices, current.devices, vm),
    )
    if spec.device_groups:
        config.deviceGroups = device_groups(spec.device_groups)
    if spec.cores_per_numa_node is not None:
        config.virtualNuma = vim.vm.VirtualNuma(coresPerNumaNode=spec.cores_per_numa_node)
    if spec.secure_boot is not None:
        config.bootOptions = vim.vm.BootOptions(efiSecureBootEnabled=spec.secure_boot)
    if spec.reserve_all_memory is not None:
        _reserve(config, spec, current)
    return config


def needed_api(spec: VmSpec) -> tuple[str, str]:
    """Return the API version that can say a spec, and what in it needs that; empty where any version can.

    An older session would leave those fields out without a word.
    """
    if spec.device_groups:
        return NUMA_AND_GROUPS_SINCE, "a device group"
    nodes = [getattr(edit, "numa_node", None) for edit in spec.devices]
    if spec.cores_per_numa_node is not None or any(node is not None for node in nodes):
        return NUMA_AND_GROUPS_SINCE, "virtual NUMA nodes"
    return "", ""


def creation_spec(change: CreateVm, current: Current) -> Any:
    """Return the ConfigSpec that a new VM is made with.

    CPU and memory hot-add are switched off: hot-add of CPUs hides the virtual NUMA nodes from
    the guest, and a VM with passthrough cannot add memory while it runs.
    """
    config = config_spec(change.spec, current, change.vm.name)
    config.cpuHotAddEnabled = False
    config.memoryHotAddEnabled = False
    if change.spec.hardware_version is not None:
        config.version = f"vmx-{change.spec.hardware_version}"
    return config


def clone_spec(change: CreateVm, source: CloneFrom, current: Current) -> Any:
    """Return the CloneSpec of a VM that stays powered off."""
    location = vim.vm.RelocateSpec(
        host=vim.HostSystem(change.location.host_moid),
        pool=vim.ResourcePool(change.location.resource_pool_moid),
        datastore=vim.Datastore(change.location.datastore_moid),
    )
    spec = vim.vm.CloneSpec(
        location=location,
        template=False,
        powerOn=False,
        config=creation_spec(change, current),
    )
    if source.snapshot_moid is not None:
        location.diskMoveType = LINKED_CLONE
        spec.snapshot = vim.vm.Snapshot(source.snapshot_moid)
    return spec


def scratch_spec(change: CreateVm, guest_id: str) -> Any:
    """Return the ConfigSpec of a VM made from nothing, on its datastore."""
    config = creation_spec(change, Current())
    config.name = escaped(change.vm.name)
    config.guestId = change.spec.guest_id or guest_id
    config.firmware = change.spec.firmware or SCRATCH_FIRMWARE
    config.files = vim.vm.FileInfo(vmPathName=f"[{change.location.datastore_name}]")
    return config


def extra_config(values: Mapping[str, str]) -> list[Any]:
    """Return extraConfig options; one with an empty value deletes its key."""
    return [vim.option.OptionValue(key=key, value=value) for key, value in values.items()]


def _reserve(config: Any, spec: VmSpec, current: Current) -> None:
    """Reserve all memory or none. The amount is said too, for servers that do not follow the flag."""
    config.memoryReservationLockedToMax = spec.reserve_all_memory
    memory_mib = spec.memory_mib if spec.memory_mib is not None else current.memory_mib
    if not spec.reserve_all_memory:
        config.memoryAllocation = vim.ResourceAllocationInfo(reservation=0)
    elif memory_mib is not None:
        config.memoryAllocation = vim.ResourceAllocationInfo(reservation=memory_mib)
