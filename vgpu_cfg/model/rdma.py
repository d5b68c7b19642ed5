"""The meaning of `rdma` on a NIC, and its effects on the NIC: distance to the GPU, jumbo frames.

Three ways lead to RDMA: a NIC passed through whole, a virtual function of one, and a paravirtual NIC.
Only the first two reach GPU memory (GPUDirect), and only where the ATS chain is whole: `rdma.chain`.
Source: NVIDIA AI Enterprise 5.0 User Guide, chapter 4.
"""

from __future__ import annotations

from vgpu_cfg.model.desired import DesiredNetwork, DesiredNic, DesiredPlan, DesiredVm

RDMA_MTU = 9000
"""The default MTU of a NIC with `rdma`."""

ORDINARY_MTU = 1500
"""The MTU of an Ethernet NIC or switch of which nothing else is known."""

GPUDIRECT = "gpudirect"


def asks_gpudirect(vm: DesiredVm) -> bool:
    """Whether RDMA from GPU memory is asked of a NIC of the VM that can do it."""
    return any(is_gpudirect(nic) for nic in vm.nics)


def asks_rdma(vm: DesiredVm) -> bool:
    """Whether RDMA is asked of any NIC of the VM."""
    return any(nic.rdma is not None for nic in vm.nics)


def is_gpudirect(nic: DesiredNic) -> bool:
    """Whether a NIC is a virtual function that must reach GPU memory."""
    return nic.rdma == GPUDIRECT and nic.function is not None


def with_nearness(desired: DesiredPlan) -> DesiredPlan:
    """Return the plan with each NIC for GPUDirect tied to a NUMA node of the VM's GPUs.

    Unless the plan file requires it, a NIC near the GPU is only preferred. From another node GPUDirect fails
    or runs at half the speed: for its NICs it is a must, unless the plan file says `near: any`.
    """
    if not any(asks_gpudirect(vm) for vm in desired.vms):
        return desired
    return desired.model_copy(update={"vms": tuple(_with_near_nics(vm) for vm in desired.vms)})


def _with_near_nics(vm: DesiredVm) -> DesiredVm:
    if not asks_gpudirect(vm):
        return vm
    return vm.model_copy(update={"nics": tuple(_near(nic) for nic in vm.nics)})


def _near(nic: DesiredNic) -> DesiredNic:
    if not is_gpudirect(nic) or nic.function is None or not nic.function.near_gpu:
        return nic
    function = nic.function.model_copy(update={"must_be_near": True})
    return nic.model_copy(update={"function": function})


def network_of(desired: DesiredPlan, nic: DesiredNic) -> DesiredNetwork | None:
    """Return the entry of a NIC's network in the plan file, or None."""
    if nic.network is None:
        return None
    wanted = nic.network.rstrip("/").casefold()
    exact = [one for one in desired.networks if one.name.rstrip("/").casefold() == wanted]
    last = wanted.rpartition("/")[2]
    alike = [one for one in desired.networks if one.name.rstrip("/").rpartition("/")[2].casefold() == last]
    found = exact or (alike if len(alike) == 1 else [])
    return found[0] if found else None


def mtu_of(nic: DesiredNic, network: DesiredNetwork | None) -> int | None:
    """Return the MTU that a NIC has in its guest: its network's, else what RDMA needs; None leaves it."""
    if network is not None and network.mtu is not None:
        return network.mtu
    return RDMA_MTU if nic.rdma is not None else None


def network_mtu(desired: DesiredPlan, network: DesiredNetwork) -> int | None:
    """Return a network's MTU: the stated one, else that which RDMA over it requires."""
    if network.mtu is not None:
        return network.mtu
    carries = any(
        nic.rdma is not None and network_of(desired, nic) == network for vm in desired.vms for nic in vm.nics
    )
    return RDMA_MTU if carries else None
