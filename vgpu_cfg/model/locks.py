"""Locks and freezes that vCenter stores: the objects that a run may change, and a time without any changes.

Both are alarms, which every command reads before its first change.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Annotated, Final, Literal

from pydantic import ConfigDict, StringConstraints, ValidationError

from vgpu_cfg.model.choices import NO_OCCASION, Occasion
from vgpu_cfg.model.frozen import Frozen, Moment
from vgpu_cfg.model.reservations import KeptReservation, Reservations
from vgpu_cfg.model.wording import shortened

OWN: Final = "vgpu-cfg "
"""The prefix of the names of this tool's alarms."""
HEAD: Final = f"{OWN}lock: "
"""The prefix of a lock's name, which distinguishes it from other alarms."""

MOST_SIGNS: Final = 400
"""So long a lock's text may be, as is assumed: vCenter's reference names no limit.

Belief: alarm-description-400.
"""

BEAT_SECONDS: Final = 60.0
"""So often a run says that it still goes on, unless the settings name another period, of 240 s at most."""

SILENT_AFTER: Final = timedelta(minutes=15)
"""A run without a heartbeat for this long is silent: a command in a host's shell may take 10 minutes."""


FREEZE_NAME: Final = "vgpu-cfg freeze"
"""The name of the alarm: vCenter creates no second one of this name in its folder."""


class Freeze(Frozen):
    """Until when no vgpu-cfg makes changes at a vCenter, and why. Fields of later versions are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    until: Moment
    reason: str
    change: str = ""
    user: str = ""
    machine: str = ""
    since: Moment

    @property
    def text(self) -> str:
        """The description of the alarm: a sentence for people, then all of it as JSON."""
        content = json.dumps(self.model_dump(mode="json", exclude_defaults=True), separators=(",", ":"))
        return f"frozen by vgpu-cfg; to end the freeze, run `vgpu-cfg freeze --thaw` {content}"


class KeptFreeze(Frozen):
    """A freeze in vCenter; `account` wrote it. `freeze` is None if the alarm was edited and is unreadable."""

    moid: str
    freeze: Freeze | None
    account: str = ""

    @property
    def words(self) -> str:
        """The end, the author and the reason, in one line."""
        if self.freeze is None:
            return f"{self.account}'s alarm {FREEZE_NAME!r} does not show when the freeze ends or why"
        found = self.freeze
        until, since = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (found.until, found.since))
        why = ": ".join(part for part in (found.change, found.reason) if part)
        return f"until {until} by {found.user} on {found.machine} ({self.account}), since {since}: {why}"

    def is_on(self, moment: datetime) -> bool:
        """Whether it holds at a moment; the end itself is outside, an unreadable one has no end."""
        return self.freeze is None or moment < self.freeze.until


class LockName(Frozen):
    """The object of a lock: a plan by its name or its ID, a host or a cluster by its moid.

    `label` is for people; it does not identify a lock.
    """

    kind: Literal["plan", "id", "host", "cluster"]
    key: str
    label: str = ""

    @property
    def text(self) -> str:
        """The lock's name at vCenter, the same for every run."""
        return f"{HEAD}{self.kind} {self.key}"

    @property
    def plan(self) -> str:
        """The name of the plan that is locked, empty where it is a host or a cluster."""
        return {"plan": self.key, "id": self.label}.get(self.kind, "")

    def __str__(self) -> str:
        return f"{'plan' if self.kind == 'id' else self.kind} {self.label or self.key}"


