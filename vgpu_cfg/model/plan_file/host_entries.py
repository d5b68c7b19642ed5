"""An entry of `hosts` as its author writes it: which hosts, what of them, and how they may be disturbed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import ConfigDict, Field, WithJsonSchema, field_serializer

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.plan_file.device_entries import HostGpuEntry, HostNicEntry, PvrdmaEntry, VmknicEntry
from vgpu_cfg.model.plan_file.fields import (
    OptionalText,
    Stated,
    TakesEffect,
    Text,
    Texts,
    key,
)
from vgpu_cfg.model.plan_file.host_values import (
    Depots,
    DrsValue,
    HostAssignmentPolicy,
    HostGraphicsType,
    NamedSecret,
    Version,
    WindowText,
    one_or_list,
)
from vgpu_cfg.model.plan_values import Disruption

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


Disruptions = Annotated[
    frozenset[Disruption],
    WithJsonSchema({"items": {"enum": [str(one) for one in Disruption], "type": "string"}, "type": "array"}),
]


class DriverEntry(Frozen):
    """The NVIDIA host driver."""

    kind: Literal["nvd-aie", "vgpu"] = key(
        "The driver package: NVIDIA AI Enterprise (nvd-aie) or vGPU.", HOST_REBOOT, value="nvd-aie"
    )
    version: Stated[Version] = key("The version, as a quoted glob.", HOST_REBOOT, "any")
    by: Literal["image", "lifecycle", "esxcli", "hand"] = key(
        "How it is installed: by the cluster's image, by vgpu-cfg from `depot`, or manually.",
        NEXT_RUN,
        value="hand",
    )
    depot: Depots = key(
        "Offline bundles for `by: esxcli`: paths on the host, or addresses.", HOST_REBOOT, value=tuple
    )


class EsxiEntry(Frozen):
    """The ESXi release, which the image of the hosts' cluster brings."""

    build: Annotated[int, Field(ge=1)] = key(
        "The build number; hosts with a later build are not changed.", HOST_REBOOT
    )
    by: Literal["image"] = key("How it is installed: by the cluster's image.", NEXT_RUN, value="image")


class FirmwareToolsEntry(Frozen):
    """NVIDIA's firmware tools: MFT, and NMST, its kernel module."""

    version: Stated[Version] = key("The MFT version, as a quoted glob.", HOST_REBOOT, "any")
    by: Literal["lifecycle", "esxcli", "hand"] = key(
        "How it is installed: by the cluster's image, by vgpu-cfg from `depot`, or manually.",
        NEXT_RUN,
        value="hand",
    )
    depot: Depots = key(
        "MFT and NMST offline bundles for `by: esxcli`: paths on the host, or addresses.",
        HOST_REBOOT,
        value=tuple,
    )


class BiosEntry(Frozen):
    """Required BIOS settings: they can be set only manually; the visible ones are checked."""

    sriov: Stated[bool] = key("SR-IOV.", BY_HAND, "not checked")
    above_4g: Stated[bool] = key("64-bit BARs: memory-mapped I/O above 4 GB.", BY_HAND, "not checked")
    iommu: Stated[bool] = key("The IOMMU: Intel VT-d or AMD-Vi.", BY_HAND, "not checked")


class BmcEntry(Frozen):
    """The management controllers (BMC) of servers, spoken to by Redfish: they switch a host on again."""

    addresses: dict[Text, Text] = key(
        "The address of each host's BMC, by the host's name in vCenter: bmc-01, or bmc-01:8443.",
        NEXT_RUN,
        "none",
        value=dict,
    )
    user: Text = key("The BMC account; it must be allowed to control power.", NEXT_RUN, value="root")
    password: Stated[NamedSecret] = key("The secret with the account's password.", NEXT_RUN)
    thumbprints: dict[Text, Text] = key(
        "The SHA-256 thumbprint of each BMC's certificate, by host name, used instead of CA verification.",
        NEXT_RUN,
        "CA verification",
        value=dict,
    )
    system: OptionalText = key(
        "The server's Redfish ID, if the BMC manages several.", NEXT_RUN, "the only one"
    )


class AccessEntry(Frozen):
    """How the host's shell is reached, for what neither vCenter nor esxcli can do."""

    ssh: Literal["off", "on", "open-and-close"] = key(
        (
            "off: never. on: only if the service is already running. open-and-close: started, then stopped "
            "afterward."
        ),
        NEXT_RUN,
        value="off",
    )
    user: Text = key("The shell user.", NEXT_RUN, value="root")
    password: Stated[NamedSecret] = key("The secret with the password.", NEXT_RUN)
    host_keys: Literal["known", "pin"] = key(
        "known: accept only keys in known_hosts. pin: add a host's first key to known_hosts.",
        NEXT_RUN,
        value="known",
    )
    bmc: BmcEntry = key(
        "The servers' management controllers, which power them on again during a cold boot.",
        NEXT_RUN,
        "none",
        value=BmcEntry,
    )
    # The last one: below it the function of its name is out of reach.
    key: Stated[NamedSecret] = key("The secret with a private key.", NEXT_RUN)


class EstimateEntry(Frozen):
    """Estimated minutes of steps: work that would not finish within `window` is not started."""

    maintenance: Annotated[int, Field(ge=0)] = key(
        "Entering and exiting maintenance mode, including all changes on the host.", NEXT_RUN, value=15
    )
    reboot: Annotated[int, Field(ge=0)] = key("Each reboot of a host.", NEXT_RUN, value=15)
    vm: Annotated[int, Field(ge=0)] = key(
        "Each VM that is moved, or powered off and on again.", NEXT_RUN, value=5
    )


