"""Content libraries in the REST API: the libraries, their items, VM templates, and files.

Libraries are made, changed and deleted; VM templates are put into them, a clone that takes no time; nothing
is deployed here. That privileges on libraries are asked for at the root is assumed.

Files come by PUT to an address that is handed out, and lie on the library's datastore where vCenter puts
them, in `contentlib-<library>/<item>/`, by their own names; vCenter adds an id to them. Nothing is fetched
from elsewhere, and no OVF is looked into.

Sources: the vSphere Automation API reference (Library, LocalLibrary, Library.Item, VmTemplate.LibraryItems;
for files Item.UpdateSession, Item.DownloadSession, Item.File, Item.Storage), and what govc asks.
"""

from __future__ import annotations

import secrets
import uuid
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote, unquote

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.operations.files import put
from vgpu_cfg.lab.operations.vms.clone import check_clone, clone_vm
from vgpu_cfg.lab.operations.vms.lifecycle import forget_vm
from vgpu_cfg.lab.rest.answer import Answer, Entries, Refused, Request, moment
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import Datastore, VirtualMachine
from vgpu_cfg.lab.state.libraries import (
    VM_TEMPLATE,
    add_item,
    add_library,
    items_of,
    libraries_of,
    sessions_of,
)

ITEM = "/com/vmware/content/library/item"
CONTENT_PATH = "/cls/data/"
SECONDS = 3600
"""How long a session stays without a word; an hour as in vcsim."""
PLAIN = {"Content-Type": "text/plain"}
_KINDS = {"iso": "iso", "ovf": "ovf"}
"""The type of an item without a stated one, by the ends of its files' names; else a file."""


# ---------------------------------------------------------------- what lies in an item


def files_of(lab: Simulation, item_id: str) -> dict[str, str]:
    """Return the files of an item: their names with their bytes as Latin-1 text."""
    store, folder = _place(lab, item_id)
    there = (path for path in store.files if path.startswith(folder) and path != folder)
    return {path.removeprefix(folder): store.files[path] for path in there}


def put_files(lab: Simulation, item_id: str, files: Mapping[str, str]) -> None:
    """Put files into an item; those of the same names are replaced."""
    store, folder = _place(lab, item_id)
    for name, text in files.items():
        put(lab, store, f"{folder}{name}", text)


def drop_files(lab: Simulation, item_id: str) -> None:
    """Delete the files of an item."""
    store, folder = _place(lab, item_id)
    for path in [path for path in store.files if path.startswith(folder)]:
        del store.files[path]
    lab.state.touch(store)


def _place(lab: Simulation, item_id: str) -> tuple[Datastore, str]:
    """Return the datastore and the folder of an item; a library of an estate has the first datastore."""
    library_id = items_of(lab.state)[item_id]["library_id"]
    backings = libraries_of(lab.state)[library_id].get("storage_backings") or [{}]
    named = lab.state.find(str(backings[0].get("datastore_id", "")), Datastore)
    return named or lab.state.all(Datastore)[0], f"contentlib-{library_id}/{item_id}/"


def files(lab: Simulation, request: Request) -> Any:
    """List the files of an item."""
    item_id = _item(lab, request.query.get("library_item_id", ""))
    return [_file(name, text) for name, text in files_of(lab, item_id).items()]


def file(lab: Simulation, request: Request) -> Any:
    """Show one file of an item."""
    return _file(*_named(lab, request, "name"))


def storage(lab: Simulation, request: Request) -> Any:
    """List the files of an item with where they lie."""
    item_id = _item(lab, request.query.get("library_item_id", ""))
    return [_stored(lab, item_id, name, text) for name, text in files_of(lab, item_id).items()]


def storage_of_file(lab: Simulation, request: Request) -> Any:
    """Show the place of one file."""
    return [_stored(lab, request.id, *_named(lab, request, "file_name"))]


def _named(lab: Simulation, request: Request, key: str) -> tuple[str, str]:
    name = str(request.body.get(key, ""))
    found = files_of(lab, _item(lab, request.id))
    if name not in found:
        raise Refused(404, "not_found", f"The item has no file {name}.")
    return name, found[name]


def _file(name: str, text: str) -> dict[str, Any]:
    return {"name": name, "size": len(text), "cached": True, "version": "1"}


def _stored(lab: Simulation, item_id: str, name: str, text: str) -> dict[str, Any]:
    store, folder = _place(lab, item_id)
    backing = {"type": "DATASTORE", "datastore_id": store.moid}
    return {**_file(name, text), "storage_backing": backing, "storage_uris": [f"{store.url}{folder}{name}"]}


