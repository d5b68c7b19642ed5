"""Rendering of a VM: its state, its configuration and devices, its guest's report, its snapshots."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.api.references import reference
from vgpu_cfg.lab.guest.system.creation import guest_of
from vgpu_cfg.lab.guest.system.nics import nics_of_guest
from vgpu_cfg.lab.renderers.entity import (
    ENTITY,
    GREEN,
    attribute,
    constant,
    custom_values,
    itself,
    under,
)
from vgpu_cfg.lab.renderers.inventory import unlimited
from vgpu_cfg.lab.renderers.table import Render
from vgpu_cfg.lab.rules.customization import PENDING_KEY
from vgpu_cfg.lab.rules.hardware import OLDEST_VNUMA_VERSION, reservation_mib
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.directory import service_of
from vgpu_cfg.lab.simulation.operations import Context, reference_to, referred
from vgpu_cfg.lab.state.devices import copy_with, disks_of, merged, network_of, nics_of, vgpus_of, with_uuid
from vgpu_cfg.lab.state.inventory import Cluster, Datastore, Host, Snapshot, VirtualMachine


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


def has_tools(thing: VirtualMachine) -> bool:
    """Whether the tools run: they are installed, and the guest is up."""
    return thing.is_on and thing.tools_installed and guest_of(thing).is_up


def _reported(value: Any, otherwise: Any = None) -> Render:
    """Return a renderer with one value while the tools run, and another while they do not."""
    return lambda _context, thing: value if has_tools(thing) else otherwise


def _version_status(_context: Context, thing: VirtualMachine) -> str:
    return "guestToolsUnmanaged" if thing.tools_installed else "guestToolsNotInstalled"


def _tools_status(_context: Context, thing: VirtualMachine) -> str:
    if not thing.tools_installed:
        return "toolsNotInstalled"
    return "toolsOk" if has_tools(thing) else "toolsNotRunning"


def addresses_of(context: Context, thing: VirtualMachine) -> list[str]:
    """Return the first address of each NIC, as the tools report them."""
    if not has_tools(thing):
        return []
    return [nic.ipv4 for nic in nics_of_guest(context.state, thing) if nic.ipv4]


def _address(context: Context, thing: VirtualMachine) -> str | None:
    return next(iter(addresses_of(context, thing)), None)


def _nics(context: Context, thing: VirtualMachine) -> list[Any] | None:
    """Render the tools' report of NICs: for a passed-through one no device of the VM is known."""
    if not has_tools(thing):
        return None
    return [
        vim.vm.GuestInfo.NicInfo(
            network=nic.network or None,
            ipAddress=[address.partition("/")[0] for address in nic.addresses],
            macAddress=nic.mac,
            connected=True,
            deviceConfigId=nic.key,
            ipConfig=vim.net.IpConfigInfo(
                ipAddress=[
                    vim.net.IpConfigInfo.IpAddress(
                        ipAddress=address.partition("/")[0],
                        prefixLength=int(address.partition("/")[2] or 32),
                        state="preferred",
                    )
                    for address in nic.addresses
                ]
            ),
        )
        for nic in nics_of_guest(context.state, thing)
    ]


TOOLS: dict[str, Render] = {
    "toolsStatus": _tools_status,
    "toolsVersionStatus": _version_status,
    "toolsVersionStatus2": _version_status,
    "toolsRunningStatus": _reported("guestToolsRunning", "guestToolsNotRunning"),
    "guestId": attribute(lambda thing: thing.guest_id if has_tools(thing) else None),
    "guestFullName": attribute(lambda thing: guest_full_name(thing.guest_id) if has_tools(thing) else None),
    "hostName": attribute(lambda thing: guest_of(thing).host_name if has_tools(thing) else None),
    "ipAddress": _address,
    "hwVersion": attribute(lambda thing: version_key(thing.hardware_version)),
}

GUEST: dict[str, Render] = {
    **TOOLS,
    "toolsVersion": attribute(lambda thing: "12389" if thing.tools_installed else "0"),
    "guestFamily": _reported("linuxGuest"),
    "net": _nics,
    "guestState": _reported("running", "notRunning"),
    "guestOperationsReady": _reported(value=True, otherwise=False),
    "interactiveGuestOperationsReady": constant(value=False),
    "guestStateChangeSupported": _reported(value=True, otherwise=False),
}


FIRST_DEVICE_GROUP_VERSION = 20


def _connection(context: Context, thing: VirtualMachine) -> str:
    host = context.state.find(thing.host, Host)
    return "connected" if host is None or host.connection == "connected" else "disconnected"


