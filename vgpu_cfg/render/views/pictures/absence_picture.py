"""An assumed absence as three pictures of an estate: now, in maintenance, and after a failure.

In the two others VMs are at their destinations, or restart places, all of them at once; absent parts are
closed. VMs that stay although their GPU is away are drawn on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.observed.inventory import Connection, Inventory
from vgpu_cfg.model.observed.vm import PowerState
from vgpu_cfg.model.wording import duration
from vgpu_cfg.planning.pool.outlook import after_plan
from vgpu_cfg.planning.upkeep.absence import Absence, Absent, Death, Going, How
from vgpu_cfg.planning.upkeep.away import Away, AwayCluster, AwayGpu, AwayHost, AwayNic, without
from vgpu_cfg.render.views.pictures.estate_map import (
    EstateMap,
    MapGpu,
    MapHost,
    MapTotals,
    MapVm,
    Piece,
    view_map,
)
from vgpu_cfg.render.views.pictures.plan_picture import Mark, changed_hosts, places_of

MAINTENANCE, DEATH = "In maintenance", "After a failure"


@dataclass(frozen=True, slots=True)
class Turn:
    """The estate at one time: the hosts that differ, by name, the VMs, the sums, the marked ones."""

    when: str
    hosts: Mapping[str, MapHost]
    vms: tuple[MapVm, ...]
    totals: MapTotals
    marks: tuple[Mark, ...]


@dataclass(frozen=True, slots=True)
class AbsencePicture:
    """The estate now, and the two other times."""

    before: EstateMap
    turns: tuple[Turn, ...]


def view_absence_picture(found: Absence, observed: Inventory, catalog: Catalog) -> AbsencePicture:
    """Draw an assumed absence, and its inventory."""
    before = view_map(observed, catalog)
    runs_on = {one.vm for one in found.vms if one.died.dies is False}
    stays = {one.vm for one in found.vms if one.drained.how is How.STAYS}
    drained = _Time(found, observed, catalog, before, found.drained, stays, "away")
    died = _Time(found, observed, catalog, before, _without(found.died, runs_on), runs_on, "dead")
    return AbsencePicture(
        before,
        (
            drained.turn(MAINTENANCE, lambda one: _of_going(one.drained)),
            died.turn(DEATH, lambda one: _of_death(one.died)),
        ),
    )


def _without(plan: Plan, vms: Collection[str]) -> Plan:
    """Omit a plan's effects on some VMs."""
    changes = tuple(one for one in plan.changes if one.subject.kind != "vm" or one.subject.name not in vms)
    return plan.model_copy(update={"changes": changes})


