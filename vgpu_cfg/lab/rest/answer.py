"""Parsing of a request to the REST API, and the form of answers and refusals."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from vgpu_cfg.lab.simulation.clock import as_datetime

Answer = tuple[int, Mapping[str, str], bytes]

JSON = {"Content-Type": "application/json"}
BY_BARE_ID = ("/vm-template/library-items", "/vcenter/vm")
"""The ends of paths that are followed by an id without `id:`."""
API = "/api"
_OF_CIS = {"/session": "/cis/session"}
_SHORT = ("/cis/", "/content/")
"""The beginnings of paths below `/api` that `/rest` has below `/com/vmware`."""


class Entries(dict[str, Any]):
    """A map, which `/rest` and JSON-RPC write as a list of keys with their values."""


class Accepted(str):
    """The id of a task that was begun, which `/api` answers with status 202."""

    __slots__ = ()


_NUMBER = re.compile(r"\.\d+$")


class Refused(Exception):
    """A refusal of vCenter: an HTTP status, and a type of com.vmware.vapi.std.errors with a sentence."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message

    def answer(self, *, short: bool = False) -> Answer:
        """Return the answer for it; `short` as below `/api`."""
        messages = [{"id": self.kind, "default_message": self.message, "args": []}]
        content: Any = {"type": f"com.vmware.vapi.std.errors.{self.kind}", "value": {"messages": messages}}
        if short:
            content = {"error_type": self.kind.upper(), "messages": messages}
        return self.status, JSON, json.dumps(content).encode()


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its method, the path without the id that it may end with, action, body, query."""

    method: str
    path: str
    id: str = ""
    action: str = ""
    body: Mapping[str, Any] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)
    filter: Mapping[str, Any] = field(default_factory=dict)
    """The filters of a list: their names with their values."""
    host: str = ""
    """The server, as the client calls it."""

    def mapping(self, key: str) -> Mapping[str, Any]:
        """Return a part of the body. Raises Refused where it is no mapping."""
        found = self.body.get(key)
        if not isinstance(found, Mapping):
            raise Refused(400, "invalid_argument", f"{key} is missing.")
        return found

    def items(self, key: str) -> list[Any]:
        """Return a list of the body, empty where it is absent."""
        found = self.body.get(key) or []
        if not isinstance(found, list):
            raise Refused(400, "invalid_argument", f"{key} is not a list.")
        return found

    def texts(self, key: str) -> list[str]:
        """Return a list of texts of the body."""
        return [str(one) for one in self.items(key)]


def read_request(method: str, url: str, body: bytes, host: str = "") -> Request:
    """Take a request apart. Raises Refused for a body that is no JSON."""
    parts = urlsplit(url)
    query = parse_qs(parts.query)
    first = {name: values[0] for name, values in query.items()}
    path = unquote(parts.path).rstrip("/")
    if path.startswith(f"{API}/"):
        path = path.removeprefix(API)
        path = _OF_CIS.get(path, path)
        path = f"/com/vmware{path}" if path.startswith(_SHORT) else path
    above, _, last = path.removeprefix("/rest").rpartition("/")
    is_id = last.startswith("id:") or above.endswith(BY_BARE_ID)
    return Request(
        method,
        above if is_id else f"{above}/{last}",
        last.removeprefix("id:") if is_id else "",
        first.get("~action", first.get("action", "")),
        _content(body),
        first,
        _filter(query),
        host,
    )


def _filter(query: Mapping[str, list[str]]) -> dict[str, list[str]]:
    """Return the filters of a query: `names=a&names=b`, or `filter.names.1=a&filter.names.2=b`."""
    found: dict[str, list[str]] = {}
    for name, values in query.items():
        found.setdefault(_NUMBER.sub("", name.removeprefix("filter.")), []).extend(values)
    return found


def _content(body: bytes) -> Mapping[str, Any]:
    if not body.strip():
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "invalid_argument", "The body is not valid JSON.") from error
    return found if isinstance(found, dict) else {}


def listed(value: Any) -> Any:
    """Return a value with its maps as lists of keys with their values."""
    if isinstance(value, list):
        return [listed(one) for one in value]
    if isinstance(value, Entries):
        return [{"key": key, "value": listed(one)} for key, one in value.items()]
    if isinstance(value, dict):
        return {name: listed(one) for name, one in value.items()}
    return value


def answered(value: Any) -> Answer:
    """Return the answer for a value, wrapped; nothing for none."""
    return 200, JSON, b"" if value is None else json.dumps({"value": listed(value)}).encode()


def answered_short(request: Request, value: Any) -> Answer:
    """Return the answer for a value below `/api`: itself; 201 for a new object, which no action makes."""
    if value is None:
        return 204, JSON, b""
    status = (
        202
        if isinstance(value, Accepted)
        else 201
        if request.method == "POST" and not request.action
        else 200
    )
    return status, JSON, json.dumps(value).encode()


def moment(at: float) -> str:
    """Return a moment of the lab's clock as the REST API writes it."""
    return f"{as_datetime(at):%Y-%m-%dT%H:%M:%S.000Z}"
