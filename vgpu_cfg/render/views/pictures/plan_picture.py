"""A plan, or an assumed absence, as pictures of an estate: before and after, with what becomes of each VM.

Of an absence there are three: now, in maintenance, and after a failure. In the latter two VMs are at their
destinations, or restart places, all of them at once; absent parts are closed. VMs that stay although their
GPU is away are drawn on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import Impact
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
from vgpu_cfg.render.views.plan import BLOCKED, host_efforts

SIGNS = {"new": "+", "deleted": "-", "moved": "→", "cycled": "↻", "changed": "~", "down": "×", "host": "!"}
"""The sign for each kind of mark if there is no room for a word."""
MAINTENANCE, DEATH = "In maintenance", "After a failure"


@dataclass(frozen=True, slots=True)
class Mark:
    """The change to a VM or a host. `kind` is a key of `SIGNS`, `words` says all of it.

    `before` and `after` are where a VM is, host first, then its GPUs; empty where it is nowhere.
    """

    subject: str
    name: str
    kind: str
    words: str
    before: str = ""
    after: str = ""

    @property
    def sign(self) -> str:
        """The sign of its kind."""
        return SIGNS[self.kind]


@dataclass(frozen=True, slots=True)
class PlanPicture:
    """Both pictures; `changed_hosts` are those that look otherwise afterwards, by name.

    Marks are in the plan's order, hosts first.
    """

    before: EstateMap
    changed_hosts: Mapping[str, MapHost]
    vms_after: tuple[MapVm, ...]
    totals_after: MapTotals
    marks: tuple[Mark, ...]


def view_plan_picture(plan: Plan, observed: Inventory, catalog: Catalog) -> PlanPicture:
    """Draw a plan and the inventory that it was made for."""
    before = view_map(observed, catalog)
    after = view_map(after_plan(plan, observed, catalog), catalog)
    places = places_of(before), places_of(after)
    return PlanPicture(
        before=before,
        changed_hosts=changed_hosts(before, after),
        vms_after=after.vms,
        totals_after=after.totals,
        marks=(*_host_marks(plan), *_vm_marks(plan, observed, *places)),
    )


def changed_hosts(before: EstateMap, after: EstateMap) -> dict[str, MapHost]:
    """Return by name the hosts that look otherwise afterwards."""
    then = {host.about.name: host for host in _hosts(after)}
    return {host.about.name: found for host in _hosts(before) if (found := then[host.about.name]) != host}


def _hosts(found: EstateMap) -> Iterator[MapHost]:
    return (host for _, hosts in found.clusters for host in hosts)


def places_of(found: EstateMap) -> dict[str, str]:
    """Say by VM on which host and GPUs it is drawn."""
    places: dict[str, tuple[str, list[str]]] = {}
    for host in _hosts(found):
        for gpu in (gpu for node in host.nodes for gpu in node.gpus):
            for piece in gpu.pieces:
                if piece.kind == "used" and piece.vm:
                    _, gpus = places.setdefault(piece.vm, (host.about.name, []))
                    gpus.append(gpu.pci_id.removeprefix("0000:"))
    return {vm: f"{host} {', '.join(dict.fromkeys(gpus))}" for vm, (host, gpus) in places.items()}


def _host_marks(plan: Plan) -> Iterator[Mark]:
    blocked = {change.subject.name for change in plan.changes if change.id in plan.blocked}
    for name, effort in host_efforts(plan.changes).items():
        words = [effort.text] if effort.text else []
        if effort.settings and not words:
            words = ["changed while running"]
        if effort.by_hand:
            words.append("manual work")
        if name in blocked:
            words.append(BLOCKED)
        if words:
            yield Mark("host", name, "host", ", ".join(words))


def _vm_marks(
    plan: Plan, observed: Inventory, before: Mapping[str, str], after: Mapping[str, str]
) -> Iterator[Mark]:
    changes: dict[str, list[Change]] = {}
    for change in plan.changes:
        if change.subject.kind == "vm":
            changes.setdefault(change.subject.name, []).append(change)
        for name in change.moved_away:
            changes.setdefault(name, []).append(change)
    hosts = {host.moid: host.name for host in observed.hosts}
    where = {vm.name: hosts.get(vm.host_moid or "", "") for vm in observed.vms if not vm.is_template}
    goes = {placement.vm: placement.host_name for placement in plan.placements}
    for name, own in changes.items():
        kind, words = _of_vm(own)
        if any(change.id in plan.blocked for change in own):
            words = f"{words}, {BLOCKED}"
        old = before.get(name) or ("" if kind == "new" else where.get(name, ""))
        new = after.get(name) or ("" if kind == "deleted" else goes.get(name, where.get(name, "")))
        yield Mark("vm", name, kind, words, old, new)


def _of_vm(changes: list[Change]) -> tuple[str, str]:
    """Return the kind that weighs most, and all of it in words."""
    found: dict[str, str] = {}
    is_off = any(change.stops for change in changes)
    is_on = any(change.starts for change in changes)
    for change in changes:
        if change.deletes:
            return "deleted", "deleted"
        if change.makes:
            return "new", "new" if is_on else "new, remains powered off"
        if change.pictured:
            kind, words = change.pictured
            found[kind] = words
    is_cycled = any(change.impact is Impact.POWER_CYCLE for change in changes)
    if is_cycled or (is_off and is_on):
        found["cycled"] = "power cycle"
    elif is_off or is_on:
        found["cycled"] = "powered off" if is_off else "powered on"
    if not found:
        return "changed", "changed without a restart"
    kind = next(one for one in SIGNS if one in found)
    return kind, ", ".join(found.values())


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
