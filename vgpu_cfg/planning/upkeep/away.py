"""A hypothetical absence (host, cluster, GPU, NIC): the VMs it affects, and the estate without it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.inventory import Cluster, Gpu, Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader, HostCapacity
from vgpu_cfg.planning.upkeep.uplinks import LostUplink, lost_uplinks
from vgpu_cfg.planning.vms.lookup.moving import running_vms


@dataclass(frozen=True, slots=True)
class _OfOneHost:
    host: Host

    @property
    def hosts(self) -> tuple[Host, ...]:
        """The hosts whose VMs it is about."""
        return (self.host,)


@dataclass(frozen=True, slots=True)
class AwayHost(_OfOneHost):
    """A host."""

    kind = "host"
    host_stays = False

    @property
    def word(self) -> str:
        """The word to type for it."""
        return f"host:{self.host.name}"

    @property
    def title(self) -> str:
        """How a heading names it."""
        return self.host.name


@dataclass(frozen=True, slots=True)
class AwayCluster:
    """All hosts of a cluster that answer; of what runs on the `silent` ones nothing is said."""

    cluster: Cluster
    hosts: tuple[Host, ...]
    silent: tuple[Host, ...] = ()
    kind = "cluster"
    host_stays = False

    @property
    def word(self) -> str:
        """The word to type for it."""
        return f"cluster:{self.cluster.name}"

    @property
    def title(self) -> str:
        """How a heading names it."""
        return f"cluster {self.cluster.name}"


@dataclass(frozen=True, slots=True)
class AwayGpu(_OfOneHost):
    """A GPU of a host that stays."""

    gpu: Gpu
    kind = "gpu"
    host_stays = True

    @property
    def word(self) -> str:
        """The word to type for it."""
        return f"gpu:{self.host.name}/{self.gpu.pci_id}"

    @property
    def title(self) -> str:
        """How a heading names it."""
        return f"GPU {self.gpu.pci_id} on {self.host.name}"


@dataclass(frozen=True, slots=True)
class AwayNic(_OfOneHost):
    """A NIC of a remaining host, one function of it; `device` is its vmnic, if known."""

    pci_id: str
    device: str = ""
    kind = "nic"
    host_stays = True

    @property
    def word(self) -> str:
        """The word to type for it."""
        return f"nic:{self.host.name}/{self.device or self.pci_id}"

    @property
    def title(self) -> str:
        """How a heading names it."""
        return f"NIC {' '.join(filter(None, (self.device, self.pci_id)))} on {self.host.name}"


Away: TypeAlias = AwayHost | AwayCluster | AwayGpu | AwayNic


def vms_of(away: Away, observed: Inventory, catalog: Catalog) -> tuple[Vm, ...]:
    """Return the running VMs that it takes along, but for vCenter's own agents; hosts in their order."""
    match away:
        case AwayHost() | AwayCluster():
            return tuple(vm for host in away.hosts for vm in running_vms(host, observed))
        case AwayGpu():
            capacity = CapacityReader(observed, catalog).read(away.host)
            held = {*away.gpu.vm_moids, *_holders(capacity, away.gpu.pci_id)}
            return _among(held, away.host, observed)
        case AwayNic():
            cut = (vm for uplink in uplinks_of(away, observed) for vm in uplink.cut_off)
            held = {*nic_holders(away, observed, catalog), *(vm.moid for vm in cut)}
            return _among(held, away.host, observed)
    assert_never(away)


def uplinks_of(away: Away, observed: Inventory) -> tuple[LostUplink, ...]:
    """Return the switches of its host that lose a NIC, and nothing where it is none."""
    return lost_uplinks(away.host, away.device, observed) if isinstance(away, AwayNic) else ()


def nic_holders(away: AwayNic, observed: Inventory, catalog: Catalog) -> frozenset[str]:
    """Return the names of the VMs that are thought to hold a NIC, or virtual functions of it."""
    capacity = CapacityReader(observed, catalog).read(away.host)
    pools = (pool.holders for pool in capacity.functions if pool.pci.pci_id == away.pci_id)
    return frozenset(_holders(capacity, away.pci_id)).union(*pools)


def gpus_of(away: Away) -> tuple[tuple[Host, Gpu], ...]:
    """Return the GPUs that go with it."""
    match away:
        case AwayHost() | AwayCluster():
            return tuple((host, gpu) for host in away.hosts for gpu in host.gpus)
        case AwayGpu():
            return ((away.host, away.gpu),)
        case AwayNic():
            return ()
    assert_never(away)


def cordoned_parts(away: Away) -> Iterator[tuple[Host, str]]:
    """Yield what keeps new VMs off it, as cordons know it: hosts, each with the address of a GPU or ""."""
    match away:
        case AwayHost() | AwayCluster():
            yield from ((host, "") for host in away.hosts)
        case AwayGpu():
            yield away.host, away.gpu.pci_id
        case AwayNic():
            pass
        case _:
            assert_never(away)


def without(away: Away, observed: Inventory) -> Inventory:
    """Return the estate for VMs that look for another place: absent parts accept none."""
    match away:
        case AwayHost() | AwayCluster():
            changed = [host.model_copy(update={"is_in_maintenance_mode": True}) for host in away.hosts]
        case AwayGpu():
            changed = [_without_gpu(away.host, away.gpu)]
        case AwayNic():
            changed = [_without_nic(away, observed)]
        case _:
            assert_never(away)
    return observed.with_hosts({host.moid: host for host in changed})


def _without_gpu(host: Host, gone: Gpu) -> Host:
    """Disable a GPU: it stays in its place, so that the known links of the others do, too."""
    pci = gone.pci.model_copy(
        update={"passthrough_active": False, "passthrough_enabled": False, "hardware_label": None}
    )
    dead = gone.model_copy(update={"pci": pci, "graphics_type": GraphicsType.BASIC, "vm_moids": ()})
    gpus = tuple(dead if gpu.pci_id == gone.pci_id else gpu for gpu in host.gpus)
    return host.model_copy(update={"gpus": gpus})


def _without_nic(away: AwayNic, observed: Inventory) -> Host:
    host = away.host
    gone = {"passthrough_active": False, "passthrough_enabled": False, "hardware_label": None, "sriov": None}
    lost = (uplink.networks for uplink in uplinks_of(away, observed) if uplink.is_last and uplink.is_told)
    return host.model_copy(
        update={
            "nics": tuple(nic for nic in host.nics if nic.pci_id != away.pci_id),
            "pci_devices": tuple(
                one.model_copy(update=gone) if one.pci_id == away.pci_id else one for one in host.pci_devices
            ),
            "network_moids": host.network_moids.difference(*lost),
        }
    )


def _holders(capacity: HostCapacity, pci_id: str) -> Iterator[str]:
    """Yield the names of the VMs that presumably hold a GPU; vCenter does not report all of them."""
    for gpu in capacity.gpus:
        if gpu.pci_id == pci_id:
            yield from (held.vm for held in gpu.held)
    for slot in capacity.slots:
        if slot.pci.pci_id == pci_id and slot.holder is not None:
            yield slot.holder


def _among(held: Collection[str], host: Host, observed: Inventory) -> tuple[Vm, ...]:
    return tuple(vm for vm in running_vms(host, observed) if vm.moid in held or vm.name in held)
