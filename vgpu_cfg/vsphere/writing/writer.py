"""Turn a change into a vCenter task, or carry it out at once. A writer can change things; a reader cannot."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyVmomi import vim

from vgpu_cfg.changes.change import CreateVm, RemoveRule, RemoveVmGroup, SetHostRule, SetRule
from vgpu_cfg.changes.kinds.create_vm import CloneFrom, MakeFromScratch
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.changes.kinds.vm_spec import VmSpec
from vgpu_cfg.errors import NotFound, VCenterError
from vgpu_cfg.model.observed.managed_object import escaped
from vgpu_cfg.model.observed.own_items import VM_TYPE
from vgpu_cfg.model.observed.vm import SettingValue
from vgpu_cfg.model.reservations import Reservation
from vgpu_cfg.ports import TaskUpdate
from vgpu_cfg.vsphere.reading.tags import ASSOCIATIONS
from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.session import Session
from vgpu_cfg.vsphere.writing.alarms import write_reservation
from vgpu_cfg.vsphere.writing.attributes import set_host_attributes, set_vm_attributes
from vgpu_cfg.vsphere.writing.devices import needs_current
from vgpu_cfg.vsphere.writing.specs import (
    clone_spec,
    config_spec,
    filled_spec,
    needed_api,
    override_specs,
    scratch_spec,
    with_system_ids,
)
from vgpu_cfg.vsphere.writing.tasks import TaskWatch

NO_REASON = "vCenter did not do this for every tag"
"""The message where vCenter's answer gives none."""
_DEVICES = (Paths("vim.VirtualMachine", ("config.hardware.device",)),)


