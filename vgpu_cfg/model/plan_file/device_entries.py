"""What an entry of `hosts` says of devices: rules for GPUs and NICs, VMkernel NICs, PVRDMA.

The options of a VM that a plan file may state: one model, from the file to what is desired.

Each is a row of the table of VM settings (`planning.vms.table`), which says how it is read, written and
shown. An option that is absent is None and not among `model_fields_set`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StringConstraints

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.fields import (
    OptionalText,
    PciAddress,
    RemovableText,
    Stated,
    TakesEffect,
    Text,
    Texts,
    in_words,
    key,
)
from vgpu_cfg.model.plan_file.host_values import (
    FIRMWARE_NAMES,
    FirmwareName,
    FirmwareValue,
    InterfaceAddress,
    Mtu,
    Node,
    Vmknic,
    VmknicAddress,
    Vmnic,
)
from vgpu_cfg.model.plan_values import GpuUse, NicUse, SchedulerPolicy
from vgpu_cfg.model.vgpu import Sharing, VgpuMode

LIVE = TakesEffect.LIVE
MAINTENANCE = TakesEffect.MAINTENANCE
HOST_REBOOT = TakesEffect.HOST_REBOOT
HOST_COLD_BOOT = TakesEffect.HOST_COLD_BOOT

CategoryName = Annotated[str, StringConstraints(min_length=1, max_length=256)]
AttributeName = Annotated[str, StringConstraints(min_length=1, max_length=80)]


class GpuMatch(Frozen):
    """Which GPUs of a host are meant: all that is said must hold."""

    model: OptionalText = key("Part of the board's or the device's name: A100, L40S.", default="any")
    pci_id: PciAddress = key("The one at this PCI address.", default="any")
    numa: Stated[Node] = key("Those of this NUMA node.", default="any")


class NicMatch(Frozen):
    """Which NICs of a host are meant: all that is said must hold.

    One that is an uplink or carries a VMkernel NIC is meant only where `vmnic` names it.
    """

    model: OptionalText = key("Part of the device's name: ConnectX-6 Dx.", default="any")
    vmnic: Vmnic = key(
        "The one of this name. Only this takes a NIC that is an uplink or carries a VMkernel NIC.",
        default="any that the host itself does not need",
    )
    pci_id: PciAddress = key("The one at this PCI address.", default="any")
    numa: Stated[Node] = key("Those of this NUMA node.", default="any")


class HostGpuEntry(Frozen):
    """How the GPUs that match shall be set; of several rules the first that matches holds."""

    match: GpuMatch = key("Which GPUs.", default="every one", value=GpuMatch)
    use: Stated[Annotated[GpuUse, in_words(GpuUse)]] = key(
        "What they are for: vGPUs, or whole for one VM. leave: nothing of them is touched.",
        HOST_REBOOT,
        "as it is",
    )
    sharing: Stated[Annotated[Sharing, in_words(Sharing)]] = key(
        "How vGPUs share one: by turns, or on MIG slices. From Hopper on MIG needs no reboot.",
        HOST_REBOOT,
        "as it is",
    )
    vgpu_mode: Stated[Annotated[VgpuMode, in_words(VgpuMode)]] = key(
        "Whether time-sliced vGPUs of one GPU must be of one size.", MAINTENANCE, "as it is"
    )
    scheduler: Stated[Annotated[SchedulerPolicy, in_words(SchedulerPolicy)]] = key(
        "How time-sliced vGPUs take turns.", HOST_REBOOT, "as it is"
    )
    ecc: Stated[bool] = key("Error correction of the memory.", HOST_REBOOT, "as it is")
    label: RemovableText = key(
        'vSphere\'s hardware label of a GPU that is passed through, by which VMs ask for it; "" removes it.',
        LIVE,
        "as it is",
    )


class RoceEntry(Frozen):
    """RoCE in the host's own NIC driver: what marks its traffic, and the priority that is kept lossless."""

    trust: Literal["dscp", "pcp"] = key("Which mark of a packet counts.", HOST_REBOOT, value="dscp")
    dscp: Annotated[int, Field(ge=0, le=63)] = key(
        "The DSCP of RDMA traffic; with trust dscp.", HOST_REBOOT, value=26
    )
    priority: Annotated[int, Field(ge=0, le=7)] = key(
        "The priority that flow control (PFC) keeps lossless.", HOST_REBOOT, value=3
    )


def _with_defaults(roce: RoceEntry | bool) -> RoceEntry | bool:  # noqa: FBT001 - what the plan file holds
    return RoceEntry() if roce is True else roce


