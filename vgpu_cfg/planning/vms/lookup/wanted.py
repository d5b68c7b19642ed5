"""The wanted NICs and GPUs of a plan's VM, every name of them looked up."""

from __future__ import annotations

from dataclasses import dataclass

from vgpu_cfg.changes.kinds.vm_spec import (
    NewDynamicPassthrough,
    NewPassthrough,
    NewSriovNic,
    NewVgpu,
    NicBacking,
)
from vgpu_cfg.model.desired import DesiredFunction
from vgpu_cfg.model.observed.vm import VmDetail
from vgpu_cfg.planning.capacity.host_capacity import SRIOV

VMXNET3 = "vmxnet3"
PVRDMA = "pvrdma"
"""The `VirtualNic.kind` of a paravirtual RDMA NIC."""


WantedGpu = NewVgpu | NewPassthrough | NewDynamicPassthrough

NewFunction = NewPassthrough | NewDynamicPassthrough | NewSriovNic


def has_pinning_nics(detail: VmDetail) -> bool:
    """Whether a VM has NICs that read and write all of its memory: functions of physical ones, or PVRDMA."""
    return bool(detail.passthrough_nics) or any(nic.kind in (SRIOV, PVRDMA) for nic in detail.nics)


@dataclass(frozen=True, slots=True)
class WantedNic:
    """A NIC of the kind "vmxnet3" or "pvrdma" on a network that was found.

    `new_mac` is the MAC that the NIC is given where it is made, and that one which is there keeps its own
    in place of.
    """

    backing: NicBacking
    mac: str | None = None
    kind: str = VMXNET3
    new_mac: str | None = None

    @property
    def network(self) -> str:
        """The network's id in a VM's NIC: the portgroup key if distributed, else the moid."""
        return self.backing.portgroup_key or self.backing.network_moid


@dataclass(frozen=True, slots=True)
class WantedFunction:
    """A NIC that is a function of a physical one.

    `backing` is that of a virtual function; `called` is the plan file's name for the network, if any.
    `new_mac` as of `WantedNic`. `is_ethernet` is whether it has a network, an address, or RoCE.
    """

    function: DesiredFunction
    backing: NicBacking | None = None
    mac: str | None = None
    called: str = ""
    new_mac: str | None = None
    is_ethernet: bool = True

    @property
    def network(self) -> str:
        """The network's id in a VM's NIC, empty if vSphere knows of none."""
        return (self.backing.portgroup_key or self.backing.network_moid) if self.backing is not None else ""


@dataclass(frozen=True, slots=True)
class PlannedFunction:
    """The wanted device for one NIC of a VM: the present one with the key `keeps`, else a new one.

    Both are None where there is no place for the NIC.
    """

    device: NewFunction | None = None
    keeps: int | None = None
    note: str = ""
