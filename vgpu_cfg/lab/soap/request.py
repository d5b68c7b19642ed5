"""Turn a SOAP request into a method call: the object it is for, the method, its arguments.

The arguments are read by pyvmomi's own deserialiser, each by the type that the method
declares for it, so that morefs, enums, arrays and derived types arrive as a client meant them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from xml.parsers import expat

from pyVmomi import SoapAdapter, VmomiSupport, vmodl

from vgpu_cfg.lab.api import references
from vgpu_cfg.lab.api.versions import NAMESPACE

ENVELOPE = f"{SoapAdapter.XMLNS_SOAPENV}{SoapAdapter.NS_SEP}Envelope"
BODY = f"{SoapAdapter.XMLNS_SOAPENV}{SoapAdapter.NS_SEP}Body"
_TOKEN = ["Envelope", "Header", "Security", "Assertion", "Subject", "NameID"]
_COOKIE = ["Envelope", "Header", "vcSessionCookie"]
FETCH = "Fetch"
"""pyvmomi's `obj.property` travels as this method, which no type declares."""

FETCH_PARAMETER: Any = VmomiSupport.Object(name="prop", type=str, version=VmomiSupport.BASE_VERSION, flags=0)


@dataclass(slots=True)
class MethodCall:
    """One decoded request. `info` is pyvmomi's method information, None for `Fetch`.

    `token_subject` is whom a token of the header names, `cookie` the session that the header
    `vcSessionCookie` names, "" without one.
    """

    name: str
    info: Any = None
    subject: Any = None
    arguments: dict[str, Any] = field(default_factory=dict)
    token_subject: str = ""
    cookie: str = ""

    @property
    def is_storage(self) -> bool:
        """Whether it is of the API of storage policies."""
        return self.name.startswith("Pbm")


class BadRequestError(Exception):
    """The bytes are not a request that a vCenter would accept; `fault` is the answer."""

    def __init__(self, fault: Any) -> None:
        super().__init__(fault.msg)
        self.fault = fault


def _invalid_request(message: str) -> BadRequestError:
    return BadRequestError(vmodl.fault.InvalidRequest(msg=message))


def read_request(body: bytes, namespace: str = NAMESPACE) -> MethodCall:
    """Decode a SOAP envelope for the API of a namespace.

    Raises BadRequestError, its fault InvalidRequest.
    Every declared parameter is in `arguments`: unset ones as None, unset arrays as empty ones.
    """
    reader = _RequestReader(namespace)
    try:
        reader.parser.Parse(body, True)
    except expat.ExpatError as error:
        message = f"The request is not well-formed XML: {error}"
        raise _invalid_request(message) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"The request cannot be read: {error}"
        raise _invalid_request(message) from error
    if reader.call is None:
        message = "The request has no SOAP body"
        raise _invalid_request(message)
    reader.call.token_subject = reader.token_subject.strip()
    reader.call.cookie = reader.cookie.strip().strip('"')
    _require_all(reader.call)
    return reader.call


def _require_all(call: MethodCall) -> None:
    if call.subject is None:
        message = f"{call.name}: _this is missing"
        raise _invalid_request(message)
    for parameter in call.info.params if call.info else ():
        optional = parameter.flags & VmomiSupport.F_OPTIONAL
        is_list = issubclass(parameter.type, list)
        if call.arguments[parameter.name] is None and not optional and not is_list:
            message = f"{call.name}: the required parameter {parameter.name} is missing"
            raise _invalid_request(message)


class _RequestReader(SoapAdapter.ExpatDeserializerNSHandlers):
    """expat's handlers down to the parameters; below each of them pyvmomi's take over."""

    def __init__(self, namespace: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]  # pyvmomi is untyped
        self.parser = expat.ParserCreate(namespace_separator=SoapAdapter.NS_SEP)
        self.parser.buffer_text = True
        self.path: list[str] = []
        self.call: MethodCall | None = None
        self.namespace = namespace
        self.token_subject = ""
        self.cookie = ""
        self.pending: tuple[str, SoapAdapter.SoapDeserializer] | None = None
        SoapAdapter.SetHandlers(self.parser, SoapAdapter.GetHandlers(self))

    def StartElementHandler(self, tag: str, attributes: dict[str, str]) -> None:
        self._collect()
        depth = len(self.path)
        if self.path[:2] == [ENVELOPE, BODY] and depth == 2:
            self._start_method(tag)
        elif self.path[:2] == [ENVELOPE, BODY] and depth == 3:
            self._start_parameter(tag, attributes)
            return
        self.path.append(tag)

    def EndElementHandler(self, tag: str) -> None:
        self._collect()
        self.path.pop()

    def CharacterDataHandler(self, data: str) -> None:
        """Take whom a token names, and the session of a cookie; the rest is white space."""
        if len(self.path) == len(_COOKIE) and [_local(tag) for tag in self.path] == _COOKIE:
            self.cookie += data
        if len(self.path) == len(_TOKEN) and [_local(tag) for tag in self.path] == _TOKEN:
            self.token_subject += data

    def _start_method(self, tag: str) -> None:
        if self.call is not None:
            message = "The SOAP body holds more than one method"
            raise _invalid_request(message)
        name = tag.rpartition(SoapAdapter.NS_SEP)[2]
        if name == FETCH:
            self.call = MethodCall(name, None, None, {"prop": None})
            return
        try:
            info = references.METHODS.get(name) or VmomiSupport.GetWsdlMethod(self.namespace, name).info
        except KeyError:
            # So a vCenter says it, with these words (yavijava's issue 181, node-soap's issue 668).
            message = f"Unable to resolve WSDL method name {name} for namespace name {self.namespace}"
            raise _invalid_request(message) from None
        arguments = {p.name: p.type() if issubclass(p.type, list) else None for p in info.params}
        self.call = MethodCall(name, info, None, arguments)

    def _start_parameter(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition(SoapAdapter.NS_SEP)[2]
        expected = self._expected_type(name)
        reader = SoapAdapter.SoapDeserializer()
        reader.Deserialize(self.parser, expected, nsMap=self.nsMap)
        self.pending = name, reader
        reader.StartElementHandler(tag, attributes)

    def _expected_type(self, name: str) -> Any:
        call = self.call
        if name == "_this" or call is None:
            return VmomiSupport.ManagedObject
        for parameter in call.info.params if call.info else (FETCH_PARAMETER,):
            if parameter.name == name:
                return parameter.type.Item if issubclass(parameter.type, list) else parameter.type
        message = f"{call.name} has no parameter {name}"
        raise _invalid_request(message)

    def _collect(self) -> None:
        """Take the parameter that pyvmomi's reader has just ended."""
        if self.pending is None or self.call is None:
            return
        name, reader = self.pending
        self.pending = None
        value = reader.GetResult()
        if name == "_this":
            self.call.subject = value
        elif isinstance(self.call.arguments[name], list):
            self.call.arguments[name].append(value)
        else:
            self.call.arguments[name] = value


def _local(tag: str) -> str:
    """Return an element's name without its namespace."""
    return tag.rpartition(SoapAdapter.NS_SEP)[2]
