"""The estate file: a datacenter written down, with its hosts, GPUs, NICs, templates and VMs.

Sizes are text with a unit (`64GiB`), or whole MiB. Every key but the names has a default, so that an estate
states only its own differences.
"""

from __future__ import annotations

import re
from datetime import date
from ipaddress import ip_interface
from typing import Annotated, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, model_validator

from vgpu_cfg import documents
from vgpu_cfg.catalog import load_catalog
from vgpu_cfg.lab.estates.guests import GuestPart, InternetPart, Part, Size
from vgpu_cfg.lab.estates.lies import LieId
from vgpu_cfg.lab.estates.stock import NIC_MODELS, RELEASES
from vgpu_cfg.model.vgpu import VgpuProfile

HOURS = 24
_PCI_ID = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")


def _pci_id(value: str) -> str:
    if not _PCI_ID.fullmatch(value):
        raise ValueError(f"{value!r} is not a PCI address, such as 0000:3b:00.0")
    return value


def _profile(value: str) -> str:
    return VgpuProfile.parse(value).name


def _board(value: str) -> str:
    boards = load_catalog().boards
    if value not in boards:
        hint = documents.did_you_mean(value, boards)
        raise ValueError(f"the catalog has no board {value!r}\n{hint}")
    return value


def _release(value: str) -> str:
    if value not in RELEASES:
        raise ValueError(f"the lab does not support ESXi {value!r}; it supports {', '.join(RELEASES)}")
    return value


def _nic_model(value: str) -> str:
    if value not in NIC_MODELS:
        hint = documents.did_you_mean(value, NIC_MODELS)
        raise ValueError(f"the lab does not have the NIC {value!r}\n{hint}")
    return value


def _nic_setting(value: str) -> str:
    try:
        if value in ("dhcp", "ask") or "/" in str(ip_interface(value)):
            return value
    except ValueError:
        pass
    raise ValueError(f"{value!r} is not a valid NIC setting: use dhcp, ask, or an address like 10.0.0.5/24")


def _day(value: tuple[float, ...]) -> tuple[float, ...]:
    if len(value) not in (0, 1, HOURS):
        raise ValueError(f"a day has {HOURS} hours, not {len(value)}: use 24 numbers, or one for all")
    return value * HOURS if len(value) == 1 else value


PciId = Annotated[str, AfterValidator(_pci_id)]
ProfileName = Annotated[str, AfterValidator(_profile)]
BoardKey = Annotated[str, AfterValidator(_board)]
Release = Annotated[str, AfterValidator(_release)]
NicModel = Annotated[str, AfterValidator(_nic_model)]
RestartPriority = Literal["disabled", "lowest", "low", "medium", "high", "highest"]
VmMonitoring = Literal["vmMonitoringDisabled", "vmMonitoringOnly", "vmAndAppMonitoring"]
Day = Annotated[tuple[Annotated[float, Field(ge=0, le=100)], ...], AfterValidator(_day)]
GpuMode = Literal["time_sliced", "mig", "mixed_size", "passthrough"]
HostGraphics = Literal["shared", "sharedDirect"]


_RANGE = re.compile(r"([^{}]*)\{([0-9]{1,4})\.\.([0-9]{1,4})\}([^{}]*)")


