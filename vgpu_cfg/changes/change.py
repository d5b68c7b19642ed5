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
from typing import Annotated, Final, Literal

from pydantic import Field

from vgpu_cfg.changes.base import ChangeBase, Edit, Impact, Subject, VmRef, is_nothing
from vgpu_cfg.changes.customization import Customization
from vgpu_cfg.changes.disturbed import Disturbed
from vgpu_cfg.changes.host_change import (
    ChangeHost,
    ChangeNetwork,
    ColdBootHost,
    EnterMaintenance,
    ExitMaintenance,
    HostRef,
    RebootHost,
    RestartService,
    SetClusterOption,
    SetCordon,
    SettingTarget,
    SetVCenterOption,
    ShutDownHost,
)
from vgpu_cfg.changes.lost import LostHost
from vgpu_cfg.changes.severity import Severity
from vgpu_cfg.changes.unknown import UnknownHost
from vgpu_cfg.changes.vm_move import Destination, MoveVmToFolder, RelocateVm, RenameVm
from vgpu_cfg.changes.vm_spec import VmSpec
from vgpu_cfg.model.desired import DesiredPlan
from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.guests.guest import GuestSpec
from vgpu_cfg.model.observed.tags import Tag
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.model.reservations import Reservation
from vgpu_cfg.model.vgpu import Sharing, VgpuMode

__all__ = [
    "AwaitCustomization",
    "Change",
    "ChangeBase",
    "ChangeHost",
    "ChangeNetwork",
    "CloneFrom",
    "ColdBootHost",
    "CreateVm",
    "Destination",
    "DestroyVm",
    "Diagnostic",
    "Edit",
    "EnterMaintenance",
    "ExitMaintenance",
    "GpuLoad",
    "HostRef",
    "Impact",
    "Location",
    "MakeFromScratch",
    "ManualStep",
    "MarkVm",
    "MoveVmToFolder",
    "NumaPin",
    "Placement",
    "Plan",
    "PlanTarget",
    "PowerOffVm",
    "PowerOnVm",
    "RebootHost",
    "ReconfigureVm",
    "RelocateVm",
    "RemoveRule",
    "RemoveVmGroup",
    "RenameVm",
    "RestartService",
    "SetAttributes",
    "SetClusterOption",
    "SetCordon",
    "SetHostRule",
    "SetOverrides",
    "SetReservation",
    "SetRule",
    "SetTags",
    "SetVCenterOption",
    "SettingTarget",
    "Severity",
    "ShutDownHost",
    "StageGuest",
    "StartQueue",
    "Subject",
    "UpgradeVm",
    "VmOverride",
    "VmRef",
]


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


class CreateVm(ChangeBase):
    """Clone or create a VM with everything it needs in one ConfigSpec, powered off.

    With `customization` its guest is customised at its first start.
    """

    kind: Literal["create_vm"] = "create_vm"
    vm: VmRef
    source: Annotated[CloneFrom | MakeFromScratch, Field(discriminator="kind")]
    location: Location
    spec: VmSpec
    customization: Customization | None = Field(default=None, exclude_if=is_nothing)


class UpgradeVm(ChangeBase):
    """Raise the hardware version of a powered-off VM."""

    kind: Literal["upgrade_vm"] = "upgrade_vm"
    vm: VmRef
    hardware_version: int


class ReconfigureVm(ChangeBase):
    """Reconfigure a VM with one ConfigSpec.

    `undo` takes its settings and extraConfig back to what they were; it knows nothing of devices.
    """

    kind: Literal["reconfigure_vm"] = "reconfigure_vm"
    vm: VmRef
    spec: VmSpec
    undo: VmSpec = VmSpec()


class MarkVm(ChangeBase):
    """Write a VM's owner mark or take it away, and touch nothing else of the VM; it may run.

    The mark that it leaves is that of an "imported" VM, which carried none before, that of the plan's "own",
    or "none".
    """

    kind: Literal["mark_vm"] = "mark_vm"
    vm: VmRef
    spec: VmSpec
    mark: Literal["imported", "own", "none"]


class SetAttributes(ChangeBase):
    """Set custom attributes of a VM, by their names; an empty text clears one. Plain calls, no task."""

    kind: Literal["set_attributes"] = "set_attributes"
    vm: VmRef
    values: Mapping[str, str]


class SetTags(ChangeBase):
    """Take tags from a VM and give it others, in this order: of some categories it has one at most.

    Plain calls to vCenter's REST side, no task.
    """

    kind: Literal["set_tags"] = "set_tags"
    vm: VmRef
    detach: tuple[Tag, ...] = ()
    attach: tuple[Tag, ...] = ()


class VmOverride(Frozen):
    """What a cluster shall do with one VM: values by the keys of the table of VM settings."""

    vm: VmRef
    settings: Mapping[str, SettingValue]