def _item(lab: Simulation, item_id: str) -> str:
    if item_id not in items_of(lab.state):
        raise Refused(404, "not_found", f"{item_id} not found")
    return item_id


# ---------------------------------------------------------------- sessions


def _sessions(kind: str) -> Callable[[Simulation, Request], Any]:
    def answer(lab: Simulation, request: Request) -> Any:
        """List the sessions of a kind, or open one for an item."""
        if request.method == "GET":
            now, all_of = lab.clock.now(), sessions_of(lab.state)
            return [one for one, its in all_of.items() if its["kind"] == kind and its["expires"] >= now]
        item_id = _item(lab, str(request.mapping("create_spec").get("library_item_id", "")))
        if lab.lacks(lab.state.root, f"ContentLibrary.{kind}Session"):
            raise Refused(403, "unauthorized", "Permission to perform this operation was denied.")
        made = str(uuid.uuid4())
        opened = {"kind": kind, "item": item_id, "state": "ACTIVE", "files": {}}
        if kind == "Download":
            opened["files"] = dict.fromkeys(files_of(lab, item_id), "")
        sessions_of(lab.state)[made] = {**opened, "expires": lab.clock.now() + SECONDS}
        lab.state.touch()
        return made

    return answer


def session(lab: Simulation, request: Request) -> Any:
    """Show a session, or end it: its files are in the item once it is complete."""
    found = _session(lab, request.id)
    if request.method == "GET":
        return {
            "id": request.id,
            "library_item_id": found["item"],
            "library_item_content_version": "1",
            "client_progress": 0,
            "state": found["state"],
            "expiration_time": moment(found["expires"]),
        }
    if request.method == "DELETE":
        del sessions_of(lab.state)[request.id]
    elif request.action == "complete":
        _complete(lab, found)
    elif request.action in ("cancel", "fail"):
        found["state"] = "CANCELED" if request.action == "cancel" else "ERROR"
    elif request.action == "keep-alive":
        found["expires"] = lab.clock.now() + SECONDS
    else:
        raise Refused(400, "unsupported", f"The lab does not {request.action} a session.")
    lab.state.touch()
    return None


def _complete(lab: Simulation, found: dict[str, Any]) -> None:
    _need_active(found)
    arrived = {name: its["text"] for name, its in found["files"].items() if "text" in its}
    if len(arrived) < len(found["files"]):
        raise Refused(400, "not_allowed_in_current_state", "Not all files were uploaded.")
    item_id = _item(lab, found["item"])
    put_files(lab, item_id, arrived)
    ends = {name.rpartition(".")[2].lower() for name in arrived}
    item = items_of(lab.state)[item_id]
    item["type"] = item["type"] or next((kind for end, kind in _KINDS.items() if end in ends), "file")
    found |= {"state": "DONE", "files": {name: {"token": ""} for name in arrived}}


def put_session_files(lab: Simulation, request: Request) -> Any:
    """List the files that a session takes."""
    of = request.query.get("update_session_id", "")
    return [_taken(request, name, its) for name, its in _session(lab, of)["files"].items()]


def put_session_file(lab: Simulation, request: Request) -> Any:
    """Add a file to a session, show one, remove one, or check the existing ones."""
    found = _session(lab, request.id)
    if request.action == "validate":
        return {"has_errors": False, "missing_files": [], "invalid_files": []}
    if request.action == "add":
        _need_active(found)
        spec = request.mapping("file_spec")
        if spec.get("source_type") != "PUSH":
            raise Refused(400, "unsupported", "The lab does not fetch files; upload them with PUT.")
        name = str(spec.get("name", ""))
        if not name or "/" in name:
            raise Refused(400, "invalid_argument", "A file requires a name.")
        found["files"][name] = {"token": secrets.token_hex(16)}
        lab.state.touch()
        return _taken(request, name, found["files"][name])
    name = str(request.body.get("file_name", ""))
    if name not in found["files"]:
        raise Refused(404, "not_found", f"The session has no file {name}.")
    if request.action == "get":
        return _taken(request, name, found["files"][name])
    del found["files"][name]
    lab.state.touch()
    return None


def _taken(request: Request, name: str, its: Mapping[str, str]) -> dict[str, Any]:
    has_come = "text" in its or not its["token"]
    told: dict[str, Any] = {"name": name, "source_type": "PUSH"}
    told["status"] = "READY" if has_come else "WAITING_FOR_TRANSFER"
    told["bytes_transferred"] = len(its.get("text", ""))
    return {**told, "upload_endpoint": _address(request, its["token"], name)} if its["token"] else told


