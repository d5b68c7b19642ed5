"""A person does what no API reaches."""

from __future__ import annotations

from typing import Literal

from vgpu_cfg.changes.base import ChangeBase
from vgpu_cfg.changes.values import SettingTarget


class ManualStep(ChangeBase):
    """A step that no API reaches, told in words; `apply` stops before what needs it.

    `commands` are what to type, one line each. A reading of `proves` shows that it was done, or, where
    `is_shown`, the next planning sees it by itself. Else nothing can show that, and `apply --done ID`
    acknowledges it.
    """

    kind: Literal["manual_step"] = "manual_step"
    text: str
    proof: str = ""
    commands: tuple[str, ...] = ()
    proves: tuple[SettingTarget, ...] = ()
    is_shown: bool = False

    @property
    def needs_acknowledgement(self) -> bool:
        """Whether only somebody's word says that it was done."""
        return not self.proves and not self.is_shown