class SetOverrides(ChangeBase):
    """Set what a cluster does with single VMs (DRS, HA), all of them in one task; the VMs must exist."""

    kind: Literal["set_overrides"] = "set_overrides"
    cluster_moid: str
    overrides: tuple[VmOverride, ...]


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
    """Shut a VM down through its guest where that is possible, else power it off.

    `windows` are those of the host of a VM that is started again; it is not begun where one closes within
    `takes_seconds`.
    """

    kind: Literal["power_off_vm"] = "power_off_vm"
    vm: VmRef
    windows: tuple[str, ...] = Field(default=(), exclude_if=is_nothing)
    takes_seconds: int = Field(default=0, exclude_if=is_nothing)


class DestroyVm(ChangeBase):
    """Delete a powered-off VM with its disks; where `instance_uuid` is given, only the VM that has it.

    `disks` are the identities of those disks (`VirtualDisk.identity`): a VM with another one is not deleted.
    `others` are the files of those among them that the plan did not make, and that are named for deletion.
    """

    kind: Literal["destroy_vm"] = "destroy_vm"
    vm: VmRef
    instance_uuid: str = Field(default="", exclude_if=is_nothing)
    disks: tuple[str, ...] = ()
    others: tuple[str, ...] = Field(default=(), exclude_if=is_nothing)


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


class AwaitCustomization(ChangeBase):
    """Wait until vCenter tells how a guest's customisation has ended, which its first start begins."""

    kind: Literal["await_customization"] = "await_customization"
    vm: VmRef
    wait_seconds: int


class StageGuest(ChangeBase):
    """Bring the named modules into a VM's guest, see that they are there, and mark the VM with them.

    With `with_clone` cloud-init brings all of it at the first boot, and this change waits for its report.
    `rest` are modules that another change brings once this one is done: what nobody may read in the VM's
    configuration, and what rests on that. `peers` are the VMs whose guests' host keys are written; `after`
    names changes that must have ended before, well or not: by then those guests have told theirs.
    """

    kind: Literal["stage_guest"] = "stage_guest"
    vm: VmRef
    spec: GuestSpec
    modules: tuple[str, ...]
    with_clone: bool = False
    rest: tuple[str, ...] = ()
    peers: tuple[VmRef, ...] = ()
    after: tuple[str, ...] = ()


class SetReservation(ChangeBase):
    """Reserve GPUs for the plan, change what is reserved, or give it back: an alarm of vCenter's root folder.

    `reservation` is None where it is given back; `alarm` is the moid of what is there, "" for nothing.
    """

    kind: Literal["set_reservation"] = "set_reservation"
    reservation: Reservation | None
    alarm: str = ""


class ManualStep(ChangeBase):
    """A step that no API reaches, told in words; `apply` stops before what needs it.

    `commands` are what to type, one line each. A reading of `proves` shows that it was done, or, where
    `is_shown`, the next planning sees it by itself. Else nothing can show that, and `apply --done ID`
    acknowledges it.
    """

    kind: Literal["manual_step"] = "manual_step"
    text: str
    proof: str = ""
    commands: tuple[str, ...] = ()
    proves: tuple[SettingTarget, ...] = ()
    is_shown: bool = False

    @property
    def needs_acknowledgement(self) -> bool:
        """Whether only somebody's word says that it was done."""
        return not self.proves and not self.is_shown


Change = Annotated[
    CreateVm
    | UpgradeVm
    | ReconfigureVm
    | MarkVm
    | SetAttributes
    | SetTags
    | SetOverrides
    | PowerOnVm
    | PowerOffVm
    | DestroyVm
    | RenameVm
    | MoveVmToFolder
    | RelocateVm
    | SetRule
    | SetHostRule
    | RemoveRule
    | RemoveVmGroup
    | EnterMaintenance
    | ChangeHost
    | RestartService
    | RebootHost
    | ColdBootHost
    | ShutDownHost
    | ExitMaintenance
    | SetCordon
    | SetClusterOption
    | SetVCenterOption
    | ChangeNetwork
    | AwaitCustomization
    | StageGuest
    | SetReservation
    | ManualStep,
    Field(discriminator="kind"),
]


class Hindrance(Frozen):
    """What stands in the way of what a finding is about: which hosts, as ranges, and why."""

    subject: str
    reason: str


class Diagnostic(Frozen):
    """A finding. `code` is VGnnn and has a page; `remedy` is the next thing to do.

    `message` says what; `hindrances` what stands in the way, where that can be several, one row each.
    """

    code: str
    severity: Severity
    subject: Subject
    message: str
    remedy: str = ""
    hindrances: tuple[Hindrance, ...] = ()

    @property
    def text(self) -> str:
        """What and what stands in the way, as one sentence."""
        rows: dict[str, list[str]] = {}
        for one in self.hindrances:
            rows.setdefault(one.subject, []).append(one.reason)
        words = " | ".join(f"{subject}: {'; '.join(reasons)}" for subject, reasons in rows.items())
        return f"{self.message}: {words}" if words else self.message


