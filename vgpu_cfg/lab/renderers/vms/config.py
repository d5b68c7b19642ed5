"""Rendering of a VM's configuration: checked fields from the state, the rest as the client once sent it.

Rendering of a VM's devices: those of each controller, and the networks and datastores they use.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.entity import attribute, constant
from vgpu_cfg.lab.renderers.inventory import unlimited
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.rules.customization import PENDING_KEY
from vgpu_cfg.lab.rules.hardware import OLDEST_VNUMA_VERSION, reservation_mib
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.context import Context, referred
from vgpu_cfg.lab.state.devices import copy_with, disks_of, merged, network_of, nics_of, with_uuid
from vgpu_cfg.lab.state.inventory import Datastore, VirtualMachine

MIB = 1024 * 1024


def devices(context: Context, thing: VirtualMachine) -> list[Any]:
    """Render the devices by key; controllers list the keys of their devices."""
    attached: dict[int, list[int]] = {}
    for key, device in thing.devices.items():
        if device.controllerKey is not None:
            attached.setdefault(device.controllerKey, []).append(key)
    return [_with_attached(device, attached.get(key)) for key, device in sorted(thing.devices.items())]


def _with_attached(device: Any, keys: list[int] | None) -> Any:
    """Return a controller that knows its devices, and a disk that an earlier lab has kept with a UUID.

    Values are shared between VMs, so it is a copy.
    """
    if isinstance(device, vim.vm.device.VirtualDisk) and not getattr(device.backing, "uuid", ""):
        return with_uuid(device)
    if not keys or not isinstance(device, vim.vm.device.VirtualController):
        return device
    shown = copy.copy(device)
    shown.device = sorted(keys)
    return shown


def networks(context: Context, thing: VirtualMachine) -> list[Any]:
    """Render the networks of the VM's NICs, each once."""
    moids = dict.fromkeys(network_of(nic) for nic in nics_of(thing.devices))
    return referred(context, filter(None, moids))


def datastores(context: Context, thing: VirtualMachine) -> list[Any]:
    """Render the datastores that hold the VM's files."""
    moids = dict.fromkeys([thing.datastore] if thing.datastore else [])
    for disk in disks_of(thing.devices):
        datastore = getattr(disk.backing, "datastore", None)
        if datastore is not None:
            moids[datastore._moId] = None
    return referred(context, moids)


def committed(thing: VirtualMachine) -> int:
    """Return the bytes that a VM's disks take; the lab counts them whole."""
    return sum((disk.capacityInKB or 0) * 1024 for disk in disks_of(thing.devices))


GUEST_NAMES = {
    "ubuntu64Guest": "Ubuntu Linux (64-bit)",
    "rhel8_64Guest": "Red Hat Enterprise Linux 8 (64-bit)",
    "rhel9_64Guest": "Red Hat Enterprise Linux 9 (64-bit)",
    "rockylinux_64Guest": "Rocky Linux (64-bit)",
    "almalinux_64Guest": "AlmaLinux (64-bit)",
    "sles15_64Guest": "SUSE Linux Enterprise 15 (64-bit)",
    "debian12_64Guest": "Debian GNU/Linux 12 (64-bit)",
    "windows2019srvNext_64Guest": "Microsoft Windows Server 2022 (64-bit)",
    "windows11_64Guest": "Microsoft Windows 11 (64-bit)",
}


def guest_full_name(guest_id: str) -> str:
    """Return what vCenter calls a guest; the id itself for one that the lab has no name for."""
    return GUEST_NAMES.get(guest_id, guest_id)


def version_key(hardware_version: int) -> str:
    """Return a hardware version as the API writes it: `vmx-09`, `vmx-21`."""
    return f"vmx-{hardware_version:02d}"


def home_path(context: Context, thing: VirtualMachine) -> str:
    """Return the folder of a VM's files, `[datastore] folder/`."""
    datastore = context.state.find(thing.datastore, Datastore)
    return f"[{datastore.name if datastore is not None else ''}] {thing.home or thing.name}/"


