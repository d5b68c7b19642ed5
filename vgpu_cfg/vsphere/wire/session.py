"""A login at a vCenter: version settled, session opened, renewed once when it has ended, and closed.

Everything else in this room works through a Session; none of it sees a password.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

import tenacity
from pyVmomi import vim, vmodl

from vgpu_cfg.errors import LoginFailed, VCenterError, VersionTooOld
from vgpu_cfg.model.observed.inventory import VCenter
from vgpu_cfg.ports import Transport
from vgpu_cfg.vsphere.wire import versions
from vgpu_cfg.vsphere.wire.faults import to_error, translated
from vgpu_cfg.vsphere.wire.stub import TransportStub

PasswordSource = str | Callable[[], str]


class Session:
    """A login, as a context manager: entering opens it, leaving logs out and closes the transport.

    `password` may be a function: it is called when the login is made, not before, and again
    where the session has to be renewed.
    """

    def __init__(
        self,
        transport: Transport,
        address: str,
        user: str,
        password: PasswordSource,
        *,
        sleep: Callable[[float], None] = tenacity.nap.sleep,
    ) -> None:
        self.address = address
        self.user = user
        self.renewals = 0
        self._transport = transport
        self._password = password
        self._sleep = sleep
        self._stub: TransportStub | None = None
        self._content: Any = None
        self._key: str = ""

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
        """Log out, and close the transport. What goes wrong on the way out harms nobody."""
        try:
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
    def key(self) -> str:
        """vCenter's key of this session, which its own privilege checks ask for."""
        return self._key

    @property
    def round_trips(self) -> int:
        """How many exchanges this session has made."""
        return 0 if self._stub is None else self._stub.round_trips

    @property
    def api_version(self) -> str:
        """The negotiated API version, dotted."""
        return versions.dotted(self.stub.version)

    @property
    def vcenter(self) -> VCenter:
        """What the server says of itself."""
        about = self.service_content.about
        return VCenter(
            address=self.address,
            name=about.name or "",
            version=about.version or "",
            build=about.build or "",
            api_version=self.api_version,
            instance_uuid=about.instanceUuid or "",
            user=self.user,
        )

    def speaks(self, version: str) -> bool:
        """Whether the negotiated version is at least this one."""
        return versions.is_at_least(self.api_version, version)

    def require_api(self, version: str, what: str) -> None:
        """Raise VersionTooOld unless the negotiated version is at least this one."""
        if not self.speaks(version):
            raise VersionTooOld(
                f"{what} needs API {version} and this vCenter speaks {self.api_version}",
                subject=self.address,
                remedy=f"vSphere with API {version} or later is needed",
            )

    def renew(self) -> None:
        """Log in again, after the server has forgotten the session.

        What belonged to the old session (views, filters, collectors) is gone with it.
        Raises LoginFailed.
        """
        self.renewals += 1
        self.stub.forget_session()
        self._login()

    def _open(self) -> None:
        # The list of versions is fetched before a version is known; any will do to send it.
        bare = TransportStub(self._transport, "vim.version.version11", self.address, self._sleep)
        version = versions.negotiate(bare.fetch(versions.VERSIONS_PATH), self.address)
        stub = TransportStub(self._transport, version, self.address, self._sleep)
        stub.round_trips = bare.round_trips
        self._stub = stub
        with translated("reading the service content", self.address):
            self._content = vim.ServiceInstance("ServiceInstance", stub).RetrieveContent()
        if self._content.about.apiType != "VirtualCenter":
            raise VCenterError(
                f"this is no vCenter but a {self._content.about.name}",
                subject=self.address,
                remedy="give the address of the vCenter that manages the host",
            )
        self._login()
        stub.renew = self.renew

    def _login(self) -> None:
        password = self._password if isinstance(self._password, str) else self._password()
        try:
            self._key = str(self.service_content.sessionManager.Login(self.user, password, None).key)
        except vim.fault.InvalidLogin as fault:
            raise LoginFailed(
                f"wrong user or password for {self.user}",
                subject=self.address,
                remedy="check both; a user of vCenter's own is written user@vsphere.local",
            ) from fault
        except vmodl.MethodFault as fault:
            raise to_error(fault, f"logging in as {self.user}", self.address) from fault
