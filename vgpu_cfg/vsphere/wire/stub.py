"""Send a pyvmomi call as one exchange on a Transport, and repeat it only if that is safe.

Only two things are repeated: a request that never left, and a request that only reads. A write whose
connection broke may have been carried out. Once vCenter answers again the task of such a call is searched
for; if none is found, its error goes to the caller, who must check the object of the call.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any, Protocol

from pyVmomi import VmomiSupport, vim, vmodl
from pyVmomi.SoapAdapter import SoapStubAdapterBase

from vgpu_cfg.errors import AnswerLost, NotSent, Unreachable, VCenterError
from vgpu_cfg.ports import Transport
from vgpu_cfg.vsphere.wire.allowances import PATIENCE, patient
from vgpu_cfg.vsphere.wire.decoding import Decoder, Found, Read, Shape, UnreadableAnswer
from vgpu_cfg.vsphere.wire.flight import travelling
from vgpu_cfg.vsphere.wire.outage import Outage

Answer = tuple[int, bytes]
"""Status and content of an answer that is not decoded yet."""

SDK_PATH = "/sdk"
SESSION_COOKIE = "vmware_soap_session"

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
"""Methods that change only the content of the session itself: sent twice, they leave a spare view."""

_HARMLESS = frozenset({"Login", "LoginByToken", "CurrentTime", "SetField", "ReconfigureAlarm", "RemoveAlarm"})
"""Methods that may be sent again although their names do not show it: a second login is a spare session, and
a value that is set twice, or removed twice, has the wanted result.
"""

_READ_PREFIXES = (
    *("Retrieve", "Query", "Fetch", "fetch", "Get", "Has", "Find", "CheckForUpdates", "WaitForUpdates"),
    *("PbmRetrieve", "PbmQuery", "PbmCheck"),
    *("DirectPathProfileManagerList", "DirectPathProfileManagerQuery"),
)
_SESSION_BOUND = frozenset(
    {
        "Login",
        "LoginByToken",
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
    return method.startswith(_READ_PREFIXES) or method in _OF_THE_SESSION or method in _HARMLESS


class Unreadable(VCenterError):
    """An answer is none of this API."""


class Login(Protocol):
    """The function that logs in again; `renewals` counts how often it has."""

    renewals: int

    def renew(self) -> None:
        """Log in again."""
        ...


class TransportStub(SoapStubAdapterBase):
    """A pyvmomi stub over a Transport. Threads share it only as `wire.flight` has it.

    `round_trips` counts exchanges. `login`, when set, logs in again: a call that the
    server refused for want of a session is sent once more after it, since nothing was done.
    `find_task`, when set, returns the task of a call whose answer was lost, by the call's object, its
    method and how long ago it was sent. `outage` says how long a server that is away is waited for, `path`
    where on it the API is.
    """

    def __init__(
        self,
        transport: Transport,
        version: str,
        address: str,
        outage: Outage | None = None,
        path: str = SDK_PATH,
    ) -> None:
        untyped: Any = super()
        untyped.__init__(version=version)
        self.requestContext: dict[str, str] = {}
        self.samlToken: str | None = None
        self.round_trips = 0
        self.login: Login | None = None
        self.find_task: Callable[[Any, str, timedelta], Any | None] | None = None
        self.tasks: set[str] = set()
        self.outage = outage or Outage()
        self._transport = transport
        self._address = address
        self._path = path
        self._cookie = ""
        self._decoder = Decoder(self)

    @property
    def cookie(self) -> str:
        """The value of the session's cookie."""
        return self._cookie.strip('"')

    def speak(self, version: str) -> None:
        """Speak a newer version from now on, also on objects that came before."""
        untyped: Any = self
        untyped.ComputeVersionInfo(version)
        self._decoder = Decoder(self)

    def forget_session(self) -> None:
        """Drop the session's cookie."""
        self._cookie = ""

    def InvokeMethod(self, mo: Any, info: Any, args: Any) -> Any:
        """Send one call and return its answer; faults are raised as pyvmomi's own."""
        sent_at = self.outage.now()
        try:
            found = self._renewing(mo, info, args)
        except AnswerLost:
            found = self._find_task(mo, info, sent_at)
            if found is None:
                raise
        if isinstance(found, vim.Task):
            self.tasks.add(str(found._moId))
        return found

    def _renewing(self, mo: Any, info: Any, args: Any) -> Any:
        login = self.login
        renewals = 0 if login is None else login.renewals
        try:
            return self._call(mo, info, args)
        except vim.fault.NotAuthenticated:
            if login is None or info.wsdlName in _SESSION_BOUND:
                raise
            if login.renewals == renewals:
                login.renew()
            return self._call(mo, info, args)

    def _find_task(self, mo: Any, info: Any, sent_at: datetime) -> Any | None:
        """Return the task of a call whose answer was lost, if its method starts one and it is known."""
        if self.find_task is None or not info.wsdlName.endswith("_Task"):
            return None
        return self.find_task(mo, info.wsdlName, self.outage.now() - sent_at)

    def _call(self, mo: Any, info: Any, args: Any) -> Any:
        return self._decode(info, *self.send(mo, info, args))

    def objects(
        self, info: Any, answer: Answer, readers: Mapping[str, Read], turn: Callable[[str], None]
    ) -> Iterator[Found]:
        """Yield the objects of a page of properties; faults are raised as pyvmomi's own.

        See `Decoder.objects`. Raises VCenterError for any other answer.
        """
        status, content = answer
        try:
            yield from self._decoder.objects(content, readers, turn)
        except UnreadableAnswer as error:
            raise self._unreadable(info, error) from error
        if status != HTTPStatus.OK:
            raise self._unexplained(info)

    def readers(self, type_name: str, paths: Iterable[str], kept: Mapping[str, Shape]) -> dict[str, Read]:
        """Return what reads the properties of a type whose kept parts are known, by their paths."""
        return self._decoder.readers(type_name, paths, kept)

    def send(self, mo: Any, info: Any, args: Any) -> Answer:
        """Send one call and return the raw answer."""
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

        def ask() -> tuple[int, bytes]:
            return self._exchange(headers, body)

        reads = is_read(info.wsdlName)
        with patient(_takes(info, args)):
            try:
                status, answer = self.outage.ride(ask, lambda lost: reads or isinstance(lost, NotSent))
            except NotSent:
                raise
            except Unreachable as lost:
                if not reads and self.outage.is_known:
                    raise self._lost(lost) from lost
                raise
        return status, answer

    def _lost(self, lost: Unreachable) -> Unreachable:
        """Wait for the server; return what to raise of a call that it may have carried out."""
        try:
            vim.ServiceInstance("ServiceInstance", self).RetrieveContent()
        except (Unreachable, vmodl.MethodFault):
            return lost
        return AnswerLost(lost.message, subject=lost.subject, remedy=lost.remedy)

    def _exchange(self, headers: Mapping[str, str], body: bytes) -> tuple[int, bytes]:
        self.round_trips += 1
        cookie = self._cookie
        with travelling():
            status, answer_headers, answer = self._transport.exchange("POST", self._path, headers, body)
        if self._cookie == cookie:
            self._take_cookie(answer_headers)  # else somebody has logged in since, and this one is older
        if status in (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT):
            raise Unreachable(
                f"vCenter's web server returned {status}: the vCenter service is not running",
                subject=self._address,
                remedy="wait until vCenter has started, then try again",
            )
        if status not in (HTTPStatus.OK, HTTPStatus.INTERNAL_SERVER_ERROR):
            raise VCenterError(
                f"POST {self._path} failed with HTTP status {status}",
                subject=self._address,
                remedy="check that the address belongs to a vCenter",
            )
        return status, answer

    def _decode(self, info: Any, status: int, answer: bytes) -> Any:
        try:
            value = self._decoder.read(answer, info.result)
        except UnreadableAnswer as error:
            raise self._unreadable(info, error) from error
        if status == HTTPStatus.OK:
            if value is None and _must_answer(info):
                raise self._unreadable(info, UnreadableAnswer("it is empty"))
            return value
        if isinstance(value, vmodl.MethodFault):
            raise value
        raise self._unexplained(info)

    def _unreadable(self, info: Any, error: UnreadableAnswer) -> Unreadable:
        return Unreadable(
            f"cannot read the response to {info.wsdlName}: {error}",
            subject=self._address,
            remedy=("if this is a vCenter, record it with `vgpu-cfg inventory --record FILE` and report it"),
        )

    def _unexplained(self, info: Any) -> VCenterError:
        return VCenterError(
            f"{info.wsdlName} failed without giving a reason",
            subject=self._address,
            remedy="check the related vCenter events, then run the command again",
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


def _must_answer(info: Any) -> bool:
    """Whether a method always returns a value, by the API's own description."""
    is_void = issubclass(info.result, type(None))
    return not (is_void or issubclass(info.result, list) or info.resultFlags & VmomiSupport.F_OPTIONAL)


def _takes(info: Any, args: Any) -> float:
    """Return how many seconds a call takes by itself: a wait for updates is answered once it has ended."""
    if info.wsdlName != "WaitForUpdatesEx":
        return PATIENCE.get()
    options = args[1] if len(args) > 1 else None
    return float(getattr(options, "maxWaitSeconds", None) or 0)
