"""The observed inventory of a vCenter: hosts, GPUs, NUMA nodes, NICs, VMs, as plain values.

One reading makes one `Inventory`. Everything here is observed: nothing is
computed from the catalogue and nothing is desired. Sizes are MiB, PCI addresses
are lower-case `dddd:bb:dd.f`, PCI ids are unsigned integers (vSphere's API hands
them out as signed shorts), and a managed object is known by its `moid`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, Self

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.locks import Locks
from vgpu_cfg.model.observed.cordon import Cordon
from vgpu_cfg.model.observed.drs import ClusterRule, HostGroup, VmGroup, VmHostRule, VmOverrides
from vgpu_cfg.model.observed.gpu_use import AssignmentPolicy, GraphicsType, UseReading
from vgpu_cfg.model.observed.host_facts import EstateFacts, HostMark
from vgpu_cfg.model.observed.managed_object import ManagedObject
from vgpu_cfg.model.observed.own_items import CustomizationSpec, LibraryItem, SeenLicence, TagCategory
from vgpu_cfg.model.observed.past import PastEvent
from vgpu_cfg.model.observed.vm import SettingValue, SubIds, Vm, VmDetail
from vgpu_cfg.model.reservations import Reservations
from vgpu_cfg.model.vgpu import Sharing, VgpuMode

NVIDIA_VENDOR_ID = 0x10DE
ETHERNET, INFINIBAND = 0x0200, 0x0207
"""PCI classes of network controllers."""


class Connection(StrEnum):
    """vim `HostSystemConnectionState`."""

    CONNECTED = "connected"
    DISCONNECTED = "disconnected"
    NOT_RESPONDING = "notResponding"

    @property
    def words(self) -> str:
        """The words that follow the host's name in a sentence."""
        match self:
            case Connection.CONNECTED:
                return "is connected"
            case Connection.DISCONNECTED:
                return "is disconnected"
            case Connection.NOT_RESPONDING:
                return "does not respond"


class NumaNode(Frozen):
    """One NUMA node of a host (vim `HostNumaNode`).

    `cores` counts physical cores; `pci_ids` may be empty if the BIOS does not report it.
    """

    node_id: int
    cores: int
    memory_mib: int
    pci_ids: frozenset[str] = frozenset()


class Sriov(Frozen):
    """Virtual functions of a PCI function (vim `SriovInfo`): `functions` now, `requested` after a restart."""

    is_capable: bool = False
    is_active: bool = False
    functions: int = 0
    requested: int = 0
    most: int = 0


_DEVICE_MODES = {
    "directPath": "DirectPath",
    "enhancedDirectPath": "Enhanced DirectPath",
    "vGpuSameSize": "vGPU same size",
    "vGpuMixedSize": "vGPU mixed size",
    "systemSelect": "chosen by the system",
}


class PciDevice(Frozen):
    """One PCI function of a host, with its passthrough state.

    `passthrough_active` is what holds now, `passthrough_enabled` what holds after
    a restart. `parent_bridge` is the PCI address of the bridge above it, if known.
    `device_mode` and `configurable_modes` are words of vim `HostPciPassthruInfoDirectPathDeviceMode`
    (9.1.0.0), `driver_version` is that of `directPathInfo`; all are empty where the host is older.
    """

    pci_id: str
    vendor_id: int
    device_id: int
    subvendor_id: int = 0
    subdevice_id: int = 0
    class_id: int = 0
    vendor_name: str = ""
    device_name: str = ""
    parent_bridge: str | None = None
    passthrough_capable: bool = False
    passthrough_enabled: bool = False
    passthrough_active: bool = False
    hardware_label: str | None = None
    numa_node: int | None = None
    sriov: Sriov | None = None
    device_mode: str = ""
    configurable_modes: tuple[str, ...] = ()
    driver_version: str = ""

    @property
    def mode_note(self) -> str:
        """Return " (device mode host)" as ESX 9.1 reports it, "" before."""
        mode = _DEVICE_MODES.get(self.device_mode, self.device_mode)
        return f" (device mode {mode})" if mode else ""

    @property
    def subsystem_id(self) -> int:
        """The subdevice ID, which distinguishes boards with the same device ID."""
        return self.subdevice_id

    @property
    def is_gpu(self) -> bool:
        """Whether it is an NVIDIA display or 3D controller (PCI class 03xx)."""
        return self.vendor_id == NVIDIA_VENDOR_ID and self.class_id >> 8 == 0x03

    @property
    def is_nic(self) -> bool:
        """Whether it is a network controller (PCI class 02xx: Ethernet, InfiniBand)."""
        # Belief: nics-are-class-02.
        return self.class_id >> 8 == 0x02

    @property
    def is_infiniband(self) -> bool:
        """Whether its link type is InfiniBand (PCI class 0207)."""
        # Belief: infiniband-port-has-no-vmnic.
        return self.class_id == INFINIBAND

    @property
    def is_bridge(self) -> bool:
        """Whether it is a bridge (PCI class 06xx)."""
        return self.class_id >> 8 == 0x06

    @property
    def is_nvswitch(self) -> bool:
        """Whether it is an NVSwitch: NVIDIA's bridges of class 0680 (pci.ids: 1af1, 22a3)."""
        return self.vendor_id == NVIDIA_VENDOR_ID and self.class_id == 0x0680