def got_session_files(lab: Simulation, request: Request) -> Any:
    """List the files that a session hands out."""
    of = _session(lab, request.query.get("download_session_id", ""))
    return [_handed_out(request, name, token) for name, token in of["files"].items()]


def got_session_file(lab: Simulation, request: Request) -> Any:
    """Download a file of a session, or show one."""
    found = _session(lab, request.id)
    name = str(request.body.get("file_name", ""))
    if name not in found["files"]:
        raise Refused(404, "not_found", f"The item has no file {name}.")
    if request.action == "prepare":
        found["files"][name] = found["files"][name] or secrets.token_hex(16)
        lab.state.touch()
    return _handed_out(request, name, found["files"][name])


def _handed_out(request: Request, name: str, token: str) -> dict[str, Any]:
    if not token:
        return {"name": name, "status": "UNPREPARED"}
    return {"name": name, "status": "PREPARED", "download_endpoint": _address(request, token, name)}


def _address(request: Request, token: str, name: str) -> dict[str, str]:
    return {"uri": f"https://{request.host}{CONTENT_PATH}{token}/{quote(name)}"}


def _session(lab: Simulation, session_id: str) -> dict[str, Any]:
    found: dict[str, Any] | None = sessions_of(lab.state).get(session_id)
    if found is None or found["expires"] < lab.clock.now():
        raise Refused(404, "not_found", f"{session_id} not found")
    return found


def _need_active(found: Mapping[str, Any]) -> None:
    if found["state"] != "ACTIVE":
        raise Refused(400, "not_allowed_in_current_state", f"The session is {found['state']}.")


def exchange_content(lab: Simulation, method: str, path: str, body: bytes) -> Answer:
    """Answer a PUT or a GET of an address that was handed out: 404 for any other."""
    token, _, name = unquote(path.removeprefix(CONTENT_PATH)).partition("/")
    with lab.transaction():
        for its in sessions_of(lab.state).values():
            known = its["files"].get(name)
            if its["state"] != "ACTIVE" or not known or not token:
                continue
            if its["kind"] == "Update" and method == "PUT" and known["token"] == token:
                known["text"] = body.decode("latin-1")
                lab.state.touch()
                return 200, PLAIN, b""
            if its["kind"] == "Download" and method == "GET" and known == token:
                text = files_of(lab, its["item"]).get(name, "") if its["item"] in items_of(lab.state) else ""
                return 200, {"Content-Type": "application/octet-stream"}, text.encode("latin-1")
    return 404, PLAIN, b"404 Not Found\n"


HANDLERS: dict[tuple[str, bool], Callable[[Simulation, Request], Any]] = {
    (f"{ITEM}/file", False): files,
    (f"{ITEM}/file", True): file,
    (f"{ITEM}/storage", False): storage,
    (f"{ITEM}/storage", True): storage_of_file,
    (f"{ITEM}/update-session", False): _sessions("Update"),
    (f"{ITEM}/update-session", True): session,
    (f"{ITEM}/updatesession/file", False): put_session_files,
    (f"{ITEM}/updatesession/file", True): put_session_file,
    (f"{ITEM}/download-session", False): _sessions("Download"),
    (f"{ITEM}/download-session", True): session,
    (f"{ITEM}/downloadsession/file", False): got_session_files,
    (f"{ITEM}/downloadsession/file", True): got_session_file,
}
"""The handlers of a path, by whether an id follows."""


LIBRARY = "/com/vmware/content/library"
LOCAL = "/com/vmware/content/local-library"
SUBSCRIBED = "/com/vmware/content/subscribed-library"
POLICIES = "/com/vmware/content/security-policies"
TRUST = "/com/vmware/content/trusted-certificates"
POLICY = "7b1c2b8e-4c0f-4d8e-9a39-0d4a2e5f6c11"
TEMPLATES = "/vcenter/vm-template/library-items"


def libraries(lab: Simulation, request: Request) -> Any:
    """List the libraries, or find those of a name, whatever its case."""
    found = libraries_of(lab.state)
    if request.action != "find":
        return list(found)
    name = str(request.mapping("spec").get("name", "")).casefold()
    return [one for one, library in found.items() if library["name"].casefold() == name]