def vmx_path(context: Context, thing: VirtualMachine) -> str:
    """Return the path of a VM's configuration file."""
    return f"{home_path(context, thing)}{thing.home or thing.name}.vmx"


def _files(context: Context, thing: VirtualMachine) -> Any:
    home = home_path(context, thing)
    return vim.vm.FileInfo(
        vmPathName=vmx_path(context, thing), snapshotDirectory=home, suspendDirectory=home, logDirectory=home
    )


def _flags(_context: Context, thing: VirtualMachine) -> Any:
    sent = thing.extra.get("flags")
    flags = vim.vm.FlagInfo(
        disableAcceleration=False,
        enableLogging=True,
        useToe=False,
        runWithDebugInfo=False,
        monitorType="release",
        htSharing="any",
        snapshotDisabled=False,
        snapshotLocked=False,
        diskUuidEnabled=False,
        snapshotPowerOffBehavior="powerOff",
        recordReplayEnabled=False,
        faultToleranceType="unset",
        cbrcCacheEnabled=False,
        vvtdEnabled=False,
        vbsEnabled=False,
    )
    return merged(flags, sent)


def _tools(_context: Context, thing: VirtualMachine) -> Any:
    info = thing.extra.get("tools") or vim.vm.ToolsConfigInfo(
        toolsVersion=12389,
        afterPowerOn=True,
        afterResume=True,
        beforeGuestStandby=True,
        beforeGuestShutdown=True,
        toolsUpgradePolicy="manual",
        syncTimeWithHost=False,
        lastInstallInfo=vim.vm.ToolsConfigInfo.ToolsLastInstallInfo(counter=0),
    )
    if thing.customization is None:
        return info
    return copy_with(info, pendingCustomization=thing.extra_config.get(PENDING_KEY))


def _power_ops(_context: Context, thing: VirtualMachine) -> Any:
    return thing.extra.get("powerOpInfo") or vim.vm.DefaultPowerOpInfo(
        powerOffType="soft",
        suspendType="hard",
        resetType="soft",
        defaultPowerOffType="soft",
        defaultSuspendType="hard",
        defaultResetType="soft",
        standbyAction="checkpoint",
    )


def memory_allocation(_context: Context, thing: VirtualMachine) -> Any:
    """Return the sent allocation with the reservation that holds: a locked one follows the memory's size."""
    shown = unlimited(reservation=reservation_mib(thing), expandable=False)
    sent = thing.extra.get("memoryAllocation")
    if sent is not None:
        shown.limit = sent.limit if sent.limit is not None else shown.limit
        shown.shares = sent.shares or shown.shares
    return shown


def cpu_allocation(_context: Context, thing: VirtualMachine) -> Any:
    """Return the sent allocation with the reservation that holds."""
    shown = merged(unlimited(expandable=False), thing.extra.get("cpuAllocation"))
    return copy_with(shown, reservation=thing.cpu_reservation_mhz)


def _boot_options(_context: Context, thing: VirtualMachine) -> Any:
    usual = vim.vm.BootOptions(
        enterBIOSSetup=False, bootRetryEnabled=False, bootRetryDelay=10000, networkBootProtocol="ipv4"
    )
    return copy_with(
        merged(usual, thing.extra.get("bootOptions")),
        bootDelay=thing.boot_delay_ms,
        efiSecureBootEnabled=thing.secure_boot,
    )


def extra_config(context: Context, thing: VirtualMachine) -> list[Any]:
    """Render the advanced settings."""
    kept = thing.extra_config.items()
    if context.state.denies("vmx-options-ignore-case"):
        kept = {key.lower(): value for key, value in kept}.items()
    return [vim.option.OptionValue(key=key, value=value) for key, value in kept]


