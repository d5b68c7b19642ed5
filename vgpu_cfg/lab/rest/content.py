"""What the REST side answers of content libraries: which there are, their items, and what VM templates hold.

Sources: the vSphere Automation API reference (Library, Library.Item, VmTemplate.LibraryItems), and what govc
asks. Nothing is deployed here.
"""

from __future__ import annotations

from typing import Any

from vgpu_cfg.lab.rest.answer import Refused, Request
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import VirtualMachine
from vgpu_cfg.lab.state.libraries import VM_TEMPLATE, items_of, libraries_of

LIBRARY = "/com/vmware/content/library"
ITEM = "/com/vmware/content/library/item"
TEMPLATES = "/vcenter/vm-template/library-items"


def libraries(lab: Simulation, request: Request) -> Any:
    """List the libraries, or find those of a name, whatever its case."""
    found = libraries_of(lab.state)
    if request.action != "find":
        return list(found)
    name = str(request.mapping("spec").get("name", "")).casefold()
    return [one for one, library in found.items() if library["name"].casefold() == name]


def library(lab: Simulation, request: Request) -> Any:
    """Tell of a library."""
    found = _known(libraries_of(lab.state), request.id)
    return {"id": request.id, "type": "LOCAL", "description": "", "storage_backings": [], **found}


def items(lab: Simulation, request: Request) -> Any:
    """List the items of a library, or find those of a name in one."""
    spec = request.mapping("spec") if request.action == "find" else request.query
    library_id, name = str(spec.get("library_id", "")), str(spec.get("name", "")).casefold()
    if request.action != "find":
        _known(libraries_of(lab.state), library_id)
    return [
        one
        for one, item in items_of(lab.state).items()
        if item["library_id"] == library_id and name in ("", item["name"].casefold())
    ]


def item(lab: Simulation, request: Request) -> Any:
    """Tell of an item."""
    found = _known(items_of(lab.state), request.id)
    return {"id": request.id, **{key: found[key] for key in ("name", "type", "library_id")}, "cached": True}


def template(lab: Simulation, request: Request) -> Any:
    """Tell of the VM template that an item is; nothing of one that is none."""
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


def _known(things: dict[str, dict[str, Any]], one: str) -> dict[str, Any]:
    if one not in things:
        raise Refused(404, "not_found", f"{one} not found")
    return things[one]
