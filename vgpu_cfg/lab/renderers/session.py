"""How a session shows (vim `UserSession`)."""

from __future__ import annotations

from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.sessions import Session


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