def library(lab: Simulation, request: Request) -> Any:
    """Show a library, or change its name and description."""
    found = _known(libraries_of(lab.state), request.id)
    if request.action:
        raise Refused(400, "unsupported", f"The lab does not {request.action} a library.")
    if request.method == "PATCH":
        is_local = request.path == LOCAL
        _need(lab, lab.state.root, f"ContentLibrary.Update{'LocalLibrary' if is_local else 'Library'}")
        spec = request.mapping("update_spec")
        if spec.get("name") == "":
            raise Refused(400, "invalid_argument", "A library requires a name.")
        found |= {key: str(spec[key]) for key in ("name", "description") if spec.get(key) is not None}
        lab.state.touch()
        return None
    always = {"id": request.id, "type": "LOCAL", "description": "", "storage_backings": [], "version": "1"}
    return {**always, "creation_time": moment(VIRTUAL_START), **found}


def local_libraries(lab: Simulation, request: Request) -> Any:
    """List the libraries, which all are local, or make one on a datastore."""
    if request.method == "GET":
        return list(libraries_of(lab.state))
    spec = request.mapping("create_spec")
    name = str(spec.get("name") or "")
    backings = [dict(one) for one in spec.get("storage_backings") or () if isinstance(one, Mapping)]
    if not name or not backings:
        raise Refused(400, "invalid_argument", "A library requires a name and a storage backing.")
    if len(backings) > 1:
        raise Refused(400, "unsupported", "A library requires exactly one storage backing.")
    _need(lab, lab.state.root, "ContentLibrary.CreateLocalLibrary")
    for one in backings:
        store = lab.state.find(str(one.get("datastore_id", "")), Datastore)
        if store is None:
            raise Refused(400, "invalid_argument", f"{one.get('datastore_id')} is not a datastore.")
        _need(lab, store.moid, "Datastore.AllocateSpace")
    made = add_library(lab.state, name)
    libraries_of(lab.state)[made] |= {
        "description": str(spec.get("description") or ""),
        "storage_backings": backings,
        "creation_time": moment(lab.clock.now()),
    }
    lab.state.touch()
    return made


def local_library(lab: Simulation, request: Request) -> Any:
    """Show a library, change it, or delete it with its items."""
    if request.method != "DELETE":
        return library(lab, request)
    _known(libraries_of(lab.state), request.id)
    _need(lab, lab.state.root, "ContentLibrary.DeleteLocalLibrary")
    for one in [one for one, item in items_of(lab.state).items() if item["library_id"] == request.id]:
        drop_files(lab, one)
        del items_of(lab.state)[one]
    del libraries_of(lab.state)[request.id]
    lab.state.touch()
    return None


def subscribed_libraries(_lab: Simulation, request: Request) -> Any:
    """List the subscribed libraries: there are none, and none can be made."""
    if request.method == "GET":
        return []
    raise Refused(400, "unsupported", "The lab has no subscribed libraries.")


def items(lab: Simulation, request: Request) -> Any:
    """List the items of a library, find those of a name in one, or make one that files are put into."""
    if request.method == "POST" and not request.action:
        spec = request.mapping("create_spec")
        return _make_item(lab, str(spec.get("library_id", "")), spec, str(spec.get("type") or ""))
    spec = request.mapping("spec") if request.action == "find" else request.query
    library_id, name = str(spec.get("library_id", "")), str(spec.get("name", "")).casefold()
    if request.action != "find":
        _known(libraries_of(lab.state), library_id)
    return [
        one
        for one, item in items_of(lab.state).items()
        if item["library_id"] == library_id and name in ("", item["name"].casefold())
    ]


def _make_item(lab: Simulation, library_id: str, spec: Mapping[str, Any], kind: str) -> str:
    """Add an item without files to a library. Raises Refused."""
    _known(libraries_of(lab.state), library_id)
    name = str(spec.get("name") or "")
    _check_item_name(lab, library_id, name)
    _need(lab, lab.state.root, "ContentLibrary.AddLibraryItem")
    made = add_item(lab.state, library_id, name, kind)
    items_of(lab.state)[made] |= {
        "description": str(spec.get("description") or ""),
        "creation_time": moment(lab.clock.now()),
    }
    lab.state.touch()
    return made


def _check_item_name(lab: Simulation, library_id: str, name: str) -> None:
    if not name:
        raise Refused(400, "invalid_argument", "An item requires a name.")
    if any((one["library_id"], one["name"]) == (library_id, name) for one in items_of(lab.state).values()):
        raise Refused(400, "already_exists", f"The library has an item {name}.")


