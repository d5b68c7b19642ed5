"""Permissions: roles, and their assignment to an account on an object.

An account has the privileges of its permissions: the one on the object itself overrides those propagated from
above, and a VM has those of its folder and of its pool together (vSphere Security 8.0, "Hierarchical
Inheritance of Permissions"). Groups have no members here.
"""

from __future__ import annotations

from collections.abc import Iterator

from vgpu_cfg.lab.state.inventory import LabState, VirtualMachine
from vgpu_cfg.lab.state.roles import ADMIN, READ_ONLY, SYSTEM, account


def is_known(state: LabState, user: str) -> bool:
    """Whether an account has a permission anywhere."""
    return any(account(one.principal) == account(user) for one in state.permissions if not one.is_group)


def may(state: LabState, user: str, moid: str, privilege: str) -> bool:
    """Whether its permissions give an account a privilege on an object.

    The methods of a host's manager count for the host, a task for its entity while that exists, all other
    objects outside of the inventory for the root folder, which every logged-in account may read.
    """
    entity = _entity_of(state, moid)
    if entity is None:
        return privilege in SYSTEM or may(state, user, state.root, privilege)
    return any(_has(state, role, privilege) for role in roles_on(state, user, entity))


def _entity_of(state: LabState, moid: str) -> str | None:
    moid = getattr(state.objects.get(moid), "entity", moid)
    if moid in state.objects:
        return moid
    number = moid.partition("-")[2]
    return next((owner for owner in (f"host-{number}", f"domain-{number}") if owner in state.objects), None)


def _has(state: LabState, role: int, privilege: str) -> bool:
    if role == ADMIN:
        return True
    if role in state.roles:
        return privilege in SYSTEM or privilege in state.roles[role].privileges
    return role == READ_ONLY and privilege in SYSTEM


def roles_on(state: LabState, user: str, moid: str) -> Iterator[int]:
    """Yield the role that each way up from an object comes to first."""
    ways = [(moid, True)]
    while ways:
        at, is_itself = ways.pop()
        role = _role_at(state, account(user), at, is_itself=is_itself)
        if role is not None:
            yield role
            continue
        ways.extend((parent, False) for parent in _above(state, at))


def _above(state: LabState, moid: str) -> Iterator[str]:
    thing = state.objects.get(moid)
    if thing is not None and thing.parent:
        yield thing.parent
    if isinstance(thing, VirtualMachine) and thing.resource_pool:
        yield thing.resource_pool


def _role_at(state: LabState, user: str, moid: str, *, is_itself: bool) -> int | None:
    for one in state.permissions:
        if one.entity == moid and account(one.principal) == user and (is_itself or one.propagates):
            return one.role
    return None
