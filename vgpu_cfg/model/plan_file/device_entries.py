"""Network adapters of a VM, and the rules for a host's GPUs, NICs, VMkernel NICs, and PVRDMA."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ConfigDict,
    Field,
    model_validator,
)

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.fields import (
    Count,
    Mac,
    OptionalText,
    PciAddress,
    RemovableText,
    Stated,
    TakesEffect,
    Text,
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
from vgpu_cfg.model.plan_file.network_values import CIDR_PATTERN, parse_nic_address
from vgpu_cfg.model.plan_file.values import is_reserved_mac
from vgpu_cfg.model.plan_values import GpuUse, NicUse, SchedulerPolicy
from vgpu_cfg.model.vgpu import Sharing, VgpuMode

LIVE = TakesEffect.LIVE
MAINTENANCE = TakesEffect.MAINTENANCE
HOST_REBOOT = TakesEffect.HOST_REBOOT
HOST_COLD_BOOT = TakesEffect.HOST_COLD_BOOT


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
        "How the GPUs are used: shared as vGPUs, or passed through whole. leave: not changed.",
        HOST_REBOOT,
        "unchanged",
    )
    sharing: Stated[Annotated[Sharing, in_words(Sharing)]] = key(
        "How vGPUs share a GPU: time-sliced or MIG-backed. On Hopper and later, MIG does not require a "
        "reboot.",
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
        "How the NICs are used: by the host, passed through whole, or as virtual functions.",
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
        "The host driver's RoCE settings; true: the defaults, false: off.", HOST_REBOOT, "unchanged"
    )
    switch: RemovableText = key(
        'The switch to add the NIC to as an uplink; "" removes it from a standard switch.', LIVE, "unchanged"
    )


class VmknicEntry(Frozen):
    """A VMkernel NIC that every host in the entry must have on a network."""

    network: Text = Field(description="The network's name.", json_schema_extra={"x-takes-effect": LIVE.value})
    address: Stated[VmknicAddress] = key(
        "dhcp, or an IPv4 address with its prefix (only if the entry specifies a single host).",
        LIVE,
        "unchanged",
    )
    addresses: dict[Text, InterfaceAddress] = key(
        "An IPv4 address with its prefix for each host, by host name.", LIVE, value=dict
    )
    mtu: Stated[Mtu] = key("The MTU in bytes; must not exceed the switch's MTU.", LIVE, "unchanged")


class PvrdmaEntry(Frozen):
    """The VMkernel NIC that PVRDMA uses: by its name, or the one on a network."""

    vmknic: Vmknic = key("The device name of the VMkernel NIC.", LIVE)
    network: OptionalText = key("The network of the VMkernel NIC.", LIVE)


NicAddress = Annotated[
    str | None,
    BeforeValidator(
        parse_nic_address,
        json_schema_input_type=Annotated[str, Field(pattern=rf"^$|^dhcp$|^pool$|^{CIDR_PATTERN}$")],
    ),
]


class NicDeviceEntry(Frozen):
    """Which physical NIC: any free one that has everything said here."""

    label: OptionalText = key(
        "The hardware label that the host assigns to the NIC; the device then uses Dynamic DirectPath."
    )
    model: OptionalText = key("Part of the NIC's name: ConnectX-6 Dx.")


class NicEntry(Frozen):
    """A network adapter, `count` times. `{k}` in the text counts them from 1.

    One of type passthrough is a whole function of a physical NIC, one of type sriov a virtual function, one
    of type pvrdma a paravirtual RDMA adapter.
    """

    network: OptionalText = key(
        "The network's name or inventory path; it must exist. For a passthrough NIC, it only documents the "
        "cabling."
    )
    type: Literal["vmxnet3", "sriov", "passthrough", "pvrdma"] = key("The adapter type.", default="vmxnet3")
    count: Count = key("The number of these NICs.", default="1")
    mac: Mac = key(
        "A fixed MAC address. For a passthrough NIC: its hardware address, which identifies it in the guest.",
        default="vCenter assigns one",
    )
    near: Literal["gpu", "any"] = key(
        "gpu: only a function on the same NUMA node as one of the VM's GPUs; any: a function on any node. "
        "Not for vmxnet3.",
        default="near a GPU if one is free",
    )
    pin: PciAddress = key(
        "The NIC at this PCI address: the device to pass through, or the physical NIC that provides the "
        "virtual functions.",
        default="any free one",
    )
    device: NicDeviceEntry = key("The NIC, by label and model.", default="any free one")
    ip: NicAddress = key(
        "The address in the guest: pool (from the network's pool), dhcp, or a fixed address with its prefix.",
        default="not configured",
    )
    rdma: Literal["gpudirect", "host"] = key(
        "gpudirect: RDMA to and from GPU memory, including all required settings for the host, VM, NIC and "
        "guest. host: only to and from the guest's own memory.",
        default="no RDMA settings",
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
        """Whether it represents several NICs."""
        return (self.count or 1) > 1

    def _contradictions(self) -> Iterator[str]:
        given = {name for name in self.model_fields_set if getattr(self, name) is not None}
        if self.kind != "passthrough" and "network" not in given:
            yield "a NIC requires a `network`\nadd it, or use type: passthrough"
        if self.kind in ("vmxnet3", "pvrdma"):
            for name in ("near", "pin", "device"):
                if name in given:
                    yield (
                        f"`{name}` applies to NICs of type passthrough or sriov\nuse one of these types, "
                        "or remove it"
                    )
        if self.mac and self.kind == "passthrough" and not given & {"ip", "rdma"}:
            yield (
                "a passthrough NIC has its own MAC address, and `mac` only identifies it for the guest\n"
                "add `ip` or `rdma`, or remove it"
            )
        if self.mac and self.kind != "passthrough" and is_reserved_mac(self.mac):
            yield (
                f"ESXi reserves {self.mac} and does not power on a VM that uses it\n"
                "use an address up to 00:50:56:3f:ff:ff, or none"
            )
        if self.mac and self.is_many and "{k}" not in self.mac:
            yield "one `mac` cannot be used for several NICs\nadd {k} to it, or list each NIC separately"
        if self.ip not in (None, "dhcp", "pool") and self.is_many and "{k}" not in self.ip:
            yield "one address cannot be used for several NICs\nadd {k} to it, or set `ip: pool`"
        if self.ip == "pool" and "network" not in given:
            yield "`ip: pool` requires a network, but none is specified for this NIC\nadd `network`"
        yield from self._wrong_rdma()
        yield from self._wrong_device(given)

    def _wrong_rdma(self) -> Iterator[str]:
        if "rdma" not in self.model_fields_set:
            return
        if self.kind == "vmxnet3":
            yield "vmxnet3 does not support RDMA\nset type: passthrough, sriov or pvrdma; or remove `rdma`"
        if self.kind == "pvrdma" and self.rdma == "gpudirect":
            yield "PVRDMA cannot access GPU memory\nset rdma: host, or type: passthrough or sriov"

    def _wrong_device(self, given: set[str]) -> Iterator[str]:
        if {"pin", "device"} <= given:
            yield "`pin` already selects the NIC by its PCI address\nremove `device`"
        if self.pin and self.is_many and self.kind == "passthrough":
            yield "`pin` selects one NIC\nremove `count`, and list every NIC with its own `pin`"
        if "device" not in given:
            return
        if not (self.device.label or self.device.model):
            yield "`device` is empty\nset a label or a model"
        if self.device.label and self.kind == "sriov":
            yield "a hardware `label` applies only to passthrough NICs\nset a `model` or a `pin`"