def item(lab: Simulation, request: Request) -> Any:
    """Show an item, change it, copy it with its files, or delete it; with a VM template its VM goes."""
    found = _known(items_of(lab.state), request.id)
    if request.action == "copy":
        if found["type"] == VM_TEMPLATE:
            raise Refused(400, "unsupported", "The lab does not copy VM templates between libraries.")
        spec = request.mapping("destination_create_spec")
        into = str(spec.get("library_id") or found["library_id"])
        made = _make_item(lab, into, {**found, **spec}, found["type"])
        put_files(lab, made, files_of(lab, request.id))
        return made
    if request.action:
        raise Refused(400, "unsupported", f"The lab does not {request.action} an item.")
    if request.method == "PATCH":
        _need(lab, lab.state.root, "ContentLibrary.UpdateLibraryItem")
        spec = request.mapping("update_spec")
        if spec.get("name") not in (None, found["name"]):
            _check_item_name(lab, found["library_id"], str(spec["name"]))
        found |= {key: str(spec[key]) for key in ("name", "description") if spec.get(key) is not None}
        lab.state.touch()
        return None
    if request.method == "DELETE":
        _need(lab, lab.state.root, "ContentLibrary.DeleteLibraryItem")
        vm = lab.state.find(found["vm_template"], VirtualMachine)
        if vm is not None:
            forget_vm(lab, vm)
        if request.id in items_of(lab.state):
            drop_files(lab, request.id)
        items_of(lab.state).pop(request.id, None)
        lab.state.touch()
        return None
    told = {key: found.get(key, "") for key in ("name", "type", "library_id", "description")}
    told["size"] = sum(map(len, files_of(lab, request.id).values()))
    made = found.get("creation_time", moment(VIRTUAL_START))
    moments = dict.fromkeys(("creation_time", "last_modified_time"), made)
    return {"id": request.id, **told, "cached": True, **moments}


def put_template(lab: Simulation, request: Request) -> Any:
    """Make a VM template of a VM, as an item of a library: a clone, done at once. Raises Refused."""
    spec = request.mapping("spec")
    library_id, name = str(spec.get("library", "")), str(spec.get("name") or "")
    _known(libraries_of(lab.state), library_id)
    _check_item_name(lab, library_id, name)
    source = lab.state.find(str(spec.get("source_vm", "")), VirtualMachine)
    if source is None:
        raise Refused(404, "not_found", f"{spec.get('source_vm')} not found")
    _need(lab, lab.state.root, "ContentLibrary.AddLibraryItem")
    placement = spec.get("placement") or {}
    host, store = placement.get("host"), (spec.get("vm_home_storage") or {}).get("datastore")
    location = vim.vm.RelocateSpec(
        host=vim.HostSystem(host) if host else None, datastore=vim.Datastore(store) if store else None
    )
    given: dict[str, Any] = {
        "folder": vim.Folder(placement.get("folder") or source.parent),
        "name": name,
        "spec": vim.vm.CloneSpec(location=location, template=True, powerOn=False),
    }
    try:
        check_clone(lab, source, **given)
        made = clone_vm(lab, source, **given)
    except vmodl.fault.SecurityError as fault:
        raise Refused(403, "unauthorized", str(getattr(fault, "msg", ""))) from fault
    except vmodl.MethodFault as fault:
        raise Refused(400, "invalid_argument", str(getattr(fault, "msg", ""))) from fault
    item_id = add_item(lab.state, library_id, name, VM_TEMPLATE, made.moid)
    lab.state.touch()
    return item_id


def template(lab: Simulation, request: Request) -> Any:
    """Show the VM template of an item; nothing for any other item."""
    found = _known(items_of(lab.state), request.id)
    if found["type"] != VM_TEMPLATE:
        return None
    vm = lab.state.get(found["vm_template"], VirtualMachine)
    return {
        "guest_OS": vm.guest_id,
        "cpu": {"count": vm.cpus, "cores_per_socket": vm.cores_per_socket},
        "memory": {"size_mib": vm.memory_mib},
        "disks": [],
        "nics": [],
        "vm_home_storage": {"datastore": vm.datastore},
        "vm_template": "" if lab.state.denies("library-template-is-in-the-inventory") else vm.moid,
    }


def policies(_lab: Simulation, _request: Request) -> Any:
    """List the security policies of libraries: vCenter's own for OVFs, by an id of the lab's own."""
    rules = Entries(ovf="OVF_STRICT_VERIFICATION")
    return [{"policy": POLICY, "name": "OVF default policy", "item_type_rules": rules}]


def trusted(_lab: Simulation, _request: Request) -> Any:
    """List the certificates that items are signed by: none, and none can be added."""
    return {"certificates": []}


def _need(lab: Simulation, moid: str, privilege: str) -> None:
    if lab.lacks(moid, privilege):
        raise Refused(403, "unauthorized", "Permission to perform this operation was denied.")


def _known(things: dict[str, dict[str, Any]], one: str) -> dict[str, Any]:
    if one not in things:
        raise Refused(404, "not_found", f"{one} not found")
    return things[one]
