"""Managed objects in messages: their types, their references, and the types that pyvmomi does not ship.

pyvmomi lacks those by which vCenter passes esxcli to a host. One that is known in this process already (a
client's declaration) is used unchanged; the fields are as govmomi and recorded clients have them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar

from pyVmomi import VmomiSupport, vim

from vgpu_cfg.lab.api.versions import NAMESPACE, STORAGE
from vgpu_cfg.lab.state.inventory import Managed, type_on_wire

EXECUTER = "ReflectManagedMethodExecuter"
_VERSION = "vmodl.reflect.version.version1"
_NAME = "vmodl.reflect.ManagedMethodExecuter"
_untyped: Any = VmomiSupport


def reflect_type(wsdl_name: str) -> Any:
    """Return a type by its name on the wire, whatever its namespace. Raises KeyError."""
    return _untyped.GuessWsdlType(wsdl_name)


def _declare() -> None:
    """Declare the types that are still undeclared: the argument, its result, and the executer."""
    text = ("string", _VERSION, 0)
    optional = ("string", _VERSION, VmomiSupport.F_OPTIONAL)
    data = {
        "SoapArgument": [("name", *text), ("val", *text)],
        "SoapFault": [("faultMsg", *text), ("faultDetail", *optional)],
        "SoapResult": [
            ("response", *optional),
            ("fault", f"{_NAME}.SoapFault", _VERSION, VmomiSupport.F_OPTIONAL),
        ],
    }
    for name, fields in data.items():
        if not _is_known(EXECUTER + name):
            _untyped.CreateDataType(f"{_NAME}.{name}", EXECUTER + name, "vmodl.DynamicData", _VERSION, fields)
    if not _is_known(EXECUTER):
        parameters = (
            *((name, *text, None) for name in ("moid", "version", "method")),
            ("argument", f"{_NAME}.SoapArgument[]", _VERSION, VmomiSupport.F_OPTIONAL, None),
        )
        result = (VmomiSupport.F_OPTIONAL, f"{_NAME}.SoapResult", f"{_NAME}.SoapResult")
        method = ("executeSoap", "ExecuteSoap", _VERSION, parameters, result, None, None)
        _untyped.CreateManagedType(_NAME, EXECUTER, "vmodl.ManagedObject", _VERSION, None, [method])


def _is_known(wsdl_name: str) -> bool:
    try:
        reflect_type(wsdl_name)
    except KeyError:
        return False
    return True


def _parameter(name: str, kind: Any, flags: int = 0) -> Any:
    return VmomiSupport.Object(name=name, type=kind, flags=flags)


def _method(kind: Any, privilege: str, parameters: tuple[Any, ...]) -> Any:
    return VmomiSupport.Object(
        type=kind,
        privId=privilege,
        version=VmomiSupport.BASE_VERSION,
        params=parameters,
        result=type(None),
        resultFlags=0,
    )


_declare()

METHODS: dict[str, Any] = {
    "RetrieveManagedMethodExecuter": _method(vim.HostSystem, "System.Read", ()),
    "RetrieveDynamicTypeManager": _method(vim.HostSystem, "System.Read", ()),
    "ExecuteSoap": _method(
        reflect_type(EXECUTER),
        "System.View",
        (
            *(_parameter(name, str) for name in ("moid", "version", "method")),
            _parameter(
                "argument",
                _untyped.CreateArrayType(reflect_type(f"{EXECUTER}SoapArgument")),
                VmomiSupport.F_OPTIONAL,
            ),
        ),
    ),
}
"""Method → pyvmomi's description of it. The privilege that `ExecuteSoap` requires is documented nowhere."""


@dataclass(slots=True, kw_only=True)
class Service(Managed):
    """A managed object that is no inventory: a manager. `owner` is the host or cluster it serves."""

    wsdl_type: ClassVar[str] = "ManagedObject"

    kind: str
    owner: Managed | None = None


@cache
def vim_class(wsdl_type: str) -> Any:
    """Return pyvmomi's class of a managed type, by its name on the wire."""
    if wsdl_type == EXECUTER:
        return reflect_type(wsdl_type)
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
