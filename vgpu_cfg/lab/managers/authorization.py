"""Accounts at vCenter: the authorization manager with roles and permissions, and the session manager.

Roles and permissions are made and taken away. The session manager logs in and out, and ends other sessions.
"""

from __future__ import annotations

import secrets
import uuid
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.entity import permissions_on
from vgpu_cfg.lab.renderers.services import user_session
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.simulation.operations import Context, answers
from vgpu_cfg.lab.simulation.sessions import Session
from vgpu_cfg.lab.state import permissions
from vgpu_cfg.lab.state.inventory import Managed
from vgpu_cfg.lab.state.permissions import may
from vgpu_cfg.lab.state.roles import ADMIN, NO_ACCESS, READ_ONLY, SYSTEM, Permission, Role, account

PRIVILEGES = (
    *SYSTEM,
    "Alarm.Create",
    "Alarm.Delete",
    "Alarm.Edit",
    "Cryptographer.Encrypt",
    "Cryptographer.EncryptNew",
    "Cryptographer.ManageKeyServers",
    "Datastore.AllocateSpace",
    "Datastore.Browse",
    "Datastore.FileManagement",
    "DVPortgroup.Create",
    "DVPortgroup.Modify",
    "DVSwitch.Create",
    "DVSwitch.HostOp",
    "DVSwitch.Modify",
    "Folder.Create",
    "Folder.Delete",
    "Global.Licenses",
    "Global.LogEvent",
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
    "InventoryService.Tagging.AttachTag",
    "InventoryService.Tagging.ObjectAttachable",
    "Network.Assign",
    "Resource.AssignVMToPool",
    "Resource.ColdMigrate",
    "Resource.HotMigrate",
    "StorageProfile.View",
    "VcIntegrity.lifecycleHealth.Read",
    "VcIntegrity.lifecycleSettings.Read",
    "VcIntegrity.lifecycleSoftwareRemediation.Read",
    "VcIntegrity.lifecycleSoftwareRemediation.Write",
    "VcIntegrity.lifecycleSoftwareSpecification.Read",
    "VcIntegrity.lifecycleSoftwareSpecification.Write",
    "VirtualMachine.Config.AddNewDisk",
    "VirtualMachine.Config.AddRemoveDevice",
    "VirtualMachine.Config.AdvancedConfig",
    "VirtualMachine.Config.Annotation",
    "VirtualMachine.Config.CPUCount",
    "VirtualMachine.Config.DiskExtend",
    "VirtualMachine.Config.EditDevice",
    "VirtualMachine.Config.ManagedBy",
    "VirtualMachine.Config.Memory",
    "VirtualMachine.Config.RawDevice",
    "VirtualMachine.Config.RemoveDisk",
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
    "VirtualMachine.Inventory.Move",
    "VirtualMachine.Provisioning.Clone",
    "VirtualMachine.Provisioning.Customize",
    "VirtualMachine.Provisioning.DeployTemplate",
    "VirtualMachine.Provisioning.ReadCustSpecs",
)
"""The privileges that clients here ask for. Of an administrator any other counts as granted."""


@answers("AuthorizationManager", "HasPrivilegeOnEntities")
def has_privilege_on_entities(
    context: Context, thing: Managed, *, entity: list[Any], sessionId: str, privId: list[str]
) -> list[Any]:
    """Show for each entity which privileges a session has; `sessionId` is UserSession.key."""
    return _on_entities(context, _user_of(context, sessionId), entity, privId)


@answers("AuthorizationManager", "HasPrivilegeOnEntity")
def has_privilege_on_entity(
    context: Context, thing: Managed, *, entity: Any, sessionId: str, privId: list[str]
) -> list[bool]:
    """Show the same for one entity, in the order asked."""
    user = _user_of(context, sessionId)
    return [_has(context, user, entity, privilege) for privilege in privId]


@answers("AuthorizationManager", "HasUserPrivilegeOnEntities")
def has_user_privilege_on_entities(
    context: Context, thing: Managed, *, entities: list[Any], userName: str, privId: list[str]
) -> list[Any]:
    """Show the same by user."""
    return _on_entities(context, userName, entities, privId)


@answers("AuthorizationManager", "FetchUserPrivilegeOnEntities")
def fetch_user_privilege_on_entities(
    context: Context, thing: Managed, *, entities: list[Any], userName: str
) -> list[Any]:
    """List all that a user may do on each entity."""
    _check_entities(entities)
    result: Any = vim.AuthorizationManager.UserPrivilegeResult
    return [
        result(entity=entity, privileges=[one for one in PRIVILEGES if _has(context, userName, entity, one)])
        for entity in entities
    ]


