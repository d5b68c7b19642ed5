"""What a plan file asks of hosts and networks, in plain values; None means "not managed"."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field, field_serializer

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.inventory import AssignmentPolicy, GraphicsType
from vgpu_cfg.model.plan_words import Disruption, GpuUse, NicUse, SchedulerPolicy
from vgpu_cfg.model.vgpu import Sharing, VgpuMode


class DesiredDeviceMatch(Frozen):
    """Which devices of a host are meant: all that is given must hold. Empty matches every one.

    `model` is part of the device's or the board's name, `pci_id` lower-case `dddd:bb:dd.f`.
    """

    model: str | None = None
    pci_id: str | None = None
    vmnic: str | None = None
    numa: int | None = None


class DesiredHostGpu(Frozen):
    """How the GPUs that match shall be set."""

    match: DesiredDeviceMatch = DesiredDeviceMatch()
    use: GpuUse | None = None
    sharing: Sharing | None = None
    vgpu_mode: VgpuMode | None = None
    scheduler: SchedulerPolicy | None = None
    ecc: bool | None = None
    label: str | None = None


class DesiredRoce(Frozen):
    """RoCE on the host's own driver. `enabled` False removes what this tool would have set.

    `trust` is "dscp" or "pcp", `priority` the one that PFC protects, `dscp` the code point
    of RDMA traffic.
    """

    enabled: bool = True
    trust: Literal["dscp", "pcp"] = "dscp"
    dscp: int = 26
    priority: int = 3


class DesiredHostNic(Frozen):
    """How the NICs that match shall be set.

    `firmware` maps a parameter of mlxconfig to its value in its own words: "True", "8", "ETH".
    `switch` is the distributed or standard switch that the NIC becomes an uplink of.
    """

    match: DesiredDeviceMatch = DesiredDeviceMatch()
    use: NicUse | None = None
    vfs: int | None = None
    label: str | None = None
    firmware: Mapping[str, str] = Field(default_factory=dict)
    roce: DesiredRoce | None = None
    switch: str | None = None


class DesiredVmknic(Frozen):
    """A VMkernel NIC on a network. `address` is CIDR, "dhcp", or None where only the MTU is managed.

    `addresses` gives single hosts (by name) their own.
    """

    network: str
    address: str | None = None
    addresses: Mapping[str, str] = Field(default_factory=dict)
    mtu: int | None = None


class DesiredPvrdma(Frozen):
    """The VMkernel NIC that PVRDMA uses, with the firewall's ruleset; `enabled` False takes both back."""

    enabled: bool = True
    vmknic: str | None = None
    network: str | None = None


class DesiredDriver(Frozen):
    """The NVIDIA host driver. `version` is a glob. `by` says who installs it.

    `depots` are paths or addresses of offline bundles, for `by: esxcli`.
    """

    kind: Literal["nvd-aie", "vgpu"] = "nvd-aie"
    version: str | None = None
    by: Literal["lifecycle", "esxcli", "hand"] = "hand"
    depots: tuple[str, ...] = ()


class DesiredBios(Frozen):
    """What the server's BIOS must be set to; nothing but a hand sets it."""

    sriov: bool | None = None
    above_4g: bool | None = None
    iommu: bool | None = None


class DesiredAccess(Frozen):
    """How the host's shell is reached. `password` and `key` name secrets; `key` holds a private key.

    `ssh`: "off" never, "on" only where somebody has started it, "open-and-close" starts and stops it.
    `host_keys`: "known" takes only keys from the known_hosts file, "pin" writes a first one there.
    """

    ssh: Literal["off", "on", "open-and-close"] = "off"
    user: str = "root"
    password: str | None = None
    key: str | None = None
    host_keys: Literal["known", "pin"] = "known"


class DesiredDisruption(Frozen):
    """How far hosts may be disturbed. `window` is kept as written and checked when read."""

    max_hosts_down: int = 1
    allow: frozenset[Disruption] = frozenset({Disruption.MAINTENANCE, Disruption.REBOOT})
    canary: int = 0
    vsan: Literal["ensureAccessibility", "noAction", "evacuateAllData"] | None = None
    window: str | None = None
    power_off_own: bool = False

    @field_serializer("allow")
    def _in_order(self, allowed: frozenset[Disruption]) -> list[str]:
        return sorted(allowed)


class DesiredClusterOptions(Frozen):
    """What vGPU VMs need of DRS and vCenter to be moved.

    `evacuate_vgpu` sets DRS option `VgpuMMAutomationTimeoutSecs` to -1 (True) or removes it (False),
    `hot_migrate` vCenter's `vgpu.hotmigrate.enabled`. `drs` holds other options of DRS by name; an
    empty text removes one.
    """

    evacuate_vgpu: bool | None = None
    hot_migrate: bool | None = None
    drs: Mapping[str, str] = Field(default_factory=dict)


class DesiredHosts(Frozen):
    """One entry of `hosts`: which hosts, and what of them.

    `names` are globs; empty means all of `cluster`.
    """

    cluster: str | None = None
    names: tuple[str, ...] = ()
    mode: Literal["enforce", "check"] = "enforce"
    prepare: Literal["from_vms", "none"] = "none"
    graphics_type: GraphicsType | None = None
    assignment_policy: AssignmentPolicy | None = None
    ats: bool | None = None
    gpus: tuple[DesiredHostGpu, ...] = ()
    nics: tuple[DesiredHostNic, ...] = ()
    vmknics: tuple[DesiredVmknic, ...] = ()
    pvrdma: DesiredPvrdma | None = None
    driver: DesiredDriver | None = None
    bios: DesiredBios | None = None
    licence: str | None = None
    cluster_options: DesiredClusterOptions = DesiredClusterOptions()
    access: DesiredAccess = DesiredAccess()
    disruption: DesiredDisruption = DesiredDisruption()
    origin: str = ""
