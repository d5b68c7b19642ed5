"""Find items of content libraries by name, and their VM templates in the inventory.

A VM template in a library is an object of the inventory as well: `vm_template` of its information is the moid
that the vSphere API knows it by (vSphere Automation API, VmTemplate.LibraryItems.Info). So it is read
and cloned as any other template.

Belief: library-template-is-in-the-inventory.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from urllib.parse import quote

from vgpu_cfg.errors import NotFound
from vgpu_cfg.model.observed.libraries import VM_TEMPLATE, LibraryItem
from vgpu_cfg.vsphere.wire.rest import ids_of, mapping_of, text_of
from vgpu_cfg.vsphere.wire.session import Session

LIBRARIES = "/com/vmware/content/library"
ITEMS = "/com/vmware/content/library/item"
TEMPLATES = "/vcenter/vm-template/library-items"


def read_library_items(session: Session, wanted: Iterable[tuple[str, str]]) -> tuple[LibraryItem, ...]:
    """Return what there is of each item by library and name: four round trips for a VM template.

    Names of libraries need not be different: items are looked for in all that have the name.
    """
    return tuple(_item(session, library, name) for library, name in sorted(set(wanted)))


def _item(session: Session, library: str, name: str) -> LibraryItem:
    what = f"looking up the library item {library}/{name}"
    libraries = _find(session, LIBRARIES, {"name": library}, what)
    if not libraries:
        known = _ids(session, session.rest.get(LIBRARIES, what), what)
        return LibraryItem(
            library=library, name=name, has_library=False, others=_names(session, LIBRARIES, known, what)
        )
    found = [
        item for one in libraries for item in _find(session, ITEMS, {"library_id": one, "name": name}, what)
    ]
    if not found:
        listed = [session.rest.get(f"{ITEMS}?library_id={quote(one)}", what) for one in libraries]
        known = [item for answer in listed for item in _ids(session, answer, what)]
        return LibraryItem(library=library, name=name, others=_names(session, ITEMS, known, what))
    told = mapping_of(session.rest.get(_of(ITEMS, found[0]), what), what, session.address)
    kind = text_of(told, "type", what, session.address)
    moid = _template_moid(session, found[0], what) if kind == VM_TEMPLATE else None
    return LibraryItem(library=library, name=name, kind=kind, template_moid=moid, count=len(found))


def _template_moid(session: Session, item: str, what: str) -> str | None:
    """Return the moid of the latest version's VM template; None if unknown."""
    try:
        found = session.rest.get(f"{TEMPLATES}/{quote(item)}", what)
    except NotFound:
        return None
    moid = found.get("vm_template") if isinstance(found, dict) else None
    return moid if isinstance(moid, str) and moid else None


def _find(session: Session, path: str, spec: dict[str, str], what: str) -> list[str]:
    return _ids(session, session.rest.act(path, "find", {"spec": spec}, what), what)


def _names(session: Session, path: str, ids: Iterable[str], what: str) -> tuple[str, ...]:
    told = (mapping_of(session.rest.get(_of(path, one), what), what, session.address) for one in ids)
    return tuple(sorted({text_of(one, "name", what, session.address) for one in told}))


def _ids(session: Session, answer: Any, what: str) -> list[str]:
    return ids_of(answer, what, session.address)


def _of(path: str, one: str) -> str:
    return f"{path}/id:{quote(one)}"
