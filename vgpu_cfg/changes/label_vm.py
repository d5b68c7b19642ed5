"""A VM is given custom attributes or tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.edits import changed
from vgpu_cfg.changes.need import Needed
from vgpu_cfg.changes.places import VM, Places
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Placement, Row, VmRef, plain
from vgpu_cfg.model.observed.tags import Tag


class SetAttributes(ChangeBase):
    """Set custom attributes of a VM, by their names; an empty text clears one. Plain calls, no task."""

    is_task = False
    names_freely = True

    kind: Literal["set_attributes"] = "set_attributes"
    vm: VmRef
    values: Mapping[str, str]

    def head(self, place: Placement | None) -> Row:
        return "attributes", plain("")

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        return ((edit.key, changed(edit)) for edit in self.edits)

    def privileges(self, at: Places) -> Iterator[Needed]:
        return at.attributes(at.vm(self.vm), privileges.SET_ATTRIBUTES, VM, self.values)


class SetTags(ChangeBase):
    """Take tags from a VM and give it others, in this order: of some categories it has one at most.

    Plain calls to vCenter's REST side, no task.
    """

    is_task = False
    names_freely = True

    kind: Literal["set_tags"] = "set_tags"
    vm: VmRef
    detach: tuple[Tag, ...] = ()
    attach: tuple[Tag, ...] = ()

    def head(self, place: Placement | None) -> Row:
        return "tags", plain("")

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        return ((edit.key, changed(edit)) for edit in self.edits)

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.SET_TAGS, at.vm(self.vm))
