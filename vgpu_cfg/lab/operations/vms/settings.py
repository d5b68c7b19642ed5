"""A ConfigSpec's settings on a VM: the fields, those a running VM accepts, extraConfig, storage policies.

Changes are incremental, and extraConfig is merged: a property that is unset, be it of the spec or of an
object in it, is not changed (VirtualMachineConfigSpec in the vSphere API reference). Boot options hold from
the next power-on, so a running VM takes them; secure boot wants it off ("Enable or Disable UEFI Secure Boot",
vSphere Security).

The storage policies that a request gives a VM's home and its disks are kept by vCenter outside of the VM's
configuration (vim `VirtualMachineDefinedProfileSpec`). A policy that does not exist is refused; whether a
datastore that does not fit is refused, too, is not simulated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.rules import hardware, refusals
from vgpu_cfg.lab.rules.refusals import refuse
from vgpu_cfg.lab.state.devices import copy_with, disks_of, is_passthrough, is_set, merged
from vgpu_cfg.lab.state.inventory import Host, LabState, VirtualMachine

NEEDS_OFF_KEYS = re.compile(r"pciPassthru|numa\.|sched\.|svga\.|cpuid\.", re.IGNORECASE)
"""extraConfig keys that a running VM does not take: VMware's and NVIDIA's guides set them with the VM off."""

NOT_CHECKED = (
    "alternateGuestName", "tools", "flags", "consolePreferences", "powerOpInfo", "rebootPowerOff",
    "vcpuConfig", "cpuHotRemoveEnabled", "cpuAllocation", "memoryAllocation", "latencySensitivity",
    "cpuAffinity", "memoryAffinity", "cpuFeatureMask", "swapPlacement", "bootOptions", "vAppConfig",
    "vAssertsEnabled", "changeTrackingEnabled", "maxMksConnections", "guestAutoLockEnabled",
    "managedBy", "nestedHVEnabled", "vPMCEnabled", "messageBusTunnelEnabled", "migrateEncryption",
    "sevEnabled", "motherboardLayout", "pmemFailoverEnabled",
    "vmxStatsCollectionEnabled", "vmOpNotificationToAppEnabled", "vmOpNotificationTimeout",
    "simultaneousThreads", "fixedPassthruHotPlugEnabled",
)  # fmt: skip
"""Fields that are kept in `VirtualMachine.extra` as they came."""

NEEDS_OFF = (
    "firmware", "numCoresPerSocket", "cpuHotAddEnabled", "memoryHotAddEnabled", "cpuHotRemoveEnabled",
    "virtualNuma",
    "nestedHVEnabled", "memoryReservationLockedToMax", "deviceGroups", "guestId",
    "latencySensitivity", "uuid",
)  # fmt: skip
"""Fields that a running VM does not take."""

_Identifier: Any = vim.vm.GuestOsDescriptor.GuestOsIdentifier
GUEST_IDS = frozenset(_Identifier.values)
MOST_SOCKETS = 128
"""The most virtual sockets, and the most vCPUs that a running VM grows to."""

_VERSION = re.compile(r"vmx-(\d+)")


def apply_settings(vm: VirtualMachine, spec: Any) -> None:
    """Set everything of a ConfigSpec but name, version, devices and device groups.

    Raises InvalidPowerState for fields that a running VM does not accept, InvalidVmConfig for contradictions.
    """
    if vm.is_on:
        _check_running(vm, spec)
    if spec.numCPUs is not None:
        vm.cpus = _positive(spec.numCPUs, "numCPUs")
    if spec.numCoresPerSocket is not None:
        vm.cores_per_socket = spec.numCoresPerSocket or 1
    if spec.memoryMB is not None:
        vm.memory_mib = _positive(spec.memoryMB, "memoryMB")
    if vm.cpus % vm.cores_per_socket:
        if spec.numCoresPerSocket is not None:
            raise refusals.bad_config("configSpec.numCoresPerSocket")
        vm.cores_per_socket = 1
    chooses = vm.hardware_version >= hardware.OLDEST_VNUMA_VERSION
    if not chooses and vm.cpus // vm.cores_per_socket > MOST_SOCKETS:
        raise refuse("too-many-sockets", invalidProperty="configSpec.numCPUs")
    _apply_flags(vm, spec)
    _apply_boot(vm, spec)
    _apply_reservation(vm, spec)
    _apply_virtual_numa(vm, spec.virtualNuma)
    for name in NOT_CHECKED:
        value = getattr(spec, name, None)
        if is_set(value):
            vm.extra[name] = merged(vm.extra.get(name), value)
    apply_extra_config(vm, spec.extraConfig or [])


def _apply_flags(vm: VirtualMachine, spec: Any) -> None:
    if spec.firmware:
        if spec.firmware not in ("bios", "efi"):
            raise refusals.bad_config("configSpec.firmware")
        vm.firmware = spec.firmware
    if spec.guestId:
        if spec.guestId not in GUEST_IDS:
            raise refuse("unknown-guest-id", invalidProperty="configSpec.guestId")
        vm.guest_id = spec.guestId
    if spec.annotation is not None:
        vm.annotation = spec.annotation
    if spec.uuid:
        vm.uuid = spec.uuid
    if spec.cpuHotAddEnabled is not None:
        vm.cpu_hot_add = bool(spec.cpuHotAddEnabled)
    if spec.memoryHotAddEnabled is not None:
        vm.memory_hot_add = bool(spec.memoryHotAddEnabled)


def _apply_boot(vm: VirtualMachine, spec: Any) -> None:
    """Set a VM's boot options. Secure boot wants EFI and hardware version 13.

    A spec that leaves a VM with BIOS and secure boot is refused when it is sent, and not at the power-on
    (ansible-collections/community.vmware, issue 351); which fault says so is recalled.
    """
    boot = spec.bootOptions
    if boot is not None and boot.bootDelay is not None:
        if boot.bootDelay < 0:
            raise refusals.bad_config("configSpec.bootOptions.bootDelay")
        vm.boot_delay_ms = int(boot.bootDelay)
    if boot is not None and boot.efiSecureBootEnabled is not None:
        vm.secure_boot = bool(boot.efiSecureBootEnabled)
    is_asked = spec.firmware or (boot is not None and boot.efiSecureBootEnabled)
    if vm.secure_boot and is_asked and not hardware.can_secure_boot(vm):
        raise refusals.bad_config("configSpec.bootOptions.efiSecureBootEnabled")


def _apply_reservation(vm: VirtualMachine, spec: Any) -> None:
    if spec.memoryReservationLockedToMax is not None:
        vm.memory_reservation_locked = bool(spec.memoryReservationLockedToMax)
    wanted = spec.memoryAllocation.reservation if spec.memoryAllocation is not None else None
    if wanted is not None:
        if wanted > vm.memory_mib:
            raise refusals.bad_config("configSpec.memoryAllocation.reservation")
        vm.memory_reservation_mib = int(wanted)
    if vm.memory_reservation_locked:
        vm.memory_reservation_mib = vm.memory_mib
    cpu = spec.cpuAllocation.reservation if spec.cpuAllocation is not None else None
    if cpu is not None:
        if cpu < 0:
            raise refusals.bad_config("configSpec.cpuAllocation.reservation")
        vm.cpu_reservation_mhz = int(cpu)
    if spec.latencySensitivity is not None:
        vm.latency_sensitivity = str(spec.latencySensitivity.level)


def _apply_virtual_numa(vm: VirtualMachine, sent: Any) -> None:
    """Keep the virtual NUMA nodes' size, from hardware version 20 on; unset fields stay as they were."""
    if sent is None:
        return
    if vm.hardware_version < hardware.OLDEST_VNUMA_VERSION or (sent.coresPerNumaNode or 0) < 0:
        raise refusals.bad_config("configSpec.virtualNuma")
    before = vm.extra.get("virtualNuma")
    changes = {
        name: getattr(before, name)
        for name in ("coresPerNumaNode", "exposeVnumaOnCpuHotadd")
        if before is not None and getattr(sent, name) is None
    }
    vm.extra["virtualNuma"] = copy_with(sent, **changes)


