"""Beliefs about vCenter that an estate can make false, `lies: [ID, …]`, and how the lab behaves then.

An ID is a belief's of the reference. `BENDS` has those that are data: other fields in answers or requests,
rejections, privileges, events. For the others, the place where the lab bends asks `LabState.denies(ID)`.

Types, fields, methods and faults have the names of the WSDL. A field of a type is also one of its subtypes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator

from vgpu_cfg import documents

SOON_SECONDS = 60.0
"""So long a lab that is late needs to show a change, by its own clock."""
SHORT_PAGE = 100
"""So many entries a page of a collector has that is said to have more."""
DAY_SECONDS = 86_400.0

LIES: Mapping[str, str] = {
    # Alarms.
    "alarm-names-are-unique": "An alarm is created even if its name is already in use.",
    "alarm-names-are-unique-at-once": "Two alarms with the same name can be created within one second.",
    "alarms-are-visible-at-once": "An alarm is listed only after one minute.",
    "alarms-are-visible-to-readers": "Only an account with `Alarm.Create` sees alarms.",
    "alarm-time-moves": "ReconfigureAlarm does not move `lastModifiedTime`.",
    "alarm-time-is-its-creation": "`lastModifiedTime` of an unmodified alarm is one day before its creation.",
    "alarm-description-400": "Alarm descriptions are truncated after 100 characters.",
    "disabled-alarm-expression": "A disabled alarm is rejected with `InvalidArgument`.",
    "maintenance-alarm-warns": "No event triggers an alarm.",
    "alarms-of-all-entities": "GetAlarm without an entity lists only the root folder's alarms.",
    "alarm-privileges": "Without `Alarm.Create`, CreateAlarm fails with `InvalidArgument`.",
    # Events.
    "event-filter-by-type-id": "Filtering events by `eventTypeId` finds nothing.",
    "event-filter-takes-bare-names": "A filter finds event types only with the prefix `vim.event.`.",
    "event-type-spelling": "A filter finds event types only with the prefix `com.vmware.vc.`.",
    "event-filter-covers-a-folder": "Filtering by entity finds only the entity's own events.",
    "event-filter-finds-removed-vms": "A deleted VM's events are not found.",
    "event-collector-reads-backwards": "After ResetCollector, ReadPreviousEvents starts at the oldest event.",
    "event-pages-go-forward": "ReadNextEvents starts at the newest event.",
    "event-pages-of-1000": "A page has at most 100 events or tasks, regardless of the number requested.",
    "creation-events-name-the-creator": "Events for a VM's creation do not name a user.",
    "clone-event-is-of-the-new-vm": "A clone's event belongs to its source.",
    "reconfigured-event-has-the-request": "Reconfiguration events contain an empty request.",
    "cluster-event-names-the-override": "Cluster reconfiguration events have no `configChanges`.",
    "task-names-its-event-chain": "Every task's `eventChainId` is 0.",
    "event-shares-its-tasks-chain": "Each event has its own chain.",
    "user-events": "LogUserEvent is rejected with `NotSupported`.",
    "power-events": "Power-ons and power-offs are not logged as events.",
    "reconfigured-event-is-readable": "Reconfigurations are not logged as events.",
    # Tasks and filters.
    "recent-tasks": "Completed tasks are removed from vCenter's recent tasks immediately.",
    "task-reason-spells-the-account": "A task's reason shows the account as `DOMAIN\\name`.",
    "queued-clones-show-queued": "A task queued in vCenter is shown as `running`.",
    "new-filter-reports-at-the-next-wait": "A new filter reports nothing in its first minute.",
    "filter-reports-new-change-version": "A filter never reports changes to a VM.",
    "power-on-texts-and-faults": "Every failed power-on returns `SystemError`.",
    # A VM's configuration.
    "clone-honours-config-spec": "A clone ignores the extraConfig of its ConfigSpec.",
    "clone-accepts-instance-uuid": "A clone ignores the instance UUID of its ConfigSpec.",
    "clone-keeps-hardware-version": "A clone gets the latest hardware version that its host supports.",
    "clone-disk-names": "A clone's disks are named `disk-0.vmdk`, `disk-1.vmdk`, in reverse order.",
    "clone-sets-mac": "A clone ignores the MAC addresses of its ConfigSpec.",
    "clone-takes-policies": "A clone ignores the storage policies of its location.",
    "clone-has-no-tags": "A clone inherits its template's tags.",
    "clone-device-change": "A clone whose ConfigSpec edits or removes a device is rejected.",
    "extra-config-is-copied": "A clone inherits none of its source's extraConfig.",
    "instance-uuid-is-unique": "A clone keeps its source's instance UUID unless its ConfigSpec sets one.",
    "identity-survives-rename-and-move": "Renaming or moving a VM changes its instance UUID.",
    "old-change-version-is-rejected": "An outdated change version is accepted.",
    "edits-move-change-version": "An edit does not change the change version.",
    "power-on-moves-change-version": "A power-on does not change the change version.",
    "power-off-moves-change-version": "A power-off does not change the change version.",
    "vmx-options-ignore-case": "extraConfig shows names in lowercase.",
    "running-vm-takes-extra-config": "Setting extraConfig on a running VM fails with `InvalidPowerState`.",
    "disk-uuid-exists": "Disk backings have no `uuid`.",
    "disk-uuid-keeps-its-value": "Reconfiguring a VM changes its disks' UUIDs.",
    "nic-keys-are-lowest-free": "A new NIC's key is higher than all existing keys, and at least 4050.",
    "nic-keeps-automatic-mac": "A power-on changes automatic MAC addresses.",
    "generated-mac-ranges": "Generated MAC addresses begin with 02:50:56.",
    "destroy-keeps-detached-files": "Destroy_Task deletes the VM's folder and all files in it.",
    "deleted-vm-drops-its-tags": "Tags remain attached to a deleted VM.",
    "deleted-vm-leaves-its-group": "A deleted VM stays in its VM group.",
    "missing-hot-add-is-off": "`cpuHotAddEnabled` and `memoryHotAddEnabled` are missing.",
    "clone-and-attributes": "A clone inherits the first of its template's custom attributes.",
    "only-an-edit-changes-a-mac": "A power-on changes all MAC addresses.",
    "policy-of-a-running-gpu-vm": "Changing a running VM's storage policy fails with `InvalidPowerState`.",
    "dvx-devices-are-sent-back": "A request with a DVX device is rejected.",
    "destroy-keeps-files-of-other-vms": "Destroy_Task deletes the VM's folder and all files in it.",
    "relocate-moves-like-migrate": "RelocateVM_Task is rejected.",
    "relocate-moves-running-vgpu-vms": "RelocateVM_Task is rejected for a running VM.",
    "vm-operator-marks-vms": "No VM has `managedBy`.",
    "eam-marks-agents": "Agent VMs are managed by `com.vmware.eam`.",
    "bosh-names-its-deployment": "BOSH's custom attribute `director` has a different name.",
    # Customization of guests.
    "clone-takes-customization-and-nics": "A clone with a customization and a new NIC is rejected.",
    "customization-counts-new-nics": "A customization is checked against the template's NICs.",
    "spec-is-sent-back-as-read": "A customization specification is rejected if it was read before.",
    "customization-spec-format": "The end of a customization is not logged as an event.",
    "deploy-pkg-means-pending": "`tools.deployPkg.fileName` is never set.",
    "customization-follows-pci-slots": "Settings go to adapters in the reverse order of their PCI slots.",
    "pci-slot-order": "New adapters have PCI slots before the template's.",
    "customization-survives-a-short-start": "Customization fails for a VM powered off before it.",
    "library-template-is-in-the-inventory": "A library item has no `vm_template`.",
    "library-template-clones-alike": "CloneVM_Task of a library's VM template fails with `NotSupported`.",
    # Device groups.
    "group-nic-is-dynamic-directpath": "A group with a Dynamic DirectPath NIC is rejected.",
    "group-in-one-config-spec": "A request with a device group is rejected.",
    "clone-takes-device-groups": "A clone with a device group is rejected.",
    "group-sequence-from-zero": "A member of a group with `sequenceId` 0 is rejected.",
    "groups-are-read-back": "`config.deviceGroups` is missing.",
    "group-members-show-as-devices": "A VM's device list omits the members of its groups.",
    "group-nic-component-type": "A group's NIC is a component of type `nic`.",
    # Clusters.
    "group-and-rule-in-one-request": "A rule is rejected if it refers to a group in the same request.",
    "stopped-vm-in-a-group": "A VM group rejects powered-off VMs.",
    "overrides-for-new-vms": "DRS and HA overrides are rejected for powered-off VMs.",
    "rule-goes-with-its-last-vm": "A rule is removed when only one VM remains in it.",
    "empty-option-removes-it": "A DRS option that is set to an empty value remains, empty.",
    "drs-keeps-power-on-host": "A power-on starts the VM on a different host than requested, if possible.",
    "must-rules-hold": "A power-on or migration may violate a mandatory rule.",
    "drs-empties-hosts": "DRS leaves all VMs on a host that enters maintenance mode.",
    # GPUs and hosts.
    "graphics-info-shows-the-gpu": "`graphicsInfo` does not show a VM until one minute after its power-on.",
    "graphics-info-forgets-stopped-vms": "`graphicsInfo` shows a VM for one minute after its power-off.",
    "shared-types-are-fresh": "`sharedPassthruGpuTypes` lists all profiles of the host's driver.",
    "no-driver-no-fault": "RetrieveVgpuProfileInfo fails on a host without NVIDIA's driver.",
    "parent-bridge-is-an-address": "`parentBridge` is a description such as `PCIe bridge 17`.",
    "root-ports-share-a-bus": "No device has a `parentBridge`.",
    "boot-time-is-steady": "A host's `bootTime` varies by a few seconds between readings.",
    "lost-host-vm-states": "A VM on a disconnected host is shown as `poweredOff`.",
    "network-lists-stopped-vms": "`Network.vm` omits powered-off VMs.",
    "esxi-chooses-the-gpu": "`graphicsInfo` shows a GPU for a powered-off VM.",
    "vgpus-follow-assignment-policy": "ESXi selects the GPU with the lowest address.",
    "numa-affinity-format": "`numa.nodeAffinity` is shown as `node0`.",
    "drs-keeps-numa-affinity": "A power-on removes `numa.nodeAffinity`.",
    "same-build-same-profiles": "Every host except the first lacks its last profile.",
    "core-clock-is-cpu-mhz": "`cpuMhz` is half the clock rate.",
    "memory-to-reserve": "VMs can reserve half of a host's memory.",
    "lost-host-rejects-calls": "Tasks for VMs on a disconnected host succeed.",
    "passthrough-reports-system-id": "A host reports no system ID for its PCI devices.",
    "vmotion-cost-units": "The vMotion cost of a profile is in microseconds.",
    "gpu-counters-of-power": "vCenter has no counters for GPU memory and power.",
    "gpu-counter-device-base": "Counters use the device name `gpu0`.",
    "max-query-metrics": "A query for more than one object is rejected.",
    # Settings of hosts, their restarts, and their shells.
    "reboot-activates-settings": "Module and kernel settings, ECC, and packages wait for a cold boot.",
    "settings-change-at-boot-only": "ECC, NIC firmware, and MIG mode change at once.",
    "graphics-type-after-xorg-restart": "Restarting `xorg` does not activate graphics types.",
    "graphics-type-with-driver": "The reboot that activates the driver does not activate graphics types.",
    "first-3g-instance-at-slice-4": "MIG instances get the lowest free position.",
    "starts-within-a-gpu": "Every second MIG instance gets the lowest free position, not the highest.",
    "mig-gpus-fill-one-by-one": "vGPUs of GPUs in MIG mode follow the assignment policy.",
    "latency-needs-cpu-and-memory": "High latency sensitivity reserves one more core.",
    "mig-mode-on-ampere": "A reboot turns off MIG mode on Ampere.",
    "mig-mode-from-hopper": "On Hopper and later, MIG mode waits for a reboot, and outlasts it.",
    "reboot-drops-mixed-size": "A reboot keeps the mixed-size mode.",
    "passthrough-rebinds": "Every passthrough change waits for a reboot.",
    "ats-support-option": "`atsSupport` is off and is named `vtdAtsSupport` in every release.",
    "esxcli-through-vcenter": "A host has no esxcli command through vCenter.",
    "depot-list-in-a-shell": "`software sources vib list` fails with `MaintenanceModeError`.",
    "depot-list-through-vcenter": "`software sources vib list` is unknown through vCenter.",
    "vib-install-through-vcenter": "`software vib install` fails through vCenter.",
    "vib-install-of-two-depots": "`software vib install` fails with more than one depot.",
    "nvidia-smi-topo-on-esxi": "`nvidia-smi topo -m` prints no matrix.",
    "nvidia-smi-mig-on-esxi": "`nvidia-smi mig -lgi` prints no placements.",
    "numa-info-counts-like-nvidia-smi": "`nvidia-smi topo -m` counts NUMA nodes from 1.",
    # Images of clusters.
    "base-image-ends-in-build": "Base image versions end in `-standard`.",
    "image-compliance-fields": "The compliance report has no `hosts`.",
    "one-draft-per-account": "The owner of a draft is shown without a domain.",
    "image-task-in-result": "Lifecycle Manager tasks have no result.",
    "driver-component-names": "Names of NVIDIA's components start with `gpu-`.",
    "remediation-keeps-maintenance": "A host leaves maintenance mode after its remediation.",
    # Attributes, policies, privileges.
    "custom-attribute-holds-255": "Custom attribute values are truncated after 100 characters.",
    "licenses-name-their-end": "Licenses have no properties.",
    "policy-answer-omits-objects": "The storage policy API also lists objects that have no policy.",
    "policy-key-of-a-disk": "The storage policy API identifies a disk only by its key.",
    "privileges-asked-together": "HasPrivilegeOnEntities rejects more than one object.",
    "effective-role-is-enough": "`effectiveRole` is empty.",
    "native-key-provider-is-listed": "`kmipServers` omits a native key provider.",
    "directpath-capacity": "`DirectPathProfileManager` rejects every query with `NotSupported`.",
    "rest-below-rest": "The REST API under `/rest` returns status 404.",
    "gpu-counters": "vCenter has no counters in the group `gpu`.",
    "policies-at-pbm": "The storage policy API rejects vCenter's session.",
    "privileges-suffice": "A power-on also requires `VirtualMachine.Interact.Suspend`.",
    "clone-privileges": "A clone also requires `VirtualMachine.State.CreateSnapshot`.",
    "clone-privileges-of-devices": "A clone with devices also requires `VirtualMachine.Config.RawDevice`.",
    "numa-nodes-privilege": "Virtual NUMA nodes also require another privilege.",
    "vtpm-privilege": "A virtual TPM also requires `Cryptographer.Access`.",
    "policy-privilege": "A storage policy also requires `StorageProfile.Update`.",
    "clone-customization-privilege": "A customization also requires another privilege.",
    "role-minus-one-is-administrator": "`effectiveRole` is -1 for every account.",
    "effective-roles-add-up": "`effectiveRole` contains only the first role.",
    "attachable-privilege-from-70": "No account has `InventoryService.Tagging.ObjectAttachable`.",
    "tag-batches-report-each": "A call with several tags always reports success.",
    "tag-batch-messages": "A call with several tags returns empty messages.",
    "bearer-token-header": "LoginByToken fails with `InvalidLogin`.",
    "rest-login-by-token": "The REST API rejects every bearer token.",
    "service-content-in-api-65": "RetrieveServiceContent is rejected.",
    "sddc-manager-extension": "SDDC Manager's extension is named `com.broadcom.sddcManager`.",
}
"""How the lab behaves, by the ID of the belief that is false then."""


def _lie(belief: str) -> str:
    if belief not in LIES:
        hint = documents.did_you_mean(belief, LIES)
        raise ValueError(f"the lab cannot make {belief!r} false; it supports {', '.join(LIES)}\n{hint}")
    return belief


LieId = Annotated[str, AfterValidator(_lie)]


Change = Callable[[Any], Any]
"""A value → the one in its place; None leaves it out."""


class Answered(NamedTuple):
    """A field in answers, `Type.field` or several with `|`, is changed wherever it or its object is read."""

    field: str
    change: Change


class Heard(NamedTuple):
    """A field of objects in the requests of a method is changed before it is carried out."""

    method: str
    field: str
    change: Change


class Rejected(NamedTuple):
    """A method ends in a fault; a task does so when it is due.

    With `given` only if the request has all of these: a type, a field that is set (`Type.field`), or one with
    a value (`Type.field=value`). `running` limits it to VMs that run, `most` to lists that are longer.
    """

    method: str
    fault: str
    given: tuple[str, ...] = ()
    running: bool = False
    most: tuple[str, int] | None = None


class Guarded(NamedTuple):
    """A method requires another privilege on its object, with `given` likewise."""

    method: str
    privilege: str
    given: tuple[str, ...] = ()


class Faulted(NamedTuple):
    """A method that ends in one fault ends in another."""

    method: str
    fault: str
    instead: str


class Unlogged(NamedTuple):
    """Events of some types are not kept."""

    events: tuple[str, ...]


class Refused(NamedTuple):
    """An esxcli command, or all below a name, fails: with these lines, or as unknown to the host.

    It does so through vCenter, in the host's shell, or in both if `way` is empty. `depots` is how many it
    must have at least.
    """

    command: str
    way: Literal["", "vcenter", "shell"] = ""
    lines: tuple[str, ...] = ()
    depots: int = 1


class Printed(NamedTuple):
    """The output of a command in a host's shell is changed."""

    command: str
    change: Callable[[str], str]


