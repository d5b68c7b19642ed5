"""Settings of clusters and of vCenter itself: placement rules, overrides for single VMs, and options."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Literal, Self

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.kinds.vm_spec import AS_BEFORE, govc_flags
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import (
    Edit,
    Placement,
    Row,
    Subject,
    VmRef,
    changed,
    must_word,
    plain,
    plain_rows,
    set_to,
    table_rows,
    wire_text,
)
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.model.ranges import fold_names


def _editing(cluster_moid: str) -> Iterator[Needed]:
    yield Needed(privileges.EDIT_CLUSTER, cluster_moid)


class VmOverride(Frozen):
    """A cluster's overrides for one VM: values by the keys of the table of VM settings."""

    vm: VmRef
    settings: Mapping[str, SettingValue]


class SetOverrides(ChangeBase):
    """Set a cluster's overrides for single VMs (DRS, HA), all in one task; the VMs must exist."""

    face = Face("set", "overrides set", done="override* set", tells_edits=True)

    kind: Literal["set_overrides"] = "set_overrides"
    cluster_moid: str
    overrides: tuple[VmOverride, ...]

    @property
    def overridden(self) -> tuple[VmRef, ...]:
        return tuple(one.vm for one in self.overrides)

    def parts(self) -> Iterator[SetOverrides]:
        """Yield the part of each VM, its edits named without the VM."""
        for one in self.overrides:
            own = f"{one.vm.name} "
            yield self.model_copy(
                update={
                    "subject": Subject(kind="vm", name=one.vm.name, moid=one.vm.moid),
                    "overrides": (one,),
                    "edits": tuple(
                        edit.model_copy(update={"key": edit.key.removeprefix(own)})
                        for edit in self.edits
                        if edit.key.startswith(own)
                    ),
                }
            )

    def part_for(self, names: Collection[str], made_by: Mapping[str, str]) -> Self | None:
        kept = tuple(one for one in self.overrides if one.vm.name in names)
        if not kept:
            return None
        keys = {f"{one.vm.name} {key}" for one in kept for key in one.settings}
        others = {made_by.get(one.vm.name) for one in self.overrides if one not in kept}
        return self.model_copy(
            update={
                "overrides": kept,
                "edits": tuple(edit for edit in self.edits if edit.key in keys),
                "needs": tuple(need for need in self.needs if need not in others),
            }
        )

    def head(self, place: Placement | None) -> Row:
        return "overrides", plain("cluster settings for individual VMs", "dim")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        """Return the manual steps for overrides of single VMs; govc accepts one VM at a time."""
        cluster = self.subject.name
        lines, clicks = [], []
        for one in self.overrides:
            by_hand = (row.client(value) for row, value in tables.vm_rows(one.settings))
            clicks += [f"{one.vm.name}: {words}" for words in by_hand if words]
            lines += [
                command("govc", verb, "-cluster", cluster, "-vm", one.vm.name, *flags)
                for verb, flags in govc_flags(one.settings, tables.vm_rows).items()
            ]
        left = f" In the vSphere Client: {'; '.join(clicks)}." if clicks else ""
        names = fold_names(one.vm.name for one in self.overrides)
        return (
            Part(
                what=f"Set the VM overrides of {names} in cluster {cluster}. The VMs may be running.{left}",
                client=f"{cluster} > Configure > Configuration > VM Overrides",
                commands=tuple(lines),
                expected="no output",
                verify=(command("govc", "cluster.override.info", "-cluster", cluster),),
                undo=(*self._removed(), *((AS_BEFORE,) if any(map(_was_set, self.edits)) else ())),
                rows=table_rows(self.edits),
            ),
        )

    def _removed(self) -> Iterator[str]:
        """Yield the lines that take away the overrides of VMs of which the cluster said nothing before."""
        had = {edit.key.rpartition(" ")[0] for edit in self.edits if _was_set(edit)}
        remove = ("govc", "cluster.override.remove", "-cluster", self.subject.name, "-vm")
        return (command(*remove, one.vm.name) for one in self.overrides if one.vm.name not in had)

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _editing(self.cluster_moid)


def _was_set(edit: Edit) -> bool:
    return edit.before is not None


class _OfRules(ChangeBase):
    """A change of one rule or group: like no other, and of the plan's VMs alone."""

    def likeness(self, name: str) -> object:
        return self.id

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()


