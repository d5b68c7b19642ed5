"""Enter maintenance mode before work on a host, and leave it afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Literal

from pydantic import Field

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Down, Face, HostChangeBase, Timing, setting_rows
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.places import Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Experience, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Placement, Row, SettingTarget, is_nothing, plain
from vgpu_cfg.model.ranges import fold_names

_VSAN_WORDS = {
    "ensureAccessibility": "Ensure accessibility",
    "noAction": "No data migration",
    "evacuateAllData": "Full data migration",
}


class EnterMaintenance(HostChangeBase):
    """Mark the host with the run and the reason, raise the alarm, and enter maintenance mode.

    `evacuates` names the running VMs that DRS moves away. At most `max_down` hosts of a wave are between this
    and their `ExitMaintenance`. `window` is when it may begin, from the plan file. A host already in someone
    else's maintenance mode (`is_held`) is marked and not entered, nor is one that an earlier run of the plan
    took there and whose mark was lost (`is_recovered`). `timeout_seconds` is vCenter's limit on it, 0 for
    none. `takes_seconds` is the host's expected downtime: it does not begin if its window closes sooner.
    """

    face = Face("down", "enters maintenance mode", sign=" ", takes_away=True)

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
    def down(self) -> Down | None:
        return None if self.is_held else Down(self.wave, 1, self.max_down)

    @property
    def moved_away(self) -> tuple[str, ...]:
        return self.evacuates

    @property
    def pictured(self) -> tuple[str, str]:
        return "moved", f"moved off {self.host.name} by DRS, which selects the target"

    @property
    def timing(self) -> Timing:
        return Timing(self.takes_seconds, (self.window,) if self.window else ())

    def differs_from(self, other: ChangeBase) -> Iterator[str]:
        if self.evacuates != other.moved_away:
            yield f"migrates {fold_names(self.evacuates)}" if self.evacuates else "migrates no VMs"

    def likeness(self, name: str) -> object:
        return (self.is_held, self.vsan, self.window)

    def head(self, place: Placement | None) -> Row:
        if self.is_held:
            words = "already in maintenance mode for another reason; marked, stays in maintenance mode"
        elif self.is_recovered:
            words = "put into maintenance mode by an earlier run, but the host's marker is missing; set again"
        else:
            moves = f"DRS migrates {fold_names(self.evacuates)}; " if self.evacuates else ""
            words = f"{moves}enter maintenance mode{'' if self.vsan is None else f', vSAN {self.vsan}'}"
        return "maintenance", plain(words)

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.host.name
        if self.is_held:
            what = f"{name} is in maintenance mode for another reason. Ask its owner before you continue."
            return (Part(what=what),)
        if self.is_recovered:
            what = f"An earlier run of this plan left {name} in maintenance mode."
            return (Part(what=what),)
        moves = (
            f"DRS migrates these VMs: {fold_names(self.evacuates)}. If it does not, migrate them manually."
            if self.evacuates
            else "No VMs need to be migrated."
        )
        limit = "one host in its cluster" if self.max_down == 1 else f"{self.max_down} hosts in its cluster"
        window = f" Start only during the maintenance window {self.window}." if self.window else ""
        vsan = f"; vSAN data migration: {_VSAN_WORDS[self.vsan]}" if self.vsan is not None else ""
        enter = command("govc", "host.maintenance.enter", "-timeout", self.timeout_seconds, name)
        enters = f"Put {name} into maintenance mode. No more than {limit} may be down at a time."
        return (
            Part(
                what=f"{enters}{window} {moves}",
                why=self.reason,
                client=f"{name} > Actions > Maintenance Mode > Enter Maintenance Mode{vsan}",
                # govc has no word for vSAN, and would take vCenter's default.
                commands=() if self.vsan is not None else (enter,),
                expected=f"the task completes without error, and {name} is shown in maintenance mode",
                verify=("esxcli system maintenanceMode get",),
                undo=(command("govc", "host.maintenance.exit", name),),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        """List the VMs that DRS moves away."""
        here = {vm.name: vm for vm in reach.observed.vms_by_host.get(self.host.moid, ()) if vm.is_on}
        for name in () if self.is_held else self.evacuates:
            vm = here.get(name)
            moid = vm.moid if vm is not None else None
            yield reach.thing("vm", name, moid, Experience.VMOTION, through=self.host.name)

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.ALARM, self.host.moid)
        yield Needed(privileges.MAINTENANCE, self.host.moid)
        yield from at.host_mark(self.host.moid)


class ExitMaintenance(HostChangeBase):
    """Read back every setting of the run, leave maintenance mode, clear the mark and the alarm.

    A host that has already left loses its mark, too. One that was in someone else's maintenance mode before
    (`is_held`) stays there, and only the mark is removed.
    """

    face = Face("down", "leaves maintenance mode", sign=" ", brings_back=True)

    kind: Literal["exit_maintenance"] = "exit_maintenance"
    settles: tuple[SettingTarget, ...] = ()
    is_held: bool = False
    timeout_seconds: int = 600

    @property
    def down(self) -> Down | None:
        return None if self.is_held else Down(self.wave, -1)

    @property
    def came_to(self) -> tuple[str, ...]:
        return (f"{self.host.name}: exited maintenance mode, otherwise unchanged",)

    def head(self, place: Placement | None) -> Row:
        if not (self.settles or self.is_held):
            return "exit", plain("leave maintenance mode")
        is_kept = "all settings; the host remains in maintenance mode, set by another user"
        return "verify", plain(is_kept if self.is_held else "then leave maintenance mode")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.host.name
        rows = setting_rows(self.settles, tables, is_shown_before=False)
        if self.is_held:
            what = f"Check that {name} shows every value below. Keep it in maintenance mode."
            return (Part(what=what, rows=rows),)
        return (
            Part(
                what=f"Check that {name} shows every value below, then exit maintenance mode.",
                client=f"{name} > Actions > Maintenance Mode > Exit Maintenance Mode",
                commands=(command("govc", "host.maintenance.exit", name),),
                expected=f"{name} is connected and can run VMs again",
                verify=("esxcli system maintenanceMode get",),
                undo=(command("govc", "host.maintenance.enter", name),),
                rows=rows,
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        yield Needed(privileges.MAINTENANCE, self.host.moid)
        yield from at.host_mark(self.host.moid)
