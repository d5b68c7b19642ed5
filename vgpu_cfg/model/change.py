"""What a plan is made of: the closed union of changes, findings, and what became of them.

A change is what vSphere's API makes atomic (one task, seldom more) and plain
data: the same list is shown, saved as plan.json, checked, run and printed.
Objects that exist are named by `moid`; a VM that is still to be made has none,
and whoever runs the plan fills it in from the outcome of its `CreateVm`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field

from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.frozen import Frozen


class Impact(StrEnum):
    """What a change disturbs, from nothing to a cold boot of the host."""

    NONE = "none"
    SERVICE_RESTART = "service-restart"
    POWER_CYCLE = "power-cycle"
    HOST_MAINTENANCE = "host-maintenance"
    HOST_REBOOT = "host-reboot"
    HOST_COLD_BOOT = "host-cold-boot"


class Subject(Frozen):
    """What a change or a finding is about; `kind` is "vm", "host", "cluster", "network" or "plan"."""

    kind: str
    name: str
    moid: str | None = None


class Edit(Frozen):
    """One value before and after, as shown to a reader; None is "absent".

    `is_default` marks a value that the plan file does not state, `note` adds a reason.
    """

    key: str
    before: str | None = None
    after: str | None = None
    is_default: bool = False
    note: str = ""


class NewVgpu(Frozen):
    """Add a vGPU of a profile.

    With `uvm` its unified memory is turned on once its key can be read back: the extraConfig
    key `pciPassthru<n>.cfg.enable_uvm` with n = key - 13000 is to be "1".
    """

    kind: Literal["new_vgpu"] = "new_vgpu"
    profile: str
    uvm: bool = False


class NewPassthrough(Frozen):
    """Add a fixed passthrough of one PCI function of the VM's host."""

    kind: Literal["new_passthrough"] = "new_passthrough"
    pci_id: str
    system_id: str
    vendor_id: int
    device_id: int
    device_name: str = ""


class NewDynamicPassthrough(Frozen):
    """Add a Dynamic DirectPath device: any function with these ids and, if given, this label."""

    kind: Literal["new_dynamic_passthrough"] = "new_dynamic_passthrough"
    allowed: tuple[tuple[int, int], ...]
    label: str | None = None


class NicBacking(Frozen):
    """The network that a vNIC is tied to, with what its backing needs."""

    network_moid: str
    network_name: str
    portgroup_key: str | None = None
    switch_uuid: str | None = None


class NewNic(Frozen):
    """Add a vmxnet3 NIC."""

    kind: Literal["new_nic"] = "new_nic"
    backing: NicBacking
    mac: str | None = None


class EditNic(Frozen):
    """Tie an existing NIC to another network, or give it a MAC."""

    kind: Literal["edit_nic"] = "edit_nic"
    key: int
    backing: NicBacking
    mac: str | None = None


class NewDisk(Frozen):
    """Add a thin disk on a controller of the kind "scsi" or "nvme" (made where there is none)."""

    kind: Literal["new_disk"] = "new_disk"
    size_mib: int
    controller: str = "scsi"


class GrowDisk(Frozen):
    """Grow an existing disk."""

    kind: Literal["grow_disk"] = "grow_disk"
    key: int
    size_mib: int


class RemoveDevice(Frozen):
    """Remove a device by its key; `was` says what it was, for a reader."""

    kind: Literal["remove_device"] = "remove_device"
    key: int
    was: str


DeviceEdit = Annotated[
    NewVgpu
    | NewPassthrough
    | NewDynamicPassthrough
    | NewNic
    | EditNic
    | NewDisk
    | GrowDisk
    | RemoveDevice,
    Field(discriminator="kind"),
]


class VmSpec(Frozen):
    """A ConfigSpec as plain values; None leaves a field as it is.

    In `extra_config` an empty value deletes the key. Removals stand first in
    `devices`, since the memory they free may be what the additions need.
    `change_version` makes vCenter refuse the change where the VM has moved on.
    """

    hardware_version: int | None = None
    guest_id: str | None = None
    firmware: str | None = None
    secure_boot: bool | None = None
    cpus: int | None = None
    cores_per_socket: int | None = None
    memory_mib: int | None = None
    reserve_all_memory: bool | None = None
    extra_config: Mapping[str, str] = Field(default_factory=dict)
    devices: tuple[DeviceEdit, ...] = ()
    change_version: str | None = None

    @property
    def is_empty(self) -> bool:
        """Whether it would change nothing."""
        return self == VmSpec(change_version=self.change_version)


