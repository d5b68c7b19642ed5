"""Others are kept off GPUs: a host or its GPUs are cordoned, or GPUs are reserved."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal

from vgpu_cfg.changes import privileges
from vgpu_cfg.changes.base import ChangeBase, Face, HostChangeBase
from vgpu_cfg.changes.by_hand import Part, command
from vgpu_cfg.changes.places import HOST, Places
from vgpu_cfg.changes.privileges import Needed
from vgpu_cfg.changes.reach import Disturbed, Reach
from vgpu_cfg.changes.tables import Tables
from vgpu_cfg.changes.values import Edit, Placement, Row, plain, plain_rows
from vgpu_cfg.model.observed.inventory import Inventory
from vgpu_cfg.model.reservations import RESERVATION_HEAD, Reservation


class SetCordon(HostChangeBase):
    """Keep new VMs off a host or its GPUs, or give them back: custom attributes of the host, by their names.

    An empty text clears one. Plain calls, no task.
    """

    face = Face("set", "cordon", done="cordon* set", noun="cordon", is_task=False, tells_edits=True)

    kind: Literal["set_cordon"] = "set_cordon"
    values: Mapping[str, str]

    def spares_pool(self, observed: Inventory) -> bool:
        return True

    @property
    def done(self) -> str:
        return self.face.done if any(self.values.values()) else "cordon* lifted"

    @property
    def came_to(self) -> tuple[str, ...]:
        return tuple(self._cordoned(edit) for edit in self.edits)

    def _cordoned(self, edit: Edit) -> str:
        what = f"{self.host.name} {edit.key.removeprefix('cordon').strip()}".rstrip()
        if edit.after is None:
            return f"{what}: uncordoned; was cordoned: {edit.before}"
        before = f"; previously: {edit.before}" if edit.before else ""
        return f"{what}: cordoned: {edit.after}{before}"

    def head(self, place: Placement | None) -> Row:
        if any(self.values.values()):
            return "cordon", plain("no new VMs are placed here")
        return "uncordon", plain("")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        name = self.host.name
        add = ("govc", "fields.set", "-add", "-type", "HostSystem")
        return (
            Part(
                what=f"Set the custom attributes {', '.join(self.values)} of {name}. This has no impact.",
                client=f"{name} > Summary > Custom Attributes",
                commands=tuple(command(*add, key, value, name) for key, value in self.values.items()),
                expected="no output",
                verify=(command("govc", "fields.info", name),),
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        return at.attributes(self.host.moid, privileges.CORDON, HOST, self.values)


class SetReservation(ChangeBase):
    """Reserve GPUs for the plan, change the reservation, or remove it: an alarm of vCenter's root folder.

    `reservation` is None to remove it; `alarm` is the moid of the existing alarm, "" for none.
    """

    face = Face(
        "set", "reservation", done="reservation* set", noun="reservation", is_task=False, tells_edits=True
    )

    kind: Literal["set_reservation"] = "set_reservation"
    reservation: Reservation | None
    alarm: str = ""

    @property
    def pools(self) -> tuple[str, ...]:
        return () if self.reservation is None else tuple(one.cluster for one in self.reservation.holds)

    @property
    def sign(self) -> str:
        return "-" if self.reservation is None else "~" if self.alarm else "+"

    @property
    def done(self) -> str:
        return self.face.done if self.reservation is not None else "reservation* released"

    def head(self, place: Placement | None) -> Row:
        if self.reservation is None:
            return "release", plain("available to other plans", "dim")
        return "reserve", plain("other plans cannot use these GPUs", "dim")

    def by_hand(self, tables: Tables) -> tuple[Part, ...]:
        rows = plain_rows(self.edits)
        where = "vCenter > Configure > Alarm Definitions"
        if self.reservation is None:
            return (
                Part(
                    what="Release the GPUs that this plan has reserved: remove the alarm.",
                    client=f"{where}, filter for {RESERVATION_HEAD.strip()}",
                    commands=(command("govc", "alarm.rm", self.alarm),),
                    expected="no output",
                    rows=rows,
                ),
            )
        return (
            Part(
                what=f"Reserve {self.reservation.words}, stored in the alarm "
                f"{self.reservation.alarm_name!r}. This has no impact and is not enforced by vCenter.",
                why="other plans cannot use these GPUs",
                client=f"{where}: create a disabled alarm with this name and the description "
                f"{self.reservation.text}",
                expected="the alarm is listed",
                rows=rows,
            ),
        )

    def disturbs(self, reach: Reach) -> Iterable[Disturbed]:
        return ()

    def privileges(self, at: Places) -> Iterator[Needed]:
        return at.at_alarms(privileges.LOCK)
