"""How VMs that are alike become one line, and what all lines say becomes `defaults`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from vgpu_cfg.model.ranges import runs_of
from vgpu_cfg.model.wording import as_counted
from vgpu_cfg.planning.exporting.ties import Tied, members_of
from vgpu_cfg.planning.exporting.vm_keys import ExportedVm, in_order

_OF_ITS_LINE = frozenset({"place", "ignore"})
"""What stays where it is: that it holds for all lines is by chance."""


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
    """Return what one says besides the rest of its line; `place` is laid upon that of the line."""
    place = shared.get("place", {})
    differing = {key: value for key, value in own.items() if shared.get(key) != value}
    if "place" in differing:
        differing["place"] = {key: value for key, value in own["place"].items() if place.get(key) != value}
    return differing