class VmRef(Frozen):
    """A VM by name; `moid` is None until it has been made."""

    name: str
    moid: str | None = None


class CloneFrom(Frozen):
    """Clone a template; `snapshot_moid` is set for a linked clone."""

    kind: Literal["clone"] = "clone"
    template: VmRef
    snapshot_moid: str | None = None


class MakeFromScratch(Frozen):
    """Create an empty VM with EFI firmware."""

    kind: Literal["scratch"] = "scratch"
    guest_id: str


class Location(Frozen):
    """Where a new VM goes: managed object ids, with the names a reader knows."""

    folder_moid: str
    folder_path: str
    host_moid: str
    host_name: str
    resource_pool_moid: str
    datastore_moid: str
    datastore_name: str


class ChangeBase(Frozen):
    """What every change has.

    `id` is stable between two plannings of the same thing ("create hvd-01"); `needs` names the
    changes that must have come true before; `host_moid` is the host it burdens, for the cap per host.
    """

    id: str
    subject: Subject
    edits: tuple[Edit, ...] = ()
    needs: tuple[str, ...] = ()
    impact: Impact = Impact.NONE
    host_moid: str | None = None


class CreateVm(ChangeBase):
    """Clone or create a VM with everything it needs in one ConfigSpec, powered off."""

    kind: Literal["create_vm"] = "create_vm"
    vm: VmRef
    source: Annotated[CloneFrom | MakeFromScratch, Field(discriminator="kind")]
    location: Location
    spec: VmSpec


class UpgradeVm(ChangeBase):
    """Raise the hardware version of a powered-off VM."""

    kind: Literal["upgrade_vm"] = "upgrade_vm"
    vm: VmRef
    hardware_version: int


class ReconfigureVm(ChangeBase):
    """Reconfigure a VM with one ConfigSpec."""

    kind: Literal["reconfigure_vm"] = "reconfigure_vm"
    vm: VmRef
    spec: VmSpec


class NumaPin(Frozen):
    """How `numa.nodeAffinity` must follow the GPUs that ESXi chose at power-on.

    `node_by_pci_id` covers every GPU of the host that could have been chosen; `nodes` is
    what the VM's affinity says now. Where they disagree after power-on the VM is powered
    off, pinned anew and powered on again, at most `attempts` times in all.
    """

    node_by_pci_id: Mapping[str, int]
    nodes: tuple[int, ...]
    attempts: int = 8


class PowerOnVm(ChangeBase):
    """Power on a VM; with `pin`, see that it sits on the NUMA node of its GPUs."""

    kind: Literal["power_on_vm"] = "power_on_vm"
    vm: VmRef
    pin: NumaPin | None = None


class PowerOffVm(ChangeBase):
    """Shut a VM down through its guest where that is possible, else power it off."""

    kind: Literal["power_off_vm"] = "power_off_vm"
    vm: VmRef


class DestroyVm(ChangeBase):
    """Delete a powered-off VM with its disks."""

    kind: Literal["destroy_vm"] = "destroy_vm"
    vm: VmRef


class SetRule(ChangeBase):
    """Create or change a DRS anti-affinity rule of this plan."""

    kind: Literal["set_rule"] = "set_rule"
    cluster_moid: str
    rule_name: str
    rule_key: int | None = None
    vms: tuple[VmRef, ...]
    is_mandatory: bool = True


class RemoveRule(ChangeBase):
    """Remove a DRS rule of this plan."""

    kind: Literal["remove_rule"] = "remove_rule"
    cluster_moid: str
    rule_name: str
    rule_key: int


class ManualStep(ChangeBase):
    """A step that no API reaches, told in words; `apply` stops before what needs it."""

    kind: Literal["manual_step"] = "manual_step"
    text: str
    proof: str = ""


