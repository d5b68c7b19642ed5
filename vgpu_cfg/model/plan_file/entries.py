"""The plan file as its author writes it: every key, its meaning and when it takes effect.

The models hold one file's own words: nothing is merged, no range is written out,
and `model_fields_set` contains the keys in the file. Models that need no more than that are
used directly for planning. The JSON schema is generated from them.

A VM's options (`VmOptions`) are one model, from the file to the desired state: each is a row of the table of
VM settings (`planning.vms.settings.table`), which defines how it is read, written and shown. An option that
is absent is None and not among `model_fields_set`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    StringConstraints,
    Tag,
    ValidationInfo,
    model_validator,
)

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.identity import ID_PATTERN
from vgpu_cfg.model.plan_file.device_entries import NicEntry
from vgpu_cfg.model.plan_file.fields import (
    Approvals,
    CheckCode,
    ConfigKey,
    ConfigValue,
    Count,
    Day,
    GpuMemory,
    Memory,
    Numa,
    OptionalText,
    PciAddress,
    PciIds,
    PeersNumber,
    PlanId,
    PlanName,
    Profiles,
    Secret,
    Size,
    Stated,
    TakesEffect,
    Text,
    Texts,
    VariableName,
    ZonedMoment,
    in_words,
    is_from_file,
    key,
    mapping_or_text,
    one_or_many_of,
)
from vgpu_cfg.model.plan_file.guest_entries import GuestEntry
from vgpu_cfg.model.plan_file.host_entries import HostEntry
from vgpu_cfg.model.plan_file.network_values import NetworkEntry
from vgpu_cfg.model.plan_file.site_values import SiteEntry
from vgpu_cfg.model.plan_file.training_entries import TrainingEntry
from vgpu_cfg.model.plan_file.values import CHECK_PATTERN, PLAN_NAME_PATTERN, VARIABLE_PATTERN, gpu_item
from vgpu_cfg.model.plan_values import Spread
from vgpu_cfg.model.vgpu import Sharing, VgpuProfile, bare_size

AT_CREATION = TakesEffect.AT_CREATION
AT_POWER_CYCLE = TakesEffect.AT_POWER_CYCLE
LIVE = TakesEffect.LIVE
MOVE = TakesEffect.MOVE
REPORTING = TakesEffect.REPORTING

CategoryName = Annotated[str, StringConstraints(min_length=1, max_length=256)]


AttributeName = Annotated[str, StringConstraints(min_length=1, max_length=80)]


def _attribute(value: object) -> object:
    """Write numbers and truth as text, which is all that a custom attribute holds."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value


AttributeValue = Annotated[str, BeforeValidator(_attribute, json_schema_input_type=str | int | bool)]


class HaOptions(Frozen):
    """A VM's vSphere HA settings that differ from its cluster's."""

    restart: Stated[Literal["disabled", "lowest", "low", "medium", "high", "highest"]] = key(
        "The VM's restart priority after a host failure; disabled: never restarted.",
        TakesEffect.LIVE,
        "the cluster's setting",
    )
    monitoring: Stated[Literal["off", "vm", "vm-and-app"]] = key(
        "Whether HA resets the VM if VMware Tools or an application in it stops responding.",
        TakesEffect.LIVE,
        "the cluster's setting",
    )


class VmOptions(Frozen):
    """The options of a VM, each a row of the table of VM settings."""

    secure_boot: Stated[bool] = key("UEFI secure boot.", TakesEffect.AT_CREATION, "the template's")
    boot_delay: Stated[Annotated[int, Field(ge=0, le=3600)]] = key(
        "The number of seconds that the firmware waits before booting; takes effect at the next power-on.",
        TakesEffect.LIVE,
        "the template's",
    )
    cpu_hot_add: Stated[bool] = key(
        (
            "Whether CPUs can be added while the VM is running. This hides the virtual NUMA nodes from "
            "the guest."
        ),
        TakesEffect.AT_POWER_CYCLE,
        "false",
    )
    memory_hot_add: Stated[bool] = key(
        "Whether memory can be added while the VM is running; not available with passthrough devices.",
        TakesEffect.AT_POWER_CYCLE,
        "false",
    )
    latency_sensitivity: Stated[Literal["normal", "high"]] = key(
        "high: every CPU has a dedicated core, and all CPU and memory resources are reserved.",
        TakesEffect.AT_POWER_CYCLE,
        "the template's",
    )
    vtpm: Stated[bool] = key(
        "A virtual TPM 2.0; requires a key provider in vCenter.", TakesEffect.AT_POWER_CYCLE, "the template's"
    )
    drs: Stated[Literal["manual", "partial", "full", "off"]] = key(
        "DRS automation for this VM: manual, partial, full (automated), or off.",
        TakesEffect.LIVE,
        "the cluster's setting",
    )
    ha: Stated[HaOptions] = key("vSphere HA settings for this VM.", TakesEffect.LIVE, "the cluster's setting")
    attributes: Stated[dict[AttributeName, AttributeValue]] = key(
        "The VM's custom attributes, by name; an empty string clears an attribute.", TakesEffect.LIVE
    )
    tags: Stated[dict[CategoryName, Texts]] = key(
        "The VM's tags by category: one, or a list; an empty list removes the category's tags.",
        TakesEffect.LIVE,
    )


