"""The DRS rules of a plan's VMs, owned by their names' prefix: on different hosts, or on a host group.

One task makes a VM group with its rule. Removal takes two: vCenter refuses to drop a group that a rule names,
which is assumed, not proven.

Belief: rule-goes-with-its-last-vm, must-rules-hold, group-and-rule-in-one-request, stopped-vm-in-a-group,
named-group-stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from vgpu_cfg.changes.base import of_kind
from vgpu_cfg.changes.change import Change, RemoveRule, RemoveVmGroup, SetHostRule, SetRule
from vgpu_cfg.changes.values import Edit, Subject, VmRef, must_word
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.observed.drs import ClusterRule, HostGroup, VmGroup, VmHostRule
from vgpu_cfg.model.observed.inventory import Cluster, Inventory
from vgpu_cfg.model.plan_values import Spread
from vgpu_cfg.model.wording import as_counted, counted
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
        Edit(key="apart", before=counted(len(rule.vm_moids), "VM"))
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


def plan_host_rules(
    desired: DesiredPlan,
    observed: Inventory,
    members: Iterable[Member],
    staying: frozenset[str],
    findings: Findings,
) -> list[Change]:
    """List the groups and rules to set or remove; `staying` as in `plan_rules`."""
    names = _group_names(desired)
    tied: dict[tuple[str, str], list[Member]] = {}
    for member in members:
        vm = member.resolved.desired
        if vm.place.host_group and member.cluster.host_group(vm.place.host_group) is not None:
            name = names[vm.line, vm.place.host_group.casefold()]
            tied.setdefault((member.cluster.moid, name), []).append(member)
    changes: list[Change] = []
    kept: set[tuple[str, str]] = set()
    for (cluster_moid, name), group in tied.items():
        cluster = observed.cluster_by_moid[cluster_moid]
        host_group = cluster.host_group(group[0].resolved.desired.place.host_group or "")
        if host_group is None or not cluster.drs_enabled:
            _report_no_drs(cluster, group, findings)
            continue
        kept.add((cluster_moid, name))
        is_ignored = any("place" in member.resolved.desired.ignore for member in group)
        if not is_ignored and not _are_kept_there(cluster, name, group, host_group):
            changes += _compare(cluster, name, group, host_group)
    for cluster in observed.clusters:
        wanted = {name for moid, name in kept if moid == cluster.moid}
        changes += _host_leftovers(cluster, desired.name, wanted, staying, changes)
    return changes


def remove_host_rules(plan: str, observed: Inventory, staying: frozenset[str]) -> list[Change]:
    """List the removal of a plan's VM groups that hold none of the VMs that stay, and of their rules."""
    return [
        change
        for cluster in observed.clusters
        for change in _host_leftovers(cluster, plan, set(), staying, ())
    ]


def leave_host_rules(
    plan: str, observed: Inventory, leaving: AbstractSet[str]
) -> Iterator[SetHostRule | RemoveRule | RemoveVmGroup]:
    """Yield what takes VMs, by moid, out of a plan's VM groups; a group without others goes with its rule.

    A group that has no rule of the plan, or another's too, is left alone.
    """
    for cluster in observed.clusters:
        for group in cluster.vm_groups:
            users = [rule for rule in cluster.host_rules if rule.vm_group == group.name]
            is_own = is_of_plan(group.name, plan) and [rule.name for rule in users] == [_rule_of(group.name)]
            if not is_own or leaving.isdisjoint(group.vm_moids):
                continue
            rule, left = users[0], remaining(group.vm_moids, leaving, observed)
            if not left:
                removal = removal_of(cluster, rule)
                yield removal
                yield _group_removal(cluster, group, (removal.id,))
            elif rule.host_group:
                yield _without(cluster, group, rule, left, observed)


def _without(
    cluster: Cluster, group: VmGroup, rule: VmHostRule, left: tuple[VmRef, ...], observed: Inventory
) -> SetHostRule:
    return SetHostRule(
        id=f"set rule {rule.name} in {cluster.name}",
        subject=cluster_subject(cluster),
        edits=leaving_edits("VM group", rule, group.vm_moids, left, observed),
        cluster_moid=cluster.moid,
        rule_name=rule.name,
        rule_key=rule.key,
        vm_group=group.name,
        has_group=True,
        host_group=rule.host_group,
        vms=left,
        is_mandatory=rule.is_mandatory,
    )


def _are_kept_there(cluster: Cluster, name: str, group: Sequence[Member], host_group: HostGroup) -> bool:
    """Whether a rule that is no plan's keeps the VMs on the hosts already, as firmly as is asked."""
    if any(rule.name == _rule_of(name) for rule in cluster.host_rules):
        return False
    moids = {member.ref.moid for member in group}
    must = any(member.resolved.desired.place.must for member in group)
    return any(
        rule.is_enabled
        and rule.host_group == host_group.name
        and not rule.avoided_group
        and rule.is_mandatory is must
        and not is_of_a_plan(rule.name)
        and (found := cluster.vm_group(rule.vm_group)) is not None
        and moids <= set(found.vm_moids)
        for rule in cluster.host_rules
    )


