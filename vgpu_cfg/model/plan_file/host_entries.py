"""An entry of `hosts` as its author writes it: which hosts, what of them, and how they may be disturbed.

What an item of a VM's `nics` says: a network adapter, or the function of a physical NIC that is one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, WithJsonSchema, field_serializer, model_validator

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.device_entries import HostGpuEntry, HostNicEntry, PvrdmaEntry, VmknicEntry
from vgpu_cfg.model.plan_file.fields import (
    Count,
    Mac,
    OptionalText,
    PciAddress,
    Stated,
    TakesEffect,
    Text,
    Texts,
    key,
)
from vgpu_cfg.model.plan_file.host_values import (
    Depots,
    DrsValue,
    HostAssignmentPolicy,
    HostGraphicsType,
    NamedSecret,
    Version,
    WindowText,
    one_or_list,
)
from vgpu_cfg.model.plan_file.network_values import CIDR_PATTERN, parse_nic_address
from vgpu_cfg.model.plan_values import Disruption

LIVE = TakesEffect.LIVE
HOST_REBOOT = TakesEffect.HOST_REBOOT
BY_HAND = TakesEffect.BY_HAND
NEXT_RUN = TakesEffect.NEXT_RUN


GpuRules = Annotated[
    tuple[HostGpuEntry, ...], one_or_list("a mapping", Mapping, HostGpuEntry | list[HostGpuEntry])
]
NicRules = Annotated[
    tuple[HostNicEntry, ...], one_or_list("a mapping", Mapping, HostNicEntry | list[HostNicEntry])
]
Vmknics = Annotated[
    tuple[VmknicEntry, ...], one_or_list("a mapping", Mapping, VmknicEntry | list[VmknicEntry])
]


Disruptions = Annotated[
    frozenset[Disruption],
    WithJsonSchema({"items": {"enum": [str(one) for one in Disruption], "type": "string"}, "type": "array"}),
]

NicAddress = Annotated[
    str | None,
    BeforeValidator(
        parse_nic_address,
        json_schema_input_type=Annotated[str, Field(pattern=rf"^$|^dhcp$|^pool$|^{CIDR_PATTERN}$")],
    ),
]


class DriverEntry(Frozen):
    """The NVIDIA host driver."""

    kind: Literal["nvd-aie", "vgpu"] = key(
        "Of NVIDIA AI Enterprise, or of vGPU.", HOST_REBOOT, value="nvd-aie"
    )
    version: Stated[Version] = key("A glob of versions, quoted.", HOST_REBOOT, "any")
    by: Literal["lifecycle", "esxcli", "hand"] = key(
        "Who installs it: the cluster's image, this tool from `depot`, or a person.",
        NEXT_RUN,
        value="hand",
    )
    depot: Depots = key(
        "Offline bundles for by esxcli: paths on the host, or addresses.", HOST_REBOOT, value=tuple
    )


class FirmwareToolsEntry(Frozen):
    """NVIDIA's firmware tools: MFT, and NMST, its kernel module."""

    version: Stated[Version] = key("A glob of versions of MFT, quoted.", HOST_REBOOT, "any")
    by: Literal["lifecycle", "esxcli", "hand"] = key(
        "Who installs them: the cluster's image, this tool from `depot`, or a person.",
        NEXT_RUN,
        value="hand",
    )
    depot: Depots = key(
        "Offline bundles for by esxcli, of MFT and of NMST: paths on the host, or addresses.",
        HOST_REBOOT,
        value=tuple,
    )


class BiosEntry(Frozen):
    """What the server's BIOS must be set to; it is only set manually, and what shows of it is checked."""

    sriov: Stated[bool] = key("SR-IOV.", BY_HAND, "not checked")
    above_4g: Stated[bool] = key("64-bit BARs: memory-mapped I/O above 4 GB.", BY_HAND, "not checked")
    iommu: Stated[bool] = key("The IOMMU: Intel VT-d or AMD-Vi.", BY_HAND, "not checked")


