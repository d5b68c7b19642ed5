"""A DRS cluster's placement rules: rules between VMs, groups of VMs and hosts, and rules between groups."""

from __future__ import annotations

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.vm import SettingValue


class ClusterRule(Frozen):
    """A DRS rule between VMs. `kind` is "affinity" or "anti_affinity"."""

    key: int
    name: str
    kind: str
    is_enabled: bool
    is_mandatory: bool
    vm_moids: tuple[str, ...]


class VmGroup(Frozen):
    """A group of VMs of a cluster (vim `ClusterVmGroup`), known by its name."""

    name: str
    vm_moids: tuple[str, ...] = ()


class HostGroup(Frozen):
    """A group of hosts of a cluster (vim `ClusterHostGroup`), known by its name."""

    name: str
    host_moids: tuple[str, ...] = ()


class VmHostRule(Frozen):
    """A DRS rule between groups (vim `ClusterVmHostRuleInfo`), by their names.

    The VMs of `vm_group` run on the hosts of `host_group`, and not on those of `avoided_group`; a name
    that is not set is empty.
    """

    key: int
    name: str
    is_enabled: bool
    is_mandatory: bool
    vm_group: str
    host_group: str = ""
    avoided_group: str = ""


class VmOverrides(Frozen):
    """A cluster's overrides for one VM: values by key of the table of VM settings, in the table's order."""

    vm_moid: str
    settings: tuple[tuple[str, SettingValue], ...]


class ClusterTies(Frozen):
    """The rules and VM groups of one cluster, as they are now."""

    rules: tuple[ClusterRule, ...] = ()
    host_rules: tuple[VmHostRule, ...] = ()
    vm_groups: tuple[VmGroup, ...] = ()

    def members_of_rule(self, key: int, name: str) -> tuple[str, ...] | None:
        """Return the VMs of a rule, None where there is no rule with this key and name."""
        for rule in self.rules:
            if (rule.key, rule.name) == (key, name):
                return rule.vm_moids
        for tie in self.host_rules:
            if (tie.key, tie.name) == (key, name):
                return self.members_of_group(tie.vm_group) or ()
        return None

    def members_of_group(self, name: str) -> tuple[str, ...] | None:
        """Return the VMs of a group, None where there is no such group."""
        return next((group.vm_moids for group in self.vm_groups if group.name == name), None)
