"""Folders and resource pools made."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.operations.vms.drafts import check_name
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import operation
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import Folder, ResourcePool


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
