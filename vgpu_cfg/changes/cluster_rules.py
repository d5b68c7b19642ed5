"""A cluster is told which VMs run where, and what it does with single ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.observed.vm import SettingValue


class VmOverride(Frozen):
    """What a cluster shall do with one VM: values by the keys of the table of VM settings."""

    vm: VmRef
    settings: Mapping[str, SettingValue]


class SetOverrides(ChangeBase):
    """Set what a cluster does with single VMs (DRS, HA), all of them in one task; the VMs must exist."""

    kind: Literal["set_overrides"] = "set_overrides"
    cluster_moid: str
    overrides: tuple[VmOverride, ...]


class SetRule(ChangeBase):
    """Create or change a DRS anti-affinity rule of this plan."""

    kind: Literal["set_rule"] = "set_rule"
    cluster_moid: str
    rule_name: str
    rule_key: int | None = None
    vms: tuple[VmRef, ...]
    is_mandatory: bool = True


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


class RemoveRule(ChangeBase):
    """Remove a DRS rule of this plan."""

    kind: Literal["remove_rule"] = "remove_rule"
    cluster_moid: str
    rule_name: str
    rule_key: int


class RemoveVmGroup(ChangeBase):
    """Remove a VM group of this plan, once no rule refers to it."""

    kind: Literal["remove_vm_group"] = "remove_vm_group"
    cluster_moid: str
    group_name: str


class SetClusterOption(ChangeBase):
    """Set one advanced option of a cluster's DRS; None removes it."""

    kind: Literal["set_cluster_option"] = "set_cluster_option"
    cluster_moid: str
    option: str
    value: str | None
