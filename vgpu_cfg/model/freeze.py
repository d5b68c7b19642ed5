"""A freeze: until when no vgpu-cfg makes changes at a vCenter, who said so, and why.

It is kept as locks are: an alarm, which every command reads before its first change.
"""

from __future__ import annotations

import json
from datetime import datetime
from typing import Final

from pydantic import ConfigDict, ValidationError

from vgpu_cfg.model.frozen import Frozen
from vgpu_cfg.model.moments import Moment
from vgpu_cfg.model.wording import shortened

FREEZE_NAME: Final = "vgpu-cfg freeze"
"""The name of the alarm: vCenter creates no second one of this name in its folder."""


class Freeze(Frozen):
    """A stated freeze. Fields that later versions add are ignored."""

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
        return f"vgpu-cfg makes no changes here; to end this, `vgpu-cfg freeze --thaw` {content}"


class KeptFreeze(Frozen):
    """A freeze in vCenter; `account` wrote it. `freeze` is None if the alarm was edited and is unreadable."""

    moid: str
    freeze: Freeze | None
    account: str = ""

    @property
    def words(self) -> str:
        """The end, the author and the reason, in one line."""
        if self.freeze is None:
            return f"the alarm {FREEZE_NAME!r} of {self.account} shows neither an end nor a reason"
        found = self.freeze
        until, since = (f"{moment:%Y-%m-%d %H:%M} UTC" for moment in (found.until, found.since))
        why = ": ".join(part for part in (found.change, found.reason) if part)
        return f"until {until} by {found.user} on {found.machine} ({self.account}), since {since}: {why}"

    def is_on(self, moment: datetime) -> bool:
        """Whether it holds at a moment; the end itself is outside, an unreadable one has no end."""
        return self.freeze is None or moment < self.freeze.until


def parse_freeze(text: str) -> Freeze | None:
    """Read the description of a freeze's alarm; None if it is unreadable."""
    try:
        return Freeze.model_validate(shortened(json.loads(text[text.index("{") :])))
    except (ValueError, ValidationError, RecursionError):
        return None


def thaw_command(server: str) -> str:
    """Return the command that ends a freeze at a vCenter, "" for the one that settings name."""
    return "vgpu-cfg freeze --thaw" + (f" --server {server}" if server else "")
