"""Who is logged in: the session manager, cookies, and what a session owns (collectors, filters, views)."""

from __future__ import annotations

import secrets
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyVmomi import vim

from vgpu_cfg.lab.clock import as_datetime
from vgpu_cfg.lab.managers.methods import answers
from vgpu_cfg.lab.state import Managed

if TYPE_CHECKING:
    from vgpu_cfg.lab.soap.context import Context
    from vgpu_cfg.lab.vcenter import Lab

COOKIE = "vmware_soap_session"
IDLE_SECONDS = 1800.0
"""A real vCenter forgets a session after 30 idle minutes."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The one user that the lab knows. User names are compared without case, as vCenter does."""

    user: str = "administrator@vsphere.local"
    password: str = "lab"  # noqa: S105 - a simulator's, printed in its documentation

    def match(self, user: str, password: str) -> bool:
        """Whether somebody is that user."""
        return user.lower() == self.user.lower() and password == self.password


LAB_CREDENTIALS = Credentials()


@dataclass(slots=True)
class Session:
    """One login. `cookie` travels in the HTTP header, `key` is what the API calls the session's id."""

    cookie: str
    key: str
    user: str
    login_time: float
    last_active: float
    locale: str
    user_agent: str = ""
    calls: int = 0
    objects: dict[str, Managed] = field(default_factory=dict)
    """Collectors, filters and views of this session, by moid; gone with it."""
    pages: dict[str, Any] = field(default_factory=dict)
    """Reads that wait to be continued, by token."""
    last_object: int = 0
    view_changes: int = 0
    """Counts what the client does to its views, so that waiting filters look again."""

    def new_moid(self) -> str:
        """Return a moid for something that only this session sees."""
        self.last_object += 1
        return f"session[{self.key}]{self.last_object:08x}"


def find_session(lab: Lab, cookie: str | None) -> Session | None:
    """Return the session of a cookie, None where it is unknown or was idle for too long."""
    session = lab.sessions.get(cookie or "")
    if not isinstance(session, Session):
        return None
    now = lab.clock.now()
    if now - session.last_active > IDLE_SECONDS:
        end_session(lab, session)
        return None
    session.last_active = now
    session.calls += 1
    return session


def end_session(lab: Lab, session: Session) -> None:
    """Forget a session and all it owns."""
    lab.sessions.pop(session.cookie, None)


def user_session(session: Session) -> Any:
    """Return a session as the API shows it."""
    return vim.UserSession(
        key=session.key,
        userName=session.user,
        fullName=session.user,
        loginTime=as_datetime(session.login_time),
        lastActiveTime=as_datetime(session.last_active),
        locale=session.locale,
        messageLocale=session.locale,
        extensionSession=False,
        ipAddress="127.0.0.1",
        userAgent=session.user_agent,
        callCount=session.calls,
    )


@answers("SessionManager", "Login")
def login(
    context: Context,
    thing: Managed,
    *,
    userName: str,
    password: str,
    locale: str | None,
) -> Any:
    """Open a session. Raises InvalidLogin."""
    if not context.credentials.match(userName, password):
        raise vim.fault.InvalidLogin(msg="Cannot complete login due to an incorrect user name or password.")
    now = context.lab.clock.now()
    context.session = Session(
        cookie=secrets.token_hex(20),
        key=str(uuid.uuid4()),
        user=context.lab.user,
        login_time=now,
        last_active=now,
        locale=(locale or "en").partition("_")[0],
        user_agent=context.user_agent,
    )
    context.lab.sessions[context.session.cookie] = context.session
    return user_session(context.session)


@answers("SessionManager", "Logout")
def logout(context: Context, thing: Managed) -> None:
    """Close the caller's session."""
    if context.session is not None:
        end_session(context.lab, context.session)
        context.session = None


@answers("SessionManager", "SessionIsActive")
def session_is_active(context: Context, thing: Managed, *, sessionID: str, userName: str) -> bool:
    """Tell whether a user's session lives."""
    return any(
        session.key == sessionID and session.user.lower() == userName.lower()
        for session in context.lab.sessions.values()
    )


@answers("SessionManager", "TerminateSession")
def terminate_session(context: Context, thing: Managed, *, sessionId: list[str]) -> None:
    """Close other sessions. Raises NotFound for one that is not there."""
    by_key = {session.key: session for session in context.lab.sessions.values()}
    for key in sessionId:
        if key not in by_key:
            raise vim.fault.NotFound(msg="The session could not be found.")
        end_session(context.lab, by_key[key])


@answers("SessionManager", "SetLocale")
def set_locale(context: Context, thing: Managed, *, locale: str) -> None:
    """Note the language; the lab's messages stay English."""
    if context.session is not None:
        context.session.locale = locale
