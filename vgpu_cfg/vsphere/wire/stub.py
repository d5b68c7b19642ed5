"""How a pyvmomi call becomes one exchange on a Transport, and when it may be sent twice.

Only two things are repeated: a request that never left, and a request that only reads.
A write whose connection broke may have been carried out, so its error goes to the caller.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any
from xml.parsers.expat import ExpatError

import tenacity
from pyVmomi import vim, vmodl
from pyVmomi.SoapAdapter import SoapResponseDeserializer, SoapStubAdapterBase

from vgpu_cfg.errors import Unreachable, VCenterError
from vgpu_cfg.ports import Transport
from vgpu_cfg.vsphere.wire.transport import NotSent

SDK_PATH = "/sdk"
SESSION_COOKIE = "vmware_soap_session"
ATTEMPTS = 3

_OF_THE_SESSION = frozenset(
    {
        "CreateContainerView",
        "CreateListView",
        "ModifyListView",
        "DestroyView",
        "CreatePropertyCollector",
        "DestroyPropertyCollector",
        "CreateFilter",
        "DestroyPropertyFilter",
    }
)
"""Methods that change nothing but what the session itself holds: sent twice, they leave a spare view."""

_READ_PREFIXES = ("Retrieve", "Query", "Fetch", "fetch", "Has", "Find", "CheckForUpdates", "WaitForUpdates")
_SESSION_BOUND = frozenset(
    {
        "Login",
        "Logout",
        "RetrieveServiceContent",
        "RetrievePropertiesEx",
        "ContinueRetrievePropertiesEx",
        "WaitForUpdatesEx",
        "HasPrivilegeOnEntities",
    }
    | _OF_THE_SESSION
)
"""Methods whose arguments may name a session or its objects: they mean nothing in the next one."""


def is_read(method: str) -> bool:
    """Whether a method, by its WSDL name, changes nothing in vCenter's inventory and may be sent again."""
    return method.startswith(_READ_PREFIXES) or method in _OF_THE_SESSION


class TransportStub(SoapStubAdapterBase):
    """A pyvmomi stub over a Transport. Not to be shared between threads.

    `round_trips` counts exchanges. `renew`, when set, logs in again: a call that the
    server refused for want of a session is sent once more after it, since nothing was done.
    """

    def __init__(
        self,
        transport: Transport,
        version: str,
        address: str,
        sleep: Callable[[float], None] = tenacity.nap.sleep,
    ) -> None:
        untyped: Any = super()
        untyped.__init__(version=version)
        self.requestContext: dict[str, str] = {}
        self.round_trips = 0
        self.renew: Callable[[], None] | None = None
        self._transport = transport
        self._address = address
        self._cookie = ""
        self._sleep = sleep

    def forget_session(self) -> None:
        """Drop the session's cookie."""
        self._cookie = ""

    def InvokeMethod(self, mo: Any, info: Any, args: Any) -> Any:
        """Send one call and return its answer; faults are raised as pyvmomi's own."""
        method: str = info.wsdlName
        try:
            return self._call(mo, info, args)
        except vim.fault.NotAuthenticated:
            if self.renew is None or method in _SESSION_BOUND:
                raise
            self.renew()
            return self._call(mo, info, args)

    def fetch(self, path: str) -> bytes:
        """GET a document beside the API."""
        return self._repeating("GET", path, {}, b"", reads=True)[1]

    def _call(self, mo: Any, info: Any, args: Any) -> Any:
        untyped: Any = self
        body: bytes = untyped.SerializeRequest(mo, info, args)
        headers = {
            "Content-Type": "text/xml; charset=utf-8",
            "SOAPAction": self.versionId,
            "User-Agent": "vgpu-cfg",
            "Accept-Encoding": "gzip",
        }
        if self._cookie:
            headers["Cookie"] = f"{SESSION_COOKIE}={self._cookie}"
        status, answer = self._repeating("POST", SDK_PATH, headers, body, reads=is_read(info.wsdlName))
        return self._decode(info, status, answer)

    def _repeating(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes, *, reads: bool
    ) -> tuple[int, bytes]:
        safe = Unreachable if reads else NotSent
        retrying = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(safe),
            stop=tenacity.stop_after_attempt(ATTEMPTS),
            wait=tenacity.wait_exponential(multiplier=0.5, max=5),
            sleep=self._sleep,
            reraise=True,
        )
        return retrying(self._exchange, method, path, headers, body)

    def _exchange(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        self.round_trips += 1
        status, answer_headers, answer = self._transport.exchange(method, path, headers, body)
        self._take_cookie(answer_headers)
        if status in (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT):
            raise Unreachable(
                f"vCenter's web front answers {status}: its service is not up",
                subject=self._address,
                remedy="wait until vCenter has started, then try again",
            )
        if status not in (HTTPStatus.OK, HTTPStatus.INTERNAL_SERVER_ERROR):
            raise VCenterError(
                f"{method} {path} was answered with HTTP status {status}",
                subject=self._address,
                remedy="check that the address is a vCenter's",
            )
        return status, answer

    def _decode(self, info: Any, status: int, answer: bytes) -> Any:
        method: str = info.wsdlName
        try:
            # The parser takes a body that breaks off for a short one.
            if not answer.rstrip().endswith(b"Envelope>"):
                raise ValueError("the answer breaks off, or is no SOAP")
            value = SoapResponseDeserializer(self).Deserialize(answer, info.result)
        except (ExpatError, AttributeError, KeyError, TypeError, ValueError, IndexError) as error:
            raise VCenterError(
                f"the answer to {method} cannot be read: {error}",
                subject=self._address,
                remedy="if this is a vCenter, report it with `vgpu-cfg record`'s file",
            ) from error
        if status == HTTPStatus.OK:
            return value
        if isinstance(value, vmodl.MethodFault):
            raise value
        raise VCenterError(
            f"{method} failed without saying why",
            subject=self._address,
            remedy="see what vCenter's events say of it, then run the command again",
        )

    def _take_cookie(self, headers: Mapping[str, str]) -> None:
        for name, value in headers.items():
            if name.lower() != "set-cookie":
                continue
            try:
                morsel = SimpleCookie(value).get(SESSION_COOKIE)
            except CookieError:
                continue
            if morsel is not None:
                self._cookie = morsel.coded_value