class LockHolder(Frozen):
    """The holder of a lock: a run, its machine and its purpose. Fields of later versions are ignored.

    A file of this machine is named after the run, and a command that people type names it: so its id, which
    anyone who can edit the alarm can change, cannot contain a path or an option.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    run: Annotated[str, StringConstraints(pattern=r"\A[0-9A-Za-z][0-9A-Za-z-]{0,63}\z")]
    command: str = ""
    plan: str = ""
    plan_id: str = ""
    user: str = ""
    machine: str = ""
    pid: int = 0
    since: Moment
    occasion: Occasion = NO_OCCASION

    def __str__(self) -> str:
        of_plan = f" of {self.plan}" if self.plan else ""
        return f"{self.user} on {self.machine}, `{self.command}`{of_plan}, process {self.pid}"


class Lock(Frozen):
    """A lock as vCenter reports it: `beat_at` is the time of its last heartbeat, `account` the account.

    `holder` is None if the text does not contain a run because it was edited.
    """

    moid: str
    name: LockName
    holder: LockHolder | None
    beat_at: Moment
    account: str = ""


class Locks(Frozen):
    """All locks of a vCenter, at `now` by its clock; `server` is how it was addressed.

    `reserved` and `freezes` are no locks: they are read with them.
    """

    now: Moment
    held: tuple[Lock, ...] = ()
    server: str = ""
    reserved: tuple[KeptReservation, ...] = ()
    freezes: tuple[KeptFreeze, ...] = ()

    @property
    def freeze(self) -> KeptFreeze | None:
        """The freeze that is in force."""
        return next((one for one in self.freezes if one.is_on(self.now)), None)

    @property
    def reservations(self) -> Reservations:
        """The reservations of plans, which are stored next to the locks."""
        return Reservations(now=self.now, kept=self.reserved)

    @property
    def runs(self) -> tuple[str, ...]:
        """The ids of the runs that hold locks, in the order in which they took them."""
        return tuple(dict.fromkeys(lock.holder.run for lock in self.held if lock.holder is not None))

    @property
    def unknown(self) -> tuple[Lock, ...]:
        """The locks without a run."""
        return tuple(lock for lock in self.held if lock.holder is None)

    def named(self, name: LockName) -> Lock | None:
        """Return the lock of this name."""
        return next((lock for lock in self.held if lock.name.text == name.text), None)

    def of_run(self, run: str) -> tuple[Lock, ...]:
        """Return all that a run holds, in the order in which it took them."""
        return tuple(lock for lock in self.held if lock.holder is not None and lock.holder.run == run)

    def beat_of(self, run: str) -> datetime:
        """Return when a run was last heard of: it says so at one of its locks."""
        return max(lock.beat_at for lock in self.of_run(run))

    def unlock_command(self, run: str) -> str:
        """Return what to type to remove the locks of a run."""
        return unlock_command(run, self.server)

    def is_silent(self, run: str) -> bool:
        """Whether nothing was heard of a run for so long that it may have ended."""
        return self.now - self.beat_of(run) >= SILENT_AFTER


def unlock_command(run: str, server: str) -> str:
    """Return what to type to remove the locks of a run at a vCenter, "" for the one that settings name."""
    return f"vgpu-cfg unlock {run}" + (f" --server {server}" if server else "")


def lock_text(name: LockName, holder: LockHolder, beats: int = 0) -> str:
    """Return a lock's text: a sentence for people, then all of it as JSON.

    `beats` counts the heartbeats, so that no two texts are alike. The run's purpose is included as far as
    it fits: the reason is cut first.
    """
    told = {"label": name.label, "beats": beats, **holder.model_dump(mode="json", exclude_defaults=True)}
    content = json.dumps({name: value for name, value in told.items() if value}, separators=(",", ":"))
    text = f"held by a vgpu-cfg run; if it has died, run `vgpu-cfg unlock {holder.run}` {content}"
    if len(text) <= MOST_SIGNS or holder.occasion == NO_OCCASION:
        return text
    kept = Occasion(holder.occasion.change) if holder.occasion.reason else NO_OCCASION
    return lock_text(name, holder.model_copy(update={"occasion": kept}), beats)


def parse_lock(name: str, text: str) -> tuple[LockName, LockHolder | None] | None:
    """Parse a lock's name and text; None if it is not a lock."""
    kind, _, key = name.removeprefix(HEAD).partition(" ")
    if not name.startswith(HEAD) or kind not in ("plan", "id", "host", "cluster"):
        return None
    try:
        told = shortened(json.loads(text[text.index("{") :]))
        label = str(told.pop("label", ""))
        holder = LockHolder.model_validate(told)
    except (ValueError, ValidationError, AttributeError, RecursionError):
        label, holder = "", None
    return LockName.model_validate({"kind": kind, "key": key, "label": label}), holder


def parse_freeze(text: str) -> Freeze | None:
    """Read the description of a freeze's alarm; None if it is unreadable."""
    try:
        return Freeze.model_validate(shortened(json.loads(text[text.index("{") :])))
    except (ValueError, ValidationError, RecursionError):
        return None


def thaw_command(server: str) -> str:
    """Return the command that ends a freeze at a vCenter, "" for the one that settings name."""
    return "vgpu-cfg freeze --thaw" + (f" --server {server}" if server else "")
