"""Choices of the command line: a run's occasion, approvals, and number of tasks; the rows of GPU use.

It imports nothing, so that --help is fast. The default number of tasks at once is derived from vCenter's own
limits.

Belief: clone-limits, queued-clones-show-queued.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

LONGEST_CHANGE: Final = 64
LONGEST_REASON: Final = 240
"""vCenter's reference names no limit for the text of an event; with these an entry has some 900 signs."""


@dataclass(frozen=True, slots=True)
class Occasion:
    """The occasion of a run: the ID of a change in the site's own system, and the reason, in words."""

    change: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        """Both on one line, "" where neither was said."""
        return ": ".join(part for part in (self.change, self.reason) if part)


NO_OCCASION: Final = Occasion()


def fault_of(text: str, longest: int) -> str:
    """Return the error in the text of an occasion; "" if there is none.

    It goes into logs that are read line by line.
    """
    if not text.strip():
        return "it is empty"
    if not text.isprintable():
        return "it contains a line break or another non-printable character"
    if len(text) > longest:
        return f"it has {len(text)} characters; the limit is {longest}"
    return ""


class Approval(StrEnum):
    """Actions that require the plan file's `allow`, or `--allow WORD` of the command.

    NETWORK: links of other VMs, or of VMkernel NICs, go down and up. TRAINING: a training that runs in a
    guest is ended. IRREVERSIBLE: something is changed that cannot be changed back.
    """

    NETWORK = "network"
    TRAINING = "training"
    IRREVERSIBLE = "irreversible"


PARALLEL: Final = 20
"""In all: Horizon's own default for provisioning at one vCenter (Horizon API, `vcProvisioningLimit`).

A vCenter carries out some 640 operations before it queues ("vCenter Limits for Tasks Running at the Same
Time", VMware's performance blog, 2021).
"""

PER_HOST: Final = 4
"""On one host: a cloning within a host takes four of its 16 units, and a fifth is queued (the same page).

Older documents count eight of provisioning alone ("vCenter Server Limits on Simultaneous Migrations",
vSphere 6.7).
"""


class UseBy(StrEnum):
    """The grouping of rows."""

    GPU = "gpu"
    VM = "vm"
    PLAN = "plan"
    OWNER = "owner"


class UseSort(StrEnum):
    """The order of rows: the most used first, and those that cannot be measured last."""

    NAME = "name"
    USE = "use"
    MEAN = "mean"
    MEMORY = "memory"
    TEMPERATURE = "temperature"
    POWER = "power"
