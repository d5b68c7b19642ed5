"""vAPI's JSON-RPC at `/api`: how the vSphere Automation SDK for Python, and Ansible, ask what REST answers.

A call names a service and an operation; its values say what kind of thing they are:
`{"STRUCTURE": {name: fields}}`, `{"OPTIONAL": value}`, `{"SECRET": text}`. The names of structures, and which
fields are optional, are those of the SDK's bindings (vmware-vcenter, vmware-vapi-runtime on PyPI).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from vgpu_cfg.lab.rest import service
from vgpu_cfg.lab.rest.answer import JSON, Answer, Refused, Request, listed
from vgpu_cfg.lab.simulation.sessions import Credentials
from vgpu_cfg.lab.simulation.simulation import Simulation

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


def answer(lab: Simulation, headers: Mapping[str, str], body: bytes, credentials: Credentials) -> Answer:
    """Answer one call; a refusal is a result, too."""
    try:
        call = json.loads(body)
        asked = call["params"]
        context = _plain(asked["ctx"]).get("securityCtx") or {}
        request = _request(asked["serviceId"], asked["operationId"], _plain(asked["input"]))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return _answered(None, error={"code": -32600, "message": "Invalid request."})
    try:
        value = service.carry_out(lab, request, {**headers, **_authentication(context)}, credentials)
    except Refused as refused:
        return _answered(call.get("id"), result={"error": _error(refused)})
    is_secret = (request.method, request.path) == ("POST", service.SESSION)
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
        return {service.SESSION_HEADER: str(context["sessionId"])}
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