OPTIONS = frozenset(VmOptions.model_fields)


def stated_options(options: VmOptions) -> Iterator[tuple[str, Any]]:
    """Yield the options that have a value."""
    for name in sorted(OPTIONS):
        value = getattr(options, name)
        if value is not None:
            yield name, value


_COMPARED = (
    "storage_policy",
    *("cpus", "memory", "gpus", "numa", "nics", "disks", "extra_config", "place", "guest", "power"),
)
MANAGED = (*_COMPARED, "name", "folder", *sorted(OPTIONS))
"""The keys that are compared with a VM that exists, and so can be ignored."""


if TYPE_CHECKING:
    ManagedKey = str
else:
    ManagedKey = Literal[MANAGED]


class Scratch(Frozen):
    """A VM that is made empty instead of cloned; it needs `cpus`, `memory` and a disk with a `size`."""

    scratch: Text = Field(description="vSphere's guest OS ID, such as ubuntu64Guest.")


class LibraryTemplate(Frozen):
    """A VM template of a content library."""

    library: Text = Field(description="The name of the content library.")
    item: Text = Field(description="The item's name; its type must be vm-template.")


def _kind_of_template(value: object) -> str:
    """Say which form a template is written in, so that complaints are about that one."""
    if isinstance(value, Mapping):
        return "library" if {"library", "item"} & value.keys() else "scratch"
    if isinstance(value, LibraryTemplate):
        return "library"
    return "scratch" if isinstance(value, Scratch) else "text"


TemplateKey = Annotated[
    Annotated[Text, Tag("text")]
    | Annotated[Scratch, Tag("scratch")]
    | Annotated[LibraryTemplate, Tag("library")],
    Discriminator(_kind_of_template),
]


class DeviceEntry(Frozen):
    """Which GPU to pass through: any free one that has everything said here."""

    label: OptionalText = key("The hardware label that the host assigns to the device.")
    model: OptionalText = key("The board, as it appears in the device's name: A100, L40S.")
    device_id: Stated[PciIds] = key("The vendor and device ID as printed by lspci: 10de:20f1.")

    def __str__(self) -> str:
        words = []
        if self.label:
            words.append(f"label {self.label!r}")
        if self.model:
            words.append(f"model {self.model!r}")
        if self.device_id is not None:
            words.append("ids {:04x}:{:04x}".format(*self.device_id))
        return " and ".join(words)


