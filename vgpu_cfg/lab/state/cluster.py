"""The state of a simulated cluster: its services, DRS rules and groups, and its overrides for single VMs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from vgpu_cfg.lab.state.managed import Managed

DISABLED = "disabled"
"""vim's word for a restart priority, and for a service of HA, that is off."""


@dataclass(slots=True)
class Rule:
    """A DRS rule (vim `ClusterRuleInfo`): between VMs, or from a VM group to a host group.

    `kind` vm_host uses `vm_group`, `host_group` and `affine`; the others use `vms`.
    """

    key: int
    name: str
    kind: Literal["affinity", "anti_affinity", "vm_host"]
    uuid: str
    enabled: bool = True
    mandatory: bool = False
    user_created: bool = True
    vms: tuple[str, ...] = ()
    vm_group: str = ""
    host_group: str = ""
    affine: bool = True


@dataclass(slots=True)
class Group:
    """A DRS group (vim `ClusterGroupInfo`) of VMs or of hosts."""

    name: str
    kind: Literal["vm", "host"]
    members: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class VmOverride:
    """A cluster's override for one VM. None follows the cluster; `das_settings` is a vim `DasVmSettings`."""

    drs_enabled: bool | None = None
    drs_behavior: str | None = None
    das_settings: Any = None

    @property
    def has_drs(self) -> bool:
        """Whether DRS has an override for the VM."""
        return self.drs_enabled is not None or self.drs_behavior is not None


@dataclass(slots=True)
class Image:
    """The image of a cluster: components with versions, its commits and drafts, and the depot's versions.

    `conflicts` are components that do not validate, with vCenter's text. `number` counts drafts and commits.
    """

    base_image: str = ""
    components: dict[str, str] = field(default_factory=dict)
    depot: dict[str, list[str]] = field(default_factory=dict)
    conflicts: dict[str, str] = field(default_factory=dict)
    commit: str = ""
    commits: dict[str, dict[str, Any]] = field(default_factory=dict)
    drafts: dict[str, dict[str, Any]] = field(default_factory=dict)
    number: int = 0


@dataclass(slots=True, kw_only=True)
class Cluster(Managed):
    """A cluster or, with `is_standalone`, the compute resource of a single host. `parent` is a folder.

    `das` is a vim `DasConfigInfo` with the HA values set in addition to `ha_enabled`.
    """

    wsdl_type: ClassVar[str] = "ClusterComputeResource"
    moid_prefix: ClassVar[str] = "domain"

    resource_pool: str = ""
    hosts: list[str] = field(default_factory=list)
    datastores: list[str] = field(default_factory=list)
    networks: list[str] = field(default_factory=list)
    is_standalone: bool = False
    drs_enabled: bool = True
    drs_behavior: str = "manual"
    ha_enabled: bool = True
    das: Any = None
    rules: list[Rule] = field(default_factory=list)
    groups: list[Group] = field(default_factory=list)
    overrides: dict[str, VmOverride] = field(default_factory=dict)
    drs_options: dict[str, str] = field(default_factory=dict)
    image_managed: bool = False
    """A lifecycle image owns the software of its hosts."""
    image: Image | None = None
    """That image, if anything is known of it."""
    config_managed: bool = False
    """A configuration profile owns the settings of its hosts."""

    def is_restarted(self, vm: str) -> bool:
        """Whether HA starts a VM elsewhere when its host fails: as set for it, else as for all."""
        if not self.ha_enabled or getattr(self.das, "hostMonitoring", None) == DISABLED:
            return False
        override = self.overrides.get(vm)
        settings = (
            override.das_settings if override is not None else None,
            getattr(self.das, "defaultVmSettings", None),
        )
        words = [one.restartPriority for one in settings if one is not None and one.restartPriority]
        return next((word for word in words if word != "clusterRestartPriority"), "") != DISABLED
