r"""Wording of messages: the spelling of sizes, counts and lists, and characters that must not be obeyed.

Characters that are obeyed and not seen are written out, as `\n`, `\x9b` or `\u202e`.

Names, reasons, events and errors come from others. A character that moves the cursor, breaks the line or
reverses the order of letters could forge the display. In JSON they are written by the rules of JSON.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

_SHOWN = 3
_NUMBER = re.compile(r"([0-9]+)")

_OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control characters, format characters, surrogates, and what separates lines and paragraphs."""


def gib(mib: int) -> str:
    """Spell MiB in the largest unit that keeps it whole."""
    if mib % 1024:
        return f"{mib} MiB"
    return f"{mib // 1024} GiB" if mib % (1024 * 1024) or not mib else f"{mib // (1024 * 1024)} TiB"


def whole_gib(mib: int) -> str:
    """Format the remainder in GiB, rounded down; a negative remainder is 0."""
    return f"{max(0, mib) // 1024} GiB"


def counted(count: int, noun: str, plural: str = "") -> str:
    """Spell "1 host", "2 hosts", and with a plural of its own "2 policies"."""
    return f"{count} {noun if count == 1 else plural or noun + 's'}"


def listed(items: Iterable[str], *, shown: int = _SHOWN, separator: str = ", ") -> str:
    """Join the first few and count the rest: "a, b, c and 5 more"."""
    words = list(items)
    rest = len(words) - shown
    if rest <= 0:
        return separator.join(words)
    return f"{separator.join(words[:shown])} and {rest} more"


def as_counted(name: str) -> tuple[tuple[str, int], ...]:
    """Return what sorts names as people count: a2 before a10."""
    parts = _NUMBER.split(name)
    return tuple(
        (text, int(parts[index + 1]) if index + 1 < len(parts) else -1)
        for index, text in enumerate(parts)
        if index % 2 == 0
    )


def node_list(nodes: Iterable[int]) -> str:
    """Spell NUMA nodes as `numa.nodeAffinity` does: "0,1"."""
    return ",".join(str(node) for node in sorted(set(nodes)))


@lru_cache(maxsize=256)
def version_tuple(version: str) -> tuple[int, ...]:
    """Parse "8.0.3"; parts that are not numbers count as 0, an empty text is ()."""
    return tuple(int(part) if part.isdigit() else 0 for part in version.split(".")) if version else ()


def is_at_least(version: str, minimum: Sequence[int]) -> bool:
    """Whether a dotted version reaches a minimum; one that is not known is taken to."""
    found = version_tuple(version)
    return not found or found >= tuple(minimum)


def duration(seconds: float) -> str:
    """Say how long in the unit that fits: "0.4 s", "32 s", "4 min 10 s", "1 h 5 min"."""
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 s", " s")
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s".replace(" 0 s", "")
    return f"{whole // 3600} h {whole % 3600 // 60} min".replace(" 0 min", "")


def age(seconds: float) -> str:
    """Say how long ago in one unit: "12 min", "5 h", "3 d"; a future moment is 0 min ago."""
    minutes = max(0, int(seconds // 60))
    if minutes < 120:
        return f"{minutes} min"
    return f"{minutes // 60} h" if minutes < 48 * 60 else f"{minutes // 1440} d"


def is_obeyed(sign: str) -> bool:
    """Whether a sign does something where it is shown, or is no sign at all."""
    return not sign.isprintable() and unicodedata.category(sign) in _OBEYED


def shown(text: str) -> str:
    """Return text on one line, in which every sign can be seen; it may be shown twice."""
    if text.isprintable():
        return text
    return "".join(ascii(sign)[1:-1] if is_obeyed(sign) else sign for sign in text)


MOST_KEPT = 200
"""So many signs of a text that vCenter keeps are taken over: anybody who may edit it could write pages."""


def shortened(value: Any) -> Any:
    """Return a value of JSON whose texts are cut off where they are too long."""
    match value:
        case str() if len(value) > MOST_KEPT:
            return f"{value[: MOST_KEPT - 1]}…"
        case dict():
            return {name: shortened(each) for name, each in value.items()}
        case list():
            return [shortened(each) for each in value[:MOST_KEPT]]
        case _:
            return value


def as_json(value: Any, *, indent: int | None = None) -> str:
    """Format a value as JSON without control characters, of which `json` does not escape DEL."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")
