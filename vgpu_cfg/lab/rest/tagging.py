"""Tags in the REST API: categories, tags, and the objects they are attached to.

Sources: the vSphere Automation API reference (Category, Tag, TagAssociation), and the requests of govc. That
a second tag of a category of cardinality SINGLE is refused, and as an invalid argument, is assumed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from vgpu_cfg.lab.rest.answer import Refused, Request
from vgpu_cfg.lab.simulation.simulation import Simulation
from vgpu_cfg.lab.state.inventory import type_on_wire
from vgpu_cfg.lab.state.tags import (
    add_category,
    add_tag,
    attached_to,
    categories_of,
    objects_of,
    tags_of,
)

CATEGORY = "/com/vmware/cis/tagging/category"
TAG = "/com/vmware/cis/tagging/tag"
ASSOCIATION = "/com/vmware/cis/tagging/tag-association"
SINGLE = "SINGLE"

_OF_TAG, _OF_OBJECT = "InventoryService.Tagging.AttachTag", "InventoryService.Tagging.ObjectAttachable"


def categories(lab: Simulation, request: Request) -> Any:
    """List the categories, or make one."""
    if request.method == "GET":
        return list(categories_of(lab.state))
    spec = request.mapping("create_spec")
    name = str(spec.get("name", ""))
    if any(one["name"] == name for one in categories_of(lab.state).values()):
        raise Refused(400, "already_exists", f"A category {name} exists.")
    types = [str(one) for one in spec.get("associable_types") or ()]
    made = add_category(
        lab.state, name, str(spec.get("cardinality", SINGLE)), types, str(spec.get("description", ""))
    )
    lab.state.touch()
    return made


def category(lab: Simulation, request: Request) -> Any:
    """Show a category, change it, or drop it with its tags."""
    found = _known(categories_of(lab.state), request.id)
    if request.method == "GET":
        return {"id": request.id, "used_by": [], **found}
    if request.method == "PATCH":
        found |= request.mapping("update_spec")
    elif request.method == "DELETE":
        for tag_id in [one for one, its in tags_of(lab.state).items() if its["category_id"] == request.id]:
            _drop_tag(lab, tag_id)
        del categories_of(lab.state)[request.id]
    lab.state.touch()
    return None


def tags(lab: Simulation, request: Request) -> Any:
    """List all tags, or make one."""
    if request.method == "GET":
        return list(tags_of(lab.state))
    spec = request.mapping("create_spec")
    name, category_id = str(spec.get("name", "")), str(spec.get("category_id", ""))
    _known(categories_of(lab.state), category_id)
    if any((one["name"], one["category_id"]) == (name, category_id) for one in tags_of(lab.state).values()):
        raise Refused(400, "already_exists", f"A tag {name} exists in the category.")
    made = add_tag(lab.state, category_id, name, str(spec.get("description", "")))
    lab.state.touch()
    return made


def tag(lab: Simulation, request: Request) -> Any:
    """Show a tag, change or drop it; or list the tags of the category that the path names."""
    if request.action == "list-tags-for-category":
        _known(categories_of(lab.state), request.id)
        return [one for one, its in tags_of(lab.state).items() if its["category_id"] == request.id]
    found = _known(tags_of(lab.state), request.id)
    if request.method == "GET":
        return {"id": request.id, "used_by": [], **found}
    if request.method == "PATCH":
        found |= request.mapping("update_spec")
    elif request.method == "DELETE":
        _drop_tag(lab, request.id)
    lab.state.touch()
    return None


def association(lab: Simulation, request: Request) -> Any:
    """Ask and change what several tags are attached to, or what several objects have."""
    ids, objects = request.texts("tag_ids"), [_object(one) for one in request.items("object_ids")]
    match request.action:
        case "list-attached-tags":
            return attached_to(lab.state, *_object(request.mapping("object_id")))
        case "list-attached-tags-on-objects":
            return [
                {"object_id": {"type": kind, "id": moid}, "tag_ids": attached_to(lab.state, kind, moid)}
                for kind, moid in objects
            ]
        case "list-attached-objects-on-tags":
            return [{"tag_id": one, "object_ids": _objects(lab, one)} for one in ids]
        case "attach-multiple-tags-to-object":
            return _several(lab, ids, lambda one: _attach(lab, one, _object(request.mapping("object_id"))))
        case "detach-multiple-tags-from-object":
            return _several(lab, ids, lambda one: _detach(lab, one, _object(request.mapping("object_id"))))
        case action:
            raise Refused(404, "not_found", f"Action {action} not found.")


def association_of(lab: Simulation, request: Request) -> Any:
    """Ask and change what one tag is attached to."""
    _known(tags_of(lab.state), request.id)
    match request.action:
        case "attach":
            return _attach(lab, request.id, _object(request.mapping("object_id")))
        case "detach":
            return _detach(lab, request.id, _object(request.mapping("object_id")))
        case "list-attached-objects":
            return _objects(lab, request.id)
        case "attach-tag-to-multiple-objects":
            objects = [_object(one) for one in request.items("object_ids")]
            return _several(lab, objects, lambda one: _attach(lab, request.id, one))
        case action:
            raise Refused(404, "not_found", f"Action {action} not found.")


def _several(lab: Simulation, things: list[Any], act: Callable[[Any], None]) -> dict[str, Any]:
    """Apply an action to each, and report the failures of all; a missing privilege is refused at once."""
    errors = []
    for one in things:
        try:
            act(one)
        except Refused as refused:
            if refused.status == 403:
                raise
            errors.append({"id": refused.kind, "default_message": refused.message, "args": []})
    is_silent = lab.state.denies("tag-batches-report-each")
    is_mute = is_silent or lab.state.denies("tag-batch-messages")
    return {"success": is_silent or not errors, "error_messages": [] if is_mute else errors}


def _attach(lab: Simulation, tag_id: str, target: tuple[str, str]) -> None:
    category = _checked(lab, tag_id, target)
    objects = objects_of(lab.state, tag_id)
    if list(target) in objects:
        return
    name = tags_of(lab.state)[tag_id]["name"]
    types = category["associable_types"]
    if types and target[0] not in types:
        raise Refused(400, "invalid_argument", f"The tag {name} is not for objects of type {target[0]}.")
    others = [one for one in attached_to(lab.state, *target) if _category_of(lab, one) is category]
    if category["cardinality"] == SINGLE and others:
        raise Refused(400, "invalid_argument", f"The object has a tag of the category {category['name']}.")
    objects.append(list(target))
    lab.state.touch()


def _detach(lab: Simulation, tag_id: str, target: tuple[str, str]) -> None:
    _checked(lab, tag_id, target)
    objects = objects_of(lab.state, tag_id)
    if list(target) in objects:
        objects.remove(list(target))
        lab.state.touch()


def _checked(lab: Simulation, tag_id: str, target: tuple[str, str]) -> dict[str, Any]:
    """Return the category of a tag that the caller may attach to, or detach from, an object."""
    _known(tags_of(lab.state), tag_id)
    thing = lab.state.objects.get(target[1])
    may = thing is not None and type_on_wire(thing) == target[0] and not lab.lacks(target[1], _OF_OBJECT)
    if not may or lab.lacks(target[1], _OF_TAG):
        raise Refused(403, "unauthorized", "Permission to perform this operation was denied.")
    return _category_of(lab, tag_id)


def _category_of(lab: Simulation, tag_id: str) -> dict[str, Any]:
    return categories_of(lab.state)[tags_of(lab.state)[tag_id]["category_id"]]


def _drop_tag(lab: Simulation, tag_id: str) -> None:
    objects_of(lab.state, tag_id).clear()
    del tags_of(lab.state)[tag_id]


def _objects(lab: Simulation, tag_id: str) -> list[dict[str, str]]:
    return [{"type": kind, "id": moid} for kind, moid in objects_of(lab.state, tag_id)]


def _object(value: Any) -> tuple[str, str]:
    if not isinstance(value, Mapping) or not {"type", "id"} <= value.keys():
        raise Refused(400, "invalid_argument", "An object requires a type and an ID.")
    return str(value["type"]), str(value["id"])


def _known(things: dict[str, dict[str, Any]], one: str) -> dict[str, Any]:
    if one not in things:
        raise Refused(404, "not_found", f"Tagging object {one} not found")
    return things[one]
