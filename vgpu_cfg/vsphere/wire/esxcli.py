"""esxcli without a shell: commands sent to a host through vCenter, refusals, and the API types for it.

vCenter passes the call on to the object on the host that serves the command's name space
(`ha-cli-handler-…`). The mechanism is not published; govmomi and older pyvmomi show it. The privilege it
requires is documented nowhere, so a refusal names the command that was tried.

The API types are those of the executer through which vCenter passes on esxcli commands. pyvmomi does not ship
them.

`HostSystem.RetrieveManagedMethodExecuter` and the `reflect` types are in no published API. Their fields are
as govmomi and older pyvmomi have them, tried on govmomi's simulator. A type that has already been declared in
this process is used unchanged.

Belief: esxcli-through-vcenter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat
from xml.sax.saxutils import escape

from pyVmomi import VmomiSupport, vim, vmodl

from vgpu_cfg.errors import NotFound, NotOffered, NotPermitted, VCenterError
from vgpu_cfg.vsphere.wire.allowances import patient
from vgpu_cfg.vsphere.wire.faults import is_not_offered, to_error
from vgpu_cfg.vsphere.wire.session import Session

SOFTWARE_SECONDS = 900.0
"""How long a command of `esxcli software` may take: it answers only once packages are fetched and installed.
A number of this tool's own."""

_SOFTWARE = "software."
_COMMAND = re.compile(r"[a-z0-9]+(?:\.[a-z0-9]+)+")
_ARGUMENT = re.compile(r"[a-z0-9]+")
_API = "urn:vim25/5.0"
_HANDLER = "ha-cli-handler-"
_NO_SUCH_COMMAND = frozenset(
    {"NotFound", "ManagedObjectNotFound", "MethodNotFound", "NotSupported", "NotImplemented"}
)
"""Types of faults that say that the host has no such command, by their names on the wire (unproven but for
NotFound, which govmomi's simulator sends)."""
_NO_PERMISSION = "NoPermission"
_SUMMARY_ONLY = "EsxCLI.CLIFault.summary"
"""The text that a failing command has in place of its message; the message itself is in the detail."""

_VERSION = "vmodl.reflect.version.version1"
_PREFIX = "vmodl.reflect.ManagedMethodExecuter"
_EXECUTER = "ReflectManagedMethodExecuter"
_DECLARED_TYPES_ARGUMENT = f"{_EXECUTER}SoapArgument"
_OPTIONAL = VmomiSupport.F_OPTIONAL


class Esxcli:
    """esxcli on one host: one round trip for its executer, then one for each command.

    `subject` names the host in errors.
    """

    def __init__(self, session: Session, host_moid: str, subject: str = "") -> None:
        self._session = session
        self._host = vim.HostSystem(host_moid, session.stub)
        self._subject = subject or host_moid
        self._executer: Any = None

    def call(self, command: str, arguments: Sequence[tuple[str, str]] = ()) -> str:
        """Run a command and return its answer, an XML text.

        `command` is "system.settings.kernel.list", or the same with blanks. Arguments are long options with
        their values; one that is named twice is a list. Raises NotOffered if the server or the host lacks the
        command, NotPermitted, else VCenterError with the message of the command. ValueError for a name that
        can be no command or option.
        """
        path = ".".join(command.split())
        if not _COMMAND.fullmatch(path):
            raise ValueError(f"{command!r} is not an esxcli command")
        sent = _soap_arguments(arguments)
        what = f"esxcli {path.replace('.', ' ')}"
        is_fresh = self._executer is None
        try:
            result = self._execute(path, sent)
        except vmodl.fault.ManagedObjectNotFound as fault:
            if is_fresh or _moid(fault) != str(self._executer._moId):
                raise self._error(fault, what) from fault
            # It belonged to a session that has ended; nothing was done.
            self._executer = None
            return self.call(command, arguments)
        except vmodl.MethodFault as fault:
            raise self._error(fault, what) from fault
        if result is None:
            return ""
        if result.fault is not None:
            raise _refusal(result.fault, what, self._subject)
        return str(result.response or "")

    def _execute(self, path: str, arguments: list[Any]) -> Any:
        if self._executer is None:
            self._executer = retrieve_executer(self._host)
            if self._executer is None:
                raise vmodl.fault.NotSupported(msg="The host has no executer.")
        with patient(SOFTWARE_SECONDS if path.startswith(_SOFTWARE) else 0.0):
            return self._executer.ExecuteSoap(
                moid=_HANDLER + path.rpartition(".")[0].replace(".", "-"),
                version=_API,
                method=f"vim.EsxCLI.{path}",
                argument=arguments,
            )

    def _error(self, fault: vmodl.MethodFault, what: str) -> VCenterError:
        if isinstance(fault, vmodl.fault.ManagedObjectNotFound) and not _moid(fault).startswith(_HANDLER):
            return NotFound(
                f"{what}: {_moid(fault) or 'the host'} no longer exists",
                subject=self._subject,
                remedy="plan again; the inventory has changed",
            )
        if is_not_offered(fault):
            return NotOffered(
                f"{what}: not available on this vCenter or host ({type(fault)._wsdlName})",
                subject=self._subject,
                remedy="run the command in the host's shell",
            )
        return to_error(fault, what, self._subject)


