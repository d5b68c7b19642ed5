"""The text of vCenter's faults, and the error of this project for each.

A fault's own sentence is often empty or says nothing ("A general system error occurred");
the useful text then sits in `faultMessage`, in a `reason` or in the cause below, so all
of them are gathered. Types are matched from the most specific to the most general:
`NotAuthenticated` is a `NoPermission`, and `RestrictedVersion` a `SecurityError`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from pyVmomi import vim, vmodl

from vgpu_cfg.errors import (
    GuestError,
    GuestNotReady,
    LoginFailed,
    NotFound,
    NotOffered,
    NotPermitted,
    VCenterError,
    VgpuCfgError,
)

_DEEPEST_CAUSE = 5


def fault_name(fault: vmodl.MethodFault) -> str:
    """Return the fault's type as vSphere writes it: "InvalidPowerState"."""
    return str(type(fault)._wsdlName)


def fault_text(fault: vmodl.MethodFault) -> str:
    """Return everything a fault says, its own sentence first, each sentence once."""
    found: list[str] = []
    for sentence in _sentences(fault, _DEEPEST_CAUSE):
        text = " ".join(sentence.split())
        if text and not any(text in earlier for earlier in found):
            found.append(text)
    return " ".join(found) or fault_name(fault)


def is_not_offered(fault: vmodl.MethodFault) -> bool:
    """Whether the server lacks the method or the manager, as old or simulated ones do."""
    return isinstance(
        fault,
        vmodl.fault.MethodNotFound
        | vmodl.fault.NotSupported
        | vmodl.fault.NotImplemented
        | vmodl.fault.ManagedObjectNotFound,
    )


def is_host_silent(fault: vmodl.MethodFault) -> bool:
    """Whether vCenter could not get an answer from the host that was asked about."""
    return isinstance(fault, vmodl.fault.HostCommunication | vim.fault.HostConnectFault)


def is_session_over(fault: vmodl.MethodFault) -> bool:
    """Whether the session has ended: vCenter says so, or no longer knows a view or filter of the session.

    The reading methods are open to all accounts, so they first miss the object, whose moid begins with
    `session[`.
    """
    if isinstance(fault, vmodl.fault.ManagedObjectNotFound):
        return _moid(fault, "obj").startswith("session[")
    return isinstance(fault, vim.fault.NotAuthenticated)


def to_error(fault: vmodl.MethodFault, what: str, subject: str = "") -> VCenterError:
    """Turn a fault into this project's error; `what` names the attempt ("power on hvd-01")."""
    text = fault_text(fault)
    said = f"{what}: {text}" if what else text
    match fault:
        case vim.fault.InvalidLogin():
            return LoginFailed("wrong user or password", subject=subject, remedy="check both and try again")
        case vim.fault.NotAuthenticated():
            return LoginFailed(
                f"{what}: the session has expired", subject=subject, remedy="run the command again"
            )
        case vim.fault.NoPermission():
            return _not_permitted(fault, what, subject)
        case vim.fault.RestrictedVersion() | vmodl.fault.NotEnoughLicenses():
            remedy = "the host or vCenter license does not include this feature"
        case vmodl.fault.ManagedObjectNotFound() if _is_manager(fault):
            return not_offered(f"{said} ({fault_name(fault)})", subject)
        case vmodl.fault.ManagedObjectNotFound():
            return NotFound(
                f"{what}: {_moid(fault, 'obj') or 'the object'} no longer exists",
                subject=subject,
                remedy="plan again; the inventory has changed",
            )
        case vim.fault.NotFound():
            return NotFound(
                f"{said} ({fault_name(fault)})",
                subject=subject,
                remedy="plan again; the inventory has changed",
            )
        case vmodl.fault.MethodNotFound() | vmodl.fault.NotSupported() | vmodl.fault.NotImplemented():
            return not_offered(f"{said} ({fault_name(fault)})", subject)
        case vim.fault.ConcurrentAccess():
            remedy = "the object was changed after it was read; plan again"
        case vmodl.fault.HostCommunication() | vim.fault.HostConnectFault():
            remedy = "check whether the host is connected"
        case vim.fault.TaskInProgress():
            remedy = "wait for the other task on this object, then try again"
        case _:
            remedy = "check the related vCenter events, then run the command again"
    return VCenterError(f"{said} ({fault_name(fault)})", subject=subject, remedy=remedy)


def not_offered(message: str, subject: str = "") -> NotOffered:
    """Make the error for a feature that a server or host lacks, with its usual remedy."""
    return NotOffered(
        message, subject=subject, remedy="this vCenter or host is too old or does not support this operation"
    )


