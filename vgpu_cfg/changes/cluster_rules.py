"""A cluster is told which VMs run where, and what it does with single ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.edits import changed, set_to
from vgpu_cfg.changes.need import Needed
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Placement, Row, VmRef, plain
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.model.ranges import fold_names


def _editing(cluster_moid: str) -> Iterator[Needed]:
    yield Needed(privileges.EDIT_CLUSTER, cluster_moid)


class VmOverride(Frozen):
    """What a cluster shall do with one VM: values by the keys of the table of VM settings."""

    vm: VmRef
    settings: Mapping[str, SettingValue]


class SetOverrides(ChangeBase):
    """Set what a cluster does with single VMs (DRS, HA), all of them in one task; the VMs must exist."""

    kind: Literal["set_overrides"] = "set_overrides"
    cluster_moid: str
    overrides: tuple[VmOverride, ...]

    def head(self, place: Placement | None) -> Row:
        return "overrides", plain("what the cluster does with single VMs", "dim")

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        return ((edit.key, changed(edit)) for edit in self.told_below())

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _editing(self.cluster_moid)


class SetRule(ChangeBase):
    """Create or change a DRS anti-affinity rule of this plan."""

    kind: Literal["set_rule"] = "set_rule"
    cluster_moid: str
    rule_name: str
    rule_key: int | None = None
    vms: tuple[VmRef, ...]
    is_mandatory: bool = True

    @property
    def sign(self) -> str:
        return "+" if self.rule_key is None else "~"

    def likeness(self, name: str) -> object:
        return self.id

    def head(self, place: Placement | None) -> Row:
        must = "must" if self.is_mandatory else "should"
        return "rule", plain(f"{self.rule_name}: {must} run apart: {fold_names(vm.name for vm in self.vms)}")

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        if self.rule_key is not None:
            yield from ((edit.key, changed(edit)) for edit in self.told_below())

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _editing(self.cluster_moid)


class SetHostRule(ChangeBase):
    """Create or change a VM group of this plan and the DRS rule that ties it to a host group; one task.

    `rule_key` is None for a rule that is to be made; `has_group` tells whether the VM group is there.
    """

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
    def sign(self) -> str:
        return "+" if self.rule_key is None else "~"

    def likeness(self, name: str) -> object:
        return self.id

    def head(self, place: Placement | None) -> Row:
        must = "must" if self.is_mandatory else "should"
        names = fold_names(vm.name for vm in self.vms)
        return "rule", plain(f"{self.rule_name}: {must} run on hosts of {self.host_group}: {names}")

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        if self.rule_key is None:
            yield "VM group", plain(self.vm_group)
        else:
            yield from ((edit.key, changed(edit)) for edit in self.told_below())

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _editing(self.cluster_moid)


class RemoveRule(ChangeBase):
    """Remove a DRS rule of this plan."""

    kind: Literal["remove_rule"] = "remove_rule"
    cluster_moid: str
    rule_name: str
    rule_key: int

    @property
    def sign(self) -> str:
        return "-"

    def likeness(self, name: str) -> object:
        return self.id

    def head(self, place: Placement | None) -> Row:
        return "rule", plain(self.rule_name)

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _editing(self.cluster_moid)


class RemoveVmGroup(ChangeBase):
    """Remove a VM group of this plan, once no rule refers to it."""

    kind: Literal["remove_vm_group"] = "remove_vm_group"
    cluster_moid: str
    group_name: str

    @property
    def sign(self) -> str:
        return "-"

    def likeness(self, name: str) -> object:
        return self.id

    def head(self, place: Placement | None) -> Row:
        return "VM group", plain(self.group_name)

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _editing(self.cluster_moid)


class SetClusterOption(ChangeBase):
    """Set one advanced option of a cluster's DRS; None removes it."""

    kind: Literal["set_cluster_option"] = "set_cluster_option"
    cluster_moid: str
    option: str
    value: str | None

    def head(self, place: Placement | None) -> None:
        return None

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        return ((edit.key, set_to(edit, unset="unset")) for edit in self.edits)

    def privileges(self, at: Places) -> Iterator[Needed]:
        return _editing(self.cluster_moid)
