"""A need for privileges: the action, its privileges, and the kind of object."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Place(StrEnum):
    """A kind of object that privileges are given on, in a reader's words."""

    ROOT = "vCenter (the root folder)"
    DATACENTER = "the datacenter"
    FOLDER = "the folder"
    POOL = "the resource pool"
    DATASTORE = "the datastore"
    NETWORK = "the network"
    SWITCH = "the switch"
    PORTGROUP = "the portgroup"
    CLUSTER = "the cluster"
    HOST = "the host"
    TEMPLATE = "the template"
    VM = "the VM"


@dataclass(frozen=True, slots=True)
class Need:
    """One action, and the privileges an account needs for it and on which object.

    `recalled` are the privileges that were not looked up. `without` is the consequence if they are missing
    and the work goes on; empty if it is refused before the first change. `where` replaces the place's own
    words. Privileges that `propagates` must reach the object's contents, too.
    """

    what: str
    privileges: tuple[str, ...]
    place: Place
    recalled: frozenset[str] = frozenset()
    without: str = ""
    where: str = ""
    propagates: bool = False

    @property
    def is_optional(self) -> bool:
        """Whether the work goes on without."""
        return bool(self.without)

    @property
    def on(self) -> str:
        """Return the objects on which the privileges are needed, in words."""
        return self.where or self.place.value


READ_ONLY = ("System.Anonymous", "System.View", "System.Read")
"""vCenter's role Read-only, which every other role contains."""


@dataclass(frozen=True, slots=True)
class Needed:
    """A need on one object, by its moid.

    `attributes` are the custom attributes, by the type that has them and their names, for whose definition it
    is: it is none where they are defined already.
    """

    need: Need
    moid: str
    attributes: frozenset[tuple[str, str]] = frozenset()