def apply_extra_config(vm: VirtualMachine, options: list[Any]) -> None:
    """Merge extraConfig: a key with an empty value is removed, the rest is kept as text."""
    for option in options:
        value = _as_text(option.value)
        if value:
            vm.extra_config[option.key] = value
        else:
            vm.extra_config.pop(option.key, None)


def hardware_version(text: str, host: Host | None) -> int:
    """Return the number in `vmx-19`. Raises for what no host, or not this host, runs."""
    found = _VERSION.fullmatch(text)
    if found is None:
        raise refusals.bad_argument("version")
    number = int(found[1])
    if host is not None and number > hardware.max_hardware_version(host):
        raise refusals.too_new(host)
    return number


def _check_running(vm: VirtualMachine, spec: Any) -> None:
    refused = [name for name in NEEDS_OFF if getattr(spec, name, None) is not None]
    if spec.bootOptions is not None and spec.bootOptions.efiSecureBootEnabled is not None:
        refused.append("bootOptions.efiSecureBootEnabled")
    keys = [option.key for option in spec.extraConfig or () if NEEDS_OFF_KEYS.match(option.key)]
    grows_cpus = spec.numCPUs is not None and spec.numCPUs != vm.cpus
    grows_memory = spec.memoryMB is not None and spec.memoryMB != vm.memory_mib
    pinned = any(is_passthrough(device) for device in vm.devices.values())
    bad_cpus = grows_cpus and not (vm.cpu_hot_add and spec.numCPUs > vm.cpus)
    bad_memory = grows_memory and (pinned or not (vm.memory_hot_add and spec.memoryMB > vm.memory_mib))
    if grows_cpus and vm.cpus <= MOST_SOCKETS < spec.numCPUs:
        raise refuse("too-many-sockets", invalidProperty="configSpec.numCPUs")
    if refused or keys or bad_cpus or bad_memory:
        raise refusals.wrong_power_state(vm, "poweredOff")


