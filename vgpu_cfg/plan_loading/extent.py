"""How many names a plan file writes out: a line of a few letters can stand for millions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from vgpu_cfg.documents import Document, Limit, Loc
from vgpu_cfg.errors import DocumentFault
from vgpu_cfg.model.ranges import count_members


def beyond(documents: Sequence[Document], limit: Limit) -> DocumentFault | None:
    """Return a fault at the name with which a plan writes out too many, None where it does not."""
    count, most = 0, limit.value
    for document in documents:
        for loc, name in _names(document.data):
            count += count_members(name)
            if count > most:
                message = f"with this name the plan file writes out {count:,} names, of {most:,} at most"
                return document.fault(loc, message, f"make several plans of it{limit.remedy}")
    return None


def _names(data: Mapping[str, Any]) -> Iterator[tuple[Loc, str]]:
    """Yield every text in which ranges are written out."""
    for section, keys in (("vms", ("name",)), ("networks", ("name",)), ("moved", ("from", "to"))):
        for loc, item in _items(data, section):
            yield from _texts(loc, {"": item} if isinstance(item, str) else item, ("", *keys))
    for loc, item in _items(data, "vms"):
        exceptions = item.get("except") if isinstance(item, Mapping) else None
        yield from (
            ((*loc, "except", key), key) for key in exceptions or () if isinstance(exceptions, Mapping)
        )
    for loc, item in _items(data, "hosts"):
        yield from _texts(loc, item, ("names",))
    if isinstance(data.get("training"), Mapping):
        yield from _texts(("training",), data["training"], ("workers",))


def _items(data: Mapping[str, Any], section: str) -> Iterator[tuple[Loc, Any]]:
    items = data.get(section)
    yield from (
        ((section, index), item) for index, item in enumerate(items if isinstance(items, list) else ())
    )


def _texts(loc: Loc, item: Any, keys: Sequence[str]) -> Iterator[tuple[Loc, str]]:
    """Yield the texts of a mapping at some of its keys, one or a list at each."""
    for key in keys:
        value = item.get(key) if isinstance(item, Mapping) else None
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str):
                yield (*loc, key), text
