"""The handler of each request to the REST API, and the session it uses.

Below `/rest` a value is wrapped and a map is a list, below `/api` neither is. A session is made by Basic
authentication, or for whom a token names (`SIGN token="…"`, gzipped, in base64). It is one of the lab's
sessions, with its token where those of SOAP have a cookie.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
import uuid
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from vgpu_cfg.lab.rest import content, images, inventory, tagging
from vgpu_cfg.lab.rest.answer import API, Answer, Refused, Request, answered, answered_short, read_request
from vgpu_cfg.lab.simulation.clock import as_datetime
from vgpu_cfg.lab.simulation.sessions import Credentials, Session
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state import permissions

PREFIXES = ("/rest/", f"{API}/")
SESSION = "/com/vmware/cis/session"
SESSION_HEADER = "vmware-api-session-id"
MOST_TOKEN_BYTES = 1024 * 1024

_NAME = re.compile(r"<(?:[\w.-]+:)?NameID[^>]*>([^<]+)<")
_TOKEN = re.compile(r'^SIGN\s+.*token="([^"]+)"')

Handler = Callable[[Simulation, Request], Any]

_HANDLERS: Mapping[tuple[str, bool], Handler] = {
    (tagging.CATEGORY, False): tagging.categories,
    (tagging.CATEGORY, True): tagging.category,
    (tagging.TAG, False): tagging.tags,
    (tagging.TAG, True): tagging.tag,
    (tagging.ASSOCIATION, False): tagging.association,
    (tagging.ASSOCIATION, True): tagging.association_of,
    (content.LIBRARY, False): content.libraries,
    (content.LIBRARY, True): content.library,
    (content.LOCAL, False): content.local_libraries,
    (content.LOCAL, True): content.local_library,
    (content.SUBSCRIBED, False): content.subscribed_libraries,
    (content.ITEM, False): content.items,
    (content.ITEM, True): content.item,
    (content.TEMPLATES, False): content.put_template,
    (content.TEMPLATES, True): content.template,
    (content.POLICIES, False): content.policies,
    (content.TRUST, False): content.trusted,
    **content.HANDLERS,
    **inventory.HANDLERS,
}
"""The handlers of a path, by whether an id follows."""


def token_of(headers: Mapping[str, str]) -> str | None:
    """Return the session that a request is of."""
    return headers.get(SESSION_HEADER)


def answer(
    lab: Simulation,
    method: str,
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    credentials: Credentials,
) -> Answer:
    """Answer a request, whose path begins with `/rest` or `/api`; header names are in small letters."""
    is_short = url.startswith(f"{API}/")
    try:
        request = read_request(method, url, body, headers.get("host", ""))
        if not is_short and lab.state.denies("rest-below-rest"):
            raise Refused(404, "not_found", f"The lab has no resource at {request.path}")
        value = carry_out(lab, request, headers, credentials)
    except Refused as refused:
        return refused.answer(short=is_short)
    return answered_short(request, value) if is_short else answered(value)


def carry_out(lab: Simulation, request: Request, headers: Mapping[str, str], credentials: Credentials) -> Any:
    """Carry out a request, and return the value of its answer. Raises Refused."""
    with lab.transaction():
        return _carry_out(lab, request, headers, credentials)


def _carry_out(
    lab: Simulation, request: Request, headers: Mapping[str, str], credentials: Credentials
) -> Any:
    session = lab.sessions.find(token_of(headers), lab.clock.now())
    if request.path == SESSION and request.method == "POST" and not request.action:
        return _log_in(lab, headers, credentials)
    if session is None:
        raise Refused(401, "unauthenticated", "Authentication required.")
    if request.path == SESSION:
        return _of_session(lab, request, session)
    handler = _HANDLERS.get((request.path, bool(request.id)), images.handle)
    lab.user, lab.is_administrator = session.user, session.is_administrator
    return handler(lab, request)


def _of_session(lab: Simulation, request: Request, session: Session) -> Any:
    if request.method == "DELETE":
        lab.sessions.end(session)
        return None
    moments = {"created_time": session.login_time, "last_accessed_time": session.last_active}
    return {
        "user": session.user,
        **{name: f"{as_datetime(at):%Y-%m-%dT%H:%M:%SZ}" for name, at in moments.items()},
    }


def _log_in(lab: Simulation, headers: Mapping[str, str], credentials: Credentials) -> str:
    known = caller(lab, headers.get("authorization", ""), credentials)
    if known is None:
        raise Refused(401, "unauthenticated", "Authentication required.")
    user, is_administrator = known
    now = lab.clock.now()
    session = Session(
        cookie=secrets.token_hex(16),
        key=str(uuid.uuid4()),
        user=user,
        is_administrator=is_administrator,
        login_time=now,
        last_active=now,
        locale="en",
        user_agent=headers.get("user-agent", ""),
    )
    lab.sessions.open(session)
    return session.cookie


def caller(lab: Simulation, authorization: str, credentials: Credentials) -> tuple[str, bool] | None:
    """Return the user that a header proves, and whether it is an administrator; None for an unknown one."""
    refuses_tokens = lab.state.denies("rest-login-by-token")
    user = _user(authorization, credentials, refuses_tokens=refuses_tokens)
    if user is None or not (credentials.may_everything(user) or permissions.is_known(lab.state, user)):
        return None
    return user, credentials.may_everything(user)


def _user(authorization: str, credentials: Credentials, *, refuses_tokens: bool) -> str | None:
    """Return the user that a header names, None if it proves none."""
    kind, _, rest = authorization.partition(" ")
    try:
        if kind == "Basic":
            user, _, password = base64.b64decode(rest, validate=True).decode().partition(":")
            return user if password == credentials.password else None
        found = _TOKEN.match(authorization)
        if found is None or refuses_tokens:
            return None
        packed = zlib.decompressobj(wbits=31)
        token = packed.decompress(base64.b64decode(found[1], validate=True), MOST_TOKEN_BYTES).decode()
    except (binascii.Error, ValueError, zlib.error):
        return None
    name = _NAME.search(token)
    return name[1].strip() if name is not None else None
