"""Answer one HTTP request to the lab: versions, sessions, scripted faults, then the method."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from functools import lru_cache
from http.cookies import CookieError, SimpleCookie
from typing import Any

from pyVmomi import VmomiSupport, vim, vmodl

from vgpu_cfg.lab import collector
from vgpu_cfg.lab.api.answer import write_fault, write_result
from vgpu_cfg.lab.api.references import Service, reference, vim_class, wire_type
from vgpu_cfg.lab.api.versions import (
    NAMESPACE,
    STORAGE,
    is_at_least,
    requested_version_id,
    service_versions_xml,
    storage_version,
    version_name,
)
from vgpu_cfg.lab.collector import ANONYMOUS, fetch, not_authenticated
from vgpu_cfg.lab.managers import (
    alarms,
    authorization,
    browser,
    customization_specs,
    executer,
    guest_operations,
    host_reads,
    key_providers,
    licences,
    options,
    performance,
    search,
    storage_policies,
    task_history,
)
from vgpu_cfg.lab.operations import cluster, files, pools, registration, switches
from vgpu_cfg.lab.operations.hosts import devices as host_devices
from vgpu_cfg.lab.operations.hosts import network as host_network
from vgpu_cfg.lab.operations.hosts import power as host_power
from vgpu_cfg.lab.operations.hosts import services as host_services
from vgpu_cfg.lab.operations.vms import clone, create, lifecycle, migrate, power, snapshots
from vgpu_cfg.lab.rest import service
from vgpu_cfg.lab.rest import service as rest
from vgpu_cfg.lab.rest.content import CONTENT_PATH, exchange_content
from vgpu_cfg.lab.rules import refusals
from vgpu_cfg.lab.rules.refusals import object_gone
from vgpu_cfg.lab.simulation import bends, directory
from vgpu_cfg.lab.simulation.faults import ScriptedFault, connection_dropped
from vgpu_cfg.lab.simulation.operations import METHODS, OPERATIONS, UNLOCKED, Context, vcenter_version
from vgpu_cfg.lab.simulation.restart import is_away, is_starting, refused, restart
from vgpu_cfg.lab.simulation.sessions import COOKIE, LAB_CREDENTIALS, Credentials
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.simulation.tasks import TASK
from vgpu_cfg.lab.soap.request import FETCH, BadRequestError, MethodCall, read_request
from vgpu_cfg.lab.state.inventory import Host, Managed

MODULES = (
    *(alarms, authorization, browser, customization_specs, executer, guest_operations, host_reads),
    *(key_providers, licences, options, performance, search, storage_policies, task_history, collector),
    *(cluster, files, pools, registration, switches, host_devices, host_network, host_power, host_services),
    *(clone, create, lifecycle, migrate, power, snapshots),
)
"""Every module whose methods the wire answers: importing them fills the registry."""


Answer = tuple[int, Mapping[str, str], bytes]

XML = "text/xml; charset=utf-8"
VERSIONS_PATH = "/sdk/vimServiceVersions.xml"
SDK_PATHS = ("/sdk", "/sdk/vimService")
STORAGE_PATHS = ("/pbm", "/pbm/sdk")
STARTING: Answer = (503, {"Content-Type": "text/plain"}, b"503 Service Unavailable\n")
"""The web front's answer for a vCenter that is not up."""


def exchange(
    lab: Simulation,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    credentials: Credentials = LAB_CREDENTIALS,
) -> Answer:
    """Answer one HTTP request. Raises ConnectionDropped or ConnectionRefused where there is no answer."""
    with lab.transaction():
        if is_away(lab):
            raise refused(lab)
        if is_starting(lab):
            return STARTING
        restarts = lab.state.restarts
    answer = _answer(lab, method, path, headers, body, credentials)
    if lab.state.restarts != restarts:
        raise connection_dropped(lab.state.estate, f"before it answered {path}: its vCenter restarts")
    return answer


def _answer(
    lab: Simulation,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    credentials: Credentials,
) -> Answer:
    lowered = {name.lower(): value for name, value in headers.items()}
    if method in ("GET", "HEAD", "PUT", "DELETE") and path.startswith(files.PREFIX):
        caller = rest.caller(lab, lowered.get("authorization", ""), credentials)
        return files.exchange(lab, method, path, body, _cookie(lowered.get("cookie", "")), caller)
    if method in ("GET", "PUT") and path.partition("?")[0] == guest_operations.TRANSFERS:
        return guest_operations.exchange_file(lab, method, path, body)
    if path.startswith(CONTENT_PATH):
        return exchange_content(lab, method, path, body)
    if path.startswith(rest.PREFIXES):
        return _answer_rest(lab, method, path, lowered, body, credentials)
    path = path.partition("?")[0]
    if method == "POST" and path.rstrip("/") == service.PATH:
        return service.answer_rpc(lab, lowered, body, credentials)
    if method == "GET" and path == VERSIONS_PATH:
        return 200, {"Content-Type": XML}, service_versions_xml(lab.state.api_version)
    if method == "POST" and path.rstrip("/") in SDK_PATHS:
        return _answer_soap(lab, lowered, body, credentials)
    if method == "POST" and path.rstrip("/") in STORAGE_PATHS:
        return _answer_soap(lab, lowered, body, credentials, STORAGE)
    return 404, {"Content-Type": "text/plain"}, b"404 Not Found\n"


