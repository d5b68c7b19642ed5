"""The handler of each request to the REST API, and to vAPI's JSON-RPC, with the session it uses.

Below `/rest` a value is wrapped and a map is a list, below `/api` neither is. A session is made by Basic
authentication, or for whom a token names (`SIGN token="…"`, gzipped, in base64). It is one of the lab's
sessions, with its token where those of SOAP have a cookie.

A call of JSON-RPC (`/api`) names a service and an operation; its values say what kind of thing they are:
`{"STRUCTURE": {name: fields}}`, `{"OPTIONAL": value}`, `{"SECRET": text}`. The names of structures, and which
fields are optional, are those of the SDK's bindings (vmware-vcenter, vmware-vapi-runtime on PyPI).
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import secrets
import uuid
import zlib
from collections.abc import Callable, Mapping
from typing import Any

from vgpu_cfg.lab.rest import content, images, inventory, tagging
from vgpu_cfg.lab.rest.answer import (
    API,
    JSON,
    Answer,
    Refused,
    Request,
    answered,
    answered_short,
    listed,
    read_request,
)
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


PATH = "/api"
_METHODS = {"list": "GET", "get": "GET", "create": "POST", "update": "PATCH", "delete": "DELETE"}
_IDS = ("vm", "tag_id", "category_id", "library_item_id", "library_id")
"""The parameters of a call that may name its object next to the other values."""
_STRUCTURES = {
    "cardinality": "com.vmware.cis.tagging.category_model",
    "category_id": "com.vmware.cis.tagging.tag_model",
    "success": "com.vmware.cis.tagging.tag_association.batch_result",
    "tag_ids": "com.vmware.cis.tagging.tag_association.object_to_tags",
    "default_message": "com.vmware.vapi.std.localizable_message",
    "storage_backings": "com.vmware.content.library_model",
    "library_id": "com.vmware.content.library.item_model",
    "datastore_id": "com.vmware.content.library.storage_backing",
    "key": "map-entry",
}
"""The field that only one structure has → its name; others name an object, or are of the inventory, whose
structures the SDK accepts by any name."""
_OBJECT = "com.vmware.vapi.std.dynamic_ID"
_OPTIONAL = {_STRUCTURES[field] for field in ("storage_backings", "library_id", "datastore_id")}
"""Structures whose fields all are optional."""
_OPTIONAL_BESIDE = {
    "connection_state": {"power_state"},
    "cpu_count": {"cpu_count", "memory_size_MiB"},
    "capacity": {"capacity", "free_space", "ide", "nvme", "sata", "scsi"},
    "guest_OS": {"identity", "instant_clone_frozen", "nvme_adapters"},
    "efi_legacy_boot": {"efi_legacy_boot", "network_protocol"},
    "host_device": {"host_device"},
    "upt_compatibility_enabled": {"upt_compatibility_enabled"},
    "vmdk_file": {"vmdk_file"},
    "mac_type": {"mac_address"},
    "network_name": {"network", "network_name"},
    "distributed_switch_uuid": {"network", "distributed_switch_uuid"},
}
"""A field by which a structure of the inventory is known → which of its fields are optional."""


def answer_rpc(lab: Simulation, headers: Mapping[str, str], body: bytes, credentials: Credentials) -> Answer:
    """Answer one call; a refusal is a result, too."""
    try:
        call = json.loads(body)
        asked = call["params"]
        context = _plain(asked["ctx"]).get("securityCtx") or {}
        request = _request(asked["serviceId"], asked["operationId"], _plain(asked["input"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _answered(None, error={"code": -32600, "message": "Invalid request."})
    try:
        value = carry_out(lab, request, {**headers, **_authentication(context)}, credentials)
    except Refused as refused:
        return _answered(call.get("id"), result={"error": _error(refused)})
    is_secret = (request.method, request.path) == ("POST", SESSION)
    return _answered(
        call.get("id"), result={"output": {"SECRET": value} if is_secret else _typed(listed(value))}
    )


def _request(service_id: str, operation: str, given: dict[str, Any]) -> Request:
    """Return the request of REST that asks the same."""
    path = "/" + service_id.replace(".", "/").replace("_", "-")
    if path.startswith("/com/vmware/vcenter/"):
        path = path.removeprefix("/com/vmware").lower()
    if (path, operation) == ("/com/vmware/content/library/item", "list"):
        return Request("GET", path, query=given)
    of = next((name for name in _IDS if name in given), None)
    one = str(given.pop(of)) if of is not None else ""
    action = "" if operation in _METHODS else operation.replace("_", "-")
    method = _METHODS.get(operation, "POST")
    return Request(method, path, one, action, given, filter=given.get("filter") or {})


def _authentication(context: Mapping[str, Any]) -> dict[str, str]:
    """Return the headers by which REST knows whom a security context names."""
    if "sessionId" in context:
        return {SESSION_HEADER: str(context["sessionId"])}
    if "userName" in context:
        both = f"{context['userName']}:{context.get('password', '')}"
        return {"authorization": f"Basic {base64.b64encode(both.encode()).decode()}"}
    return {}


def _plain(value: Any) -> Any:
    """Return a value without the words for its kind, and without optional unset fields."""
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if not isinstance(value, dict):
        return value
    if len(value) == 1:
        ((kind, inside),) = value.items()
        if kind in ("OPTIONAL", "SECRET", "BINARY"):
            return _plain(inside)
        if kind == "STRUCTURE":
            ((_, fields),) = inside.items()
            return _plain(fields)
    return {name: plain for name, one in value.items() if (plain := _plain(one)) is not None}


def _typed(value: Any) -> Any:
    """Return a value with the words for its kind."""
    if isinstance(value, list):
        return [_typed(one) for one in value]
    if not isinstance(value, dict):
        return value
    name = next((name for field, name in _STRUCTURES.items() if field in value), _OBJECT)
    optional = set(value) if name in _OPTIONAL else set()
    for known, beside in _OPTIONAL_BESIDE.items():
        optional |= beside if known in value else set()
    fields = {
        field: {"OPTIONAL": _typed(one)} if field in optional else _typed(one) for field, one in value.items()
    }
    return {"STRUCTURE": {name: fields}}


def _error(refused: Refused) -> Any:
    message = {"id": refused.kind, "default_message": refused.message, "args": []}
    fields = {"messages": [_typed(message)], "data": {"OPTIONAL": None}}
    fields["error_type"] = {"OPTIONAL": refused.kind.upper()}
    return {"ERROR": {f"com.vmware.vapi.std.errors.{refused.kind}": fields}}


def _answered(call_id: Any, **parts: Any) -> Answer:
    return 200, JSON, json.dumps({"jsonrpc": "2.0", "id": call_id, **parts}).encode()
