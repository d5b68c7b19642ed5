"""The lies of the lab that are data: other fields in answers or requests, rejections, privileges, events.

Types, fields, methods and faults have the names of the WSDL. A field of a type is also one of its subtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

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


Bend = Answered | Heard | Rejected | Guarded | Faulted | Unlogged


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


def lacking(field: str) -> Change:
    """Drop the items of a list that have a field."""
    return lambda old: type(old)([one for one in old if getattr(one, field, None) is None])


_CLONE, _EDIT, _BOTH = "CloneVM_Task", "ReconfigVM_Task", "CloneVM_Task|ReconfigVM_Task"
_GROUPS = ("VirtualMachineVirtualDeviceGroups",)
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
    # Attributes, policies, privileges.
    "custom-attribute-holds-255": Answered("CustomFieldStringValue.value", cut(100)),
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
