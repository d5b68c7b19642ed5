"""The state of a simulated ESXi host: hardware, GPUs, NICs, and software, as configured and as in effect."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from vgpu_cfg.lab.state.managed import Managed

OptionKind = Literal["bool", "int", "long", "string"]
"""vim option types `BoolOption`, `IntOption`, `LongOption`, `StringOption`."""


VNIC_SERVICES = (
    "vmotion",
    "faultToleranceLogging",
    "management",
    "vsan",
    "vSphereProvisioning",
    "vSphereReplication",
    "vSphereReplicationNFC",
)
"""Words of vim `HostVirtualNicManagerNicType`; vSphere has some more."""

POWER_POLICIES = {1: "static", 2: "dynamic", 3: "low", 4: "custom"}
"""Keys of hosts' power policies, with their short names: high performance, balanced, low power, custom."""


@dataclass(slots=True)
class FirmwareParameter:
    """One parameter of a NIC's firmware, in the words of `mlxconfig`: `True(1)`, `ETH(2)`, `8`.

    `next_boot` is the configured value, `current` the one in effect.
    """

    default: str
    current: str
    next_boot: str


@dataclass(slots=True)
class KernelModule:
    """A VMkernel module. `configured` is its option string, `at_boot` the one that it was loaded with."""

    name: str
    version: str = ""
    filename: str = ""
    configured: str = ""
    at_boot: str = ""
    loaded: bool = True


@dataclass(slots=True)
class KernelSetting:
    """A boot setting of the VMkernel as `esxcli system settings kernel list` prints it.

    `kind` is `Bool`, `String` or an integer type's name. `is_option` says that it shows as the advanced
    option `VMkernel.Boot.<name>`, too.
    """

    kind: str
    configured: str
    runtime: str
    default: str
    description: str = ""
    is_option: bool = True


@dataclass(slots=True)
class AdvancedOption:
    """An advanced option with its type; a value of another type is refused."""

    kind: OptionKind
    value: bool | int | str
    default: bool | int | str
    label: str = ""


@dataclass(slots=True)
class HostService:
    """A service. `policy` is vim `HostServicePolicy`: on, off, automatic. It decides at a boot."""

    label: str
    running: bool
    policy: str


@dataclass(slots=True)
class FirewallRuleset:
    """A ruleset of the host's firewall: TCP ports from `port` to `end_port`.

    `allowed` are addresses, and networks such as `192.0.2.0/24`, that alone get in; None lets all in.
    """

    label: str
    enabled: bool
    port: int
    end_port: int | None = None
    service: str = ""
    allowed: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Vib:
    """A software package (VIB)."""

    name: str
    version: str
    vendor: str
    summary: str = ""
    level: str = "VMwareCertified"
    """Its acceptance level."""


@dataclass(slots=True)
class Vmknic:
    """A VMkernel NIC on a standard portgroup (by name) or on a distributed one (by moid).

    `services` are vim `HostVirtualNicManagerNicType` words.
    """

    device: str
    mac: str
    portgroup: str = ""
    distributed: str = ""
    ip: str = ""
    netmask: str = ""
    dhcp: bool = False
    mtu: int = 1500
    services: tuple[str, ...] = ()


@dataclass(slots=True)
class StandardSwitch:
    """A standard switch. Its uplinks are the NICs whose `uplink_of` names it.

    `portgroups` maps the names of portgroups for VMkernel NICs to their VLAN; portgroups for VMs are networks
    of the inventory. `standby` are the uplinks that wait for an active one to fail, `unused` those that the
    teaming order does not name; `active` is the order of the others, if it was sent.
    """

    name: str
    mtu: int = 1500
    portgroups: dict[str, int] = field(default_factory=dict)
    active: tuple[str, ...] = ()
    standby: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()


@dataclass(slots=True)
class OpaqueSwitch:
    """A switch of another network manager, such as NSX, that vCenter shows and cannot change.

    Its uplinks are the NICs whose `uplink_of` names it; `vteps` its tunnel endpoints.
    """

    name: str
    vteps: list[Vmknic] = field(default_factory=list)


