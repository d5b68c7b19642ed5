"""A Transport that answers from a list, so that a test says what comes over the wire."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyVmomi import VmomiSupport
from pyVmomi.SoapAdapter import SerializeFaultDetail, SerializeToStr

VERSION = "vim.version.v8_0_3_0"
ENVELOPE = (
    '<?xml version="1.0" encoding="UTF-8"?>\n'
    '<soapenv:Envelope xmlns:soapenv="http://schemas.xmlsoap.org/soap/envelope/"'
    ' xmlns:xsd="http://www.w3.org/2001/XMLSchema"'
    ' xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"><soapenv:Body>{}</soapenv:Body></soapenv:Envelope>'
)

Answer = tuple[int, Mapping[str, str], bytes]


def soap(method: str, value: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
    """Make the answer of a method, as a server at API 8.0.3.0 sends it."""
    inner = ""
    if value is not None:
        info = VmomiSupport.Object(name="returnval", type=type(value), version=VERSION, flags=0)
        inner = serialized(value, info)
    body = f'<{method}Response xmlns="urn:vim25">{inner}</{method}Response>'
    return 200, headers or {}, ENVELOPE.format(body).encode()


def serialized(value: Any, info: Any) -> str:
    """Write a value without the namespaces that the envelope declares."""
    names = {
        "urn:vim25": "",
        "http://www.w3.org/2001/XMLSchema": "xsd",
        "http://www.w3.org/2001/XMLSchema-instance": "xsi",
        "http://schemas.xmlsoap.org/soap/envelope/": "soapenv",
    }
    untyped: Any = SerializeToStr
    return str(untyped(value, info, VERSION, names))


def fault(value: Any, message: str = "said so") -> Answer:
    """Make the answer in which a method fails."""
    info = VmomiSupport.Object(name=f"{type(value)._wsdlName}Fault", type=object, version=VERSION, flags=0)
    untyped: Any = SerializeFaultDetail
    detail = untyped(
        value, info, VERSION, {"urn:vim25": "", "http://www.w3.org/2001/XMLSchema-instance": "xsi"}
    )
    body = (
        "<soapenv:Fault><faultcode>ServerFaultCode</faultcode>"
        f"<faultstring>{message}</faultstring><detail>{detail}</detail></soapenv:Fault>"
    )
    return 500, {}, ENVELOPE.format(body).encode()


@dataclass
class Wire:
    """Gives one answer after the other; an exception among them is raised."""

    answers: Sequence[Answer | Exception | Callable[[bytes], Answer]]
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    is_closed: bool = False

    def exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        self.requests.append((method, path, dict(headers), body))
        answer = self.answers[len(self.requests) - 1]
        if isinstance(answer, Exception):
            raise answer
        return answer(body) if callable(answer) else answer

    def close(self) -> None:
        self.is_closed = True
