"""What surrounds one call: the lab, the caller's session and API version, and references to objects."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar

from pyVmomi import VmomiSupport

from vgpu_cfg.lab.api import reflect
from vgpu_cfg.lab.api.versions import NAMESPACE, version_name
from vgpu_cfg.lab.managers.sessions import LAB_CREDENTIALS, Credentials, Session
from vgpu_cfg.lab.state import LabState, Managed, type_on_wire

if TYPE_CHECKING:
    from vgpu_cfg.lab.vcenter import Lab


@dataclass(slots=True, kw_only=True)
class Service(Managed):
    """A managed object that is no inventory: a manager. `owner` is the host or cluster it serves."""

    wsdl_type: ClassVar[str] = "ManagedObject"

    kind: str
    owner: Managed | None = None


@dataclass(slots=True)
class Context:
    """What a method or a renderer may ask. `session` is None before login; `version` is pyvmomi's name."""

    lab: Lab
    version: str
    session: Session | None = None
    credentials: Credentials = LAB_CREDENTIALS
    user_agent: str = ""

    @property
    def state(self) -> LabState:
        """The lab's state as it is now; a stored lab may load another one between calls."""
        return self.lab.state


@cache
def vim_class(wsdl_type: str) -> Any:
    """Return pyvmomi's class of a managed type, by its name on the wire."""
    if wsdl_type == reflect.EXECUTER:
        return reflect.reflect_type(wsdl_type)
    return VmomiSupport.GetWsdlType(NAMESPACE, wsdl_type)


def wire_type(thing: Managed) -> str:
    """Return the name on the wire of an object's type."""
    return thing.kind if isinstance(thing, Service) else type_on_wire(thing)


def reference(thing: Managed) -> Any:
    """Return the managed object reference of an object."""
    return vim_class(wire_type(thing))(thing.moid)


def references(things: Iterable[Managed]) -> list[Any]:
    """Return the references of several objects."""
    return [reference(thing) for thing in things]


def referred(context: Context, moids: Iterable[str]) -> list[Any]:
    """Return the references of objects by moid; one that is gone is left out."""
    objects = context.state.objects
    return [reference(objects[moid]) for moid in moids if moid in objects]


def reference_to(context: Context, moid: str | None) -> Any:
    """Return the reference of one object by moid, None for none."""
    thing = context.state.objects.get(moid or "")
    return None if thing is None else reference(thing)


def vcenter_version(context: Context) -> str:
    """Return the newest API version of this vCenter, by pyvmomi's name."""
    return version_name(context.state.api_version) or context.version
