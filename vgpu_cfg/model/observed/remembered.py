"""Remembered shell values on a host: digests with a date, and the texts that contain them.

These texts are readable with the host and cannot be signed, so they contain no values, only digests that
a value can be compared with. A text that was cut off, edited or brought from another host or attribute
fails its own digest and is ignored.

    1 5f0c2a91 3b7c11a4d2e08c1f77a3526c 90ab…
    │ │        └ six digits of the device, six of the state that it was read in, eight of the value, four of
    │ │          the day (hex, counted from 1970-01-01)
    │ └ digest of the rest, with the host and the attribute
    └ the form
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import date, timedelta

from vgpu_cfg.model.frozen import Frozen

REMEMBERED_PREFIX = "vgpu_cfg.read."
"""The prefix of these custom attributes; the settings table's row and a number follow."""

MOST_IN_ONE = 9
"""How many values one attribute holds: a text of nine has 235 characters.

vCenter's reference names no limit for the length of a custom attribute's value, and none was tried;
255 characters are what this keeps to (unproven).
"""

_FORM = "1"
_ENTRY = re.compile(r"[0-9a-f]{24}")
_EPOCH = date(1970, 1, 1)
_CHECK_DIGITS = 8


class RememberedValue(Frozen):
    """One value that was read, in digests: of its device, of the state that it was read in, of itself."""

    device: str
    state: str
    value: str
    read_on: date


Remembered = Mapping[str, tuple[RememberedValue, ...]]
"""The values in a host's attributes, by their names; empty if a text contained none."""


def digest(*parts: str, digits: int) -> str:
    """Return hex digits over some words; each ends where it ends."""
    text = "\0".join(parts)
    return hashlib.sha256(text.encode()).hexdigest()[:digits]


def device_digest(host_moid: str, row: str, device: str) -> str:
    """Return the digest of a host's device in a row's stored text."""
    return digest(host_moid, row, device, digits=6)


def state_digest(*parts: str) -> str:
    """Return the digest of a host's state."""
    return digest(*parts, digits=6)


def value_digest(host_moid: str, row: str, device: str, value: str) -> str:
    """Return the digest of a value, different for each host and device, so that it cannot be copied."""
    return digest(host_moid, row, device, value, digits=8)


def attribute_of_row(row: str, number: int) -> str:
    """Return the name of a row's attribute, the first of which has no number."""
    return f"{REMEMBERED_PREFIX}{row}" if number == 1 else f"{REMEMBERED_PREFIX}{row}.{number}"


def remembered_text(host_moid: str, attribute: str, values: Iterable[RememberedValue]) -> str:
    """Write values as an attribute keeps them, empty where there are none."""
    entries = [
        f"{one.device}{one.state}{one.value}{(one.read_on - _EPOCH).days:04x}"
        for one in sorted(values, key=lambda one: (one.device, one.state, one.value))
    ]
    return " ".join([_FORM, _check(host_moid, attribute, entries), *entries]) if entries else ""


def parse_remembered(host_moid: str, texts: Mapping[str, str]) -> Remembered:
    """Parse attributes. Malformed or edited texts and those of other hosts are ignored."""
    return {name: _parse(host_moid, name, text) for name, text in texts.items() if text}


def not_expired(remembered: Remembered, today: date, days: int) -> Remembered:
    """Return the values read within this many days, including today; future dates are ignored."""
    oldest = today - timedelta(days=days)
    return {
        name: tuple(one for one in values if oldest < one.read_on <= today + timedelta(days=1))
        for name, values in remembered.items()
    }


def values_of_row(remembered: Remembered, row: str) -> dict[str, RememberedValue]:
    """Return a row's remembered values by device digest; if two conflict, neither."""
    first = attribute_of_row(row, 1)
    found = [
        one
        for name, values in remembered.items()
        if name == first or (name.startswith(f"{first}.") and name.removeprefix(f"{first}.").isdigit())
        for one in values
    ]
    times = Counter(one.device for one in found)
    return {one.device: one for one in found if times[one.device] == 1}


def _parse(host_moid: str, name: str, text: str) -> tuple[RememberedValue, ...]:
    form, *rest = text.split(" ")
    if form != _FORM or not rest or not all(_ENTRY.fullmatch(entry) for entry in rest[1:]):
        return ()
    check, *entries = rest
    if check != _check(host_moid, name, entries):
        return ()
    return tuple(
        RememberedValue(
            device=entry[:6],
            state=entry[6:12],
            value=entry[12:20],
            read_on=_EPOCH + timedelta(days=int(entry[20:], 16)),
        )
        for entry in entries
    )


def _check(host_moid: str, attribute: str, entries: Iterable[str]) -> str:
    return digest(host_moid, attribute, *entries, digits=_CHECK_DIGITS)
