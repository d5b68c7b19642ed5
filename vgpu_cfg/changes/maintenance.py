"""A host enters maintenance mode and leaves it, around what is done to it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.host_base import HostChangeBase
from vgpu_cfg.changes.need import Needed
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.values import Placement, Row, SettingTarget, is_nothing, plain
from vgpu_cfg.model.ranges import fold_names


class EnterMaintenance(HostChangeBase):
    """Mark the host with who takes it down and why, raise the alarm, and enter maintenance mode.

    `evacuates` names the running VMs that DRS moves away. At most `max_down` hosts of a wave are
    between this and their `ExitMaintenance`. `window` is when it may begin, as the plan file has it.
    A host that somebody else holds in maintenance mode (`is_held`) is marked and not entered, nor is one that
    an earlier run of the plan took there, whose mark was lost (`is_recovered`).
    `timeout_seconds` is vCenter's limit on it, 0 for none. `takes_seconds` is how long the host is thought to
    be away: it is not begun where its window closes sooner.
    """

    kind: Literal["enter_maintenance"] = "enter_maintenance"
    reason: str
    evacuates: tuple[str, ...] = ()
    vsan: Literal["ensureAccessibility", "noAction", "evacuateAllData"] | None = None
    max_down: int = 1
    window: str = ""
    takes_seconds: int = Field(default=0, exclude_if=is_nothing)
    is_held: bool = False
    is_recovered: bool = False
    timeout_seconds: int = 1800

    @property
    def sign(self) -> str:
        return " "

    def likeness(self, name: str) -> object:
        return (self.is_held, self.vsan, self.window)

    def head(self, place: Placement | None) -> Row:
        if self.is_held:
            words = "somebody else holds it in maintenance mode: it is marked, and left there"
        elif self.is_recovered:
            words = "an earlier run took it into maintenance mode, and its mark is gone: it is marked again"
        else:
            moves = f"DRS moves {fold_names(self.evacuates)} away; " if self.evacuates else ""
            words = f"{moves}enter maintenance mode{'' if self.vsan is None else f', vSAN {self.vsan}'}"
        return "maintenance", plain(words)

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.ALARM, self.host.moid)
        yield Needed(privileges.MAINTENANCE, self.host.moid)
        yield from at.host_mark(self.host.moid)


class ExitMaintenance(HostChangeBase):
    """Read back every setting of the run, leave maintenance mode, clear the mark and the alarm.

    A host that has left already keeps nothing of the mark either. One that somebody else held in
    maintenance mode before (`is_held`) stays there, and only the mark goes.
    """

    kind: Literal["exit_maintenance"] = "exit_maintenance"
    settles: tuple[SettingTarget, ...] = ()
    is_held: bool = False
    timeout_seconds: int = 600

    @property
    def sign(self) -> str:
        return " "

    def head(self, place: Placement | None) -> Row:
        if not (self.settles or self.is_held):
            return "give back", plain("leave maintenance mode")
        is_kept = "all settings; it stays in maintenance mode, where somebody else holds it"
        return "read back", plain(is_kept if self.is_held else "then leave maintenance mode")

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.MAINTENANCE, self.host.moid)
        yield from at.host_mark(self.host.moid)
