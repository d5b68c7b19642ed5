"""By what a plan is known: its id, and its name, which is a label."""

from __future__ import annotations

import re
from typing import Final
from uuid import uuid4

from vgpu_cfg.model.frozen import Frozen

ID_PATTERN: Final = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
"""A UUID as RFC 9562 prints it, of any version."""

ID_FILE_SUFFIX: Final = ".id"
"""What the name of a plan file's id file ends in, after the plan file's own name."""


def is_id(text: str) -> bool:
    """Whether a text is an id: a UUID, in small letters or capital ones."""
    return re.fullmatch(ID_PATTERN.strip("^$"), text) is not None


def new_id() -> str:
    """Make an id, at random (UUID version 4)."""
    return str(uuid4())


class PlanIdentity(Frozen):
    """What tells one plan from another: `id`, in small letters, "" where it has none yet.

    A mark of version 0.1.0 holds no id, and there the name alone tells.
    """

    name: str
    id: str = ""
