"""The custom attributes defined at a vCenter, and the objects that can have them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from vgpu_cfg.vsphere.wire.collector import Paths, Start, collect_from
from vgpu_cfg.vsphere.wire.session import Session

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