class GpuEntry(Frozen):
    """One kind of GPU of a VM, `count` times: a vGPU (`profile`, `memory`) or a whole one (`device`, `pin`).

    Of one asked for by its memory, `profile` holds the profiles that serve once the estate is known.
    """

    profile: Profiles = key(
        "The vGPU profile, from any series. With a list, the first available profile is used.", value=tuple
    )
    memory: GpuMemory = key(
        "Instead of a profile: the minimum GPU memory. The smallest available C-series profile "
        "is used; an existing VM keeps its profile if it is large enough."
    )
    any_of: Texts = key(
        "With `memory`: the boards to choose from, by full or partial name: A100, L40S.",
        default="any",
        value=tuple,
    )
    mig: Literal["allowed", "never", "only"] = key(
        "With `memory`: whether MIG-backed profiles are used.", value="allowed"
    )
    device: DeviceEntry = key(
        "Instead of a profile: an entire GPU with Dynamic DirectPath I/O.", value=DeviceEntry
    )
    pin: PciAddress = key("Instead of a profile: the GPU at this PCI address, with fixed passthrough.")
    count: Count = key("The number of these GPUs.", value=1)
    nvlink: PeersNumber = key("Whether these vGPUs must be connected by NVLink.", default="false")
    uvm: bool = key("Whether this vGPU uses unified memory, which disables vMotion.", value=False)
    group: OptionalText = key(
        "The exact name of the vendor device group that contains this vGPU and its NIC.",
        default="only NVLink groups",
    )

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": [name]} for name in ("profile", "memory", "device", "pin")]}
    )

    @property
    def kind(self) -> Literal["vgpu", "passthrough", "dynamic_passthrough"]:
        """How a VM is given it."""
        if self.pin:
            return "passthrough"
        return "vgpu" if self.profile or self.memory else "dynamic_passthrough"

    def is_served_by_name(self, name: str) -> bool:
        """Whether it is served by the profile of this name; False for a name that is not a profile's."""
        with suppress(ValueError):
            return self.is_served_by(VgpuProfile.parse(name))
        return False

    def is_served_by(self, profile: VgpuProfile) -> bool:
        """Whether a profile is one of those asked for, or as large and as shared as asked, boards aside.

        The size in its name counts: NVIDIA rounds it up by some MiB.
        """
        if self.memory is None:
            return profile in self.profile
        is_mig, peers = profile.sharing is Sharing.MIG, self.nvlink is not None
        return (
            profile.series == "C"
            and profile.framebuffer_gb * 1024 >= self.memory
            and not (is_mig and (peers or self.mig == "never"))
            and (is_mig or self.mig != "only")
        )

    @model_validator(mode="after")
    def _one_kind(self, info: ValidationInfo) -> GpuEntry:
        if not is_from_file(info):
            return self
        given = self.model_fields_set
        if self.memory is None and (alone := given & {"any_of", "mig"}):
            message = f"`{min(alone)}` applies to GPUs requested by `memory`\nexample: {{memory: 10GiB}}"
            raise ValueError(message)
        if self.memory is not None and (given & {"profile", "device"} or self.pin):
            message = (
                "with `memory`, the profile is selected automatically\nremove `profile`, `device` and "
                "`pin`, or `memory`"
            )
            raise ValueError(message)
        if self.pin and "profile" in given:
            message = (
                "`pin` is for passthrough; ESXi selects the GPU for a vGPU at power-on\nremove `pin`, or "
                "remove `profile` to use GPU passthrough"
            )
            raise ValueError(message)
        wanted = "device" in given and (self.device.label or self.device.model or self.device.device_id)
        if "profile" in given and wanted:
            message = "a GPU can have a `profile` or a `device`, not both\nremove one of them"
            raise ValueError(message)
        if not (given & {"profile", "device"} or self.pin or self.memory):
            message = (
                "a GPU requires `profile`, `memory`, `device` or `pin`\nexample: {profile: grid_a100-40c}"
            )
            raise ValueError(message)
        if "device" in given and not wanted and "profile" not in given and not self.pin:
            message = "`device` is empty\nset a label, a model or a device_id"
            raise ValueError(message)
        if self.pin and wanted:
            message = "`pin` already selects the GPU by its PCI address\nremove `device`"
            raise ValueError(message)
        if self.pin and self.count > 1:
            message = "`pin` selects one GPU\nremove `count`, and list every GPU with its own `pin`"
            raise ValueError(message)
        if self.uvm and self.kind != "vgpu":
            message = "`uvm` applies only to vGPUs\nremove `uvm`"
            raise ValueError(message)
        if self.group and (self.nvlink is not None or self.count > 1 or len(self.profile) != 1):
            message = (
                "`group` is for a single vGPU and its NIC\nuse a separate item for each group, "
                "and `nvlink` for GPUs connected by NVLink"
            )
            raise ValueError(message)
        return self

    @model_validator(mode="after")
    def _can_be_peers(self, info: ValidationInfo) -> GpuEntry:
        if self.nvlink is None or not is_from_file(info):
            return self
        if self.kind != "vgpu":
            message = (
                "`nvlink` is for vGPUs, but this GPU uses passthrough\nremove `nvlink`, or use a `profile` "
                "with a full GPU"
            )
            raise ValueError(message)
        if self.count < 2:
            message = "`nvlink` connects several GPUs, but `count` is 1\nexample: count: 2"
            raise ValueError(message)
        if self.mig == "only":
            message = "`nvlink` connects full GPUs, but `mig: only` requests MIG slices\nremove one of them"
            raise ValueError(message)
        for profile in self.profile:
            if profile.sharing is Sharing.MIG:
                message = (
                    f"`nvlink` connects full GPUs, but {profile.name} is a MIG slice\nuse the time-sliced "
                    "profile with the full framebuffer"
                )
                raise ValueError(message)
            if profile.series != "C":
                message = (
                    f"`nvlink` connects C-series vGPUs, but {profile.name} is a {profile.series}-series "
                    "profile\nuse the C profile with the full framebuffer"
                )
                raise ValueError(message)
        return self