class Gpu(Frozen):
    """One physical GPU of a host: its PCI function and its entry in the graphics manager.

    `graphics_type` and `vgpu_mode` are the active values; the `configured_*` twins are those that the
    host would use after a restart of its graphics service. `sharing` is None where the API
    does not report whether the GPU is in MIG mode (before 8.0.3 it is inferred from the
    profiles that the host offers). `vm_moids` names the VMs that hold it now, running ones only.
    """

    pci: PciDevice
    name: str
    memory_mib: int = 0
    graphics_type: GraphicsType | None = None
    configured_graphics_type: GraphicsType | None = None
    vgpu_mode: VgpuMode | None = None
    configured_vgpu_mode: VgpuMode | None = None
    sharing: Sharing | None = None
    vm_moids: tuple[str, ...] = ()

    @property
    def pci_id(self) -> str:
        """The GPU's PCI address."""
        return self.pci.pci_id

    @property
    def numa_node(self) -> int | None:
        """The NUMA node that lists the GPU's address; None if the BIOS does not report it."""
        return self.pci.numa_node

    @property
    def gives_vgpus(self) -> bool | None:
        """Whether its own graphics type in force lets it give vGPUs; None where that was not read."""
        return None if self.graphics_type is None else self.graphics_type is GraphicsType.SHARED_DIRECT

    @property
    def is_passthrough(self) -> bool:
        """Whether the GPU is handed through as a whole now."""
        return self.pci.passthrough_active


class HostNic(Frozen):
    """One physical NIC (vim `PhysicalNic`): `pci` is None where the host lists no such function."""

    device: str
    mac: str = ""
    driver: str = ""
    speed_mbps: int | None = None
    pci_id: str = ""
    pci: PciDevice | None = None
    numa_node: int | None = None


class ProfileInfo(Frozen):
    """A host's description of a profile (vim `VgpuProfileInfo`, API 7.0.3.0).

    `stun_ms` maps a migration bandwidth in Mbit/s to the time that a vMotion stops the VM (API 8.0.2.0;
    that the API counts in these units is not proven).
    """

    name: str
    sharing: Sharing | None = None
    stun_ms: Mapping[int, int] = Field(default_factory=dict)


VGPU_PART = "nvidiaVgpu"
"""The `GroupPart.kind` of a vGPU."""


class GroupPart(Frozen):
    """A device of a vendor device group (vim `VendorDeviceGroupInfo.ComponentDeviceInfo`, API 8.0.0.1).

    `kind` is vSphere's word for its type: nvidiaVgpu, pciPassthru, sriovNic, dvx, or one of a later release.
    `vendor` and `name` are the vendor's words, for people. One of the other fields identifies the device:
    the `profile` of a vGPU; the function's address (`pci_id`) of one that is passed through or whose virtual
    function it is; the `allowed` (vendor id, device id) pairs, their `sub_ids` and `label` of a Dynamic
    DirectPath device; the `device_class` of a DVX device. `sequence` is its position in the group; None if
    it is unknown.
    """

    kind: str
    vendor: str = ""
    name: str = ""
    profile: str = ""
    pci_id: str | None = None
    allowed: tuple[tuple[int, int], ...] = ()
    sub_ids: tuple[SubIds, ...] = ()
    label: str | None = None
    device_class: str = ""
    sequence: int | None = None


class DeviceGroupInfo(Frozen):
    """A vendor device group that a host offers (vim `VendorDeviceGroupInfo`, API 8.0.0.1).

    `name` is opaque: it is shown and compared, and nothing is read from it.
    """

    name: str
    description: str = ""
    parts: tuple[GroupPart, ...] = ()

    @classmethod
    def of_peers(cls, name: str, profile: str, count: int, description: str = "") -> DeviceGroupInfo:
        """Make a group of so many vGPUs of a profile, and of nothing else."""
        part = GroupPart(kind=VGPU_PART, profile=profile)
        return cls(name=name, description=description, parts=(part,) * count)

    @property
    def peers(self) -> tuple[str, int]:
        """The profile and number of its vGPUs where it is two or more of one profile; "" and 0 elsewhere."""
        profiles = {part.profile if part.kind == VGPU_PART else "" for part in self.parts}
        if len(self.parts) < 2 or len(profiles) != 1 or "" in profiles:
            return "", 0
        return profiles.pop(), len(self.parts)


