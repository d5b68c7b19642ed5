"""A plan as two pictures of an estate, before and after, with what becomes of each VM and host."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from vgpu_cfg.catalog import Catalog
from vgpu_cfg.changes.change import Change
from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.changes.values import Impact
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.planning.pool.outlook import after_plan
from vgpu_cfg.render.views.pictures.estate_map import EstateMap, MapHost, MapTotals, MapVm, view_map
from vgpu_cfg.render.views.plan.whole import BLOCKED, host_efforts

SIGNS = {"new": "+", "deleted": "-", "moved": "→", "cycled": "↻", "changed": "~", "down": "×", "host": "!"}
"""The sign for each kind of mark if there is no room for a word."""


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
