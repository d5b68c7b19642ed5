"""The changes that bring a VM of this plan back to the plan file's state, and their effects.

vSphere takes devices, CPUs, memory, NUMA and extraConfig of a VM with GPUs only while it is off, so every
change to a running one is a power cycle, done only where allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from vgpu_cfg.changes.change import Change, PowerOffVm, PowerOnVm, ReconfigureVm, RelocateVm, UpgradeVm
from vgpu_cfg.changes.kinds.power import NumaPin
from vgpu_cfg.changes.values import Edit, Impact, Subject, VmRef
from vgpu_cfg.model.desired import DesiredPower
from vgpu_cfg.model.observed.vm import PowerState, Vm
from vgpu_cfg.model.wording import counted, gib, listed
from vgpu_cfg.planning.estate.devices import disk_text
from vgpu_cfg.planning.findings.codes import Code
from vgpu_cfg.planning.findings.collection import Findings
from vgpu_cfg.planning.findings.options import PlanOptions
from vgpu_cfg.planning.vms.devices import DiskEdits
from vgpu_cfg.planning.vms.lookup.resolved_vm import ResolvedVm
from vgpu_cfg.planning.vms.new_vms import change_id, set_attributes, set_tags, version_edit, with_needs
from vgpu_cfg.planning.vms.settings.edits import VmEdits, joined, shown, undone


def plan_existing(
    resolved: ResolvedVm,
    vm: Vm,
    edits: VmEdits,
    pin: NumaPin | None,
    upgrade_to: int | None,
    move: RelocateVm | None = None,
) -> list[Change]:
    """List the changes that bring a VM of this plan to its wanted state, in order.

    `upgrade_to` is the hardware version that its devices need, if it has a lower one. A VM that is switched
    off for other changes is moved meanwhile, even if it could move while running.
    """
    spec = joined(edits.edits).model_copy(update={"change_version": resolved.base.change_version or None})
    shall_run = _shall_run(resolved, vm)
    is_changed = (not spec.is_empty or upgrade_to is not None) and not _is_live(vm, edits, upgrade_to)
    changes: list[Change] = []
    subject = Subject(kind="vm", name=vm.name, moid=vm.moid)
    common: dict[str, Any] = {
        "subject": subject,
        "vm": VmRef(name=vm.name, moid=vm.moid),
        "host_moid": vm.host_moid,
    }
    is_moved_off = move is not None and not move.is_running
    is_cycle = (is_changed or is_moved_off) and vm.power_state is not PowerState.OFF
    impact = Impact.POWER_CYCLE if is_cycle else Impact.NONE

    def add(change: Change) -> None:
        needs = (changes[-1].id,) if changes else ()
        changes.append(change.model_copy(update={"needs": needs}))

    if is_cycle or (vm.power_state is not PowerState.OFF and _shall_be_off(resolved)):
        after = "powered off to apply the changes" if is_cycle and shall_run else "off"
        add(
            PowerOffVm(
                id=change_id("power off", vm.name),
                edits=(Edit(key="power", before=_power_text(vm), after=after),),
                impact=impact,
                **common,
            )
        )
    if move is not None:
        add(_meanwhile(move, is_off=is_cycle or _shall_be_off(resolved), impact=impact))
        common["host_moid"] = move.host_moid
    if upgrade_to is not None:
        edit = version_edit(resolved.base.hardware_version, upgrade_to)
        add(
            UpgradeVm(
                id=change_id("upgrade", vm.name),
                edits=(edit,),
                impact=impact,
                hardware_version=upgrade_to,
                **common,
            )
        )
    if not spec.is_empty:
        add(
            ReconfigureVm(
                id=change_id("reconfigure", vm.name),
                edits=shown(edits.edits),
                impact=impact,
                spec=spec,
                undo=undone(edits.edits),
                **common,
            )
        )
    if edits.attributes:
        add(set_attributes(common["vm"], subject, edits, (), vm.host_moid))
    if edits.tags:
        add(set_tags(common["vm"], subject, edits.tags, (), vm.host_moid))
    if shall_run and (is_cycle or not vm.is_on):
        add(
            PowerOnVm(
                id=change_id("power on", vm.name),
                edits=(Edit(key="power", before="off" if is_cycle else _power_text(vm), after="on"),),
                impact=impact,
                pin=None if vm.power_state is PowerState.SUSPENDED else pin,
                **common,
            )
        )
    return changes


def switch_off(vm: Vm) -> PowerOffVm:
    """Return the change that shuts a VM down which runs, and nothing else."""
    return PowerOffVm(
        id=change_id("power off", vm.name),
        subject=Subject(kind="vm", name=vm.name, moid=vm.moid),
        edits=(Edit(key="power", before="on", after="off"),),
        impact=Impact.POWER_CYCLE,
        host_moid=vm.host_moid,
        vm=VmRef(name=vm.name, moid=vm.moid),
    )


def after(first: Sequence[Change], changes: Sequence[Change]) -> list[Change]:
    """Return the changes of a VM behind others of its own, which must not go on at the same time."""
    if not first or not changes:
        return [*first, *changes]
    return [*first, with_needs(changes[0], (first[-1].id,)), *changes[1:]]


def _meanwhile(move: RelocateVm, *, is_off: bool, impact: Impact) -> RelocateVm:
    """Return the move for a VM that is switched off by then."""
    if not (is_off and move.is_running):
        return move if move.is_running else move.model_copy(update={"impact": impact})
    return move.model_copy(update={"is_running": False, "stun_ms": None, "impact": impact})


def _is_live(vm: Vm, edits: VmEdits, upgrade_to: int | None) -> bool:
    """Whether a VM need not be switched off: all writes are accepted by a running one."""
    return vm.power_state is not PowerState.SUSPENDED and upgrade_to is None and edits.is_live


def assess_changes(
    resolved: ResolvedVm,
    vm: Vm,
    edits: VmEdits,
    disks: DiskEdits,
    changes: list[Change],
    options: PlanOptions,
    findings: Findings,
) -> None:
    """Report the obstacles to the changes of an existing VM."""
    cycle = [change for change in changes if change.impact is Impact.POWER_CYCLE]
    if cycle and vm.power_state is PowerState.SUSPENDED:
        message = "the VM is suspended and cannot be changed"
        findings.refuse_vm(
            Code.SUSPENDED, resolved.desired, message, "resume the VM, or power it off in vCenter"
        )
    elif cycle and not options.allow_power_cycle:
        live = {"power", *(one.edit.key for one in edits.edits if one.is_live)}
        keys = dict.fromkeys(edit.key for change in cycle for edit in change.edits if edit.key not in live)
        message = (
            f"{listed(keys, shown=6)} cannot be changed while the VM is running; a power cycle is required"
        )
        if resolved.move is not None and resolved.move.why_cold:
            message += f"; moving it also requires powering it off, because {resolved.move.why_cold}"
        remedy = "to allow it, add --allow-power-cycle"
        findings.add_vm(Code.POWER_CYCLE_NOT_ALLOWED, resolved.desired, message, remedy)
    for before, after in disks.shrinking:
        message = (
            f"a disk is {gib(before)}, but the plan file specifies {gib(after)}; disks cannot be made smaller"
        )
        remedy = f"set `size: {gib(before).replace(' ', '')}`"
        findings.refuse_vm(Code.DISK_SHRINKS, resolved.desired, message, remedy)
    if disks.missing:
        what = counted(len(disks.missing), "disk")
        others = listed(map(disk_text, resolved.disks.others)) if resolved.disks is not None else ""
        message = f"`disks` contains {what} that cannot be matched to one of the VM's disks: {others}"
        remedy = "these disks are not changed; detach the unmanaged disks, or set `ignore: [disks]`"
        findings.add_vm(Code.DISK_UNCLEAR, resolved.desired, message, remedy)
    if disks.grows and resolved.base.snapshot_moid is not None:
        message = "a disk cannot be extended while the VM has snapshots"
        findings.add_vm(Code.DISK_HAS_SNAPSHOT, resolved.desired, message, "delete its snapshots first")
    if resolved.base.firmware.casefold() == "bios" and resolved.desired.gpus:
        message = (
            "the VM uses BIOS firmware, but GPUs require EFI, and the installed OS would not boot with EFI"
        )
        remedy = "recreate the VM from an EFI template: delete it, and run `plan` again"
        findings.refuse_vm(Code.FIRMWARE_IS_BIOS, resolved.desired, message, remedy)
    if not vm.is_on and resolved.desired.power is DesiredPower.ON and not _minds_power(resolved):
        message = f"it is {_power_text(vm)}, but the plan file ignores its power state"
        findings.add_vm(Code.STAYS_OFF, resolved.desired, message, "power it on when needed")


def _minds_power(resolved: ResolvedVm) -> bool:
    return "power" not in resolved.desired.ignore and resolved.desired.power is not DesiredPower.LEAVE


def _shall_be_off(resolved: ResolvedVm) -> bool:
    return resolved.desired.power is DesiredPower.OFF and _minds_power(resolved)


def _shall_run(resolved: ResolvedVm, vm: Vm) -> bool:
    """Whether it runs in the end: as the plan file says, else as it does now.

    The default power state holds for VMs that exist too: one that a broken run left off is
    finished by the next.
    """
    return resolved.desired.power is DesiredPower.ON if _minds_power(resolved) else vm.is_on


def _power_text(vm: Vm) -> str:
    return vm.power_state.word
