"""Folders and resource pools made, and VMs moved from folder to folder."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.operations.refs import required
from vgpu_cfg.lab.operations.vms.drafts import check_name
from vgpu_cfg.lab.operations.vms.privileges import NEEDED_FOR_FOLDER
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import operation, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import Folder, ResourcePool, VirtualMachine


@operation("Folder", "CreateFolder")
def create_folder(lab: Simulation, folder: Folder, *, name: str) -> Folder:
    """Make a folder for the same kinds of objects."""
    check_name(lab.state, folder, name)
    kind = "v" if "VirtualMachine" in folder.child_types else "d"
    made = Folder(
        moid=lab.state.new_moid(f"group-{kind}"),
        name=name,
        parent=folder.moid,
        child_types=folder.child_types,
    )
    folder.children[made.moid] = None
    lab.state.touch(folder)
    return lab.state.add(made)


def _may_move(lab: Simulation, folder: Folder, **arguments: Any) -> None:
    lab.check_privileges(vim.Folder(folder.moid), NEEDED_FOR_FOLDER)
    for reference in arguments["list"]:
        vm = required(lab.state, reference, VirtualMachine, "list")
        lab.check_privileges(reference, NEEDED_FOR_FOLDER)
        lab.check_privileges(vim.Folder(vm.parent), NEEDED_FOR_FOLDER)


@task("Folder", "MoveIntoFolder_Task", description_id="Folder.moveInto", seconds=1.0, check=_may_move)
def move_into(lab: Simulation, folder: Folder, **arguments: Any) -> None:
    """Move VMs to a folder of their datacenter; other objects stay where they are in the lab."""
    for reference in arguments["list"]:
        vm = required(lab.state, reference, VirtualMachine, "list")
        before = lab.state.get(vm.parent, Folder)
        if lab.state.datacenter_of(folder) is not lab.state.datacenter_of(before):
            raise vim.fault.InvalidFolder(target=vim.Folder(folder.moid), msg="The folder is invalid.")
        check_name(lab.state, folder, vm.name, vm.moid)
        before.children.pop(vm.moid, None)
        folder.children[vm.moid] = None
        vm.parent = folder.moid
        lab.state.touch(before, folder, vm)


@operation("ResourcePool", "CreateResourcePool")
def create_pool(lab: Simulation, pool: ResourcePool, *, name: str, spec: Any) -> ResourcePool:
    """Make a resource pool below another; its shares and limits are not judged."""
    del spec
    for moid in pool.pools:
        if lab.state.objects[moid].name == name:
            raise refusals.duplicate_name(name, vim.ResourcePool(moid))
    made = ResourcePool(moid=lab.state.new_moid("resgroup"), name=name, parent=pool.moid, owner=pool.owner)
    pool.pools.append(made.moid)
    lab.state.touch(pool)
    return lab.state.add(made)