class BmcEntry(Frozen):
    """The management controllers (BMC) of servers, spoken to by Redfish: they switch a host on again."""

    addresses: dict[Text, Text] = key(
        "The address of each host's BMC, by the host's name in vCenter: bmc-01, or bmc-01:8443.",
        NEXT_RUN,
        "none",
        value=dict,
    )
    user: Text = key("The account of the BMCs; it may switch the power.", NEXT_RUN, value="root")
    password: Stated[NamedSecret] = key("The secret that holds its password.", NEXT_RUN)
    thumbprints: dict[Text, Text] = key(
        "By a host's name, the SHA-256 of its BMC's certificate; it replaces the authorities.",
        NEXT_RUN,
        "the authorities",
        value=dict,
    )
    system: OptionalText = key(
        "The Redfish id of the server, of a BMC that has several.", NEXT_RUN, "the only one"
    )


class AccessEntry(Frozen):
    """How the host's shell is reached, for what neither vCenter nor esxcli can do."""

    ssh: Literal["off", "on", "open-and-close"] = key(
        "off: never. on: only where somebody has started it. open-and-close: started, and stopped again.",
        NEXT_RUN,
        value="off",
    )
    user: Text = key("The user of the shell.", NEXT_RUN, value="root")
    password: Stated[NamedSecret] = key("The secret that holds the password.", NEXT_RUN)
    host_keys: Literal["known", "pin"] = key(
        "known: only a key that is in known_hosts. pin: a host's first key is written there.",
        NEXT_RUN,
        value="known",
    )
    bmc: BmcEntry = key(
        "The servers' management controllers, which switch them on after a cold boot's shutdown.",
        NEXT_RUN,
        "none",
        value=BmcEntry,
    )
    # The last one: below it the function of its name is out of reach.
    key: Stated[NamedSecret] = key("The secret that holds a private key.", NEXT_RUN)


class EstimateEntry(Frozen):
    """How many minutes things are thought to take: what does not end in `window` is not begun."""

    maintenance: Annotated[int, Field(ge=0)] = key(
        "Emptying a host and giving it back, with all that is set on it.", NEXT_RUN, value=15
    )
    reboot: Annotated[int, Field(ge=0)] = key("Each reboot of a host.", NEXT_RUN, value=15)
    vm: Annotated[int, Field(ge=0)] = key(
        "A VM that is moved, or switched off and on again.", NEXT_RUN, value=5
    )


class DisruptionEntry(Frozen):
    """How far hosts may be disturbed."""

    max_hosts_down: Annotated[int, Field(ge=1)] = key(
        "How many hosts are out of use at once, at most.", NEXT_RUN, value=1
    )
    allow: Disruptions = key(
        "What may be done to a host. []: nothing.",
        NEXT_RUN,
        "maintenance, reboot",
        value=frozenset({Disruption.MAINTENANCE, Disruption.REBOOT}),
    )
    canary: Annotated[int, Field(ge=0)] = key(
        "How many hosts go first; the others follow when these are done.", NEXT_RUN, value=0
    )
    vsan: Stated[Literal["ensureAccessibility", "noAction", "evacuateAllData"]] = key(
        "What becomes of a host's vSAN data while it is in maintenance mode.", NEXT_RUN, "vSphere decides"
    )
    window: WindowText = key(
        "When hosts may be disturbed: days, from and to, time zone. Days: Sat, or Sat,Sun, or daily.",
        NEXT_RUN,
        "always",
    )
    estimate: EstimateEntry = key(
        "How many minutes things take, by which is told what ends in the window.",
        NEXT_RUN,
        value=EstimateEntry,
    )
    power_off_own: bool = key(
        "Whether this plan's own VMs may be powered off where they cannot be moved.",
        NEXT_RUN,
        "false",
        value=False,
    )

    @field_serializer("allow")
    def _in_order(self, allowed: frozenset[Disruption]) -> list[str]:
        return sorted(allowed)


