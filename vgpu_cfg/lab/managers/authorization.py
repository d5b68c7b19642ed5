"""The authorization manager: one administrator, who lacks what a script takes from him."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.state.inventory import Managed

PRIVILEGES = (
    "System.Anonymous",
    "System.View",
    "System.Read",
    "Alarm.Create",
    "Alarm.Delete",
    "Alarm.Edit",
    "Cryptographer.Encrypt",
    "Cryptographer.ManageKeyServers",
    "Datastore.AllocateSpace",
    "Datastore.Browse",
    "DVPortgroup.Create",
    "DVPortgroup.Modify",
    "DVSwitch.Create",
    "DVSwitch.HostOp",
    "DVSwitch.Modify",
    "Folder.Create",
    "Folder.Delete",
    "Global.Licenses",
    "Global.ManageCustomFields",
    "Global.SetCustomField",
    "Global.Settings",
    "Host.Config.AdvancedConfig",
    "Host.Config.Image",
    "Host.Config.Maintenance",
    "Host.Config.NetService",
    "Host.Config.Network",
    "Host.Config.Patch",
    "Host.Config.PciPassthru",
    "Host.Config.Settings",
    "Host.Inventory.EditCluster",
    "Network.Assign",
    "Resource.AssignVMToPool",
    "Resource.ColdMigrate",
    "Resource.HotMigrate",
    "VirtualMachine.Config.AddNewDisk",
    "VirtualMachine.Config.AddRemoveDevice",
    "VirtualMachine.Config.AdvancedConfig",
    "VirtualMachine.Config.Annotation",
    "VirtualMachine.Config.CPUCount",
    "VirtualMachine.Config.EditDevice",
    "VirtualMachine.Config.ManagedBy",
    "VirtualMachine.Config.Memory",
    "VirtualMachine.Config.RawDevice",
    "VirtualMachine.Config.Rename",
    "VirtualMachine.Config.Resource",
    "VirtualMachine.Config.Settings",
    "VirtualMachine.Config.UpgradeVirtualHardware",
    "VirtualMachine.GuestOperations.Execute",
    "VirtualMachine.GuestOperations.Modify",
    "VirtualMachine.GuestOperations.Query",
    "VirtualMachine.Interact.PowerOff",
    "VirtualMachine.Interact.PowerOn",
    "VirtualMachine.Interact.Reset",
    "VirtualMachine.Inventory.Create",
    "VirtualMachine.Inventory.CreateFromExisting",
    "VirtualMachine.Inventory.Delete",
    "VirtualMachine.Provisioning.Clone",
    "VirtualMachine.Provisioning.DeployTemplate",
)
"""What the administrator has, as far as anything here asks for it. Any other privilege counts as granted."""


def _availability(context: Context, privileges: list[str]) -> list[Any]:
    lacking = context.lab.faults.lacking
    availability: Any = vim.AuthorizationManager.PrivilegeAvailability
    return [availability(privId=privilege, isGranted=privilege not in lacking) for privilege in privileges]


def _on_entities(context: Context, entities: list[Any], privileges: list[str]) -> list[Any]:
    entity_privilege: Any = vim.AuthorizationManager.EntityPrivilege
    return [
        entity_privilege(entity=entity, privAvailability=_availability(context, privileges))
        for entity in entities
    ]


@answers("AuthorizationManager", "HasPrivilegeOnEntities")
def has_privilege_on_entities(
    context: Context, thing: Managed, *, entity: list[Any], sessionId: str, privId: list[str]
) -> list[Any]:
    """Tell for each entity which privileges a session has; `sessionId` is UserSession.key."""
    return _on_entities(context, entity, privId)


@answers("AuthorizationManager", "HasPrivilegeOnEntity")
def has_privilege_on_entity(
    context: Context, thing: Managed, *, entity: Any, sessionId: str, privId: list[str]
) -> list[bool]:
    """Tell the same of one entity, in the order asked."""
    return [privilege not in context.lab.faults.lacking for privilege in privId]


@answers("AuthorizationManager", "HasUserPrivilegeOnEntities")
def has_user_privilege_on_entities(
    context: Context, thing: Managed, *, entities: list[Any], userName: str, privId: list[str]
) -> list[Any]:
    """Tell the same by user; the lab has one."""
    return _on_entities(context, entities, privId)


@answers("AuthorizationManager", "FetchUserPrivilegeOnEntities")
def fetch_user_privilege_on_entities(
    context: Context, thing: Managed, *, entities: list[Any], userName: str
) -> list[Any]:
    """List all that a user may do on each entity."""
    granted = [privilege for privilege in PRIVILEGES if privilege not in context.lab.faults.lacking]
    result: Any = vim.AuthorizationManager.UserPrivilegeResult
    return [result(entity=entity, privileges=granted) for entity in entities]
