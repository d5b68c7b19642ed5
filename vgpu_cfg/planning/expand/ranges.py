"""How one line of a plan file stands for many VMs: ranges in names, `{n}` and `{i}` in other text.

`hvd-{01..14}` counts with leading zeros as written; two ranges run together and
must count equally many. Text of the same line may hold `{n}` (the number as
written), `{i}` (the plain one), and ranges that run along with the name's.
`{k}`, which counts devices, is left for whoever counts them. Errors are
ValueError with a hint on the second line.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_RANGE = re.compile(r"\{([0-9]{1,9})\.\.([0-9]{1,9})\}")
_BRACED = re.compile(r"\{[^{}]*\}?|\}")
_NUMBER = re.compile(r"\{([ni])\}")
MOST_MEMBERS = 10_000


@dataclass(frozen=True, slots=True)
class Member:
    """One of the VMs of a line: its place among them, and its number where the name counts."""

    name: str
    index: int
    size: int
    written: str | None
    number: int | None


SAMPLE_MEMBER = Member("sample", 0, 1, "1", 1)
"""Fills text whose own line is not known, so that the rest of it can be checked."""


def read_members(name: str) -> tuple[Member, ...]:
    """Write out the names that a text with ranges stands for."""
    for found in _BRACED.findall(name):
        if not _RANGE.fullmatch(found):
            raise ValueError(f"{found!r} in a name is not a range\nwrite a range as {{01..14}}")
    runs = [_counted(first, last) for first, last in _RANGE.findall(name)]
    if not runs:
        return (Member(name, 0, 1, None, None),)
    size = len(runs[0])
    if any(len(run) != size for run in runs):
        lengths = " and ".join(str(len(run)) for run in runs)
        raise ValueError(
            f"the ranges in {name!r} count {lengths}\nranges of one line run together: make them equal"
        )
    return tuple(
        Member(_with_ranges(name, index), index, size, runs[0][index], int(runs[0][index]))
        for index in range(size)
    )


def _counted(first: str, last: str) -> list[str]:
    low, high = int(first), int(last)
    if high < low:
        raise ValueError(f"the range {{{first}..{last}}} counts down\nwrite {{{last}..{first}}}")
    if high - low >= MOST_MEMBERS:
        raise ValueError(f"the range {{{first}..{last}}} counts more than {MOST_MEMBERS}\nsplit it")
    padded = first.startswith("0") or last.startswith("0")
    width = max(len(first), len(last)) if padded and max(len(first), len(last)) > 1 else 0
    return [str(number).zfill(width) for number in range(low, high + 1)]


def _with_ranges(text: str, index: int) -> str:
    return _RANGE.sub(lambda found: _counted(found[1], found[2])[index], text)


def fill(text: str, member: Member) -> str:
    """Put a member's numbers into any text of its line."""
    runs = _RANGE.findall(text)
    for first, last in runs:
        count = len(_counted(first, last))
        if count != member.size:
            raise ValueError(
                f"the range {{{first}..{last}}} counts {count}, the line's name {member.size}\n"
                "ranges of one line run together: make them equal"
            )
    if runs:
        text = _with_ranges(text, member.index)
    if member.written is None and (found := _NUMBER.search(text)):
        raise ValueError(f"{found[0]} needs a range in the line's name\nas in name: hvd-{{01..14}}")
    numbers = {"n": member.written or "", "i": str(member.number)}
    return _NUMBER.sub(lambda found: numbers[found[1]], text)


def has_templates(value: Any) -> bool:
    """Whether any text in a value may differ from member to member."""
    match value:
        case str():
            return "{" in value
        case Mapping():
            return any(has_templates(inner) for inner in value.values())
        case list():
            return any(has_templates(inner) for inner in value)
        case _:
            return False