Bend = Answered | Heard | Rejected | Guarded | Faulted | Unlogged | Refused | Printed


def nothing(_value: Any) -> Any:
    """Leave a field out."""
    return None


def emptied(value: Any) -> Any:
    """Return an object, a list or a text without content."""
    return type(value)()


def instead(new: Any) -> Change:
    """Replace a value by one of the same type."""
    return lambda old: type(old)(new)


def spelled(word: str, new: str) -> Change:
    """Replace a word by another."""
    return lambda old: type(old)(new if old == word else old)


def valued(key: str, change: Callable[[str], str]) -> Change:
    """Change the value of one item of a list of options."""

    def changed(one: Any) -> Any:
        return type(one)(key=key, value=change(one.value)) if one.key == key else one

    return lambda old: type(old)([changed(one) for one in old])


def in_domain(account: str) -> str:
    r"""Spell an account `DOMAIN\name`."""
    name, _, domain = account.rpartition("\\")[2].partition("@")
    return f"{domain or 'LAB'}\\{name}"


def times(factor: float) -> Change:
    """Multiply a number."""
    return lambda old: type(old)(old * factor)


def cut(length: int) -> Change:
    """Shorten a text or a list."""
    return lambda old: type(old)(old[:length])


def without(**fields: object) -> Change:
    """Drop the items of a list that have these values."""

    def change(old: Any) -> Any:
        return type(old)([one for one in old if any(getattr(one, key) != fields[key] for key in fields)])

    return change


