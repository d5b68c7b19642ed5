"""The session manager: logging in and out, and what becomes of other sessions."""

from __future__ import annotations

import secrets
import uuid
from typing import Any

from pyVmomi import vim

from vgpu_cfg.lab.renderers.session import user_session
from vgpu_cfg.lab.simulation.context import Context
from vgpu_cfg.lab.simulation.methods import answers
from vgpu_cfg.lab.simulation.sessions import Session
from vgpu_cfg.lab.state import permissions
from vgpu_cfg.lab.state.inventory import Managed
from vgpu_cfg.lab.state.roles import account


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
    if not _is_known(context, userName) or password != context.credentials.password:
        raise vim.fault.InvalidLogin(msg="Cannot complete login due to an incorrect user name or password.")
    return _opened(context, userName, locale)


@answers("SessionManager", "LoginByToken")
def login_by_token(context: Context, thing: Managed, *, locale: str | None) -> Any:
    """Open a session for whom a token names, whoever signed it. Raises InvalidLogin for a stranger."""
    if not _is_known(context, context.token_subject):
        raise vim.fault.InvalidLogin(msg="Cannot complete login due to an incorrect user name or password.")
    return _opened(context, context.token_subject, locale)


def _is_known(context: Context, user: str) -> bool:
    return context.credentials.may_everything(user) or permissions.is_known(context.state, user)


def _opened(context: Context, user: str, locale: str | None) -> Any:
    now = context.lab.clock.now()
    context.session = Session(
        cookie=secrets.token_hex(20),
        key=str(uuid.uuid4()),
        user=_as_shown(user),
        is_administrator=context.credentials.may_everything(user),
        login_time=now,
        last_active=now,
        locale=(locale or "en").partition("_")[0],
        user_agent=context.user_agent,
    )
    context.lab.sessions.open(context.session)
    return user_session(context.session)


def _as_shown(user: str) -> str:
    """Spell a user as events and tasks do, whatever was typed."""
    name, _, domain = account(user).partition("@")
    return f"{name.capitalize()}@{domain.upper()}"


@answers("SessionManager", "Logout")
def logout(context: Context, thing: Managed) -> None:
    """Close the caller's session."""
    if context.session is not None:
        context.lab.sessions.end(context.session)
        context.session = None


@answers("SessionManager", "SessionIsActive")
def session_is_active(context: Context, thing: Managed, *, sessionID: str, userName: str) -> bool:
    """Tell whether a user's session lives."""
    return any(
        session.key == sessionID and session.user.lower() == userName.lower()
        for session in context.lab.sessions.all()
    )


@answers("SessionManager", "TerminateSession")
def terminate_session(context: Context, thing: Managed, *, sessionId: list[str]) -> None:
    """Close other sessions. Raises NotFound for one that is not there."""
    by_key = {session.key: session for session in context.lab.sessions.all()}
    for key in sessionId:
        if key not in by_key:
            raise vim.fault.NotFound(msg="The session could not be found.")
        context.lab.note_of("UserSession", key, by_key[key].user, "session end")
        context.lab.sessions.end(by_key[key])


@answers("SessionManager", "SetLocale")
def set_locale(context: Context, thing: Managed, *, locale: str) -> None:
    """Note the language; the lab's messages stay English."""
    if context.session is not None:
        context.session.locale = locale
