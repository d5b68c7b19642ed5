"""Merge `defaults`, a line and its `except` into one: mappings merge, all else is replaced."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from vgpu_cfg.documents import Loc, Part
from vgpu_cfg.errors import DocumentFault
from vgpu_cfg.model.ranges import Member, fill, has_templates

_COUNTED_KEYS = ("gpus", "nics")
"""Keys whose items have a `count`, and so a `{k}`."""


@dataclass(frozen=True, slots=True)
class Layers:
    """The layers of one VM's keys, weakest first; the line itself is at `own`."""

    parts: tuple[Part, ...]
    own: Part

    def merged(self) -> dict[str, Any]:
        """Return all keys, the later layers' before the earlier ones'."""
        result: dict[str, Any] = {}
        for part in self.parts:
            if isinstance(part.data, Mapping):
                result = merge(result, part.data)
        return result

    def holder(self, loc: Loc) -> Part:
        """Return the layer that the value at `loc` comes from; the line where no layer has it.

        Mappings merge: of those that have the first key, it is the last that has the most of the rest.
        """
        depths = [_depth(part.data, loc) for part in self.parts]
        deepest = max(depths, default=0)
        if not deepest:
            return self.own
        return next(
            part for part, depth in zip(self.parts[::-1], depths[::-1], strict=True) if depth == deepest
        )

    def fault(self, loc: Loc, message: str, hint: str = "") -> DocumentFault:
        """Make a fault where the value at `loc` comes from; at the line where no layer has it."""
        if not any(_depth(part.data, loc) for part in self.parts):
            return self.own.fault((), message, hint)
        return self.holder(loc).fault(loc, message, hint)


def _depth(data: Any, loc: Loc) -> int:
    """Count the keys of a place that are in a layer; a list is replaced completely."""
    for depth, element in enumerate(loc):
        if isinstance(data, list):
            return len(loc)
        if not isinstance(data, Mapping) or element not in data:
            return depth
        data = data[element]
    return len(loc)


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay `over` upon `base`: mappings key by key, anything else as a whole."""
    result = dict(base)
    for key, value in over.items():
        below = result.get(key)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        result[key] = merge(below, value) if both and below is not None else value
    return result


def fill_part(part: Part, member: Member) -> tuple[Part, list[DocumentFault]]:
    """Put a member's numbers into every text of a part."""
    if not has_templates(part.data):
        return part, []
    faults: list[DocumentFault] = []
    data = _filled(part, part.data, member, (), faults)
    return Part(part.document, part.loc, data), faults


def _filled(part: Part, value: Any, member: Member, loc: Loc, faults: list[DocumentFault]) -> Any:
    match value:
        case str():
            return _filled_text(part, value, member, loc, faults)
        case Mapping():
            return {key: _filled(part, inner, member, (*loc, key), faults) for key, inner in value.items()}
        case list():
            return [_filled(part, inner, member, (*loc, index), faults) for index, inner in enumerate(value)]
        case _:
            return value


def _filled_text(part: Part, text: str, member: Member, loc: Loc, faults: list[DocumentFault]) -> str:
    if "{k}" in text and not (loc and loc[0] in _COUNTED_KEYS):
        faults.append(
            part.fault(loc, "{k} is a device's number within an item of `gpus` or `nics`", "use {n} or {i}")
        )
    try:
        return fill(text, member)
    except ValueError as error:
        faults.append(part.refused(loc, error))
        return text


def first_of_each_place(
    faults: Sequence[DocumentFault], seen: set[tuple[str, int, int]]
) -> list[DocumentFault]:
    """Keep the faults at new places, and remember theirs.

    A fault in a line of fourteen VMs is reported once, for the first of them.
    """
    fresh = [fault for fault in faults if (fault.file, fault.line, fault.column) not in seen]
    seen.update((fault.file, fault.line, fault.column) for fault in fresh)
    return fresh
