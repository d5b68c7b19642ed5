"""Rename VMs, and move them to other folders or hosts: check, write, confirm."""

from __future__ import annotations

from vgpu_cfg.changes.change import MoveVmToFolder, RelocateVm, RenameVm
from vgpu_cfg.changes.kinds.move_vm import Destination
from vgpu_cfg.errors import NotConfirmed, StalePlan
from vgpu_cfg.execution.run.session import PLAN_AGAIN, RunSession, has_moved
from vgpu_cfg.execution.run.step import Step, StepResult
from vgpu_cfg.model.observed.vm import Vm, VmDetail


def rename_vm(change: RenameVm, session: RunSession) -> Step:
    """Rename a VM, unless it has the name already."""
    name = change.vm.name
    vm = yield from session.present(change.vm)
    if not vm.called:
        return StepResult(vm_moid=vm.moid, is_needed=False, message="already has this name")
    yield from session.run_task(
        lambda: session.writer.rename_vm(vm.moid, name), f"rename {vm.called} to {name}", name
    )
    after = yield from session.read_back(vm.moid, name)
    if after.name != name:
        raise NotConfirmed(f"{vm.called} is now named {after.name}", subject=name, remedy=PLAN_AGAIN)
    return StepResult(vm_moid=vm.moid, message=f"renamed from {vm.called}")


def move_vm_to_folder(change: MoveVmToFolder, session: RunSession) -> Step:
    """Move a VM to its folder, unless it is there already."""
    name = change.vm.name
    vm = yield from session.present(change.vm)
    if vm.folder_moid == change.folder_moid:
        return StepResult(vm_moid=vm.moid, is_needed=False, message="already in the folder")
    yield from session.run_task(
        lambda: session.writer.move_vm_to_folder(vm.moid, change.folder_moid),
        f"move {name} to its folder",
        name,
    )
    after = yield from session.read_back(vm.moid, name)
    if after.folder_moid != change.folder_moid:
        words = f"{name} is not in the target folder after the move"
        raise NotConfirmed(words, subject=name, remedy=PLAN_AGAIN)
    return StepResult(vm_moid=vm.moid)


def relocate_vm(change: RelocateVm, session: RunSession) -> Step:
    """Move a VM to another host, pool or datastore, in the way that was planned and no other."""
    name, destination = change.vm.name, change.destination
    vm = yield from session.present(change.vm)
    if is_at(vm, destination):
        return StepResult(vm_moid=vm.moid, is_needed=False, message="already there")
    if change.source_moid not in (None, vm.host_moid):
        raise has_moved(name)
    if vm.is_on is not change.is_running:
        is_now, planned = ("is running", "off") if vm.is_on else ("is not running", "running")
        raise StalePlan(
            f"{name} {is_now}, but its move was planned while it was {planned}",
            subject=name,
            remedy=PLAN_AGAIN,
        )
    yield from session.run_task(
        lambda: session.writer.relocate_vm(vm.moid, destination),
        f"move {name} to {destination.host_name}",
        name,
    )
    if not is_at((yield from session.read_back(vm.moid, name)), destination):
        raise NotConfirmed(
            f"{name} is not on {destination.host_name} after its migration",
            subject=name,
            remedy=f"check in vCenter whether DRS moved it again; then {PLAN_AGAIN}",
        )
    return StepResult(vm_moid=vm.moid)


def is_at(vm: Vm, destination: Destination) -> bool:
    """Whether a VM is where it is to be moved; a file of it, as a CD image, may lie on another datastore."""
    detail = vm.detail or VmDetail()
    return (
        vm.host_moid == destination.host_moid
        and destination.resource_pool_moid in (None, detail.resource_pool_moid)
        and (destination.datastore_moid is None or destination.datastore_moid in detail.datastore_moids)
    )
