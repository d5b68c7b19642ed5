"""Plans that keep new VMs off hosts and GPUs or give them back, for commands and for `verify --watch`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from vgpu_cfg.changes.change import Change, SetCordon
from vgpu_cfg.changes.plan import Plan, PlanTarget, all_disturbed, reckoned
from vgpu_cfg.changes.values import Edit, HostRef, Subject
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.cordon import CORDON_ATTRIBUTE, Cordon, free_attribute
from vgpu_cfg.model.observed.inventory import Host, Inventory
from vgpu_cfg.model.observed.vm import Vm
from vgpu_cfg.model.verification import Sign
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.upkeep.targets import Target, targets_of


def make_cordon_plan(targets: Sequence[Target], observed: Inventory, reason: str) -> Plan:
    """Plan to keep new VMs off these; one already cordoned for the same reason stays unchanged."""
    changes = [
        change
        for host, pci_ids in by_host(targets)
        if (change := cordon_host(host, pci_ids, observed, reason)) is not None
    ]
    return upkeep_plan("cordon", observed, changes)


def cordon_host(host: Host, pci_ids: Sequence[str], observed: Inventory, reason: str) -> SetCordon | None:
    """Return the change that cordons a host ("") or GPUs of it, None where all of it is so."""
    made: list[Cordon] = []
    edits: list[Edit] = []
    for pci_id in pci_ids:
        known = next((one for one in host.cordons if one.pci_id == pci_id), None)
        if known is not None and known.reason == reason:
            continue
        taken = [one.attribute for one in (*host.cordons, *made)]
        attribute = known.attribute if known else free_attribute(taken) if pci_id else CORDON_ATTRIBUTE
        by, since = observed.vcenter.user, observed.read_at
        new = Cordon(attribute=attribute, reason=reason, pci_id=pci_id, by=by, since=since)
        made.append(new)
        before = known.words if known is not None else None
        edits.append(Edit(key=new.key, before=before, after=reason, sets=_sets(attribute, new.text)))
    return _change("cordon", host, tuple(edits), {one.attribute: one.text for one in made}) if made else None


def uncordon_host(host: Host, pci_ids: Sequence[str]) -> SetCordon | None:
    """Return the change that gives a host ("") or GPUs of it back, None where none is cordoned."""
    gone = [cordon for cordon in host.cordons if cordon.pci_id in pci_ids]
    edits = tuple(Edit(key=one.key, before=one.words, sets=_sets(one.attribute, "")) for one in gone)
    return _change("uncordon", host, edits, {one.attribute: "" for one in gone}) if gone else None


def upkeep_plan(
    name: str,
    observed: Inventory,
    changes: Sequence[Change],
    vms: Iterable[Vm] = (),
    findings: Findings | None = None,
) -> Plan:
    """Return a plan of changes that no plan file asks for; `vms` are those that it moves or switches."""
    vcenter = observed.vcenter
    touched = {moid for change in changes for moid in (change.subject.moid, change.host_moid)}
    plan = Plan(
        name=name,
        target=PlanTarget(address=vcenter.address, instance_uuid=vcenter.instance_uuid),
        read_at=observed.read_at,
        desired=DesiredPlan(name=name, vcenter=vcenter.address),
        diagnostics=findings.diagnostics() if findings is not None else (),
        changes=tuple(changes),
        others={vm.moid: vm.mark.text if vm.mark is not None else "" for vm in vms},
    )
    return reckoned(plan, observed, all_disturbed(changes, observed, ()), vms=touched, hosts=touched)


def _change(verb: str, host: Host, edits: tuple[Edit, ...], values: Mapping[str, str]) -> SetCordon:
    return SetCordon(
        id=f"{verb} {host.name}",
        subject=Subject(kind="host", name=host.name, moid=host.moid),
        edits=edits,
        host_moid=host.moid,
        host=HostRef(name=host.name, moid=host.moid),
        values=values,
    )


def _sets(attribute: str, text: str) -> dict[str, str]:
    return {f"customValue[{attribute}]": text}


def by_host(targets: Sequence[Target]) -> list[tuple[Host, list[str]]]:
    """Return the hosts of targets, each with the GPUs that are meant, "" for the host itself."""
    hosts = {target.host.moid: target.host for target in targets}
    return [(host, [one.pci_id for one in targets if one.host.moid == moid]) for moid, host in hosts.items()]


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
