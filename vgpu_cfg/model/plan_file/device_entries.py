"""Devices in a plan file: the device keys of an entry in `hosts`, and a VM's options.

The device keys are rules for GPUs and NICs, VMkernel NICs, and PVRDMA. A VM's options are one model, from the
file to the desired state.

Each option is a row of the table of VM settings (`planning.vms.table`), which defines how it is read, written
and shown. An option that is absent is None and not among `model_fields_set`.
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

    model: OptionalText = key("Part of the board or device name: A100, L40S.", default="any")
    pci_id: PciAddress = key("The GPU at this PCI address.", default="any")
    numa: Stated[Node] = key("GPUs on this NUMA node.", default="any")


class NicMatch(Frozen):
    """Which NICs of a host are meant: all that is said must hold.

    One that is an uplink or carries a VMkernel NIC is meant only where `vmnic` names it.
    """

    model: OptionalText = key("Part of the device's name: ConnectX-6 Dx.", default="any")
    vmnic: Vmnic = key(
        "The NIC with this name. Required to match a NIC that is an uplink or is used by a VMkernel NIC.",
        default="any NIC that the host does not use",
    )
    pci_id: PciAddress = key("The NIC at this PCI address.", default="any")
    numa: Stated[Node] = key("NICs on this NUMA node.", default="any")


class HostGpuEntry(Frozen):
    """Settings for matching GPUs; the first matching rule applies."""

    match: GpuMatch = key("The GPUs that the rule matches.", default="all", value=GpuMatch)
    use: Stated[Annotated[GpuUse, in_words(GpuUse)]] = key(
        "How the GPUs are used: for vGPUs, or passthrough of the entire GPU. leave: not changed.",
        HOST_REBOOT,
        "unchanged",
    )
    sharing: Stated[Annotated[Sharing, in_words(Sharing)]] = key(
        "How vGPUs share a GPU: time-sliced or MIG-backed. On Hopper and later, MIG requires no reboot.",
        HOST_REBOOT,
        "unchanged",
    )
    vgpu_mode: Stated[Annotated[VgpuMode, in_words(VgpuMode)]] = key(
        "Whether time-sliced vGPUs on a GPU must be the same size.", MAINTENANCE, "unchanged"
    )
    scheduler: Stated[Annotated[SchedulerPolicy, in_words(SchedulerPolicy)]] = key(
        "The scheduler for time-sliced vGPUs.", HOST_REBOOT, "unchanged"
    )
    ecc: Stated[bool] = key("Whether ECC is enabled for GPU memory.", HOST_REBOOT, "unchanged")
    label: RemovableText = key(
        'The vSphere hardware label of a passthrough GPU, which VMs can request; "" removes it.',
        LIVE,
        "unchanged",
    )


class RoceEntry(Frozen):
    """RoCE in the host's own NIC driver: the marking of its traffic, and the lossless priority."""

    trust: Literal["dscp", "pcp"] = key("The trusted packet field.", HOST_REBOOT, value="dscp")
    dscp: Annotated[int, Field(ge=0, le=63)] = key(
        "The DSCP of RDMA traffic; requires `trust: dscp`.", HOST_REBOOT, value=26
    )
    priority: Annotated[int, Field(ge=0, le=7)] = key(
        "The priority for which flow control (PFC) prevents packet loss.", HOST_REBOOT, value=3
    )


def _with_defaults(roce: RoceEntry | bool) -> RoceEntry | bool:  # noqa: FBT001 - what the plan file holds
    return RoceEntry() if roce is True else roce


class HostNicEntry(Frozen):
    """Settings for matching NICs; the first matching rule applies."""

    match: NicMatch = key(
        "The NICs that the rule matches.", default="all NICs that the host does not use", value=NicMatch
    )
    use: Stated[Annotated[NicUse, in_words(NicUse)]] = key(
        "How the NICs are used: by the host, passthrough of the entire NIC, or virtual functions.",
        HOST_REBOOT,
        "unchanged",
    )
    vfs: Stated[Annotated[int, Field(ge=1, le=65535)]] = key(
        "The number of virtual functions; required with `use: sriov`.", HOST_REBOOT
    )
    label: RemovableText = key(
        'The vSphere hardware label of a passthrough NIC; "" removes it.', LIVE, "unchanged"
    )
    firmware: dict[FirmwareName, FirmwareValue] = key(
        "mlxconfig parameters; the values are true, false, an integer, or a word such as ETH.",
        HOST_COLD_BOOT,
        "unchanged",
        value=dict,
        propertyNames=FIRMWARE_NAMES,
    )
    roce: Stated[Annotated[RoceEntry | bool, AfterValidator(_with_defaults)]] = key(
        "RoCE settings of the host's driver; true: the defaults, false: off.", HOST_REBOOT, "unchanged"
    )
    switch: RemovableText = key(
        'The switch to add the NIC to as an uplink; "" removes it from a standard switch.', LIVE, "unchanged"
    )


class VmknicEntry(Frozen):
    """A VMkernel NIC that every host in the entry must have on a network."""

    network: Text = Field(description="The network's name.", json_schema_extra={"x-takes-effect": LIVE.value})
    address: Stated[VmknicAddress] = key(
        "dhcp, or an IPv4 address with its prefix if the entry specifies a single host.", LIVE, "unchanged"
    )
    addresses: dict[Text, InterfaceAddress] = key(
        "An IPv4 address with its prefix for each host, by host name.", LIVE, value=dict
    )
    mtu: Stated[Mtu] = key("The MTU in bytes; must not exceed the switch's MTU.", LIVE, "unchanged")


class PvrdmaEntry(Frozen):
    """The VMkernel NIC that PVRDMA uses: by its name, or the one on a network."""

    vmknic: Vmknic = key("The device name of the VMkernel NIC.", LIVE)
    network: OptionalText = key("The network of the VMkernel NIC.", LIVE)


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
        "The VM's custom attributes, by name; empty text clears an attribute.", TakesEffect.LIVE
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
