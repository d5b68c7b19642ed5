"""A VM's properties as plain values: power, owner mark, manager and, in detail, hardware and guest.

vCenter gives each version of a VM's configuration a name of its own: "each change to the configuration
updates this value" (VirtualMachineConfigInfo.changeVersion, vSphere API reference). A detail of the same
version needs no second reading, except for the parts outside of the configuration (`moving`).

Belief: edits-move-change-version, guest-values-move-change-version, vm-operator-marks-vms,
bosh-names-its-deployment, eam-marks-agents.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from pyVmomi import vim

from vgpu_cfg.model.guests.guest import (
    DRIVER_KEY,
    REDACTED,
    REPORT_KEY,
    TRAINING_REPORT_KEY,
    USERDATA_KEY,
    WITHHELD,
)
from vgpu_cfg.model.observed.vm import (
    AFFINITY_KEY,
    MARK_PLAN_KEY,
    MARK_VM_KEY,
    NAMESPACED_NAME_KEY,
    DiskController,
    DvxDevice,
    GuestNicSeen,
    GuestSeen,
    Manager,
    OwnerMark,
    PassthroughDevice,
    PowerState,
    SettingValue,
    SubIds,
    VgpuDevice,
    VirtualDisk,
    VirtualNic,
    Vm,
    VmDetail,
)
from vgpu_cfg.planning.capacity.pci_tree import SIZE_KEY, USE_KEY
from vgpu_cfg.planning.vms.settings.extra_config_rows import P2P_KEYS
from vgpu_cfg.planning.vms.settings.table import READ_PATHS
from vgpu_cfg.vsphere.reading.hosts import pci_address
from vgpu_cfg.vsphere.reading.passes import extra_config_path
from vgpu_cfg.vsphere.reading.places import Places
from vgpu_cfg.vsphere.reading.tags import custom_attributes
from vgpu_cfg.vsphere.wire.collector import Item
from vgpu_cfg.vsphere.wire.leaves import plain

CORES_KEY = "cpuid.coresPerSocket"
OWN_KEYS = ("numa.", "pciPassthru", "vgpu_cfg.", CORES_KEY)
"""Prefixes of the extraConfig keys that are always kept."""
_REPORTS = (REPORT_KEY, TRAINING_REPORT_KEY, DRIVER_KEY)
_PASSTHROUGH_KEY = "pciPassthru"
_SPELLED = {key.casefold(): key for key in (AFFINITY_KEY, USE_KEY, SIZE_KEY, *P2P_KEYS, CORES_KEY)}
"""The keys among them that a server may show in another case."""

_DEVICES_KEPT = 4096
_HARDWARE = re.compile(r"vmx-(\d+)")

# pyvmomi looks each of its types up anew wherever it is named.
_PASSTHROUGH: Any = vim.vm.device.VirtualPCIPassthrough
_VGPU: Any = _PASSTHROUGH.VmiopBackingInfo
_FIXED: Any = _PASSTHROUGH.DeviceBackingInfo
_DYNAMIC: Any = _PASSTHROUGH.DynamicBackingInfo
_DVX: Any = _PASSTHROUGH.DvxBackingInfo
_CARD: Any = vim.vm.device.VirtualEthernetCard
_DISTRIBUTED: Any = _CARD.DistributedVirtualPortBackingInfo
_STANDARD: Any = _CARD.NetworkBackingInfo
_OPAQUE: Any = _CARD.OpaqueNetworkBackingInfo
_DISK: Any = vim.vm.device.VirtualDisk
_CD: Any = vim.vm.device.VirtualCdrom
_USB: Any = vim.vm.device.VirtualUSB
_NOT_SHARED = "sharingNone"
_TPM: Any = vim.vm.device.VirtualTPM
_NIC_KINDS: Mapping[str, str] = {
    "VirtualSriovEthernetCard": "sriov",
    "VirtualVmxnet3Vrdma": "pvrdma",
}
_AUTOMATIC = "Automatic"
"""How the id of a physical function begins that vSphere chooses from the network's device pool."""
_CONTROLLER_KINDS: Mapping[Any, str] = {
    vim.vm.device.VirtualSCSIController: "scsi",
    vim.vm.device.VirtualNVMEController: "nvme",
    vim.vm.device.VirtualSATAController: "sata",
    vim.vm.device.VirtualIDEController: "ide",
}

