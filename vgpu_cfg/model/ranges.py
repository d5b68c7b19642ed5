"""Ranges, by which one line of a plan file describes many VMs; `{n}` and `{i}` in other text.

`hvd-{01..14}` counts with leading zeros as written; two ranges run together and
must count equally many. Text of the same line may hold `{n}` (the number as
written), `{i}` (the plain one), and ranges that run along with the name's.
`{k}`, which counts devices, is replaced by the caller. Errors are
ValueError with a hint on the second line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_RANGE = re.compile(r"\{([0-9]{1,9})\.\.([0-9]{1,9})\}")
_BRACED = re.compile(r"\{[^{}]*\}?|\}")
_DIGITS = re.compile(r"([0-9]+)")
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
    """Expand a text with ranges into names."""
    for found in _BRACED.findall(name):
        if not _RANGE.fullmatch(found):
            others = "; list other names as separate items" if "," in found else ""
            raise ValueError(f"{found!r} in a name is not a valid range\nexample: {{01..14}}{others}")
    runs = [_run_of(first, last) for first, last in _RANGE.findall(name)]
    if not runs:
        return (Member(name, 0, 1, None, None),)
    size = runs[0].size
    if any(run.size != size for run in runs):
        lengths = " and ".join(str(run.size) for run in runs)
        raise ValueError(
            f"the ranges in {name!r} have different lengths: {lengths}\nranges in an item are matched in "
            "order, so their lengths must be equal"
        )
    return tuple(
        Member(_with_ranges(name, index), index, size, runs[0].at(index), runs[0].low + index)
        for index in range(size)
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """The numbers of one range; `width` is that of its leading zeros."""

    low: int
    size: int
    width: int

    def at(self, index: int) -> str:
        """Write the number at a place."""
        return str(self.low + index).zfill(self.width)


def _run_of(first: str, last: str) -> _Run:
    low, high = int(first), int(last)
    if high < low:
        raise ValueError(f"the range {{{first}..{last}}} counts down\nuse {{{last}..{first}}}")
    if high - low >= MOST_MEMBERS:
        raise ValueError(f"the range {{{first}..{last}}} has more than {MOST_MEMBERS} elements\nsplit it")
    padded = first.startswith("0") or last.startswith("0")
    width = max(len(first), len(last)) if padded and max(len(first), len(last)) > 1 else 0
    return _Run(low, high - low + 1, width)


def count_members(name: str) -> int:
    """Count the names that a text expands to, without expanding it; 1 if its ranges are invalid."""
    sizes = [int(last) - int(first) + 1 for first, last in _RANGE.findall(name)]
    return max([1, *sizes])


def _with_ranges(text: str, index: int) -> str:
    return _RANGE.sub(lambda found: _run_of(found[1], found[2]).at(index), text)


def fill(text: str, member: Member) -> str:
    """Put a member's numbers into any text of its line."""
    runs = _RANGE.findall(text)
    for first, last in runs:
        count = _run_of(first, last).size
        if count != member.size:
            raise ValueError(
                f"the range {{{first}..{last}}} has {count} elements, but the item's name has "
                f"{member.size}\nranges in an item are matched in order, so their lengths must be equal"
            )
    if runs:
        text = _with_ranges(text, member.index)
    if member.written is None and (found := _NUMBER.search(text)):
        raise ValueError(f"{found[0]} requires a range in the item's name\nexample: name: hvd-{{01..14}}")
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


def fold_names(names: Iterable[str]) -> str:
    """Write names as a plan file would: esx-01.lab and esx-02.lab become "esx-{01..02}.lab"."""
    return ", ".join(written for written, _ in runs_of(names))


def runs_of(names: Iterable[str]) -> list[tuple[str, list[str]]]:
    """Return the names in runs that count on, each as a plan file writes it and written out."""
    runs: list[tuple[int, list[str]]] = []
    for name in names:
        counting, run = runs[-1] if runs else (-1, [])
        place = _counts_on(run[-1], name) if run else None
        if place is None or (len(run) > 1 and place != counting):
            runs.append((-1, [name]))
            continue
        run.append(name)
        runs[-1] = (place, run)
    return [(_run(place, run), run) for place, run in runs]


def _counts_on(before: str, name: str) -> int | None:
    """Return which part of two names is a number that counts on; None where they differ otherwise."""
    old, new = _DIGITS.split(before), _DIGITS.split(name)
    differing = [index for index, pair in enumerate(zip(old, new, strict=False)) if pair[0] != pair[1]]
    if len(old) != len(new) or len(differing) != 1 or differing[0] % 2 == 0:
        return None
    first, second = old[differing[0]], new[differing[0]]
    is_same_form = len(first) == len(second) or not second.startswith("0")
    return differing[0] if int(second) == int(first) + 1 and is_same_form else None


def _run(place: int, names: Sequence[str]) -> str:
    if len(names) == 1:
        return names[0]
    parts, last = _DIGITS.split(names[0]), _DIGITS.split(names[-1])
    parts[place] = f"{{{parts[place]}..{last[place]}}}"
    return "".join(parts)


def is_glob(name: str) -> bool:
    """Whether a text may mean several names."""
    return any(sign in name for sign in "*?[")