def _numa(_context: Context, thing: VirtualMachine) -> Any:
    if thing.hardware_version < OLDEST_VNUMA_VERSION:
        return None
    sent = thing.extra.get("virtualNuma")
    cores = (sent.coresPerNumaNode if sent is not None else None) or 0
    return vim.vm.VirtualNumaInfo(
        coresPerNumaNode=cores or thing.cpus,
        autoCoresPerNumaNode=not cores,
        vnumaOnCpuHotaddExposed=bool(sent is not None and sent.exposeVnumaOnCpuHotadd),
    )


def _device_groups(_context: Context, thing: VirtualMachine) -> Any:
    if not thing.device_groups:
        return None
    group: Any = vim.vm.VirtualDeviceGroups.VendorDeviceGroup
    return vim.vm.VirtualDeviceGroups(
        deviceGroup=[
            group(groupInstanceKey=key, deviceGroupName=name) for key, name in thing.device_groups.items()
        ]
    )


def _latency(_context: Context, thing: VirtualMachine) -> Any:
    sent = thing.extra.get("latencySensitivity") or vim.LatencySensitivity()
    return copy_with(sent, level=thing.latency_sensitivity)


def _sent(name: str) -> Render:
    return lambda _context, thing: thing.extra.get(name)


def _unchecked(shown: Any, sent: Any) -> Iterator[str]:
    """Yield the properties that a spec and what shows it have in common, by name and type."""
    known = {info.name: info.type for info in sent._GetPropertyList()}
    for info in shown._GetPropertyList():
        if not info.name.startswith("dynamic") and known.get(info.name) is info.type:
            yield info.name


VM_CONFIG: dict[str, Render] = {
    **{name: _sent(name) for name in _unchecked(vim.vm.ConfigInfo, vim.vm.ConfigSpec)},
    "changeVersion": attribute(lambda thing: thing.current_change_version()),
    "modified": attribute(lambda thing: as_datetime(thing.created)),
    "name": attribute(lambda thing: thing.name),
    "guestFullName": attribute(lambda thing: guest_full_name(thing.guest_id)),
    "version": attribute(lambda thing: version_key(thing.hardware_version)),
    "uuid": attribute(lambda thing: thing.uuid),
    "createDate": attribute(lambda thing: as_datetime(thing.created)),
    "instanceUuid": attribute(lambda thing: thing.instance_uuid),
    "template": attribute(lambda thing: thing.is_template),
    "guestId": attribute(lambda thing: thing.guest_id),
    "alternateGuestName": attribute(lambda thing: thing.extra.get("alternateGuestName") or ""),
    "annotation": attribute(lambda thing: thing.annotation),
    "files": _files,
    "tools": _tools,
    "flags": _flags,
    "defaultPowerOps": _power_ops,
    **{
        f"hardware.{name}": _sent(name)
        for name in _unchecked(vim.vm.VirtualHardware, vim.vm.ConfigSpec)
        if name != "memoryMB"
    },
    "hardware.numCPU": attribute(lambda thing: thing.cpus),
    "hardware.numCoresPerSocket": attribute(lambda thing: thing.cores_per_socket),
    "hardware.memoryMB": attribute(lambda thing: thing.memory_mib),
    "hardware.device": devices,
    "cpuAllocation": cpu_allocation,
    "memoryAllocation": memory_allocation,
    "latencySensitivity": _latency,
    "memoryHotAddEnabled": attribute(lambda thing: thing.memory_hot_add),
    "cpuHotAddEnabled": attribute(lambda thing: thing.cpu_hot_add),
    "extraConfig": extra_config,
    "bootOptions": _boot_options,
    "firmware": attribute(lambda thing: thing.firmware),
    "memoryReservationLockedToMax": attribute(lambda thing: thing.memory_reservation_locked),
    "numaInfo": _numa,
    "deviceGroups": _device_groups,
    "swapPlacement": attribute(lambda thing: thing.extra.get("swapPlacement") or "inherit"),
    "vcpuConfig": constant(None),
}
"""The properties below `config`."""