def to_guest_error(fault: vmodl.MethodFault, what: str, subject: str, user: str) -> VgpuCfgError:
    """Turn a fault of a guest operation into this project's error; all else is vCenter's."""
    said = f"{what}: {fault_text(fault)} ({fault_name(fault)})"
    match fault:
        case vim.fault.InvalidGuestLogin():
            return GuestError(
                f"the guest rejected {user}'s password",
                subject=subject,
                remedy="check the user and the secret under `guest.login`",
            )
        case vim.fault.GuestOperationsUnavailable() | vim.fault.InvalidState() | vim.fault.TaskInProgress():
            return GuestNotReady(
                said,
                subject=subject,
                remedy=(
                    "check whether the guest has booted and VMware Tools (open-vm-tools) is running in it"
                ),
            )
        case vim.fault.OperationDisabledByGuest() | vim.fault.OperationNotSupportedByGuest():
            return GuestError(
                said,
                subject=subject,
                remedy="enable guest operations in the guest's tools.conf, or allow SSH access",
            )
        case vim.fault.GuestPermissionDenied() | vim.fault.CannotAccessFile():
            return GuestError(
                said,
                subject=subject,
                remedy=f"{user} has no permission in the guest; set another user under `guest.login`",
            )
        case vim.fault.FileAlreadyExists() | vim.fault.FileFault():
            return GuestError(
                said, subject=subject, remedy="check that file in the guest, and whether its disk is full"
            )
        case vim.fault.GuestOperationsFault():
            return GuestError(
                said,
                subject=subject,
                remedy="check the VM's events in vCenter, or allow SSH access to its guest",
            )
        case _:
            return to_error(fault, what, subject)


@contextmanager
def translated(what: str, subject: str = "") -> Iterator[None]:
    """Let no pyvmomi fault out of the block: it leaves as a VCenterError."""
    try:
        yield
    except vmodl.MethodFault as fault:
        raise to_error(fault, what, subject) from fault


@contextmanager
def offered(what: str, subject: str, *absent: type[vmodl.MethodFault]) -> Iterator[None]:
    """Translate faults, those of the types `absent` into NotOffered: the thing named is not there."""
    try:
        with translated(what, subject):
            yield
    except VCenterError as error:
        fault = error.__cause__
        if not isinstance(fault, absent):
            raise
        raise not_offered(error.message, subject) from fault


def _is_manager(fault: vmodl.MethodFault) -> bool:
    """Whether the missing object is one of a host's managers, which a server may name and not have."""
    kind = getattr(type(getattr(fault, "obj", None)), "__name__", "")
    return kind.startswith("vim.host.") or kind == "vim.option.OptionManager"


def _not_permitted(fault: vim.fault.NoPermission, what: str, subject: str) -> NotPermitted:
    privileges = {fault.privilegeId} if fault.privilegeId else set()
    for lack in getattr(fault, "missingPrivileges", None) or ():
        privileges.update(lack.privilegeIds or ())
    named = ", ".join(sorted(privileges)) or "the required privilege (vCenter does not specify which)"
    entity = _moid(fault, "object")
    return NotPermitted(
        f"{what}: the account does not have {named}" + (f" on {entity}" if entity else ""),
        subject=subject or entity,
        remedy=f"request a role with {named} on that object (docs/reference/permissions.md)",
    )


def _sentences(fault: vmodl.MethodFault, depth: int) -> Iterator[str]:
    yield _field(fault, "msg")
    for message in fault.faultMessage or ():
        yield message.message or ""
    match fault:
        case vim.fault.GenericVmConfigFault() | vim.fault.DeviceNotSupported() | vmodl.fault.SystemError():
            yield _field(fault, "reason")
        case vmodl.fault.InvalidArgument():
            yield _field(fault, "invalidProperty", "Invalid: {}.")
        case vim.fault.InvalidVmConfig():
            yield _field(fault, "property", "Invalid: {}.")
        case vim.fault.InvalidPowerState():
            yield _field(fault, "existingState", "Current state: {}.")
        case vmodl.query.InvalidProperty():
            yield _field(fault, "name", "Property: {}.")
        case vim.fault.NoCompatibleHost() if depth:
            for inner in fault.error or ():
                yield from _sentences(inner, depth - 1)
        case _:
            pass
    if depth and fault.faultCause is not None:
        yield from _sentences(fault.faultCause, depth - 1)


def _field(fault: vmodl.MethodFault, name: str, form: str = "{}") -> str:
    """Return a field in words, nothing where it is unset; pyvmomi's types do not say which may be."""
    value = getattr(fault, name, None)
    return form.format(value) if value else ""


def _moid(fault: vmodl.MethodFault, name: str) -> str:
    return str(getattr(getattr(fault, name, None), "_moId", ""))
