"""The mark of a throw-away object: a name that holds the trial's ID and expiry, and a proof on each VM.

A name alone proves no VM: it also has the mark in its extraConfig, or the instance UUID that follows from its
name.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, Self

PREFIX = "vgpu-cfg-trial-"
MARK_KEY = "vgpu_cfg.trial"
"""The key in a VM's extraConfig that holds the name it was given."""
_NAME = re.compile(rf"{PREFIX}(?P<id>[0-9a-f]{{6}})-(?P<until>\d{{8}}T\d{{4}}Z)-(?P<part>[a-z0-9-]+)")
_UNTIL = "%Y%m%dT%H%MZ"
_SPACE = uuid.UUID("5a1f2c1e-90f3-4a27-9d0b-6f6f0b6d2f5e")


@dataclass(frozen=True, slots=True)
class TrialMark:
    """A trial: its ID of six hexadecimal digits, and the time from which anyone may remove its objects."""

    id: str
    until: datetime

    def name(self, part: str) -> str:
        """Return the name of one of its objects."""
        return f"{self.start}{part}"

    def part(self, name: str) -> str:
        """Return the part of the name of one of its objects."""
        return name.removeprefix(self.start)

    @property
    def start(self) -> str:
        """The beginning of the names of all its objects."""
        return f"{PREFIX}{self.id}-{self.until.astimezone(UTC):{_UNTIL}}-"

    @classmethod
    def of(cls, name: str) -> Self | None:
        """Return the trial that a name belongs to, None for another name."""
        found = _NAME.fullmatch(name)
        if found is None:
            return None
        try:
            return cls(found["id"], datetime.strptime(found["until"], _UNTIL).replace(tzinfo=UTC))
        except ValueError:
            return None


def instance_uuid(name: str) -> str:
    """Return the instance UUID that a VM of this name is requested with."""
    return str(uuid.uuid5(_SPACE, name))


@dataclass(frozen=True, slots=True)
class Left:
    """An object of a trial; `is_proven` is whether more than its name shows that a trial made it."""

    kind: Literal["alarm", "VM", "attribute"]
    moid: str
    """The key, for an attribute."""
    name: str
    mark: TrialMark
    is_on: bool = False
    is_proven: bool = True

    def is_due(self, now: datetime) -> bool:
        """Whether it may be removed without asking its owner."""
        return self.is_proven and now >= self.mark.until


Remaining = tuple[Left, str]
"""An object that was not removed, with the reason."""
