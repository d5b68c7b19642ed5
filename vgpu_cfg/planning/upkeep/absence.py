"""VMs and pool if something were away: its VMs freed in order, as `drain` does, or dead at once.

A running VM dies with its host, and one with a vGPU with its GPU, so that a death needs no approval and
ignores protection: a VM may start again on any host with room for it. vSphere HA does that for VMs of a host,
if the cluster has it.

Belief: ha-and-failed-devices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import PowerOffVm, PowerOnVm, RelocateVm
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.planning.capacity.host_capacity import SRIOV, CapacityReader
from vgpu_cfg.planning.capacity.topology import Domain, Topologies
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.pool.gpus import PoolReader
from vgpu_cfg.planning.upkeep.away import (
    Away,
    AwayCluster,
    AwayGpu,
    AwayHost,
    AwayNic,
    LostUplink,
    gpus_of,
    is_read,
    nic_holders,
    uplinks_of,
    vms_of,
)
from vgpu_cfg.planning.upkeep.drain import Drain, DrainOptions, make_drain, owner_text
from vgpu_cfg.planning.vms.lookup.moving import holds_devices, is_restarted_by_ha


@dataclass(frozen=True, slots=True)
class PeerSets:
    """The sets of so many GPUs that can be NVLink peers of a VM: now, and without the absent parts."""

    size: int
    now: int
    left: int


@dataclass(frozen=True, slots=True)
class Loss:
    """The pool's loss: GPUs by name, their memory, its free part now, and the NVLink sets.

    `links` are the NVLink domains that lose a GPU, with their hosts' names, `peer_sets` those of their hosts.
    """

    gpus: Mapping[str, int]
    memory_mib: int
    free_mib: int
    links: tuple[tuple[str, Domain], ...]
    peer_sets: tuple[PeerSets, ...]


def find_loss(away: Away, observed: Inventory, catalog: Catalog) -> Loss:
    """Add up the losses."""
    gone = gpus_of(away)
    hosts = {host.moid: host for host, _ in gone}
    reader = PoolReader(observed, catalog)
    addresses = {(host.name, gpu.pci_id) for host, gpu in gone}
    free = (
        one.free_framebuffer_mib
        for host in hosts.values()
        for one in reader.gpus(reader.capacity(host))
        if (one.host, one.pci_id) in addresses
    )
    topologies = Topologies(observed, catalog)
    links = {
        (host.name, domain.gpus): (host.name, domain)
        for host, gpu in gone
        if (domain := topologies.of(host).domain(gpu.pci_id)) is not None
    }
    return Loss(
        dict(Counter(gpu.name for _, gpu in gone)),
        sum(gpu.memory_mib for _, gpu in gone),
        sum(free),
        tuple(links.values()),
        tuple(_peer_sets(hosts.values(), addresses, CapacityReader(observed, catalog))),
    )


def _peer_sets(
    hosts: Iterable[Host], gone: Collection[tuple[str, str]], reader: CapacityReader
) -> Iterator[PeerSets]:
    now: Counter[int] = Counter()
    left: Counter[int] = Counter()
    for host in hosts:
        for members in reader.peer_sets(host, with_guesses=True):
            now[len(members)] += 1
            stays = all((host.name, host.gpus[index].pci_id) not in gone for index in members)
            left[len(members)] += stays
    for size in sorted(now):
        yield PeerSets(size, now[size], left[size])


class How(StrEnum):
    """How a VM leaves: as it runs, off while it moves, off and on again on its host, off, or not at all."""

    VMOTION = "vmotion"
    COLD = "cold"
    RESTART = "restart"
    OFF = "off"
    STAYS = "stays"


@dataclass(frozen=True, slots=True)
class Going:
    """The way and target of a VM's move; `to` is empty if it goes nowhere.

    `stun_ms` is how long vMotion would stop it, None if unknown. `why` is the requirement, or the obstacle.
    """

    how: How
    to: str = ""
    stun_ms: int | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Death:
    """A death's effect on a VM, and where it could start again; `to` is empty if nowhere, and why.

    `dies` is None if it is not proven that the VM does. `by_ha` is whether vSphere HA starts it. One that
    does not die `loses` networks, by name, and `to` is where it could move.
    """

    dies: bool | None
    to: str = ""
    by_ha: bool = False
    loses: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class Absent:
    """A VM with a loss, its holdings, and where it would go: freed in order, and after a death.

    `functions` counts its virtual functions of NICs, `whole_nics` those that are passed through to it.
    """

    vm: str
    host: str
    owner: str
    has_devices: bool
    holds: tuple[str, ...]
    functions: int
    whole_nics: int
    drained: Going
    died: Death

    @property
    def stun(self) -> float | None:
        """The seconds for which vMotion would stop it, None if unknown."""
        return None if self.drained.stun_ms is None else self.drained.stun_ms / 1000


@dataclass(frozen=True, slots=True)
class Totals:
    """How many VMs go how in maintenance, and start again or not after a death; the longest stun in ms."""

    vms: int
    ways: Mapping[How, int]
    dies: int
    starts: int
    longest_stun_ms: int | None


@dataclass(frozen=True, slots=True)
class Absence:
    """The hypothetical absence, the fate of the VMs, and the loss; `notes` are unproven parts.

    `has_ha` is whether vSphere HA is on in the cluster. `drained` and `died` are the plans that lead there,
    which are never carried out.
    """

    away: Away
    cluster: str
    has_ha: bool
    vms: tuple[Absent, ...]
    loss: Loss
    uplinks: tuple[LostUplink, ...]
    notes: tuple[str, ...]
    drained: Plan
    died: Plan

    @property
    def with_devices(self) -> tuple[Absent, ...]:
        """The VMs that hold GPUs, or NICs of their host."""
        return tuple(one for one in self.vms if one.has_devices)

    @property
    def others(self) -> tuple[Absent, ...]:
        """The VMs that hold neither."""
        return tuple(one for one in self.vms if not one.has_devices)

    @property
    def totals(self) -> Totals:
        """The sums over all VMs."""
        stuns = [one.drained.stun_ms for one in self.vms if one.drained.stun_ms is not None]
        ways = Counter(one.drained.how for one in self.vms)
        return Totals(
            len(self.vms),
            {how: ways[how] for how in How},
            sum(one.died.dies is True for one in self.vms),
            sum(bool(one.died.to) for one in self.vms),
            max(stuns, default=None),
        )


def think_away(away: Away, observed: Inventory, catalog: Catalog, desired: DesiredPlan) -> Absence:
    """Say what would become of the running VMs; of `desired` only what contexts protect counts.

    Raises UnsafePlan where a host does not respond now.
    """
    options = DrainOptions("hypothetically removed", others=True)
    in_order = make_drain(away, observed, catalog, desired, options)
    unprotected = desired.model_copy(update={"contexts": ()})
    at_once = make_drain(away, observed, catalog, unprotected, options)
    drained, died = _Goings.of(in_order), _Goings.of(at_once)
    cluster = observed.cluster_by_moid.get(away.hosts[0].cluster_moid or "")
    holders = nic_holders(away, observed, catalog) if isinstance(away, AwayNic) else frozenset()
    rows = [
        Absent(
            vm.name,
            observed.host_by_moid[vm.host_moid or ""].name,
            owner_text(vm),
            vm.detail is not None and holds_devices(vm.detail),
            _holds(vm),
            sum(nic.kind == SRIOV for nic in vm.detail.nics) if vm.detail is not None else 0,
            len(vm.detail.passthrough_nics) if vm.detail is not None else 0,
            drained.going(vm),
            _death(vm, away, observed, died.going(vm), holders),
        )
        for vm in vms_of(away, observed, catalog)
    ]
    return Absence(
        away,
        "" if cluster is None or cluster.is_standalone else cluster.name,
        cluster is not None and cluster.ha_enabled,
        tuple(sorted(rows, key=lambda one: not one.has_devices)),
        find_loss(away, observed, catalog),
        uplinks_of(away, observed),
        tuple(dict.fromkeys([*_notes(away, rows, observed), *_doubts(in_order), *_doubts(at_once)])),
        _placed(in_order),
        _placed(at_once),
    )


@dataclass(frozen=True, slots=True)
class _Goings:
    """Reads out of a plan that frees something where each VM goes; what takes leave is said, not asked."""

    moves: Mapping[str | None, RelocateVm]
    off: frozenset[str | None]
    on: Mapping[str | None, PowerOnVm]
    hosts: Mapping[str, str]
    reasons: Mapping[str, str]

    @classmethod
    def of(cls, drain: Drain) -> _Goings:
        changes = drain.plan.changes
        return cls(
            {one.vm.moid: one for one in of_kind(changes, RelocateVm)},
            frozenset(one.vm.moid for one in of_kind(changes, PowerOffVm)),
            {one.vm.moid: one for one in of_kind(changes, PowerOnVm)},
            {one.host_moid: one.host_name for one in drain.placements},
            drain.reasons,
        )

    def going(self, vm: Vm) -> Going:
        move, why = self.moves.get(vm.moid), self.reasons.get(vm.moid, "")
        if move is not None and move.is_running:
            return Going(How.VMOTION, move.destination.host_name, move.stun_ms)
        if move is not None:
            return Going(How.COLD, move.destination.host_name, why=why)
        started = self.on.get(vm.moid)
        if started is not None and vm.moid in self.off:
            return Going(How.RESTART, self.hosts.get(started.host_moid or "", ""), why=why)
        return Going(How.OFF if vm.moid in self.off else How.STAYS, why=why)


def _doubts(drain: Drain) -> Iterator[str]:
    """Yield where a choice of ESXi could leave a VM without a GPU."""
    return (found.message for found in drain.plan.diagnostics if found.code == Code.DRAIN_UNSURE)


def _placed(drain: Drain) -> Plan:
    return drain.plan.model_copy(update={"placements": drain.placements})


def _death(vm: Vm, away: Away, observed: Inventory, going: Going, nic_holders: Collection[str]) -> Death:
    why = "" if going.to else going.why
    match away:
        case AwayHost() | AwayCluster():
            host = observed.host_by_moid[vm.host_moid or ""]
            cluster = observed.cluster_of(host)
            has_way = bool(going.to) and vm.detail is not None
            by_ha = has_way and vm.detail is not None and is_restarted_by_ha(vm, vm.detail, cluster)
            return Death(dies=True, to=going.to, by_ha=by_ha, why=why)
        case AwayGpu():
            has_vgpus = vm.detail is not None and bool(vm.detail.vgpus)
            return Death(dies=True if has_vgpus else None, to=going.to, why=why)
        case AwayNic():
            lost = (uplink for uplink in uplinks_of(away, observed) if vm in uplink.cut_off)
            names = tuple(name for uplink in lost for name in uplink.names_of(vm, observed))
            return Death(None if vm.name in nic_holders else False, going.to, loses=names, why=why)
    assert_never(away)


_GPU_FAILS = (
    "it has not been verified that vSphere HA restarts VMs after a GPU failure; plan for a manual restart"
)
_SURVIVES = "it has not been verified whether a VM keeps running without its passthrough GPU"
_MUST_BE_OUT = (
    "ESXi selects the GPU for a vGPU and cannot avoid a specific one: VMs restart on {} only if this GPU "
    "is in passthrough mode or removed; while it is only cordoned, they do not start on this host (VG544)"
)
_WHOLE = "whole GPU"
"""The word for a GPU that is passed through, among the profiles that a VM holds."""


_NIC_FAILS = (
    "it has not been verified whether a VM keeps running if its NIC or virtual function fails, or whether "
    "vSphere HA restarts it"
)
_PLAIN_FUNCTIONS = (
    "virtual functions assigned as plain PCI devices are not counted because their NIC is unknown"
)
_UNREAD = "{} does not report its switches, so the networks that would lose their last uplink are unknown"
_UNKNOWN_NETWORKS = "the port groups on {} are unknown; {} could be disconnected"
_MANAGED = "the management network of {} uses this NIC: vCenter would lose contact with the host"


def _nic_notes(away: AwayNic, rows: Iterable[Absent], observed: Inventory) -> Iterator[str]:
    if any(one.died.dies is None for one in rows):
        yield _NIC_FAILS
    pci = next((one for one in away.host.pci_devices if one.pci_id == away.pci_id), None)
    if pci is not None and pci.sriov is not None and pci.sriov.is_active:
        yield _PLAIN_FUNCTIONS
    if away.device and not is_read(away.host, observed):
        yield _UNREAD.format(away.host.name)
    for uplink in uplinks_of(away, observed):
        if uplink.is_last and not uplink.is_told and uplink.names:
            yield _UNKNOWN_NETWORKS.format(uplink.switch, ", ".join(uplink.names))
        if uplink.is_last and any("management" in one for one in uplink.vmknics):
            yield _MANAGED.format(away.host.name)


def _notes(away: Away, rows: Iterable[Absent], observed: Inventory) -> Iterator[str]:
    """Return the unproven parts, and the steps to take first."""
    match away:
        case AwayHost():
            return
        case AwayCluster():
            for host in away.silent:
                yield f"{host.name} {host.connection.words}: its VMs are not included"
        case AwayGpu():
            if any(one.drained.how is How.RESTART and {*one.holds} - {_WHOLE} for one in rows):
                yield _MUST_BE_OUT.format(away.host.name)
            yield _GPU_FAILS
            if any(one.died.dies is None for one in rows):
                yield _SURVIVES
        case AwayNic():
            yield from _nic_notes(away, rows, observed)
        case _:
            assert_never(away)


def _holds(vm: Vm) -> tuple[str, ...]:
    if vm.detail is None:
        return ()
    whole = (_WHOLE for _ in vm.detail.passthrough_gpus)
    return (*(device.profile for device in vm.detail.vgpus), *whole)