# --------------------------------------------------------------- roles and permissions


@answers("AuthorizationManager", "AddAuthorizationRole")
def add_role(context: Context, thing: Managed, *, name: str, privIds: list[str]) -> int:
    """Make a role. Raises AlreadyExists, InvalidArgument for a privilege that there is not."""
    roles = context.state.roles
    if any(role.name == name for role in roles.values()):
        raise vim.fault.AlreadyExists(name=name, msg=f"The name '{name}' already exists.")
    made = max(roles, default=0) + 1
    roles[made] = Role(name, _known(privIds))
    context.state.touch()
    return made


@answers("AuthorizationManager", "UpdateAuthorizationRole")
def update_role(context: Context, thing: Managed, *, roleId: int, newName: str, privIds: list[str]) -> None:
    """Give a role other privileges, or another name. Raises NotFound."""
    role = _role(context, roleId)
    role.name, role.privileges = newName, _known(privIds)
    context.state.touch()


@answers("AuthorizationManager", "RemoveAuthorizationRole")
def remove_role(context: Context, thing: Managed, *, roleId: int, failIfUsed: bool) -> None:
    """Drop a role with the permissions that give it. Raises NotFound, RemoveFailed for one in use."""
    _role(context, roleId)
    used = [one for one in context.state.permissions if one.role == roleId]
    if used and failIfUsed:
        raise vim.fault.RemoveFailed(msg="The role is in use.")
    context.state.permissions = [one for one in context.state.permissions if one.role != roleId]
    del context.state.roles[roleId]
    context.state.touch()


@answers("AuthorizationManager", "SetEntityPermissions")
def set_entity_permissions(context: Context, thing: Managed, *, entity: Any, permission: list[Any]) -> None:
    """Give accounts a role on an entity; what each had there is replaced. Raises NotFound for a role."""
    moid = entity._moId
    for one in permission:
        if one.roleId not in (NO_ACCESS, READ_ONLY, ADMIN):
            _role(context, one.roleId)
        _forget(context, moid, one.principal)
        context.state.permissions.append(
            Permission(moid, one.principal, one.roleId, one.group, one.propagate)
        )
    context.state.touch()


@answers("AuthorizationManager", "RemoveEntityPermission")
def remove_entity_permission(
    context: Context, thing: Managed, *, entity: Any, user: str, isGroup: bool
) -> None:
    """Take a permission away. Raises NotFound."""
    if not _forget(context, entity._moId, user):
        raise vim.fault.NotFound(msg="The permission could not be found.")
    context.state.touch()


@answers("AuthorizationManager", "RetrieveEntityPermissions")
def retrieve_entity_permissions(
    context: Context, thing: Managed, *, entity: Any, inherited: bool
) -> list[Any]:
    """List the permissions on an entity; with `inherited` those that propagate from above, too."""
    found, at = permissions_on(context, entity._moId), context.state.objects.get(entity._moId)
    while inherited and at is not None and at.parent is not None:
        found += [one for one in permissions_on(context, at.parent) if one.propagate]
        at = context.state.objects.get(at.parent)
    return found


@answers("AuthorizationManager", "RetrieveAllPermissions")
def retrieve_all_permissions(context: Context, thing: Managed) -> list[Any]:
    """List every permission."""
    moids = dict.fromkeys([context.state.root, *(one.entity for one in context.state.permissions)])
    return [found for moid in moids for found in permissions_on(context, moid)]


@answers("AuthorizationManager", "RetrieveRolePermissions")
def retrieve_role_permissions(context: Context, thing: Managed, *, roleId: int) -> list[Any]:
    """List the permissions that give a role."""
    if roleId not in (NO_ACCESS, READ_ONLY, ADMIN):
        _role(context, roleId)
    return [found for found in retrieve_all_permissions(context, thing) if found.roleId == roleId]


def _has(context: Context, user: str, entity: Any, privilege: str) -> bool:
    is_old = context.state.denies("attachable-privilege-from-70")
    if (is_old and privilege.endswith(".ObjectAttachable")) or privilege in context.lab.faults.lacking:
        return False
    return context.credentials.may_everything(user) or may(context.state, user, entity._moId, privilege)


