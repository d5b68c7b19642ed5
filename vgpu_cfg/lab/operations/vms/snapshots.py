"""Snapshots of a VM: which there are, in which order. What disks and settings were is not kept."""

from __future__ import annotations

from typing import Any

from pyVmomi import vmodl

from vgpu_cfg.lab.operations.vms.drafts import stamp_change
from vgpu_cfg.lab.simulation.operations import task
from vgpu_cfg.lab.simulation.simulation import Simulation
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
    """Keep a snapshot's name and place; disks are not copied."""
    del memory, quiesce
    made = Snapshot(
        moid=lab.state.new_moid("snapshot"),
        name=name,
        parent=vm.moid,
        number=1 + max((lab.state.get(moid, Snapshot).number for moid in vm.snapshots), default=0),
        created=lab.clock.now(),
        description=description or "",
        previous=vm.current_snapshot,
    )
    lab.state.add(made)
    vm.snapshots.append(made.moid)
    vm.current_snapshot = made.moid
    lab.state.touch(vm)
    stamp_change(lab, vm)
    return made


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
