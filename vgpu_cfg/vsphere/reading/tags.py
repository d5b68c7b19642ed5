"""How tags are read: categories with their tags, and those of VMs. Each id that is listed is asked about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import quote

from vgpu_cfg.errors import TooMuch, VCenterError
from vgpu_cfg.model.observed.tags import VM_TYPE, Tag, TagCategory
from vgpu_cfg.vsphere.wire.session import Session

CATEGORIES = "/com/vmware/cis/tagging/category"
TAGS = "/com/vmware/cis/tagging/tag"
ASSOCIATIONS = "/com/vmware/cis/tagging/tag-association"

MOST_ASKED = 1000
"""So many categories, or tags of one, are asked about: each is a round trip."""
VMS_AT_ONCE = 500


def read_categories(session: Session, wanted: frozenset[str]) -> tuple[TagCategory, ...]:
    """Read all categories, and the tags of those that are wanted by name: one round trip for each of them.

    The ids of all tags of a category take one more, those of the categories, too.
    """
    what = "reading the categories of tags"
    ids = _ids(session.rest.get(CATEGORIES, what), what, session.address)
    found = sorted((_category(session, one) for one in ids), key=lambda one: (one.name, one.id))
    return tuple(
        one.model_copy(update={"tags": tuple(_tags(session, one))}) if one.name in wanted else one
        for one in found
    )


def read_attached(session: Session, vm_moids: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """Return the ids of the tags that VMs have, of whatever category: one round trip for 500 VMs."""
    what = "reading the tags of VMs"
    found: dict[str, frozenset[str]] = dict.fromkeys(vm_moids, frozenset())
    for first in range(0, len(vm_moids), VMS_AT_ONCE):
        objects = [{"type": VM_TYPE, "id": moid} for moid in vm_moids[first : first + VMS_AT_ONCE]]
        answer = session.rest.act(
            ASSOCIATIONS, "list-attached-tags-on-objects", {"object_ids": objects}, what
        )
        for one in _list(answer, what, session.address):
            moid = _text(_mapping(one, what, session.address).get("object_id"), "id", what, session.address)
            ids = _list(one.get("tag_ids"), what, session.address)
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
    found = _mapping(session.rest.get(_of(CATEGORIES, category_id), what), what, session.address)
    types = _list(found.get("associable_types"), what, session.address)
    return TagCategory(
        name=_text(found, "name", what, session.address),
        id=category_id,
        is_single=found.get("cardinality") == "SINGLE",
        types=frozenset(str(one).rpartition(":")[2] for one in types),
    )


def _tags(session: Session, category: TagCategory) -> Iterator[Tag]:
    what = f"reading the tags of {category.name}"
    answer = session.rest.act(
        _of(TAGS, category.id), "list-tags-for-category", {"category_id": category.id}, what
    )
    for tag_id in _ids(answer, what, session.address):
        found = _mapping(session.rest.get(_of(TAGS, tag_id), what), what, session.address)
        name = _text(found, "name", what, session.address)
        yield Tag(category=category.name, name=name, id=tag_id)


def _of(path: str, one: str) -> str:
    return f"{path}/id:{quote(one, safe=':')}"


def _ids(answer: Any, what: str, address: str) -> list[str]:
    """Return ids in order. Raises TooMuch where they are more than anybody asks about one by one."""
    ids = sorted(str(one) for one in _list(answer, what, address))
    if len(ids) > MOST_ASKED:
        raise TooMuch(
            f"{what}: there are {len(ids)}, and at most {MOST_ASKED} are asked about",
            subject=address,
            remedy="name categories with fewer tags in the plan file",
        )
    return ids


def _list(value: Any, what: str, address: str) -> list[Any]:
    """Return a list; a server leaves an empty one out."""
    if value is None:
        return []
    if not isinstance(value, list):
        raise _unreadable(what, address)
    return value


def _mapping(value: Any, what: str, address: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _unreadable(what, address)
    return value


def _text(value: Any, key: str, what: str, address: str) -> str:
    found = _mapping(value, what, address).get(key)
    if not isinstance(found, str):
        raise _unreadable(what, address)
    return found


def _unreadable(what: str, address: str) -> VCenterError:
    return VCenterError(
        f"{what}: the answer cannot be read",
        subject=address,
        remedy="see what it is that answers there",
    )
