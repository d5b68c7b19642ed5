"""The DRS rules that keep the VMs of a plan line on different hosts; owned by the prefix of their name.

Belief: rule-goes-with-its-last-vm.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from vgpu_cfg.changes.change import Change, RemoveRule, SetRule
from vgpu_cfg.changes.values import Edit, Subject, VmRef, must_word
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.drs import ClusterRule, VmHostRule
from vgpu_cfg.model.observed.inventory import Cluster, Inventory
from vgpu_cfg.model.plan_values import Spread
from vgpu_cfg.model.wording import as_counted
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm

PREFIX = "vgpu-cfg"


@dataclass(frozen=True, slots=True)
class Member:
    """A VM in a rule: its moid where it exists, and the change that makes it where it does not."""

    resolved: ResolvedVm
    cluster: Cluster
    made_by: str | None = None

    @property
    def ref(self) -> VmRef:
        """The VM as changes name it."""
        return VmRef(
            name=self.resolved.name, moid=self.resolved.existing.moid if self.resolved.existing else None
        )


def rule_name(plan: str, line: str) -> str:
    """Name the rule of a line; the prefix says whose it is."""
    return f"{PREFIX}:{plan}:{line}"


def is_of_a_plan(name: str) -> bool:
    """Whether a rule or a group is of any plan, this one under a former name perhaps: such a one can go."""
    return name.startswith(f"{PREFIX}:")


def is_of_plan(name: str, plan: str) -> bool:
    """Whether a rule or a group of this name is the plan's own."""
    return name.startswith(f"{PREFIX}:{plan}:")


def plan_rules(
    desired: DesiredPlan,
    observed: Inventory,
    members: Iterable[Member],
    staying: frozenset[str],
    findings: Findings,
) -> list[Change]:
    """List the rules to set or remove.

    `staying` are the moids of the plan's VMs that the plan file does not name and that are not deleted:
    a rule that holds one of them is left alone.
    """
    groups: dict[tuple[str, str], list[Member]] = {}
    for member in members:
        if member.resolved.desired.place.spread is Spread.HOSTS:
            groups.setdefault((member.cluster.moid, member.resolved.desired.line), []).append(member)
    changes: list[Change] = []
    kept: set[tuple[str, str]] = set()
    for (cluster_moid, line), group in groups.items():
        if len(group) < 2:
            continue
        cluster = observed.cluster_by_moid[cluster_moid]
        if not cluster.drs_enabled:
            for member in group:
                message = (
                    f"DRS is off in {cluster.name}: the VMs start on separate hosts, but no rule keeps them "
                    "separate"
                )
                remedy = "turn on DRS, at least in manual mode"
                findings.add_vm(Code.RULE_WITHOUT_DRS, member.resolved.desired, message, remedy)
            continue
        name = rule_name(desired.name, line)
        kept.add((cluster_moid, name))
        if any("place" in member.resolved.desired.ignore for member in group):
            continue
        found = next((rule for rule in cluster.rules if rule.name == name), None)
        if found is None and _are_kept_apart(cluster, group):
            continue
        changes += _compare_rule(cluster, name, group, found)
    for cluster in observed.clusters:
        changes += _leftovers(cluster, desired.name, kept, staying)
    return changes


def _are_kept_apart(cluster: Cluster, group: Sequence[Member]) -> bool:
    """Whether a rule that is no plan's keeps the VMs apart already, as firmly as is asked."""
    moids = {member.ref.moid for member in group}
    must = any(member.resolved.desired.place.must for member in group)
    return any(
        rule.is_enabled
        and rule.kind == "anti_affinity"
        and rule.is_mandatory is must
        and not is_of_a_plan(rule.name)
        and moids <= set(rule.vm_moids)
        for rule in cluster.rules
    )


def after_rules(changes: Iterable[Change], rules: Sequence[Change]) -> list[Change]:
    """Return the changes so that VMs are powered on once their rules and overrides hold, for DRS to apply."""
    needed: dict[str, list[str]] = {}
    for rule in rules:
        for vm in (*rule.ruled, *rule.overridden):
            needed.setdefault(vm.name, []).append(rule.id)
    return [
        change.model_copy(update={"needs": (*change.needs, *needed[change.starts.name])})
        if change.starts is not None and change.starts.name in needed
        else change
        for change in changes
    ]


def remove_rules(plan: str, observed: Inventory, staying: frozenset[str]) -> list[Change]:
    """List the removal of the rules of a plan that hold none of the VMs that stay, given by moid."""
    return [change for cluster in observed.clusters for change in _leftovers(cluster, plan, set(), staying)]


