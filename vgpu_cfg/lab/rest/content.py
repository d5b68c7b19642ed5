"""Content libraries in the REST API: the libraries, their items, and the content of VM templates.

Sources: the vSphere Automation API reference (Library, LocalLibrary, Library.Item, VmTemplate.LibraryItems),
and what govc asks. Libraries are made, changed and deleted; VM templates are put into them, a clone that
takes no time; nothing is deployed here. Files are those of `content_files`.
That privileges on libraries are asked for at the root is assumed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyVmomi import vim, vmodl

from vgpu_cfg.lab.operations.vms.clone import check_clone, clone_vm
from vgpu_cfg.lab.operations.vms.lifecycle import forget_vm
from vgpu_cfg.lab.rest.answer import Entries, Refused, Request
from vgpu_cfg.lab.rest.content_files import drop_files, files_of, put_files
from vgpu_cfg.lab.simulation.clock import VIRTUAL_START, as_datetime
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import Datastore, VirtualMachine
from vgpu_cfg.lab.state.libraries import VM_TEMPLATE, add_item, add_library, items_of, libraries_of

LIBRARY = "/com/vmware/content/library"
LOCAL = "/com/vmware/content/local-library"
SUBSCRIBED = "/com/vmware/content/subscribed-library"
ITEM = "/com/vmware/content/library/item"
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
    return {**always, "creation_time": _moment(VIRTUAL_START), **found}


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
        "creation_time": _moment(lab.clock.now()),
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
        "creation_time": _moment(lab.clock.now()),
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
    made = found.get("creation_time", _moment(VIRTUAL_START))
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
        "vm_template": vm.moid,
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


def _moment(at: float) -> str:
    return f"{as_datetime(at):%Y-%m-%dT%H:%M:%S.000Z}"


def _known(things: dict[str, dict[str, Any]], one: str) -> dict[str, Any]:
    if one not in things:
        raise Refused(404, "not_found", f"{one} not found")
    return things[one]