class DirectPathCapacity(Frozen):
    """The units of a DirectPath profile on a host (vim `DirectPathProfileManager`, API 9.0.0.0).

    `name` is the DirectPath profile's, `vgpu_profile` the vGPU type that it represents. `remaining` are units
    that no powered-on VM has, `unused_reservation` those among them that are promised to others.
    """

    name: str
    vgpu_profile: str
    consumed: int
    remaining: int
    unused_reservation: int

    @property
    def owner(self) -> str:
        """The holder of its reserved units: vCenter does not report who made a reservation."""
        return f"DirectPath profile {self.name}"


class Host(ManagedObject):
    """An ESXi host.

    `creatable_profiles` are those that the host could create when it was read (vim
    `sharedPassthruGpuTypes`); `profiles` what its driver knows at all, None where the API
    is too old to report it. `max_vgpus_by_hardware_version` holds vCenter's own
    `VmiopBackingOption.maxInstances`; empty where it was not read. `cpu_mhz` is the clock of a core, 0 where
    it is unknown. `direct_path` are the units of its DirectPath profiles; None if vCenter has no such
    (before 9.0) or did not report them.
    """

    datacenter: str = ""
    cluster_moid: str | None = None
    compute_moid: str = ""
    version: str = ""
    build: str = ""
    model: str = ""
    connection: Connection = Connection.CONNECTED
    is_in_maintenance_mode: bool = False
    hyperthreading: bool = True
    cores: int = 0
    cpu_mhz: int = 0
    memory_mib: int = 0
    numa_nodes: tuple[NumaNode, ...] = ()
    pci_devices: tuple[PciDevice, ...] = ()
    gpus: tuple[Gpu, ...] = ()
    nics: tuple[HostNic, ...] = ()
    graphics_type: GraphicsType | None = None
    assignment_policy: AssignmentPolicy | None = None
    creatable_profiles: tuple[str, ...] = ()
    profiles: tuple[ProfileInfo, ...] | None = None
    device_groups: tuple[DeviceGroupInfo, ...] = ()
    direct_path: tuple[DirectPathCapacity, ...] | None = None
    network_moids: frozenset[str] = frozenset()
    datastore_moids: frozenset[str] = frozenset()
    max_hardware_version: int | None = None
    max_vgpus_by_hardware_version: Mapping[int, int] = Field(default_factory=dict)
    system_id: str | None = None
    cordons: tuple[Cordon, ...] = ()
    mark: HostMark | None = None
    """The mark of a plan that works there, or broke off; a plan that prepares the host reads it again."""

    @property
    def infiniband(self) -> tuple[HostNic, ...]:
        """The InfiniBand ports that are not handed out: ESXi has no vmnic for them."""
        known = {nic.pci_id for nic in self.nics}
        return tuple(
            HostNic(device="", pci_id=pci.pci_id, pci=pci, numa_node=pci.numa_node)
            for pci in self.pci_devices
            if pci.is_infiniband and not pci.passthrough_active and pci.pci_id not in known
        )

    @property
    def owner_moid(self) -> str:
        """The moid of its cluster, or of its compute resource if it is standalone."""
        return self.cluster_moid or self.compute_moid

    @property
    def is_usable(self) -> bool:
        """Whether a VM can be powered on here now."""
        return self.connection is Connection.CONNECTED and not self.is_in_maintenance_mode

    @property
    def takes_vms(self) -> bool:
        """Whether new VMs can be placed here: a VM can be powered on, and the host is not cordoned."""
        return self.is_usable and self.cordon is None

    @property
    def cordon(self) -> Cordon | None:
        """The cordon of the entire host; None without one."""
        return next((one for one in self.cordons if not one.pci_id), None)

    def cordon_of_gpu(self, pci_id: str) -> Cordon | None:
        """Return what keeps new VMs off one GPU of the host, None where nothing does."""
        return next((one for one in self.cordons if one.pci_id == pci_id), None)

    def gpu(self, pci_id: str) -> Gpu | None:
        """Return the GPU at a PCI address, None where there is none."""
        return next((gpu for gpu in self.gpus if gpu.pci_id == pci_id), None)

    def device(self, pci_id: str) -> PciDevice | None:
        """Return the PCI function at an address, None where there is none."""
        return next((device for device in self.pci_devices if device.pci_id == pci_id), None)

    @property
    def has_nvswitch(self) -> bool | None:
        """Whether NVSwitches are among its PCI devices, None if it does not list its bridges."""
        bridges = [device for device in self.pci_devices if device.is_bridge]
        return any(device.is_nvswitch for device in bridges) if bridges else None