TOOLS_RUNNING = "guestToolsRunning"
"""vim `VirtualMachineToolsRunningStatus`; the other states are that they do not run, or run scripts."""

_GONE = frozenset({"deprecated", "duplicate", "inaccessible", "invalid"})
"""vim `NetIpConfigInfoIpAddressStatus` of addresses that the guest does not use."""


def hardware_version(text: str | None) -> int | None:
    """Return 21 for "vmx-21"; None if it is not a hardware version."""
    found = _HARDWARE.fullmatch(text or "")
    return int(found.group(1)) if found else None


def make_vm(places: Places, item: Item, detail: VmDetail | None) -> Vm:
    """Make a VM of its light properties and, if its configuration was read, its detail."""
    state = str(item.get("runtime.powerState", PowerState.OFF.value))
    name = places.name(item)
    mark = owner_mark(item)
    uuid = str(item.get("config.instanceUuid", ""))
    is_own = mark is not None and (not mark.id or mark.instance_uuid == uuid.lower())
    # Belief: disk-uuid-exists.
    return Vm.one_of_many(
        moid=item.moid,
        name=name,
        inventory_path=places.path_under(item.moid_of("parent"), item.get("name", item.moid)),
        folder_moid=item.moid_of("parent"),
        host_moid=item.moid_of("runtime.host"),
        power_state=PowerState(state),
        is_template=item.get("config.template", False),
        instance_uuid=uuid,
        mark=mark,
        manager=None if is_own else manager_of(item, detail.attributes if detail is not None else {}),
        detail=detail,
    )


def owner_mark(item: Item) -> OwnerMark | None:
    """Return a VM's owner mark, None where it has none."""
    plan, vm = (item.get(extra_config_path(key)) for key in (MARK_PLAN_KEY, MARK_VM_KEY))
    if plan is None or not plan.value:
        return None
    return OwnerMark.parse(str(plan.value), "" if vm is None else str(vm.value))


VM_OPERATOR = "com.vmware.vcenter.wcp"


AGENT_MANAGER = "com.vmware.vim.eam"


_BOSH = ("director", "deployment")
"""The custom attributes by which BOSH's vSphere CPI names who deployed a VM, and with what."""


def manager_of(item: Item, attributes: Mapping[str, str]) -> Manager | None:
    """Return the product that manages a VM, by its extension (vim `ManagedByInfo`) or other marks."""
    managed_by = item.get("config.managedBy")
    extension = getattr(managed_by, "extensionKey", None) or ""
    named = item.get(extra_config_path(NAMESPACED_NAME_KEY))
    namespace, slash, _ = str(named.value if named is not None else "").partition("/")
    if slash and namespace:
        return Manager(product="VM Operator", group=f"namespace {namespace}")
    if extension == VM_OPERATOR:
        return Manager(product="VM Operator")
    if extension == AGENT_MANAGER:
        return Manager(product="ESX Agent Manager", is_agent=True)
    if extension:
        return Manager(product=f"the extension {extension}")
    if all(attributes.get(name) for name in _BOSH):
        return Manager(product="BOSH", group=f"deployment {attributes['deployment']}")
    return None


def make_detail(item: Item, keys: frozenset[str], *, option_names: bool = False) -> VmDetail | None:
    """Make the detail of a VM; `keys` are the extraConfig keys to keep in addition to the tool's own.

    With `option_names` the names of the others are kept, too. None where the configuration could not be
    read, as it cannot of an inaccessible VM.
    """
    devices = item.get("config.hardware.device")
    if devices is None:
        return None
    functions = [device for device in devices if isinstance(device, _PASSTHROUGH)]
    kept = dict(_extra_config(item, keys))
    names = {key.casefold() for key in kept}
    return VmDetail.one_of_many(
        change_version=item.get("config.changeVersion", ""),
        hardware_version=hardware_version(item.get("config.version")),
        guest_id=item.get("config.guestId", ""),
        firmware=item.get("config.firmware", ""),
        cpus=item.get("config.hardware.numCPU", 0),
        cores_per_socket=item.get("config.hardware.numCoresPerSocket", 1) or 1,
        memory_mib=item.get("config.hardware.memoryMB", 0),
        memory_reservation_mib=item.get("config.memoryAllocation.reservation", 0),
        memory_reservation_locked=item.get("config.memoryReservationLockedToMax", False),
        extra_config=kept,
        option_names=tuple(
            sorted(
                option.key
                for option in item.get("config.extraConfig") or ()
                if option_names and option.key.casefold() not in names
            )
        ),
        vgpus=tuple(vgpus(functions)),
        device_groups=dict(_device_groups(item)),
        cores_per_numa_node=_cores_per_numa_node(item),
        passthrough=tuple(passthroughs(functions)),
        dvx=tuple(dvx(functions)),
        nics=tuple(nics(devices)),
        disks=tuple(_disks(devices)),
        controllers=tuple(_controllers(devices)),
        options=dict(_options(item)),
        media=tuple(_media(devices)),
        tpm_key=next((device.key for device in devices if isinstance(device, _TPM)), None),
        **moving(item),
    )


