"""A content library item that a plan file names, as read."""

from __future__ import annotations

from typing import Final

from vgpu_cfg.model.frozen import Frozen

VM_TEMPLATE: Final = "vm-template"
"""The type of an item that is a VM template of the inventory, under a name of the library's, too."""


class LibraryItem(Frozen):
    """An item by its library and its name; `kind` is its type, "" for one that is not there.

    A VM template has the moid of its inventory object; None if unknown. If it is
    missing, `others` are the existing names: items in the library, or libraries without it (`has_library`).
    `count` is how many items have the name.
    """

    library: str
    name: str
    kind: str = ""
    template_moid: str | None = None
    has_library: bool = True
    others: tuple[str, ...] = ()
    count: int = 1
