"""Judge exchanges with the REST API by the types of VMware's Automation SDK, whose own Python runs this file.

Standard input is a JSON list of exchanges: `method`, `url`, `body`, `status`, and `answer` (null if empty).
Standard output is a JSON object: `operations` that were recognized, and `faults`.

The SDK converts every body, answer, and task result into its own objects. Faults are: a path, parameter, or
status that it does not have, an unknown field, enumeration value, or error, and a missing field.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from com.vmware import cis_client
from com.vmware.esx.settings import clusters_client, depot_content_client
from com.vmware.esx.settings.clusters import policies_client, software_client
from com.vmware.esx.settings.clusters.software import drafts_client, reports_client
from com.vmware.esx.settings.clusters.software.drafts import software_client as draft_software_client
from vmware.vapi.bindings.converter import RestConverter, TypeConverter
from vmware.vapi.bindings.enum import Enum
from vmware.vapi.bindings.error import VapiError
from vmware.vapi.bindings.struct import VapiStruct
from vmware.vapi.bindings.stub import StubConfiguration, VapiInterface
from vmware.vapi.data.serializers.cleanjson import DataValueConverter

MODULES: tuple[ModuleType, ...] = (
    *(clusters_client, software_client, drafts_client, draft_software_client, reports_client),
    *(policies_client, depot_content_client, cis_client),
)
TASKS = "com.vmware.cis.tasks"
TASKS_OF_API = {"list": ("POST", "/cis/tasks", "list", ""), "get": ("GET", "/cis/tasks/{task}", "", None)}
"""Tasks below `/api`, as the API reference has them (Cis Tasks); the SDK has their form below `/rest`."""
REFUSED = "UNAUTHORIZED"
"""The error for missing privileges. Each operation documents it, but its list of errors lacks it."""


class Connector:
    """A connection of the SDK that reaches nothing."""

    def get_api_provider(self) -> None:
        return None


class Operation:
    """One operation of a service. `body` is the parameter that is sent as the body, "" for all of them."""

    def __init__(self, service: str, name: str, types: dict[str, Any], rest: Any) -> None:
        self.service, self.name, self.types = service, name, types
        template, _, query = rest._url_template.partition("?")
        action = dict(parse_qsl(query)).get("action", "")
        self.method, self.action, self.body = rest.http_method, action, rest.request_body_parameter
        if service == TASKS and name in TASKS_OF_API:
            self.method, template, self.action, self.body = TASKS_OF_API[name]
        self.path = re.compile(re.sub(r"\{\w+\}", "[^/]+", template))
        self.is_task = name.endswith("$task")

    def is_for(self, method: str, path: str, query: dict[str, str]) -> bool:
        asked = (self.method, self.action) == (method, query.get("action", ""))
        return asked and self.is_task == ("vmw-task" in query) and self.path.fullmatch(path) is not None

    @property
    def body_type(self) -> Any:
        return self.types["input_type"] if self.body == "" else self.types["input_type"].get_field(self.body)

    @property
    def statuses(self) -> set[int]:
        if self.is_task:
            return {202}
        return {200} if self.method == "GET" or self.action else {201} if self.method == "POST" else {204}


class Judge:
    """The operations of the SDK, the types of its tasks' results, and the recognized operations."""

    def __init__(self) -> None:
        self.results: dict[tuple[str, str], Any] = {}
        self.known = list(self._operations())
        self.seen: set[str] = set()

    def _operations(self) -> Iterator[Operation]:
        for module in MODULES:
            for kind in tuple(vars(module).values()):
                if isinstance(kind, type) and issubclass(kind, VapiInterface) and kind is not VapiInterface:
                    service = kind(StubConfiguration(Connector()))
                    yield from self._of_service(module, service)

    def _of_service(self, module: ModuleType, service: Any) -> Iterator[Operation]:
        for name, types in service._api_interface._operations.items():
            rest = service._api_interface._rest_metadata.get(name.removesuffix("$task"))
            if rest is not None:
                yield Operation(service._VAPI_SERVICE_ID, name, types, rest)
        if service._VAPI_OPERATION_IDS:
            # The SDK's own method makes a Task of an id, a service, and the type of the result.
            vars(module).update(Task=lambda _id, _service, kind: kind, Tasks=lambda _config: None)
            service._invoke = lambda _name, _arguments: None
        for method, name in service._VAPI_OPERATION_IDS.items():
            call = getattr(service, method)
            self.results[service._VAPI_SERVICE_ID, name] = call(
                *[None] * len(inspect.signature(call).parameters)
            )

    def faults_in(self, exchange: dict[str, Any]) -> Iterator[str]:
        """Yield the faults of one exchange."""
        parts = urlsplit(exchange["url"])
        path, query = unquote(parts.path).removeprefix("/api"), dict(parse_qsl(parts.query))
        found = next((one for one in self.known if one.is_for(exchange["method"], path, query)), None)
        if found is None:
            yield "the SDK has no such operation"
            return
        self.seen.add(f"{found.service} {found.name}")
        if unknown := query.keys() - {"action", "vmw-task"}:
            yield f"the operation has no parameters {sorted(unknown)}"
        if found.body is not None:
            yield from faults_of(exchange["body"] or {}, found.body_type, "body")
        elif exchange["body"] is not None:
            yield "the operation has no body"
        if exchange["status"] >= 400:
            yield from faults_of_error(exchange["answer"], found.types["errors"])
        else:
            yield from self._faults_of_answer(found, exchange["status"], exchange["answer"])

    def _faults_of_answer(self, found: Operation, status: int, answer: Any) -> Iterator[str]:
        if status not in found.statuses:
            yield f"status {status} is not one of {found.statuses}"
        yield from faults_of(answer, found.types["output_type"], "answer")
        if found.service == TASKS:
            for info in answer.values() if found.name == "list" else [answer]:
                kind = self.results.get((info.get("service"), info.get("operation")))
                if kind is None:
                    yield f"task: {info.get('service')} has no {info.get('operation')}"
                elif info["status"] == "SUCCEEDED":
                    yield from faults_of(info.get("result"), kind, "result")


