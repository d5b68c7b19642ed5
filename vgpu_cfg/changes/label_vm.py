"""A VM is given custom attributes or tags."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.values import VmRef
from vgpu_cfg.model.observed.tags import Tag


class SetAttributes(ChangeBase):
    """Set custom attributes of a VM, by their names; an empty text clears one. Plain calls, no task."""

    kind: Literal["set_attributes"] = "set_attributes"
    vm: VmRef
    values: Mapping[str, str]


class SetTags(ChangeBase):
    """Take tags from a VM and give it others, in this order: of some categories it has one at most.

    Plain calls to vCenter's REST side, no task.
    """

    kind: Literal["set_tags"] = "set_tags"
    vm: VmRef
    detach: tuple[Tag, ...] = ()
    attach: tuple[Tag, ...] = ()