class ClusterOptionsEntry(Frozen):
    """What vGPU VMs need of DRS and vCenter to be moved. It holds for the whole cluster."""

    evacuate_vgpu: Stated[bool] = key(
        "Whether maintenance mode moves VMs with vGPUs: DRS option VgpuMMAutomationTimeoutSecs at -1.",
        LIVE,
        "as it is",
    )
    hot_migrate: Stated[bool] = key(
        "vCenter's vgpu.hotmigrate.enabled: vMotion of VMs with vGPUs.", LIVE, "as it is"
    )
    drs: dict[Text, DrsValue] = key("Other options of DRS by name. Empty text removes one.", LIVE, value=dict)


class HostEntry(Frozen):
    """One entry of `hosts`: the hosts of a cluster, or those that are named, and how they shall be."""

    cluster: OptionalText = key("All hosts of this cluster, by name or inventory path.", NEXT_RUN)
    names: Texts = key(
        "Globs of host names, or names with a range; with `cluster`, only hosts of it. One that matches "
        "nothing is an error.",
        NEXT_RUN,
        value=tuple,
    )
    mode: Literal["enforce", "check"] = key("check: report, and never write.", NEXT_RUN, value="enforce")
    prepare: Literal["from_vms", "none"] = key(
        "from_vms: what the plan's VMs need of the hosts they are placed on is set too; what is stated here "
        "goes before it.",
        NEXT_RUN,
        "from_vms in a plan that has VMs, none in one that has not",
        value="none",
    )
    graphics_type: Stated[HostGraphicsType] = key(
        "The host's default graphics type; vGPUs need sharedDirect.", TakesEffect.SERVICE_RESTART, "as it is"
    )
    assignment_policy: Stated[HostAssignmentPolicy] = key(
        "How vGPUs are spread over GPUs: breadth first, or depth first.",
        TakesEffect.SERVICE_RESTART,
        "as it is",
    )
    ats: Stated[bool] = key(
        "Address translation services: kernel option atsSupport.", HOST_REBOOT, "as it is"
    )
    gpus: GpuRules = key(
        "Rules for GPUs; the first that matches holds, and a GPU that none matches is not touched.",
        value=tuple,
    )
    nics: NicRules = key(
        "Rules for NICs; the first that matches holds, and a NIC that none matches is not touched.",
        value=tuple,
    )
    vmknics: Vmknics = key("VMkernel NICs.", value=tuple)
    pvrdma: Stated[PvrdmaEntry | bool] = key(
        "The VMkernel NIC of PVRDMA, with the firewall's ruleset; false: none.", LIVE, "as it is"
    )
    driver: Stated[DriverEntry] = key(
        "The NVIDIA host driver: which, and who installs it.", HOST_REBOOT, "not checked"
    )
    firmware_tools: Stated[FirmwareToolsEntry] = key(
        "NVIDIA's firmware tools, which `firmware` of NICs takes: who installs them.",
        HOST_REBOOT,
        "not checked",
    )
    bios: Stated[BiosEntry] = key("What the server's BIOS must be set to.", BY_HAND, "not checked")
    licence: Stated[NamedSecret] = key(
        "The secret that holds the host's vSphere licence key.", LIVE, "as it is"
    )
    cluster_options: ClusterOptionsEntry = key(
        "What vGPU VMs need of DRS; needs `cluster`.", LIVE, value=ClusterOptionsEntry
    )
    access: AccessEntry = key("How the host's shell is reached.", NEXT_RUN, value=AccessEntry)
    disruption: DisruptionEntry = key(
        "What may be done to hosts, when, and to how many at once.", NEXT_RUN, value=DisruptionEntry
    )

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["cluster"]}, {"required": ["names"]}]}
    )


class NicDeviceEntry(Frozen):
    """Which physical NIC: any free one that has everything said here."""

    label: OptionalText = key(
        "The hardware label that the host gives the NIC; the device is a Dynamic DirectPath one then."
    )
    model: OptionalText = key("Part of the NIC's name: ConnectX-6 Dx.")


