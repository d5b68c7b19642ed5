"""How custom attributes are read: their names stand in `availableField`, their texts in `customValue`."""

from __future__ import annotations

from collections.abc import Mapping

from vgpu_cfg.vsphere.wire.collector import Item


def custom_attributes(item: Item) -> Mapping[str, str]:
    """Return the custom attributes of a host or a VM that hold a text, by name."""
    names = {field.key: field.name for field in item.get("availableField") or ()}
    texts = {value.key: str(getattr(value, "value", None) or "") for value in item.get("customValue") or ()}
    return {names[key]: text for key, text in texts.items() if key in names and text}