GraphicsType = Literal["basic", "shared", "direct", "sharedDirect"]
"""vim `HostGraphicsInfo.graphicsType`; a host's default is only `shared` or `sharedDirect`."""

VgpuModeName = Literal["sameSize", "mixedSize"]
"""vim `HostGraphicsConfigDeviceType.vgpuMode`. MIG is no setting of the API: see `Gpu.mig_enabled`."""

AssignmentPolicy = Literal["performance", "consolidation"]
ConnectionState = Literal["connected", "disconnected", "notResponding"]
Lockdown = Literal["lockdownDisabled", "lockdownNormal", "lockdownStrict"]
"""vim `HostLockdownMode`."""


@dataclass(frozen=True, slots=True)
class NumaNode:
    """One NUMA node. `cores` are physical ones; `pci_ids` its PCI functions by the BIOS."""

    node_id: int
    cores: int
    memory_mib: int
    pci_ids: tuple[str, ...] = ()


CLASS_INFINIBAND = 0x0207
"""PCI-SIG's class of InfiniBand controllers; `lspci` shows a VPI port so while its link type is IB."""


@dataclass(frozen=True, slots=True)
class PciDevice:
    """One PCI function as the host lists it. All ids are unsigned here; the wire wants shorts."""

    pci_id: str
    vendor_id: int
    device_id: int
    subvendor_id: int = 0
    subdevice_id: int = 0
    class_id: int = 0
    vendor_name: str = ""
    device_name: str = ""
    numa_node: int | None = None
    parent_bridge: str | None = None

    @property
    def bus(self) -> int:
        """The bus number in the address."""
        return int(self.pci_id.split(":")[1], 16)

    @property
    def slot(self) -> int:
        """The slot number in the address."""
        return int(self.pci_id.split(":")[2].split(".")[0], 16)

    @property
    def function(self) -> int:
        """The function number in the address."""
        return int(self.pci_id.rsplit(".", 1)[1], 16)


def is_endpoint(device: PciDevice) -> bool:
    """Whether a function is a device and no bridge (PCI class 06)."""
    return device.class_id >> 8 != 0x06


@dataclass(slots=True)
class Passthrough:
    """Passthrough of one PCI function: `enabled` is configured, `active` in force. `vm` holds it now."""

    capable: bool = True
    enabled: bool = False
    active: bool = False
    label: str = ""
    vm: str | None = None


@dataclass(frozen=True, slots=True)
class VgpuUse:
    """One running vGPU: its VM, its device key, and its place on the GPU.

    `start` is the first MIG memory slice, or the mixed-size placement id; None for same-size vGPUs.
    """

    vm: str
    device_key: int
    profile: str
    start: int | None = None


POWER_LIMIT_WATTS = 300
"""The default power limit of each board of the lab: a number of the lab's own."""


@dataclass(slots=True)
class Gpu:
    """One physical GPU, a key of the catalogue's boards and how it is set.

    `graphics_type` and `vgpu_mode` are in force, their `configured_` twins hold after a restart; a configured
    type of None follows the host's default. `mig_enabled` and `ecc_enabled` are the modes that `nvidia-smi`
    calls current, their `_pending` twins those it calls pending. `uses` are the vGPUs that run on it. `day`
    is how busy it is in each hour of a day, in percent; empty where that is not measured. `health` are the
    fields of nvidia-smi's report that are not a sound GPU's, by path.
    """

    pci: PciDevice
    board: str
    name: str
    memory_mib: int
    graphics_type: GraphicsType = "sharedDirect"
    configured_graphics_type: GraphicsType | None = None
    vgpu_mode: VgpuModeName = "sameSize"
    configured_vgpu_mode: VgpuModeName | None = None
    mig_enabled: bool = False
    mig_pending: bool = False
    ecc_enabled: bool = True
    ecc_pending: bool = True
    power_limit_watts: int = POWER_LIMIT_WATTS
    nvlink_peers: tuple[str, ...] = ()
    nvswitch: bool = False
    module_id: int | None = None
    uses: list[VgpuUse] = field(default_factory=list)
    day: tuple[float, ...] = ()
    health: dict[str, str] = field(default_factory=dict)

    @property
    def pci_id(self) -> str:
        """The GPU's PCI address."""
        return self.pci.pci_id

    @property
    def numa_node(self) -> int | None:
        """The NUMA node it hangs off."""
        return self.pci.numa_node