def _answer_rest(
    lab: Simulation,
    method: str,
    path: str,
    headers: Mapping[str, str],
    body: bytes,
    credentials: Credentials,
) -> Answer:
    """Answer on the REST side, which scripted faults know by the method and the path's last word."""
    name = f"{method} {path.rpartition('=' if '~action=' in path else '/')[2]}"
    scripted = _disturb(lab, name, rest.token_of(headers))
    if scripted is not None and scripted.kind == "unavailable":
        return STARTING
    answer = rest.answer(lab, method, path, headers, body, credentials)
    if scripted is not None and scripted.kind in ("drop_after", "restart_after"):
        _restart_if_due(lab, scripted)
        raise connection_dropped(lab.state.estate, f"after {name}")
    return answer


def _answer_soap(
    lab: Simulation,
    headers: Mapping[str, str],
    body: bytes,
    credentials: Credentials,
    namespace: str = NAMESPACE,
) -> Answer:
    """Answer a call of the API of a namespace; that of storage policies has the session in a SOAP header."""
    is_storage = namespace == STORAGE
    action = headers.get("soapaction", "")
    version = storage_version(action) if is_storage else _negotiate(lab, action)
    try:
        call = read_request(body, namespace)
    except BadRequestError as error:
        return 500, {"Content-Type": XML}, write_fault(error.fault, version)
    context = Context(
        lab,
        version,
        credentials=credentials,
        user_agent=headers.get("user-agent", ""),
        token_subject=call.token_subject,
    )
    answered = {"Content-Type": XML}
    cookie = call.cookie if is_storage else _cookie(headers.get("cookie", ""))
    scripted: ScriptedFault | None = None
    try:
        scripted = _disturb(lab, call.name, cookie)
        if scripted is not None and scripted.kind == "unavailable":
            return STARTING
        with lab.changed:
            context.session = lab.sessions.find(cookie, lab.clock.now())
        before = context.session
        value, declared = _perform(context, call)
        if context.session is not None and context.session is not before:
            answered["Set-Cookie"] = f'{COOKIE}="{context.session.cookie}"; Path=/; HttpOnly; Secure;'
        status, content = 200, write_result(call.name, declared, value, version, namespace)
    except vmodl.MethodFault as fault:
        status, content = 500, write_fault(bends.named(lab.state, call.name, fault), version)
    if scripted is not None and scripted.kind in ("drop_after", "restart_after"):
        _restart_if_due(lab, scripted)
        raise connection_dropped(lab.state.estate, f"after {call.name}")
    return status, answered, content


def _negotiate(lab: Simulation, soap_action: str) -> str:
    """Return the version to answer at: the client's, or this vCenter's own where that is newer or unknown.

    Whether a real vCenter refuses a version that it does not know is unproven; govc sends one
    newer than most vCenters and is answered.
    """
    own = version_name(lab.state.api_version) or VmomiSupport.BASE_VERSION
    asked = version_name(requested_version_id(soap_action) or "")
    return asked if asked is not None and is_at_least(own, asked) else own


@lru_cache
def _cookie(header: str) -> str | None:
    try:
        found = SimpleCookie(header).get(COOKIE)
    except CookieError:
        return None
    return found.value if found is not None else None


def _disturb(lab: Simulation, method: str, cookie: str | None) -> ScriptedFault | None:
    """Apply the script for this call, and return it if its answer differs for it.

    Raises ConnectionDropped, or the fault that the script names.
    """
    with lab.changed:
        lab.counters["calls"] += 1
        lab.counters[method] += 1
        scripted = lab.faults.on_call(method)
        if scripted is None:
            return None
        match scripted.kind:
            case "drop_before" | "restart_before":
                _restart_if_due(lab, scripted)
                raise connection_dropped(lab.state.estate, f"before {method}")
            case "session_expired":
                session = lab.sessions.find(cookie, lab.clock.now())
                if session is not None:
                    lab.sessions.end(session)
            case "slow":
                lab.clock.wait(lab.clock.now() + scripted.seconds, lab.changed)
            case "call" | "task":
                raise scripted.make()
            case "drop_after" | "restart_after" | "unavailable":
                pass
    return scripted


