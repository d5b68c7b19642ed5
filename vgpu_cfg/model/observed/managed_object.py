"""The identity of vCenter's objects, and the form in which it stores names with slashes or percent signs."""

from __future__ import annotations

import re
from functools import lru_cache

from vgpu_cfg.model.frozen import Frozen


class ManagedObject(Frozen):
    """An object of vCenter: `inventory_path` is for users, `moid` for the API."""

    moid: str
    name: str
    inventory_path: str = ""


_ESCAPE = re.compile(r"%(2f|5c|25)", re.IGNORECASE)


@lru_cache(maxsize=65536)
def unescaped(name: str) -> str:
    """Return a name as a person knows it; vCenter stores slash, backslash and percent as %2f, %5c, %25."""
    return _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)), name) if "%" in name else name


def escaped(name: str) -> str:
    """Return a name as vCenter stores it."""
    return name.replace("%", "%25").replace("/", "%2f").replace("\\", "%5c")
