"""The lines of an exported plan file: similar VMs combined, common keys in `defaults`, and the file's layout.

The layout covers the sections, the comments, and the omissions at the end.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.documents import laid_out
from vgpu_cfg.model.ranges import runs_of
from vgpu_cfg.model.wording import as_counted, shown
from vgpu_cfg.planning.exporting.selection import Tied, members_of
from vgpu_cfg.planning.exporting.vm_keys import ExportedVm, in_order

_OF_ITS_LINE = frozenset({"place", "ignore"})
"""The keys that stay in their line: that they hold for all lines is by chance."""

_WIDTH = 100
_LEFT_OUT = "Not in this file:"
_FOUND = "The next plan still reports:"


@dataclass(slots=True)
class Line:
    """One line of `vms`: its name and keys, and what differs for some of its VMs, by their names."""

    name: str
    keys: dict[str, Any]
    vms: list[ExportedVm]
    exceptions: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def because(self) -> list[str]:
        """Why it leaves drift alone, each reason once."""
        return list(dict.fromkeys(why for one in self.vms for why in one.because))

    def written(self) -> dict[str, Any]:
        """Return the line as the file has it."""
        return {"name": self.name, **in_order(self.keys)}


def lines_of(found: Sequence[ExportedVm], tied: Tied) -> list[Line]:
    """Write the VMs as lines, in the order in which people count."""
    lines: list[Line] = []
    taken: set[str] = set()
    for name, members in tied.lines.items():
        if line := _tied_line(name, members):
            lines.append(line)
            taken |= {one.vm.moid for one in members}
    rest = [one for one in found if one.vm.moid not in taken]
    for alike in _alike(rest):
        by_name = {one.name: one for one in alike}
        for written, names in runs_of(sorted(by_name, key=as_counted)):
            vms = [by_name[name] for name in names]
            lines.append(Line(written, dict(vms[0].keys), vms))
    return sorted(lines, key=lambda line: as_counted(line.vms[0].name))


def lift(lines: Sequence[Line]) -> dict[str, Any]:
    """Take what all lines say out of them, and return it."""
    if len(lines) < 2:
        return {}
    said = _common([line.keys for line in lines])
    common = {key: value for key, value in said.items() if key not in _OF_ITS_LINE}
    for line in lines:
        line.keys = {key: value for key, value in line.keys.items() if key not in common}
    return in_order(common)


def _alike(found: Sequence[ExportedVm]) -> Iterator[list[ExportedVm]]:
    groups: list[list[ExportedVm]] = []
    for one in found:
        same = next((group for group in groups if group[0].keys == one.keys), None)
        if same is None:
            groups.append([one])
        else:
            same.append(one)
    yield from groups


def _tied_line(name: str, members: Sequence[ExportedVm]) -> Line | None:
    """Write VMs that a rule ties to one line; what some of them say otherwise is an exception.

    None where the line has other VMs, or where a key that some have cannot be unsaid for the others.
    """
    if sorted(members_of(name)) != sorted(one.name for one in members):
        return None
    shared = _common([one.keys for one in members])
    places = [one.keys.get("place", {}) for one in members]
    if place := _common(places):
        shared["place"] = place
    exceptions: dict[str, dict[str, Any]] = {}
    for alike in _alike([one for one in members if one.keys != shared]):
        own = _beside(alike[0].keys, shared)
        for written, _ in runs_of(sorted((one.name for one in alike), key=as_counted)):
            exceptions[written] = own
    return Line(name, shared, list(members), exceptions)


def _common(keys: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return what all of them say."""
    first = keys[0]
    return {key: first[key] for key in first if all(key in one and one[key] == first[key] for one in keys)}


def _beside(own: Mapping[str, Any], shared: Mapping[str, Any]) -> dict[str, Any]:
    """Return one member's additions to the rest of its line; `place` is laid upon that of the line."""
    place = shared.get("place", {})
    differing = {key: value for key, value in own.items() if shared.get(key) != value}
    if "place" in differing:
        differing["place"] = {key: value for key, value in own["place"].items() if place.get(key) != value}
    return differing


@dataclass(slots=True)
class Content:
    """The content of the file. `left_out` becomes comments at its end."""

    head: Mapping[str, Any]
    shared: Mapping[str, Any] = field(default_factory=dict)
    hosts: Sequence[Mapping[str, Any]] = ()
    networks: Sequence[str] = ()
    lines: Sequence[Line] = ()
    left_out: Sequence[str] = ()


def written(content: Content) -> str:
    """Write the file."""
    parts = [laid_out(content.head, depth=1)]
    if content.shared:
        parts.append(laid_out({"defaults": content.shared}, depth=2))
    if content.hosts:
        parts.append("hosts:\n" + "".join(laid_out([entry], depth=2) for entry in content.hosts))
    if content.networks:
        parts.append(laid_out({"networks": list(content.networks)}, depth=1))
    if content.lines:
        parts.append("vms:\n" + "".join(map(_line, content.lines)))
    if content.left_out:
        parts.append(_notes(_LEFT_OUT, content.left_out))
    return "\n".join(parts)


def with_findings(text: str, found: Sequence[str]) -> str:
    """Return the file with the findings of the next plan as comments at its end."""
    return "\n".join([text, _notes(_FOUND, found)]) if found else text


def _notes(title: str, notes: Sequence[str]) -> str:
    return "".join(_comment(note) for note in (title, *(f"  {note}" for note in notes)))


def _line(line: Line) -> str:
    text = "".join(_comment(why) for why in line.because) + laid_out([line.written()], depth=2)
    if not line.exceptions:
        return text
    differing = laid_out({"except": line.exceptions}, depth=2)
    return text + textwrap.indent(differing, "  ")


def _comment(text: str) -> str:
    text = shown(text)
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    lines: Iterable[str] = textwrap.wrap(
        text, _WIDTH - 2, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False
    )
    return "".join(f"# {line}\n" for line in lines)
