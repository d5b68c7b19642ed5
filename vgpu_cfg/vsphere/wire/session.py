"""A login at a vCenter: version settled, session opened, renewed once when it has ended, and closed.

Everything else in this room works through a Session; none of it sees a password.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from pyVmomi import vim, vmodl

from vgpu_cfg.errors import LoginFailed, NotFound, Unreachable, VCenterError, VersionTooOld
from vgpu_cfg.model.observed.inventory import VCenter
from vgpu_cfg.model.plan_values import Limits
from vgpu_cfg.ports import Transport
from vgpu_cfg.vsphere.wire import versions
from vgpu_cfg.vsphere.wire.faults import fault_text, to_error, translated
from vgpu_cfg.vsphere.wire.flight import alone, together
from vgpu_cfg.vsphere.wire.lost_tasks import find_task
from vgpu_cfg.vsphere.wire.outage import Outage
from vgpu_cfg.vsphere.wire.rest import RestClient, basic, signed
from vgpu_cfg.vsphere.wire.stub import TransportStub, Unreadable

STORAGE_PATH = "/pbm"
STORAGE_VERSION = "pbm.version.version11"
"""Of vCenter 6.5, which brought the question whether datastores fit a policy (`PbmCheckRequirements`)."""

Result = TypeVar("Result")
Thing = TypeVar("Thing")
PasswordSource = str | Callable[[], str]
_PROLOGUE = re.compile(r"\A\s*<\?xml[^>]*\?>")
_ASSERTION = re.compile(r"<([\w.-]+:|)Assertion\s[^!]*</\1Assertion>")
"""An element of SAML 2.0 without a document type or a comment."""


class Session:
    """A login, as a context manager: entering opens it, leaving logs out and closes the transport.

    `password` may be a function: it is called when the login is made, not before, and again
    where the session has to be renewed. So is `token`, which goes before it: a SAML token of vCenter's single
    sign-on, which says who logs in (bearer: LoginByToken of the vSphere API reference).
    `attribute_keys` holds keys of custom attributes by their names, for each type of objects. `in_flight`
    says how many requests may be on their way at once, `alarm_folder` the inventory path of the folder that
    gets the alarms of runs; without it that is the root folder.
    """

    def __init__(
        self,
        transport: Transport,
        address: str,
        user: str,
        password: PasswordSource,
        *,
        token: Callable[[], str] | None = None,
        outage: Outage | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.address = address
        self.alarm_folder = ""
        self._alarm_home: Any = None
        self.user = user
        self.renewals = 0
        self.attribute_keys: dict[str, dict[str, int]] = {}
        self._brought: tuple[int, Mapping[str, Mapping[str, Any]]] = (0, {})
        self._transport = transport
        self._password = password
        self._token = token
        self.outage = outage or Outage()
        self.limits = limits or Limits()
        self.in_flight = 1
        self.rest = RestClient(transport, address, self._authorization, self.outage)
        """The REST API, with a login only at its first use."""
        self._stub: TransportStub | None = None
        self._storage: TransportStub | None = None
        self._content: Any = None
        self._view: Any = None
        self._key: str = ""
        self._user_name: str = ""

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> Self:
        """Settle the version and log in; where that fails the transport is closed.

        Raises Unreachable, CertificateRejected, VersionTooOld, LoginFailed.
        """
        try:
            self._open()
        except BaseException:
            self._transport.close()
            raise
        return self

    def close(self) -> None:
        """Log out, and close the transport. Errors at logout are ignored."""
        try:
            self.outage.is_known = False  # nobody waits in order to log out
            self.rest.close()
            if self._key and self._content is not None:
                with contextlib.suppress(VCenterError, vmodl.MethodFault):
                    self._content.sessionManager.Logout()
        finally:
            self._key = ""
            self._transport.close()

    @property
    def stub(self) -> TransportStub:
        """The pyvmomi stub of this session."""
        if self._stub is None:
            raise RuntimeError("the session is not open")
        return self._stub

    @property
    def service_content(self) -> Any:
        """The roots of the API (vim `ServiceInstanceContent`)."""
        if self._content is None:
            raise RuntimeError("the session is not open")
        return self._content

    @property
    def root_moid(self) -> str:
        """The id of the root folder."""
        return str(self.service_content.rootFolder._moId)

    @property
    def alarm_home(self) -> Any:
        """The folder that gets the alarms of runs: locks and reservations. One round trip if one is named.

        Raises NotFound if there is no such folder.
        """
        if not self.alarm_folder:
            return self.service_content.rootFolder
        if self._alarm_home is None:
            with translated("looking up the folder for locks", self.address):
                found = self.service_content.searchIndex.FindByInventoryPath(self.alarm_folder.strip("/"))
            if not isinstance(found, vim.Folder):
                raise NotFound(
                    f"the folder for locks, {self.alarm_folder!r}, does not exist",
                    subject=self.address,
                    remedy="create it, or correct the context's `locks: {at: …}`: the inventory path of a "
                    "folder, such as /dc1/vm/vgpu-cfg",
                )
            self._alarm_home = found
        return self._alarm_home

    def bring(self, objects: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep properties of objects, by their moids, that came unasked; until something else is asked."""
        self._brought = self.round_trips, objects

    def take_brought(self, moids: Collection[str]) -> Mapping[str, Mapping[str, Any]] | None:
        """Return the properties of objects that came with the last answer; None unless all of these did.

        Once: a second read needs their then current values.
        """
        asked, objects = self._brought
        self._brought = (0, {})
        return objects if asked == self.round_trips and objects.keys() >= set(moids) else None

    @property
    def has_view(self) -> bool:
        """Whether `view` was made already."""
        return self._view is not None

    def forget_view(self) -> None:
        """Let `view` be made anew."""
        self._view = None

    @property
    def view(self) -> Any:
        """A view (vim `ContainerView`) of every object below the root: made once, gone with the session."""
        if self._view is None:
            content = self.service_content
            self._view = content.viewManager.CreateContainerView(content.rootFolder, [], True)
        return self._view

    @property
    def key(self) -> str:
        """vCenter's key of this session, which its own privilege checks ask for."""
        return self._key

    @property
    def account(self) -> str:
        """The account as vCenter spells it."""
        return self._user_name

    @property
    def round_trips(self) -> int:
        """How many exchanges this session has made."""
        stubs = sum(stub.round_trips for stub in (self._stub, self._storage) if stub is not None)
        return stubs + self.rest.round_trips

    def together(self, calls: Sequence[Callable[[], Result]]) -> list[Result]:
        """Ask independent questions, a few at once where the server lets us: see `wire.flight.together`."""
        return together(calls, self.in_flight)

    def each(self, ask: Callable[[Thing], Result], things: Iterable[Thing]) -> list[tuple[Thing, Result]]:
        """Ask the same of each of some things as `together` does; return them with their answers."""
        asked = list(things)
        return list(zip(asked, self.together([partial(ask, thing) for thing in asked]), strict=True))

    @property
    def storage(self) -> TransportStub:
        """The stub of Storage Policy Based Management (SPBM), an API of its own.

        It knows the session by the header `vcSessionCookie` (Storage Policy API programming guide; govmomi's
        client sends it too).
        """
        if self._storage is None:
            self._storage = TransportStub(
                self._transport, STORAGE_VERSION, self.address, self.outage, STORAGE_PATH
            )
            self._storage.login = self
        # Belief: policies-at-pbm.
        self._storage.requestContext["vcSessionCookie"] = self.stub.cookie
        return self._storage

    @property
    def api_version(self) -> str:
        """The negotiated API version, dotted."""
        return versions.dotted(self.stub.version)

    @property
    def vcenter(self) -> VCenter:
        """The server's description of itself."""
        about = self.service_content.about
        return VCenter(
            address=self.address,
            name=about.name or "",
            version=about.version or "",
            build=about.build or "",
            api_version=self.api_version,
            instance_uuid=about.instanceUuid or "",
            user=self.user,
            root_folder_moid=self.root_moid,
            alarm_folder=self.alarm_folder,
            alarm_folder_moid=str(self.alarm_home._moId) if self.alarm_folder else "",
        )

    def speaks(self, version: str) -> bool:
        """Whether the negotiated version is at least this one."""
        return versions.is_at_least(self.api_version, version)

    def require_api(self, version: str, what: str) -> None:
        """Raise VersionTooOld unless the negotiated version is at least this one."""
        if not self.speaks(version):
            raise VersionTooOld(
                f"{what} requires API {version}, but this vCenter has {self.api_version}",
                subject=self.address,
                remedy=f"vSphere with API {version} or later is required",
            )

    def renew(self) -> None:
        """Log in again, after the server has forgotten the session.

        The objects of the old session (views, filters, collectors) are gone with it. A vCenter that cannot
        accept logins yet is waited for. Raises LoginFailed, Unreachable.
        """
        self.renewals += 1
        self.forget_view()
        self.stub.forget_session()
        with alone():
            self.outage.ride(self._login, lambda _lost: True)
        if self._storage is not None:
            self._storage.requestContext["vcSessionCookie"] = self.stub.cookie

    def _open(self) -> None:
        stub = TransportStub(self._transport, versions.OLDEST_NAME, self.address, self.outage)
        self._stub = stub
        self._content = self._roots()
        about = self._content.about
        if about.apiType != "VirtualCenter":
            raise VCenterError(
                f"this is a {about.name}, not a vCenter",
                subject=self.address,
                remedy="use the address of the vCenter that manages the host",
            )
        stub.speak(versions.negotiate(about.apiVersion or "", about.version or "", self.address))
        self._login()
        self.outage.is_known = True
        stub.login = self
        stub.find_task = self._find_task

    def _roots(self) -> Any:
        """Return the roots of the API, read in the oldest version: they name the newest one."""
        try:
            content: Any = vim.ServiceInstance("ServiceInstance", self.stub).RetrieveContent()
        except Unreadable as error:
            raise versions.no_api(self.address) from error
        except vmodl.MethodFault as fault:
            if type(fault) is vmodl.RuntimeFault:  # no type of its own: the version is too new for the server
                raise versions.refused(fault_text(fault), self.address) from fault
            raise to_error(fault, "reading the service content", self.address) from fault
        if content is None or content.about is None:
            raise versions.no_api(self.address)
        return content

    def _find_task(self, subject: Any, method: str, age: timedelta) -> Any | None:
        return find_task(self._content, subject, method, self._user_name, age, self.stub.tasks)

    def _login(self) -> None:
        who = f"as {self.user}" if self._token is None else "with a token"
        try:
            found = self._log_in()
        except vim.fault.InvalidLogin as fault:
            raise self._refusal() from fault
        except vmodl.fault.SystemError as fault:
            # What checks passwords is a service of its own, and may start last (unproven).
            error = to_error(fault, f"logging in {who}", self.address)
            raise Unreachable(error.message, subject=error.subject, remedy=error.remedy) from fault
        except vmodl.MethodFault as fault:
            raise to_error(fault, f"logging in {who}", self.address) from fault
        self._key, self._user_name = str(found.key), str(found.userName or "")
        if self._token is not None:
            self.user = self._user_name or self.user

    def _log_in(self) -> Any:
        """Log in by password or token; a token goes with this one call only."""
        manager, stub = self.service_content.sessionManager, self.stub
        if self._token is None:
            return manager.Login(self.user, self._secret(), None)
        stub.samlToken = saml_token(self._token(), self.address)
        try:
            # Belief: bearer-token-header.
            return manager.LoginByToken(None)
        finally:
            stub.samlToken = None

    def _secret(self) -> str:
        return self._password if isinstance(self._password, str) else self._password()

    def _authorization(self) -> str:
        """Make the header of a login at the REST side, by the same password or token."""
        if self._token is None:
            return basic(self.user, self._secret())
        return signed(saml_token(self._token(), self.address))

    def _refusal(self) -> LoginFailed:
        if self._token is None:
            return LoginFailed(
                f"wrong user or password for {self.user}",
                subject=self.address,
                remedy="check both; specify a vCenter user as user@vsphere.local",
            )
        return LoginFailed(
            "the token was rejected",
            subject=self.address,
            remedy="the token may have expired or belong to another single sign-on domain; get a new "
            "token, for example with `govc session.login -issue`",
        )


def saml_token(text: str, address: str) -> str:
    """Return a SAML token without any text before its element.

    Raises LoginFailed for a text that is no assertion.
    """
    token = _PROLOGUE.sub("", text).strip()
    if _ASSERTION.fullmatch(token) is None:
        raise LoginFailed(
            "this is not a token; a SAML assertion in XML is required",
            subject=address,
            remedy="use the output of `govc session.login -issue`",
        )
    return token
