"""What an item of a VM's `nics` says: a network adapter, or the function of a physical NIC that is one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.fields import Count, Mac, OptionalText, PciAddress, key
from vgpu_cfg.model.plan_file.network_values import CIDR_PATTERN, parse_nic_address

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