def _on_entities(context: Context, user: str, entities: list[Any], privileges: list[str]) -> list[Any]:
    entity_privilege: Any = vim.AuthorizationManager.EntityPrivilege
    availability: Any = vim.AuthorizationManager.PrivilegeAvailability
    _check_entities(entities)
    if not privileges:
        raise refusals.bad_argument("privId")
    return [
        entity_privilege(
            entity=entity,
            privAvailability=[
                availability(privId=one, isGranted=_has(context, user, entity, one)) for one in privileges
            ],
        )
        for entity in entities
    ]


def _check_entities(entities: list[Any]) -> None:
    """Raise InvalidArgument unless it is an entity: the methods take any object, answers name entities."""
    if not all(isinstance(entity, vim.ManagedEntity) for entity in entities):
        raise refusals.bad_argument("entities")


def _user_of(context: Context, session_id: str) -> str:
    """Return the user of a session. Raises InvalidArgument if there is no such session."""
    for session in context.lab.sessions.all():
        if session.key == session_id:
            return session.user
    raise refusals.bad_argument("sessionId")


def _known(privileges: list[str]) -> tuple[str, ...]:
    if set(privileges) - set(PRIVILEGES):
        raise refusals.bad_argument("privIds")
    return tuple(dict.fromkeys((*SYSTEM, *privileges)))


def _role(context: Context, role_id: int) -> Role:
    if role_id not in context.state.roles:
        raise vim.fault.NotFound(msg="The role could not be found.")
    return context.state.roles[role_id]


def _forget(context: Context, moid: str, principal: str) -> bool:
    before = context.state.permissions
    context.state.permissions = [
        one for one in before if (one.entity, account(one.principal)) != (moid, account(principal))
    ]
    return len(before) != len(context.state.permissions)


@answers("SessionManager", "Login")
def login(
    context: Context,
    thing: Managed,
    *,
    userName: str,
    password: str,
    locale: str | None,
) -> Any:
    """Open a session. Raises InvalidLogin."""
    if not _is_known(context, userName) or password != context.credentials.password:
        raise vim.fault.InvalidLogin(msg="Cannot complete login due to an incorrect user name or password.")
    return _opened(context, userName, locale)


@answers("SessionManager", "LoginByToken")
def login_by_token(context: Context, thing: Managed, *, locale: str | None) -> Any:
    """Open a session for a token's user, regardless of its signature. Raises InvalidLogin for a stranger."""
    if not _is_known(context, context.token_subject):
        raise vim.fault.InvalidLogin(msg="Cannot complete login due to an incorrect user name or password.")
    return _opened(context, context.token_subject, locale)


def _is_known(context: Context, user: str) -> bool:
    return context.credentials.may_everything(user) or permissions.is_known(context.state, user)


def _opened(context: Context, user: str, locale: str | None) -> Any:
    now = context.lab.clock.now()
    context.session = Session(
        cookie=secrets.token_hex(20),
        key=str(uuid.uuid4()),
        user=_as_shown(user),
        is_administrator=context.credentials.may_everything(user),
        login_time=now,
        last_active=now,
        locale=(locale or "en").partition("_")[0],
        user_agent=context.user_agent,
    )
    context.lab.sessions.open(context.session)
    return user_session(context.session)


def _as_shown(user: str) -> str:
    """Spell a user as events and tasks do, whatever was typed."""
    name, _, domain = account(user).partition("@")
    return f"{name.capitalize()}@{domain.upper()}"


@answers("SessionManager", "Logout")
def logout(context: Context, thing: Managed) -> None:
    """Close the caller's session."""
    if context.session is not None:
        context.lab.sessions.end(context.session)
        context.session = None


@answers("SessionManager", "SessionIsActive")
def session_is_active(context: Context, thing: Managed, *, sessionID: str, userName: str) -> bool:
    """Show whether a user's session lives."""
    return any(
        session.key == sessionID and session.user.lower() == userName.lower()
        for session in context.lab.sessions.all()
    )


@answers("SessionManager", "TerminateSession")
def terminate_session(context: Context, thing: Managed, *, sessionId: list[str]) -> None:
    """Close other sessions. Raises NotFound for one that is not there."""
    by_key = {session.key: session for session in context.lab.sessions.all()}
    for key in sessionId:
        if key not in by_key:
            raise vim.fault.NotFound(msg="The session could not be found.")
        context.lab.note_of("UserSession", key, by_key[key].user, "session end")
        context.lab.sessions.end(by_key[key])


@answers("SessionManager", "SetLocale")
def set_locale(context: Context, thing: Managed, *, locale: str) -> None:
    """Note the language; the lab's messages stay English."""
    if context.session is not None:
        context.session.locale = locale