def moving(item: Item) -> dict[str, Any]:
    """Return those fields of a VM's detail that are no part of its configuration."""
    return {
        "attributes": custom_attributes(item),
        "resource_pool_moid": item.moid_of("resourcePool") or "",
        "datastore_moids": item.moids_of("datastore"),
        "snapshot_moid": item.moid_of("snapshot.currentSnapshot"),
        "cpu_mhz": item.get("summary.quickStats.overallCpuUsage"),
        "max_cpu_mhz": item.get("runtime.maxCpuUsage"),
        "uptime_seconds": item.get("summary.quickStats.uptimeSeconds"),
        "guest": guest_seen(item),
        "tools_status": item.get("guest.toolsVersionStatus2") or "",
    }


def _extra_config(item: Item, keys: frozenset[str]) -> Iterable[tuple[str, str]]:
    """Yield the extraConfig pairs that are kept; of a guest's user data, which holds secrets, only its state.

    User data named in `keys` are in the plan file anyway. A name in another case is the same, unless the VM
    has both: the spelling that is asked for comes last, and counts.
    """
    # Belief: vmx-options-ignore-case.
    asked = _SPELLED | {key.casefold(): key for key in keys}
    options = item.get("config.extraConfig") or ()
    for option in sorted(options, key=lambda one: one.key in keys):
        value, key = str(option.value), asked.get(option.key.casefold(), option.key)
        if key.casefold().startswith(_PASSTHROUGH_KEY.casefold()):
            key = f"{_PASSTHROUGH_KEY}{key[len(_PASSTHROUGH_KEY) :]}"
        if key in keys or key.startswith(OWN_KEYS) or key in _REPORTS:
            yield key, value
        elif key == USERDATA_KEY:
            yield key, value if value in ("", REDACTED) else WITHHELD


def _options(item: Item) -> Iterable[tuple[str, SettingValue]]:
    """Yield the values of the rows of the table of VM settings, by their keys."""
    for path, setting in READ_PATHS.items():
        value = item.get(path)
        if value is not None:
            yield setting.key, plain(value)


def vgpus(devices: Iterable[Any]) -> Iterable[VgpuDevice]:
    """Yield those of a VM's devices that are vGPUs."""
    for device in devices:
        backing = device.backing if isinstance(device, _PASSTHROUGH) else None
        if isinstance(backing, _VGPU):
            yield _vgpu(
                key=device.key,
                profile=backing.vgpu or "",
                group_key=_group_key(device),
                migrates=getattr(backing, "migrateSupported", None),
                numa_node=_numa_node(device),
            )


# Thousands of VMs have the same of these devices, down to the keys: each is made once.


@lru_cache(_DEVICES_KEPT)
def _vgpu(**fields: Any) -> VgpuDevice:
    return VgpuDevice(**fields)


@lru_cache(_DEVICES_KEPT)
def _controller(key: int, kind: str) -> DiskController:
    return DiskController(key=key, kind=kind)


def _group_key(device: Any) -> int | None:
    group = getattr(device, "deviceGroupInfo", None)
    return None if group is None else int(group.groupInstanceKey)


def _device_groups(item: Item) -> Iterable[tuple[int, str]]:
    """Yield key and name of the vendor's device groups; a group of another kind has no name."""
    # Belief: groups-are-read-back, group-members-show-as-devices.
    for group in getattr(item.get("config.deviceGroups"), "deviceGroup", None) or ():
        yield group.groupInstanceKey, getattr(group, "deviceGroupName", None) or ""