def _positive(value: int, path: str) -> int:
    if value < 1:
        raise refusals.bad_config(f"configSpec.{path}")
    return int(value)


def _as_text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    return str(value)


def apply_policies(state: LabState, draft: VirtualMachine, spec: Any, before: set[int]) -> None:
    """Take the policies of a ConfigSpec; `before` are the keys of the devices that stood there."""
    _set_home(state, draft, spec.vmProfile, "spec.vmProfile")
    new = [disk.key for disk in disks_of(draft.devices) if disk.key not in before]
    for change in spec.deviceChange or ():
        if not isinstance(change.device, vim.vm.device.VirtualDisk):
            continue
        key = new.pop(0) if change.operation == "add" and new else change.device.key
        policy = _named(state, change.profile, "spec.deviceChange.profile")
        if policy:
            draft.disk_policies[key] = policy
    draft.disk_policies = {key: one for key, one in draft.disk_policies.items() if key in draft.devices}


def apply_location(state: LabState, vm: VirtualMachine, location: Any) -> None:
    """Apply the policies of a clone's RelocateSpec; parts it does not name have none, as its source may."""
    vm.home_policy, vm.disk_policies = "", {}
    _set_home(state, vm, location.profile, "spec.location.profile")
    for disk in location.disk or ():
        if disk.diskId not in vm.devices:
            raise refusals.bad_argument("spec.location.disk.diskId")
        policy = _named(state, disk.profile, "spec.location.disk.profile")
        if policy:
            vm.disk_policies[disk.diskId] = policy


def _set_home(state: LabState, vm: VirtualMachine, profiles: Iterable[Any] | None, where: str) -> None:
    policy = _named(state, profiles, where)
    if policy:
        vm.home_policy = policy


def _named(state: LabState, profiles: Iterable[Any] | None, where: str) -> str:
    """Return the policy that a request names, "" for none."""
    for profile in profiles or ():
        if isinstance(profile, vim.vm.DefinedProfileSpec):
            if all(policy.id != profile.profileId for policy in state.storage_policies):
                raise refusals.bad_argument(where)
            return str(profile.profileId)
    return ""