def _power_state(context: Context, thing: VirtualMachine) -> str:
    is_lost = _connection(context, thing) == "disconnected" and context.state.denies("lost-host-vm-states")
    return "poweredOff" if is_lost else thing.power_state


def _boot_time(_context: Context, thing: VirtualMachine) -> Any:
    return as_datetime(thing.boot_time) if thing.boot_time is not None and thing.is_on else None


def _uptime(context: Context, thing: VirtualMachine) -> int:
    if thing.boot_time is None or not thing.is_on:
        return 0
    return max(0, int(context.lab.clock.now() - thing.boot_time))


def _max_cpu(context: Context, thing: VirtualMachine) -> int | None:
    host = context.state.find(thing.host, Host)
    return thing.cpus * host.cpu_mhz if host is not None else None


def _cpu_use(context: Context, thing: VirtualMachine) -> int:
    """Return a VM's CPU use; one without a value in the estate is busy."""
    if not thing.is_on:
        return 0
    most = _max_cpu(context, thing) or 0
    return most // 4 if thing.cpu_mhz is None else min(thing.cpu_mhz, most)


def _on(value: Any, otherwise: Any = None) -> Render:
    return lambda _context, thing: value if thing.is_on else otherwise


_RUNTIME: dict[str, Render] = {
    "device": constant([]),
    "host": lambda context, thing: reference_to(context, thing.host),
    "connectionState": _connection,
    "powerState": _power_state,
    "faultToleranceState": constant("notConfigured"),
    "toolsInstallerMounted": constant(value=False),
    "bootTime": _boot_time,
    "suspendInterval": constant(0),
    "maxCpuUsage": _max_cpu,
    "maxMemoryUsage": attribute(lambda thing: thing.memory_mib),
    "numMksConnections": constant(0),
    "recordReplayState": constant("inactive"),
    "cleanPowerOff": attribute(lambda thing: None if thing.is_on else True),
    "onlineStandby": constant(value=False),
    "consolidationNeeded": constant(value=False),
    "paused": constant(value=False),
    "snapshotInBackground": constant(value=False),
    "iommuActive": _on(value=False),
}

UNMEASURED = (
    "balloonedMemory",
    "compressedMemory",
    "consumedOverheadMemory",
    "overallCpuDemand",
    "privateMemory",
    "sharedMemory",
    "ssdSwappedMemory",
    "swappedMemory",
)
"""vCenter's measurements of a VM, for scripts that add them up; the lab's hosts never run short."""

_SUMMARY: dict[str, Render] = {
    "vm": itself,
    **under("runtime", _RUNTIME),
    **under("guest", TOOLS),
    "config.name": attribute(lambda thing: thing.name),
    "config.template": attribute(lambda thing: thing.is_template),
    "config.vmPathName": vmx_path,
    "config.memorySizeMB": attribute(lambda thing: thing.memory_mib),
    "config.cpuReservation": attribute(lambda thing: thing.cpu_reservation_mhz),
    "config.memoryReservation": attribute(reservation_mib),
    "config.numCpu": attribute(lambda thing: thing.cpus),
    "config.numEthernetCards": attribute(lambda thing: len(nics_of(thing.devices))),
    "config.numVirtualDisks": attribute(lambda thing: len(disks_of(thing.devices))),
    "config.uuid": attribute(lambda thing: thing.uuid),
    "config.instanceUuid": attribute(lambda thing: thing.instance_uuid),
    "config.guestId": attribute(lambda thing: thing.guest_id),
    "config.guestFullName": attribute(lambda thing: guest_full_name(thing.guest_id)),
    "config.annotation": attribute(lambda thing: thing.annotation),
    "config.managedBy": attribute(lambda thing: thing.extra.get("managedBy")),
    "config.numVmiopBackings": attribute(lambda thing: len(vgpus_of(thing.devices))),
    "config.hwVersion": attribute(lambda thing: version_key(thing.hardware_version)),
    "storage.committed": attribute(committed),
    "storage.uncommitted": constant(0),
    "storage.unshared": attribute(committed),
    "storage.timestamp": lambda context, _thing: as_datetime(context.lab.clock.now()),
    "quickStats.overallCpuUsage": _cpu_use,
    "quickStats.guestMemoryUsage": _on(1024, 0),
    "quickStats.hostMemoryUsage": attribute(lambda thing: thing.memory_mib if thing.is_on else 0),
    **{f"quickStats.{name}": constant(0) for name in UNMEASURED},
    "quickStats.guestHeartbeatStatus": _on("green", "gray"),
    "quickStats.uptimeSeconds": _uptime,
    "overallStatus": GREEN,
    "customValue": custom_values,
}