def _cores_per_numa_node(item: Item) -> int | None:
    """Return the cores of a virtual NUMA node as they were set, 0 where ESXi shapes the nodes."""
    info = item.get("config.numaInfo")
    if info is None:
        return None
    return 0 if info.autoCoresPerNumaNode else info.coresPerNumaNode or 0


def _numa_node(device: Any) -> int | None:
    """Return the virtual NUMA node that is set for a device; a negative one is none."""
    node = getattr(device, "numaNode", None)
    return None if node is None or node < 0 else int(node)


def passthroughs(devices: Iterable[Any]) -> Iterable[PassthroughDevice]:
    """Yield those of a VM's devices that are functions of its host, fixed or dynamic."""
    for device in devices:
        backing = device.backing if isinstance(device, _PASSTHROUGH) else None
        if isinstance(backing, _FIXED):
            yield PassthroughDevice.one_of_many(
                key=device.key,
                pci_id=pci_address(backing.id or ""),
                system_id=backing.systemId or None,
                numa_node=_numa_node(device),
                group_key=_group_key(device),
            )
        elif isinstance(backing, _DYNAMIC):
            allowed = backing.allowedDevice or ()
            narrowed = tuple(map(_sub_ids, allowed))
            yield PassthroughDevice.one_of_many(
                key=device.key,
                allowed=tuple((entry.vendorId & 0xFFFF, entry.deviceId & 0xFFFF) for entry in allowed),
                sub_ids=narrowed if any(ids != _ANY for ids in narrowed) else (),
                group_key=_group_key(device),
                label=backing.customLabel or None,
                assigned_id=pci_address(backing.assignedId) if backing.assignedId else None,
                numa_node=_numa_node(device),
            )


_ANY: SubIds = (None, None, None)


def _sub_ids(entry: Any) -> SubIds:
    vendor, device, revision = entry.subVendorId, entry.subDeviceId, entry.revisionId
    return (
        None if vendor is None else vendor & 0xFFFF,
        None if device is None else device & 0xFFFF,
        None if revision is None else revision & 0xFFFF,
    )


def dvx(devices: Iterable[Any]) -> Iterable[DvxDevice]:
    """Yield those of a VM's devices that are Enhanced DirectPath devices, and no NICs."""
    for device in devices:
        backing = device.backing if isinstance(device, _PASSTHROUGH) else None
        if isinstance(backing, _DVX):
            yield DvxDevice(
                key=device.key,
                device_class=backing.deviceClass or "",
                params={one.key: str(one.value) for one in backing.configParams or ()},
                group_key=_group_key(device),
            )


def nics(devices: Iterable[Any]) -> Iterable[VirtualNic]:
    """Yield those of a VM's devices that are virtual NICs."""
    for device in devices:
        if isinstance(device, _CARD):
            kind = device._wsdlName
            yield VirtualNic.one_of_many(
                key=device.key,
                kind=_NIC_KINDS.get(kind, kind.removeprefix("Virtual").lower()),
                network=_network(device.backing),
                mac=device.macAddress or "",
                function=_physical_function(device),
                dvx_class=getattr(getattr(device, "dvxBackingInfo", None), "deviceClass", None) or "",
                group_key=_group_key(device),
            )


def _physical_function(device: Any) -> str | None:
    """Return the address of the physical function behind a virtual one, None where vSphere chooses it."""
    backing = getattr(device, "sriovBacking", None)
    physical = None if backing is None else backing.physicalFunctionBacking
    address = "" if physical is None else physical.id or ""
    return None if not address or address.startswith(_AUTOMATIC) else pci_address(address)


def _network(backing: Any) -> str:
    if isinstance(backing, _DISTRIBUTED):
        return backing.port.portgroupKey or ""
    if isinstance(backing, _STANDARD):
        return "" if backing.network is None else str(backing.network._moId)
    return backing.opaqueNetworkId or "" if isinstance(backing, _OPAQUE) else ""