class HostNicEntry(Frozen):
    """How the NICs that match shall be set; of several rules the first that matches holds."""

    match: NicMatch = key(
        "Which NICs.", default="every one that the host itself does not need", value=NicMatch
    )
    use: Stated[Annotated[NicUse, in_words(NicUse)]] = key(
        "What they are for: the host's own, whole for one VM, or cut into virtual functions.",
        HOST_REBOOT,
        "as it is",
    )
    vfs: Stated[Annotated[int, Field(ge=1, le=65535)]] = key(
        "How many virtual functions; needed with use sriov.", HOST_REBOOT
    )
    label: RemovableText = key(
        'vSphere\'s hardware label of a NIC that is passed through; "" removes it.', LIVE, "as it is"
    )
    firmware: dict[FirmwareName, FirmwareValue] = key(
        "Parameters of mlxconfig: true, false, a whole number, or a word such as ETH.",
        HOST_COLD_BOOT,
        "as it is",
        value=dict,
        propertyNames=FIRMWARE_NAMES,
    )
    roce: Stated[Annotated[RoceEntry | bool, AfterValidator(_with_defaults)]] = key(
        "RoCE in the host's own driver; true: with every default, false: off.", HOST_REBOOT, "as it is"
    )
    switch: RemovableText = key(
        'The switch that the NIC is an uplink of; "" takes it off a standard switch.', LIVE, "as it is"
    )


class VmknicEntry(Frozen):
    """A VMkernel NIC that every host of the entry shall have on a network."""

    network: Text = Field(description="The network's name.", json_schema_extra={"x-takes-effect": LIVE.value})
    address: Stated[VmknicAddress] = key(
        "dhcp, or an IPv4 address with its prefix where the entry names one host.", LIVE, "as it is"
    )
    addresses: dict[Text, InterfaceAddress] = key(
        "An IPv4 address with its prefix for each host, by the host's name.", LIVE, value=dict
    )
    mtu: Stated[Mtu] = key("The largest packet in bytes, at most that of the switch.", LIVE, "as it is")


class PvrdmaEntry(Frozen):
    """The VMkernel NIC that PVRDMA uses: by its name, or the one on a network."""

    vmknic: Vmknic = key("Its name.", LIVE)
    network: OptionalText = key("The network that it is on.", LIVE)


def _attribute(value: object) -> object:
    """Write numbers and truth as text, which is all that a custom attribute holds."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, int) else value


AttributeValue = Annotated[str, BeforeValidator(_attribute, json_schema_input_type=str | int | bool)]


class HaOptions(Frozen):
    """What vSphere HA does with a VM other than with the rest of its cluster."""

    restart: Stated[Literal["disabled", "lowest", "low", "medium", "high", "highest"]] = key(
        "When HA starts the VM again after its host failed, among the others; disabled: never.",
        TakesEffect.LIVE,
        "the cluster's",
    )
    monitoring: Stated[Literal["off", "vm", "vm-and-app"]] = key(
        "Whether HA resets the VM when its tools, or an application, are silent.",
        TakesEffect.LIVE,
        "the cluster's",
    )


class VmOptions(Frozen):
    """The options of a VM, each a row of the table of VM settings."""

    secure_boot: Stated[bool] = key("UEFI secure boot.", TakesEffect.AT_CREATION, "the template's")
    boot_delay: Stated[Annotated[int, Field(ge=0, le=3600)]] = key(
        "Seconds that the firmware waits before it boots; from the next start on.",
        TakesEffect.LIVE,
        "the template's",
    )
    cpu_hot_add: Stated[bool] = key(
        "Whether CPUs can be added while the VM runs. That hides the virtual NUMA nodes from the guest.",
        TakesEffect.AT_POWER_CYCLE,
        "false",
    )
    memory_hot_add: Stated[bool] = key(
        "Whether memory can be added while the VM runs; not where a device is passed through.",
        TakesEffect.AT_POWER_CYCLE,
        "false",
    )
    latency_sensitivity: Stated[Literal["normal", "high"]] = key(
        "high: every CPU has a core of its own. All CPU and memory is reserved then.",
        TakesEffect.AT_POWER_CYCLE,
        "the template's",
    )
    vtpm: Stated[bool] = key(
        "A virtual TPM 2.0; vCenter needs a key provider.", TakesEffect.AT_POWER_CYCLE, "the template's"
    )
    drs: Stated[Literal["manual", "partial", "full", "off"]] = key(
        "What DRS may do with this VM: manual, partial, full (automated), or off.",
        TakesEffect.LIVE,
        "the cluster's",
    )
    ha: Stated[HaOptions] = key("What vSphere HA does with this VM.", TakesEffect.LIVE, "the cluster's")
    attributes: Stated[dict[AttributeName, AttributeValue]] = key(
        "Custom attributes of the VM, by name; an empty text clears one.", TakesEffect.LIVE
    )
    tags: Stated[dict[CategoryName, Texts]] = key(
        "Tags of the VM by their category: one, or a list; an empty list takes away those of the category.",
        TakesEffect.LIVE,
    )


OPTIONS = frozenset(VmOptions.model_fields)


def stated_options(options: VmOptions) -> Iterator[tuple[str, Any]]:
    """Yield the options that have a value."""
    for name in sorted(OPTIONS):
        value = getattr(options, name)
        if value is not None:
            yield name, value
