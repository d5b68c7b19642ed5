"""Tags and custom attributes: their definitions at a vCenter, and those that objects have.

Each id of a tag that is listed is asked about. The names of an object's attributes are in `availableField`,
their texts in `customValue`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from vgpu_cfg.model.observed.own_items import VM_TYPE, Tag, TagCategory
from vgpu_cfg.vsphere.wire.collector import Item, Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.rest import ids_of, list_of, mapping_of, text_of
from vgpu_cfg.vsphere.wire.session import Session

CATEGORIES = "/com/vmware/cis/tagging/category"
TAGS = "/com/vmware/cis/tagging/tag"
ASSOCIATIONS = "/com/vmware/cis/tagging/tag-association"

VMS_AT_ONCE = 500


def read_categories(session: Session, wanted: frozenset[str]) -> tuple[TagCategory, ...]:
    """Read all categories, and the tags of those that are wanted by name: one round trip for each of them.

    The ids of all tags of a category take one more, those of the categories, too.
    """
    what = "reading the tag categories"
    ids = ids_of(session.rest.get(CATEGORIES, what), what, session.address)
    found = sorted((_category(session, one) for one in ids), key=lambda one: (one.name, one.id))
    return tuple(
        one.model_copy(update={"tags": tuple(_tags(session, one))}) if one.name in wanted else one
        for one in found
    )


def read_attached(session: Session, vm_moids: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Return the ids of the tags that VMs have, of whatever category: one round trip for 500 VMs."""
    what = "reading VM tags"
    found: dict[str, frozenset[str]] = dict.fromkeys(vm_moids, frozenset())
    for first in range(0, len(vm_moids), VMS_AT_ONCE):
        objects = [{"type": VM_TYPE, "id": moid} for moid in vm_moids[first : first + VMS_AT_ONCE]]
        answer = session.rest.act(
            ASSOCIATIONS, "list-attached-tags-on-objects", {"object_ids": objects}, what
        )
        for one in list_of(answer, what, session.address):
            moid = text_of(
                mapping_of(one, what, session.address).get("object_id"), "id", what, session.address
            )
            ids = list_of(one.get("tag_ids"), what, session.address)
            if moid in found:
                found[moid] = frozenset(str(tag_id) for tag_id in ids)
    return found


def names_of(ids: frozenset[str], categories: Sequence[TagCategory]) -> Mapping[str, tuple[str, ...]]:
    """Return the names of those tags that are of categories whose tags were read, by category."""
    found: dict[str, tuple[str, ...]] = {}
    for category in categories:
        if names := tuple(sorted(tag.name for tag in category.tags if tag.id in ids)):
            found[category.name] = names
    return found


def _category(session: Session, category_id: str) -> TagCategory:
    what = f"reading the category {category_id}"
    found = mapping_of(session.rest.get(_of(CATEGORIES, category_id), what), what, session.address)
    types = list_of(found.get("associable_types"), what, session.address)
    return TagCategory(
        name=text_of(found, "name", what, session.address),
        id=category_id,
        is_single=found.get("cardinality") == "SINGLE",
        types=frozenset(str(one).rpartition(":")[2] for one in types),
    )


def _tags(session: Session, category: TagCategory) -> Iterator[Tag]:
    what = f"reading the tags in {category.name}"
    answer = session.rest.act(
        _of(TAGS, category.id), "list-tags-for-category", {"category_id": category.id}, what
    )
    for tag_id in ids_of(answer, what, session.address):
        found = mapping_of(session.rest.get(_of(TAGS, tag_id), what), what, session.address)
        name = text_of(found, "name", what, session.address)
        yield Tag(category=category.name, name=name, id=tag_id)


def _of(path: str, one: str) -> str:
    return f"{path}/id:{quote(one, safe=':')}"


def custom_attributes(item: Item) -> Mapping[str, str]:
    """Return the custom attributes of a host or a VM that hold a text, by name."""
    names = {field.key: field.name for field in item.get("availableField") or ()}
    texts = {value.key: str(getattr(value, "value", None) or "") for value in item.get("customValue") or ()}
    return {names[key]: text for key, text in texts.items() if key in names and text}


_FIELDS = (Paths("vim.CustomFieldsManager", ("field",)),)


def fields_for(session: Session, manager: Any, *kinds: str) -> Iterator[Any]:
    """Yield the definitions that objects of some types can have, in one round trip."""
    for item in collect_from(session, _FIELDS, [Start("vim.CustomFieldsManager", str(manager._moId))]):
        for field in item.get("field") or ():
            if type_of(field) in ("", "ManagedEntity", *kinds):
                yield field


def type_of(field: Any) -> str:
    """Return the type that an attribute is defined for, "" for every one."""
    return getattr(field.managedObjectType, "_wsdlName", "") or ""
