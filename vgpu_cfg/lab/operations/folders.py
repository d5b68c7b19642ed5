"""Folders, datacenters and clusters made, and VMs and folders moved from folder to folder."""

from __future__ import annotations

from typing import Any, TypeVar

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.operations.cluster import change_services
from vgpu_cfg.lab.operations.refs import required
from vgpu_cfg.lab.operations.vms.drafts import check_name
from vgpu_cfg.lab.operations.vms.privileges import NEEDED_FOR_FOLDER
from vgpu_cfg.lab.simulation.operations import operation, task
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import (
    CHILD_TYPES,
    Cluster,
    Datacenter,
    Folder,
    Managed,
    ResourcePool,
    VirtualMachine,
)

ManagedT = TypeVar("ManagedT", bound=Managed)


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
        thing = _movable(lab, reference)
        lab.check_privileges(reference, NEEDED_FOR_FOLDER)
        lab.check_privileges(vim.Folder(thing.parent), NEEDED_FOR_FOLDER)


@task("Folder", "MoveIntoFolder_Task", description_id="Folder.moveInto", seconds=1.0, check=_may_move)
def move_into(lab: Simulation, folder: Folder, **arguments: Any) -> None:
    """Move VMs and folders to a folder of their datacenter; other objects stay where they are in the lab."""
    for reference in arguments["list"]:
        thing = _movable(lab, reference)
        before = lab.state.get(thing.parent, Folder)
        same_kinds = before.child_types == folder.child_types
        if not same_kinds or lab.state.datacenter_of(folder) is not lab.state.datacenter_of(before):
            raise vim.fault.InvalidFolder(target=vim.Folder(folder.moid), msg="The folder is invalid.")
        check_name(lab.state, folder, thing.name, thing.moid)
        before.children.pop(thing.moid, None)
        folder.children[thing.moid] = None
        thing.parent = folder.moid
        lab.state.touch(before, folder, thing)


def _movable(lab: Simulation, reference: Any) -> VirtualMachine | Folder:
    if isinstance(reference, vim.Folder):
        return required(lab.state, reference, Folder, "list")
    return required(lab.state, reference, VirtualMachine, "list")


@operation("Folder", "CreateDatacenter")
def create_datacenter(lab: Simulation, folder: Folder, *, name: str) -> Datacenter:
    """Make a datacenter with its four folders. Raises NotSupported below one, DuplicateName."""
    _check_kind(folder, "Datacenter")
    check_name(lab.state, folder, name)
    made = Datacenter(moid=lab.state.new_moid("datacenter"), name=name, parent=folder.moid)
    for kind in ("vm", "host", "datastore", "network"):
        top = Folder(
            moid=lab.state.new_moid(f"group-{kind[0] if kind != 'datastore' else 's'}"),
            name=kind,
            parent=made.moid,
            child_types=CHILD_TYPES[kind],
        )
        setattr(made, f"{kind}_folder", lab.state.add(top).moid)
    return _into(lab, folder, made)


@operation("Folder", "CreateCluster")
def create_cluster(lab: Simulation, folder: Folder, *, name: str, spec: Any) -> Cluster:
    """Make a cluster without hosts, as `CreateClusterEx` does."""
    del spec
    made: Cluster = create_cluster_ex(lab, folder, name=name, spec=vim.cluster.ConfigSpecEx())
    return made


@operation("Folder", "CreateClusterEx")
def create_cluster_ex(lab: Simulation, folder: Folder, *, name: str, spec: Any) -> Cluster:
    """Make a cluster without hosts; DRS and HA are off unless a spec turns them on. Raises DuplicateName."""
    _check_kind(folder, "ComputeResource")
    check_name(lab.state, folder, name)
    made = Cluster(
        moid=lab.state.new_moid("domain-c"),
        name=name,
        parent=folder.moid,
        drs_enabled=False,
        drs_behavior="fullyAutomated",
        ha_enabled=False,
    )
    pool = ResourcePool(
        moid=lab.state.new_moid("resgroup"), name="Resources", parent=made.moid, owner=made.moid
    )
    made.resource_pool = lab.state.add(pool).moid
    change_services(made, spec)
    return _into(lab, folder, made)


def _check_kind(folder: Folder, kind: str) -> None:
    if kind not in folder.child_types:
        raise vmodl.fault.NotSupported(msg="The operation is not supported on the object.")


def _into(lab: Simulation, folder: Folder, made: ManagedT) -> ManagedT:
    folder.children[made.moid] = None
    lab.state.touch(folder)
    return lab.state.add(made)
