"""An advanced setting of vCenter itself is set."""

from __future__ import annotations

from typing import Literal

from vgpu_cfg.changes.base import ChangeBase


class SetVCenterOption(ChangeBase):
    """Set one advanced setting of vCenter itself."""

    kind: Literal["set_vcenter_option"] = "set_vcenter_option"
    option: str
    value: bool | int | str