def gpu_of_size(text: str) -> GpuEntry | None:
    """Return the vGPU that a size without a board asks for: 10c, 40GB, 3g.20gb. None for other texts."""
    size = bare_size(text)
    return size and GpuEntry(memory=size[0] * 1024, mig="only" if size[1] else "allowed")


class DiskEntry(Frozen):
    """A disk: the template's first one made larger (`grow`), or a new one (`size`)."""

    grow: Size = key("The minimum size of the template's first disk. Disks are never shrunk.")
    size: Size = key("The size of a new thin-provisioned disk.")
    controller: Literal["scsi", "nvme"] = key("The new disk's controller.", default="scsi")
    storage_policy: OptionalText = key("The disk's VM storage policy.", LIVE, "the VM's")

    model_config = ConfigDict(json_schema_extra={"oneOf": [{"required": ["grow"]}, {"required": ["size"]}]})

    @model_validator(mode="after")
    def _one_kind(self) -> DiskEntry:
        given = self.model_fields_set
        if ("grow" in given) == ("size" in given):
            message = "a disk requires either `grow` or `size`\nexample: {grow: 200GiB} or {size: 1TiB}"
            raise ValueError(message)
        if {"grow", "controller"} <= given:
            message = "`controller` applies only to a new disk\nremove it, or remove `grow`"
            raise ValueError(message)
        return self


class PlaceEntry(Frozen):
    """Allowed locations for the VMs of one line."""

    spread: Stated[Annotated[Spread, in_words(Spread)]] = key(
        "The resource that the VMs in this item must not share: a host, a GPU, or a host's NUMA node.",
        LIVE,
        "no restriction",
    )
    pack: bool = key(
        "Whether to prefer placing the VMs in this item on as few hosts as possible.", LIVE, value=False
    )
    max_per_host: Stated[Annotated[int, Field(ge=1, le=10_000)]] = key(
        "The maximum number of VMs in this item per host.", LIVE, "no limit"
    )
    max_hosts: Stated[Annotated[int, Field(ge=1, le=10_000)]] = key(
        (
            "The maximum number of hosts for the VMs in this item. Hosts that already run its VMs are used "
            "first."
        ),
        LIVE,
        "no limit",
    )
    hosts: Texts = key(
        "Host names or globs; only matching hosts are used.", LIVE, "every host of `cluster`", value=tuple
    )
    not_hosts: Texts = key("Host names or globs; matching hosts are never used.", LIVE, "none", value=tuple)
    host_group: OptionalText = key(
        "An existing DRS host group in the cluster: only its hosts are used, and a DRS rule keeps the VMs "
        "on them.",
        LIVE,
        "none",
    )
    must: bool = key(
        "Whether `spread` and the rule for `host_group` are mandatory (true) or preferred (false).",
        LIVE,
        value=True,
    )
    keep_free: Annotated[int, Field(ge=0, le=10_000)] = key(
        "The number of eligible hosts to keep free of VMs with GPUs. If several items use the same hosts, "
        "the largest number applies.",
        LIVE,
        value=0,
    )