def _soap_arguments(arguments: Sequence[tuple[str, str]]) -> list[Any]:
    """Write each option as XML; the names of options lose their dashes there, and take lower case."""
    found: dict[str, list[str]] = {}
    for option, value in arguments:
        name = option.replace("-", "").lower()
        if not _ARGUMENT.fullmatch(name):
            raise ValueError(f"{option!r} is not an esxcli option")
        found.setdefault(name, []).append(f"<{name}>{escape(value)}</{name}>")
    return [soap_argument(name, "".join(values)) for name, values in found.items()]


def _moid(fault: vmodl.fault.ManagedObjectNotFound) -> str:
    return str(getattr(getattr(fault, "obj", None), "_moId", ""))


@dataclass(slots=True)
class _Detail:
    """The content of a fault's detail: types, the command's own lines, the missing privilege."""

    types: set[str] = field(default_factory=set)
    lines: list[str] = field(default_factory=list)
    privileges: list[str] = field(default_factory=list)


def _refusal(fault: Any, what: str, subject: str) -> VCenterError:
    """Turn a fault of ExecuteSoap's result into this project's error."""
    detail = _read_detail(fault.faultDetail or "")
    said = " ".join(" ".join(detail.lines).split())
    if not said and fault.faultMsg != _SUMMARY_ONLY:
        said = " ".join((fault.faultMsg or "").split())
    if _NO_PERMISSION in detail.types:
        named = ", ".join(detail.privileges) or "the required privilege (vCenter does not specify which)"
        return NotPermitted(
            f"{what}: the account does not have {named}",
            subject=subject,
            remedy=f"request a role with {named} on the host (docs/reference/permissions.md)",
        )
    if not detail.lines and detail.types & _NO_SUCH_COMMAND:
        return NotOffered(
            f"{what}: not available on this host ({said or 'no reason given'})",
            subject=subject,
            remedy="run the command in the host's shell",
        )
    return VCenterError(
        f"{what}: {said or 'failed without giving a reason'}",
        subject=subject,
        remedy="run the command in the host's shell for details",
    )


def _read_detail(text: str) -> _Detail:
    """Read a fault's detail; one that is no XML says nothing."""
    detail = _Detail()
    inside: list[str] = []
    parser = expat.ParserCreate()

    def start(name: str, attributes: dict[str, str]) -> None:
        inside.append("")
        detail.types.update({_local(name), _local(name).removesuffix("Fault")})
        for key, value in attributes.items():
            if _local(key) == "type":
                detail.types.add(_local(value))

    def end(name: str) -> None:
        content = inside.pop().strip()
        if content and _local(name) == "errMsg":
            detail.lines.append(content)
        elif content and _local(name) == "privilegeId":
            detail.privileges.append(content)

    def data(more: str) -> None:
        inside[-1] += more

    parser.StartElementHandler = start
    parser.EndElementHandler = end
    parser.CharacterDataHandler = data
    try:
        parser.Parse(text, True)
    except expat.ExpatError:
        return _Detail()
    return detail


def _local(name: str) -> str:
    return name.rpartition(":")[2]


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
        "SoapResult", [("response", *optional_text), ("fault", f"{_PREFIX}.SoapFault", _VERSION, _OPTIONAL)]
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
    """Return the executer's vmodl name, which its first declaration sets."""
    return str(VmomiSupport.GuessWsdlType(_EXECUTER).__name__)


def soap_argument(name: str, value: str) -> Any:
    """Make an argument of `ExecuteSoap`; `value` is XML."""
    return VmomiSupport.GuessWsdlType(_DECLARED_TYPES_ARGUMENT)(name=name, val=value)


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
