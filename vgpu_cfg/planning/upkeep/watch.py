"""The cordons of `verify --watch`, no more in a cluster than the plan file allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from vgpu_cfg.changes.plan import Plan
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.watch import Sign
from vgpu_cfg.planning.upkeep.cordon import by_host, make_cordon_plan, upkeep_plan
from vgpu_cfg.planning.upkeep.targets import Target, targets_of

REASON = "watch: "
"""How the reason of a cordon begins that a watch has set: the limit counts these."""


def make_watch_plan(
    signs: Sequence[Sign], observed: Inventory, per_cluster: int
) -> tuple[Plan, Mapping[str, str]]:
    """Plan the cordons of signs, and return why the others get none, by target.

    A host counts once, whatever is cordoned of it by a watch. A cordoned one is unchanged.
    """
    changes = []
    withheld: dict[str, str] = {}
    counted: dict[str, set[str]] = {}
    for host in observed.hosts:
        if any(one.reason.startswith(REASON) for one in host.cordons):
            counted.setdefault(host.owner_moid, set()).add(host.moid)
    for sign in signs:
        (target,) = targets_of([sign.target], observed)
        own = counted.setdefault(target.host.owner_moid, set())
        if _is_cordoned(target):
            withheld[sign.target] = "cordoned already"
        elif len(own | {target.host.moid}) > per_cluster:
            withheld[sign.target] = f"not cordoned: the limit is {per_cluster} per cluster"
        else:
            own.add(target.host.moid)
            changes.append((target, REASON + sign.rule))
    made = [
        change
        for host, pci_ids in by_host([target for target, _ in changes])
        for change in make_cordon_plan(
            [Target(host, pci_id) for pci_id in pci_ids],
            observed,
            next(reason for target, reason in changes if target.host.moid == host.moid),
        ).changes
    ]
    return upkeep_plan("watch", observed, made), withheld


def _is_cordoned(target: Target) -> bool:
    return any(one.pci_id in ("", target.pci_id) for one in target.host.cordons)