def _expanded(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(one for name in names for one in _members(name))


def _members(name: str) -> list[str]:
    found = _RANGE.fullmatch(name)
    if found is None:
        return [name]
    before, first, last, after = found.groups()
    return [f"{before}{number:0{len(first)}}{after}" for number in range(int(first), int(last) + 1)]


Names = Annotated[tuple[str, ...], AfterValidator(_expanded)]
"""Names of hosts or VMs that are alike, each with at most one range, as in `esx-{01..14}.lab`."""


class GraphicsSetting(Part):
    """A graphics type that waits for a restart: the set one, and the one in effect."""

    configured: HostGraphics
    runtime: Literal["basic", "shared", "sharedDirect"]


class SlotPart(Part):
    """A card's place. `pcie_switch` is common to a switch's cards, `pcie_root` to those of a host bridge.

    `sw0/a` is a switch below `sw0`. A card that names neither has a root port and a host bridge of its own.
    """

    pci_id: PciId | None = None
    numa: int = Field(default=0, ge=0)
    pcie_switch: str = ""
    pcie_root: str = ""


class GpuPart(SlotPart):
    """One GPU. A missing address is given in order; `nvlink` lists the addresses of its peers.

    `day` is how busy it is in each hour of a day (UTC), in percent; without it that is not measured. `health`
    maps paths of `nvidia-smi -q` to values that a sound GPU does not have, as `Remapped Rows/Pending: Yes`.
    """

    board: BoardKey
    count: int = Field(default=1, ge=1, le=64)
    mode: GpuMode = "time_sliced"
    nvlink: tuple[PciId, ...] = ()
    nvswitch: bool = False
    module: int | None = Field(default=None, ge=1, le=8)
    label: str = ""
    ecc: bool = True
    day: Day = ()
    health: dict[str, str] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _one_address_one_gpu(self) -> GpuPart:
        if self.count > 1 and self.pci_id is not None:
            raise ValueError("several GPUs cannot share one pci_id: omit it, or list each GPU separately")
        if self.module is not None and (self.count > 1 or not self.nvswitch):
            raise ValueError("a module is a single GPU's position on an NVSwitch baseboard")
        return self


class NicPart(SlotPart):
    """One NIC port. `switch` names the switch it is an uplink of.

    `firmware` are parameters in mlxconfig's words, None for one that the firmware does not have;
    `cold_boot` says that they hold only after the power was off.
    """

    model: NicModel = "ConnectX-6 Dx"
    vmnic: str = ""
    speed_gbps: int = Field(default=100, gt=0)
    switch: str = ""
    passthrough: bool = False
    label: str = ""
    ats: bool = False
    firmware: dict[str, str | None] = Field(default_factory=dict)
    cold_boot: bool = False


class DeviceGroupPart(Part):
    """A device group of a host in addition to those of NVLink: a vGPU with NICs, under any name."""

    name: str = Field(min_length=1)
    profile: ProfileName
    nic: NicModel
    nics: int = Field(default=1, ge=1, le=8)
    description: str = ""


class CpuPart(Part):
    """The processors: `cores` are those of one socket."""

    model: str = "AMD EPYC 7543 32-Core Processor"
    sockets: int = Field(default=2, ge=1)
    cores: int = Field(default=32, ge=1)
    hyperthreading: bool = True
    mhz: int = Field(default=2794, gt=0)


class BiosPart(Part):
    """BIOS facts."""

    vendor: str = "Dell Inc."
    model: str = "PowerEdge R7525"
    sriov: bool = True
    above_4g: bool = True
    iommu: bool = True


class DriverPart(Part):
    """The NVIDIA host driver."""

    kind: Literal["nvd-aie", "vgpu"] = "nvd-aie"
    version: str = "580.95.02"
    gpu_daemon: bool = True


AcceptanceLevel = Literal["VMwareCertified", "VMwareAccepted", "PartnerSupported", "CommunitySupported"]


class BundlePart(Part):
    """An offline bundle on a datastore: NVIDIA's driver, or the GPU management daemon, which comes apart.

    `holds: daemon` has the daemon of `driver`'s version; `driver` has the driver alone. `mft` and `nmst` are
    the two halves of NVIDIA's firmware tools.
    """

    path: str
    holds: Literal["driver", "daemon", "mft", "nmst"] = "driver"
    driver: DriverPart = DriverPart()
    level: AcceptanceLevel = "VMwareCertified"


class PoolPart(Part):
    """A resource pool with a limit of its memory, or a reservation that cannot expand."""

    name: str
    memory_limit: Size | None = None
    memory_reservation: Size | None = None


class AlarmPart(Part):
    """An alarm that is triggered on a host, since the VMs run."""

    name: str
    status: Literal["yellow", "red"] = "red"
    acknowledged: bool = False


class HostPart(Part):
    """One host, or several alike under `names`. `driver: none` has no NVIDIA driver."""

    name: str = ""
    names: Names = ()
    esxi: Release = "8.0 U3"
    cpu: CpuPart = CpuPart()
    bios: BiosPart = BiosPart()
    memory: Size = 1024 * 1024
    numa_nodes: int | None = Field(default=None, ge=1)
    numa_tells_pci: bool = True
    driver: DriverPart | Literal["none"] = DriverPart()
    graphics_type: HostGraphics | GraphicsSetting = "sharedDirect"
    assignment_policy: Literal["performance", "consolidation"] = "performance"
    ats: bool = True
    connection: Literal["connected", "disconnected", "notResponding"] = "connected"
    maintenance: bool = False
    lockdown: Literal["lockdownDisabled", "lockdownNormal", "lockdownStrict"] = "lockdownDisabled"
    licence: str = ""
    acceptance: AcceptanceLevel = "PartnerSupported"
    host_profile: str = ""
    alarms: tuple[AlarmPart, ...] = ()
    rebinds_without_reboot: bool = True
    mft: bool = False
    bundles: tuple[BundlePart, ...] = ()
    gpus: tuple[GpuPart, ...] = ()
    nics: tuple[NicPart, ...] = ()
    device_groups: tuple[DeviceGroupPart, ...] = ()
    datastores: tuple[str, ...] | None = None
    networks: tuple[str, ...] | None = None

    @model_validator(mode="after")
    def _named_once(self) -> HostPart:
        if bool(self.name) == bool(self.names):
            raise ValueError("a host has either name or names")
        return self

    @model_validator(mode="after")
    def _on_its_nodes(self) -> HostPart:
        nodes = self.numa_nodes or self.cpu.sockets
        devices: tuple[GpuPart | NicPart, ...] = (*self.gpus, *self.nics)
        for device in devices:
            if device.numa >= nodes:
                raise ValueError(f"there is no NUMA node {device.numa}: the host has {nodes}, counted from 0")
        return self

    @property
    def all_names(self) -> tuple[str, ...]:
        """Every host of this entry."""
        return self.names or (self.name,)


class ImagePart(Part):
    """The image of a cluster: its components, and the versions that the depot holds of each.

    `conflicts` are texts with which the validation of a changed component fails.
    """

    base_image: str = "8.0.3-0.0.24022510"
    components: dict[str, str] = Field(default_factory=dict)
    depot: dict[str, list[str]] = Field(default_factory=dict)
    conflicts: dict[str, str] = Field(default_factory=dict)


class ClusterPart(Part):
    """A cluster. `standalone` makes each host a compute resource of its own instead."""

    name: str
    standalone: bool = False
    drs: Literal["off", "manual", "partiallyAutomated", "fullyAutomated"] = "manual"
    ha: bool = True
    drs_options: dict[str, str] = Field(default_factory=dict)
    image_managed: bool = False
    image: ImagePart | None = None
    config_managed: bool = False
    admission_control: int = Field(default=0, ge=0, le=100)
    """The percentage of memory that vSphere HA keeps; 0 turns admission control off."""
    resource_pools: tuple[str | PoolPart, ...] = ()
    hosts: tuple[HostPart, ...]


class DatastorePart(Part):
    """A datastore; `cluster` is the datastore cluster that it is in."""

    name: str
    cluster: str = ""
    kind: Literal["vsan", "VMFS", "NFS"] = "vsan"
    capacity: Size = 50 * 1024 * 1024
    free: Size = 40 * 1024 * 1024
    maintenance: bool = False


class SwitchPart(Part):
    """A distributed switch."""

    name: str
    mtu: int = Field(default=1500, ge=1280, le=9190)


class NetworkPart(Part):
    """A portgroup: distributed where it names a switch."""

    name: str
    switch: str = ""
    vlan: int = Field(default=0, ge=0, le=4095)


class MachinePart(Part):
    """Common properties of templates and VMs. `boot_delay` is in milliseconds, `cpu_reservation` in MHz."""

    folder: str = ""
    guest_id: str = "ubuntu64Guest"
    firmware: Literal["bios", "efi"] = "efi"
    secure_boot: bool = False
    boot_delay: int = Field(default=0, ge=0)
    vtpm: bool = False
    hardware_version: int = Field(default=19, ge=4, le=22)
    cpus: int = Field(default=4, ge=1)
    memory: Size = 8192
    reserve_memory: bool | None = None
    cpu_reservation: int = Field(default=0, ge=0)
    nested: bool = False
    snapshots: tuple[str, ...] = ()
    cpu_hot_add: bool = False
    memory_hot_add: bool = False
    latency: Literal["low", "normal", "medium", "high"] = "normal"
    disks: tuple[Size, ...] = (40 * 1024,)
    networks: tuple[str, ...] | None = None
    datastore: str = ""
    annotation: str = ""
    extra_config: dict[str, str] = Field(default_factory=dict)
    guest: GuestPart = GuestPart()


class TemplatePart(MachinePart):
    """A template."""

    name: str
    host: str = ""


class PlacedVgpu(Part):
    """A vGPU of a VM, and on which GPU it runs."""

    profile: ProfileName
    on: PciId | None = None


class PlacedGroup(Part):
    """A device group of a VM by its vendor's name, and on which GPUs it runs."""

    group: str = Field(min_length=1)
    on: tuple[PciId, ...] = ()


class LabelledDevice(Part):
    """A dynamic passthrough device of a VM, by hardware label."""

    label: str


class FixedDevice(Part):
    """A fixed passthrough device of a VM, by address."""

    pci_id: PciId


def _kind_of_gpu(value: object) -> str:
    """Return the form of a VM's GPU entry, so that only that form's faults are reported."""
    if not isinstance(value, dict):
        return "profile"
    return next((key for key in ("label", "pci_id", "group") if key in value), "placed")


VmGpu = Annotated[
    Annotated[ProfileName, Tag("profile")]
    | Annotated[PlacedVgpu, Tag("placed")]
    | Annotated[PlacedGroup, Tag("group")]
    | Annotated[LabelledDevice, Tag("label")]
    | Annotated[FixedDevice, Tag("pci_id")],
    Discriminator(_kind_of_gpu),
]


class ManagedByPart(Part):
    """The extension that manages a VM, and the kind that it gives (vim `ManagedByInfo`)."""

    extension: str
    type: str


class VmPart(MachinePart):
    """A VM, or several alike under `names`. `host` may be left to the lab.

    `cpu_mhz` is its CPU use while it runs; by default a quarter of its CPUs. `drs`, `restart_priority` and
    `vm_monitoring` are what its cluster sets for it alone.
    """

    name: str = ""
    names: Names = ()
    cluster: str = ""
    host: str = ""
    resource_pool: str = ""
    gpus: tuple[VmGpu, ...] = ()
    power: Literal["on", "off"] = "on"
    cpu_mhz: int | None = Field(default=None, ge=0)
    attributes: dict[str, str] = Field(default_factory=dict)
    tags: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    managed_by: ManagedByPart | None = None
    drs: Literal["off", "manual", "partiallyAutomated", "fullyAutomated"] | None = None
    restart_priority: RestartPriority | None = None
    vm_monitoring: VmMonitoring | None = None

    @model_validator(mode="after")
    def _named_once(self) -> VmPart:
        if bool(self.name) == bool(self.names):
            raise ValueError("a VM has either name or names")
        return self

    @property
    def all_names(self) -> tuple[str, ...]:
        """Every VM of this entry."""
        return self.names or (self.name,)


class KeyProviderPart(Part):
    """A key provider. `standard` has key servers of its own, `native` is vCenter's own."""

    name: str
    kind: Literal["native", "standard"] = "native"
    default: bool = True


class StoragePolicyPart(Part):
    """A VM storage policy, and the datastores that fit it, by name."""

    name: str
    description: str = ""
    datastores: tuple[str, ...] = ()


class CustomizationSpecPart(Part):
    """A customisation specification. `hostname` and each of `nics` may be left to the user: `ask`.

    `password` says for whose key one in it is encrypted: this vCenter's own, or another's.
    """

    name: str
    description: str = ""
    type: Literal["Linux", "Windows"] = "Linux"
    hostname: str = "vm"
    domain: str = "example.com"
    dns: tuple[str, ...] = ()
    nics: tuple[Annotated[str, AfterValidator(_nic_setting)], ...] = ("dhcp",)
    password: Literal["", "own", "foreign"] = ""


class DirectPathPart(Part):
    """A DirectPath profile of a vGPU type, and what of it is reserved on hosts, by name."""

    name: str
    vgpu: str
    reserved: dict[str, int] = Field(default_factory=dict)


class LibraryItemPart(Part):
    """An item of a content library: one of the estate's templates, or else of some type."""

    name: str
    template: str = ""
    type: str = "ovf"


class LibraryPart(Part):
    """A content library."""

    name: str
    items: tuple[LibraryItemPart, ...] = ()


class TagCategoryPart(Part):
    """A category of tags. With `single` an object has one of them; `types` are whose they are, empty: all."""

    name: str
    single: bool = False
    types: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()


class VcenterPart(Part):
    """The server's own name and release."""

    name: str = "lab"
    release: Release = "8.0 U3"
    settings: dict[str, bool | int | str] = Field(default_factory=dict)
    licences: tuple[str, ...] = ()
    licence_ends: dict[str, date] = Field(default_factory=dict)
    extensions: tuple[str, ...] = ()
    statistics_level: int = Field(default=1, ge=1, le=4)
    key_providers: tuple[KeyProviderPart, ...] = ()
    direct_path: tuple[DirectPathPart, ...] = ()
    storage_policies: tuple[StoragePolicyPart, ...] = ()
    customization_specs: tuple[CustomizationSpecPart, ...] = ()
    tag_categories: tuple[TagCategoryPart, ...] = ()
    libraries: tuple[LibraryPart, ...] = ()

    @model_validator(mode="after")
    def _one_default_provider(self) -> VcenterPart:
        if sum(provider.default for provider in self.key_providers) > 1:
            raise ValueError("only one key provider can be the default: set `default: false` for the others")
        return self


class DatacenterPart(Part):
    """A datacenter and all that is in it."""

    datacenter: str = "dc1"
    clusters: tuple[ClusterPart, ...]
    datastores: tuple[DatastorePart, ...] = (DatastorePart(name="vsan"),)
    switches: tuple[SwitchPart, ...] = ()
    networks: tuple[NetworkPart, ...] = (NetworkPart(name="vm-network"),)
    folders: tuple[str, ...] = ()
    templates: tuple[TemplatePart, ...] = ()
    vms: tuple[VmPart, ...] = ()


class Estate(DatacenterPart):
    """The whole file: one datacenter, and others `beside` it, in which names may be the same.

    `lies` names beliefs about vCenter that are false here.
    """

    about: str
    vcenter: VcenterPart = VcenterPart()
    beside: tuple[DatacenterPart, ...] = ()
    internet: InternetPart = InternetPart()
    lies: tuple[LieId, ...] = ()

    @model_validator(mode="after")
    def _datacenters_apart(self) -> Estate:
        names = [one.datacenter for one in (self, *self.beside)]
        if len({*names}) < len(names):
            raise ValueError("datacenters must have unique names: set `datacenter:` in each item of `beside`")
        return self
