"""Snapshots of a VM: which there are, in which order, its settings then. The content of disks is not kept."""

from __future__ import annotations

import copy
from typing import Any

from pyVmomi import vmodl

from vgpu_cfg.lab.operations.vms.drafts import commit, draft_of, stamp_change
from vgpu_cfg.lab.operations.vms.power import halt, power_on
from vgpu_cfg.lab.rules import drs, refusals
from vgpu_cfg.lab.rules.refusals import refuse
from vgpu_cfg.lab.simulation.operations import task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.devices import disks_of
from vgpu_cfg.lab.state.inventory import take_snapshot
from vgpu_cfg.lab.state.vm import Snapshot, VirtualMachine


@task("VirtualMachine", "CreateSnapshot_Task", description_id="VirtualMachine.createSnapshot", seconds=3.0)
def create_snapshot(
    lab: Simulation,
    vm: VirtualMachine,
    *,
    name: str,
    description: str | None = None,
    memory: bool = False,
    quiesce: bool = False,
) -> Snapshot:
    """Keep a snapshot's name and place, and the VM's settings; disks are not copied."""
    del quiesce
    if drs.holds_functions(vm):
        raise refuse("snapshot-with-passthrough")
    if memory and any("independent" in str(disk.backing.diskMode) for disk in disks_of(vm.devices)):
        raise refuse("memory-snapshot-of-independent-disk")
    made = take_snapshot(lab.state, vm, name, lab.clock.now(), description or "", with_memory=memory)
    lab.state.touch(vm)
    stamp_change(lab, vm)
    return made


@task("VirtualMachineSnapshot", "RevertToSnapshot_Task", description_id="vm.Snapshot.revert", seconds=3.0)
def revert(
    lab: Simulation, snapshot: Snapshot, *, host: Any = None, suppressPowerOn: bool | None = None
) -> None:
    """Give a VM the settings that it had, and let it run again where its memory was kept.

    Without its memory it is off afterwards (vSphere API reference, RevertToSnapshot_Task).
    """
    vm = lab.state.get(snapshot.parent, VirtualMachine)
    if vm.power_state != "poweredOff":
        halt(lab, vm)
    draft = draft_of(vm)
    for name, value in snapshot.kept.items():
        setattr(draft, name, copy.copy(value))
    draft.current_snapshot = snapshot.moid
    commit(lab, vm, draft)
    if snapshot.was_on and not suppressPowerOn:
        power_on(lab, vm, host=host)


@task(
    "VirtualMachine",
    "RevertToCurrentSnapshot_Task",
    description_id="VirtualMachine.revertToCurrentSnapshot",
    seconds=3.0,
)
def revert_to_current(
    lab: Simulation, vm: VirtualMachine, *, host: Any = None, suppressPowerOn: bool | None = None
) -> None:
    """Revert to the snapshot that the VM follows. Raises NotFound where it has none."""
    current = lab.state.find(vm.current_snapshot, Snapshot)
    if current is None:
        raise refusals.not_found()
    revert(lab, current, host=host, suppressPowerOn=suppressPowerOn)


@task("VirtualMachineSnapshot", "RemoveSnapshot_Task", description_id="vm.Snapshot.remove", seconds=2.0)
def remove_snapshot(
    lab: Simulation, snapshot: Snapshot, *, removeChildren: bool, consolidate: bool | None = None
) -> None:
    """Remove a snapshot, with those that follow it or without: then they follow the one before it."""
    del consolidate
    vm = lab.state.get(snapshot.parent, VirtualMachine)
    following = [found for found in _snapshots_of(lab, vm) if found.previous == snapshot.moid]
    for found in following:
        if removeChildren:
            remove_snapshot(lab, found, removeChildren=True)
        else:
            found.previous = snapshot.previous
    vm.snapshots.remove(snapshot.moid)
    if vm.current_snapshot == snapshot.moid:
        vm.current_snapshot = snapshot.previous
    lab.state.remove(snapshot)
    lab.state.touch(vm, *(found for found in following if not removeChildren))
    stamp_change(lab, vm)


@task(
    "VirtualMachine",
    "RemoveAllSnapshots_Task",
    description_id="VirtualMachine.removeAllSnapshots",
    seconds=2.0,
)
def remove_all_snapshots(
    lab: Simulation, vm: VirtualMachine, *, consolidate: bool | None = None, spec: Any = None
) -> None:
    """Remove all snapshots of a VM."""
    del consolidate
    if spec is not None:
        raise vmodl.fault.NotSupported(msg="The lab does not select snapshots by their age.")
    for first in [found for found in _snapshots_of(lab, vm) if found.previous is None]:
        remove_snapshot(lab, first, removeChildren=True)


def _snapshots_of(lab: Simulation, vm: VirtualMachine) -> list[Snapshot]:
    return [lab.state.get(moid, Snapshot) for moid in vm.snapshots]
