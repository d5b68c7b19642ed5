"""What an entry of `hosts` says of devices: rules for GPUs and NICs, VMkernel NICs, PVRDMA."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.fields import OptionalText, PciAddress, RemovableText, Text
from vgpu_cfg.model.plan_file.host_fields import (
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
from vgpu_cfg.model.plan_key import TakesEffect, key

LIVE = TakesEffect.LIVE
MAINTENANCE = TakesEffect.MAINTENANCE
HOST_REBOOT = TakesEffect.HOST_REBOOT
HOST_COLD_BOOT = TakesEffect.HOST_COLD_BOOT


class GpuMatch(Frozen):
    """Which GPUs of a host are meant: all that is said must hold."""

    model: OptionalText = key("Part of the board's or the device's name: A100, L40S.", default="any")
    pci_id: PciAddress = key("The one at this PCI address.", default="any")
    numa: Node = key("Those of this NUMA node.", default="any")


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
    numa: Node = key("Those of this NUMA node.", default="any")


class HostGpuEntry(Frozen):
    """How the GPUs that match shall be set; of several rules the first that matches holds."""

    match: GpuMatch = key("Which GPUs.", default="every one")
    use: Literal["vgpu", "passthrough", "leave"] = key(
        "What they are for: vGPUs, or whole for one VM. leave: nothing of them is touched.",
        HOST_REBOOT,
        "as it is",
    )
    sharing: Literal["time_sliced", "mig"] = key(
        "How vGPUs share one: by turns, or on MIG slices. From Hopper on MIG needs no reboot.",
        HOST_REBOOT,
        "as it is",
    )
    vgpu_mode: Literal["same_size", "mixed_size"] = key(
        "Whether time-sliced vGPUs of one GPU must be of one size.", MAINTENANCE, "as it is"
    )
    scheduler: Literal["best_effort", "equal_share", "fixed_share"] = key(
        "How time-sliced vGPUs take turns.", HOST_REBOOT, "as it is"
    )
    ecc: bool = key("Error correction of the memory.", HOST_REBOOT, "as it is")
    label: RemovableText = key(
        'vSphere\'s hardware label of a GPU that is passed through, by which VMs ask for it; "" removes it.',
        LIVE,
        "as it is",
    )


class RoceEntry(Frozen):
    """RoCE in the host's own NIC driver: what marks its traffic, and the priority that is kept lossless."""

    trust: Literal["dscp", "pcp"] = key("Which mark of a packet counts.", HOST_REBOOT, "dscp")
    dscp: Annotated[int, Field(ge=0, le=63)] = key(
        "The DSCP of RDMA traffic; with trust dscp.", HOST_REBOOT, "26"
    )
    priority: Annotated[int, Field(ge=0, le=7)] = key(
        "The priority that flow control (PFC) keeps lossless.", HOST_REBOOT, "3"
    )


class HostNicEntry(Frozen):
    """How the NICs that match shall be set; of several rules the first that matches holds."""

    match: NicMatch = key("Which NICs.", default="every one that the host itself does not need")
    use: Literal["host", "passthrough", "sriov"] = key(
        "What they are for: the host's own, whole for one VM, or cut into virtual functions.",
        HOST_REBOOT,
        "as it is",
    )
    vfs: Annotated[int, Field(ge=1, le=65535)] = key(
        "How many virtual functions; needed with use sriov.", HOST_REBOOT
    )
    label: RemovableText = key(
        'vSphere\'s hardware label of a NIC that is passed through; "" removes it.', LIVE, "as it is"
    )
    firmware: dict[FirmwareName, FirmwareValue] = key(
        "Parameters of mlxconfig: true, false, a whole number, or a word such as ETH.",
        HOST_COLD_BOOT,
        "as it is",
        propertyNames=FIRMWARE_NAMES,
    )
    roce: RoceEntry | bool = key(
        "RoCE in the host's own driver; true: with every default, false: off.", HOST_REBOOT, "as it is"
    )
    switch: RemovableText = key(
        'The switch that the NIC is an uplink of; "" takes it off a standard switch.', LIVE, "as it is"
    )


class VmknicEntry(Frozen):
    """A VMkernel NIC that every host of the entry shall have on a network."""

    network: Text = Field(description="The network's name.", json_schema_extra={"x-takes-effect": LIVE.value})
    address: VmknicAddress = key(
        "dhcp, or an IPv4 address with its prefix where the entry names one host.", LIVE, "as it is"
    )
    addresses: dict[Text, InterfaceAddress] = key(
        "An IPv4 address with its prefix for each host, by the host's name.", LIVE
    )
    mtu: Mtu = key("The largest packet in bytes, at most that of the switch.", LIVE, "as it is")


class PvrdmaEntry(Frozen):
    """The VMkernel NIC that PVRDMA uses: by its name, or the one on a network."""

    vmknic: Vmknic = key("Its name.", LIVE)
    network: OptionalText = key("The network that it is on.", LIVE)
