"""vCenter's tags by category, and whether a VM can have several from one category."""

from __future__ import annotations

from vgpu_cfg.model.frozen import Frozen

VM_TYPE = "VirtualMachine"


class Tag(Frozen):
    """A tag. Names are shown and compared, and `id` (an URN) is what vCenter is asked by.

    `category` is the name of the category that it is of.
    """

    category: str
    name: str
    id: str

    def __str__(self) -> str:
        return f"{self.category}/{self.name}"


class TagCategory(Frozen):
    """A category with its tags, which are read only for requested categories.

    With `is_single` an object has one tag of it at most. `types` are the types of objects that its tags are
    for, empty for all.
    """

    name: str
    id: str
    is_single: bool = False
    types: frozenset[str] = frozenset()
    tags: tuple[Tag, ...] = ()

    @property
    def is_for_vms(self) -> bool:
        """Whether a VM can have its tags."""
        return not self.types or VM_TYPE in self.types

    def tag(self, name: str) -> Tag | None:
        """Return the tag of a name, None where there is none."""
        return next((tag for tag in self.tags if tag.name == name), None)
