"""How a request to the REST side is taken apart, and what an answer and a refusal of it are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import field
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from vgpu_cfg.late_dataclasses import dataclass

Answer = tuple[int, Mapping[str, str], bytes]

JSON = {"Content-Type": "application/json"}
BY_BARE_ID = "/library-items"
"""What a path ends with below which an id stands without `id:`."""


class Refused(Exception):
    """What vCenter does not do: an HTTP status, and a type of com.vmware.vapi.std.errors with a sentence."""

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message

    @property
    def answer(self) -> Answer:
        """What goes back for it."""
        messages = [{"id": self.kind, "default_message": self.message, "args": []}]
        content = {"type": f"com.vmware.vapi.std.errors.{self.kind}", "value": {"messages": messages}}
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
            raise Refused(400, "invalid_argument", f"{key} is no list.")
        return found

    def texts(self, key: str) -> list[str]:
        """Return a list of texts of the body."""
        return [str(one) for one in self.items(key)]


def read_request(method: str, url: str, body: bytes) -> Request:
    """Take a request apart; `url` begins behind `/rest`. Raises Refused for a body that is no JSON."""
    parts = urlsplit(url)
    query = {name: values[0] for name, values in parse_qs(parts.query).items()}
    path, _, last = unquote(parts.path).rstrip("/").rpartition("/")
    is_id = last.startswith("id:") or path.endswith(BY_BARE_ID)
    return Request(
        method,
        path if is_id else f"{path}/{last}",
        last.removeprefix("id:") if is_id else "",
        query.get("~action", ""),
        _content(body),
        query,
    )


def _content(body: bytes) -> Mapping[str, Any]:
    if not body.strip():
        return {}
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise Refused(400, "invalid_argument", "The body is no JSON.") from error
    return found if isinstance(found, dict) else {}


def answered(value: Any) -> Answer:
    """Return what goes back for a value, wrapped; nothing for none."""
    return 200, JSON, b"" if value is None else json.dumps({"value": value}).encode()