def counted_from_one(matrix: str) -> str:
    """Count the NUMA nodes in nvidia-smi's matrix from 1."""
    return re.sub(r"(?m)^(GPU.*\t)(\d+)(\tN/A)$", lambda row: f"{row[1]}{int(row[2]) + 1}{row[3]}", matrix)


def lacking(field: str) -> Change:
    """Drop the items of a list that have a field."""
    return lambda old: type(old)([one for one in old if getattr(one, field, None) is None])


_CLONE, _EDIT, _BOTH = "CloneVM_Task", "ReconfigVM_Task", "CloneVM_Task|ReconfigVM_Task"
_GROUPS = ("VirtualMachineVirtualDeviceGroups",)
_DYNAMIC = "VirtualPCIPassthroughDynamicBackingInfo"
_FIRST_OF_GROUP = ("VirtualDeviceDeviceGroupInfo.sequenceId=0",)
_CUSTOMIZED_NIC = ("CustomizationSpec", "VirtualEthernetCard")
_POWER_EVENTS = ("VmPoweredOnEvent", "VmPoweredOffEvent", "VmSuspendedEvent", "VmResettingEvent")
_EXTRA, _KEYS = "VirtualMachineConfigInfo.extraConfig", ("VirtualMachineConfigSpec.extraConfig",)
_COMPONENT = "VirtualMachineVendorDeviceGroupInfoComponentDeviceInfo.type"
_HOT_ADD = "VirtualMachineConfigInfo.cpuHotAddEnabled|VirtualMachineConfigInfo.memoryHotAddEnabled"
_MADE_BY = "VmCreatedEvent.userName|VmClonedEvent.userName|VmDeployedEvent.userName"
_DVX = ("VirtualPCIPassthroughDvxBackingInfo",)
_CLUSTER, _GROUP_AND_RULE = "ReconfigureComputeResource_Task", ("ClusterGroupSpec", "ClusterRuleSpec")
_RAW = "VirtualMachine.Config.RawDevice"
_NO_MAINTENANCE = ("[MaintenanceModeError]", "The host is not in maintenance mode")
_NO_BUNDLE = ("[MetadataDownloadError]", "Could not download from the depot")
_POLICY = "VirtualMachineDefinedProfileSpec"