class VmKeys(VmOptions):
    """Every key of a VM that `vms`, `defaults` and `except` may hold."""

    template: TemplateKey = key(
        "The source of the VM: a template's name or inventory path, {library: name, item: name}, or "
        "{scratch: guest id}.",
        AT_CREATION,
    )
    clone: Literal["full", "linked"] = key(
        "Whether to create a linked clone, which shares the template's disks.", AT_CREATION, "full"
    )
    cluster: Texts = key(
        "The cluster, or several; the first with capacity is used.", MOVE, "any suitable cluster"
    )
    folder: OptionalText = key(
        "The VM folder, as a path relative to the datacenter's VM folder; it must exist.",
        LIVE,
        "the datacenter's VM folder",
    )
    resource_pool: OptionalText = key("The resource pool.", AT_CREATION, "the cluster's root pool")
    datastore: OptionalText = key("The datastore.", MOVE, "the template's")
    storage_policy: OptionalText = key(
        "The VM storage policy for the VM home and disks, including disks from the template.",
        LIVE,
        "vCenter's default for the datastore",
    )
    cpus: Annotated[int, Field(ge=1, le=768)] = key("Virtual CPUs.", AT_POWER_CYCLE, "the template's")
    memory: Memory = key("Memory size with a unit; all memory is reserved.", AT_POWER_CYCLE, "the template's")
    gpus: Annotated[
        tuple[GpuEntry, ...], one_or_many_of("profile", Text | GpuEntry | list[Text | GpuEntry], gpu_item)
    ] = key(
        "The VM's GPUs; text is short for {profile: text}, and a size is short for {memory: 10GiB}.",
        AT_POWER_CYCLE,
        "none",
    )
    numa: Numa = key(
        "NUMA placement of CPUs and memory: follow-gpu, node (any one node with capacity), off, or node "
        "numbers.",
        AT_POWER_CYCLE,
        "follow-gpu",
    )
    nics: Annotated[
        tuple[NicEntry, ...], one_or_many_of("network", Text | NicEntry | list[Text | NicEntry])
    ] = key("The network adapters; text is short for {network: text}.", AT_POWER_CYCLE, "the template's")
    disks: tuple[DiskEntry, ...] = key(
        "Additional disks, and the minimum size of the template's first disk.",
        AT_POWER_CYCLE,
        "the template's",
    )
    extra_config: dict[ConfigKey, ConfigValue] = key(
        "VMX settings that are not covered by another key.", AT_POWER_CYCLE
    )
    place: PlaceEntry = key("Placement of the VM.", LIVE, value=PlaceEntry)
    guest: GuestEntry = key("Guest settings: host name, accounts, drivers, containers.", TakesEffect.IN_GUEST)
    power: bool | Literal["leave"] = key("Whether the VM is powered on; leave: not changed.", LIVE, "true")
    expires: Day = key("The VM's last day; `apply --expired` shuts it down after that day.", REPORTING)
    ignore: tuple[ManagedKey, ...] = key("Keys whose drift is neither reported nor fixed.", REPORTING)
    lock: bool = key("Whether `destroy` refuses to delete this VM.", LIVE, "false")


class VmEntry(VmKeys):
    """One line of `vms`: a VM, or as many as the range in its name counts."""

    name: Text = Field(
        description="The VM's name; {01..14} creates fourteen VMs. In other text, {n} is the number as "
        "written, {i} is the number without leading zeros."
    )
    except_: dict[str, VmKeys] = Field(
        default_factory=dict,
        alias="except",
        description="Changes to individual VMs, by name or range; mappings are merged, other values are "
        "replaced.",
    )


class MovedEntry(Frozen):
    """A VM, or as many as a range counts, that has another name in this file than it had before."""

    from_: Text = Field(alias="from", description="The VM's previous name, which is no longer in `vms`.")
    to: Text = Field(description="The VM's current name in `vms`.")


class Server(Frozen):
    """A vCenter by address, and one datacenter of it."""

    server: Text = Field(description="A context's name, an address, or lab:ESTATE.")
    datacenter: OptionalText = key("The datacenter.", default="the only one")


class ProtectEntry(Frozen):
    """Globs of objects that are never changed, regardless of the rest of the plan."""

    folders: Texts = key("VM folders, by inventory path.", value=tuple)
    names: Texts = key("VMs, by name.", value=tuple)
    clusters: Texts = key("Clusters, by name or inventory path.", value=tuple)


class WatchEntry(Frozen):
    """The actions of `verify --watch`; without `cordon` it only reports."""

    cordon: tuple[Literal["gpu-lost", "memory-failed", "gpu-reset"], ...] = key(
        "The health rules that cordon a GPU, or its host if the GPU is unknown.", value=tuple
    )
    per_cluster: Annotated[int, Field(ge=1, le=64)] = key(
        "The maximum number of hosts per cluster that a watch can cordon.", value=1
    )
    after_minutes: Annotated[int, Field(ge=5, le=10_080)] = key(
        "How long a GPU must report the state without interruption; at least three readings are required.",
        value=10,
    )