@dataclass(slots=True)
class Nic:
    """One physical NIC port, `vmnicN`.

    `uplink_of` is the switch that uses it, if any: the name of a standard one, the moid of a distributed one
    (an estate file's name until the host is tied in). `firmware` are its parameters by name. `requested_vfs`
    is how many virtual functions are configured, `num_vfs` how many there are, `max_vfs` how many the model
    can have at most. `firmware_needs_cold_boot` means that a reboot does not activate the new settings: only
    power off and on does.
    """

    device: str
    pci: PciDevice
    mac: str
    driver: str = "nmlx5_core"
    speed_mbps: int = 100_000
    link_up: bool = True
    uplink_of: str = ""
    rdma_device: str = ""
    max_vfs: int = 0
    num_vfs: int = 0
    requested_vfs: int = 0
    firmware: dict[str, FirmwareParameter] = field(default_factory=dict)
    firmware_needs_cold_boot: bool = False

    @property
    def is_infiniband(self) -> bool:
        """Whether its link type in force is InfiniBand. ESXi's driver leaves such a port alone.

        Belief: infiniband-port-has-no-vmnic.
        """
        own = self.firmware.get(f"LINK_TYPE_P{self.pci.function + 1}", self.firmware.get("LINK_TYPE_P1"))
        return own is not None and own.current.startswith("IB")

    def is_on(self, parameter: str) -> bool:
        """Whether a firmware parameter is true, now; one that the firmware does not have is not."""
        found = self.firmware.get(parameter)
        return found is not None and found.current.startswith("True")


@dataclass(frozen=True, slots=True)
class BiosFacts:
    """The server's BIOS settings; only a person at the console changes them. vCenter shows none of them."""

    vendor: str = "Dell Inc."
    model: str = "PowerEdge R7525"
    version: str = "2.15.2"
    sriov: bool = True
    above_4g: bool = True
    iommu: bool = True


@dataclass(frozen=True, slots=True)
class HostDriver:
    """The NVIDIA host driver: `kind` is `nvd-aie` (offers C) or `vgpu` (graphics series only)."""

    kind: Literal["nvd-aie", "vgpu"] = "nvd-aie"
    version: str = "580.95.02"
    gpu_daemon: bool = True


@dataclass(frozen=True, slots=True)
class NicGroup:
    """A device group of a vGPU and NICs; `nics` are the (vendor id, device id) of its NICs, one for each."""

    name: str
    profile: str
    nics: tuple[tuple[int, int], ...]
    description: str = ""