Change = Annotated[
    CreateVm
    | UpgradeVm
    | ReconfigureVm
    | PowerOnVm
    | PowerOffVm
    | DestroyVm
    | SetRule
    | RemoveRule
    | ManualStep,
    Field(discriminator="kind"),
]


class Severity(StrEnum):
    """How much a finding weighs: an error stops the plan."""

    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


class Diagnostic(Frozen):
    """A finding. `code` is VGnnn and has a page; `remedy` is the next thing to do."""

    code: str
    severity: Severity
    subject: Subject
    message: str
    remedy: str = ""


class Placement(Frozen):
    """Where a VM goes or stays.

    `gpu_pci_ids` are the GPUs it is expected to get, one per device; they are a promise only
    where `is_certain` (fixed passthrough, or nothing else could be chosen). `numa_nodes` is empty
    where the plan says `numa: off` or the host tells no nodes.
    """

    vm: str
    host_moid: str
    host_name: str
    gpu_pci_ids: tuple[str, ...] = ()
    numa_nodes: tuple[int, ...] = ()
    is_certain: bool = False


class PlanTarget(Frozen):
    """The vCenter that a plan was made for."""

    address: str
    instance_uuid: str = ""
    datacenter: str = ""


class Plan(Frozen):
    """What would be done, and why. Saved as plan.json, it is the reviewed plan.

    `digest` covers the changes but not the change versions of VMs: it says whether
    two plannings came to the same thing.
    """

    format: Literal[1] = 1
    name: str
    target: PlanTarget
    read_at: datetime
    desired: DesiredPlan
    placements: tuple[Placement, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    changes: tuple[Change, ...] = ()
    in_sync: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    untouched_vms: int = 0
    untouched_hosts: int = 0

    @property
    def digest(self) -> str:
        """Eight hex digits over the changes and placements."""
        content = {
            "placements": [placement.model_dump(mode="json") for placement in self.placements],
            "changes": [_without_change_version(change.model_dump(mode="json")) for change in self.changes],
        }
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The findings that stop the plan."""
        return tuple(found for found in self.diagnostics if found.severity is Severity.ERROR)


def _without_change_version(change: dict[str, object]) -> dict[str, object]:
    spec = change.get("spec")
    if isinstance(spec, dict):
        return change | {"spec": {key: value for key, value in spec.items() if key != "change_version"}}
    return change


class OutcomeStatus(StrEnum):
    """What became of a change."""

    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"
    NOT_NEEDED = "not_needed"


class Outcome(Frozen):
    """What became of one change. `tasks` names the vCenter tasks it took, in order.

    `message` is vCenter's own text where a task failed, `cause` what that is known to come from.
    """

    change_id: str
    subject: Subject
    status: OutcomeStatus
    tasks: tuple[str, ...] = ()
    started_at: datetime | None = None
    ended_at: datetime | None = None
    message: str = ""
    cause: str = ""
    remedy: str = ""
    vm_moid: str | None = None


class EventKind(StrEnum):
    """What just happened to a change."""

    STARTED = "started"
    TASK = "task"
    PROGRESS = "progress"
    NOTE = "note"
    ENDED = "ended"


class Event(Frozen):
    """One thing that happened during a run, for the display and the journal."""

    at: datetime
    kind: EventKind
    change_id: str
    subject: Subject
    progress: int | None = None
    task: str | None = None
    message: str = ""
    status: OutcomeStatus | None = None


class Report(Frozen):
    """What became of a plan. `left_behind` names what was made and is not whole."""

    plan: str
    digest: str
    outcomes: tuple[Outcome, ...] = ()
    left_behind: tuple[str, ...] = ()
    is_interrupted: bool = False
    waiting_for: tuple[str, ...] = ()

    @property
    def tasks(self) -> int:
        """How many vCenter tasks were started."""
        return sum(len(outcome.tasks) for outcome in self.outcomes)

    @property
    def failed(self) -> tuple[Outcome, ...]:
        """The outcomes that failed."""
        return tuple(found for found in self.outcomes if found.status is OutcomeStatus.FAILED)