class VerifyEntry(Frozen):
    """Thresholds that `verify` applies to measured bandwidth."""

    host_memory: Stated[Annotated[float, Field(gt=0, le=1)]] = key(
        "The fraction of the line rate that RDMA must reach from host memory.", default="0.90"
    )
    gpu_memory: Stated[Annotated[float, Field(gt=0, le=1)]] = key(
        "The fraction of the line rate that RDMA must reach from GPU memory.", default="0.85"
    )
    busbw: Stated[Annotated[float, Field(gt=0, le=1)]] = key(
        "The fraction of the line rate that the bus bandwidth of an allreduce must reach.", default="0.84"
    )
    seconds: Stated[Annotated[int, Field(ge=1, le=600)]] = key(
        "The duration of each bandwidth measurement.", default="5"
    )
    line_gbps: Stated[Annotated[float, Field(gt=0, le=10_000)]] = key(
        "The required speed of each RDMA port, in Gb/s.", default="the catalog's value for the NIC model"
    )
    clock_seconds: Stated[Annotated[float, Field(gt=0, le=3600)]] = key(
        "The maximum difference between a guest's clock and vCenter's.", default="2"
    )
    licence_hours: Stated[Annotated[float, Field(ge=0, le=8760)]] = key(
        "The minimum remaining time on a vGPU's license.", default="12"
    )
    watch: Stated[WatchEntry] = key("Actions that `verify --watch` may take.")
    loss: Stated[Annotated[float, Field(gt=0, lt=1)]] = key(
        "The fraction by which a measurement may fall below the baseline.", default="0.05"
    )
    shared_gpus: Stated[bool] = key(
        "Whether other VMs may run on the GPUs used for training.", default="false"
    )


class FileHeader(Frozen):
    """Keys of a plan file and an included file other than `defaults`, `hosts`, `networks` and `vms`."""

    version: Literal[1] = key("The version of this format.")
    name: PlanName = key(
        "The plan's name, used in the owner mark of every VM it creates.", pattern=PLAN_NAME_PATTERN
    )
    id: PlanId = key(
        "The plan's ID, which identifies its VMs; the first apply creates it.",
        default="the ID in the file with the same name and the extension .id",
        pattern=ID_PATTERN,
    )
    vcenter: Text | Server = key(
        "The vCenter: a context's name, an address, lab:ESTATE, or {server, datacenter}."
    )
    include: Texts = key(
        "Files to merge first, with paths relative to this file. Cannot be combined with `name` or `vms`."
    )
    vars: dict[VariableName, str | int | float | bool] = key(
        "Values for ${variable}; --vars FILE and --set override them.",
        propertyNames={"pattern": VARIABLE_PATTERN},
    )
    secrets: dict[VariableName, Secret] = key(
        "References to secrets: env:, file:, keyring:, command:, age:, sops:; never the secrets themselves.",
        propertyNames={"pattern": VARIABLE_PATTERN},
    )
    protect: ProtectEntry = key("Objects that vgpu-cfg must never change.")
    checks: dict[CheckCode, Literal["error", "warning", "info"]] = key(
        "Severities to override, by check code; only for checks that rely on undocumented facts.",
        propertyNames={"pattern": CHECK_PATTERN},
    )
    verify: VerifyEntry = key("Thresholds for `verify`, such as the minimum measured bandwidth.")
    allow: Approvals = key(
        "Approvals: network (interrupts other VMs' links), training (ends a running training job), "
        "irreversible (cannot be undone)."
    )
    unpinned: bool = key(
        "Whether packages and image archives may be downloaded without a checksum.", default="false"
    )
    from_: Annotated[Stated[ZonedMoment], Field(alias="from")] = key(
        "Start of the GPU reservation; until then, `apply` reserves the GPUs but creates no VMs."
    )
    until: Stated[ZonedMoment] = key("End of the GPU reservation; requires `from`.")


class PlanFile(FileHeader):
    """A vgpu-cfg plan: the VMs with GPUs for one vCenter, and the hosts to prepare for them."""

    defaults: VmKeys = key("Default values for all VMs.")
    hosts: tuple[HostEntry, ...] = key("The hosts and their settings.")
    networks: tuple[Annotated[NetworkEntry, mapping_or_text("name", Text | NetworkEntry)], ...] = key(
        "Networks that must exist."
    )
    vms: tuple[VmEntry, ...] = key("The VMs, one item for each kind.")
    moved: tuple[MovedEntry, ...] = key("VMs with a previous name; they are renamed, not recreated.")
    site: SiteEntry = key("Sources for guest setup: proxy, mirrors, certificates.")
    training: TrainingEntry = key("The VMs that train together, and their framework.")