def _group_names(desired: DesiredPlan) -> Mapping[tuple[str, str], str]:
    """Name the VM groups by line and host group: by the line alone, unless its VMs name several."""
    lines: dict[str, dict[str, str]] = {}
    for vm in desired.vms:
        if vm.place.host_group:
            lines.setdefault(vm.line, {}).setdefault(vm.place.host_group.casefold(), vm.place.host_group)
    names: dict[tuple[str, str], str] = {}
    for line, groups in lines.items():
        for folded, host_group in groups.items():
            plain = rule_name(desired.name, line)
            names[line, folded] = plain if len(groups) == 1 else f"{plain}:{host_group}"
    return names


def _rule_of(group_name: str) -> str:
    """Name the rule of a VM group; a spread's rule has the line's own name."""
    return f"{group_name}:hosts"


def _report_no_drs(cluster: Cluster, group: Sequence[Member], findings: Findings) -> None:
    for member in group:
        vm = member.resolved.desired
        message = (
            f"DRS is off in {cluster.name}: the VMs start on hosts in {vm.place.host_group}, but no rule "
            "keeps them there"
        )
        findings.add_vm(Code.RULE_WITHOUT_DRS, vm, message, "turn on DRS, at least in manual mode")


def _compare(cluster: Cluster, name: str, group: Sequence[Member], host_group: HostGroup) -> Iterator[Change]:
    ordered = sorted(group, key=lambda member: as_counted(member.resolved.name))
    is_mandatory = any(member.resolved.desired.place.must for member in group)
    found_group = cluster.vm_group(name)
    found = next((rule for rule in cluster.host_rules if rule.name == _rule_of(name)), None)
    needs = [member.made_by for member in ordered if member.made_by is not None]
    if found is not None and found.avoided_group:
        # An edit sets only what it names, so that the group to avoid would stay.
        removal = removal_of(cluster, found)
        yield removal
        needs.append(removal.id)
        found = None
    edits = [
        *member_edits("VM group", None if found_group is None else found_group.vm_moids, ordered),
        *_rule_edits(found, name, host_group, is_mandatory=is_mandatory),
    ]
    if edits:
        yield SetHostRule(
            id=f"set rule {_rule_of(name)} in {cluster.name}",
            subject=cluster_subject(cluster),
            edits=tuple(edits),
            needs=tuple(needs),
            cluster_moid=cluster.moid,
            rule_name=_rule_of(name),
            rule_key=found.key if found else None,
            vm_group=name,
            has_group=found_group is not None,
            host_group=host_group.name,
            vms=tuple(member.ref for member in ordered),
            is_mandatory=is_mandatory,
        )


def _rule_edits(
    found: VmHostRule | None, vm_group: str, host_group: HostGroup, *, is_mandatory: bool
) -> Iterator[Edit]:
    if found is not None and found.vm_group != vm_group:
        yield Edit(key="rule of", before=found.vm_group or "none", after=vm_group)
    if found is None or found.host_group != host_group.name:
        yield Edit(
            key="hosts", before=None if found is None else found.host_group or "none", after=host_group.name
        )
    yield from firmness_edits(found, is_mandatory=is_mandatory)


def _host_leftovers(
    cluster: Cluster, plan: str, kept: set[str], staying: frozenset[str], changes: Iterable[Change]
) -> Iterator[Change]:
    """Yield the removal of the plan's rules, then of its VM groups, that no line requests.

    A group that a rule outside the plan names is left alone.
    """
    rule_names = {_rule_of(name) for name in kept}
    members = {group.name: group.vm_moids for group in cluster.vm_groups}
    own = [rule for rule in cluster.host_rules if is_of_plan(rule.name, plan)]
    gone = [
        rule
        for rule in own
        if rule.name not in rule_names and staying.isdisjoint(members.get(rule.vm_group, ()))
    ]
    removals = {rule.key: removal_of(cluster, rule) for rule in gone}
    yield from removals.values()
    set_by = {change.rule_key: change.id for change in of_kind(changes, SetHostRule)}
    for group in cluster.vm_groups:
        if not is_of_plan(group.name, plan) or group.name in kept or not staying.isdisjoint(group.vm_moids):
            continue
        users = [rule for rule in cluster.host_rules if rule.vm_group == group.name]
        if any(rule not in own for rule in users):
            continue
        freeing = (removals[rule.key].id if rule.key in removals else set_by.get(rule.key) for rule in users)
        yield _group_removal(cluster, group, tuple(key for key in freeing if key is not None))


def _group_removal(cluster: Cluster, group: VmGroup, needs: tuple[str, ...]) -> RemoveVmGroup:
    return RemoveVmGroup(
        id=f"remove VM group {group.name} in {cluster.name}",
        subject=cluster_subject(cluster),
        edits=(Edit(key="VM group", before=counted(len(group.vm_moids), "VM")),),
        needs=needs,
        cluster_moid=cluster.moid,
        group_name=group.name,
    )