class VCenterWriter:
    """A ChangeWriter on a session. Every method starts one task and returns its id at once."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._watch = TaskWatch(session)

    def create_vm(self, change: CreateVm, instance_uuid: str | None = None) -> str:
        """Clone or create; the task's result is the new VM.

        Its instance UUID is a field of the ConfigSpec ("normally not set by a client", vSphere API
        reference); that a clone accepts it is not proven, so the caller must check.
        """
        name = change.vm.name
        self._check_api(change.spec)
        spec_with_ids = with_system_ids(self._session, change.spec, host_moid=change.location.host_moid)
        change = change.model_copy(update={"spec": spec_with_ids})
        match change.source:
            case CloneFrom() as source:
                template = self._vm(source.template.moid, source.template.name)
                devices = self._devices(source.template.moid or "", change.spec, source.template.name)
                spec = clone_spec(change, source, devices, instance_uuid)
                if change.customization is not None:
                    spec.customization = filled_spec(self._session, change.customization, name)
                folder = vim.Folder(change.location.folder_moid, self._session.stub)
                with translated(f"cloning {source.template.name} to {name}", name):
                    return _moid(template.CloneVM_Task(folder, escaped(name), spec))
            case MakeFromScratch() as source:
                folder = vim.Folder(change.location.folder_moid, self._session.stub)
                pool = vim.ResourcePool(change.location.resource_pool_moid, self._session.stub)
                host = vim.HostSystem(change.location.host_moid, self._session.stub)
                spec = scratch_spec(change, source.guest_id, instance_uuid)
                with translated(f"creating {name}", name):
                    return _moid(folder.CreateVM_Task(spec, pool, host))

    def upgrade_vm(self, moid: str, hardware_version: int) -> str:
        """Raise the hardware version."""
        with translated(f"upgrading {moid} to hardware version {hardware_version}", moid):
            return _moid(self._vm(moid).UpgradeVM_Task(f"vmx-{hardware_version}"))

    def reconfigure_vm(self, moid: str, spec: VmSpec) -> str:
        """Reconfigure with one ConfigSpec; devices that are edited are read afresh first."""
        self._check_api(spec)
        spec = with_system_ids(self._session, spec, vm_moid=moid)
        config = config_spec(spec, self._devices(moid, spec, moid), moid)
        with translated(f"reconfiguring {moid}", moid):
            task = _moid(self._vm(moid).ReconfigVM_Task(config))
        if spec.change_version:
            self._watch.bring(moid, task, spec.change_version)
        return task

    def power_on_vm(self, moid: str, host_moid: str | None = None) -> str:
        """Power on, on a host where one is given.

        Without one, DRS at any level but manual chooses the host anew (vSphere API reference,
        PowerOnVM_Task and DrsBehavior). That it leaves a named one alone is not proven.
        """
        host = None if host_moid is None else vim.HostSystem(host_moid, self._session.stub)
        with translated(f"powering on {moid}", moid):
            return _moid(self._vm(moid).PowerOnVM_Task(host))

    def power_off_vm(self, moid: str) -> str:
        """Power off, hard."""
        with translated(f"powering off {moid}", moid):
            return _moid(self._vm(moid).PowerOffVM_Task())

    def shut_down_guest(self, moid: str) -> bool:
        """Ask the guest to shut down; False where its tools do not run. Starts no task."""
        with translated(f"shutting down {moid}", moid):
            try:
                self._vm(moid).ShutdownGuest()
            except vim.fault.ToolsUnavailable:
                return False
        return True

    def destroy_vm(self, moid: str) -> str:
        """Delete with all disks."""
        with translated(f"deleting {moid}", moid):
            return _moid(self._vm(moid).Destroy_Task())

    def rename_vm(self, moid: str, name: str) -> str:
        """Give a VM another name; its files keep theirs."""
        with translated(f"renaming {moid} to {name}", name):
            return _moid(self._vm(moid).Rename_Task(escaped(name)))

    def move_vm_to_folder(self, moid: str, folder_moid: str) -> str:
        """Move a VM to another folder of its datacenter."""
        folder = vim.Folder(folder_moid, self._session.stub)
        with translated(f"moving {moid} to the folder {folder_moid}", moid):
            return _moid(folder.MoveIntoFolder_Task([vim.VirtualMachine(moid)]))

    def relocate_vm(self, moid: str, destination: Destination) -> str:
        """Move a VM to another host, pool or datastore; one that runs moves as it runs.

        No priority is given: vSphere's default is `defaultPriority` (API reference, RelocateVM_Task).
        """
        spec = vim.vm.RelocateSpec(host=vim.HostSystem(destination.host_moid))
        if destination.resource_pool_moid is not None:
            spec.pool = vim.ResourcePool(destination.resource_pool_moid)
        if destination.datastore_moid is not None:
            spec.datastore = vim.Datastore(destination.datastore_moid)
            spec.disk = [
                vim.vm.RelocateSpec.DiskLocator(diskId=key, datastore=vim.Datastore(store))
                for key, store in destination.kept_disks.items()
            ]
        with translated(f"migrating {moid} to {destination.host_name}", moid):
            # Belief: relocate-moves-like-migrate, relocate-moves-running-vgpu-vms.
            return _moid(self._vm(moid).RelocateVM_Task(spec))

    def set_rule(self, change: SetRule, vm_moids: Sequence[str]) -> str:
        """Create or edit an anti-affinity rule."""
        rule = vim.cluster.AntiAffinityRuleSpec(
            name=change.rule_name,
            enabled=True,
            mandatory=change.is_mandatory,
            userCreated=True,
            vm=[vim.VirtualMachine(moid) for moid in vm_moids],
        )
        if change.rule_key is None:
            edit = vim.cluster.RuleSpec(operation="add", info=rule)
        else:
            rule.key = change.rule_key
            edit = vim.cluster.RuleSpec(operation="edit", info=rule)
        return self._edit_rules(change.cluster_moid, change.rule_name, edit)

    def set_host_rule(self, change: SetHostRule, vm_moids: Sequence[str]) -> str:
        """Create or edit a VM group, and the rule from it to a host group, in one task."""
        group = vim.cluster.GroupSpec(
            operation="edit" if change.has_group else "add",
            info=vim.cluster.VmGroup(
                name=change.vm_group, userCreated=True, vm=[vim.VirtualMachine(moid) for moid in vm_moids]
            ),
        )
        rule = vim.cluster.VmHostRuleInfo(
            name=change.rule_name,
            enabled=True,
            mandatory=change.is_mandatory,
            userCreated=True,
            vmGroupName=change.vm_group,
            affineHostGroupName=change.host_group,
        )
        if change.rule_key is not None:
            rule.key = change.rule_key
        operation = "add" if change.rule_key is None else "edit"
        spec = vim.cluster.ConfigSpecEx(
            groupSpec=[group], rulesSpec=[vim.cluster.RuleSpec(operation=operation, info=rule)]
        )
        return self._reconfigure(change.cluster_moid, "rule", change.rule_name, spec)

    def set_overrides(self, cluster_moid: str, overrides: Mapping[str, Mapping[str, SettingValue]]) -> str:
        """Set a cluster's overrides for single VMs, all of them in one task."""
        spec = override_specs(self._session, cluster_moid, overrides)
        return self._reconfigure(cluster_moid, "the cluster's VM overrides", cluster_moid, spec)

    def set_attributes(self, moid: str, values: Mapping[str, str]) -> None:
        """Set custom attributes of a VM."""
        set_vm_attributes(self._session, moid, values)

    def set_tags(self, moid: str, detach: Sequence[str], attach: Sequence[str]) -> None:
        """Take tags from a VM, then give it others, by their ids."""
        set_vm_tags(self._session, moid, detach, attach)

    def set_host_attributes(self, host_moid: str, values: Mapping[str, str]) -> None:
        """Set custom attributes of a host."""
        set_host_attributes(self._session, host_moid, values)

    def set_reservation(self, reservation: Reservation | None, alarm: str) -> bool:
        """Make, change or remove a reservation; False where it is not as it was. Starts no task."""
        return write_reservation(self._session, reservation, alarm)

    def remove_rule(self, change: RemoveRule) -> str:
        """Remove a rule."""
        edit = vim.cluster.RuleSpec(operation="remove", removeKey=change.rule_key)
        return self._edit_rules(change.cluster_moid, change.rule_name, edit)

    def remove_vm_group(self, change: RemoveVmGroup) -> str:
        """Remove a VM group."""
        edit = vim.cluster.GroupSpec(operation="remove", removeKey=change.group_name)
        spec = vim.cluster.ConfigSpecEx(groupSpec=[edit])
        return self._reconfigure(change.cluster_moid, "VM group", change.group_name, spec)

    def wait_for_tasks(self, tasks: Sequence[str], timeout_seconds: float) -> tuple[TaskUpdate, ...]:
        """Wait for news of any of the tasks, in one WaitForUpdatesEx; without any return their progress."""
        return self._watch.wait(tasks, timeout_seconds)

    def close(self) -> None:
        """Release the session's resources for watching tasks; the session stays open."""
        self._watch.close()

    def _check_api(self, spec: VmSpec) -> None:
        version, what = needed_api(spec)
        if version:
            self._session.require_api(version, what)

    def _vm(self, moid: str | None, name: str = "") -> Any:
        if moid is None:
            raise NotFound(
                "the VM does not exist yet",
                subject=name,
                remedy="run the same command again to plan from the current state",
            )
        return vim.VirtualMachine(moid, self._session.stub)

    def _devices(self, moid: str, spec: VmSpec, name: str) -> Sequence[Any]:
        """Read a VM's devices, in one round trip; nothing where the spec need not know them."""
        if not needs_current(spec.devices):
            return ()
        found = collect_from(self._session, _DEVICES, [Start("vim.VirtualMachine", moid)])
        if not found:
            raise NotFound(
                "the VM no longer exists", subject=name, remedy="plan again; the inventory has changed"
            )
        return tuple(found[0].get("config.hardware.device") or ())

    def _edit_rules(self, cluster_moid: str, rule_name: str, edit: Any) -> str:
        spec = vim.cluster.ConfigSpecEx(rulesSpec=[edit])
        return self._reconfigure(cluster_moid, "rule", rule_name, spec)

    def _reconfigure(self, cluster_moid: str, noun: str, name: str, spec: Any) -> str:
        cluster = vim.ClusterComputeResource(cluster_moid, self._session.stub)
        with translated(f"changing the {noun} {name}", name):
            return _moid(cluster.ReconfigureComputeResource_Task(spec, True))