@dataclass(slots=True, kw_only=True)
class Host(Managed):
    """An ESXi host. `parent` is its cluster (or standalone compute resource).

    `reserved_mib` is not kept: `rules` count it from the VMs that run. `system_id` is the id that a fixed
    passthrough device must carry.
    """

    wsdl_type: ClassVar[str] = "HostSystem"
    moid_prefix: ClassVar[str] = "host"

    uuid: str
    system_id: str
    version: str = "8.0.3"
    update: str = "3"
    build: str = "24022510"
    api_version: str = "8.0.3.0"
    cpu_model: str = "AMD EPYC 7543 32-Core Processor"
    sockets: int = 2
    cores_per_socket: int = 32
    hyperthreading: bool = True
    cpu_mhz: int = 2794
    memory_mib: int = 1_048_576
    bios: BiosFacts = field(default_factory=BiosFacts)
    driver: HostDriver | None = field(default_factory=HostDriver)
    numa_nodes: tuple[NumaNode, ...] = ()
    other_pci: tuple[PciDevice, ...] = ()
    gpus: list[Gpu] = field(default_factory=list)
    nics: list[Nic] = field(default_factory=list)
    nic_groups: tuple[NicGroup, ...] = ()
    passthrough: dict[str, Passthrough] = field(default_factory=dict)
    configured_default_graphics_type: GraphicsType = "sharedDirect"
    assignment_policy: AssignmentPolicy = "performance"
    configured_assignment_policy: AssignmentPolicy = "performance"
    connection: ConnectionState = "connected"
    in_maintenance: bool = False
    power_state: str = "poweredOn"
    boot_time: float = 0.0
    """When it came up last, 0 for one that the estate never restarted."""
    entering_maintenance: bool = False
    is_off: bool = False
    """Shut down: it stays off until it is powered on manually."""
    boots_cold: bool = False
    """The boot under way began with the power off."""
    modules: dict[str, KernelModule] = field(default_factory=dict)
    kernel: dict[str, KernelSetting] = field(default_factory=dict)
    advanced: dict[str, AdvancedOption] = field(default_factory=dict)
    services: dict[str, HostService] = field(default_factory=dict)
    rulesets: dict[str, FirewallRuleset] = field(default_factory=dict)
    software: dict[str, Vib] = field(default_factory=dict)
    staged: dict[str, Vib] = field(default_factory=dict)
    """Packages that were installed and wait for a reboot."""
    acceptance: str = "PartnerSupported"
    """The lowest acceptance level of packages that it takes."""
    bundles: dict[str, tuple[Vib, ...]] = field(default_factory=dict)
    """Offline bundles that lie on a datastore, by path."""
    lockdown: Lockdown = "lockdownDisabled"
    vmknics: dict[str, Vmknic] = field(default_factory=dict)
    switches: dict[str, StandardSwitch] = field(default_factory=dict)
    opaque_switches: list[OpaqueSwitch] = field(default_factory=list)
    ntp_servers: tuple[str, ...] = ()
    kernel_log: tuple[str, ...] = ()
    """Lines of /var/log/vmkernel.log."""
    power_policy: int = 2
    """A key of `host_parts.POWER_POLICIES`."""
    licence: str = ""
    profile: str = ""
    """Name of the host profile that is attached."""
    mig_starts: Literal["high", "low", "in turns"] = "high"
    """The free position that a new MIG instance gets."""
    rebinds_without_reboot: bool = True
    """vim `HostCapability.deviceRebindWithoutRebootSupported`."""
    datastores: list[str] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)
    vms: dict[str, None] = field(default_factory=dict)
    """Registered here, running or not (moids, in order)."""

    @property
    def cores(self) -> int:
        """Physical cores of all sockets."""
        return self.sockets * self.cores_per_socket

    @property
    def threads(self) -> int:
        """Hardware threads."""
        return self.cores * (2 if self.hyperthreading else 1)

    @property
    def is_usable(self) -> bool:
        """Whether a VM can be powered on here."""
        return (
            self.connection == "connected"
            and not self.in_maintenance
            and not self.entering_maintenance
            and self.power_state == "poweredOn"
        )

    def gpu(self, pci_id: str) -> Gpu | None:
        """Return the GPU at a PCI address."""
        return next((gpu for gpu in self.gpus if gpu.pci.pci_id == pci_id), None)

    def pci_devices(self) -> Iterator[PciDevice]:
        """Yield every PCI function: others, GPUs, NICs."""
        yield from self.other_pci
        for gpu in self.gpus:
            yield gpu.pci
        for nic in self.nics:
            yield replace(nic.pci, class_id=CLASS_INFINIBAND) if nic.is_infiniband else nic.pci

    def passthrough_of(self, pci_id: str) -> Passthrough:
        """Return the passthrough state of a function; never set means capable and off."""
        return self.passthrough.get(pci_id) or Passthrough()

    def is_passed_through(self, pci_id: str) -> bool:
        """Whether a function is handed through whole, now."""
        state = self.passthrough.get(pci_id)
        return state is not None and state.active
