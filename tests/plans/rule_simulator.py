"""What becomes of a cluster's DRS rules and groups when a plan is carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from vgpu_cfg.changes.change import RemoveRule, RemoveVmGroup, SetHostRule, SetRule
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.model.observed.drs import ClusterRule, VmGroup, VmHostRule, VmOverrides
from vgpu_cfg.model.observed.inventory import Cluster
from vgpu_cfg.model.observed.vm import SettingValue

RuleChange = SetRule | SetHostRule | RemoveRule | RemoveVmGroup


class SimulatedCluster:
    """A cluster whose rules and groups change; `moid_of` tells the moid of a VM as changes name it."""

    def __init__(self, cluster: Cluster, moid_of: Callable[[VmRef], str]) -> None:
        self.cluster, self.moid_of = cluster, moid_of

    def override(self, moid: str, settings: Mapping[str, SettingValue]) -> None:
        """Do with one VM what is asked, beside what was asked before."""
        own = {**self.cluster.overrides_of(moid), **settings}
        others = [one for one in self.cluster.vm_overrides if one.vm_moid != moid]
        self._set(vm_overrides=(*others, VmOverrides(vm_moid=moid, settings=tuple(own.items()))))

    def do(self, change: RuleChange) -> None:
        """Carry a change out, as strictly as vCenter may be."""
        match change:
            case SetRule():
                self._set_rule(change)
            case SetHostRule():
                self._set_host_rule(change)
            case RemoveRule():
                rules = [rule for rule in self.cluster.rules if rule.key != change.rule_key]
                host_rules = [rule for rule in self.cluster.host_rules if rule.key != change.rule_key]
                assert len(rules) + len(host_rules) == len(self._all_rules()) - 1
                self._set(rules=tuple(rules), host_rules=tuple(host_rules))
            case RemoveVmGroup():
                assert all(rule.vm_group != change.group_name for rule in self.cluster.host_rules)
                kept = [group for group in self.cluster.vm_groups if group.name != change.group_name]
                assert len(kept) == len(self.cluster.vm_groups) - 1
                self._set(vm_groups=tuple(kept))
            case _:
                assert_never(change)

    def _set_rule(self, change: SetRule) -> None:
        made = ClusterRule(
            key=self._key_for(change),
            name=change.rule_name,
            kind="anti_affinity",
            is_enabled=True,
            is_mandatory=change.is_mandatory,
            vm_moids=tuple(map(self.moid_of, change.vms)),
        )
        rules = (rule for rule in self.cluster.rules if rule.key != made.key)
        self._set(rules=(*rules, made))

    def _set_host_rule(self, change: SetHostRule) -> None:
        groups, rules = self.cluster.vm_groups, self.cluster.host_rules
        assert change.host_group in {group.name for group in self.cluster.host_groups}
        assert change.has_group is any(group.name == change.vm_group for group in groups)
        group = VmGroup(name=change.vm_group, vm_moids=tuple(map(self.moid_of, change.vms)))
        key = self._key_for(change)
        made = VmHostRule(
            key=key,
            name=change.rule_name,
            is_enabled=True,
            is_mandatory=change.is_mandatory,
            vm_group=change.vm_group,
            host_group=change.host_group,
            # An edit sets only what it names. Source: vSphere API reference, ClusterVmHostRuleInfo.
            avoided_group=next((rule.avoided_group for rule in rules if rule.key == key), ""),
        )
        self._set(
            vm_groups=(*(one for one in groups if one.name != group.name), group),
            host_rules=(*(rule for rule in rules if rule.key != key), made),
        )

    def _key_for(self, change: SetRule | SetHostRule) -> int:
        if change.rule_key is not None:
            assert change.rule_key in {rule.key for rule in self._all_rules()}
            return change.rule_key
        assert change.rule_name not in {rule.name for rule in self._all_rules()}
        return 1 + max((rule.key for rule in self._all_rules()), default=0)

    def _all_rules(self) -> tuple[ClusterRule | VmHostRule, ...]:
        return (*self.cluster.rules, *self.cluster.host_rules)

    def _set(self, **parts: object) -> None:
        self.cluster = self.cluster.model_copy(update=parts)