class DisruptionEntry(Frozen):
    """How far hosts may be disturbed."""

    max_hosts_down: Annotated[int, Field(ge=1)] = key(
        "The maximum number of hosts out of service at the same time.", NEXT_RUN, value=1
    )
    allow: Disruptions = key(
        "The disruptions allowed for hosts. []: none.",
        NEXT_RUN,
        "maintenance, reboot",
        value=frozenset({Disruption.MAINTENANCE, Disruption.REBOOT}),
    )
    canary: Annotated[int, Field(ge=0)] = key(
        "The number of canary hosts; the other hosts follow when the canaries are finished.",
        NEXT_RUN,
        value=0,
    )
    vsan: Stated[Literal["ensureAccessibility", "noAction", "evacuateAllData"]] = key(
        "How vSAN data is handled in maintenance mode.", NEXT_RUN, "vSphere decides"
    )
    window: WindowText = key(
        "When hosts may be disrupted: days, start and end, time zone. Days: Sat, or Sat,Sun, or daily.",
        NEXT_RUN,
        "always",
    )
    estimate: EstimateEntry = key(
        "Estimated duration of steps in minutes, used to check whether the work fits in the window.",
        NEXT_RUN,
        value=EstimateEntry,
    )
    power_off_own: bool = key(
        "Whether VMs in this plan may be powered off if they cannot be migrated.",
        NEXT_RUN,
        "false",
        value=False,
    )

    @field_serializer("allow")
    def _in_order(self, allowed: frozenset[Disruption]) -> list[str]:
        return sorted(allowed)


class ClusterOptionsEntry(Frozen):
    """The DRS and vCenter settings required to move vGPU VMs. They apply to the whole cluster."""

    evacuate_vgpu: Stated[bool] = key(
        "Whether maintenance mode migrates VMs with vGPUs (DRS option VgpuMMAutomationTimeoutSecs = -1).",
        LIVE,
        "unchanged",
    )
    hot_migrate: Stated[bool] = key(
        "Whether vMotion of VMs with vGPUs is enabled (vCenter's vgpu.hotmigrate.enabled).", LIVE, "unchanged"
    )
    drs: dict[Text, DrsValue] = key(
        "Other DRS options, by name; an empty string removes one.", LIVE, value=dict
    )


class HostEntry(Frozen):
    """One entry in `hosts`: the hosts of a cluster, or named hosts, and their settings."""

    cluster: OptionalText = key(
        "All hosts in a cluster. Specify its name or inventory path; a glob selects all matching clusters.",
        NEXT_RUN,
    )
    names: Texts = key(
        "Host names, as globs or ranges; with `cluster`, only hosts in that cluster. A name that matches no "
        "host is an error.",
        NEXT_RUN,
        value=tuple,
    )
    mode: Literal["enforce", "check"] = key("check: report only, make no changes.", NEXT_RUN, value="enforce")
    prepare: Literal["from_vms", "none"] = key(
        "from_vms: also configure settings that the plan's VMs require on their hosts; explicit settings "
        "take precedence.",
        NEXT_RUN,
        "from_vms in a plan with VMs; otherwise, none",
        value="none",
    )
    graphics_type: Stated[HostGraphicsType] = key(
        "The host's default graphics type; vGPUs require sharedDirect.",
        TakesEffect.SERVICE_RESTART,
        "unchanged",
    )
    assignment_policy: Stated[HostAssignmentPolicy] = key(
        "How vGPUs are distributed across GPUs: breadth first or depth first.",
        TakesEffect.SERVICE_RESTART,
        "unchanged",
    )
    ats: Stated[bool] = key(
        "Address Translation Services (kernel option atsSupport).", HOST_REBOOT, "unchanged"
    )
    gpus: GpuRules = key(
        "Rules for GPUs; the first match applies. GPUs without a match are not changed.", value=tuple
    )
    nics: NicRules = key(
        "Rules for NICs; the first match applies. NICs without a match are not changed.", value=tuple
    )
    vmknics: Vmknics = key("VMkernel NICs.", value=tuple)
    pvrdma: Stated[PvrdmaEntry | bool] = key(
        "The VMkernel NIC for PVRDMA, with the firewall ruleset it requires; false: none.", LIVE, "unchanged"
    )
    driver: Stated[DriverEntry] = key(
        "The NVIDIA host driver and its installation method.", HOST_REBOOT, "not checked"
    )
    esxi: Stated[EsxiEntry] = key("The ESXi build and its installation method.", HOST_REBOOT, "not checked")
    firmware_tools: Stated[FirmwareToolsEntry] = key(
        "NVIDIA's firmware tools, required for NIC `firmware`, and their installation method.",
        HOST_REBOOT,
        "not checked",
    )
    bios: Stated[BiosEntry] = key("Required BIOS settings on the server.", BY_HAND, "not checked")
    licence: Stated[NamedSecret] = key("The secret with the host's vSphere license key.", LIVE, "unchanged")
    cluster_options: ClusterOptionsEntry = key(
        "DRS settings for vGPU VMs; requires `cluster`.", LIVE, value=ClusterOptionsEntry
    )
    access: AccessEntry = key("Access to the host's shell.", NEXT_RUN, value=AccessEntry)
    disruption: DisruptionEntry = key(
        "Allowed host disruption: which kinds, when, and how many at a time.", NEXT_RUN, value=DisruptionEntry
    )

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["cluster"]}, {"required": ["names"]}]}
    )
