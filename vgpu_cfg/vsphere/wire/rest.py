"""vCenter's REST API, in addition to the SOAP API: a session of its own, JSON, errors and retries.

Its paths are those below `/rest`, which vSphere has had since 6.5: govmomi asks all releases by them, and
vcsim answers no others for tags. Images of clusters are below `/api` only, with the same session; there,
values and errors are not wrapped. Answers are wrapped (`{"value": …}`), and so are errors (`{"type", "value":
{"messages": […]}}`). A session is made by Basic authentication, or by a SAML token that is packed as `SIGN
token="…"` (both as govmomi's clients do), and lives in a header.

The required form of answers is lists, mappings, texts, and a limited number of ids.

Belief: rest-below-rest, rest-login-by-token.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from vgpu_cfg.errors import (
    LoginFailed,
    NotFound,
    NotPermitted,
    NotSent,
    TooMuch,
    Unreachable,
    VCenterError,
    VgpuCfgError,
)
from vgpu_cfg.ports import Transport
from vgpu_cfg.vsphere.wire.faults import not_offered
from vgpu_cfg.vsphere.wire.outage import Outage

REST = "/rest"
API = "/api/"
SESSION_PATH = "/com/vmware/cis/session"
SESSION_HEADER = "vmware-api-session-id"

_FINE = (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.ACCEPTED, HTTPStatus.NO_CONTENT)
_AWAY = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)
_MOST_WORDS = 500
"""Maximum characters of an error's own message that are shown."""

Credentials = Callable[[], str]
"""Makes the `Authorization` header of a login, when one is made."""

MOST_ASKED = 1000
"""So many ids are asked about, each by a round trip of its own."""


def basic(user: str, password: str) -> str:
    """Return the header of a login by a password."""
    return f"Basic {base64.b64encode(f'{user}:{password}'.encode()).decode()}"


def signed(token: str) -> str:
    """Return the header of a login by a bearer token (SAML), as govmomi packs it."""
    return f'SIGN token="{base64.b64encode(gzip.compress(token.encode(), mtime=0)).decode()}"'