class SetRule(_OfRules):
    """Create or change a DRS anti-affinity rule of this plan."""

    face = Face("set", "rule set", done="rule* set")

    kind: Literal["set_rule"] = "set_rule"
    cluster_moid: str
    rule_name: str
    rule_key: int | None = None
    vms: tuple[VmRef, ...]
    is_mandatory: bool = True

    @property
    def ruled(self) -> tuple[VmRef, ...]:
        return self.vms

    @property
    def sign(self) -> str:
        return "+" if self.rule_key is None else "~"

    def head(self, place: Placement | None) -> Row:
        must = must_word(is_mandatory=self.is_mandatory)
        return "rule", plain(
            f"{self.rule_name}: {must} run on different hosts: {fold_names(vm.name for vm in self.vms)}"
        )

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        if self.rule_key is not None:
            yield from ((edit.key, changed(edit)) for edit in self.told_below())

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        cluster, rule = self.subject.name, self.rule_name
        names = [vm.name for vm in self.vms]
        must = must_word(is_mandatory=self.is_mandatory)
        verb = "cluster.rule.create" if self.rule_key is None else "cluster.rule.change"
        kind = ("-enable", "-anti-affinity") if self.rule_key is None else ("-enable",)
        named = ("-cluster", cluster, "-name", rule)
        mandatory = f"-mandatory={wire_text(self.is_mandatory)}"
        return (
            Part(
                what=f"Use a DRS rule in cluster {cluster} to separate {fold_names(names)}: they {must} not "
                "run on the same host.",
                client=f"{cluster} > Configure > Configuration > VM/Host Rules: Separate Virtual Machines",
                commands=(command("govc", verb, *named, *kind, mandatory, *names),),
                expected="no output",
                verify=(command("govc", "cluster.rule.info", *named),),
                undo=(command("govc", "cluster.rule.remove", *named),),
            ),
        )

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _editing(self.cluster_moid)


class SetHostRule(_OfRules):
    """Create or change a VM group of this plan and the DRS rule that ties it to a host group; one task.

    `rule_key` is None for a rule to be made; `has_group` is whether the VM group exists.
    """

    face = Face("set", "rule set", done="rule* set")

    kind: Literal["set_host_rule"] = "set_host_rule"
    cluster_moid: str
    rule_name: str
    rule_key: int | None = None
    vm_group: str
    has_group: bool = False
    host_group: str
    vms: tuple[VmRef, ...]
    is_mandatory: bool = True

    @property
    def ruled(self) -> tuple[VmRef, ...]:
        return self.vms

    @property
    def sign(self) -> str:
        return "+" if self.rule_key is None else "~"

    def head(self, place: Placement | None) -> Row:
        must = must_word(is_mandatory=self.is_mandatory)
        names = fold_names(vm.name for vm in self.vms)
        return "rule", plain(f"{self.rule_name}: {must} run on hosts in {self.host_group}: {names}")

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        if self.rule_key is None:
            yield "VM group", plain(self.vm_group)
        else:
            yield from ((edit.key, changed(edit)) for edit in self.told_below())

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        return self._grouped(), self._ruled()

    def _grouped(self) -> Part:
        cluster, group = self.subject.name, self.vm_group
        named = ("-cluster", cluster, "-name", group)
        names = [vm.name for vm in self.vms]
        verb, kind = ("change", ()) if self.has_group else ("create", ("-vm",))
        return Part(
            what=f"Add {fold_names(names)} to the VM group {group} of cluster {cluster}.",
            client=f"{cluster} > Configure > Configuration > VM/Host Groups: VM Group",
            commands=(command("govc", f"cluster.group.{verb}", *named, *kind, *names),),
            expected="no output",
            verify=(command("govc", "cluster.group.ls", *named),),
            undo=("restore the group's previous VMs",)
            if self.has_group
            else (command("govc", "cluster.group.remove", *named),),
        )

    def _ruled(self) -> Part:
        cluster = self.subject.name
        named = ("-cluster", cluster, "-name", self.rule_name)
        must = must_word(is_mandatory=self.is_mandatory)
        is_new = self.rule_key is None
        kind = ("-vm-host",) if is_new else ()
        mandatory = f"-mandatory={wire_text(self.is_mandatory)}"
        groups = ("-vm-group", self.vm_group, "-host-affine-group", self.host_group)
        verb = "cluster.rule.create" if is_new else "cluster.rule.change"
        return Part(
            what=f"Use a DRS rule to keep the VM group on {self.host_group}: its VMs {must} run there.",
            client=f"{cluster} > Configure > Configuration > VM/Host Rules: Virtual Machines to Hosts, "
            f"{must.capitalize()} run on hosts in group",
            commands=(command("govc", verb, *named, "-enable", *kind, mandatory, *groups),),
            expected="no output",
            verify=(command("govc", "cluster.rule.info", *named),),
            undo=(command("govc", "cluster.rule.remove", *named),)
            if is_new
            else ("restore the rule's previous settings",),
        )

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _editing(self.cluster_moid)