def _restart_if_due(lab: Simulation, scripted: ScriptedFault) -> None:
    if scripted.kind in ("restart_before", "restart_after"):
        with lab.transaction():
            restart(
                lab,
                away_seconds=scripted.seconds,
                starting_seconds=scripted.starting,
                forgets_tasks=scripted.forgets_tasks,
            )


def _perform(context: Context, call: MethodCall) -> tuple[Any, Any]:
    """Carry a call out; return its value and how it is declared."""
    guard = nullcontext() if call.name in UNLOCKED else context.lab.transaction()
    with guard:
        _require_session(context, call)
        if context.session is not None and call.name not in UNLOCKED:
            context.lab.user = context.session.user
            context.lab.is_administrator = context.session.is_administrator
        thing = directory.find(context, call.subject._moId, storage=call.is_storage)
        if thing is None:
            raise object_gone(call.subject)
        if call.name == FETCH:
            value, info = fetch(context, thing, call.arguments["prop"])
            return value, VmomiSupport.Object(result=info.type, resultFlags=VmomiSupport.F_OPTIONAL)
        _require_method(context, thing, call)
        _check_privileges(context, thing, call)
        return bends.answered(context.state, _as_wire(_invoke(context, thing, call))), call.info


def _require_session(context: Context, call: MethodCall) -> None:
    """Raise NotAuthenticated for a method that not everybody may call; a Fetch judges by its property."""
    privilege = ANONYMOUS if call.info is None else call.info.privId
    if context.session is None and privilege != ANONYMOUS:
        raise not_authenticated(call.subject, privilege or "System.View")


def _check_privileges(context: Context, thing: Managed, call: MethodCall) -> None:
    """Raise NoPermission as the method's description says: of its object, and of each that it is given."""
    # The objects of storage policies are none of the inventory: the root folder stands for them.
    entity = vim.Folder(context.state.root) if call.is_storage else reference(thing)
    if call.info.privId and call.info.privId != ANONYMOUS:
        context.lab.check_privileges(entity, [call.info.privId])
    extra = bends.guards(context.state, call.name, call.arguments)
    context.lab.check_privileges(entity, extra)
    for parameter in call.info.params:
        privilege = getattr(parameter, "privId", None)
        given = call.arguments[parameter.name]
        if privilege is None or given is None:
            continue
        for one in given if isinstance(given, list) else [given]:
            context.lab.check_privileges(one, [privilege])


def _require_method(context: Context, thing: Managed, call: MethodCall) -> None:
    """Raise unless the object's type, this vCenter and the object's host have the method.

    A host too old for a method answers NotSupported here: pyvmomi's description of the fault fits, a real
    vCenter's answer is unproven.
    """
    is_declared = issubclass(vim_class(wire_type(thing)), call.info.type)
    newest = context.version if call.is_storage else vcenter_version(context)
    if not is_declared or not is_at_least(newest, call.info.version):
        raise vmodl.fault.MethodNotFound(
            receiver=reference(thing),
            method=call.name,
            msg=f"The method {call.name} is not known on {wire_type(thing)}",
        )
    owner = thing.owner if isinstance(thing, Service) else None
    if not isinstance(owner, Host):
        return
    refusals.check_host_answers(owner)
    if not is_at_least(version_name(owner.api_version) or "", call.info.version):
        raise refusals.not_supported()


def _invoke(context: Context, thing: Managed, call: MethodCall) -> Any:
    """Find who answers: the wire's own methods first, then the operations on the state."""
    arguments = bends.heard(context.state, call.name, call.arguments)
    if not call.name.endswith(TASK):
        bends.refuse(context.state, call.name, thing, arguments)
    for kind in vim_class(wire_type(thing)).__mro__:
        name = getattr(kind, "_wsdlName", "")
        if (name, call.name) in METHODS:
            return METHODS[name, call.name](context, thing, **arguments)
        if (name, call.name) in OPERATIONS:
            return OPERATIONS[name, call.name](context.lab, _subject(context, thing), **arguments)
    raise vmodl.fault.NotSupported(msg=f"The lab does not support {call.name}")


def _subject(context: Context, thing: Managed) -> Managed:
    """Return the object of an operation: for a manager the objects it manages, which may be all."""
    if not isinstance(thing, Service):
        return thing
    return thing.owner if thing.owner is not None else context.state.objects[context.state.root]


def _as_wire(value: Any) -> Any:
    if isinstance(value, Managed):
        return reference(value)
    if isinstance(value, list) and value and isinstance(value[0], Managed):
        return [reference(thing) for thing in value]
    return value
