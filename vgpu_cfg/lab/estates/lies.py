"""Beliefs about vCenter that an estate can make false, `lies: [ID, …]`, and how the lab behaves then.

An ID is a belief's of the reference. `estates.bends` has those that are data; for the others, the place where
the lab bends asks `LabState.denies(ID)`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator

from vgpu_cfg import documents

SOON_SECONDS = 60.0
"""So long a lab that is late needs to show a change, by its own clock."""
SHORT_PAGE = 100
"""So many entries a page of a collector has that is said to have more."""
DAY_SECONDS = 86_400.0

LIES: Mapping[str, str] = {
    # Alarms.
    "alarm-names-are-unique": "An alarm is created although one of its name exists.",
    "alarm-names-are-unique-at-once": "Two alarms of one name are created if less than a second is between.",
    "alarms-are-visible-at-once": "An alarm is listed a minute after its creation.",
    "alarms-are-visible-to-readers": "Only an account with `Alarm.Create` sees alarms.",
    "alarm-time-moves": "ReconfigureAlarm does not move `lastModifiedTime`.",
    "alarm-time-is-its-creation": "`lastModifiedTime` of an unmodified alarm is a day before its creation.",
    "alarm-description-400": "The description of an alarm is cut off after 100 characters.",
    "disabled-alarm-expression": "A disabled alarm is rejected with `InvalidArgument`.",
    "maintenance-alarm-warns": "No event triggers an alarm.",
    "alarms-of-all-entities": "GetAlarm without an entity lists the alarms of the root folder only.",
    "alarm-privileges": "Without `Alarm.Create`, CreateAlarm ends in `InvalidArgument`.",
    # Events.
    "event-filter-by-type-id": "A filter by `eventTypeId` finds nothing.",
    "event-filter-takes-bare-names": "A filter finds types only with `vim.event.` before their names.",
    "event-type-spelling": "A filter finds types only with `com.vmware.vc.` before their names.",
    "event-filter-covers-a-folder": "A filter by an entity finds its own events only.",
    "event-filter-finds-removed-vms": "Events of a removed VM are not found.",
    "event-collector-reads-backwards": "After ResetCollector, ReadPreviousEvents begins with the oldest.",
    "event-pages-go-forward": "ReadNextEvents begins with the newest event.",
    "event-pages-of-1000": "A page has at most 100 events or tasks, regardless of the number asked for.",
    "creation-events-name-the-creator": "The events of a VM's creation name no user.",
    "clone-event-is-of-the-new-vm": "The event of a clone belongs to its source.",
    "reconfigured-event-has-the-request": "The event of a reconfiguration has an empty request.",
    "cluster-event-names-the-override": "The event of a cluster's reconfiguration has no `configChanges`.",
    "task-names-its-event-chain": "`eventChainId` of each task is 0.",
    "event-shares-its-tasks-chain": "Each event has a chain of its own.",
    "user-events": "LogUserEvent is rejected with `NotSupported`.",
    "power-events": "Power-ons and power-offs leave no event.",
    "reconfigured-event-is-readable": "A reconfiguration leaves no event.",
    # Tasks and filters.
    "recent-tasks": "A task leaves vCenter's recent tasks as soon as it has ended.",
    "task-reason-spells-the-account": "The reason of a task spells the account `DOMAIN\\name`.",
    "queued-clones-show-queued": "A task that waits in vCenter's queue shows `running`.",
    "new-filter-reports-at-the-next-wait": "A new filter reports nothing in its first minute.",
    "filter-reports-new-change-version": "A filter never reports a change of a VM.",
    "power-on-texts-and-faults": "Each failed power-on ends in `SystemError`.",
    # A VM's configuration.
    "clone-honours-config-spec": "A clone ignores the extraConfig of its ConfigSpec.",
    "clone-accepts-instance-uuid": "A clone ignores the instance UUID of its ConfigSpec.",
    "clone-keeps-hardware-version": "A clone gets the newest hardware version of its host.",
    "clone-disk-names": "A clone's disks are named `disk-0.vmdk`, `disk-1.vmdk`, last one first.",
    "clone-sets-mac": "A clone ignores the MAC addresses of its ConfigSpec.",
    "clone-takes-policies": "A clone ignores the storage policies of its location.",
    "clone-has-no-tags": "A clone has its template's tags.",
    "clone-device-change": "A clone whose ConfigSpec edits or removes a device is rejected.",
    "extra-config-is-copied": "A clone has none of its source's extraConfig.",
    "instance-uuid-is-unique": "A clone has its source's instance UUID unless its ConfigSpec names one.",
    "identity-survives-rename-and-move": "A rename or a move gives a VM another instance UUID.",
    "old-change-version-is-rejected": "An outdated change version is accepted.",
    "edits-move-change-version": "An edit does not move the change version.",
    "power-on-moves-change-version": "A power-on does not move the change version.",
    "power-off-moves-change-version": "A power-off does not move the change version.",
    "vmx-options-ignore-case": "extraConfig shows each name in lower case.",
    "running-vm-takes-extra-config": "A running VM rejects extraConfig with `InvalidPowerState`.",
    "disk-uuid-exists": "The backing of a disk has no `uuid`.",
    "disk-uuid-keeps-its-value": "A reconfiguration gives a VM's disks other UUIDs.",
    "nic-keys-are-lowest-free": "A new NIC's key is above those of all others, from 4050 on.",
    "nic-keeps-automatic-mac": "A power-on gives NICs with automatic MAC addresses others.",
    "generated-mac-ranges": "Generated MAC addresses begin with 02:50:56.",
    "destroy-keeps-detached-files": "Destroy_Task deletes the VM's folder with all files in it.",
    "deleted-vm-drops-its-tags": "Tags stay attached to a VM that was deleted.",
    "deleted-vm-leaves-its-group": "A deleted VM stays in its VM group.",
    "missing-hot-add-is-off": "`cpuHotAddEnabled` and `memoryHotAddEnabled` are missing.",
    "clone-and-attributes": "A clone has the first of its template's custom attributes.",
    "only-an-edit-changes-a-mac": "A power-on gives all NICs other MAC addresses.",
    "policy-of-a-running-gpu-vm": "A running VM rejects another storage policy with `InvalidPowerState`.",
    "dvx-devices-are-sent-back": "A request with a DVX device is rejected.",
    "destroy-keeps-files-of-other-vms": "Destroy_Task deletes the VM's folder with all files in it.",
    "relocate-moves-like-migrate": "RelocateVM_Task is rejected.",
    "relocate-moves-running-vgpu-vms": "RelocateVM_Task is rejected for a running VM.",
    "vm-operator-marks-vms": "No VM has `managedBy`.",
    "eam-marks-agents": "Agent VMs are managed by `com.vmware.eam`.",
    "bosh-names-its-deployment": "BOSH's custom attribute `director` has another name.",
    # Customization of guests.
    "clone-takes-customization-and-nics": "A clone with a customization and a new NIC is rejected.",
    "customization-counts-new-nics": "A customization is checked against the template's NICs.",
    "spec-is-sent-back-as-read": "A customization specification is rejected that was read before.",
    "customization-spec-format": "The end of a customization leaves no event.",
    "deploy-pkg-means-pending": "`tools.deployPkg.fileName` is never set.",
    # Device groups.
    "group-in-one-config-spec": "A request with a device group is rejected.",
    "clone-takes-device-groups": "A clone with a device group is rejected.",
    "group-sequence-from-zero": "A member of a group with `sequenceId` 0 is rejected.",
    "groups-are-read-back": "`config.deviceGroups` is missing.",
    "group-members-show-as-devices": "The devices of a VM omit the members of its groups.",
    "group-nic-component-type": "The NIC of a group is a component of the type `nic`.",
    # Clusters.
    "group-and-rule-in-one-request": "A rule is rejected that names a group of the same request.",
    "stopped-vm-in-a-group": "A VM that is off is rejected in a VM group.",
    "overrides-for-new-vms": "An override of DRS or HA is rejected for a VM that is off.",
    "rule-goes-with-its-last-vm": "A rule with one VM left is removed.",
    "empty-option-removes-it": "An option of DRS that is set to an empty value stays, empty.",
    "drs-keeps-power-on-host": "A power-on starts the VM on another host than it names, if one has room.",
    "must-rules-hold": "A power-on or migration may violate a mandatory rule.",
    "drs-empties-hosts": "DRS leaves all VMs on a host that enters maintenance mode.",
    # GPUs and hosts.
    "graphics-info-shows-the-gpu": "`graphicsInfo` shows a VM a minute after its power-on.",
    "graphics-info-forgets-stopped-vms": "`graphicsInfo` shows a VM for a minute after its power-off.",
    "shared-types-are-fresh": "`sharedPassthruGpuTypes` lists all profiles of the host's driver.",
    "no-driver-no-fault": "RetrieveVgpuProfileInfo fails on a host without NVIDIA's driver.",
    "parent-bridge-is-an-address": "`parentBridge` is a text such as `PCIe bridge 17`.",
    "root-ports-share-a-bus": "No device has a `parentBridge`.",
    "boot-time-is-steady": "`bootTime` of a host differs by some seconds at each reading.",
    "lost-host-vm-states": "A VM on a host without a connection shows `poweredOff`.",
    "network-lists-stopped-vms": "`Network.vm` omits VMs that are off.",
    "esxi-chooses-the-gpu": "`graphicsInfo` names a GPU of a VM that is off.",
    "vgpus-follow-assignment-policy": "ESXi takes the GPU with the lowest address.",
    "numa-affinity-format": "`numa.nodeAffinity` is shown as `node0`.",
    "drs-keeps-numa-affinity": "A power-on removes `numa.nodeAffinity`.",
    "same-build-same-profiles": "Each host but the first lacks its last profile.",
    "core-clock-is-cpu-mhz": "`cpuMhz` is half of the clock rate.",
    "memory-to-reserve": "VMs can reserve half of a host's memory.",
    "lost-host-rejects-calls": "Tasks for VMs on a host without a connection succeed.",
    "passthrough-reports-system-id": "A host reports no system ID for its PCI devices.",
    "vmotion-cost-units": "The vMotion cost of a profile is in microseconds.",
    "gpu-counters-of-power": "vCenter has no counter of GPU memory and power.",
    "gpu-counter-device-base": "A counter's device is named `gpu0`.",
    "max-query-metrics": "A query for more than one object is rejected.",
    # Attributes, policies, privileges.
    "custom-attribute-holds-255": "The value of a custom attribute is cut off after 100 characters.",
    "policy-answer-omits-objects": "The storage policy API lists objects without a policy, with none.",
    "policy-key-of-a-disk": "The storage policy API names a disk by its key alone.",
    "privileges-asked-together": "HasPrivilegeOnEntities rejects more than one object.",
    "effective-role-is-enough": "`effectiveRole` is empty.",
    "native-key-provider-is-listed": "`kmipServers` omits a native key provider.",
    "directpath-capacity": "`DirectPathProfileManager` rejects each query with `NotSupported`.",
    "rest-below-rest": "The REST API below `/rest` answers with status 404.",
    "gpu-counters": "vCenter has no counter of the group `gpu`.",
    "policies-at-pbm": "The storage policy API rejects vCenter's session.",
    "privileges-suffice": "A power-on also requires `VirtualMachine.Interact.Suspend`.",
    "clone-privileges": "A clone also requires `VirtualMachine.State.CreateSnapshot`.",
    "clone-privileges-of-devices": "A clone with devices also requires `VirtualMachine.Config.RawDevice`.",
    "numa-nodes-privilege": "Virtual NUMA nodes also require another privilege.",
    "vtpm-privilege": "A virtual TPM also requires `Cryptographer.Access`.",
    "policy-privilege": "A storage policy also requires `StorageProfile.Update`.",
    "clone-customization-privilege": "A customization also requires another privilege.",
    "role-minus-one-is-administrator": "`effectiveRole` is -1 for every account.",
    "effective-roles-add-up": "`effectiveRole` has the first role only.",
    "attachable-privilege-from-70": "No account has `InventoryService.Tagging.ObjectAttachable`.",
    "tag-batches-report-each": "A call for several tags always reports success.",
    "tag-batch-messages": "The messages of a call for several tags are empty.",
    "bearer-token-header": "LoginByToken ends in `InvalidLogin`.",
    "rest-login-by-token": "The REST API rejects each bearer token.",
    "service-content-in-api-65": "RetrieveServiceContent is rejected.",
    "sddc-manager-extension": "The extension of SDDC Manager is named `com.broadcom.sddcManager`.",
}
"""How the lab behaves, by the ID of the belief that is false then."""


def _lie(belief: str) -> str:
    if belief not in LIES:
        hint = documents.did_you_mean(belief, LIES)
        raise ValueError(f"the lab cannot make {belief!r} false: it knows {', '.join(LIES)}\n{hint}")
    return belief


LieId = Annotated[str, AfterValidator(_lie)]