class Cluster(ManagedObject):
    """A cluster, or a standalone host (`is_standalone`).

    `vm_overrides` are its overrides for individual VMs that the table of VM settings covers.
    `uses_vm_levels`: whether DRS applies the automation levels of individual VMs.
    """

    datacenter: str = ""
    resource_pool_moid: str = ""
    host_moids: tuple[str, ...] = ()
    is_standalone: bool = False
    drs_enabled: bool = False
    drs_behavior: str = ""
    uses_vm_levels: bool = True
    ha_enabled: bool = False
    failover_percent: int = 0
    rules: tuple[ClusterRule, ...] = ()
    vm_groups: tuple[VmGroup, ...] = ()
    host_groups: tuple[HostGroup, ...] = ()
    host_rules: tuple[VmHostRule, ...] = ()
    vm_overrides: tuple[VmOverrides, ...] = ()

    def host_group(self, name: str) -> HostGroup | None:
        """Return a host group by its name, in whatever case where no other differs by it alone."""
        folded = [group for group in self.host_groups if group.name.casefold() == name.casefold()]
        exact = [group for group in folded if group.name == name]
        return (exact or folded)[0] if exact or len(folded) == 1 else None

    def overrides_of(self, vm_moid: str) -> Mapping[str, SettingValue]:
        """Return its overrides for a VM, by the keys of the table of VM settings."""
        return next((dict(one.settings) for one in self.vm_overrides if one.vm_moid == vm_moid), {})

    def vm_group(self, name: str) -> VmGroup | None:
        """Return a VM group by its name."""
        return next((group for group in self.vm_groups if group.name == name), None)


class NetworkKind(StrEnum):
    """How a vNIC is tied to a network."""

    STANDARD = "standard"
    DISTRIBUTED = "distributed"
    OPAQUE = "opaque"


class Network(ManagedObject):
    """A portgroup. Distributed ones have a key, and their switch's uuid, which a backing needs, and name."""

    kind: NetworkKind = NetworkKind.STANDARD
    portgroup_key: str | None = None
    switch_uuid: str | None = None
    switch_name: str = ""
    is_uplink: bool = False


class Datastore(ManagedObject):
    """A datastore; MiB free as vCenter last knew. `pod` is its datastore cluster (vim `StoragePod`)."""

    kind: str = ""
    pod: ManagedObject | None = None
    free_mib: int = 0
    capacity_mib: int = 0
    is_accessible: bool = True
    is_in_maintenance: bool = False


class Folder(ManagedObject):
    """A folder of VMs (only those are read)."""

    datacenter: str = ""
    is_root: bool = False


class ResourcePool(ManagedObject):
    """A resource pool; `owner_moid` is its cluster or standalone compute resource.

    `unreserved_mib` is the memory that its VMs can still reserve, None where it was not read.
    """

    owner_moid: str = ""
    unreserved_mib: int | None = None


class StoragePolicy(Frozen):
    """A VM storage policy, by its id and its name; `datastore_moids` are the datastores that fit it."""

    id: str
    name: str
    datastore_moids: frozenset[str] = frozenset()


class VCenter(Frozen):
    """The server itself. `api_version` is the one that was negotiated, as a dotted string.

    `key_providers` are the names of those that it knows, None where they were not read. So are
    `storage_policies`; compatible datastores are known only for those that the reading requested. Locks and
    reservations are alarms of `alarm_folder`, an inventory path; it is empty for the root folder.
    """

    address: str
    name: str = ""
    version: str = ""
    build: str = ""
    api_version: str = ""
    instance_uuid: str = ""
    user: str = ""
    root_folder_moid: str = ""
    alarm_folder: str = ""
    alarm_folder_moid: str = ""
    key_providers: tuple[str, ...] | None = None
    storage_policies: tuple[StoragePolicy, ...] | None = None

    @property
    def lock_home_moid(self) -> str:
        """The folder of locks and reservations."""
        return self.alarm_folder_moid or self.root_folder_moid


