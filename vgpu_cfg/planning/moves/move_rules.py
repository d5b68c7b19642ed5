"""The mandatory rules between VMs that those which move must keep, with others and among themselves."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.planning.moves.movables import Movable

_APART = "anti_affinity"


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
