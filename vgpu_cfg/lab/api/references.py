"""Names of managed objects in messages: their types, their references, and managers as objects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from pyVmomi import VmomiSupport

from vgpu_cfg.lab.api import reflect
from vgpu_cfg.lab.api.versions import NAMESPACE, STORAGE
from vgpu_cfg.lab.state.inventory import Managed, type_on_wire


@dataclass(slots=True, kw_only=True)
class Service(Managed):
    """A managed object that is no inventory: a manager. `owner` is the host or cluster it serves."""

    wsdl_type: ClassVar[str] = "ManagedObject"

    kind: str
    owner: Managed | None = None


@cache
def vim_class(wsdl_type: str) -> Any:
    """Return pyvmomi's class of a managed type, by its name on the wire."""
    if wsdl_type == reflect.EXECUTER:
        return reflect.reflect_type(wsdl_type)
    is_storage = wsdl_type.startswith("Pbm")
    return VmomiSupport.GetWsdlType(STORAGE if is_storage else NAMESPACE, wsdl_type)


def wire_type(thing: Managed) -> str:
    """Return the name on the wire of an object's type."""
    return thing.kind if isinstance(thing, Service) else type_on_wire(thing)


def reference(thing: Managed) -> Any:
    """Return the managed object reference of an object."""
    return vim_class(wire_type(thing))(thing.moid)


def references(things: Iterable[Managed]) -> list[Any]:
    """Return the references of several objects."""
    return [reference(thing) for thing in things]
