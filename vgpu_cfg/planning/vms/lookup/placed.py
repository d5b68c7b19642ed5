"""A VM of the plan with its place: what its settings are asked of, device by device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vgpu_cfg.model.desired import DesiredVm
from vgpu_cfg.model.observed.inventory import Cluster, Host
from vgpu_cfg.model.observed.own_items import TagCategory
from vgpu_cfg.model.observed.vm import SettingValue, VmDetail
from vgpu_cfg.planning.estate.devices import OwnedDisks
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.lookup.wanted import (
    PVRDMA,
    PlannedFunction,
    WantedGpu,
    WantedNic,
    has_pinning_nics,
)


@dataclass(frozen=True, slots=True)
class PlacedVm:
    """The wanted state of a VM of the plan, every name looked up.

    `resolved` is its source or its present state. `hardware_version` is its future one, None if unknown.
    `gpu_notes` go with the `gpus`; `device_groups` names the groups whose keys are on members among them.
    `functions` are the NICs that are no virtual ones. `affinity` None leaves the NUMA affinity alone, an
    empty one removes it. The CPUs are split into sockets over `nodes` NUMA nodes. `disks` are those of an
    existing one, separated. `cores_per_numa_node` is 0 if ESXi is to shape the virtual NUMA nodes, None to
    leave them unchanged. `addresses` is the record of the NICs on the VM, None to leave it alone.
    `key_providers` and `tag_categories` are those of the vCenter, None if they were not read. `held_mmio_gb`
    is this tool's setting for the VM's present GPUs, `follows_held_gpus` whether its affinity may come from
    them.
    """

    resolved: ResolvedVm
    plan: str = ""
    cluster: Cluster | None = None
    hardware_version: int | None = None
    gpus: tuple[WantedGpu, ...] = ()
    gpu_notes: tuple[str, ...] = ()
    device_groups: Mapping[int, str] = field(default_factory=dict)
    mmio_gb: int | None = None
    nics: tuple[WantedNic, ...] | None = None
    functions: tuple[PlannedFunction, ...] = ()
    inherited_disks: frozenset[int] = frozenset()
    disks: OwnedDisks | None = None
    affinity: tuple[int, ...] | None = None
    affinity_note: str = ""
    nodes: int = 1
    cores_per_numa_node: int | None = None
    addresses: str | None = None
    key_providers: tuple[str, ...] | None = None
    tag_categories: tuple[TagCategory, ...] | None = None
    held_mmio_gb: int | None = None
    follows_held_gpus: bool = False

    @property
    def sheds_devices(self) -> bool:
        """Whether it gives up GPUs, or NICs of a physical function, and keeps none of that kind."""
        return self.resolved.sheds_gpus or self.sheds_functions

    @property
    def sheds_functions(self) -> bool:
        """Whether it gives up all its NICs that are functions of physical ones, or PVRDMA."""
        is_asked = not self.is_new and self.manages("nics") and self.nics is not None
        keeps = bool(self.functions) or any(nic.kind == PVRDMA for nic in self.nics or ())
        keeps |= has_pinning_nics(self.resolved.others)
        return is_asked and not keeps and has_pinning_nics(self.base)

    @property
    def desired(self) -> DesiredVm:
        """The plan file's statements on it."""
        return self.resolved.desired

    @property
    def base(self) -> VmDetail:
        """The basis of its comparison: its own detail if it exists, else its template's."""
        return self.resolved.base

    @property
    def own(self) -> VmDetail:
        """The same without devices that are not the plan's."""
        return self.resolved.own

    @property
    def host(self) -> Host | None:
        """Its present or future host."""
        return self.resolved.host

    @property
    def is_new(self) -> bool:
        """Whether it is yet to be made."""
        return self.resolved.existing is None

    @property
    def is_scratch(self) -> bool:
        """Whether it is made without a template."""
        return self.resolved.existing is None and self.resolved.template is None

    @property
    def overrides(self) -> Mapping[str, SettingValue]:
        """Its cluster's present overrides, by the keys of the table."""
        if self.resolved.existing is None or self.cluster is None:
            return {}
        return self.cluster.overrides_of(self.resolved.existing.moid)

    def manages(self, key: str) -> bool:
        """Whether a key of the plan file is compared."""
        return self.resolved.manages(key)

    def is_default(self, key: str) -> bool:
        """Whether the plan file does not state a key."""
        return key in self.desired.defaulted

    def stated(self, key: str) -> object:
        """Return the value of an option that the plan file states and that is compared, else None."""
        return getattr(self.desired, key) if self.manages(key) else None