def leave_rules(plan: str, observed: Inventory, leaving: AbstractSet[str]) -> Iterator[SetRule | RemoveRule]:
    """Yield what takes VMs, given by moid, out of a plan's rules; a rule without two others goes."""
    for cluster in observed.clusters:
        for rule in cluster.rules:
            if not is_of_plan(rule.name, plan) or leaving.isdisjoint(rule.vm_moids):
                continue
            left = remaining(rule.vm_moids, leaving, observed)
            if len(left) < 2:
                yield removal_of(cluster, rule)
                continue
            yield SetRule(
                id=f"set rule {rule.name} in {cluster.name}",
                subject=cluster_subject(cluster),
                edits=leaving_edits("apart", rule, rule.vm_moids, left, observed),
                cluster_moid=cluster.moid,
                rule_name=rule.name,
                rule_key=rule.key,
                vms=left,
                is_mandatory=rule.is_mandatory,
            )


def remaining(moids: Iterable[str], leaving: AbstractSet[str], observed: Inventory) -> tuple[VmRef, ...]:
    """Return the members of a rule or a group that stay in it."""
    named = (observed.vm_by_moid.get(moid) for moid in moids if moid not in leaving)
    ordered = sorted((vm for vm in named if vm is not None), key=lambda vm: as_counted(vm.name))
    return tuple(VmRef(name=vm.name, moid=vm.moid) for vm in ordered)


def _compare_rule(
    cluster: Cluster, name: str, group: Sequence[Member], found: ClusterRule | None
) -> list[Change]:
    ordered = sorted(group, key=lambda member: as_counted(member.resolved.name))
    is_mandatory = any(member.resolved.desired.place.must for member in group)
    edits = (
        *member_edits("apart", None if found is None else found.vm_moids, ordered),
        *firmness_edits(found, is_mandatory=is_mandatory),
    )
    if not edits:
        return []
    return [
        SetRule(
            id=f"set rule {name} in {cluster.name}",
            subject=cluster_subject(cluster),
            edits=edits,
            needs=tuple(member.made_by for member in ordered if member.made_by is not None),
            cluster_moid=cluster.moid,
            rule_name=name,
            rule_key=found.key if found else None,
            vms=tuple(member.ref for member in ordered),
            is_mandatory=is_mandatory,
        )
    ]


def _leftovers(
    cluster: Cluster, plan: str, kept: set[tuple[str, str]], staying: frozenset[str]
) -> list[Change]:
    """List the removal of the plan's rules that no line requests."""
    return [
        removal_of(cluster, rule)
        for rule in cluster.rules
        if is_of_plan(rule.name, plan)
        and (cluster.moid, rule.name) not in kept
        and staying.isdisjoint(rule.vm_moids)
    ]


def member_edits(key: str, found: Sequence[str] | None, ordered: Sequence[Member]) -> Iterator[Edit]:
    """Yield the edit that makes these the members, shown at `key`; `found` are the present moids, if any."""
    known: Mapping[str | None, str] = {member.ref.moid: member.resolved.name for member in ordered}
    if found is not None and set(found) == known.keys():
        return
    before = None
    if found is not None:
        before = ", ".join(sorted(known.get(moid, moid) for moid in found)) or "nobody"
    yield Edit(key=key, before=before, after=", ".join(member.resolved.name for member in ordered))


def firmness_edits(found: ClusterRule | VmHostRule | None, *, is_mandatory: bool) -> Iterator[Edit]:
    """Yield the edits that make a rule hold, and as firmly as is asked."""
    if found is None or found.is_mandatory is not is_mandatory:
        before = None if found is None else must_word(is_mandatory=found.is_mandatory)
        yield Edit(key="mandatory", before=before, after=must_word(is_mandatory=is_mandatory))
    if found is not None and not found.is_enabled:
        yield Edit(key="enabled", before="no", after="yes")


def leaving_edits(
    key: str, rule: ClusterRule | VmHostRule, moids: Iterable[str], left: Iterable[VmRef], observed: Inventory
) -> tuple[Edit, ...]:
    """Return the edits that keep of the members of a rule, by moid, those that are left."""
    before = ", ".join(vm.name for vm in remaining(moids, frozenset(), observed))
    edit = Edit(key=key, before=before, after=", ".join(vm.name for vm in left))
    return (edit, *firmness_edits(rule, is_mandatory=rule.is_mandatory))


def removal_of(cluster: Cluster, rule: ClusterRule | VmHostRule) -> RemoveRule:
    """Return the removal of a rule."""
    edit = (
        Edit(key="apart", before=f"{len(rule.vm_moids)} VMs")
        if isinstance(rule, ClusterRule)
        else Edit(key="hosts", before=rule.host_group or f"not {rule.avoided_group}")
    )
    return RemoveRule(
        id=f"remove rule {rule.name} in {cluster.name}",
        subject=cluster_subject(cluster),
        edits=(edit,),
        cluster_moid=cluster.moid,
        rule_name=rule.name,
        rule_key=rule.key,
    )


def cluster_subject(cluster: Cluster) -> Subject:
    """Return a cluster as changes are about it."""
    return Subject(kind="cluster", name=cluster.name, moid=cluster.moid)
