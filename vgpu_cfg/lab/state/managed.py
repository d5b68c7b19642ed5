"""The base of the lab's managed objects: a moid, a name, a parent and the revision of its last change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar


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