@dataclass(frozen=True, slots=True)
class _Time:
    """Draws the estate after a plan without the absent parts; `stays` are VMs that do not leave them."""

    found: Absence
    observed: Inventory
    catalog: Catalog
    before: EstateMap
    plan: Plan
    stays: Collection[str]
    word: str

    def turn(self, when: str, of_vm: Callable[[Absent], tuple[str, str]]) -> Turn:
        """Draw it, with a mark for each VM."""
        after = self._after()
        places = places_of(self.before), places_of(after)
        return Turn(
            when,
            changed_hosts(self.before, after),
            after.vms,
            after.totals,
            (*self._host_marks(), *self._vm_marks(of_vm, *places)),
        )

    def _after(self) -> EstateMap:
        away = self.found.away
        then = _closed(away, self.observed, is_dead=self.word == "dead")
        if isinstance(away, AwayGpu):
            # Who does not leave the GPU must not be drawn on another one.
            then = then.model_copy(
                update={
                    "vms": tuple(
                        vm.model_copy(update={"power_state": PowerState.OFF}) if vm.name in self.stays else vm
                        for vm in then.vms
                    )
                }
            )
        after = view_map(after_plan(self.plan, then, self.catalog), self.catalog)
        return self._with_gpu_closed(after, away) if isinstance(away, AwayGpu) else after

    def _with_gpu_closed(self, after: EstateMap, away: AwayGpu) -> EstateMap:
        """Draw the GPU that is away as it was, but closed, with who does not leave it."""
        drawn = {
            (host.about.name, gpu.pci_id): gpu
            for _, hosts in self.before.clusters
            for host in hosts
            for node in host.nodes
            for gpu in node.gpus
        }
        gpu = drawn[away.host.name, away.gpu.pci_id]
        held = tuple(one for one in gpu.pieces if one.kind == "used" and one.vm in self.stays)
        closed = replace(
            gpu,
            free_mib=0,
            lost_mib=0,
            bound_mib=0,
            free="",
            obstacle=self.word,
            stranded=(),
            pieces=held or (Piece("closed", 0.0, gpu.units),),
        )
        clusters = tuple(
            (
                name,
                tuple(
                    _with_gpu(host, closed) if host.about.name == away.host.name else host for host in hosts
                ),
            )
            for name, hosts in after.clusters
        )
        return replace(after, clusters=clusters)

    def _host_marks(self) -> Iterator[Mark]:
        away = self.found.away
        words = f"without {away.word.partition('/')[2]}" if away.host_stays else "hypothetically removed"
        for host in away.hosts:
            yield Mark("host", host.name, "host", words)

    def _vm_marks(
        self, of_vm: Callable[[Absent], tuple[str, str]], before: Mapping[str, str], after: Mapping[str, str]
    ) -> Iterator[Mark]:
        for one in self.found.vms:
            kind, words = of_vm(one)
            where = "" if kind == "down" else after.get(one.vm, _goes_to(one, self.word) or one.host)
            yield Mark("vm", one.vm, kind, words, before.get(one.vm, one.host), where)


def _goes_to(one: Absent, word: str) -> str:
    return one.died.to if word == "dead" and one.died.dies is not False else one.drained.to


def _with_gpu(host: MapHost, closed: MapGpu) -> MapHost:
    nodes = tuple(
        replace(node, gpus=tuple(closed if gpu.pci_id == closed.pci_id else gpu for gpu in node.gpus))
        for node in host.nodes
    )
    return replace(host, nodes=nodes)


def _closed(away: Away, observed: Inventory, *, is_dead: bool) -> Inventory:
    """Return the estate as vCenter would show it then."""
    match away:
        case AwayHost() | AwayCluster() if is_dead:
            dead = {host.moid for host in away.hosts}
            hosts = tuple(
                host.model_copy(update={"connection": Connection.NOT_RESPONDING})
                if host.moid in dead
                else host
                for host in observed.hosts
            )
            return observed.model_copy(update={"hosts": hosts})
        case AwayHost() | AwayCluster() | AwayGpu() | AwayNic():
            return without(away, observed)
    assert_never(away)


def _of_going(going: Going) -> tuple[str, str]:
    """Return the kind of a VM's mark and its words."""
    match going.how:
        case How.VMOTION:
            stun = "" if going.stun_ms is None else f", paused for up to {duration(going.stun_ms / 1000)}"
            return "moved", f"vMotion to {going.to}{stun}"
        case How.COLD:
            return "moved", f"moved to {going.to} while powered off: {going.why}"
        case How.RESTART:
            return "cycled", f"restarted on {going.to}: {going.why}"
        case How.OFF:
            return "down", f"off: {going.why}"
        case How.STAYS:
            return "changed", f"stays: {going.why}"
    assert_never(going.how)


def _of_death(died: Death) -> tuple[str, str]:
    if died.dies is False:
        return "changed", f"keeps running without {', '.join(died.loses)}"
    first = "fails" if died.dies else "loses its device"
    if not died.to:
        return "down", f"{first} and cannot be restarted: {died.why}"
    by = "vSphere HA restarts it" if died.by_ha else "could be restarted"
    return "cycled", f"{first}; {by} on {died.to}"
