"""Which guests are told what NCCL needs to know: those that train, and those with GPUs and RDMA."""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.model.guests.modules import GuestModule, NcclModule, RoceModule
from vgpu_cfg.planning.guests.own_modules import OwnGuest
from vgpu_cfg.planning.guests.peers import Team
from vgpu_cfg.planning.guests.wiring import NO_WIRING, Wiring

ECN_CAPABLE = 2
"""The two low bits of a type-of-service byte that say "ECN capable"."""


def nccl_modules(own: OwnGuest, team: Team | None, wiring: Wiring = NO_WIRING) -> Iterator[GuestModule]:
    """Yield the module of one VM, where it has any.

    A head that does no work has none. Without RDMA the NIC on the workers' own network carries the training.
    """
    peer = team.peer(own.vm.name) if team is not None else None
    is_worker = team is not None and team.is_worker(own.vm.name)
    if not is_worker and not (own.has_gpus and own.rdma_nics):
        return
    nics = own.rdma_nics or tuple(nic for nic in own.nics if peer and peer.training_address == nic.address)
    if not nics:
        nics = tuple(nic for nic in own.nics if nic.is_stated)[:1]
    address = peer.training_address if peer is not None else ""
    if address not in [nic.address for nic in nics]:
        address = next((nic.address for nic in nics if nic.address), "")
    roce = own.training.roce if own.training is not None else None
    dscp = roce.dscp if roce is not None else RoceModule(nics=()).dscp
    is_rdma = bool(own.rdma_nics)
    yield NcclModule(
        nics=tuple(nic.guest for nic in nics),
        address=address,
        traffic_class=dscp << 2 | ECN_CAPABLE if is_rdma else None,
        is_direct=is_rdma
        and own.has_gpus
        and all(nic.desired.rdma == "gpudirect" and not nic.desired.is_pvrdma for nic in nics),
        gpu_wires=wiring.gpus if is_rdma else (),
        nic_wires=wiring.nics if is_rdma else (),
    )