class Inventory(Frozen):
    """One reading of a vCenter. Tuples are in vCenter's order; the indexes below are derived.

    `facts` is empty unless the plan prepares hosts. `locks`, `reservations`, `gpu_use` and `licences` (names,
    by the moid of the host) are None if not requested. `tag_categories` are all of the vCenter's,
    with the tags of those that were asked for; None where they were not read, as are `library_items` and
    `customization_specs`. `failed_customizations` are the last events of guests whose customisation failed,
    by the moids of their VMs, if the plan names specifications. `has_kinds`: host kinds were
    queried for profiles, device groups and hardware versions, which only they report.
    """

    vcenter: VCenter
    read_at: datetime
    datacenters: tuple[ManagedObject, ...] = ()
    clusters: tuple[Cluster, ...] = ()
    hosts: tuple[Host, ...] = ()
    vms: tuple[Vm, ...] = ()
    networks: tuple[Network, ...] = ()
    datastores: tuple[Datastore, ...] = ()
    folders: tuple[Folder, ...] = ()
    resource_pools: tuple[ResourcePool, ...] = ()
    facts: EstateFacts = Field(default_factory=EstateFacts)
    locks: Locks | None = None
    reservations: Reservations | None = None
    gpu_use: UseReading | None = None
    licences: Mapping[str, tuple[SeenLicence, ...]] | None = None
    tag_categories: tuple[TagCategory, ...] | None = None
    library_items: tuple[LibraryItem, ...] | None = None
    customization_specs: tuple[CustomizationSpec, ...] | None = None
    failed_customizations: Mapping[str, PastEvent] = Field(default_factory=dict)
    has_kinds: bool = True

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """Copy it as every value is copied, but for the indexes: those of the copy are its own."""
        copied = super().model_copy(update=update, deep=deep)
        for name in self.__dict__.keys() - type(self).model_fields.keys():
            copied.__dict__.pop(name, None)
        return copied

    @cached_property
    def host_by_moid(self) -> Mapping[str, Host]:
        """Hosts by managed object id."""
        return {host.moid: host for host in self.hosts}

    @cached_property
    def vm_by_moid(self) -> Mapping[str, Vm]:
        """VMs and templates by managed object id."""
        return {vm.moid: vm for vm in self.vms}

    @cached_property
    def cluster_by_moid(self) -> Mapping[str, Cluster]:
        """Clusters by managed object id."""
        return {cluster.moid: cluster for cluster in self.clusters}

    @cached_property
    def folder_by_moid(self) -> Mapping[str, Folder]:
        """VM folders by managed object id."""
        return {folder.moid: folder for folder in self.folders}

    def datacenter_moid(self, name: str | None) -> str | None:
        """Return the datacenter of a name, None where none has it, or several in different folders."""
        found = [one.moid for one in self.datacenters if one.name == name]
        return found[0] if len(found) == 1 else None

    @cached_property
    def vms_by_host(self) -> Mapping[str, tuple[Vm, ...]]:
        """VMs by the host they run on or are registered at."""
        found: dict[str, list[Vm]] = {}
        for vm in self.vms:
            if vm.host_moid is not None:
                found.setdefault(vm.host_moid, []).append(vm)
        return {moid: tuple(vms) for moid, vms in found.items()}

    def tag_category(self, name: str) -> TagCategory | None:
        """Return the category of tags that has a name, None where there is none."""
        return next((one for one in self.tag_categories or () if one.name == name), None)

    def cluster_of(self, host: Host | None) -> Cluster | None:
        """Return the cluster of a host, or its compute resource if the host is standalone."""
        return None if host is None else self.cluster_by_moid.get(host.owner_moid)

    def host_name_of(self, vm: Vm) -> str:
        """Return the name of the host that a VM is on, "" where that was not read."""
        host = self.host_by_moid.get(vm.host_moid or "")
        return "" if host is None else host.name

    def with_hosts(self, changed: Mapping[str, Host]) -> Self:
        """Return the same with some hosts, by moid, in place of its own."""
        hosts = tuple(changed.get(host.moid, host) for host in self.hosts)
        return self.model_copy(update={"hosts": hosts}) if changed else self

    def networks_of(self, detail: VmDetail) -> frozenset[str]:
        """Return the networks that a VM's NICs are on, a distributed portgroup by its moid, too."""
        by_key = {network.portgroup_key: network.moid for network in self.networks if network.portgroup_key}
        return frozenset(by_key.get(nic.network, nic.network) for nic in detail.nics if nic.network)

    def vms_marked(self, plan: PlanIdentity) -> Iterator[Vm]:
        """Yield the VMs whose owner mark names this plan, whether or not they are truly its own."""
        return (vm for vm in self.vms if vm.mark is not None and vm.mark.is_named(plan))