class Placement(Frozen):
    """Where a VM goes or stays.

    `gpu_pci_ids` are the GPUs it is expected to get, one per device; they are a promise only where
    `is_certain` (fixed passthrough, or nothing else could be chosen). `numa_nodes` is empty for `numa: off`,
    and where the host tells none. `nic_pci_ids` are the physical functions behind its NICs, in their order.
    """

    vm: str
    host_moid: str
    host_name: str
    gpu_pci_ids: tuple[str, ...] = ()
    numa_nodes: tuple[int, ...] = ()
    is_certain: bool = False
    nic_pci_ids: tuple[str, ...] = ()


class GpuLoad(Frozen):
    """A GPU before the VMs of a plan start: how it is shared, and (profile, start) of what it holds.

    `board` is the catalogue's key. A GPU that takes no vGPU is not named.
    """

    pci_id: str
    board: str
    sharing: Sharing | None = None
    mode: VgpuMode = VgpuMode.SAME_SIZE
    mixes_series: bool = True
    held: tuple[tuple[str, int | None], ...] = ()


class StartQueue(Frozen):
    """VMs of one host that must be started one by one, the next chosen by the GPUs that ESXi gave the others.

    `gpus` are the host's GPUs of one board, `peer_sets` the addresses of those that a device group takes
    together. `starts` gives the profiles of each VM with the number of its group of peers.
    """

    host_moid: str
    gpus: tuple[GpuLoad, ...]
    peer_sets: tuple[tuple[str, ...], ...] = ()
    starts: Mapping[str, tuple[tuple[str, int | None], ...]]


class Canary(Frozen):
    """Hosts or VMs that go first, and what waits until they were verified and somebody has agreed to go on.

    `first` are the ids of the changes that must have come true before, `held` those that wait, to `others`.
    """

    names: tuple[str, ...]
    others: tuple[str, ...]
    first: tuple[str, ...]
    held: tuple[str, ...]


class PlanTarget(Frozen):
    """The vCenter that a plan was made for."""

    address: str
    instance_uuid: str = ""
    datacenter: str = ""


PLAN_FORMAT: Final = 2
"""The form in which plans are saved; 1 was the form before each edit said what it sets."""


class Plan(Frozen):
    """What would be done, and why. Saved as plan.json, it is the reviewed plan.

    `blocked` are the ids of the changes that an error stands against, with those that need them: the plan
    shows them, and is not carried out. `hosts_in_sync` are the hosts that the plan names and has nothing to
    change at. `contests` are the hosts whose VMs start one by one, `canaries` those that go first. `unknown`
    is what nobody told of hosts: no difference, and no change. `lost_hosts` do not respond, and the plan
    leaves its VMs on them alone.
    `others` are the VMs that are not the plan's own and that it has leave to touch: by moid, each with the
    text of the owner mark that it had, "" for none.
    `disturbed` is what the changes disturb besides what they are about.

    `digest` covers the changes but not the change versions of VMs: it says whether
    two plannings came to the same thing.
    """

    format: Literal[2] = PLAN_FORMAT
    name: str
    target: PlanTarget
    read_at: datetime
    desired: DesiredPlan
    placements: tuple[Placement, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    changes: tuple[Change, ...] = ()
    blocked: tuple[str, ...] = ()
    contests: tuple[StartQueue, ...] = ()
    canaries: tuple[Canary, ...] = ()
    in_sync: tuple[str, ...] = ()
    orphans: tuple[str, ...] = ()
    hosts_in_sync: tuple[str, ...] = ()
    unknown: tuple[UnknownHost, ...] = ()
    lost_hosts: tuple[LostHost, ...] = ()
    others: Mapping[str, str] = Field(default_factory=dict)
    disturbed: tuple[Disturbed, ...] = Field(default=(), exclude_if=is_nothing)
    untouched_vms: int = 0
    untouched_hosts: int = 0

    @property
    def digest(self) -> str:
        """Eight hex digits over the changes and placements, and over which secrets and logins they take."""
        content: dict[str, object] = {
            "placements": [one.model_dump(mode="json", exclude={"nic_pci_ids"}) for one in self.placements],
            "changes": [_without_change_version(change.model_dump(mode="json")) for change in self.changes],
        }
        if self.desired.secrets:
            content["secrets"] = {name: str(one) for name, one in self.desired.secrets.items()}
            content["logins"] = self._logins
        text = json.dumps(content, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:8]

    @property
    def _logins(self) -> list[object]:
        """Which accounts and secrets hosts and guests are logged in to with, each once."""
        texts = {entry.access.model_dump_json() for entry in self.desired.hosts}
        texts |= {vm.guest.login.model_dump_json() for vm in self.desired.vms if vm.guest is not None}
        return [json.loads(text) for text in sorted(texts)]

    @property
    def errors(self) -> tuple[Diagnostic, ...]:
        """The findings that stop the plan."""
        return tuple(found for found in self.diagnostics if found.severity is Severity.ERROR)


def _without_change_version(change: dict[str, object]) -> dict[str, object]:
    if change["kind"] == "destroy_vm":
        # Disks of others are changes and edits of their own; the plan's may be told anew by the next reading.
        return {key: value for key, value in change.items() if key != "disks"}
    spec = change.get("spec")
    if isinstance(spec, dict):
        return change | {"spec": {key: value for key, value in spec.items() if key != "change_version"}}
    return change
