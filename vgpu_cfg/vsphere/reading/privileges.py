"""The privileges that the account lacks, asked in one call for all objects that need the same ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any

from pyVmomi import VmomiSupport

from vgpu_cfg.ports import Clock
from vgpu_cfg.vsphere.reading.tags import fields_for, type_of
from vgpu_cfg.vsphere.wire.collector import Item, renewing
from vgpu_cfg.vsphere.wire.faults import translated
from vgpu_cfg.vsphere.wire.session import Session

LONGEST_ANSWER = 2000
"""The maximum number of pairs of object and privilege in an answer beyond the needed ones; an estimate."""
ADMINISTRATOR = -1
"""The role of the system that has every privilege and cannot be changed, by its id.

vSphere Web Services SDK Programming Guide, "Description of Roles on vSphere Servers"; vSphere API reference,
AuthorizationRole.system.
"""
_ROLES_HOLD = timedelta(minutes=5)
"""For how long holds which roles the account has: shells that are opened, or a secret, may take longer."""
_TYPES_BY_PREFIX = (
    ("datacenter-", "vim.Datacenter"),
    ("datastore-", "vim.Datastore"),
    ("domain-c", "vim.ClusterComputeResource"),
    ("domain-s", "vim.ComputeResource"),
    ("dvportgroup-", "vim.dvs.DistributedVirtualPortgroup"),
    ("dvs-", "vim.DistributedVirtualSwitch"),
    ("group-", "vim.Folder"),
    ("host-", "vim.HostSystem"),
    ("network-", "vim.Network"),
    ("resgroup-", "vim.ResourcePool"),
    ("vm-", "vim.VirtualMachine"),
)


class KnownRoles:
    """The account's roles on objects, by the last whole reading."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._roles: dict[str, frozenset[int]] = {}
        self._read_at = clock.now()

    def begin(self) -> None:
        """Forget the roles that are known: another reading begins."""
        self._roles.clear()
        self._read_at = self._clock.now()

    def keep(self, items: Iterable[Item]) -> None:
        """Keep the roles that were read of objects."""
        for item in items:
            # Belief: effective-role-is-enough, role-minus-one-is-administrator, effective-roles-add-up.
            if found := item.get("effectiveRole"):
                self._roles[item.moid] = frozenset(found)

    def of(self, moid: str) -> frozenset[int]:
        """Return the roles that the account was read to have on an object of late; none where it was not."""
        is_late = self._clock.now() - self._read_at > _ROLES_HOLD
        return frozenset() if is_late else self._roles.get(moid, frozenset())


def type_by_moid(moid: str) -> str:
    """Guess an object's type from its id; vCenter goes by the id, so a plain entity does too."""
    return next((name for prefix, name in _TYPES_BY_PREFIX if moid.startswith(prefix)), "vim.ManagedEntity")


def vmodl_name(wsdl_name: str) -> str:
    """Return pyvmomi's name of a type ("vim.HostSystem") by its name on the wire ("HostSystem")."""
    return str(VmomiSupport.GetWsdlType("urn:vim25", wsdl_name).__name__)


def read_missing_privileges(
    session: Session,
    needed: Mapping[str, Sequence[str]],
    type_of: Callable[[str], str] = type_by_moid,
    roles_of: Callable[[str], frozenset[int]] = lambda _moid: frozenset(),
) -> dict[str, tuple[str, ...]]:
    """Return, per entity, those of the needed privileges that the account lacks, in the order asked.

    `type_of` gives the vmodl type of an entity's id, `roles_of` the roles that the account has there, none
    where they are not known. An administrator is asked about nothing. Entities with the same roles are asked
    about as one, since privileges come with roles. One round trip for all, or per distinct list of privileges
    where an answer on all of them for every object would get long.
    """
    alike: dict[frozenset[int] | str, list[str]] = defaultdict(list)
    for moid, privileges in needed.items():
        roles = roles_of(moid)
        if privileges and ADMINISTRATOR not in roles:
            alike[roles or moid].append(moid)
    asked = {
        moids[0]: tuple(dict.fromkeys(name for moid in moids for name in needed[moid]))
        for moids in alike.values()
    }
    missing = _read_missing(session, asked, type_of)
    found = {
        moid: tuple(name for name in dict.fromkeys(needed[moid]) if name in missing.get(moids[0], ()))
        for moids in alike.values()
        for moid in moids
    }
    return {moid: lacking for moid, lacking in found.items() if lacking}


def _read_missing(
    session: Session, needed: Mapping[str, Sequence[str]], type_of: Callable[[str], str]
) -> dict[str, tuple[str, ...]]:
    missing: dict[str, tuple[str, ...]] = {}
    for privileges, moids in _questions(needed):
        entities = [VmomiSupport.GetVmodlType(type_of(moid))(moid, session.stub) for moid in moids]
        with translated("checking the account's privileges", session.address):
            # The key is asked for at each attempt: a session that was renewed has another.
            answers = renewing(session, partial(_asked, session, entities, privileges))
        for answer in answers or ():
            granted = {entry.privId for entry in answer.privAvailability or () if entry.isGranted}
            moid = str(answer.entity._moId)
            lacking = tuple(name for name in dict.fromkeys(needed[moid]) if name not in granted)
            if lacking:
                missing[moid] = lacking
    return missing


def _questions(needed: Mapping[str, Sequence[str]]) -> list[tuple[tuple[str, ...], list[str]]]:
    """Return the content of one question: privileges, and their objects."""
    objects = [moid for moid, privileges in needed.items() if privileges]
    every = tuple(dict.fromkeys(name for moid in objects for name in needed[moid]))
    if len(every) * len(objects) <= LONGEST_ANSWER:
        return [(every, objects)] if objects else []
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for moid in objects:
        alike[tuple(dict.fromkeys(needed[moid]))].append(moid)
    return list(alike.items())


def _asked(session: Session, entities: Sequence[Any], privileges: Sequence[str]) -> Any:
    manager = session.service_content.authorizationManager
    # Belief: privileges-asked-together.
    return manager.HasPrivilegeOnEntities(list(entities), session.key, list(privileges))


def read_defined_attributes(session: Session) -> frozenset[tuple[str, str]]:
    """Return the custom attributes that hosts and VMs can have, by type and name; one round trip."""
    manager = session.service_content.customFieldsManager
    if manager is None:
        return frozenset()
    found: set[tuple[str, str]] = set()
    for field in fields_for(session, manager, *_KINDS):
        kind = type_of(field)
        found.update((one, str(field.name)) for one in ([kind] if kind in _KINDS else _KINDS))
    return frozenset(found)


_KINDS = ("HostSystem", "VirtualMachine")
