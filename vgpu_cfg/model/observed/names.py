"""How vCenter stores names that hold a slash, a backslash or a percent sign."""

from __future__ import annotations

import re
from functools import lru_cache

_ESCAPE = re.compile(r"%(2f|5c|25)", re.IGNORECASE)


@lru_cache(maxsize=65536)
def unescaped(name: str) -> str:
    """Return a name as a person knows it; vCenter stores slash, backslash and percent as %2f, %5c, %25."""
    return _ESCAPE.sub(lambda found: chr(int(found.group(1), 16)), name) if "%" in name else name


def escaped(name: str) -> str:
    """Return a name as vCenter stores it."""
    return name.replace("%", "%25").replace("/", "%2f").replace("\\", "%5c")