def _moid(task: Any) -> str:
    return str(task._moId)


def set_vm_tags(session: Session, vm_moid: str, detach: Sequence[str], attach: Sequence[str]) -> None:
    """Take tags from a VM, then give it others, by their ids; a round trip each where there are any.

    Nothing is done about a tag that the VM has not, or has already (vSphere Automation API, TagAssociation).
    """
    for action, ids in (
        ("detach-multiple-tags-from-object", detach),
        ("attach-multiple-tags-to-object", attach),
    ):
        if ids:
            _change(session, vm_moid, action, ids)


def _change(session: Session, vm_moid: str, action: str, ids: Sequence[str]) -> None:
    what = f"{action.partition('-')[0]}ing tags, {vm_moid}"
    body = {"object_id": {"type": VM_TYPE, "id": vm_moid}, "tag_ids": list(ids)}
    found = session.rest.act(ASSOCIATIONS, action, body, what)
    # Belief: tag-batches-report-each.
    if isinstance(found, dict) and found.get("success") is False:
        # Belief: tag-batch-messages.
        messages = found.get("error_messages") or ()
        said = " ".join(str(one.get("default_message") or "") for one in messages if isinstance(one, dict))
        raise VCenterError(
            f"{what}: {said or NO_REASON}",
            subject=vm_moid,
            remedy="check that the tags still exist and that the account can assign them; then plan again",
        )
