"""One difference between a plan file and what is there: what, wanted, found, and since whose hand."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from pydantic import Field

from vgpu_cfg.changes.values import Subject
from vgpu_cfg.model.frozen import Frozen


class Difference(Frozen):
    """What differs of a VM or a host.

    `wanted` and `found` are as a reader sees them, None where there is nothing. `sets` is what would go over
    the wire to bring it about, as `Edit.sets` has it. `by` and `at` are empty where nothing tells them, and
    `why_unknown` says why.
    """

    subject: Subject
    what: str
    wanted: str | None = None
    found: str | None = None
    sets: Mapping[str, str] = Field(default_factory=dict)
    by: str = ""
    at: datetime | None = None
    why_unknown: str = ""
