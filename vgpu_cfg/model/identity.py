"""A plan's identity: its ID, and its name, which is a label."""

from __future__ import annotations

import re
from typing import Final
from uuid import uuid4

from vgpu_cfg.model.frozen import Frozen

ID_PATTERN: Final = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$"
"""A UUID as RFC 9562 prints it, of any version."""

ID_FILE_SUFFIX: Final = ".id"
"""The extension of a plan file's ID file, after the plan file's own name."""


def is_id(text: str) -> bool:
    """Whether a text is an id: a UUID, in small letters or capital ones."""
    return re.fullmatch(ID_PATTERN.strip("^$"), text) is not None


def new_id() -> str:
    """Make an id, at random (UUID version 4)."""
    return str(uuid4())


class PlanIdentity(Frozen):
    """A plan's identity: `id` in lowercase; "" if it has none yet.

    Marks of version 0.1.0 contain no ID; they are identified only by name.
    """

    name: str
    id: str = ""