def _disks(devices: Iterable[Any]) -> Iterable[VirtualDisk]:
    for device in devices:
        if isinstance(device, _DISK):
            backing = device.backing
            store = getattr(backing, "datastore", None)
            sharing = getattr(backing, "sharing", None)
            yield VirtualDisk.one_of_many(
                key=device.key,
                capacity_mib=device.capacityInKB >> 10,
                controller_key=device.controllerKey or 0,
                uuid=(getattr(backing, "uuid", None) or "").lower(),
                file=getattr(backing, "fileName", None) or "",
                datastore_moid="" if store is None else str(store._moId),
                first_class_id=getattr(getattr(device, "vDiskId", None), "id", None) or "",
                lun_uuid=getattr(backing, "lunUuid", None) or "",
                is_shared=sharing not in (None, "", _NOT_SHARED),
                has_parent=getattr(backing, "parent", None) is not None,
            )


def _is_connected(drive: Any) -> bool:
    """Whether a drive is connected, or will be at the next power-on."""
    info = drive.connectable
    return info is not None and bool(info.connected or info.startConnected)


def _media(devices: Iterable[Any]) -> Iterable[str]:
    """Yield how USB devices and connected CD/DVD drives are called."""
    for device in devices:
        backing = getattr(device, "backing", None)
        name = getattr(backing, "fileName", None) or getattr(backing, "deviceName", None) or ""
        if isinstance(device, _USB):
            yield f"USB device {name}".rstrip()
        elif isinstance(device, _CD) and name and _is_connected(device):
            yield f"CD/DVD {name}"


def _controllers(devices: Iterable[Any]) -> Iterable[DiskController]:
    for device in devices:
        for kind, word in _CONTROLLER_KINDS.items():
            if isinstance(device, kind):
                yield _controller(device.key, word)


def guest_seen(item: Item) -> GuestSeen | None:
    """Make the data of a VM's guest; None if vCenter has none."""
    status = item.get("guest.toolsRunningStatus")
    if status is None and item.get("guest.net") is None and item.get("guest.hostName") is None:
        return None
    return GuestSeen.one_of_many(
        tools_running=str(status) == TOOLS_RUNNING,
        host_name=item.get("guest.hostName") or "",
        address=item.get("guest.ipAddress") or "",
        nics=tuple(_nics(item.get("guest.net") or ())),
    )


def _nics(nets: Iterable[Any]) -> Iterable[GuestNicSeen]:
    """Yield the guest's NICs; one without a MAC address is none of the VM's, such as docker0."""
    for net in nets:
        if net.macAddress:
            yield GuestNicSeen.one_of_many(
                mac=net.macAddress.casefold(), addresses=tuple(_addresses(net)), network=net.network or ""
            )


def _addresses(net: Any) -> Iterable[str]:
    """Yield the addresses in use, with their prefix lengths; plain ones if the tools report no more."""
    config = getattr(net, "ipConfig", None)
    if config is None:
        yield from net.ipAddress or ()
        return
    for one in config.ipAddress or ():
        if one.state not in _GONE:
            yield f"{one.ipAddress}/{one.prefixLength}"


_GUEST_KEYS = "guestinfo."
"""The prefixes of keys that a guest writes by itself; whether the version moves then is undocumented."""


def unchanged(items: Iterable[Item], before: Mapping[str, Vm]) -> dict[str, VmDetail]:
    """Return the details of those VMs whose configuration is as it was read before, by their moids.

    A VM that was switched, or moved to another host, is read again regardless of its version: devices show
    the assigned hardware.
    """
    found = {}
    for item in items:
        vm = before.get(item.moid)
        if vm is None or vm.detail is None or not _is_as_it_was(item, vm, vm.detail):
            continue
        fields = moving(item)
        is_still = all(getattr(vm.detail, name) == value for name, value in fields.items())
        found[item.moid] = vm.detail if is_still else vm.detail.model_copy(update=fields)
    return found


def _is_as_it_was(item: Item, vm: Vm, detail: VmDetail) -> bool:
    version = item.get("config.changeVersion", "")
    return (
        bool(version)
        and version == detail.change_version
        and item.get("config.instanceUuid", "") == vm.instance_uuid
        and item.moid_of("runtime.host") == vm.host_moid
        and str(item.get("runtime.powerState", "")) == vm.power_state.value
        and not any(key.startswith(_GUEST_KEYS) for key in detail.extra_config)
    )
