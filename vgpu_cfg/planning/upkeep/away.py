"""A hypothetical absence (host, cluster, GPU, NIC): its VMs and uplinks, and the estate without it.

A host reports the uplinks of its switches, and which of them have a link. The standard switch of a portgroup
is not reported: it is known only if the host has one such switch.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias, assert_never

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.model.observed.gpu_use import GraphicsType
from vgpu_cfg.model.observed.host_facts import HostFacts, HostSwitch
from vgpu_cfg.model.observed.inventory import Cluster, Gpu, Host, Inventory, Network, NetworkKind
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader, HostCapacity
from vgpu_cfg.planning.vms.lookup.moving import running_vms


@dataclass(frozen=True, slots=True)
class LostUplink:
    """A switch of a host that loses a NIC: which other NICs it has, `up` those with a link.

    `networks` are the portgroups on it by moid, `names` by name; where `is_told` is False they are those that
    could be on it. `vmknics` are the host's own, as in "vmk0 (management)", `vms` the running VMs on them.
    """

    switch: str
    others: tuple[str, ...]
    up: tuple[str, ...]
    is_told: bool
    networks: frozenset[str]
    names: tuple[str, ...]
    vmknics: tuple[str, ...]
    vms: tuple[Vm, ...]

    @property
    def is_last(self) -> bool:
        """Whether the switch has no way out left: no other NIC, or none with a link."""
        return not self.up

    @property
    def cut_off(self) -> tuple[Vm, ...]:
        """The running VMs that are known to lose a network."""
        return self.vms if self.is_last and self.is_told else ()

    def names_of(self, vm: Vm, observed: Inventory) -> tuple[str, ...]:
        """Return the names of its networks that a VM is on."""
        own = observed.networks_of(vm.detail) if vm.detail is not None else frozenset()
        moids = own & self.networks
        return tuple(sorted(one.name for one in observed.networks if one.moid in moids))


def lost_uplinks(host: Host, device: str, observed: Inventory) -> tuple[LostUplink, ...]:
    """List the switches of a host that use a NIC; nothing where the host's switches were not read."""
    facts = observed.facts.hosts.get(host.moid)
    if facts is None or not device:
        return ()
    return tuple(
        _lost(host, device, switch, facts, observed) for switch in facts.switches if device in switch.uplinks
    )


def is_read(host: Host, observed: Inventory) -> bool:
    """Whether the host reported its switches."""
    facts = observed.facts.hosts.get(host.moid)
    return facts is not None and bool(facts.switches)


def _lost(host: Host, device: str, switch: HostSwitch, facts: HostFacts, observed: Inventory) -> LostUplink:
    others = tuple(one for one in switch.uplinks if one != device)
    speeds = {nic.device: nic.speed_mbps for nic in host.nics}
    networks = [one for one in observed.networks if one.moid in host.network_moids and not one.is_uplink]
    own, is_told = _on(switch, facts, networks)
    moids = frozenset(one.moid for one in own)
    names = {one.name for one in own}
    return LostUplink(
        switch.name,
        others,
        tuple(one for one in others if speeds.get(one)),
        is_told,
        moids,
        tuple(sorted(names)),
        tuple(
            f"{one.device} ({', '.join(one.services)})" if one.services else one.device
            for one in facts.vmknics
            if (one.network_moid in moids if one.network_moid else switch.switch_uuid is None and is_told)
        ),
        tuple(
            vm
            for vm in running_vms(host, observed)
            if vm.detail is not None and not moids.isdisjoint(observed.networks_of(vm.detail))
        ),
    )


def _on(
    switch: HostSwitch, facts: HostFacts, networks: Iterable[Network]
) -> tuple[tuple[Network, ...], bool]:
    """Return the networks on a switch, and whether they are known."""
    if switch.switch_uuid is not None:
        return tuple(one for one in networks if one.switch_uuid == switch.switch_uuid), True
    is_only = sum(one.switch_uuid is None for one in facts.switches) == 1
    return tuple(one for one in networks if one.kind is not NetworkKind.DISTRIBUTED), is_only


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
