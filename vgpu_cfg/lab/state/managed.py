"""The base of the lab's managed objects, and the diary of the events of each, oldest entry first.

Tests compare the diary with the announcements of a plan. No client sees it, and no rule reads it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(slots=True, kw_only=True)
class Managed:
    """One managed object.

    `revision` is the state's counter at its last change (see `LabState.touch`), 0 if it is as the estate made
    it. `wsdl_type` is the type's name on the wire.
    """

    wsdl_type: ClassVar[str] = "ManagedEntity"
    moid_prefix: ClassVar[str] = "object"

    moid: str
    name: str
    parent: str | None = None
    revision: int = 0


KEPT_ENTRIES = 5000

Experience = Literal[
    "link", "network", "power on", "power off", "restart", "move", "register", "reconfigure", "rename",
    "device attach", "device detach", "disk grow", "disk move", "disk delete", "delete", "gpu mode",
    "maintenance", "host down", "host up", "host settings", "cluster settings", "vcenter settings",
    "process end", "session end",
]  # fmt: skip
"""The kinds of events.

"link" is a link that goes down and up, "network" another VLAN or uplink order under a port, another
network or MAC of a NIC. "register" is
another host for a VM that is off, "move" one for a VM that runs, which is stunned for that. "process end" is
that of a process or container in a guest.
"""


@dataclass(frozen=True, slots=True)
class Entry:
    """One experience of one object.

    `kind` is the object's wsdl type, `name` its name at that time.
    `about` is the part that it happened to: a NIC, a disk, a GPU, a setting, a process.
    `cause` is the task that brought it, with its object, and empty for anything else.
    """

    at: float
    kind: str
    moid: str
    name: str
    what: Experience
    about: str = ""
    cause: str = ""
