"""What a reading found of an item of a content library that a plan file names."""

from __future__ import annotations

from typing import Final

from vgpu_cfg.model.frozen import Frozen

VM_TEMPLATE: Final = "vm-template"
"""The type of an item that is a VM template of the inventory, under a name of the library's, too."""


class LibraryItem(Frozen):
    """An item by its library and its name; `kind` is its type, "" for one that is not there.

    A VM template has the moid of what stands for it in the inventory, None where that is not told. Of what is
    not there `others` are the names that are: items of the library, or libraries where it `has_library` not.
    `count` is how many items have the name.
    """

    library: str
    name: str
    kind: str = ""
    template_moid: str | None = None
    has_library: bool = True
    others: tuple[str, ...] = ()
    count: int = 1