class NicEntry(Frozen):
    """A network adapter, `count` times. `{k}` in the text counts them from 1.

    One of type passthrough is a whole function of a physical NIC, one of type sriov a virtual function, one
    of type pvrdma a paravirtual RDMA adapter.
    """

    network: OptionalText = key(
        "The network's name or inventory path; it must exist. A NIC that is passed through has none: what "
        "stands here only says what it is cabled to."
    )
    type: Literal["vmxnet3", "sriov", "passthrough", "pvrdma"] = key("The adapter type.", default="vmxnet3")
    count: Count = key("How many of them.", default="1")
    mac: Mac = key(
        "A fixed MAC address. Of a NIC that is passed through: its own, by which the guest finds it.",
        default="vCenter assigns one",
    )
    near: Literal["gpu", "any"] = key(
        "gpu: a function of a NUMA node of the VM's GPUs, or none; any: of any node. Not of vmxnet3.",
        default="near a GPU where one is free",
    )
    pin: PciAddress = key(
        "The NIC at this PCI address: the function to pass through, or the physical one of the virtual ones.",
        default="any that is free",
    )
    device: NicDeviceEntry = key("Which NIC, by label and model.", default="any that is free")
    ip: NicAddress = key(
        "What address the guest gives it: pool (one of the network's), dhcp, or one with its prefix.",
        default="the guest is not told",
    )
    rdma: Literal["gpudirect", "host"] = key(
        "gpudirect: RDMA from and to GPU memory, with all that it needs of host, VM, NIC and guest. host: "
        "of the guest's own memory only.",
        default="nothing is done for RDMA",
    )

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["network"]}, {"required": ["type"]}]}
    )

    @model_validator(mode="after")
    def _go_together(self) -> NicEntry:
        for message in self._contradictions():
            raise ValueError(message)
        return self

    @property
    def kind(self) -> str:
        """The adapter type, the default where none is stated."""
        return self.type if "type" in self.model_fields_set else "vmxnet3"

    @property
    def is_many(self) -> bool:
        """Whether it stands for several NICs."""
        return (self.count or 1) > 1

    def _contradictions(self) -> Iterator[str]:
        given = {name for name in self.model_fields_set if getattr(self, name) is not None}
        if self.kind != "passthrough" and "network" not in given:
            yield "a NIC needs a `network`\nonly one of type passthrough goes without"
        if self.kind in ("vmxnet3", "pvrdma"):
            for name in ("near", "pin", "device"):
                if name in given:
                    yield f"`{name}` is of NICs of type passthrough or sriov\nwrite one of them, or remove it"
        if self.mac and self.kind == "passthrough" and not given & {"ip", "rdma"}:
            yield (
                "a NIC that is passed through has a MAC address of its own, and `mac` only tells the guest "
                "which one is meant\nadd `ip` or `rdma`, or remove it"
            )
        if self.mac and self.is_many and "{k}" not in self.mac:
            yield "one `mac` cannot serve several NICs\nput {k} in it, or list the NICs one by one"
        if self.ip not in (None, "dhcp", "pool") and self.is_many and "{k}" not in self.ip:
            yield "one address cannot serve several NICs\nput {k} in it, or write pool"
        if self.ip == "pool" and "network" not in given:
            yield "`ip: pool` is of a network, and this NIC names none\nadd `network`"
        yield from self._wrong_rdma()
        yield from self._wrong_device(given)

    def _wrong_rdma(self) -> Iterator[str]:
        if "rdma" not in self.model_fields_set:
            return
        if self.kind == "vmxnet3":
            yield "a vmxnet3 NIC has no RDMA\nwrite type: passthrough, sriov or pvrdma; or remove `rdma`"
        if self.kind == "pvrdma" and self.rdma == "gpudirect":
            yield "PVRDMA does not reach GPU memory\nwrite rdma: host, or type: passthrough or sriov"

    def _wrong_device(self, given: set[str]) -> Iterator[str]:
        if {"pin", "device"} <= given:
            yield "with `pin` the PCI address alone decides\nremove `device`"
        if self.pin and self.is_many and self.kind == "passthrough":
            yield "`pin` names one NIC\nremove `count`, and list every NIC with its own `pin`"
        if "device" not in given:
            return
        if not (self.device.label or self.device.model):
            yield "`device` says nothing\ngive a label or a model"
        if self.device.label and self.kind == "sriov":
            yield "a hardware `label` is of a NIC that is passed through whole\nwrite a `model` or a `pin`"