class RestClient:
    """A login at the REST side, made with the first request; one that has ended is made again once.

    `round_trips` counts exchanges, those of logins among them.
    """

    def __init__(
        self, transport: Transport, address: str, credentials: Credentials, outage: Outage | None = None
    ) -> None:
        self._transport = transport
        self._address = address
        self._credentials = credentials
        self._outage = outage or Outage()
        self._session = ""
        self.round_trips = 0

    def get(self, path: str, what: str) -> Any:
        """Return the content of a path; `what` names the attempt."""
        return self._ask("GET", path, b"", what)

    def act(self, path: str, action: str, body: Mapping[str, object], what: str) -> Any:
        """Run the action of a path, and return its answer; the action must be safe to repeat."""
        content = json.dumps(body).encode()
        return self._ask("POST", f"{path}?~action={quote(action)}", content, what)

    def call(self, method: str, path: str, body: object, what: str, *, repeats: bool = True) -> Any:
        """Send a request below `/api`; `repeats` is whether it may be sent again if its answer is lost."""
        content = b"" if body is None else json.dumps(body).encode()
        return self._ask(method, path, content, what, repeats=repeats)

    def close(self) -> None:
        """Log out, if there was a login. Errors at logout are ignored."""
        if self._session:
            try:
                self._exchange("DELETE", SESSION_PATH, b"", self._headers())
            except VgpuCfgError:
                pass
            finally:
                self._session = ""

    def _ask(self, method: str, path: str, body: bytes, what: str, *, repeats: bool = True) -> Any:
        """Send a request; log in first if needed, and again if the session has ended."""
        was_open = bool(self._session)
        if not was_open:
            self._log_in(what)
        status, answer = self._ride(method, path, body, repeats=repeats)
        if status == HTTPStatus.UNAUTHORIZED and was_open:
            self._log_in(what)
            status, answer = self._ride(method, path, body, repeats=repeats)
        if status == HTTPStatus.UNAUTHORIZED:
            raise LoginFailed(
                f"{what}: the session has expired", subject=self._address, remedy="run the command again"
            )
        if status not in _FINE:
            raise self._error(status, answer, what)
        return self._value(answer, what, is_wrapped=not path.startswith(API))

    def _log_in(self, what: str) -> None:
        """Open a session. Raises NotOffered where this vCenter has no REST side."""
        headers = {"Authorization": self._credentials(), "vmware-use-header-authn": "true"}
        status, answer = self._outage.ride(
            lambda: self._exchange("POST", SESSION_PATH, b"", headers), lambda _lost: True
        )
        if status == HTTPStatus.UNAUTHORIZED:
            raise LoginFailed(
                f"{what}: vCenter's REST API rejects the login that its SOAP API accepts",
                subject=self._address,
                remedy="check that the account can log in to the REST API; a token must be a bearer token",
            )
        if status in (HTTPStatus.NOT_FOUND, HTTPStatus.METHOD_NOT_ALLOWED):
            raise not_offered(f"{what}: this vCenter has no REST API under {REST}", self._address)
        if status not in (HTTPStatus.OK, HTTPStatus.CREATED):
            raise self._error(status, answer, what)
        found = self._value(answer, what)
        if not isinstance(found, str) or not found.isascii() or not found.isprintable():
            raise self._unreadable(what, "the session ID is not plain text")
        self._session = found

    def _headers(self) -> dict[str, str]:
        return {SESSION_HEADER: self._session}

    def _ride(self, method: str, path: str, body: bytes, *, repeats: bool) -> tuple[int, bytes]:
        return self._outage.ride(
            lambda: self._exchange(method, path, body, self._headers()),
            lambda lost: repeats or isinstance(lost, NotSent),
        )

    def _exchange(self, method: str, path: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
        self.round_trips += 1
        more = {"Content-Type": "application/json"} if body else {}
        sent = {"Accept": "application/json", "User-Agent": "vgpu-cfg", **more, **headers}
        status, _, answer = self._transport.exchange(
            method, path if path.startswith(API) else f"{REST}{path}", sent, body
        )
        if status in _AWAY:
            raise Unreachable(
                f"vCenter's web server returned {status}: the vCenter service is not running",
                subject=self._address,
                remedy="wait until vCenter has started, then try again",
            )
        return status, answer

    def _value(self, answer: bytes, what: str, *, is_wrapped: bool = True) -> Any:
        """Return an answer, or the value in it; None for nothing."""
        if not answer.strip():
            return None
        try:
            found = json.loads(answer)
        except (ValueError, RecursionError) as error:
            raise self._unreadable(what, "it is not JSON") from error
        if not is_wrapped:
            return found
        if not isinstance(found, dict):
            raise self._unreadable(what, "it has no value")
        return found.get("value")

    def _unreadable(self, what: str, reason: str) -> VCenterError:
        return VCenterError(
            f"{what}: cannot read the response: {reason}",
            subject=self._address,
            remedy="check which server responds at this address",
        )

    def _error(self, status: int, answer: bytes, what: str) -> VCenterError:
        said = _words(answer)
        message = f"{what}: {said} (HTTP status {status})" if said else f"{what}: HTTP status {status}"
        match status:
            case HTTPStatus.FORBIDDEN:
                return NotPermitted(
                    message,
                    subject=self._address,
                    remedy="see docs/reference/permissions.md for the privileges; vCenter returns the "
                    "same error for an object that no longer exists",
                )
            case HTTPStatus.NOT_FOUND:
                return NotFound(
                    message, subject=self._address, remedy="plan again; the inventory has changed"
                )
            case _:
                return VCenterError(
                    message,
                    subject=self._address,
                    remedy="check the related vCenter events, then run the command again",
                )


def _words(answer: bytes) -> str:
    """Return what an error says: its type, and its sentences, each once."""
    try:
        found = json.loads(answer)
        kind = str(found.get("type") or found.get("error_type") or "").rpartition(".")[2]
        messages = (found.get("value") or found).get("messages") or ()
        told = [str(one.get("default_message") or "") for one in messages]
    except (ValueError, RecursionError, AttributeError, TypeError):
        return ""
    return " ".join(" ".join(dict.fromkeys([*filter(None, told), kind and f"[{kind}]"])).split())[
        :_MOST_WORDS
    ]


def ids_of(answer: Any, what: str, address: str) -> list[str]:
    """Return ids in order. Raises TooMuch where they are more than anybody asks about one by one."""
    ids = sorted(str(one) for one in list_of(answer, what, address))
    if len(ids) > MOST_ASKED:
        raise TooMuch(
            f"{what}: {len(ids)} found; the limit is {MOST_ASKED}",
            subject=address,
            remedy="use fewer of them in the plan file",
        )
    return ids


def list_of(value: Any, what: str, address: str) -> list[Any]:
    """Return a list; a server leaves an empty one out."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise unreadable(what, address)
    return value


def mapping_of(value: Any, what: str, address: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise unreadable(what, address)
    return value


def text_of(value: Any, key: str, what: str, address: str) -> str:
    found = mapping_of(value, what, address).get(key)
    if not isinstance(found, str):
        raise unreadable(what, address)
    return found


def unreadable(what: str, address: str) -> VCenterError:
    return VCenterError(
        f"{what}: cannot read the response",
        subject=address,
        remedy="check which server responds at this address",
    )
