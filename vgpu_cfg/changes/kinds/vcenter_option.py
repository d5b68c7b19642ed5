"""An advanced setting of vCenter itself is set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.need import Needed
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.reach import Disturbed, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Placement, Row, plain_rows, set_to, wire_text


class SetVCenterOption(ChangeBase):
    """Set one advanced setting of vCenter itself."""

    face = Face("set", "option set", done="option set", noun="option", is_task=False, is_of_vcenter=True)

    kind: Literal["set_vcenter_option"] = "set_vcenter_option"
    option: str
    value: bool | int | str

    def head(self, place: Placement | None) -> None:
        return None

    def rows(self, place: Placement | None, tables: Tables) -> Iterator[Row]:
        return ((edit.key, set_to(edit, unset="unset")) for edit in self.edits)

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        before = next((edit.before for edit in self.edits if edit.before is not None), None)
        value = wire_text(self.value)
        return (
            Part(
                what=f"Set vCenter's advanced setting {self.option} to {value}.",
                why="this setting allows vCenter to migrate running VMs with vGPUs",
                client="vCenter > Configure > Settings > Advanced Settings > Edit Settings",
                commands=(command("govc", "option.set", self.option, value),),
                expected="no output",
                verify=(command("govc", "option.ls", self.option),),
                undo=() if before is None else (command("govc", "option.set", self.option, before),),
                rows=plain_rows(self.edits),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return reach.option("vcenter", reach.observed.vcenter.address, None, reach.observed.vms)

    def privileges(self, at: Places) -> Iterator[Needed]:
        return at.at_root(privileges.VCENTER_OPTION)
