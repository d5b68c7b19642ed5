"""GPUs set aside at a vCenter: reservations that it stores, and quotas from a file.

A reservation has the plan, the number of GPUs, their cluster, the start and the end. Quotas are how many of
which boards an owner or folder can use.
"""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Final, Literal

from pydantic import ConfigDict, Field, ValidationError

from vgpu_cfg.model.frozen import Frozen, Moment
from vgpu_cfg.model.identity import PlanIdentity
from vgpu_cfg.model.wording import shortened

RESERVATION_HEAD: Final = "vgpu-cfg reservation: "
"""The prefix of a reservation's name, which distinguishes it from other alarms; the plan's name follows."""
_MOMENT = "%Y-%m-%d %H:%M"

ALL_OTHERS: Final = "all others"
"""The share for all owners that no other share names."""


class ReservedGpus(Frozen):
    """Whole GPUs of one board in one cluster, which is named by its moid and called `label`."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    cluster: str
    label: str = ""
    board: str
    gpus: int = Field(ge=1)

    def __str__(self) -> str:
        noun = "GPU" if self.gpus == 1 else "GPUs"
        return f"{self.gpus} {noun} of {self.board} in {self.label or self.cluster}"


class Reservation(Frozen):
    """A plan's reservation, identified by its ID and its name. Fields of later versions are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    plan: str
    id: str = ""
    begins: Moment
    ends: Moment
    holds: tuple[ReservedGpus, ...]

    @property
    def alarm_name(self) -> str:
        """The name of the alarm that keeps it: no two can have one."""
        return f"{RESERVATION_HEAD}{self.plan}"

    @property
    def period(self) -> str:
        """From when till when, in words."""
        return f"{self.begins:{_MOMENT}} to {self.ends:{_MOMENT}} UTC"

    @property
    def words(self) -> str:
        """All of it in one line."""
        return f"{', '.join(map(str, self.holds))}, {self.period}"

    @property
    def text(self) -> str:
        """The alarm's text: a sentence for people, then all of it as JSON."""
        told = self.model_dump(mode="json", exclude_defaults=True)
        return f"GPUs reserved by a vgpu-cfg plan {json.dumps(told, separators=(',', ':'))}"

    def is_of(self, plan: PlanIdentity) -> bool:
        """Whether it is a plan's: by its id, or by the name where it holds none."""
        return self.id == plan.id if self.id and plan.id else self.plan == plan.name

    def gpus_of(self, cluster: str, board: str) -> int:
        """Return how many GPUs of a board it holds in a cluster."""
        return sum(one.gpus for one in self.holds if (one.cluster, one.board) == (cluster, board))

    def is_on(self, moment: datetime) -> bool:
        """Whether it holds at a moment; the end itself is outside."""
        return self.begins <= moment < self.ends


class KeptReservation(Frozen):
    """A reservation as vCenter keeps it: `account` wrote it last.

    `reservation` is None if the text does not contain one because it was edited.
    """

    moid: str
    name: str
    reservation: Reservation | None
    account: str = ""


class Reservations(Frozen):
    """All reservations of a vCenter, at `now` by its clock."""

    now: Moment
    kept: tuple[KeptReservation, ...] = ()

    def named(self, name: str) -> KeptReservation | None:
        """Return the one whose alarm has this name."""
        return next((one for one in self.kept if one.name == name), None)

    def of_plan(self, plan: PlanIdentity) -> KeptReservation | None:
        """Return a plan's own."""
        return next((one for one in self.kept if one.reservation and one.reservation.is_of(plan)), None)


def parse_reservation(name: str, text: str) -> Reservation | None:
    """Read what an alarm of this name says; None where that is no reservation, or not that of its name."""
    try:
        found = Reservation.model_validate(shortened(json.loads(text[text.index("{") :])))
    except (ValueError, ValidationError, RecursionError):
        return None
    return found if found.alarm_name == name and found.begins < found.ends else None


class Share(Frozen):
    """The number of some boards that an owner, a folder, or all others together can use.

    `boards` are keys of the catalogue, none where every board counts; `called` is how the file names them.
    One of `gpus` and `framebuffer_mib` is the limit. `origin` is the place of the share in its file.
    """

    kind: Literal["owner", "folder", "others"]
    name: str = ""
    boards: tuple[str, ...] = ()
    called: str = ""
    gpus: float | None = None
    framebuffer_mib: int | None = None
    origin: str = ""

    @property
    def holder(self) -> str:
        """Its owner, in words."""
        return ALL_OTHERS if self.kind == "others" else f"{self.kind} {self.name}"


class Spare(Frozen):
    """So many hosts of each cluster can be emptied. `origin` is its place in its file."""

    hosts: int
    origin: str = ""


class LicencePool(Frozen):
    """How many licenses of a product there are, and what takes one: a VM, a vGPU or a GPU of these series."""

    product: str
    count: int
    per: Literal["vm", "vgpu", "gpu"]
    series: tuple[str, ...]
    ends: date | None = None
    origin: str = ""


class Quotas(Frozen):
    """The shares, the spare and the licenses of a file.

    `clusters` are globs of those that are meant, none for all; licenses are of all.
    """

    file: str
    clusters: tuple[str, ...] = ()
    shares: tuple[Share, ...] = ()
    spare: Spare | None = None
    licences: tuple[LicencePool, ...] = ()
