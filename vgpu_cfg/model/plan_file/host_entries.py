"""An entry of `hosts` as its author writes it: which hosts, what of them, and how they may be disturbed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.device_entries import HostGpuEntry, HostNicEntry, PvrdmaEntry, VmknicEntry
from vgpu_cfg.model.plan_file.fields import OptionalText, Text, Texts
from vgpu_cfg.model.plan_file.host_fields import (
    Depots,
    DrsValue,
    HostGraphicsType,
    NamedSecret,
    Version,
    WindowText,
    one_or_list,
)
from vgpu_cfg.model.plan_key import TakesEffect, key

LIVE = TakesEffect.LIVE
HOST_REBOOT = TakesEffect.HOST_REBOOT
BY_HAND = TakesEffect.BY_HAND
NEXT_RUN = TakesEffect.NEXT_RUN


GpuRules = Annotated[
    tuple[HostGpuEntry, ...], one_or_list("a mapping", Mapping, HostGpuEntry | list[HostGpuEntry])
]
NicRules = Annotated[
    tuple[HostNicEntry, ...], one_or_list("a mapping", Mapping, HostNicEntry | list[HostNicEntry])
]
Vmknics = Annotated[
    tuple[VmknicEntry, ...], one_or_list("a mapping", Mapping, VmknicEntry | list[VmknicEntry])
]


class DriverEntry(Frozen):
    """The NVIDIA host driver."""

    kind: Literal["nvd-aie", "vgpu"] = key("Of NVIDIA AI Enterprise, or of vGPU.", HOST_REBOOT, "nvd-aie")
    version: Version = key("A glob of versions, quoted.", HOST_REBOOT, "any")
    by: Literal["lifecycle", "esxcli", "hand"] = key(
        "Who installs it: the cluster's image, this tool from `depot`, or a person.", NEXT_RUN, "hand"
    )
    depot: Depots = key("Offline bundles for by esxcli: paths on the host, or addresses.", HOST_REBOOT)


class BiosEntry(Frozen):
    """What the server's BIOS must be set to; only a hand sets it, and what shows of it is checked."""

    sriov: bool = key("SR-IOV.", BY_HAND, "not checked")
    above_4g: bool = key("64-bit BARs: memory-mapped I/O above 4 GB.", BY_HAND, "not checked")
    iommu: bool = key("The IOMMU: Intel VT-d or AMD-Vi.", BY_HAND, "not checked")


class AccessEntry(Frozen):
    """How the host's shell is reached, for what neither vCenter nor esxcli can do."""

    ssh: Literal["off", "on", "open-and-close"] = key(
        "off: never. on: only where somebody has started it. open-and-close: started, and stopped again.",
        NEXT_RUN,
        "off",
    )
    user: Text = key("The user of the shell.", NEXT_RUN, "root")
    password: NamedSecret = key("The secret that holds the password.", NEXT_RUN)
    host_keys: Literal["known", "pin"] = key(
        "known: only a key that is in known_hosts. pin: a host's first key is written there.",
        NEXT_RUN,
        "known",
    )
    # The last one: below it the function of its name is out of reach.
    key: NamedSecret = key("The secret that holds a private key.", NEXT_RUN)


class DisruptionEntry(Frozen):
    """How far hosts may be disturbed."""

    max_hosts_down: Annotated[int, Field(ge=1)] = key(
        "How many hosts are out of use at once, at most.", NEXT_RUN, "1"
    )
    allow: tuple[Literal["maintenance", "reboot", "cold_boot"], ...] = key(
        "What may be done to a host. []: nothing.", NEXT_RUN, "maintenance, reboot"
    )
    canary: Annotated[int, Field(ge=0)] = key(
        "How many hosts go first; the others follow when these are done.", NEXT_RUN, "0"
    )
    vsan: Literal["ensureAccessibility", "noAction", "evacuateAllData"] = key(
        "What becomes of a host's vSAN data while it is in maintenance mode.", NEXT_RUN, "vSphere decides"
    )
    window: WindowText = key(
        "When hosts may be disturbed: days, from and to, time zone. Days: Sat, or Sat,Sun, or daily.",
        NEXT_RUN,
        "always",
    )
    power_off_own: bool = key(
        "Whether this plan's own VMs may be powered off where they cannot be moved.", NEXT_RUN, "false"
    )


class ClusterOptionsEntry(Frozen):
    """What vGPU VMs need of DRS and vCenter to be moved. It holds for the whole cluster."""

    evacuate_vgpu: bool = key(
        "Whether maintenance mode moves VMs with vGPUs: DRS option VgpuMMAutomationTimeoutSecs at -1.",
        LIVE,
        "as it is",
    )
    hot_migrate: bool = key("vCenter's vgpu.hotmigrate.enabled: vMotion of VMs with vGPUs.", LIVE, "as it is")
    drs: dict[Text, DrsValue] = key("Other options of DRS by name. Empty text removes one.", LIVE)


class HostEntry(Frozen):
    """One entry of `hosts`: the hosts of a cluster, or those that are named, and how they shall be."""

    cluster: OptionalText = key("All hosts of this cluster, by name or inventory path.", NEXT_RUN)
    names: Texts = key(
        "Globs of host names, or names with a range; with `cluster`, only hosts of it. One that matches "
        "nothing is an error.",
        NEXT_RUN,
    )
    mode: Literal["enforce", "check"] = key("check: report, and never write.", NEXT_RUN, "enforce")
    prepare: Literal["from_vms", "none"] = key(
        "from_vms: what the plan's VMs need of the hosts they are placed on is set too; what is stated here "
        "goes before it.",
        NEXT_RUN,
        "from_vms in a plan that has VMs, none in one that has not",
    )
    graphics_type: HostGraphicsType = key(
        "The host's default graphics type; vGPUs need sharedDirect.", TakesEffect.SERVICE_RESTART, "as it is"
    )
    assignment_policy: Literal["performance", "consolidation"] = key(
        "How vGPUs are spread over GPUs: breadth first, or depth first.",
        TakesEffect.SERVICE_RESTART,
        "as it is",
    )
    ats: bool = key("Address translation services: kernel option atsSupport.", HOST_REBOOT, "as it is")
    gpus: GpuRules = key(
        "Rules for GPUs; the first that matches holds, and a GPU that none matches is not touched."
    )
    nics: NicRules = key(
        "Rules for NICs; the first that matches holds, and a NIC that none matches is not touched."
    )
    vmknics: Vmknics = key("VMkernel NICs.")
    pvrdma: PvrdmaEntry | bool = key(
        "The VMkernel NIC of PVRDMA, with the firewall's ruleset; false: none.", LIVE, "as it is"
    )
    driver: DriverEntry = key(
        "The NVIDIA host driver: which, and who installs it.", HOST_REBOOT, "not checked"
    )
    bios: BiosEntry = key("What the server's BIOS must be set to.", BY_HAND, "not checked")
    licence: NamedSecret = key("The secret that holds the host's vSphere licence key.", LIVE, "as it is")
    cluster_options: ClusterOptionsEntry = key("What vGPU VMs need of DRS; needs `cluster`.", LIVE)
    access: AccessEntry = key("How the host's shell is reached.", NEXT_RUN)
    disruption: DisruptionEntry = key("What may be done to hosts, when, and to how many at once.", NEXT_RUN)

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["cluster"]}, {"required": ["names"]}]}
    )