def _browser(context: Context, thing: VirtualMachine) -> Any:
    """Render the environment browser of the VM's compute resource, any one where it has no host."""
    host = context.state.find(thing.host, Host)
    clusters = [context.state.cluster_of(host)] if host is not None else context.state.all(Cluster)
    owner = next(iter(clusters), None)
    return None if owner is None else reference(service_of(owner, "envbrowser"))


def _storage(context: Context, thing: VirtualMachine) -> Any:
    used = committed(thing)
    usage = [
        vim.vm.StorageInfo.UsageOnDatastore(datastore=datastore, committed=used, uncommitted=0, unshared=used)
        for datastore in datastores(context, thing)[:1]
    ]
    return vim.vm.StorageInfo(perDatastoreUsage=usage, timestamp=as_datetime(context.lab.clock.now()))


def _layout(context: Context, _thing: VirtualMachine) -> Any:
    return vim.vm.FileLayoutEx(timestamp=as_datetime(context.lab.clock.now()))


def _resource_config(context: Context, thing: VirtualMachine) -> Any:
    return vim.ResourceConfigSpec(
        entity=vim.VirtualMachine(thing.moid),
        cpuAllocation=cpu_allocation(context, thing),
        memoryAllocation=memory_allocation(context, thing),
    )


def _snapshot_info(context: Context, thing: VirtualMachine) -> Any:
    if not thing.snapshots:
        return None
    current = reference_to(context, thing.current_snapshot)
    return vim.vm.SnapshotInfo(currentSnapshot=current, rootSnapshotList=_tree(context, thing, None))


def _tree(context: Context, thing: VirtualMachine, previous: str | None) -> list[Any]:
    """Render the snapshots that follow another one, None for the first."""
    found = (context.state.get(moid, Snapshot) for moid in thing.snapshots)
    return [
        vim.vm.SnapshotTree(
            snapshot=reference(snapshot),
            vm=vim.VirtualMachine(thing.moid),
            name=snapshot.name,
            description=snapshot.description,
            id=snapshot.number,
            createTime=as_datetime(snapshot.created),
            state="poweredOff",
            quiesced=False,
            childSnapshotList=_tree(context, thing, snapshot.moid),
        )
        for snapshot in found
        if snapshot.previous == previous
    ]


def _root_snapshots(context: Context, thing: VirtualMachine) -> list[Any]:
    found = (context.state.get(moid, Snapshot) for moid in thing.snapshots)
    return [reference(snapshot) for snapshot in found if snapshot.previous is None]


def vm_capability(hardware_version: int) -> Any:
    """Return the capabilities of a VM of a hardware version, as far as clients read them."""
    return vim.vm.Capability(
        snapshotOperationsSupported=True,
        multipleSnapshotsSupported=True,
        snapshotConfigSupported=True,
        poweredOffSnapshotsSupported=True,
        memorySnapshotsSupported=True,
        revertToSnapshotSupported=True,
        bootOptionsSupported=True,
        multipleCoresPerSocketSupported=True,
        memoryReservationLockSupported=True,
        secureBootSupported=True,
        vendorDeviceGroupSupported=hardware_version >= FIRST_DEVICE_GROUP_VERSION,
    )


def _url_pairs(context: Context, thing: VirtualMachine) -> list[Any]:
    datastore = context.state.find(thing.datastore, Datastore)
    pair: Any = vim.vm.ConfigInfo.DatastoreUrlPair
    return [] if datastore is None else [pair(name=datastore.name, url=datastore.url)]


VIRTUAL_MACHINE: dict[str, Render] = {
    **ENTITY,
    "capability": attribute(lambda thing: vm_capability(thing.hardware_version)),
    **under("config", VM_CONFIG),
    "config.datastoreUrl": _url_pairs,
    "layoutEx": _layout,
    "storage": _storage,
    "environmentBrowser": _browser,
    "resourcePool": lambda context, thing: reference_to(context, thing.resource_pool),
    "resourceConfig": _resource_config,
    **under("runtime", _RUNTIME),
    **under("guest", GUEST),
    **under("summary", _SUMMARY),
    "datastore": datastores,
    "network": networks,
    "snapshot": _snapshot_info,
    "rootSnapshot": _root_snapshots,
    "guestHeartbeatStatus": _on("green", "gray"),
}

SNAPSHOT: dict[str, Render] = {
    "value": constant([]),
    "availableField": constant([]),
    "vm": attribute(lambda thing: vim.VirtualMachine(thing.parent)),
    "childSnapshot": lambda context, thing: [
        reference(other) for other in context.state.all(Snapshot) if other.previous == thing.moid
    ],
}
"""Without `config`: the lab keeps no copy of it."""