def faults_of(value: Any, kind: Any, at: str) -> Iterator[str]:
    """Yield the reasons that a JSON value is not one of the SDK's type."""
    if value is None and type(kind).__name__ == "VoidType":
        return
    try:
        data = DataValueConverter.convert_to_data_value(json.dumps(value))
        native = TypeConverter.convert_to_python(data, kind, rest_converter_mode=RestConverter.VAPI_REST)
    except Exception as error:  # noqa: BLE001 - the SDK has no common class of errors
        yield f"{at}: {error}"
    else:
        yield from unknown_in(native, at)


def unknown_in(native: Any, at: str) -> Iterator[str]:
    """Yield the fields and enumeration values that the SDK has kept without knowing them."""
    if isinstance(native, Enum):
        if native.is_unknown():
            yield f"{at}: {type(native).__name__} has no value {native}"
    elif isinstance(native, (VapiStruct, VapiError)):
        for name in native._get_extra_fields():
            yield f"{at}: {type(native).__name__} has no field {name}"
        for name, one in vars(native).items():
            if not name.startswith("_"):
                yield from unknown_in(one, f"{at}.{name}")
    elif isinstance(native, (dict, list, set)):
        for one in native.values() if isinstance(native, dict) else native:
            yield from unknown_in(one, f"{at}[]")


def faults_of_error(answer: Any, errors: dict[str, Any]) -> Iterator[str]:
    names = {name.rpartition(".")[2].upper(): kind for name, kind in errors.items()}
    said = answer.get("error_type")
    if said != REFUSED and said not in names:
        yield f"error {said} is not one of {sorted(names)}"
    else:
        yield from faults_of(answer, names.get(said, names["ERROR"]).resolved_type, "error")


if __name__ == "__main__":
    judge = Judge()
    faults = [
        f"{one['method']} {one['url']}: {fault}"
        for one in json.load(sys.stdin)
        for fault in judge.faults_in(one)
    ]
    json.dump({"operations": sorted(judge.seen), "faults": sorted(set(faults))}, sys.stdout)
