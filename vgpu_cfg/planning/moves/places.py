"""Places for VMs that lose theirs, judged alike for fixes, `fit`, `drain` and lost hosts, and their rules.

A VM has a place if its hardware version, devices, memory, networks, datastores, cordons and mandatory rules
allow it, next to everything else that runs or comes there. A criterion of one applies to all of them.

The mandatory rules are those between VMs: the ones that move must keep them with others and among themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.values import Placement
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import PowerState, Vm
from vgpu_cfg.model.wording import listed
from vgpu_cfg.planning.capacity.host_capacity import CapacityReader
from vgpu_cfg.planning.estate.protection import Protection
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.moves.movables import (
    Movable,
    Movables,
    MoveStep,
    OwnHost,
    find_uncertain_starts,
    in_order,
)
from vgpu_cfg.planning.placement.host_state import HostState
from vgpu_cfg.planning.placement.place import Placed
from vgpu_cfg.planning.placement.startable import PLACERS, place_startable
from vgpu_cfg.planning.vms.lookup.baseline import hosts_in_order, make_baseline
from vgpu_cfg.planning.vms.lookup.moving import why_tied

_NONE_NAMED: Mapping[str, Collection[str]] = MappingProxyType({})
_BY_RULES = "DRS rules in its cluster exclude every other host"
_NO_OTHER = "no other host can run it while it is powered on"

_APART = "anti_affinity"


@dataclass(slots=True)
class Settled:
    """VMs that move, as they were placed together; `steps` are in the order in which moves can be made.

    `barred` are those that rules leave no host, or no host together.
    """

    placed: Placed
    steps: list[MoveStep] = field(default_factory=list)
    barred: tuple[Movable, ...] = ()


def settle(
    chosen: Sequence[Movable],
    hosts: Sequence[Host],
    observed: Inventory,
    place: Callable[[Sequence[Movable]], Placed],
) -> Settled:
    """Place VMs that move on other hosts, together, as the mandatory rules between VMs allow."""
    kept, barred = keep_rules(chosen, hosts, observed)
    placed = place(kept)
    targets = {one.vm.moid: hosts[fit.host].moid for one in kept if (fit := placed.fits.get(one.vm.moid))}
    gone = [one for one in kept if one.vm.moid in targets]
    if breaks_rules(targets, gone, observed):
        barred = (*barred, *gone)
        for one in gone:
            placed.fits.pop(one.vm.moid)
    indexes = {host.moid: index for index, host in enumerate(hosts)}
    steps = in_order(
        MoveStep(
            one.vm.moid,
            home := indexes[one.host.moid],
            fit.host,
            fit.variant,
            one.why_cold or ("" if fit.host != home else _NO_OTHER),
        )
        for one in kept
        if (fit := placed.fits.get(one.vm.moid)) is not None
    )
    return Settled(placed, steps, barred)


@dataclass(frozen=True, slots=True)
class Places:
    """The result for VMs, by moid: `placements` of those that have a place, `why_not` of all others.

    `doubts` are hosts on which ESXi could choose GPUs such that one finds none.
    """

    hosts: Sequence[Host]
    movables: Mapping[str, Movable]
    placed: Placed
    steps: Sequence[MoveStep]
    placements: Mapping[str, Placement]
    why_not: Mapping[str, str]
    doubts: tuple[str, ...] = ()


def find_places(
    vms: Iterable[Vm],
    then: Inventory,
    catalog: Catalog,
    protection: Protection,
    *,
    home: OwnHost = OwnHost.NEVER,
    allowed: Mapping[str, Collection[str]] = _NONE_NAMED,
) -> Places:
    """Find another place for VMs, together, in an estate in its state at that time.

    The VMs' holdings there are free, and one that is off is to run, if room is left: `home` is whether on its
    own host too. `allowed` are, by VM, the hosts that it may go to if not those of its cluster.
    """
    moids = {vm.moid for vm in vms}
    off = {vm.moid for vm in then.vms if vm.moid in moids and not vm.is_on}
    then = _as_if_on(then, moids) if off else then
    leaving = [vm for vm in then.vms if vm.moid in moids]
    near = {host.compute_moid for vm in leaving if (host := then.host_by_moid.get(vm.host_moid or ""))}
    near |= {then.host_by_moid[moid].compute_moid for named in allowed.values() for moid in named}
    hosts = [host for host in hosts_in_order(then) if host.compute_moid in near]
    reader = CapacityReader(then, catalog)
    finder = Movables(then, hosts, reader, protection, (), home, allowed)
    own: dict[str, set[str]] = {}
    for vm in leaving:
        own.setdefault(vm.host_moid or "", set()).add(vm.moid)
    found = [
        one
        for index, host in enumerate(hosts)
        for one in (finder.leaving(index, own[host.moid]) if host.moid in own else ())
    ]
    states = make_baseline(hosts, then, (), leaving, reader, Findings()).states

    settled = settle(found, hosts, then, lambda movables: _place(movables, off, states))
    movables = {one.vm.moid: one for one in found}
    bound = {stay.moid: stay.why for stay in finder.stays}
    bound |= {one.vm.moid: _BY_RULES for one in settled.barred}
    placements = {moid: _placement(one, settled.placed, states) for moid, one in movables.items()}
    given = {moid: one for moid, one in placements.items() if one is not None}
    why_not = {
        vm.moid: bound.get(vm.moid) or _no_room(vm, movables.get(vm.moid), hosts, home)
        for vm in leaving
        if vm.moid not in given
    }
    doubts = tuple(find_uncertain_starts(settled.steps, states, settled.placed.initial, {}))
    return Places(hosts, movables, settled.placed, settled.steps, given, why_not, doubts)


def _as_if_on(then: Inventory, moids: Collection[str]) -> Inventory:
    on = {"power_state": PowerState.ON}
    vms = tuple(vm.model_copy(update=on) if vm.moid in moids else vm for vm in then.vms)
    return then.model_copy(update={"vms": vms})


def _place(movables: Sequence[Movable], off: Collection[str], states: Sequence[HostState]) -> Placed:
    """Place VMs together, those that are off where the others leave room."""
    running = [one.demand for one in movables if one.vm.moid not in off]
    others = [one.demand for one in movables if one.vm.moid in off]
    first = place_startable(states, running, PLACERS, {one.vm for one in running})
    if not others:
        return first
    then = place_startable(first.hosts, others, PLACERS, {one.vm for one in others})
    fits, failed = first.fits | then.fits, first.failed | then.failed
    return replace(then, initial=first.initial, fits=fits, failed=failed)


def _placement(one: Movable, placed: Placed, states: Sequence[HostState]) -> Placement | None:
    fit = placed.fits.get(one.vm.moid)
    if fit is None:
        return None
    state = states[fit.host]
    return Placement(
        vm=one.vm.name,
        host_moid=state.host.moid,
        host_name=state.host.name,
        gpu_pci_ids=(*(state.gpus[index].pci_id for index in fit.gpus), *fit.slots),
    )


def _no_room(vm: Vm, one: Movable | None, hosts: Sequence[Host], home: OwnHost) -> str:
    """Say that no host takes a VM, and which hosts might if they were given back."""
    if tied := why_tied(vm.detail) if vm.detail is not None else "":
        return f"{tied}, and the host has no free capacity"
    reached = [hosts[index] for index, _ in one.shape.hosts] if one is not None else []
    closed = [host.name for host in reached if host.cordons]
    cordoned = f" ({listed(closed)} {'is' if len(closed) == 1 else 'are'} at least partly cordoned)"
    where = "no other host" if home is OwnHost.NEVER else "neither its host nor any other host"
    if home is OwnHost.FIRST and len(reached) == 1:
        return f"{reached[0].name} has no free capacity for it"
    return f"{where} in its cluster has capacity for it{(cordoned if closed else '')}"


def keep_rules(
    chosen: Sequence[Movable], hosts: Sequence[Host], observed: Inventory
) -> tuple[tuple[Movable, ...], tuple[Movable, ...]]:
    """Take the hosts from VMs that their rules with VMs which stay forbid; last those that have none left."""
    moving = {one.vm.moid for one in chosen}
    where = {vm.moid: vm.host_moid for vm in observed.vms if vm.is_on and vm.moid not in moving}
    kept: list[Movable] = []
    barred: list[Movable] = []
    for one in chosen:
        forbidden: set[str] = set()
        needed: set[str] = set()
        for kind, members in _rules_of(one, observed):
            others = {host for moid in members if (host := where.get(moid)) is not None}
            (forbidden if kind == _APART else needed).update(others)
        left = tuple(
            (index, rank)
            for index, rank in one.shape.hosts
            if hosts[index].moid not in forbidden and needed <= {hosts[index].moid}
        )
        (kept if left else barred).append(replace(one, shape=replace(one.shape, hosts=left)))
    return tuple(kept), tuple(barred)


def breaks_rules(targets: Mapping[str, str], chosen: Iterable[Movable], observed: Inventory) -> bool:
    """Whether VMs that move break a rule among themselves; `targets` are host moids by VM moid."""
    for one in chosen:
        own = targets[one.vm.moid]
        for kind, members in _rules_of(one, observed):
            others = {targets[moid] for moid in members if moid in targets}
            if own in others if kind == _APART else bool(others - {own}):
                return True
    return False


def _rules_of(one: Movable, observed: Inventory) -> Iterator[tuple[str, Collection[str]]]:
    """Yield kind and other members of the mandatory rules between VMs that a VM is in."""
    cluster = observed.cluster_by_moid.get(one.host.cluster_moid or "")
    for rule in cluster.rules if cluster is not None and cluster.drs_enabled else ():
        if rule.is_enabled and rule.is_mandatory and one.vm.moid in rule.vm_moids:
            yield rule.kind, [moid for moid in rule.vm_moids if moid != one.vm.moid]
