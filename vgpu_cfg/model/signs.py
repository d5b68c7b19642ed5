r"""Which signs are obeyed and not seen, and how each is shown: written out, as `\n`, `\x9b` or `\u202e`.

Names, reasons, events and errors are what others typed. A sign that moves the cursor, begins a line or turns
the order of letters could forge what a reader sees. In JSON they are written by the rules of JSON.
"""

from __future__ import annotations

import json
import unicodedata
from typing import Any

_OBEYED = ("Cc", "Cf", "Cs", "Zl", "Zp")
"""Control characters, format characters, surrogates, and what separates lines and paragraphs."""


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
    """Write a value as JSON, which holds no sign that is obeyed; of these `json` leaves DEL as it is."""
    return json.dumps(value, indent=indent).replace("\x7f", "\\u007f")
