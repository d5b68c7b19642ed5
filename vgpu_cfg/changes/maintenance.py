"""A host enters maintenance mode and leaves it, around what is done to it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from vgpu_cfg.changes.host_base import HostChangeBase
from vgpu_cfg.changes.values import SettingTarget, is_nothing


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


class ExitMaintenance(HostChangeBase):
    """Read back every setting of the run, leave maintenance mode, clear the mark and the alarm.

    A host that has left already keeps nothing of the mark either. One that somebody else held in
    maintenance mode before (`is_held`) stays there, and only the mark goes.
    """

    kind: Literal["exit_maintenance"] = "exit_maintenance"
    settles: tuple[SettingTarget, ...] = ()
    is_held: bool = False
    timeout_seconds: int = 600
