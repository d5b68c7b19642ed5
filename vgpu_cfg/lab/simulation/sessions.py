"""The logged-in users, by cookie, and a session's objects: collectors, filters, views."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.lab.state.inventory import Managed
from vgpu_cfg.lab.state.roles import account

COOKIE = "vmware_soap_session"
IDLE_SECONDS = 1800.0
"""A real vCenter forgets a session after 30 idle minutes."""


@dataclass(frozen=True, slots=True)
class Credentials:
    """The administrators that the lab knows: one, and a colleague with the same rights and password.

    An account with a permission has that password, too. Names are compared without case, as vCenter does.
    """

    user: str = "administrator@vsphere.local"
    password: str = "lab"  # noqa: S105 - a simulator's, printed in its documentation
    colleague: str = "colleague@vsphere.local"

    def may_everything(self, user: str) -> bool:
        """Whether a user is one of them."""
        return account(user) in (account(self.user), self.colleague)


LAB_CREDENTIALS = Credentials()


@dataclass(slots=True)
class Session:
    """One login. `cookie` travels in the HTTP header, `key` is the session's id in the API."""

    cookie: str
    key: str
    user: str
    is_administrator: bool
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
    """Counts the client's changes to its views, so that waiting filters look again."""

    def new_moid(self) -> str:
        """Return a moid for something that only this session sees."""
        self.last_object += 1
        return f"session[{self.key}]{self.last_object:08x}"


class Sessions:
    """The sessions that are open."""

    def __init__(self) -> None:
        self._by_cookie: dict[str, Session] = {}

    def all(self) -> list[Session]:
        """Return those that are open, oldest first."""
        return list(self._by_cookie.values())

    def open(self, session: Session) -> None:
        """Take one in."""
        self._by_cookie[session.cookie] = session

    def end(self, session: Session) -> None:
        """Forget one and all it owns."""
        self._by_cookie.pop(session.cookie, None)

    def find(self, cookie: str | None, now: float) -> Session | None:
        """Return the session of a cookie, None where it is unknown or was idle for too long."""
        session = self._by_cookie.get(cookie or "")
        if session is None:
            return None
        if now - session.last_active > IDLE_SECONDS:
            self.end(session)
            return None
        session.last_active = now
        session.calls += 1
        return session
