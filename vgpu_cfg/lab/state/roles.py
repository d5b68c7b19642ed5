"""The content of roles, and of the permissions that give one to an account on an object."""

from __future__ import annotations

from dataclasses import dataclass

SYSTEM = ("System.Anonymous", "System.View", "System.Read")
"""The privileges that every role has."""
NO_ACCESS, READ_ONLY, ADMIN = -5, -2, -1
"""Role ids that every vCenter has."""
LESSENED = 0
"""The role of an account that a script takes privileges from, in place of ADMIN, which has all of them."""


@dataclass(slots=True)
class Role:
    """A custom role."""

    name: str
    privileges: tuple[str, ...]


@dataclass(slots=True)
class Permission:
    """A role given to an account on an entity (its moid)."""

    entity: str
    principal: str
    role: int
    is_group: bool = False
    propagates: bool = True


def account(name: str) -> str:
    r"""Return an account as names are compared: `VSPHERE.LOCAL\jane` is `jane@vsphere.local`."""
    domain, backslash, user = name.lower().partition("\\")
    return f"{user}@{domain}" if backslash else domain