BENDS: Mapping[str, Bend | list[Bend]] = {
    # Alarms.
    "alarm-description-400": Answered("AlarmSpec.description", cut(100)),
    "disabled-alarm-expression": Rejected("CreateAlarm", "InvalidArgument", ("AlarmSpec.enabled=False",)),
    "alarm-privileges": Faulted("CreateAlarm", "NoPermission", "InvalidArgument"),
    # Events.
    "creation-events-name-the-creator": Answered(_MADE_BY, emptied),
    "reconfigured-event-has-the-request": Answered("VmReconfiguredEvent.configSpec", emptied),
    "cluster-event-names-the-override": Answered("ClusterReconfiguredEvent.configChanges", nothing),
    "task-names-its-event-chain": Answered("TaskInfo.eventChainId", times(0)),
    "user-events": Rejected("LogUserEvent", "NotSupported"),
    "power-events": Unlogged(_POWER_EVENTS),
    "reconfigured-event-is-readable": Unlogged(("VmReconfiguredEvent",)),
    # Tasks and filters.
    "task-reason-spells-the-account": Answered("TaskReasonUser.userName", in_domain),
    "queued-clones-show-queued": Answered("TaskInfo.state", spelled("queued", "running")),
    "power-on-texts-and-faults": Faulted("PowerOnVM_Task", "VimFault", "SystemError"),
    # A VM's configuration.
    "clone-honours-config-spec": Heard(_CLONE, "VirtualMachineConfigSpec.extraConfig", emptied),
    "clone-accepts-instance-uuid": Heard(_CLONE, "VirtualMachineConfigSpec.instanceUuid", nothing),
    "clone-sets-mac": [
        Heard(_CLONE, "VirtualEthernetCard.macAddress", nothing),
        Heard(_CLONE, "VirtualEthernetCard.addressType", instead("generated")),
    ],
    "clone-takes-policies": [
        Heard(_CLONE, "VirtualMachineRelocateSpec.profile", emptied),
        Heard(_CLONE, "VirtualMachineRelocateSpecDiskLocator.profile", emptied),
    ],
    "clone-device-change": [
        Rejected(_CLONE, "InvalidArgument", ("VirtualDeviceConfigSpec.operation=edit",)),
        Rejected(_CLONE, "InvalidArgument", ("VirtualDeviceConfigSpec.operation=remove",)),
    ],
    "running-vm-takes-extra-config": Rejected(_EDIT, "InvalidPowerState", _KEYS, running=True),
    "disk-uuid-exists": Answered("VirtualDiskFlatVer2BackingInfo.uuid", nothing),
    "missing-hot-add-is-off": Answered(_HOT_ADD, nothing),
    "policy-of-a-running-gpu-vm": Rejected(_EDIT, "InvalidPowerState", (_POLICY,), running=True),
    "dvx-devices-are-sent-back": Rejected(_EDIT, "InvalidDeviceSpec", _DVX),
    "relocate-moves-like-migrate": Rejected("RelocateVM_Task", "InvalidArgument"),
    "relocate-moves-running-vgpu-vms": Rejected("RelocateVM_Task", "InvalidPowerState", running=True),
    "vm-operator-marks-vms": Answered("VirtualMachineConfigInfo.managedBy", nothing),
    "eam-marks-agents": Answered(
        "ManagedByInfo.extensionKey", spelled("com.vmware.vim.eam", "com.vmware.eam")
    ),
    "bosh-names-its-deployment": Answered("CustomFieldDef.name", spelled("director", "bosh")),
    # Customization of guests.
    "clone-takes-customization-and-nics": Rejected(_CLONE, "InvalidArgument", _CUSTOMIZED_NIC),
    "customization-counts-new-nics": Rejected(_CLONE, "NicSettingMismatch", _CUSTOMIZED_NIC),
    "spec-is-sent-back-as-read": Rejected(_CLONE, "CannotDecryptPasswords", ("CustomizationSpec",)),
    "customization-spec-format": Unlogged(("CustomizationSucceeded", "CustomizationFailed")),
    "deploy-pkg-means-pending": Answered(_EXTRA, without(key="tools.deployPkg.fileName")),
    # Device groups.
    "group-nic-is-dynamic-directpath": Rejected(_BOTH, "InvalidDeviceSpec", (*_GROUPS, _DYNAMIC)),
    "group-in-one-config-spec": Rejected(_BOTH, "InvalidDeviceSpec", _GROUPS),
    "clone-takes-device-groups": Rejected(_CLONE, "InvalidDeviceSpec", _GROUPS),
    "group-sequence-from-zero": Rejected(_BOTH, "InvalidDeviceSpec", _FIRST_OF_GROUP),
    "groups-are-read-back": Answered("VirtualMachineConfigInfo.deviceGroups", nothing),
    "group-members-show-as-devices": Answered("VirtualHardware.device", lacking("deviceGroupInfo")),
    "group-nic-component-type": Answered(_COMPONENT, spelled("pciPassthru", "nic")),
    # Clusters.
    "group-and-rule-in-one-request": Rejected(_CLUSTER, "InvalidArgument", _GROUP_AND_RULE),
    # GPUs and hosts.
    "parent-bridge-is-an-address": Answered("HostPciDevice.parentBridge", instead("PCIe bridge 17")),
    "root-ports-share-a-bus": Answered("HostPciDevice.parentBridge", nothing),
    "numa-affinity-format": Answered(_EXTRA, valued("numa.nodeAffinity", "node{}".format)),
    "core-clock-is-cpu-mhz": Answered("HostHardwareSummary.cpuMhz", times(0.5)),
    "passthrough-reports-system-id": Answered("VirtualMachinePciPassthroughInfo.systemId", emptied),
    "vmotion-cost-units": Answered("VirtualMachineVMotionStunTimeInfo.stunTime", times(1000)),
    "gpu-counters-of-power": Answered("PerformanceManager.perfCounter", cut(1)),
    "gpu-counter-device-base": Answered("PerfMetricId.instance", instead("gpu0")),
    "max-query-metrics": Rejected("QueryPerf", "InvalidArgument", most=("querySpec", 1)),
    # The shells of hosts.
    "nvidia-smi-topo-on-esxi": Printed("nvidia-smi topo", instead("No topology information is available.\n")),
    "nvidia-smi-mig-on-esxi": Printed("nvidia-smi mig -lgi", lambda text: re.sub(r" +\d+:\d+\|", "|", text)),
    "numa-info-counts-like-nvidia-smi": Printed("nvidia-smi topo", counted_from_one),
    "esxcli-through-vcenter": Refused("", "vcenter"),
    "depot-list-in-a-shell": Refused("software.sources.vib.list", "", _NO_MAINTENANCE),
    "depot-list-through-vcenter": Refused("software.sources.vib.list", "vcenter"),
    "vib-install-through-vcenter": Refused("software.vib.install", "vcenter", _NO_BUNDLE),
    "vib-install-of-two-depots": Refused("software.vib.install", "", _NO_BUNDLE, depots=2),
    # Attributes, policies, privileges.
    "custom-attribute-holds-255": Answered("CustomFieldStringValue.value", cut(100)),
    "licenses-name-their-end": Answered("LicenseManagerLicenseInfo.properties", nothing),
    "privileges-asked-together": Rejected("HasPrivilegeOnEntities", "InvalidArgument", most=("entity", 1)),
    "effective-role-is-enough": Answered("ManagedEntity.effectiveRole", emptied),
    "native-key-provider-is-listed": Answered(
        "CryptoManagerKmip.kmipServers", without(managementType="nativeProvider")
    ),
    "directpath-capacity": Rejected("DirectPathProfileManagerQueryCapacity", "NotSupported"),
    "gpu-counters": Answered("PerformanceManager.perfCounter", emptied),
    "policies-at-pbm": Rejected("PbmRetrieveServiceContent", "NotAuthenticated"),
    "privileges-suffice": Guarded("PowerOnVM_Task", "VirtualMachine.Interact.Suspend"),
    "clone-privileges": Guarded(_CLONE, "VirtualMachine.State.CreateSnapshot"),
    "clone-privileges-of-devices": Guarded(_CLONE, _RAW, ("VirtualDeviceConfigSpec",)),
    "numa-nodes-privilege": Guarded(_BOTH, _RAW, ("VirtualMachineVirtualNuma",)),
    "vtpm-privilege": Guarded(_BOTH, "Cryptographer.Access", ("VirtualTPM",)),
    "policy-privilege": Guarded(_BOTH, "StorageProfile.Update", (_POLICY,)),
    "clone-customization-privilege": Guarded(_CLONE, _RAW, ("CustomizationSpec",)),
    "role-minus-one-is-administrator": Answered("ManagedEntity.effectiveRole", instead([-1])),
    "effective-roles-add-up": Answered("ManagedEntity.effectiveRole", cut(1)),
    "bearer-token-header": Rejected("LoginByToken", "InvalidLogin"),
    "service-content-in-api-65": Rejected("RetrieveServiceContent", "NotSupported"),
    "sddc-manager-extension": Answered(
        "Extension.key", spelled("com.vmware.sddcManager", "com.broadcom.sddcManager")
    ),
}
