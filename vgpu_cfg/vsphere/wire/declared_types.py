"""The API types that pyvmomi does not ship: the executer through which vCenter passes on esxcli commands.

`HostSystem.RetrieveManagedMethodExecuter` and the `reflect` types stand in no published API. Their
fields are as govmomi and older pyvmomi have them, tried on govmomi's simulator. A type that
somebody in this process has declared already is used as it is.
"""

from __future__ import annotations

from typing import Any

from pyVmomi import VmomiSupport

_VERSION = "vmodl.reflect.version.version1"
_PREFIX = "vmodl.reflect.ManagedMethodExecuter"
_EXECUTER = "ReflectManagedMethodExecuter"
_ARGUMENT = f"{_EXECUTER}SoapArgument"
_OPTIONAL = VmomiSupport.F_OPTIONAL


def _is_known(wsdl_name: str) -> bool:
    try:
        VmomiSupport.GuessWsdlType(wsdl_name)
    except KeyError:
        return False
    return True


def _declare_data(name: str, fields: list[tuple[str, str, str, int]]) -> None:
    if not _is_known(f"{_EXECUTER}{name}"):
        untyped: Any = VmomiSupport.CreateDataType
        untyped(f"{_PREFIX}.{name}", f"{_EXECUTER}{name}", "vmodl.DynamicData", _VERSION, fields)


def _declare() -> None:
    text = ("string", _VERSION, 0)
    optional_text = ("string", _VERSION, _OPTIONAL)
    _declare_data("SoapArgument", [("name", *text), ("val", *text)])
    _declare_data("SoapFault", [("faultMsg", *text), ("faultDetail", *optional_text)])
    _declare_data(
        "SoapResult",
        [("response", *optional_text), ("fault", f"{_PREFIX}.SoapFault", _VERSION, _OPTIONAL)],
    )
    untyped: Any = VmomiSupport.CreateManagedType
    if not _is_known(_EXECUTER):
        parameters = (
            ("moid", *text, None),
            ("version", *text, None),
            ("method", *text, None),
            ("argument", f"{_PREFIX}.SoapArgument[]", _VERSION, _OPTIONAL, None),
        )
        result = (_OPTIONAL, f"{_PREFIX}.SoapResult", f"{_PREFIX}.SoapResult")
        method = ("executeSoap", "ExecuteSoap", _VERSION, parameters, result, None, None)
        untyped(_PREFIX, _EXECUTER, "vmodl.ManagedObject", _VERSION, None, [method])
    # govmomi's simulator answers with this name for the same type.
    if not _is_known("ManagedMethodExecuter"):
        untyped(
            f"{_PREFIX}Simulated",
            "ManagedMethodExecuter",
            _executer_name(),
            "vim.version.version7",
            None,
            None,
        )


def _executer_name() -> str:
    """Return the executer's vmodl name, which whoever declared it first has chosen."""
    return str(VmomiSupport.GuessWsdlType(_EXECUTER).__name__)


def soap_argument(name: str, value: str) -> Any:
    """Make an argument of `ExecuteSoap`; `value` is XML."""
    return VmomiSupport.GuessWsdlType(_ARGUMENT)(name=name, val=value)


def retrieve_executer(host: Any) -> Any:
    """Ask a host (vim `HostSystem`) for its executer, None where it gives none. Raises pyvmomi's faults."""
    return host._stub.InvokeMethod(host, _retrieve().info, ())


def _retrieve() -> Any:
    untyped: Any = VmomiSupport.ManagedMethod
    return untyped(
        VmomiSupport.LazyObject(
            name="RetrieveManagedMethodExecuter",
            typeName="vim.HostSystem",
            wsdlName="RetrieveManagedMethodExecuter",
            version="vim.version.version7",
            params=(),
            isTask=False,
            resultFlags=_OPTIONAL,
            resultName=_executer_name(),
            methodResultName=_executer_name(),
            privId="System.Read",
            faults=[],
        )
    )


_declare()