def _removal(what: str, noun: str, name: str, cluster: str) -> Part:
    """Return the manual removal of a rule or a group; `noun` is its word in the vSphere Client and govc."""
    return Part(
        what=f"Remove {what}.",
        client=f"{cluster} > Configure > Configuration > VM/Host {noun.capitalize()}s: Delete",
        commands=(command("govc", f"cluster.{noun}.remove", "-cluster", cluster, "-name", name),),
        expected="no output",
        verify=(command("govc", f"cluster.{noun}.ls", "-cluster", cluster),),
        undo=(f"recreate the {noun} with its previous VMs",),
    )


class RemoveRule(_OfRules):
    """Remove a DRS rule of this plan."""

    face = Face("set", "rule removed", done="rule* removed", sign="-")

    kind: Literal["remove_rule"] = "remove_rule"
    cluster_moid: str
    rule_name: str
    rule_key: int

    def head(self, place: Placement | None) -> Row:
        return "rule", plain(self.rule_name)

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        cluster, rule = self.subject.name, self.rule_name
        return (_removal(f"the DRS rule {rule} from cluster {cluster}", "rule", rule, cluster),)

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _editing(self.cluster_moid)


class RemoveVmGroup(_OfRules):
    """Remove a VM group of this plan, once no rule refers to it."""

    face = Face("set", "group removed", done="VM group* removed", sign="-")

    kind: Literal["remove_vm_group"] = "remove_vm_group"
    cluster_moid: str
    group_name: str

    def head(self, place: Placement | None) -> Row:
        return "VM group", plain(self.group_name)

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        cluster, group = self.subject.name, self.group_name
        what = f"the VM group {group} from cluster {cluster}; its VMs are kept"
        return (_removal(what, "group", group, cluster),)

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _editing(self.cluster_moid)


class _OfOptions(ChangeBase):
    """It sets one advanced option, which is its only row."""

    def head(self, place: Placement | None) -> None:
        return None

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        return ((edit.key, set_to(edit, unset="unset")) for edit in self.edits)


class SetClusterOption(_OfOptions):
    """Set one advanced option of a cluster's DRS; None removes it."""

    face = Face("set", "option set", done="option* set", noun="option")

    kind: Literal["set_cluster_option"] = "set_cluster_option"
    cluster_moid: str
    option: str
    value: str | None

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        value = "remove it" if self.value is None else f"value {self.value}"
        before = next((edit.before for edit in self.edits if edit.before is not None), None)
        name = self.subject.name
        return (
            Part(
                what=f"Set the advanced DRS option {self.option} in cluster {name}: {value}.",
                why="this option controls how DRS handles VMs with vGPUs",
                client=f"{name} > Configure > Services > vSphere DRS > Edit > Advanced Options",
                expected="the option is listed with this value, or not listed if it was removed",
                undo=(
                    f"in the same place, {('remove it' if before is None else f'set it back to {before}')}",
                ),
                rows=plain_rows(self.edits),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        cluster = reach.observed.cluster_by_moid.get(self.cluster_moid)
        hosts = [host for host in reach.observed.hosts if host.cluster_moid == self.cluster_moid]
        vms = [vm for host in hosts for vm in reach.observed.vms_by_host.get(host.moid, ())]
        return () if cluster is None else reach.option("cluster", cluster.name, cluster.moid, vms)

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _editing(self.cluster_moid)


class SetVCenterOption(_OfOptions):
    """Set one advanced setting of vCenter itself."""

    face = Face("set", "option set", done="option* set", noun="option", is_task=False, is_of_vcenter=True)

    kind: Literal["set_vcenter_option"] = "set_vcenter_option"
    option: str
    value: bool | int | str

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        before = next((edit.before for edit in self.edits if edit.before is not None), None)
        value = wire_text(self.value)
        return (
            Part(
                what=f"Set vCenter's advanced setting {self.option} to {value}.",
                why="this setting allows vCenter to migrate running VMs with vGPUs",
                client="vCenter > Configure > Settings > Advanced Settings > Edit Settings",
                commands=(command("govc", "option.set", self.option, value),),
                expected="no output",
                verify=(command("govc", "option.ls", self.option),),
                undo=() if before is None else (command("govc", "option.set", self.option, before),),
                rows=plain_rows(self.edits),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return reach.option("vcenter", reach.observed.vcenter.address, None, reach.observed.vms)

    def privileges(self, at: Places) -> Iterator[Needed]:
        return at.at_root(privileges.VCENTER_OPTION)
